"""watch: what a run is, does and says now, look after look until it ends. Reads only."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.files import log_tail
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.host.device_load import DeviceLoad, Gauge
from loopai_trainer.operations import targets, unstarted
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.status import describe, status
from loopai_trainer.results.live_curve import LiveCurve
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import secrets
from loopai_trainer.worker.observe import Observation, observe

LOG_LINES = 60
_JSON_LOG_LINES = 5
_LONG = ("checkpoints", "result")
"""Of a status: what belongs to `status --json`, not into a line."""
_PACE_S = 120.0
"""The pace is that of the last so many seconds that were watched."""
_SAY_AGAIN_S = 30.0
"""A line of --json is written when the step or phase has changed, and at the latest after so many seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A run at one moment. `status`: as `status --json`; `curves`: label -> (step, value) by step.

    `metrics`: newest finite value by name; `steps_per_minute`: None until it can be told; `log`: the last lines.
    """

    status: Mapping[str, Any]
    curves: Mapping[str, list[tuple[int, float]]]
    metrics: Mapping[str, float]
    steps_per_minute: float | None
    devices: tuple[DeviceLoad, ...]
    log: tuple[str, ...]
    goes_on: bool

    def data(self) -> dict[str, Any]:
        """One line of `watch --json` (interface section 5)."""
        return {
            "type": "state" if self.goes_on else "end",
            **{name: value for name, value in self.status.items() if name not in _LONG},
            "metrics": dict(self.metrics),
            "steps_per_minute": self.steps_per_minute,
            "devices": [device._asdict() for device in self.devices],
            "log_tail": list(self.log[-_JSON_LOG_LINES:]),
        }


class Watch:
    """One run that is looked at again and again."""

    def __init__(self, run: RunDir, environ: Mapping[str, str]) -> None:
        self.run = run
        self._hidden = secrets.environment_values(environ)
        self._curve = LiveCurve(run)
        self._pace: deque[tuple[float, int]] = deque()
        self._gauge: Gauge | None = None

    def look(self) -> Sample:
        """The run as it is now."""
        seen = observe(self.run)
        self._curve.update()
        told = describe(self.run, seen)
        lines = log_tail.tail(self.run.train_log, LOG_LINES)[0]
        return Sample(
            status=secrets.redacted_value(told, self._hidden),
            curves=self._curve.curves(),
            metrics=self._curve.latest,
            steps_per_minute=self._steps_per_minute(told.get("current_step")),
            devices=self._devices(seen),
            log=tuple(secrets.redacted(line, self._hidden) for line in lines),
            goes_on=seen.verdict.goes_on,
        )

    def close(self) -> None:
        """Let the driver go."""
        if self._gauge is not None:
            self._gauge.close()

    def _steps_per_minute(self, step: object) -> float | None:
        now_s = time.monotonic()
        if isinstance(step, int) and (not self._pace or step != self._pace[-1][1]):
            self._pace.append((now_s, step))
        while len(self._pace) > 2 and now_s - self._pace[0][0] > _PACE_S:
            self._pace.popleft()
        if len(self._pace) < 2:
            return None
        (since_s, first), (until_s, last) = self._pace[0], self._pace[-1]
        return round((last - first) / (until_s - since_s) * 60, 2) if until_s > since_s and last > first else None

    def _devices(self, seen: Observation) -> tuple[DeviceLoad, ...]:
        """The GPUs of the plan, while its training lives on this very host."""
        training = seen.state.get("training")
        if not seen.verdict.goes_on or not isinstance(training, dict):
            return ()
        if self._gauge is None:
            if training.get("boot_id") != processes.boot_id():
                return ()
            self._gauge = Gauge(_planned_devices(self.run))
        return self._gauge.read()


def start(version: str, scope: targets.Scope) -> Watch:
    """Raises NotFound, and UsageError for a version that nobody has started: there is nothing to see."""
    run = targets.find(version, scope)
    unstarted.refuse(run, observe(run), "to watch")
    return Watch(run, scope.environ)


def follow_samples(version: str, scope: targets.Scope, pause_s: float = 1.0) -> Iterator[dict[str, Any]]:
    """The lines of `watch --json`: one at each change, the last of type `end`."""
    watch = start(version, scope)
    last: tuple[object, ...] = ()
    said_s = 0.0
    try:
        while True:
            sample = watch.look()
            changing = (*(sample.status.get(name) for name in ("status", "phase", "current_step")), sample.goes_on)
            if changing != last or time.monotonic() - said_s >= _SAY_AGAIN_S:
                last, said_s = changing, time.monotonic()
                yield sample.data()
            if not sample.goes_on:
                return
            time.sleep(pause_s)
    finally:
        watch.close()


def status_with_curve(version: str, scope: targets.Scope) -> Answer:
    """`status` for people: its data with `recent`, {name, values} of the curve so far, where there is one."""
    answer = status(version, scope)
    curve = LiveCurve(RunDir(str((answer.data or {})["run_dir"])))
    curve.update()
    drawn = next(iter(curve.curves().items()), None)
    if drawn is not None and answer.data is not None:
        answer.data = {**answer.data, "recent": {"name": drawn[0], "values": [value for _, value in drawn[1]]}}
    return answer


def _planned_devices(run: RunDir) -> str:
    """The CUDA_VISIBLE_DEVICES of the approved plan; empty if it cannot be read."""
    try:
        with open(run.approved_config, "rb") as file:
            plan = plans.read(file.read(), run.approved_config)
    except (OSError, TrainerError):
        return ""
    return str(plan.loopai["launch"].get("devices") or "")
