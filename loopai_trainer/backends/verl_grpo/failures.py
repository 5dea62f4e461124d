"""Says in one sentence why training failed, from the last lines of its output.

verl's driver prints the error of its task runner, in which the error of a worker is wrapped, and last what it really
was; a failed prompt is only logged, and what dies of it later says nothing. Source: logs of verl 0.9.1 with ray 2.60.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from loopai_trainer.backends.verl_grpo.log import plain

_SPEAKER = re.compile(r"^\((?:(?P<name>[A-Za-z_]\w*) )?pid=\d+(?:, ip=[\w.:]+)?\) ?(?P<text>.*)$")
_RAYLET = re.compile(r"^\((?P<name>raylet|autoscaler[^)]*)(?:, ip=[\w.:]+)?\) ?(?P<text>.*)$")
_ERROR = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|MandatoryValue)(?::\s.*)?$")
_WRAPPER = re.compile(r"RayTaskError|ActorDiedError|ActorUnavailableError|WorkerCrashedError|ActorUnschedulableError")
_PROMPT = "Error in _run_prompt"
_CONSEQUENCE = re.compile(
    r"Received an empty list as keys|no materializable trajectories|rm_scores|assert val_metrics|val_metrics=\{\}"
)
"""What verl dies of when no prompt, or no reward, came to its end."""
_WORDS = re.compile(
    r"No space left on device|out of memory|running low on memory|[Aa]ddress already in use|AF_UNIX path length"
)

ADVICE: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"CUDA out of memory|OutOfMemoryError: CUDA|CUBLAS_STATUS_ALLOC_FAILED|No available memory for the cache|"
            r"Free memory on device",
            "lower actor_rollout_ref.rollout.gpu_memory_utilization and ppo_micro_batch_size_per_gpu, or the lengths",
        ),
        (
            r"running low on memory|Unable to allocate|Cannot allocate memory|OutOfMemoryError|OOM",
            "the host has too little memory: lower the numbers of workers and data.train_batch_size",
        ),
        (r"No space left on device", "free disk space, or keep fewer checkpoints (trainer.max_actor_ckpt_to_keep)"),
        (
            r"No module named '(?:transfer_queue|cachetools|msgspec|zmq|fastapi|uvicorn|mathruler|math_verify)",
            "verl was installed without its extra packages: run trainer setup verl, or install verl[verl-core]",
        ),
        (r"No module named|ModuleNotFoundError", "install the missing package, or run: trainer setup verl"),
        (
            r"rm_scores",
            "the reward gave no score (None): mend the reward function, then prepare again",
        ),
        (
            r"ZeroDivisionError",
            "no whole batch of prompts is left: add rows, or lower data.train_batch_size (see the sizes in train.log)",
        ),
        (r"batch_size=0|batch_size should be", "no validation row is left: add rows, or raise data.max_prompt_length"),
        (
            r"less than total desired GPUs|cannot be scheduled|Unschedulable",
            "Ray sees fewer GPUs than the plan wants: lower trainer.n_gpus_per_node, or choose --devices that exist",
        ),
        (r"[Aa]ddress already in use|EADDRINUSE", "another job holds the port; wait for it, then prepare again"),
        (r"AF_UNIX path length", "the temporary folder's path is too long for Ray: set TMPDIR to a short one"),
        (
            r"MissingMandatoryValue|ConfigCompositionException|ConfigKeyError|InstantiationException|omegaconf|hydra",
            "a key of the plan is not what the installed verl expects: change it, then prepare again",
        ),
        (
            r"divisible|AssertionError|must be greater|micro_batch_size",
            "numbers of the plan do not go together: change those that the message names, then prepare again",
        ),
        (r"NCCL|ProcessGroupNCCL", "the GPUs could not talk to each other; look at the NCCL lines of the training log"),
        (r"doesn't support bf16|no kernel image|driver version is insufficient", "its torch does not fit this GPU"),
        (r"couldn't connect to|OfflineMode|LocalEntryNotFound|Repo id", "training is offline: name local folders"),
        (r"FileNotFoundError", "a file is gone that training reads: prepare again"),
        (r"Permission denied", "check who owns the folders that training reads and writes"),
    )
)  # fmt: skip
_FAILED_PROMPTS = "all prompts of a batch failed, the first with "
_KILLED = (
    "a process of verl was killed, most likely since the host ran out of memory",
    "look at the kernel's log; lower the numbers of workers, or use a larger host",
)


class _Line(NamedTuple):
    """`speaker`: the Ray worker that said it; empty: verl's driver."""

    speaker: str
    text: str


def explain_failure(log_tail: Sequence[str]) -> tuple[str, str] | None:
    """(cause, advice), or None if the lines show no error."""
    lines = [_parsed(line) for line in plain(log_tail)]
    cause = _last_of_driver(lines)
    if cause is None or _CONSEQUENCE.search(cause):
        cause = _failed_prompt(lines) or cause
    if cause is None or _WRAPPER.search(cause):
        cause = _plain_words(lines) or _first_of_workers(lines) or cause
    if cause is None:
        return None
    if _WRAPPER.search(cause):
        return _KILLED
    return cause, _advice(cause)


def _parsed(line: str) -> _Line:
    match = _SPEAKER.match(line) or _RAYLET.match(line)
    return _Line(match["name"] or "a worker", match["text"]) if match else _Line("", line)


def _last_of_driver(lines: Sequence[_Line]) -> str | None:
    """The innermost error of the driver's traceback; a wrapper only if there is nothing else."""
    errors = [line.text for line in lines if not line.speaker and _is_error(line.text)]
    inner = [error for error in errors if not _WRAPPER.search(error)]
    return (inner or errors)[-1] if errors else None


def _failed_prompt(lines: Sequence[_Line]) -> str | None:
    """The error of the first prompt that failed: the reward's, mostly."""
    speaker = None
    for line in lines:
        if speaker is None:
            speaker = line.speaker if _PROMPT in line.text else None
        elif line.speaker == speaker and _is_error(line.text) and not _WRAPPER.search(line.text):
            return _FAILED_PROMPTS + line.text
    return None


def _first_of_workers(lines: Sequence[_Line]) -> str | None:
    for line in lines:
        if line.speaker and _is_error(line.text) and not _WRAPPER.search(line.text):
            return f"{line.speaker}: {line.text}"
    return None


def _plain_words(lines: Sequence[_Line]) -> str | None:
    """Causes that reach the log without an exception line of their own."""
    return next((line.text.strip() for line in lines if _WORDS.search(line.text)), None)


def _is_error(text: str) -> bool:
    return _ERROR.match(text) is not None or text.startswith("ray.exceptions.")


def _advice(cause: str) -> str:
    if cause.startswith(_FAILED_PROMPTS):
        return "mend the reward function, which mostly is to blame, then prepare again"
    return next((advice for pattern, advice in ADVICE if pattern.search(cause)), "look at the training log")
