"""Runs as people see them: a table, and what `trainer` alone says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from loopai_trainer.cli.page import Page

SHOWN = 5
_KINDS = ("orphaned", "waiting", "going_on", "ended")
_COLUMNS = ("version", "task", "status", "step", "best")


def view(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer list`."""
    out.print(escape(message))
    if data["runs"]:
        _table(out, data["runs"], _COLUMNS)


def overview(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer` alone, in the reader's language."""
    out.print(out.say("overview.title", version=data["version"]) + "\n")
    out.print(_how_many(out, data["count"], len(data["runs"])))
    if data["runs"]:
        _table(out, data["runs"], [out.say(f"overview.{name}") for name in _COLUMNS])
    for kind in _KINDS:
        items = data[kind]
        if items:
            out.print(f"\n[bold]{out.say(f'overview.{kind}')}[/]")
        for item in items[:SHOWN]:
            out.print(f"  {escape(item['next_command'])}")
        if len(items) > SHOWN:
            out.print("  " + out.say("overview.more", count=len(items) - SHOWN))
    for step in data["first_steps"]:
        verb = step["next_command"].split()[-1]
        out.print(f"  {step['next_command']:<18} {out.say(f'overview.{verb}')}")
    out.print("\n" + out.say("overview.new_plan"))
    out.print(out.say("overview.all_commands"))


def _how_many(out: Page, count: int, shown: int) -> str:
    if count > shown:
        return out.say("overview.newest_runs", count=count, shown=shown)
    named = {0: "overview.no_runs", 1: "overview.one_run"}
    return out.say(named.get(count, "overview.runs"), count=count)


def _table(out: Page, runs: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for run in runs:
        step = "-" if run["current_step"] is None else f"{run['current_step']}/{run['total_steps'] or '?'}"
        best = run.get("best_checkpoint") or {}
        status = run["status"] or "unreadable"
        table.add_row(run["trainer_version_id"], run["task_id"], status, step, best.get("name", "-"))
    out.print(table, soft_wrap=False)
