"""What people see of a dev run: the verdict, a line a check, what it cannot show, and what to type next."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

_COLOURS = {"passed": "green", "failed": "red", "not_shown": "yellow"}
_INDENT = 4


def view(out: Console, data: Mapping[str, Any], message: str) -> None:
    """Print it; a refusal's own line follows on stderr."""
    out.print(f"[bold]{escape(message)}[/]")
    for flag in data["red_flags"]:
        _indented(out, f"red flag, approved by nobody: {flag}")
    for check in data["checks"]:
        outcome = check["outcome"]
        word = outcome.replace("_", " ").ljust(9)
        out.print(f"  [{_COLOURS[outcome]}]{word}[/] [bold]{escape(check['name'])}[/]")
        _indented(out, check["detail"])
        if check["hint"]:
            _indented(out, f"hint: {check['hint']}")
    if data["not_shown"]:
        out.print("so short a run does not show:")
        for name, why in data["not_shown"].items():
            _indented(out, f"{name}: {why}")
    if data["dev_dir"]:
        out.print(f"recorded in {escape(data['dev_dir'])}")
    if data["next_command"]:
        out.print(f"next: {escape(data['next_command'])}")


def _indented(out: Console, text: str) -> None:
    margin = " " * _INDENT
    width = max(40, out.width - _INDENT)
    for line in text.splitlines():
        for part in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]:
            out.print(margin + escape(part))
