"""A real Ray cluster of two nodes on this host's loopback, ended by the identities of its own processes alone."""

import http.client
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from fakes.ports import free_port
from fakes.runs import TESTS, wait_for
from loopai_trainer.host import processes

HEAD, SECOND = "127.0.0.1", "127.0.0.2"
UP_S = 180.0
STARTS = 4
OBJECT_STORE_BYTES = 80_000_000


class RayCluster:
    """`ray` is the program of the environment that the cluster runs in. It has its own folder, ports and token."""

    def __init__(self, ray: str) -> None:
        self.ray = ray
        self.root = Path(tempfile.mkdtemp(prefix="rj", dir="/tmp"))  # sockets lie below it: paths have to be short
        self.token = self.root / "token"
        self.token.write_text(secrets.token_hex(24))
        self.gcs_port = self.dashboard_port = 0
        self.head: subprocess.Popen[bytes] | None = None
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Of the job server."""
        return f"http://{HEAD}:{self.dashboard_port}"

    @property
    def environ(self) -> dict[str, str]:
        """What whoever uses the cluster needs."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token), "GLOO_SOCKET_IFNAME": "lo"}

    def up(self) -> "RayCluster":
        """Start both nodes and wait until the job server answers and knows them.

        A head that gives up meanwhile is started again: somebody may take one of its ports before it does.
        """
        for _ in range(STARTS):
            if self._came_up():
                return self
            processes.terminate(self.processes, grace_s=10.0)
        raise AssertionError(self._head_log())

    def _came_up(self) -> bool:
        self._start_head()
        wait_for(lambda: self._head_log() or self._answers(), UP_S)
        if self.head.poll() is None:
            self._start_second()
            wait_for(lambda: self._head_log() or self._joined(), UP_S)
        return self.head.poll() is None

    def _start_head(self) -> None:
        """By other ports each time."""
        self.gcs_port, self.dashboard_port = free_port(), free_port()
        head = [f"--node-ip-address={HEAD}", "--head", f"--port={self.gcs_port}", "--include-dashboard=true"]
        head += [f"--dashboard-host={HEAD}", f"--dashboard-port={self.dashboard_port}"]
        head += [f"--temp-dir={self.root}/r{len(self.started)}"]
        head += [f"--ray-client-server-port={free_port()}", "--no-monitor"]
        self.head = self._start("head", head)

    def _start_second(self) -> None:
        self._start("second", [f"--node-ip-address={SECOND}", f"--address={HEAD}:{self.gcs_port}"])

    def _joined(self) -> bool:
        """Whether both nodes are known. A start that gave up on a busy machine, or lost its port, is made again."""
        if self.started[-1].poll() is not None and len(self.started) < 3 * STARTS:
            self._start_second()
        assert self.started[-1].poll() is None, (self.root / "second.log").read_text()
        return "2 nodes" in self._nodes()

    def _start(self, name: str, words: list[str]) -> "subprocess.Popen[bytes]":
        own = ["--num-cpus=6", "--num-gpus=1", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"]
        own += [f"--dashboard-agent-listen-port={free_port()}", "--min-worker-port=0", "--max-worker-port=0"]
        env = {
            **{key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ},
            **self.environ,
            "HOME": str(self.root),
            "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS / "fakes" / "site"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
            "RAY_prestart_worker_first_driver": "0",
            "OMP_NUM_THREADS": "1",
        }
        with open(self.root / f"{name}.log", "wb") as log:
            self.started.append(
                subprocess.Popen(
                    [self.ray, "start", "--block", *own, *words],
                    env=env,
                    cwd=self.root,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        return self.started[-1]

    def _head_log(self) -> str:
        """What the head said, once it has ended."""
        return "" if self.head.poll() is None else f"it ended: {(self.root / 'head.log').read_text()}"

    def _answers(self) -> bool:
        """Whether it is Ray's job server that answers, and takes this cluster's token."""
        asked = urllib.request.Request(f"{self.address}/api/version")
        asked.add_header("Authorization", f"Bearer {self.token.read_text()}")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=5.0) as said:
                return "ray_version" in json.load(said)
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def _nodes(self) -> str:
        python = os.path.join(os.path.dirname(self.ray), "python")
        code = "import ray, os; ray.init(logging_level='error'); print(sum(one['Alive'] for one in ray.nodes()), 'nodes'); ray.shutdown()"
        env = {**os.environ, **self.environ, "RAY_ADDRESS": f"{HEAD}:{self.gcs_port}", "HOME": str(self.root)}
        done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=False)
        return done.stdout

    def processes(self) -> list[Any]:
        """All living processes whose command line or environment names this cluster's folder."""
        mark = str(self.root).encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid() and mark in words_of(name):
                identity = processes.identify(int(name))
                if identity is not None:
                    found.append(identity)
        return found

    def kill_head(self) -> None:
        """SIGKILL to the head's own processes: its GCS, its raylet, its job server."""
        names = (b"gcs_server", b"raylet", b"dashboard")
        first = processes.descendants(processes.identify(self.head.pid))
        for one in first:
            if any(name in words_of(str(one["pid"])) for name in names):
                processes.send(one, 9)

    def down(self) -> None:
        """End everything of it, then take its folder away."""
        processes.terminate(self.processes, grace_s=10.0)
        for one in self.started:
            one.wait()
        shutil.rmtree(self.root, ignore_errors=True)


def words_of(pid: str) -> bytes:
    """Command line and environment; empty for a process that has ended or is somebody else's."""
    found = b""
    for name in ("cmdline", "environ"):
        try:
            found += Path("/proc", pid, name).read_bytes()
        except OSError:
            return found
    return found
