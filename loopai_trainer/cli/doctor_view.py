"""What people see of `doctor`: a line a check, and below a bad one what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape


def view(out: Console, data: Mapping[str, Any], message: str) -> None:
    """Print it; long lines wrap in the terminal, so that paths can be copied whole."""
    width = max(len(check["name"]) for check in data["checks"])
    for check in data["checks"]:
        mark = "[green]ok [/]" if check["ok"] else "[red]bad[/]"
        out.print(f"{mark} [bold]{escape(check['name'].ljust(width))}[/]  {escape(check['detail'])}")
        if check["hint"]:
            out.print(f"    {' ' * width}  [bold]hint:[/] {escape(check['hint'])}")
    if all(check["ok"] for check in data["checks"]):
        out.print(escape(message))  # else the refusal says it
