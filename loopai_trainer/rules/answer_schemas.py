"""The shape of every `--json` answer, as JSON Schema (draft 2020-12), from one table. Pure.

Closed where this page of the interface is closed (section 5), so that a key that nobody wrote down is a failure. Tests
hold real answers against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ENVELOPE = "loopai-trainer/1"

_ANY: Schema = {}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CODE: Schema = {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"}
_OPEN: Schema = {"type": "object"}


def _one_of(*words: str) -> Schema:
    return {"enum": list(words)}


def _null(shape: Schema) -> Schema:
    return {"anyOf": [shape, {"type": "null"}]}


def _list(shape: Schema) -> Schema:
    return {"type": "array", "items": shape}


def _by_name(shape: Schema) -> Schema:
    return {"type": "object", "additionalProperties": shape}


def _record(needed: Mapping[str, Schema], other: Mapping[str, Schema] = {}, *, is_open: bool = False) -> Schema:
    """An object with all of `needed` and perhaps some of `other`; nothing else, unless it `is_open`."""
    return {
        "type": "object",
        "properties": {**needed, **other},
        "required": sorted(needed),
        "additionalProperties": is_open,
    }


_STATUS = _one_of(
    *("prepared", "approved", "queued", "running", "finalizing", "completed", "failed", "cancelled", "orphaned"),
    "unknown",
)
_VERDICT = _one_of("passed", "failed", "not_shown")
_PROBLEM = _record({
    "severity": _one_of("error", "warning"),
    "code": _CODE,
    "where": _TEXT,
    "path": _null(_TEXT),
    "line": _null(_WHOLE),
    "row": _null(_COUNT),
    "field": _null(_TEXT),
    "message": _TEXT,
    "hint": _TEXT,
    "origin": _null(_TEXT),
})  # fmt: skip
_ERROR = _record(
    {
        "type": _TEXT,
        "code": _CODE,
        "detail": _TEXT,
        "recoverable": _FLAG,
        "hint": _TEXT,
        "next_command": _TEXT,
        "problems": _list(_PROBLEM),
    },
    {
        "counts": _OPEN,
        "report_path": _null(_TEXT),
        "expected": _TEXT,
        "got": _TEXT,
        "changed": _record({"config_path": _TEXT, "config_yaml": _TEXT, "config_sha256": _SHA256, "diff": _TEXT}),
        "tried": _list(_TEXT),
        "log_path": _TEXT,
    },
    is_open=True,
)
_CHANGE = _record({"key": _TEXT, "kind": _one_of("added", "removed", "changed"), "from": _ANY, "to": _ANY})
_ROUND = _record({"version_id": _TEXT, "round": _null(_COUNT)}, {"config_sha256": _SHA256, "approved_at": _NUMBER})
_SINCE = _record({"against": _ROUND, "changed": _null(_list(_CHANGE)), "unified": _null(_TEXT)})
_ROWS = _null(_record({"input": _COUNT, "usable": _COUNT, "rejected": _COUNT}))
_COUNTS = _record({"train": _ROWS, "validation": _ROWS})
_PLAN: Mapping[str, Schema] = {
    "config_path": _TEXT,
    "config_yaml": _TEXT,
    "config_sha256": _SHA256,
    "trainer_version_id": _TEXT,
    "task_id": _TEXT,
    "train_framework": _TEXT,
    "train_stage": _TEXT,
    "run_dir": _TEXT,
    "summary": _OPEN,
    "counts": _COUNTS,
    "warnings": _list(_PROBLEM),
    "diff": _null(_SINCE),
    "next_command": _TEXT,
}
_CHOSEN = _null(_record({"name": _TEXT, "step": _COUNT, "path": _TEXT, "exact": _FLAG}))
_METRIC = _null(_record({"name": _TEXT, "mode": _one_of("max", "min"), "value": _NUMBER, "step": _COUNT}))
_CHECKPOINTS = _list(_record({"name": _TEXT, "step": _COUNT, "path": _TEXT, "complete": _FLAG, "why": _null(_TEXT)}))
_RUN_PROGRESS: Mapping[str, Schema] = {
    "phase": _null(_TEXT),
    "current_step": _null(_COUNT),
    "total_steps": _null(_COUNT),
    "started_at": _null(_TEXT),
    "updated_at": _null(_TEXT),
}
_RUN_NEEDED: Mapping[str, Schema] = {
    "task_id": _TEXT,
    "trainer_version_id": _TEXT,
    "status": _STATUS,
    **_RUN_PROGRESS,
    "config_sha256": _null(_SHA256),
    "run_dir": _TEXT,
}
_RUN_OTHER: Mapping[str, Schema] = {
    **dict.fromkeys(("loss", "eval_loss", "learning_rate", "eta_s"), _NUMBER),
    "attempt": _COUNT,
    "error": _null(_OPEN),
    "duration_s": _null(_NUMBER),
    "best_checkpoint": _CHOSEN,
    "best_metric": _METRIC,
    "update_model_path": _null(_TEXT),
    "checkpoints": _null(_CHECKPOINTS),
    "result": _null(_OPEN),
}
_RUN = _record(_RUN_NEEDED, _RUN_OTHER)
_LISTED = _record({
    "task_id": _TEXT,
    "trainer_version_id": _TEXT,
    "status": _null(_STATUS),
    **_RUN_PROGRESS,
    "run_dir": _TEXT,
    "best_checkpoint": _CHOSEN,
})  # fmt: skip
_TO_DO = _record({"trainer_version_id": _TEXT, "status": _STATUS, "next_command": _TEXT})
# The events of an earlier version have fewer fields, and are shown for ever.
_EVENT = _record(
    {"seq": _COUNT, "status": _TEXT},
    {
        "schema_version": _COUNT,
        "attempt": _COUNT,
        "current": _TEXT,
        "node": _TEXT,
        "progress": _null({"type": "number", "minimum": 0, "maximum": 1}),
        "message": _TEXT,
        "data": _null(_OPEN),
        "context_id": _TEXT,
        "error": _null(_OPEN),
        "version_id": _TEXT,
        "time": _TEXT,
        "elapsed_s": _NUMBER,
    },
    is_open=True,
)
_SUMMARY = _record(
    {
        "best_metric": _METRIC,
        "best_checkpoint_name": _null(_TEXT),
        "checkpoint_count": _COUNT,
        "metric_count": _COUNT,
        "reason": _TEXT,
    },
    is_open=True,
)
_METRIC_ROW = _record({"step": _COUNT, "attempt": _COUNT, "kind": _TEXT, "values": _by_name(_null(_NUMBER))})
_HINT = _record({
    "help": _TEXT,
    "flag": _null(_TEXT),
    "option": _TEXT,
    "environment": _list(_TEXT),
    "state": _TEXT,
    "choices": _list(_TEXT),
})  # fmt: skip

DATA: Mapping[str, Schema] = {
    "prepare": _record(_PLAN),
    "inspect": _record(_PLAN, {"refreshed": _record({"changed": _list(_CHANGE), "unified": _TEXT})}),
    "dev": _record({
        "verdict": _VERDICT,
        "trainer_version_id": _TEXT,
        "config_path": _TEXT,
        "config_sha256": _null(_SHA256),
        "dev_dir": _null(_TEXT),
        "bounds": _null(_record({"steps": _COUNT, "rows": _OPEN, "limit_s": _NUMBER})),
        "red_flags": _list(_TEXT),
        "checks": _list(_record({"name": _TEXT, "outcome": _VERDICT, "detail": _TEXT, "hint": _TEXT, "code": _TEXT})),
        "not_shown": _by_name(_TEXT),
        "duration_s": _NUMBER,
        "next_command": _TEXT,
    }),
    "diff": _record({"against": _null(_ROUND), "changed": _list(_CHANGE), "unified": _TEXT}),
    "approve": _record({"approval": _OPEN, "config_path": _TEXT, "next_command": _TEXT}),
    **dict.fromkeys(("run-prepared", "run", "wait", "cancel", "recover"), _RUN),
    # With `recent`, the curve so far, in what people see; never in JSON.
    "status": _RUN,
    "list": _record({"count": _COUNT, "runs": _list(_LISTED)}),
    "trainer": _record({
        "version": _TEXT,
        "count": _COUNT,
        "runs": _list(_LISTED),
        **dict.fromkeys(("orphaned", "waiting", "going_on", "ended"), _list(_TO_DO)),
        "first_steps": _list(_record({"what": _TEXT, "next_command": _TEXT})),
    }),
    "logs": _record({"path": _TEXT, "lines": _list(_TEXT), "truncated": _FLAG, "source": _TEXT}),
    "events": _record({"events": _list(_EVENT), "next_seq": _COUNT}),
    "analyze": _record({
        "framework": _TEXT,
        "run_dir": _TEXT,
        "best_checkpoint": _CHOSEN,
        "best_metric": _METRIC,
        "summary": _SUMMARY,
        "checkpoints": _CHECKPOINTS,
        "metrics": _list(_METRIC_ROW),
        "curve": _TEXT,
    }),
    "compare": _record({
        "metric": _null(_TEXT),
        "mode": _null(_one_of("max", "min")),
        "not_ranked": _null(_TEXT),
        "runs": _list(_record({
            "version_id": _TEXT,
            "run_dir": _TEXT,
            "status": _STATUS,
            "not_ranked": _null(_TEXT),
            "best_metric": _METRIC,
            "best_checkpoint_name": _null(_TEXT),
            "best_step": _null(_COUNT),
            "checkpoint_count": _COUNT,
            "metric_count": _COUNT,
            "duration_s": _null(_NUMBER),
            "last_error": _null(_TEXT),
        })),
        "config_differences": _list(_record({"key": _TEXT, "values": _OPEN})),
        "page_path": _null(_TEXT),
    }),
    "export": _record({
        "source": _TEXT,
        "path": _null(_TEXT),
        "config_path": _null(_TEXT),
        "verified": _FLAG,
        "checks": _list(_record({"code": _CODE, "message": _TEXT, "hint": _TEXT})),
    }),
    "guide": _record({
        "task_type": _null(_TEXT),
        "task_id": _TEXT,
        "train_framework": _TEXT,
        "train_stage": _TEXT,
        "language": _one_of("en", "zh"),
        "ready": _FLAG,
        **{name: _list(_TEXT) for name in (
            "missing_fields", "user_required_fields", "auto_filled_fields", "examples",
        )},
        "field_hints": _by_name(_HINT),
        "defaults": _OPEN,
        "settings": _by_name(_record({"value": _ANY, "origin": _TEXT})),
        "problems": _list(_PROBLEM),
        "warnings": _list(_PROBLEM),
        "message": _TEXT,
        "next_command": _TEXT,
    }),
    "doctor": _record({"checks": _list(_record({"name": _TEXT, "ok": _FLAG, "detail": _TEXT, "hint": _TEXT}))}),
    "setup": _record({"backend": _TEXT, "python": _TEXT, "env_dir": _TEXT, "versions": _by_name(_TEXT)}),
    "templates": _record({
        "templates": _list(_record({
            **dict.fromkeys(("name", "stage", "path", "title"), _TEXT),
            "origin": _one_of("bundled", "user"),
        })),
        "text": _null(_TEXT),
    }),
    "schema": _record({"name": _null(_TEXT), "schema": _OPEN}),
    "docs": _record({"topic": _null(_TEXT), "text": _TEXT}),
}  # fmt: skip
"""Command -> its `data` when it is not null."""

LINES: Mapping[str, Schema] = {
    "version-line": _record({"type": {"const": "version"}, "schema": {"const": ENVELOPE}}),
    "watch-line": _record(
        {
            "type": _one_of("state", "end"),
            **_RUN_NEEDED,
            "metrics": _by_name(_NUMBER),
            "steps_per_minute": _null(_NUMBER),
            "devices": _list(_record(
                {"label": _TEXT, "name": _TEXT},
                {name: _null(_COUNT) for name in ("use_percent", "memory_used_bytes", "memory_total_bytes")},
            )),
            "log_tail": _list(_TEXT),
        },
        {name: shape for name, shape in _RUN_OTHER.items() if name not in ("checkpoints", "result")},
    ),
    "event-line": _EVENT,
    "log-line": _record({"type": {"const": "line"}, "line": _TEXT}),
}  # fmt: skip
"""The lines of what follows (`watch`, `events -f`, `logs -f` with --json); the first is always the version line."""


def names() -> tuple[str, ...]:
    """Every answer and every line that has a schema."""
    return (*DATA, *LINES)


def answer(command: str) -> dict[str, Any]:
    """The schema of that command's one JSON document, good or refused; KeyError for a command without one."""
    envelope = _record({
        "schema": {"const": ENVELOPE},
        "command": {"const": command},
        "ok": _FLAG,
        "status": _TEXT,
        "message": _TEXT,
        "data": _null(DATA[command]),
        "error": _null(_ERROR),
    })  # fmt: skip
    title = f"{command} --json" if command == "trainer" else f"trainer {command} --json"
    return {"$schema": DRAFT, "title": title, **envelope}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a command's answer, or of a line. Raises KeyError."""
    if name in LINES:
        return {"$schema": DRAFT, "title": f"a {name} of JSON lines", **LINES[name]}
    return answer(name)


def whole() -> dict[str, Any]:
    """One schema for any answer of any command."""
    return {
        "$schema": DRAFT,
        "title": "any answer of trainer --json",
        "$defs": {name: schema_of(name) for name in names()},
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in DATA],
    }
