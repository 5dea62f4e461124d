"""What a run of Agent Lightning leaves on disk: metric rows, the store's content, and prompts with their scores."""

from __future__ import annotations

import json
import math
import os
import threading

from agl_hidden import without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Records:
    """Writes below one run directory. Every line is one write; whole files are renamed into place."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.metrics = paths["metrics"]
        self.store = paths["store"]
        self.results = paths["results"]
        self._lock = threading.Lock()
        for folder in (os.path.dirname(self.metrics), self.store):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def metric(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """One row of metrics; what is no number is left out."""
        numbers = {name: value for name, value in values.items() if is_number(value)}
        self.line(self.metrics, {"step": step, "kind": kind, "values": numbers})

    def stored(self, name: str, value: Any) -> None:
        """One line of store/NAME.jsonl."""
        self.line(os.path.join(self.store, name + ".jsonl"), value)

    def line(self, path: str, value: Any) -> None:
        """Append one JSON line."""
        data = as_json(value).encode("utf-8", "replace") + b"\n"
        with self._lock:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)

    def whole(self, path: str, value: Any) -> None:
        """Write a JSON file in one step."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temp = f"{path}.{os.getpid()}.tmp"
        with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(as_json(value, indent=2).encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON as the standard has it, without hidden values: a number that is not finite is null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent, default=str)
    return str(without(text))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def plain(value: Any) -> Any:
    """A record of Agent Lightning (a pydantic model) as JSON values."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
