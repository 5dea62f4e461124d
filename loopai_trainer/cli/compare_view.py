"""What people see of `compare`: the runs, one a row, and below it what differs in their plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def view(out: Console, data: Mapping[str, Any], message: str) -> None:
    """Two tables at any width: text folds, nothing is cropped."""
    out.print(escape(message))
    rows = Table(box=None, pad_edge=False)
    for name in ("version", "status", "best", "checkpoint", "step", "took", "error"):
        rows.add_column(name, overflow="fold")
    for run in data["runs"]:
        best, error = run["best_metric"], run["last_error"]
        rows.add_row(
            escape(run["version_id"]),
            run["status"],
            "-" if best is None else f"{best['value']:g}",
            escape(run["best_checkpoint_name"] or "-"),
            "-" if run["best_step"] is None else str(run["best_step"]),
            "-" if run["duration_s"] is None else took(run["duration_s"]),
            escape(str(error).splitlines()[0]) if error else "",
        )
    out.print(rows, soft_wrap=False)
    if data["page_path"]:
        out.print(f"page: {escape(data['page_path'])}")
    if not data["config_differences"]:
        out.print("\nthe plans do not differ")
        return
    out.print("\n[bold]What differs in the plans:[/]")
    for difference in data["config_differences"]:
        out.print(f"  [bold]{escape(difference['key'])}[/]")
        for version, value in difference["values"].items():
            out.print(f"    {escape(version)}: {escape(shown(value))}")


def took(seconds: float) -> str:
    """A duration for people: 45 s, 12 min, 3 h 20 min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def shown(value: object) -> str:
    """A value; of a hash its beginning."""
    text = "-" if value is None else str(value)
    is_hash = len(text) == 64 and all(character in "0123456789abcdef" for character in text)
    return text[:12] if is_hash else text
