"""What every part of the driver says, and how it gives up."""

from __future__ import annotations

import sys
import threading

STOP = threading.Event()
"""SIGTERM or SIGINT has come: Agent Lightning swallows both and returns as if all were well."""


class Failed(Exception):
    """The run cannot go on. `code` is stable, the text is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    """A line of ours in train.log; the backend reads phases and errors from these."""
    sys.stdout.write(f"[loopai] {text}\n")
    sys.stdout.flush()
