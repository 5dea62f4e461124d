"""What people see of `guide`: what is needed from them, what they gave, what was filled in, and what to type next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from loopai_trainer.cli.page import Page
from loopai_trainer.rules import messages
from loopai_trainer.rules.visible_text import visible


def view(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer guide`, in the language that its settings name."""
    say = messages.speaker(messages.language_of(data["language"]))
    named = {"task": data["task_id"], "framework": data["train_framework"], "stage": data["train_stage"]}
    out.print(f"[bold]{escape(say('guide.title', **named))}[/]")
    out.print(escape(say("guide.gate")))
    _needed(out, data, say)
    filled = set(data["auto_filled_fields"])
    settings = data["settings"]
    given = [name for name in settings if settings[name]["origin"] != "default"]
    _table(out, say("guide.given"), given, data, say)
    _table(out, say("guide.filled"), [name for name in settings if name in filled], data, say)
    for warning in data["warnings"]:
        out.print(f"[yellow]{escape(warning['message'])}[/]: {escape(warning['hint'])}")
    _next(out, data, message, say)


def _needed(out: Page, data: Mapping[str, Any], say: messages.Say) -> None:
    if not data["user_required_fields"]:
        return
    out.print(f"\n[bold red]{escape(say('guide.needed'))}[/]")
    problems = {problem["field"]: problem for problem in data["problems"]}
    for name in data["user_required_fields"]:
        hint = data["field_hints"][name]
        out.print(f"  [bold]{name}[/]: {escape(hint['help'])}")
        problem = problems.get(name)
        if problem is not None and name not in data["missing_fields"]:
            out.print(f"      [red]{escape(visible(_unusable(data, name, problem, say)))}[/]")
            out.print(f"      {escape(problem['hint'])}")
            continue
        out.print(f"      {escape(say('guide.how', ways=_ways(hint, say)))}")
        if hint["choices"]:
            out.print(f"      {escape(say('guide.choices', choices=', '.join(hint['choices'])))}")


def _unusable(data: Mapping[str, Any], name: str, problem: Mapping[str, Any], say: messages.Say) -> str:
    value = data["settings"][name]["value"]
    if value in (None, ""):
        return str(problem["message"])
    origin = _origin(data["settings"][name]["origin"], say)
    return say("guide.unusable", name=name, value=value, origin=origin, why=problem["message"])


def _ways(hint: Mapping[str, Any], say: messages.Say) -> str:
    flag = f"{hint['flag']} VALUE" if hint["flag"] else f"--option {hint['option']}=VALUE"
    return say("guide.or").join((flag, *hint["environment"], hint["state"]))


def _table(out: Page, title: str, names: Iterable[str], data: Mapping[str, Any], say: messages.Say) -> None:
    """Setting, value and origin, a row each."""
    rows = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_column(style="dim", overflow="fold")
    for name in names:
        setting = data["settings"][name]
        origin = "" if setting["origin"] == "default" else say("guide.from", origin=setting["origin"])
        rows.add_row("  " + escape(name), escape(visible(_shown(setting["value"]))), escape(visible(origin)))
    if rows.row_count:
        out.print(f"\n[bold]{escape(title)}[/]")
        out.print(rows, soft_wrap=False)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _origin(origin: str, say: messages.Say) -> str:
    return say("guide.default") if origin == "default" else origin


def _next(out: Page, data: Mapping[str, Any], message: str, say: messages.Say) -> None:
    out.print(f"\n{escape(message)}")
    if data["next_command"]:
        out.print(f"{escape(say('guide.confirm'))}\n  {escape(data['next_command'])}")
    elif not data["ready"]:
        for example in data["examples"]:
            out.print(f"{escape(say('guide.for_example'))}\n  {escape(example)}")
