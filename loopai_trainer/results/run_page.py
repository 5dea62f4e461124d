"""report.html: one run on one page, for a browser that is offline: what came out of it, why, and what was approved."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from loopai_trainer.errors import ApprovalError, TrainerError
from loopai_trainer.files import approval_file, atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import Selection
from loopai_trainer.results import page_curves
from loopai_trainer.results.analysis import Analysis
from loopai_trainer.results.html_text import Html, element, escaped, facts, folded, image, section, table
from loopai_trainer.results.page_frame import CURVES, Drawing, document
from loopai_trainer.results.report import Report, clock, metric_table
from loopai_trainer.rules import secrets

REPORT_BYTES = 256 * 1024
"""More of the data report than that is no reading; the file is named."""
_ROOM_BYTES = 16 * 1024 * 1024
_PICTURE_BYTES = 4 * 1024 * 1024
_APPROVAL = (
    ("approved via", "approved_via"),
    ("note", "note"),
    ("round", "round"),
    ("prepared", "prepared_at"),
    ("approved", "approved_at"),
    ("expires", "expires_at"),
    ("used", "consumed_at"),
    ("used by", "consumed_by"),
    ("previous round", "previous_round"),
    ("SHA-256", "config_sha256"),
)
_APPROVER = (("user", "user"), ("uid", "uid"), ("host", "host"), ("terminal", "tty"), ("agents", "agent_variables"))

DRAWN = escaped(
    [
        element("div", id=CURVES),
        element(
            "p",
            "Point at a curve for its values; drag over a stretch to zoom in, the round arrow leads back; click a name "
            "to hide its curve. All panels zoom together.",
            class_="dim",
        ),
    ]
)
"""Where the curves are drawn into."""
NOT_DRAWN = element(
    "p", "Curves that can be hovered and zoomed need Bokeh: pip install 'loopai-trainer[plot]'.", class_="dim"
)


def write(run: RunDir, report: Report) -> str:
    """Write the page; returns what its curves are, or why there is none. Raises OSError."""
    if shutil.disk_usage(run.path).free < _ROOM_BYTES:
        return "none: the disk is nearly full, and the result needs the room"
    drawn = page_curves.drawing(page_curves.panels(report.analysis.measured), marks(report.analysis.selection))
    atomic.write_text(run.page, render(run, report, drawn))
    return "curves by Bokeh" if drawn else "without moving curves"


def render(run: RunDir, report: Report, drawn: Drawing | None) -> str:
    """The page of a run that has ended, without secrets."""
    hidden = secrets.environment_values(os.environ)

    def clean(value: Any) -> Any:
        return secrets.redacted_value(value, hidden)

    plan, analysis = report.plan, report.analysis
    title = f"{plan.task_id} / {plan.version_id}"
    body = [
        heading(title, report.status),
        facts(_head(report)),
        _failure(clean(report.error.brief()) if report.error else None, _problems(report.error, clean)),
        _choice(analysis, clean),
        section("Curves", curves(drawn, report.curve, _picture(run))),
        section("Checkpoints", _checkpoints(analysis, clean)),
        section("Metrics", _metrics(analysis, clean)),
        section("Approval", _approval(run, clean)),
        section("Data", _data(run, plan.loopai.get("inputs") or {}, clean)),
        section("Configuration", _configuration(report, clean)),
    ]
    return document(title, escaped(body), drawn)


def heading(title: str, status: str) -> Html:
    """The page's title and how the run ended."""
    return element("h1", title, " ", element("span", status, class_=f"status {status}"))


def curves(drawn: Drawing | None, text: str, picture: bytes | None = None) -> Html:
    """Where the curves are drawn; without Bokeh the picture, else the curve as text."""
    if drawn is not None:
        return escaped([DRAWN, element("p", "The dashed upright line is the chosen checkpoint.", class_="dim")])
    if not picture and not text:
        return element("p", "Training logged no curve.")
    if picture:
        source = "data:image/png;base64," + base64.b64encode(picture).decode()
        return escaped([image(source, "Loss by step"), NOT_DRAWN])
    return escaped([element("pre", text), NOT_DRAWN])


def marks(chosen: Selection) -> list[int]:
    """The step of the chosen checkpoint."""
    return [] if chosen.checkpoint is None else [chosen.checkpoint.step]


def warnings_box(warnings: Any) -> Html:
    """Warnings in a box; nothing if there are none."""
    if not warnings:
        return Html("")
    held = element("ul", [element("li", warning) for warning in warnings])
    return element("div", element("strong", "Warnings"), held, class_="box warning")


def _head(report: Report) -> list[tuple[str, Any]]:
    plan, ending, analysis = report.plan, report.ending, report.analysis
    planned = ending.planned_steps or analysis.total_steps
    metric = analysis.selection.metric
    return [
        ("framework", f"{plan.framework}/{plan.stage}"),
        ("steps", f"{analysis.last_step or 0} of {planned if planned is not None else 'unknown'}"),
        ("best", f"{metric.name} = {metric.value:.6g} at step {metric.step}" if metric else None),
        ("duration", f"{ending.duration_s:.1f} s"),
        ("started", clock(ending.started_at)),
        ("ended", clock(ending.ended_at)),
        ("approved YAML", element("code", plan.sha256)),
    ]


def _problems(error: TrainerError | None, clean: Any) -> list[Html]:
    return [
        element("li", element("strong", problem.code), ": ", clean(problem.message), _advice(clean(problem.hint)))
        for problem in (error.problems if error else ())
    ]


def _failure(error: Mapping[str, Any] | None, problems: list[Html]) -> Html:
    if error is None:
        return Html("")
    said = [element("p", element("strong", error["code"]), ": ", error["detail"])]
    if error.get("hint"):
        said.append(element("p", element("strong", "What to do: "), error["hint"]))
    found = [element("p", "Found:"), element("ul", problems)] if problems else []
    return section("Why it did not complete", element("div", said, found, class_="box failure"))


def _advice(hint: str) -> Html:
    return escaped([" - ", hint]) if hint else Html("")


def _choice(analysis: Analysis, clean: Any) -> Html:
    chosen = analysis.selection.checkpoint
    path = element("p", element("code", clean(chosen.path))) if chosen else None
    return section(
        "Chosen checkpoint",
        element("p", clean(analysis.selection.reason)),
        path,
        warnings_box(clean(list(analysis.warnings))),
    )


def _checkpoints(analysis: Analysis, clean: Any) -> Html:
    if not analysis.checkpoints:
        return element("p", "None was saved.")
    chosen = analysis.selection.checkpoint
    rows = [
        (c.name + (" (chosen)" if c == chosen else ""), c.step, "yes" if c.complete else f"no: {clean(c.why)}")
        for c in analysis.checkpoints
    ]
    at = next((index for index, c in enumerate(analysis.checkpoints) if c == chosen), None)
    return table(("checkpoint", "step", "complete"), rows, marked=at)


def _metrics(analysis: Analysis, clean: Any) -> Html:
    if not analysis.measured:
        return element("p", "Training logged none.")
    head, rows, note = metric_table(analysis.measured)
    return escaped([table(clean(list(head)), rows), element("p", note, class_="dim") if note else None])


def _approval(run: RunDir, clean: Any) -> Html:
    try:
        record = approval_file.read(run)
    except (ApprovalError, OSError) as fault:
        return element("div", element("p", f"approval.json cannot be used: {fault}"), class_="box warning")
    if record is None:
        return element("p", "There is no approval record.")
    record = clean(record)
    approver = record.get("approver") or {}
    told = [(name, approver.get(key)) for name, key in _APPROVER]
    told += [(name, _time(record.get(key)) if key.endswith("_at") else record.get(key)) for name, key in _APPROVAL]
    pairs = [(name, _shown(name, value)) for name, value in told if value not in (None, "", [], {})]
    return escaped([facts(pairs), folded("The whole record", element("pre", _json(record)))])


def _data(run: RunDir, inputs: Mapping[str, Any], clean: Any) -> Html:
    rows = []
    for name in ("train", "validation"):
        entry = inputs.get(name)
        if isinstance(entry, Mapping):
            source = (entry.get("source") or {}).get("path") or entry.get("path")
            rows.append(
                (name, entry.get("rows"), entry.get("rejected", 0), clean(source), element("code", entry.get("sha256")))
            )
    text, cut = _text_file(run.data_report)
    told = [table(("split", "rows", "left out", "source", "SHA-256"), rows)] if rows else []
    if text:
        told.append(folded("The whole data report", element("pre", clean(text))))
    if cut:
        told.append(element("p", f"Cut here; the rest stands in {run.data_report}.", class_="dim"))
    return escaped(told)


def _configuration(report: Report, clean: Any) -> Html:
    pairs = [(name, _plain(value)) for name, value in clean(dict(report.settings)).items()]
    text = folded("The approved YAML", element("pre", clean(report.plan.text)))
    return escaped([facts(pairs) if pairs else None, text])


def _picture(run: RunDir) -> bytes | None:
    try:
        with open(run.picture, "rb") as file:
            data = file.read(_PICTURE_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= _PICTURE_BYTES else None


def _text_file(path: str) -> tuple[str, bool]:
    """(the beginning of a text file, whether there is more); an unreadable one is empty."""
    try:
        with open(path, "rb") as file:
            data = file.read(REPORT_BYTES + 1)
    except OSError:
        return "", False
    return data[:REPORT_BYTES].decode("utf-8", "replace"), len(data) > REPORT_BYTES


def _shown(name: str, value: object) -> Html:
    return element("code", value) if name == "SHA-256" else escaped(_plain(value))


def _time(value: object) -> object:
    return clock(value) if isinstance(value, (int, float)) else value


def _plain(value: object) -> str:
    """A record's value for people."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items() if one not in (None, ""))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
