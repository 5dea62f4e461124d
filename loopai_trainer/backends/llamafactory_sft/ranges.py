"""Values that have the right type and cannot train, or mean nothing: which numbers each key may hold.

LLaMA-Factory and transformers find most of them out after the model was loaded, some of them never.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

_COUNT_LIMIT = 1_000_000_000


class Range(NamedTuple):
    """What a number may be. An open end leaves its bound out; `also`: one value more; `whole`: no fraction above 1."""

    least: float
    most: float
    open_least: bool = False
    open_most: bool = False
    also: float | None = None
    whole: bool = False

    def holds(self, value: float) -> bool:
        """Whether the value is allowed."""
        if value == self.also:
            return True
        above = value > self.least if self.open_least else value >= self.least
        below = value < self.most if self.open_most else value <= self.most
        return above and below and not (self.whole and value > 1 and value != int(value))

    def __str__(self) -> str:
        words = [f"{'above' if self.open_least else 'at least'} {self.least:g}"]
        if self.most not in (_COUNT_LIMIT, math.inf):
            words.append(f"{'below' if self.open_most else 'at most'} {self.most:g}")
        text = " and ".join(words) + (", and whole from 1 on" if self.whole else "")
        return text + (f", or {self.also:g}" if self.also is not None else "")


_COUNT = Range(1, _COUNT_LIMIT)
_COUNT_OR_NONE = Range(0, _COUNT_LIMIT)
_SEED = Range(0, 2**32 - 1)
_SHARE = Range(0, 1)
_SHARE_BELOW_1 = Range(0, 1, open_most=True)
_STEPS = Range(0, _COUNT_LIMIT, open_least=True, whole=True)
_ABOVE_0 = Range(0, math.inf, open_least=True)
_FROM_0 = Range(0, math.inf)

RANGES: Mapping[str, Range] = {
    "per_device_train_batch_size": _COUNT,
    "per_device_eval_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "eval_accumulation_steps": _COUNT,
    "learning_rate": Range(0, 1, open_least=True),
    "num_train_epochs": Range(0, 1_000_000, open_least=True),
    "max_steps": Range(1, _COUNT_LIMIT, also=-1),
    "max_samples": _COUNT,
    "warmup_ratio": _SHARE,
    "warmup_steps": Range(0, _COUNT_LIMIT, whole=True),
    "weight_decay": _FROM_0,
    "max_grad_norm": _FROM_0,
    "adam_beta1": _SHARE_BELOW_1,
    "adam_beta2": _SHARE_BELOW_1,
    "adam_epsilon": _ABOVE_0,
    "label_smoothing_factor": _SHARE_BELOW_1,
    "neftune_noise_alpha": _FROM_0,
    "cutoff_len": Range(16, _COUNT_LIMIT),
    "save_steps": _STEPS,
    "eval_steps": _STEPS,
    "logging_steps": _STEPS,
    "eval_delay": _FROM_0,
    "preprocessing_num_workers": _COUNT,
    "preprocessing_batch_size": _COUNT,
    "dataloader_num_workers": _COUNT_OR_NONE,
    "dataloader_prefetch_factor": _COUNT,
    "seed": _SEED,
    "data_seed": _SEED,
    "ddp_timeout": _COUNT,
    "lora_rank": _COUNT,
    "lora_alpha": _COUNT,
    "lora_dropout": _SHARE_BELOW_1,
    "val_size": _FROM_0,
}

METRICS = ("loss", "eval_loss")
"""What supervised fine-tuning reports whatever is set."""

FINITE_HINT = "write a finite number, such as 1.0e-05"


def range_fault(key: str, value: Any) -> tuple[str, str] | None:
    """(message, hint) for a number that a key may not hold, or None. The type is somebody else's business."""
    if not all_finite(value):
        return f"'{key}' is not a finite number", FINITE_HINT
    allowed = RANGES.get(key)
    if allowed is None or isinstance(value, bool) or not isinstance(value, int | float) or allowed.holds(value):
        return None
    return f"'{key}' is {value!r}, it has to be {allowed}", _hint(key, allowed)


def metric_fault(template: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """(key, message, hint) for a best model that would be chosen by what is not reported, or upside down."""
    metric = template.get("metric_for_best_model")
    if isinstance(metric, str) and metric not in METRICS:
        key = "metric_for_best_model"
        return key, f"'{key}' is {metric!r}, which is not reported in supervised fine-tuning", "write eval_loss"
    if metric is not None and template.get("greater_is_better") is True:
        key = "greater_is_better"
        return key, f"'{key}' is true: the model with the highest loss would be kept", f"remove {key}"
    return None


def all_finite(value: Any) -> bool:
    """Whether no number in the value, however deep it lies, is infinite or NaN."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(all_finite, value.values()))
    return all(map(all_finite, value)) if isinstance(value, list) else True


def _hint(key: str, allowed: Range) -> str:
    if key == "max_steps":
        return "remove max_steps to train num_train_epochs"
    if key.endswith("_num_workers"):
        return f"remove {key}, or raise it"
    return f"set {key} to a value that is {allowed}"
