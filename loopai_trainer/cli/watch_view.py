"""What `watch` shows of one look: lines for a screen of any size, and single lines where there is no screen."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size

from loopai_trainer.cli.progress import duration_text, fault, state_line
from loopai_trainer.host.device_load import DeviceLoad
from loopai_trainer.operations.status import sentence
from loopai_trainer.operations.watch import Sample
from loopai_trainer.results import curve
from loopai_trainer.rules.visible_text import visible

LEAVE = "Ctrl-C leaves; the run goes on"
_CURVE_COLUMNS = 30
_CURVE_ROWS = (8, 16)
"""Fewer rows or columns than that show nothing that a sparkline does not; more belong to the log."""
_SHOWN_DEVICES = 8
_METRICS = (
    ("loss", ("loss",)),
    ("eval loss", ("eval_loss",)),
    ("score", ("critic/score/mean",)),
    ("policy loss", ("actor/pg_loss", "actor/loss")),
    ("lr", ("learning_rate", "lr", "actor/lr")),
    ("grad norm", ("grad_norm", "actor/grad_norm")),
    ("reply tokens", ("response_length/mean",)),
)
_TOKENS_PER_S = ("throughput", "perf/throughput")


def frame(sample: Sample, width: int, height: int, encoding: str = "utf-8") -> list[str]:
    """At most `height` lines of at most `width` columns: state, numbers, GPUs, curve, and the log in what is left."""
    head = [_title(sample), *_bar(sample, width, encoding), *_wrapped(numbers(sample), width)]
    head += [_device(load) for load in sample.devices[:_SHOWN_DEVICES]]
    if len(sample.devices) > _SHOWN_DEVICES:
        head.append(f"... and {len(sample.devices) - _SHOWN_DEVICES} more GPUs")
    wrong = textwrap.wrap(fault(sample.status), max(width, 1))
    foot = [*wrong, LEAVE] if sample.goes_on else [sentence(dict(sample.status))]
    left = height - len(head) - len(foot)
    drawn = _curve(sample, width, left, encoding)
    log = list(sample.log)[-max(0, left - len(drawn) - 1) :] if left - len(drawn) > 1 else []
    body = [*drawn, *(["train.log:"] if log else []), *log]
    lines = [*head, *body, *foot]
    if len(lines) > height:
        lines = [*lines[: max(0, height - 1)], *foot[-1:]]
    return [_cut(line, width) for line in lines[: max(0, height)]]


def summary(sample: Sample, width: int, encoding: str = "utf-8") -> list[str]:
    """What stays on the screen when the watching is over: the state and the curve, without the log."""
    drawn = _curve(sample, width, 20, encoding)
    return [_cut(line, width) for line in (_title(sample), *_wrapped(numbers(sample), width), *drawn)]


def line(sample: Sample) -> str:
    """One look on one line, for pipes and files."""
    extra = [f"{sample.steps_per_minute:g} steps/min"] if sample.steps_per_minute is not None else []
    return ", ".join(
        [state_line(sample.status), *(part for part in numbers(sample) if part.startswith("score")), *extra]
    )


def numbers(sample: Sample) -> list[str]:
    """`loss 1.2`, `lr 1e-05`, `30 steps/min` ... of what is known."""
    parts = []
    for name, keys in _METRICS:
        value = next((sample.metrics[key] for key in keys if key in sample.metrics), None)
        if value is not None:
            parts.append(f"{name} {value:.4g}")
    if sample.steps_per_minute is not None:
        parts.append(f"{sample.steps_per_minute:.4g} steps/min")
    tokens = next((sample.metrics[key] for key in _TOKENS_PER_S if key in sample.metrics), None)
    if tokens is not None:
        parts.append(f"{tokens:,.0f} tokens/s")
    return parts


def _title(sample: Sample) -> str:
    state = sample.status
    phase = str(state.get("phase") or state["status"]).replace("_", " ")
    told = phase if phase == state["status"] else f"{state['status']}, {phase}"
    return f"{told}  {state['trainer_version_id']}"


def _bar(sample: Sample, width: int, encoding: str) -> list[str]:
    """`[####----] step 12/40  30 %  3 min  about 7 min left`, the bar as wide as there is room."""
    state = sample.status
    step, total = state.get("current_step"), state.get("total_steps")
    parts = [f"step {step if step is not None else 0}/{total or '?'}"]
    share = min(1.0, step / total) if isinstance(step, int) and isinstance(total, int) and total > 0 else None
    if share is not None:
        parts.append(f"{100 * share:.0f} %")
    elapsed_s = _elapsed_s(sample)
    if elapsed_s is not None:
        parts.append(duration_text(elapsed_s))
    if isinstance(state.get("eta_s"), int | float):
        parts.append(f"about {duration_text(state['eta_s'])} left")
    text = "  ".join(parts)
    room = min(30, width - len(text) - 4)
    if share is None or room < 5:
        return _wrapped(parts, width)
    full, empty = ("█", "░") if curve.can_show("█░", encoding) else ("#", "-")
    done = round(room * share)
    return [f"[{full * done}{empty * (room - done)}] {text}"]


def _elapsed_s(sample: Sample) -> float | None:
    if isinstance(sample.status.get("duration_s"), int | float):
        return float(sample.status["duration_s"])
    try:
        return time.time() - datetime.fromisoformat(str(sample.status.get("started_at"))).timestamp()
    except ValueError:
        return None


def _device(load: DeviceLoad) -> str:
    use = "-" if load.use_percent is None else f"{load.use_percent} %"
    memory = "-"
    if load.memory_used_bytes is not None and load.memory_total_bytes:
        memory = f"{load.memory_used_bytes / 2**30:.1f} of {load.memory_total_bytes / 2**30:.1f} GiB"
    return f"{load.label}  use {use}  memory {memory}  {load.name}".rstrip()


def _curve(sample: Sample, width: int, left: int, encoding: str) -> list[str]:
    """A plot where there is room for one and for some of the log; else a line a curve."""
    if not any(sample.curves.values()) or left < 1:
        return []
    rows = min(_CURVE_ROWS[1], left * 3 // 5)
    if rows >= _CURVE_ROWS[0] and width >= _CURVE_COLUMNS:
        return curve.draw(sample.curves, width=width, height=rows, encoding=encoding).splitlines()
    return [spark(name, [value for _, value in found], width, encoding) for name, found in sample.curves.items()][:left]


def spark(name: str, values: Sequence[float], width: int, encoding: str = "utf-8") -> str:
    """`loss ▇▅▃▂▁ 1.234` in at most `width` columns."""
    last = f"{values[-1]:.4g}" if values else ""
    bars = curve.sparkline(values, max(1, min(40, width - len(name) - len(last) - 2)), encoding)
    return f"{name} {bars} {last}"


def _wrapped(parts: Iterable[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += "   " + part
        else:
            lines.append(part)
    return lines


def _cut(text: str, width: int) -> str:
    """The text in at most `width` columns; wide letters take two."""
    plain = visible(text.replace("\t", "    ")).replace("\n", " ")
    return plain if cell_len(plain) <= width else set_cell_size(plain, width)


def state_key(sample: Sample) -> tuple[Any, ...]:
    """What has to change for a new line where there is no screen."""
    return sample.status["status"], sample.status.get("phase")
