"""Runs as people see them: a table, and what `trainer` alone says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from loopai_trainer.cli.page import Page

SHOWN = 5
_KINDS = {
    "orphaned": "Lost their worker, training lives: an operator decides (or: --terminate)",
    "waiting": "Wait for your approval; this shows them, and how to start them",
    "going_on": "Going on",
    "ended": "Ended last",
}


def view(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer list`."""
    out.print(escape(message))
    if data["runs"]:
        _table(out, data["runs"])


def overview(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer` alone."""
    out.print(f"loopai-trainer {data['version']}: prepare a plan, approve its hash, run exactly that.\n")
    out.print(escape(message))
    if data["runs"]:
        _table(out, data["runs"])
    for kind, title in _KINDS.items():
        items = data[kind]
        if items:
            out.print(f"\n[bold]{title}[/]")
        for item in items[:SHOWN]:
            out.print(f"  {escape(item['next_command'])}")
        if len(items) > SHOWN:
            out.print(f"  ... and {len(items) - SHOWN} more: trainer list")
    for step in data["first_steps"]:
        out.print(f"  {step['next_command']:<18} {step['what']}")
    out.print("\nA new plan: trainer prepare. How it is done: trainer docs.")
    out.print("All commands: trainer --help")


def _table(out: Page, runs: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("version", "task", "status", "step", "best"):
        table.add_column(name, overflow="fold")
    for run in runs:
        step = "-" if run["current_step"] is None else f"{run['current_step']}/{run['total_steps'] or '?'}"
        best = run.get("best_checkpoint") or {}
        status = run["status"] or "unreadable"
        table.add_row(run["trainer_version_id"], run["task_id"], status, step, best.get("name", "-"))
    out.print(table, soft_wrap=False)
