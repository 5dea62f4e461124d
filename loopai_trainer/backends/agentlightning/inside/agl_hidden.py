"""Keeps the values of secret variables out of what the driver writes: its records, and what Python prints."""

from __future__ import annotations

import io
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SHOWN = "[redacted]"
MIN_LENGTH = 8
"""Both as in loopai_trainer/rules/secrets.py: a shorter value would be found inside ordinary words."""

_values: list[str] = []


def hide(names: Iterable[str]) -> None:
    """From now on the values of these variables are hidden, and so they are in what this process and its forks print.

    What other programs, or code that is not Python, write to the same streams passes as it is.
    """
    found = {os.environ.get(name, "") for name in names}
    forms = {
        form
        for value in found
        if len(value) >= MIN_LENGTH
        for form in (value, json.dumps(value, ensure_ascii=False)[1:-1])
    }
    _values[:] = sorted(forms, key=len, reverse=True)
    if _values:
        sys.stdout, sys.stderr = _hiding(sys.stdout), _hiding(sys.stderr)


def without(text: str) -> str:
    """The text without these values."""
    for value in _values:
        if value in text:
            text = text.replace(value, SHOWN)
    return text


class _Hiding(io.TextIOWrapper):
    """A text stream that writes no hidden value; one that is printed in pieces is not seen."""

    def write(self, text: str) -> int:
        super().write(without(text))
        return len(text)


def _hiding(stream: Any) -> Any:
    stream.flush()
    # A descriptor of its own: the former stream closes its buffer when it goes.
    binary = os.fdopen(os.dup(stream.fileno()), "wb", buffering=0)
    return _Hiding(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=True)
