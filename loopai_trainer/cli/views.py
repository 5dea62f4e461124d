"""What people see: each command's answer as text, at any width, with or without colour, and never cropped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.markup import escape
from rich.table import Table

from loopai_trainer.cli import approval_view, compare_view, dev_view, doctor_view, guide_view, list_view
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.page import Page
from loopai_trainer.operations.answer import Answer, problem_json
from loopai_trainer.rules import messages
from loopai_trainer.rules.visible_text import visible

SHOWN_PROBLEMS = 20
"""More findings than this stand in the report file; the JSON has them all (capped per code)."""


def show(answer: Answer, output: Output) -> None:
    """Print the answer for people: data on stdout, a refusal on stderr."""
    if answer.data is not None:
        view = _VIEWS.get(answer.command, _pairs)
        view(Page(output, sys.stdout), answer.data, answer.message)
    if answer.error is not None:
        _refusal(Page(output, sys.stderr), answer, len(answer.error.problems) if output.verbose else SHOWN_PROBLEMS)


def _refusal(out: Page, answer: Answer, most: int) -> None:
    error = answer.error
    assert error is not None  # show() calls this for refusals alone
    who = "trainer" if answer.command == "trainer" else f"trainer {answer.command}"
    out.print(f"[bold red]{who}: {escape(error.message)}[/] [dim]({error.code})[/]")
    problems = [problem_json(problem) for problem in error.problems]
    if len(problems) == 1 and problems[0]["hint"] == error.hint:
        problems[0]["hint"] = ""  # it stands below
    for problem in problems[:most]:
        out.print(_problem_line(problem, out.say))
    if len(problems) > most:
        out.print(f"  ... and {len(problems) - most} more findings")
    changed = error.details.get("changed")
    if isinstance(changed, Mapping):
        _changed_yaml(out, changed)
    if error.details.get("report_path"):
        out.print(f"report: {escape(str(error.details['report_path']))}")
    if error.hint:
        out.print(f"[bold]{out.say('approval.hint')}[/] {escape(error.hint)}")
    if error.next_command:
        out.print(f"next:  {escape(error.next_command)}")


def _changed_yaml(out: Page, changed: Mapping[str, Any]) -> None:
    """What stands in the YAML now, and how it differs from what was shown before (interface section 5, exit 5)."""
    out.lines(f"\n[bold]{escape(str(changed['config_path']))}[/] as it is now:")
    out.lines(escape(visible(str(changed["config_yaml"]))))
    if changed.get("diff"):
        out.print("\n[bold]what changed:[/]")
        approval_view.unified(out, str(changed["diff"]))
    out.print(f"its SHA-256: {changed['config_sha256']}\n")


def _problem_line(problem: Mapping[str, Any], say: messages.Say) -> str:
    place = problem["path"] or problem["where"]
    if problem["line"] is not None:
        place = f"{place}:{problem['line']}"
    elif problem["row"] is not None:
        place = f"{place} row {problem['row']}"
    if problem["field"]:
        place = f"{place} [{problem['field']}]"
    colour = "red" if problem["severity"] == "error" else "yellow"
    said = f"{escape(place)}: {escape(problem['message'])}"
    line = f"  [{colour}]{say('approval.' + problem['severity'])}[/] {said} [dim]({problem['code']})[/]"
    return line + (f"\n        {say('approval.hint')} {escape(problem['hint'])}" if problem["hint"] else "")


def _approval(out: Page, data: Mapping[str, Any], message: str, *, done: str) -> None:
    """`done`: the text that says in the reader's language what `message` says in English."""
    warnings(out, data["warnings"])
    if data.get("refreshed"):
        out.print(f"\n[bold]{out.say('approval.taken_in')}[/]")
        approval_view.changes(out, data["refreshed"]["changed"])
    approval_view.changes_since(out, data.get("diff"))
    approval_view.yaml(out, data["config_path"], data["config_yaml"])
    out.print()
    table(out, data["summary"])
    counts(out, data["counts"])
    out.print("\n" + escape(out.say(done, version=data["trainer_version_id"], path=data["config_path"])))
    out.print(f"SHA-256  [bold]{data['config_sha256']}[/]")
    approval_view.remind(out, data["warnings"])
    asked = data["next_command"].split()[1:2] == ["approve"]
    following = out.say("approval.person_approves" if asked else "approval.run_exactly_this")
    out.print(f"{out.say('approval.read_above')} {following}")
    out.print(f"  {escape(data['next_command'])}")


def warnings(out: Page, found: Sequence[Mapping[str, Any]]) -> None:
    """Findings, one a line, each with its hint."""
    for warning in found:
        out.lines(_problem_line(warning, out.say))


def table(out: Page, values: Mapping[str, Any]) -> None:
    """Names and values in two columns."""
    rows = Table(show_header=False, box=None, pad_edge=False)
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in values.items():
        rows.add_row(escape(name), escape(_shown(value)))
    out.print(rows, soft_wrap=False)


def _unbroken(out: Page, values: Mapping[str, Any]) -> None:
    """The same for what is copied from here: a path that is wider than the page stays one word."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        out.print(f"[bold]{escape(name.ljust(width))}[/]  {escape(_shown(value))}")


def counts(out: Page, found: Mapping[str, Mapping[str, int] | None]) -> None:
    """Rows accepted and left out, a line a split."""
    for where, count in found.items():
        if count:
            name = "approval.rows_left_out" if count["rejected"] else "approval.rows"
            out.print(out.say(name, where=where, **count))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_shown(item)}" for key, item in value.items()) or "-"
    return str(value)


def _pairs(out: Page, data: Mapping[str, Any], message: str) -> None:
    if message:
        out.print(escape(message))
    table(out, data)


def _run(out: Page, data: Mapping[str, Any], message: str) -> None:
    out.print(escape(message))
    rows = {name: data.get(name) for name in _RUN_ROWS if data.get(name) is not None}
    best = data.get("best_checkpoint")
    if best:
        rows["best_checkpoint"] = (
            f"{best['name']} (step {best['step']}{'' if best['exact'] else ', nearest to the best step'})"
        )
    metric = data.get("best_metric")
    if metric:
        rows["best_metric"] = f"{metric['name']} = {metric['value']:g} at step {metric['step']} ({metric['mode']})"
    _unbroken(out, rows)
    result = data.get("result")
    if not isinstance(result, Mapping):
        return
    if result.get("reason"):
        out.print(escape(str(result["reason"])))
    for warning in result.get("warnings") or ():
        out.print(f"  [yellow]warning[/] {escape(str(warning))}")
    if result.get("curve"):
        out.print(escape(str(result["curve"])))
    if result.get("report_path"):
        out.print(f"report: {escape(str(result['report_path']))}")
    if result.get("page_path"):
        out.print(f"page:   {escape(str(result['page_path']))}")


def _status(out: Page, data: Mapping[str, Any], message: str) -> None:
    from loopai_trainer.cli import progress, watch_view

    _run(out, data, message)
    if isinstance(data.get("eta_s"), int | float):
        out.print(f"about {progress.duration_text(data['eta_s'])} left")
    recent = data.get("recent")
    if recent and not (data.get("result") or {}).get("curve"):
        out.print(escape(watch_view.spark(recent["name"], recent["values"], out.width, out.encoding)))
    if data["status"] in ("failed", "orphaned"):
        _what_next(out, data.get("error") or {})


def _what_next(out: Page, error: Mapping[str, Any]) -> None:
    """The end of the log, what to do, and the command for it: as `wait` says it of the same run."""
    lines = error.get("log_tail") or ()
    if lines:
        out.print(f"the last {len(lines)} lines of its log:" if len(lines) > 1 else "the last line of its log:")
    for line in lines:
        out.print(f"  {escape(visible(str(line)))}")
    if error.get("hint"):
        out.print(f"[bold]{out.say('approval.hint')}[/] {escape(str(error['hint']))}")
    if error.get("next_command"):
        out.print(f"next:  {escape(str(error['next_command']))}")


_RUN_ROWS = (
    "trainer_version_id",
    "task_id",
    "status",
    "phase",
    "current_step",
    "total_steps",
    "started_at",
    "updated_at",
    "run_dir",
    "update_model_path",
)


def _logs(out: Page, data: Mapping[str, Any], message: str) -> None:
    for line in data["lines"]:
        out.file.write(line + "\n")
    if message and (not data["lines"] or data["source"] != data["path"]):
        sys.stderr.write(message + "\n")


def _events(out: Page, data: Mapping[str, Any], message: str) -> None:
    for event in data["events"]:
        out.print(escape(event_line(event)))
    if not data["events"]:
        out.print("no events yet")


def event_line(event: Mapping[str, Any]) -> str:
    """One event on one line."""
    progress = event.get("progress")
    share = "" if progress is None else f"{100 * progress:.0f} %"
    said = event.get("message") or share
    when = event.get("time") or event.get("at") or ""  # files of earlier versions lack some keys
    return f"{event['seq']:>5} {when} {event.get('node') or '-':<12} {event.get('status') or '-':<10} {said}"


def _analysis(out: Page, data: Mapping[str, Any], message: str) -> None:
    out.print(escape(data["summary"]["reason"]))
    for warning in data["summary"].get("warnings", ()):
        out.print(f"  [yellow]warning[/] {escape(str(warning))}")
    table = Table(box=None, pad_edge=False)
    for name in ("checkpoint", "step", "complete", "why"):
        table.add_column(name, overflow="fold")
    chosen = (data["best_checkpoint"] or {}).get("name")
    for checkpoint in data["checkpoints"]:
        mark = " *" if checkpoint["name"] == chosen else ""
        complete = "yes" if checkpoint["complete"] else "no"
        table.add_row(checkpoint["name"] + mark, str(checkpoint["step"]), complete, escape(checkpoint["why"] or ""))
    if data["checkpoints"]:
        out.print(table, soft_wrap=False)


def _templates(out: Page, data: Mapping[str, Any], message: str) -> None:
    if data["text"] is not None:
        out.file.write(data["text"])
        return
    table(out, {item["name"]: item["title"] or item["path"] for item in data["templates"]})
    out.print(escape(message))


def _schema(out: Page, data: Mapping[str, Any], message: str) -> None:
    import json

    out.file.write(json.dumps(data["schema"], indent=2) + "\n")


def _docs(out: Page, data: Mapping[str, Any], message: str) -> None:
    out.file.write(data["text"])


_VIEWS: Mapping[str, Callable[[Page, Mapping[str, Any], str], None]] = {
    "prepare": partial(_approval, done="approval.prepared"),
    "inspect": partial(_approval, done="approval.inspected"),
    "approve": approval_view.approved,
    "diff": approval_view.diff,
    "run-prepared": _run,
    "run": _run,
    "wait": _run,
    "status": _status,
    "cancel": _run,
    "recover": _run,
    "list": list_view.view,
    "trainer": list_view.overview,
    "logs": _logs,
    "events": _events,
    "analyze": _analysis,
    "compare": compare_view.view,
    "dev": dev_view.view,
    "doctor": doctor_view.view,
    "guide": guide_view.view,
    "templates": _templates,
    "schema": _schema,
    "docs": _docs,
}
