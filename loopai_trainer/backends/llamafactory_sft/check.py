"""Everything that can be known of a plan before a device is taken: each rule is a generator of problems."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.llamafactory_sft import disk, schedule
from loopai_trainer.backends.llamafactory_sft.check_method import method_problems
from loopai_trainer.backends.llamafactory_sft.coverage import FILE_KEYS, coverage_problems
from loopai_trainer.backends.llamafactory_sft.deepspeed import deepspeed_problems
from loopai_trainer.backends.llamafactory_sft.export import result_problems
from loopai_trainer.backends.llamafactory_sft.json_paths import json_path_problems
from loopai_trainer.backends.llamafactory_sft.launch import needs_torchrun
from loopai_trainer.backends.llamafactory_sft.ranges import METRICS
from loopai_trainer.backends.llamafactory_sft.registry import SPLITS, registry_problems, row_problems
from loopai_trainer.backends.llamafactory_sft.resume import plan_problems as resume_plan_problems
from loopai_trainer.backends.llamafactory_sft.template_fit import fit_problems
from loopai_trainer.files.model_folder import ModelFolder, read_model_folder
from loopai_trainer.host.devices import device_problems
from loopai_trainer.records import Host, Plan, Problem, Severity, Versions
from loopai_trainer.rules import cluster, host_env, length_limits
from loopai_trainer.rules.launch_env import env_faults


class Facts(NamedTuple):
    """What the rules look at."""

    plan: Plan
    native: Mapping[str, Any]
    versions: Versions
    host: Host
    model: ModelFolder
    steps: schedule.Schedule


def check(plan: Plan, versions: Versions, host: Host) -> list[Problem]:
    """All findings, errors first."""
    native = plan.native
    model = read_model_folder(str(native.get("model_name_or_path")))
    facts = Facts(plan, native, versions, host, model, schedule.of_plan(plan))
    rules = (_identity, _uncovered, _registry, _output, _evaluation, _saving, _launch, _selection, _deepspeed, _disk)
    found = [*model.problems, *(problem for rule in rules for problem in rule(facts))]
    found += method_problems(native, model, versions)
    found += resume_plan_problems(plan)
    found += result_problems(plan.result, native, model.config)
    limits, wrong = length_limits.of_plan(plan.loopai)
    found += [*wrong, *fit_problems(native, model.config, versions, allowed=limits.allow_template_mismatch)]
    return sorted(found, key=lambda problem: problem.severity)


def _error(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, field=field)


def _identity(facts: Facts) -> Iterator[Problem]:
    """Native keys that have to agree with the reserved block, which is what was checked and hashed."""
    native, inputs = facts.native, facts.plan.loopai["inputs"]
    wanted: dict[str, Any] = {
        "stage": "sft",
        "do_train": True,
        "model_name_or_path": inputs["model"]["path"],
        "dataset": "train",
        "eval_dataset": "validation" if inputs.get("validation") else None,
    }
    for key, value in wanted.items():
        if native.get(key) != value:
            message = f"'{key}' is {native.get(key)!r}, the checked inputs need {value!r}"
            yield _error("INPUT_MISMATCH", message, f"set {key} back, or prepare again", key)
    pinned = {entry["path"] for entry in inputs["files"]}
    if _registry_path(facts) not in pinned:
        message = f"'dataset_dir' is {native.get('dataset_dir')!r}, whose dataset_info.json was not checked"
        yield _error("UNCOVERED_INPUT", message, "set dataset_dir back, or prepare again", "dataset_dir")
    for key in FILE_KEYS:
        value = native.get(key)
        if isinstance(value, str) and value not in pinned:
            message = f"'{key}' names {value}, which the approved hash does not cover"
            yield _error("UNCOVERED_INPUT", message, "name the file in the template and prepare again", key)
        elif isinstance(value, str) and not _is_json(value):
            yield _error("FILE_INVALID", f"'{key}': {value} is not a JSON object", "correct the file", key)


def _uncovered(facts: Facts) -> Iterator[Problem]:
    yield from coverage_problems(facts.native, _run_of(facts))
    yield from json_path_problems(facts.native, _run_of(facts))


def _registry(facts: Facts) -> Iterator[Problem]:
    inputs = facts.plan.loopai["inputs"]
    if _registry_path(facts) in {entry["path"] for entry in inputs["files"]}:
        yield from registry_problems(facts.native, inputs)
    yield from row_problems(inputs)


def _selection(facts: Facts) -> Iterator[Problem]:
    """A finding each for a metric that is never reported and for a mode that would choose the worst."""
    metric, mode = facts.plan.result.get("selection_metric"), facts.plan.result.get("selection_mode")
    if metric not in METRICS:
        message = f"'result.selection_metric' is {metric!r}, which supervised fine-tuning does not report"
        yield _error("SELECTION_INVALID", message, "set it to eval_loss, or to loss", "result.selection_metric")
    elif metric == "eval_loss" and not facts.native.get("eval_dataset"):
        message = "'result.selection_metric' is 'eval_loss', but there is no evaluation data"
        yield _error("SELECTION_INVALID", message, "set it to loss", "result.selection_metric")
    if mode != "min":
        message = f"'result.selection_mode' is {mode!r}: a loss is best where it is lowest"
        yield _error("SELECTION_INVALID", message, "set it to min", "result.selection_mode")


def _registry_path(facts: Facts) -> str:
    return os.path.join(str(facts.native.get("dataset_dir")), "dataset_info.json")


def _run_of(facts: Facts) -> str:
    return os.path.dirname(str(facts.native.get("dataset_dir")))


def _output(facts: Facts) -> Iterator[Problem]:
    folder = str(facts.native.get("output_dir"))
    run = _run_of(facts)
    if folder != os.path.join(run, "checkpoints"):
        message = f"'output_dir' is {folder}, but results are looked for in {os.path.join(run, 'checkpoints')}"
        yield _error(
            "OUTPUT_ELSEWHERE", message, "set output_dir back, or prepare with another --output-dir", "output_dir"
        )
    if os.path.isdir(run) and not os.access(run, os.W_OK | os.X_OK):
        message = f"{run} cannot be written: there would be no checkpoints"
        hint = "see to its permissions, or to the mount"
        # Inside an agent's sandbox all is mounted read-only, and a plan may be looked at all the same.
        severity: Severity = "warning" if os.statvfs(run).f_flag & os.ST_RDONLY else "error"
        yield Problem(severity, "OUTPUT_NOT_WRITABLE", "config", message, hint, field="output_dir")
    left = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if not name.startswith("."))
    if left:
        shown = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
        message = f"{folder} holds the output of a run already ({shown}): LLaMA-Factory would continue it"
        yield _error("OUTPUT_NOT_FRESH", message, "prepare a new version: it gets a fresh folder", "output_dir")


def _evaluation(facts: Facts) -> Iterator[Problem]:
    native = facts.native
    evaluates = native.get("eval_strategy", "no") != "no"
    if native.get("val_size"):
        message = "'val_size' would split the training data again, inside training and unseen"
        yield _error("VAL_SIZE", message, "remove val_size; prepare makes the split", "val_size")
    if evaluates and not native.get("eval_dataset"):
        message = f"'eval_strategy' is {native['eval_strategy']!r}, but there is no eval_dataset"
        yield _error("NO_EVAL_DATA", message, "give --eval-dataset, or set eval_strategy: 'no'", "eval_strategy")
    if native.get("load_best_model_at_end") is not True:
        return
    if not evaluates:
        message = "'load_best_model_at_end' needs evaluation during training"
        yield _error("BEST_NEEDS_EVAL", message, "give --eval-dataset or a val_size", "load_best_model_at_end")
    elif native.get("save_strategy") not in ("best", native["eval_strategy"]):
        message = f"'load_best_model_at_end' needs save_strategy = eval_strategy ({native['eval_strategy']!r})"
        yield _error("BEST_NEEDS_EVAL", message, f"set save_strategy: {native['eval_strategy']}", "save_strategy")
    elif native.get("save_strategy") == "steps" and _off_cadence(native, facts.steps.total_steps):
        message = f"save_steps ({native.get('save_steps')}) is no multiple of eval_steps ({native.get('eval_steps')})"
        yield _error("BEST_NEEDS_EVAL", message, "make save_steps a multiple of eval_steps", "save_steps")


def _off_cadence(native: Mapping[str, Any], total: int | None) -> bool:
    save = schedule.interval(native.get("save_steps"), total)
    evaluate = schedule.interval(native.get("eval_steps"), total)
    return bool(save and evaluate and save % evaluate)


def _saving(facts: Facts) -> Iterator[Problem]:
    native, total = facts.native, facts.steps.total_steps
    if native.get("save_strategy") == "no":
        message = "'save_strategy' is 'no': there will be no checkpoint to choose, only the final weights"
        yield Problem("warning", "NO_CHECKPOINTS", "config", message, "set save_strategy: steps", field="save_strategy")
        return
    limit = schedule.positive(native.get("save_total_limit"), 0)
    every = schedule.interval(native.get("save_steps"), total)
    saves = -(-total // every) if total and every and native.get("save_strategy") == "steps" else 0
    if native.get("eval_dataset") and 0 < limit < saves and native.get("load_best_model_at_end") is not True:
        message = f"of {saves} checkpoints the newest {limit} are kept: the one with the best eval_loss may be deleted"
        hint = "set load_best_model_at_end: true, which keeps the best, or raise save_total_limit"
        yield Problem("warning", "BEST_MAY_BE_DELETED", "config", message, hint, field="save_total_limit")
    if native.get("logging_nan_inf_filter") is not False:
        message = "'logging_nan_inf_filter' is on: a diverged run would report a loss of 0.0"
        yield _error("NAN_FILTER", message, "set logging_nan_inf_filter: false", "logging_nan_inf_filter")
    logs = schedule.interval(native.get("logging_steps", 500), total)
    if total and logs and logs > total:
        message = f"'logging_steps' is {logs}, but there are {total} steps: no loss would be logged"
        yield _error("NO_LOSS_LINE", message, f"set logging_steps to at most {total}", "logging_steps")


def _launch(facts: Facts) -> Iterator[Problem]:
    launch, native = facts.plan.loopai["launch"], facts.native
    yield from (_error(*fault) for fault in cluster.faults(launch))
    if launch["nproc_per_node"] < 1:
        message = f"nproc_per_node is {launch['nproc_per_node']}: there would be no training process"
        yield _error("PROCESSES_INVALID", message, "set it to 1 or more", "loopai.launch.nproc_per_node")
    yield from (_error(*fault) for fault in env_faults(launch))
    for message, hint in host_env.faults(launch):
        yield _error("ENV_NOT_ALLOWED", message, hint, "loopai.launch.host_env")
    use_cpu = native.get("use_cpu") is True
    if not use_cpu:
        if not cluster.on_cluster(launch):  # there the cluster says which GPUs there are
            yield from device_problems(launch["devices"], facts.host)
        yield from _processes(launch)
        if not launch["devices"] and any(native.get(key) is True for key in ("bf16", "fp16", "pure_bf16")):
            message = "half precision without a device: LLaMA-Factory refuses it on a CPU"
            yield _error("BF16_ON_CPU", message, "set use_cpu: true and bf16: false, or name --devices", "bf16")
    elif native.get("pure_bf16") is True or native.get("fp16") is True:
        key = "pure_bf16" if native.get("pure_bf16") else "fp16"
        yield _error("BF16_ON_CPU", f"'{key}' does not work on a CPU", f"set {key}: false", key)
    blank = " " in facts.plan.loopai["backend"]["python"] + facts.versions.package_dir
    if needs_torchrun(facts.plan) and blank:
        message = "the environment's path has a blank: LLaMA-Factory cannot start torchrun from it"
        yield _error("BLANK_IN_PATH", message, "use an environment whose path has no blank", "loopai.backend.python")


def _processes(launch: Mapping[str, Any]) -> Iterator[Problem]:
    named = [name for name in str(launch["devices"]).split(",") if name.strip()]
    if named and launch["nproc_per_node"] > len(named):
        message = f"{launch['nproc_per_node']} processes for {len(named)} devices: each process needs a GPU of its own"
        hint = "name more --devices, or leave nproc_per_node out"
        yield _error("PROCESSES_EXCEED_DEVICES", message, hint, "loopai.launch.nproc_per_node")


def _deepspeed(facts: Facts) -> Iterator[Problem]:
    yield from deepspeed_problems(facts.native, facts.steps)


def _disk(facts: Facts) -> Iterator[Problem]:
    if facts.model.weights is not None:
        inputs = facts.plan.loopai["inputs"]
        data = sum(schedule.positive(inputs[name].get("bytes"), 0) for name in SPLITS if inputs.get(name))
        found = disk.estimate(facts.native, facts.model.weights, facts.steps, data)
        yield from disk.disk_problems(found, facts.host.free_bytes)


def _is_json(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return isinstance(json.load(file), dict)
    except (OSError, ValueError):
        return False
