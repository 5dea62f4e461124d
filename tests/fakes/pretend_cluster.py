"""A cluster that is a folder: the executor `pretend_cluster`, found as anybody's is (tests/fakes/site).

Jobs are processes of this host. The folder holds a file a job (its identity), and, while it may not be asked, the file
`unreachable`. With `refuses`, a submitted job ends at once without a word.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer.errors import HostUnfit
from loopai_trainer.host import processes
from loopai_trainer.records import Command


class PretendCluster:
    name = "pretend_cluster"

    def handle(self, launch: Mapping[str, Any], run_dir: str, version_id: str, attempt: int) -> str:
        return f"{launch['address']} {version_id if attempt == 1 else f'{version_id}.{attempt}'}"

    def submit(self, argv: Sequence[str], handle: str, environ: Mapping[str, str]) -> None:
        address, name = handle.split(" ")
        self._reach(address)
        if os.path.exists(os.path.join(address, f"{name}.json")):
            return
        if os.path.exists(os.path.join(address, "refuses")):
            argv = [sys.executable, "-c", "pass"]
        log = os.open(os.path.join(address, f"{name}.log"), os.O_WRONLY | os.O_CREAT, 0o600)
        started = subprocess.Popen(
            argv, env=dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        os.close(log)
        started.returncode = 0  # nobody waits for it here: it is the host's
        with open(os.path.join(address, f"{name}.json"), "w") as file:
            json.dump(processes.identify(started.pid) or {}, file)

    def alive(self, handle: str) -> bool | None:
        address, name = handle.split(" ")
        if os.path.exists(os.path.join(address, "unreachable")):
            return None
        try:
            with open(os.path.join(address, f"{name}.json")) as file:
                return processes.alive(json.load(file))
        except FileNotFoundError:
            return False

    def stop(self, handle: str, grace_s: float) -> None:
        raise NotImplementedError

    def where(self, handle: str) -> str:
        return handle

    def told(self, handle: str) -> str:
        return "the pretended cluster says nothing"

    def ask(
        self, argv: Sequence[str], address: str, submission_id: str, environ: Mapping[str, str], limit_s: float
    ) -> str:
        self._reach(address)
        done = subprocess.run(argv, env=dict(environ), capture_output=True, text=True, timeout=limit_s, check=False)
        return done.stdout + done.stderr

    def place(
        self, command: Command, launch: Mapping[str, Any], places: Mapping[str, str], environ: Mapping[str, str]
    ) -> Command:
        return Command(command.argv, command.cwd, {**command.env, "PLACED": json.dumps(dict(places))})

    def _reach(self, address: str) -> None:
        if os.path.exists(os.path.join(address, "unreachable")):
            raise HostUnfit(f"{address} cannot be reached", code="CLUSTER_UNREACHABLE", hint="wait")


EXECUTOR = PretendCluster()
