"""This host's clocks, read at one moment. Light: `status --json` and `run-prepared` import it."""

import time

from loopai_trainer.host import processes
from loopai_trainer.rules.approval import Clock


def read() -> Clock:
    """The wall clock, and the time since this boot."""
    return Clock(time.time(), processes.boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME))
