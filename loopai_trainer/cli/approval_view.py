"""What an approver sees: red flags, what changed, the summary, the whole YAML; and the changes between two plans."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.markup import escape
from rich.syntax import Syntax

from loopai_trainer.cli import long_lines
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.page import Page
from loopai_trainer.rules.visible_text import hidden, visible, visible_values

_ONE_LINE = 78
"""A change that is longer than this is written on three lines: key, before, after."""
_MARKS = {"added": "[green]+[/]", "removed": "[red]-[/]", "changed": "[yellow]~[/]"}


def before_approval(output: Output) -> Callable[[TextIO, Mapping[str, Any]], None]:
    """Shows the approval data on the operator's terminal, whatever stdout is (`trainer approve`)."""

    def show(stream: TextIO, data: Mapping[str, Any]) -> None:
        from loopai_trainer.cli import views

        out = Page(output, stream)
        shown = visible_values(dict(data))
        views.warnings(out, shown["warnings"])
        changes_since(out, shown["diff"])
        out.print()
        views.table(out, shown["summary"])
        views.counts(out, shown["counts"])
        yaml(out, shown["config_path"], data["config_yaml"])
        out.print(f"\nSHA-256  [bold]{shown['config_sha256']}[/]")
        remind(out, shown["warnings"])
        stream.flush()

    return show


def yaml(out: Page, path: str, text: str) -> None:
    """The whole YAML. Characters that a terminal does not show, or obeys, are spelt out, and it is said."""
    out.lines(f"\n[bold]{escape(path)}[/]")
    if hidden(text):
        out.print(f"  [red]{escape(out.say('approval.hidden'))}[/]")
    shown = Syntax("", "yaml", theme="ansi_dark", background_color="default").highlight(visible(text))
    if any(len(pieces) > 1 for pieces in long_lines.broken(shown, out.columns())):
        out.print(f"  {escape(out.say('approval.long_lines', mark=long_lines.MARK.strip()))}")
    out.lines(shown)


def remind(out: Page, warnings: Sequence[Mapping[str, Any]]) -> None:
    """Say, where the eye rests, that warnings have scrolled by."""
    if warnings:
        name = "approval.one_warning_above" if len(warnings) == 1 else "approval.warnings_above"
        out.print(f"[yellow]{out.say(name, count=len(warnings))}[/]")


def changes_since(out: Page, diff: Mapping[str, Any] | None) -> None:
    """The keys that differ from the last approved round; nothing for a task's first."""
    if diff is None:
        return
    against = diff["against"]
    since = out.say("approval.changed_since", round=against["round"], version=against["version_id"])
    out.print(f"\n[bold]{escape(since)}[/]")
    if diff["changed"] is None:
        out.print(f"  {out.say('approval.round_gone')}")
    else:
        changes(out, diff["changed"])


def changes(out: Page, changed: Sequence[Mapping[str, Any]]) -> None:
    """One line a key, or three where before and after are long."""
    for change in changed:
        key, before, after = change["key"], _shown(change["from"]), _shown(change["to"])
        said = {"added": after, "removed": before}.get(change["kind"], f"{before} -> {after}")
        mark = _MARKS[change["kind"]]
        if len(key) + len(said) + 6 <= _ONE_LINE or change["kind"] != "changed":
            out.lines(f"  {mark} {escape(visible(f'{key}: {said}'))}")
        else:
            out.lines(f"  {mark} {escape(visible(key))}")
            out.lines(f"      {out.say('approval.before')} {escape(visible(before))}")
            out.lines(f"      {out.say('approval.after')} {escape(visible(after))}")
    if not changed:
        out.print(f"  {out.say('approval.nothing_changed')}")


def diff(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer diff`."""
    out.print(escape(message))
    if data["changed"]:
        changes(out, data["changed"])
    if data["unified"]:
        out.print()
        unified(out, data["unified"])


def unified(out: Page, text: str) -> None:
    """A unified diff, coloured by its first characters."""
    for line in visible(text).splitlines():
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        out.lines(f"[{colour}]{escape(line)}[/]" if colour else escape(line))


def approved(out: Page, data: Mapping[str, Any], message: str) -> None:
    """The answer of `trainer approve`."""
    record = data["approval"]
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record["expires_at"]))
    said = {"version": record["version_id"], "round": record["round"], "until": until}
    out.print(escape(out.say("approval.approved", **said)))
    out.print(f"SHA-256  [bold]{record['config_sha256']}[/]")
    out.print(out.say("approval.start_once"))
    out.print(f"  {escape(data['next_command'])}")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if value and shlex.quote(value) == value else repr(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and "e" in repr(value) and "." not in repr(value):
        return repr(value).replace("e", ".0e")  # as it stands in the YAML
    return str(value)
