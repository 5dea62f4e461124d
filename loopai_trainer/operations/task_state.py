"""What the Python API answers: `{"trainer": {...}}` with the output fields of the specifications (decisions/0040)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.errors import ConfigError
from loopai_trainer.files import result_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import prompt_manifest, review, targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.rules import task_fields, yaml_text
from loopai_trainer.rules.run_state import TERMINAL
from loopai_trainer.worker.observe import observe


def of_answer(answer: Answer, guide: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The state after prepare, inspect, run or run-prepared, good or refused; `guide`: the prefill guide, if known.

    `trainer_result` is the answer's envelope, `trainer_last_error` its error or None.
    """
    envelope = answer.envelope()
    data, error = envelope["data"] or {}, envelope["error"]
    fields: dict[str, Any] = {}
    if data.get("run_dir"):
        fields |= of_run(targets.open_run(str(data["run_dir"])))
    if error is not None:
        fields |= task_fields.refused(error)
    if guide is not None:
        fields["trainer_prefill_guide"] = dict(guide)
        fields["trainer_missing_fields"] = list(guide["missing_fields"])
    said = {"trainer_result": envelope, "trainer_last_error": error}
    return {"trainer": task_fields.with_aliases({**fields, **said})}


def of_run(run: RunDir) -> dict[str, Any]:
    """All that a run's own files say: what was prepared, and how it runs or ended."""
    fields, seen = _prepared(run), observe(run)
    result = result_file.read(run) if seen.verdict.status in TERMINAL else None
    if result is not None:
        fields |= task_fields.ended(run, result, seen.state)
    elif seen.state:
        fields |= task_fields.running(run, seen.state)
    swanlab = os.path.join(run.metrics, "swanlab")
    return {**fields, "train_output_swanlab_log_path": swanlab if os.path.isdir(swanlab) else None}


def _prepared(run: RunDir) -> dict[str, Any]:
    """Empty for a run whose YAML is gone or spoilt: what is known of it besides still is."""
    try:
        with open(run.config, encoding="utf-8") as file:
            config = yaml_text.load(file.read(), run.config, "config").values
        counts = review.counts(config["loopai"]["inputs"])
    except (OSError, ValueError, ConfigError, KeyError, TypeError):
        return {}
    return {**task_fields.prepared(run, config, counts), **_manifest(run)}


def _manifest(run: RunDir) -> dict[str, Any]:
    manifest = prompt_manifest.read(run)
    if manifest is None:
        return {}
    reward = manifest.get("reward")
    recommendation = reward.get("recommendation") if isinstance(reward, dict) else None
    return {"verl_data_prepare_result": manifest, "verl_reward_recommendation": recommendation}
