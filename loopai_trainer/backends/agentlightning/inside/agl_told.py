"""What every part of the driver says, where it is found, and how it gives up."""

from __future__ import annotations

import socket
import sys
import threading

STOP = threading.Event()
"""SIGTERM or SIGINT has come: Agent Lightning swallows both and returns as if all were well."""


class Failed(Exception):
    """The run cannot go on. `code` is stable, the text is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def held_port(host: str) -> int:
    """A free TCP port of `host` that nobody else is given while this process lives: a socket stays bound to it.

    A server with SO_REUSEADDR, as asyncio, uvicorn and gunicorn set it, may listen there all the same (socket(7)).
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    port = int(held.getsockname()[1])
    held.detach()  # never closed, and never listening
    return port


def say(text: str) -> None:
    """A line of ours in train.log; the backend reads phases and errors from these."""
    sys.stdout.write(f"[loopai] {text}\n")
    sys.stdout.flush()
