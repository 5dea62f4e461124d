"""One node of a training over several: starts the command there under a guard, and says whether it has ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

_GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
_PAUSE_S = 0.1
_AFTER_KILL_S = 20.0


def node_env(env: Mapping[str, str], cache: str, rank: int, meeting: Mapping[str, str]) -> dict[str, str]:
    """The environment of a node's command. Caches of two nodes are never one folder: libraries lock them for one host.

    `cache`: the run's own, which the values of some variables lie in. `meeting`: where the ranks meet (torchrun).
    """
    own = cache if rank == 0 else os.path.join(cache, f"node-{rank}")
    moved = {
        name: own + value[len(cache) :] if value == cache or value.startswith(cache + os.sep) else value
        for name, value in env.items()
    }
    return {**moved, **meeting, "NODE_RANK": str(rank)}


class Node:
    """Becomes an actor of Ray (ray_jobs/driver.py), or is used as it is. If its process dies, the guard ends what it
    started."""

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._made = ""

    def address(self) -> tuple[str, str]:
        """(the address by which the cluster knows this node, its host name)."""
        from ray.util import get_node_ip_address

        return str(get_node_ip_address()), socket.gethostname()

    def free_port(self) -> int:
        """A port that nobody uses now, for the ranks to meet."""
        with socket.socket() as server:
            server.bind(("", 0))
            return int(server.getsockname()[1])

    def start(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], log: str) -> None:
        """Start the command with exactly this environment, but for the GPUs that Ray gave to this actor."""
        env = dict(env)
        if env.get("CUDA_VISIBLE_DEVICES"):
            env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._make_folders(env)
        with open(log, "ab") as output:
            os.chmod(log, 0o600)
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, *argv],
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """The command's exit status, 128 + N for signal N; None while it runs."""
        return None if self._guard is None else self._guard.poll()

    def stop(self, grace_s: float) -> int | None:
        """End the command and all below it; returns its exit status."""
        if self._guard is None:
            return None
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._tell(self._guard.stdin, f"{grace_s}\n")
        until = time.monotonic() + grace_s + _AFTER_KILL_S
        while self._guard.poll() is None and time.monotonic() < until:
            time.sleep(_PAUSE_S)
        if self._made and self._guard.poll() is not None:
            shutil.rmtree(self._made, ignore_errors=True)
        return self._guard.poll()

    def _tell(self, pipe: IO[bytes], text: str) -> None:
        try:
            pipe.write(text.encode())
            pipe.flush()
        except BrokenPipeError:
            pass  # it has ended
        finally:
            with suppress(BrokenPipeError):
                pipe.close()

    def _make_folders(self, env: Mapping[str, str]) -> None:
        """TMPDIR may be a folder of the first node's own disk; HOME is one of this node alone."""
        os.makedirs(env.get("HOME") or os.getcwd(), mode=0o700, exist_ok=True)
        tmp = env.get("TMPDIR", "")
        if tmp and not os.path.isdir(tmp):
            os.makedirs(tmp, mode=0o700)
            self._made = tmp
