"""The executor `ray_jobs`: the worker runs as the entrypoint of a job of a Ray cluster, wherever its head puts it.

Ray itself is loaded when the job server has to be asked.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import suppress

from loopai_trainer.errors import HostUnfit
from loopai_trainer.rules import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from loopai_trainer.records import Command

_FORWARDED = ("LOOPAI_TRAINER_", "PYTHONDONTWRITEBYTECODE")
"""Beginnings of names that the worker gets from the caller: where this program keeps its own files, no secret."""

_MADE_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_STOP_WAIT_S = 90
"""What Ray leaves a job between SIGTERM and SIGKILL; its own 3 s are less than a worker needs to end its training."""

_FRESH_S = 1.0
"""For so long an answer of the job server is good: a waiting caller looks five times a second."""

_PAUSE_S = 0.5

_STOP_S = 2.0
"""What the end of a job that nobody waits for any more may cost."""


class RayJobs:
    """Submits workers to the job server. Handle: its address, a blank, the submission id."""

    name = "ray_jobs"

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, bool | None]] = {}

    def handle(self, launch: Mapping[str, Any], run_dir: str, version_id: str, attempt: int) -> str:
        """The handle of an attempt: known before it is submitted. Ray takes a submission id only once.

        An id that this program made is unique; one that a user chose is so in its output folder alone.
        """
        name = version_id
        if not re.fullmatch(_MADE_ID, version_id):
            name += "-" + digest.sha256(os.fsencode(run_dir))[:8]
        return f"{launch['address']} {name if attempt == 1 else f'{name}.{attempt}'}"

    def submit(self, argv: Sequence[str], handle: str, environ: Mapping[str, str]) -> None:
        """Submit the worker; it is no error if a job of this handle is there already: it is this very one.

        Raises HostUnfit if the job server cannot be reached or refuses.
        """
        from loopai_trainer.executors.ray_jobs import client

        forwarded = {name: value for name, value in environ.items() if name.startswith(_FORWARDED)}
        env_vars = {**forwarded, "RAY_JOB_STOP_WAIT_TIME_S": str(_STOP_WAIT_S)}
        address, submission_id = handle.split(" ", 1)
        self._seen.pop(handle, None)
        client.submit(address, submission_id, "exec " + shlex.join(argv), env_vars)

    def alive(self, handle: str, limit_s: float | None = None) -> bool | None:
        """Whether the job waits or runs; None: the job server cannot be asked now, so nobody knows."""
        from loopai_trainer.executors.ray_jobs import client

        at_s, value = self._seen.get(handle, (0.0, None))
        if at_s and time.monotonic() - at_s < _FRESH_S:
            return value
        address, submission_id = handle.split(" ", 1)
        value = client.alive(address, submission_id, limit_s)
        self._seen[handle] = (time.monotonic(), value)
        return value

    def stop(self, handle: str, grace_s: float) -> None:
        """Ask Ray to stop the job: SIGTERM, which the worker takes as a request to cancel. Raises HostUnfit.

        Of a job that waits Ray takes note, and ends what it starts of it at once.
        """
        from loopai_trainer.executors.ray_jobs import client

        self._seen.pop(handle, None)
        address, submission_id = handle.split(" ", 1)
        client.stop(address, submission_id)

    def where(self, handle: str) -> str:
        """For people: the job and its cluster."""
        address, _, submission_id = handle.partition(" ")
        return f"job {submission_id} of the Ray cluster at {address}"

    def told(self, handle: str) -> str:
        """What Ray says of a job that has ended, in its own words; empty if it says nothing, or cannot be asked."""
        from loopai_trainer.executors.ray_jobs import client

        return client.message(*handle.split(" ", 1))

    def log(self, handle: str) -> str:
        """What Ray keeps of the job's own output, beside the files of the run. Raises HostUnfit."""
        from loopai_trainer.executors.ray_jobs import client

        return client.log(*handle.split(" ", 1))

    def ask(
        self, argv: Sequence[str], address: str, submission_id: str, environ: Mapping[str, str], limit_s: float
    ) -> str:
        """Run a short job and return its output. Raises HostUnfit, also if it takes longer than `limit_s` seconds."""
        from loopai_trainer.executors.ray_jobs import client

        until = time.monotonic() + limit_s
        self.submit(argv, f"{address} {submission_id}", environ)
        try:
            while client.alive(address, submission_id, until - time.monotonic()) is not False:
                if time.monotonic() > until:
                    raise client.too_slow(address, limit_s)
                time.sleep(_PAUSE_S)
        except (HostUnfit, KeyboardInterrupt):
            with suppress(HostUnfit):
                client.stop(address, submission_id, _STOP_S)
            raise
        # Its record stays: Ray calls a job failed that is deleted before its monitor has seen the end (ray 2.60).
        return client.log(address, submission_id)

    def place(
        self, command: Command, launch: Mapping[str, Any], places: Mapping[str, str], environ: Mapping[str, str]
    ) -> Command:
        """The command that runs `command` on the nodes of the cluster that this process runs on (see `placing`)."""
        from loopai_trainer.executors.ray_jobs import placing

        return placing.place(command, launch, places, environ)


EXECUTOR = RayJobs()
