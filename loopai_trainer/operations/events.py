"""events: the run's event log, by `seq`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from loopai_trainer.files import event_log
from loopai_trainer.operations import targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.worker.observe import observe

POLL_S = 0.2


def events(version: str, scope: targets.Scope, since_seq: int = 0) -> Answer:
    """All events after `since_seq`; `next_seq` is what to pass as `since_seq` the next time."""
    run = targets.find(version, scope)
    found = event_log.read(run.events, since_seq)
    next_seq = found[-1]["seq"] if found else since_seq
    return Answer("events", {"events": found, "next_seq": next_seq})


def follow_events(version: str, scope: targets.Scope, since_seq: int = 0) -> Iterator[dict[str, Any]]:
    """Events as they come, until the run has ended."""
    run = targets.find(version, scope)
    offset = 0
    while True:
        goes_on = observe(run).verdict.goes_on
        found, offset = event_log.read_from(run.events, offset)
        yield from (event for event in found if event["seq"] > since_seq)
        if not goes_on:
            return
        time.sleep(POLL_S)
