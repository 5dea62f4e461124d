"""Reads the driver's own lines in train.log: the phase, and why a run failed."""

from __future__ import annotations

import re

from loopai_trainer.records import LogFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARK = "[loopai] "
MARKS: Mapping[str, tuple[bytes, ...]] = {
    "phase": (b"[loopai] phase ",),
    "train_examples": (),
    "validation_examples": (),
    "total_steps": (b"Total training steps: ",),
}
"""Bytes without which a line says nothing of that kind (contract.MarksLog)."""

_PHASE = re.compile(r"^\[loopai\] phase (importing|building|training)\b")
_STEPS = re.compile(r"^(?:\(TaskRunner\w* pid=\d+(?:, ip=[\w.:]+)?\) )?Total training steps: (\d+)$")
_ERROR = re.compile(r"^\[loopai\] error ([A-Z_]+): (.*)$")
_LATE = re.compile(r"^\[loopai\] rollout \S+ is over its (\d+) s$")
_GONE = re.compile(r"^(aiohttp\.|ConnectionRefusedError)")
"""What runners say of a store that has gone before them: never the cause."""
_RAISED = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Timeout|Exit)(?::\s.*)?$")

ADVICE: Mapping[str, str] = {
    "LIMIT_REACHED": "what was measured is kept; raise that limit and prepare again if the run was worth going on",
    "ROLLOUT_TIMEOUT": "look at what the agent waits for, or raise limits.rollout_s",
    "RUNNER_LOST": "look in train.log for what ended the runner; memory is the usual cause",
    "PART_INVALID": "change that part of the plan, then prepare again",
    "ALGORITHM_NOT_FAST": "use --stage apo or grpo for a real run",
    "STORE_LOST": "look in train.log for what the store said",
}
_ENDPOINT = re.compile(r"APIConnectionError|APITimeoutError|AuthenticationError|RateLimitError|NotFoundError")
_ENDPOINT_ADVICE = "see that llm.base_url answers and the key is right; what was measured before is kept"


def read_log(lines: Iterable[str]) -> list[LogFact]:
    """Phases, as they begin, and verl's number of steps."""
    facts = []
    for line in lines:
        if match := _PHASE.match(line):
            facts.append(LogFact("phase", match[1]))
        elif match := _STEPS.match(line):
            facts.append(LogFact("total_steps", int(match[1])))
    return facts


def explain_failure(log_tail: Sequence[str]) -> tuple[str, str] | None:
    """(cause, advice): what the driver itself said last, else the last exception."""
    said = [match for line in log_tail if (match := _ERROR.match(line))]
    if said:
        code, cause = said[-1][1], said[-1][2]
        advice = _ENDPOINT_ADVICE if _ENDPOINT.search(cause) else ADVICE.get(code, "look at the end of train.log")
        return f"{code}: {cause}", advice
    late = [match[1] for line in log_tail if (match := _LATE.match(line))]
    if late:
        return f"{len(late)} rollouts were over their {late[-1]} s", ADVICE["ROLLOUT_TIMEOUT"]
    raised = [line.strip() for line in log_tail if _RAISED.match(line.strip()) and not _GONE.match(line.strip())]
    return (raised[-1], "look at the end of train.log") if raised else None
