"""What prepare writes into a version's events.jsonl, before any attempt of training: its steps, or why it refused.

`status` is the version's, as in all events: prepared, or failed. A step that went well is no completed run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loopai_trainer.errors import ConfigError, TrainerError
from loopai_trainer.files import event_log
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.answer import error_json
from loopai_trainer.records import Plan
from loopai_trainer.rules import secrets

DATA_CHECK, CONFIG_GENERATION = "data_check", "config_generation"
"""The nodes of spec/000; the third, training, tells its phases itself."""

_BEFORE_TRAINING = 0


@contextmanager
def refusals(run: RunDir, task_id: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Notes what is refused inside; the refusal passes through."""
    try:
        yield
    except TrainerError as error:
        node = CONFIG_GENERATION if isinstance(error, ConfigError) else DATA_CHECK
        told = secrets.redacted_value({**error_json(error), "problems": []}, secrets.environment_values(environ))
        try:
            _append(run, task_id, node, "failed", told["detail"], error=told)
        except OSError:
            pass  # the refusal itself says what there is to do
        raise


def note(run: RunDir, plan: Plan, counts: Mapping[str, Any]) -> None:
    """Both steps of a good prepare. Raises OSError."""
    rows = {name: count for name, count in counts.items() if count}
    said = ", ".join(f"{count['usable']} of {count['input']} rows of {name}" for name, count in rows.items())
    _append(run, plan.task_id, DATA_CHECK, "prepared", f"usable: {said}", data={"counts": rows})
    data = {"config_path": run.config, "config_sha256": plan.sha256}
    _append(run, plan.task_id, CONFIG_GENERATION, "prepared", "the YAML is written and waits for approval", data=data)


def _append(run: RunDir, task_id: str, node: str, status: str, message: str, **more: Any) -> None:
    event_log.append(
        run.events,
        version_id=run.version_id,
        task_id=task_id,
        attempt=_BEFORE_TRAINING,
        node=node,
        status=status,
        message=message,
        **more,
    )
