"""The words that fields may hold."""

from typing import Literal

Severity = Literal["error", "warning"]
Where = Literal["train", "validation", "config", "model", "settings", "environment", "host", "template"]
MetricKind = Literal["train", "eval", "val", "summary"]
Mode = Literal["min", "max"]
