"""A cluster that is a folder: the executor `pretend_cluster`, found as anybody's is (tests/fakes/site).

Jobs are processes of this host. The folder holds a file a job (its identity), and, while it may not be asked, the file
`unreachable`. With `refuses`, a submitted job ends at once without a word. While `full` is there, a submitted job waits
(`begin` starts it), and one that is stopped meanwhile waits on, as on a real cluster, unless `gives_up` is there. With
`lockless`, locks are said not to be seen there, and with `hasty` a node was not asked; `limits` notes what time limits
`alive` was given.
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
        if os.path.exists(os.path.join(address, "full")):
            self._note(address, name, {"argv": list(argv), "env": dict(environ)})
            return
        self._start(address, name, argv, environ).returncode = 0  # nobody waits for it here: it is the host's

    def begin(self, address: str, name: str) -> int:
        """Start a job that waits; returns its exit status."""
        with open(os.path.join(address, f"{name}.json")) as file:
            job = json.load(file)
        return self._start(address, name, job["argv"], job["env"]).wait()

    def _start(
        self, address: str, name: str, argv: Sequence[str], environ: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        log = os.open(os.path.join(address, f"{name}.log"), os.O_WRONLY | os.O_CREAT, 0o600)
        started = subprocess.Popen(
            argv, env=dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        os.close(log)
        self._note(address, name, processes.identify(started.pid) or {})
        return started

    def _note(self, address: str, name: str, job: Mapping[str, Any]) -> None:
        path = os.path.join(address, f"{name}.json")
        with open(f"{path}.new", "w") as file:
            json.dump(job, file)
        os.rename(f"{path}.new", path)

    def alive(self, handle: str, limit_s: float | None = None) -> bool | None:
        address, name = handle.split(" ")
        with open(os.path.join(address, "limits"), "a") as file:
            file.write(f"{limit_s}\n")
        if os.path.exists(os.path.join(address, "unreachable")):
            return None
        try:
            with open(os.path.join(address, f"{name}.json")) as file:
                job = json.load(file)
                return "argv" in job or processes.alive(job)
        except FileNotFoundError:
            return False

    def stop(self, handle: str, grace_s: float) -> None:
        address, name = handle.split(" ")
        self._reach(address)
        with open(os.path.join(address, f"{name}.stopped"), "w"):
            pass
        if os.path.exists(os.path.join(address, "gives_up")):
            os.unlink(os.path.join(address, f"{name}.json"))

    def log(self, handle: str) -> str:
        address, name = handle.split(" ")
        self._reach(address)
        path = os.path.join(address, f"{name}.log")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def where(self, handle: str) -> str:
        return handle

    def told(self, handle: str) -> str:
        return "the pretended cluster says nothing"

    def ask(
        self, argv: Sequence[str], address: str, submission_id: str, environ: Mapping[str, str], limit_s: float
    ) -> str:
        self._reach(address)
        done = subprocess.run(argv, env=dict(environ), capture_output=True, text=True, timeout=limit_s, check=False)
        said = done.stdout + done.stderr
        if os.path.exists(os.path.join(address, "lockless")):
            said = said.replace('"locks_reach": true', '"locks_reach": false')
        if os.path.exists(os.path.join(address, "hasty")):
            said = said.replace('"not_asked": []', '"not_asked": ["n40"]')
        return said

    def place(
        self, command: Command, launch: Mapping[str, Any], places: Mapping[str, str], environ: Mapping[str, str]
    ) -> Command:
        return Command(command.argv, command.cwd, {**command.env, "PLACED": json.dumps(dict(places))})

    def _reach(self, address: str) -> None:
        if os.path.exists(os.path.join(address, "unreachable")):
            raise HostUnfit(f"{address} cannot be reached", code="CLUSTER_UNREACHABLE", hint="wait")


EXECUTOR = PretendCluster()
