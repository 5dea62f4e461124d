"""Ports for the servers of tests that have to be told theirs: apart from those that systems and other tests choose."""

import itertools
import os
import random
import socket
from collections.abc import Iterator

FIRST, END = 20_000, 29_000
"""Above those that Ray gives to its workers, below torch's own and those that Linux gives to whoever names none."""


def _share() -> list[int]:
    """Those of this process of pytest-xdist, from a place by chance: another run of the tests may be on this host."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports = range(FIRST, END)[number::count]
    start = random.SystemRandom().randrange(len(ports))
    return [*ports[start:], *ports[:start]]


_next: Iterator[int] = itertools.cycle(_share())


def free_port() -> int:
    """A port that nobody uses on any address of this host; each call gives another one."""
    for port in itertools.islice(_next, END - FIRST):
        with socket.socket() as server:
            try:
                server.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
