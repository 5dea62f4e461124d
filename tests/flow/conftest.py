"""Prepared runs for flow tests, and proof after each test that nothing of them is left running."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started


@pytest.fixture
def prepare(tmp_path: Path) -> Iterator[Callable[..., PreparedRun]]:
    """Makes prepared runs; ends what a failed test left of them, and fails a test that left something."""
    made: list[PreparedRun] = []

    def make(version_id: str = "v1", **options: Any) -> PreparedRun:
        made.append(PreparedRun(tmp_path, version_id, **options))
        return made[-1]

    yield make
    # A worker writes its last state and then leaves: what counts is that it does leave.
    until = time.monotonic() + 60.0
    while (left := [one for run in made for one in leftovers(run)]) and time.monotonic() < until:
        time.sleep(0.02)
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


def leftovers(prepared: PreparedRun) -> list[Any]:
    """Worker, keeper and training processes of a run that live."""
    own = [prepared.state().get("worker"), read_started(prepared.run).get("keeper")]
    return [one for one in own if processes.alive(one)] + prepared.living()
