"""Training's main process on a cluster: runs one command on each of N nodes and ends with the first that fails.

It holds the nodes in a placement group (STRICT_SPREAD) for as long as it lives. Rank 0's output is its own; every node
has a log file of its own. It is run by the interpreter that the plan names, whose Ray is the cluster's.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer.host.processes import MARK
from loopai_trainer.rules import cluster

_PAUSE_S = 0.3
_NODE_ANSWER_S = 60.0
"""A node that does not answer for so long is lost."""
_BREAK_S = 20.0
"""So is one that Ray calls unavailable for so long; less than the minute after which Ray ends a driver without head."""
_HEAD_LOOK_S = 5.0
_HEAD_LIMIT_S = 3.0
_SAID_CHARS = 200
_GRACE_S = 20.0
_WAITING_SAID_S = 60.0
_LOG_BYTES = 64 * 1024 * 1024
_PIECE = 256 * 1024
_SHOWN_BYTES = 64 * 1024
"""Of the log of a failed node: far less than what is read of training's output for the cause of a failure."""


class Lost(Exception):
    """A node of the cluster, or the cluster itself, is gone."""


class Driver:
    """One command on several nodes. `spec`: nodes, bundle, cwd, env (names), logs, cache, tmp (see placing.place)."""

    def __init__(self, spec: Mapping[str, Any], argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.spec = spec
        self.argv = list(argv)
        # Nothing that Ray, or whoever started it, has put into this process's environment besides.
        self.env = {name: env[name] for name in (*spec["env"], MARK) if name in env}
        self.head = env.get("RAY_ADDRESS", "")
        self._head_answers, self._next_look_s = True, 0.0
        self.asked = False
        self.nodes: list[Any] = []
        self.hosts: list[str] = []
        self.echo = Echo(self.log(0))

    def log(self, rank: int) -> str:
        """The log file of a node."""
        return f"{self.spec['logs']}{rank}.log"

    def run(self) -> int:
        """Training's exit status: of the first node that failed, else 0."""
        import ray

        try:
            group = self._group()
            if group is None:
                return 143
            self._start(group)
            return self._watch()
        except (ray.exceptions.RayError, Lost) as error:
            why = first_line(error)
            lost = why if isinstance(error, Lost) else self._cause(f"{type(error).__name__}: {why}")
            say(f"{cluster.FAILED}{lost}")
            self._stop()
            return 1
        finally:
            self.echo.take()

    def _group(self) -> Any:
        """The placement group once its nodes are held; None if training is to stop before."""
        from ray.util.placement_group import placement_group

        count, bundle = int(self.spec["nodes"]), dict(self.spec["bundle"])
        group = placement_group([bundle] * count, strategy="STRICT_SPREAD" if count > 1 else "PACK")
        said_s = 0.0
        while not group.wait(timeout_seconds=1):
            if self.asked:
                return None
            if time.monotonic() - said_s > _WAITING_SAID_S:
                said_s = time.monotonic()
                say(f"waiting for {count} nodes with {bundle} each")
        return group

    def _start(self, group: Any) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        from loopai_trainer.executors.node import Node, node_env

        bundle = dict(self.spec["bundle"])
        cpus, gpus = bundle.pop("CPU", 0), bundle.pop("GPU", 0)
        memory = {"memory": bundle.pop("memory")} if "memory" in bundle else {}
        for rank in range(int(self.spec["nodes"])):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            options = {"num_cpus": cpus, "num_gpus": gpus, "resources": bundle, **memory}
            self.nodes.append(ray.remote(Node).options(scheduling_strategy=place, **options).remote())
        places = self._all("address")
        port = ray.get(self.nodes[0].free_port.remote(), timeout=_NODE_ANSWER_S)
        self.hosts = [f"{host}, {address}" for address, host in places]
        for rank, (address, host) in enumerate(places):
            say(f"node {rank}: {host} ({address}), log {self.log(rank)}")
        meeting = {"NNODES": str(len(places)), "MASTER_ADDR": str(places[0][0]), "MASTER_PORT": str(port)}
        ray.get(
            [
                node.start.remote(
                    self.argv, self.spec["cwd"], node_env(self.env, self.spec["cache"], rank, meeting), self.log(rank)
                )
                for rank, node in enumerate(self.nodes)
            ],
            timeout=_NODE_ANSWER_S,
        )

    def _watch(self) -> int:
        while True:
            self._look_at_head()
            codes = self._all("poll")
            self.echo.take()
            for rank in range(1, len(self.nodes)):
                bound(self.log(rank))
            failed = [(rank, code) for rank, code in enumerate(codes) if code]
            if failed:
                rank, code = failed[0]
                say(f"node {rank} ended with exit status {code}; the others are stopped (its log: {self.log(rank)})")
                self._show(rank)
                self._stop()
                return int(code)
            if all(code == 0 for code in codes):
                return 0
            if self.asked:
                say("asked to stop: all nodes are stopped")
                self._stop()
                return 143
            time.sleep(_PAUSE_S)

    def _show(self, rank: int) -> None:
        """Put a failed node's last words into training's output, where the cause of a failure is looked for.

        Rank 0's are there. It may have none: it is stopped before it has noticed that the other one is gone.
        """
        words = last_bytes(self.log(rank)) if rank else b""
        if not words:
            return
        say(f"the last lines of node {rank}:")
        sys.stdout.buffer.write(words.removesuffix(b"\n") + b"\n")
        say(f"those were the last lines of node {rank}")

    def _all(self, name: str) -> list[Any]:
        """The answers of all nodes. Raises Lost."""
        return [self._answer(rank, node, name) for rank, node in enumerate(self.nodes)]

    def _answer(self, rank: int, node: Any, name: str) -> Any:
        """One node's answer. A connection that breaks for a moment is no lost node: training goes on beside it."""
        import ray

        until = time.monotonic() + _BREAK_S
        while True:
            try:
                return ray.get(getattr(node, name).remote(), timeout=_NODE_ANSWER_S)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
                passing = isinstance(error, ray.exceptions.ActorUnavailableError)
                if not passing or self.asked or time.monotonic() > until:
                    host = f" ({self.hosts[rank]})" if self.hosts else ""
                    why = f"node {rank}{host} is lost: {first_line(error)}"
                    raise Lost(self._cause(why)) from None
            self._look_at_head()
            time.sleep(_PAUSE_S)

    def _cause(self, why: str) -> str:
        """`why`, unless it is the head that is gone: Ray then ends its actors, so that nodes only seem to be."""
        if head_answers(self.head) is not False:
            return why
        return f"{cluster.HEAD_GONE} from {socket.gethostname()} at {self.head} any more ({why})"

    def _look_at_head(self) -> None:
        """Say when the head is gone, and when it is back: Ray ends this process in a while, without a word of why."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + _HEAD_LOOK_S
        answers = head_answers(self.head) is not False
        if answers != self._head_answers:
            self._head_answers = answers
            where = f"from {socket.gethostname()} at {self.head}"
            say(f"{cluster.HEAD_BACK} {where}" if answers else f"{cluster.HEAD_GONE} {where} any more")

    def _stop(self) -> None:
        """TERM, grace, KILL on every node that still answers; the others' guards end theirs by themselves."""
        import ray

        asked = [node.stop.remote(_GRACE_S) for node in self.nodes]
        until = time.monotonic() + _GRACE_S + _NODE_ANSWER_S
        for one in asked:
            try:
                ray.get(one, timeout=max(until - time.monotonic(), _PAUSE_S))
            except ray.exceptions.RayError:
                pass  # that node is gone, and with it what ran there


class Echo:
    """Copies what is appended to a node's log to this process's own output."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0

    def take(self) -> None:
        """Copy what is new, then keep the file within its bounds."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                while piece := file.read(_PIECE):
                    self.offset += len(piece)
                    sys.stdout.buffer.write(piece)
        except FileNotFoundError:
            return
        sys.stdout.buffer.flush()
        if bound(self.path):
            self.offset = 0


def bound(path: str) -> bool:
    """Copy a log that is too large to PATH.1 and empty it: its writer appends, and cannot be given another file."""
    try:
        if os.path.getsize(path) <= _LOG_BYTES:
            return False
        shutil.copyfile(path, path + ".1")
        os.truncate(path, 0)
    except OSError:
        return False
    return True


def last_bytes(path: str) -> bytes:
    """The last whole lines of a log, which may have been emptied into PATH.1 a moment ago; empty if there is none."""
    found = b""
    for part in (path + ".1", path):
        try:
            with open(part, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _SHOWN_BYTES - 1))  # one more tells that there is more
                found += file.read(_SHOWN_BYTES + 1)
        except OSError:
            continue  # a log is seldom so long that it has an older part
    if len(found) <= _SHOWN_BYTES:
        return found
    newest = found[-_SHOWN_BYTES:]
    return newest[newest.find(b"\n") + 1 :]


def first_line(error: BaseException) -> str:
    """What Ray says first; the name of an error that says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:_SAID_CHARS]


def head_answers(address: str) -> bool | None:
    """Whether the head takes connections at `HOST:PORT`, as RAY_ADDRESS names it; None: the text is no such address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_HEAD_LIMIT_S).close()
    except OSError:
        return False
    return True


def say(text: str) -> None:
    """A line of the driver's own in training's output."""
    sys.stdout.write(f"{cluster.DRIVER}{text}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """Connect to the cluster that RAY_ADDRESS names and run the command."""
    import ray

    driver = Driver(json.loads(words[0]), words[1:], os.environ)

    def ask(*_: object) -> None:
        driver.asked = True

    # Before ray.init, which takes SIGTERM for itself if nobody has.
    signal.signal(signal.SIGTERM, ask)
    try:
        ray.init(runtime_env={"py_executable": sys.executable}, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        say(f"the cluster cannot be joined: {first_line(error)}")
        return 1
    signal.signal(signal.SIGTERM, ask)
    try:
        return driver.run()
    finally:
        ray.shutdown()
