"""Prepared runs of the stand-in backend, and callers of them as processes of their own."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fakes.answers import checked
from fakes.backend import BACKEND
from loopai_trainer.files import fingerprints
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import locks, processes
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker.observe import observe, read_result

TESTS = Path(__file__).resolve().parent.parent
LIMIT_S = 120.0

CALLER = """
import os, signal, sys
ignored = [int(number) for number in os.environ.pop("IGNORED").split()]
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
from loopai_trainer.cli.fast import main
sys.argv = ["trainer", *sys.argv[1:]]
sys.exit(main())
"""


class PreparedRun:
    """A run directory as `prepare` leaves it, for the stand-in backend."""

    def __init__(
        self, root: Path, version_id: str = "v1", loopai: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.root = root
        self.extra_env: dict[str, str] = {}
        self.run: RunDir = TaskDir(str(root / "outputs"), "task").run(version_id)
        os.makedirs(self.run.path, mode=0o700, exist_ok=True)
        data = Path(self.run.path, "train.jsonl")
        data.write_text('{"instruction": "a", "output": "b"}\n')
        model = root / "model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text("{}")
        block = {**self._loopai(data, model), **(loopai or {})}
        approved = options.pop("approved_resolve", options.get("resolve"))
        if approved:
            block["backend"] = {"resolved_sha256": plans.digest(approved.encode()), **block["backend"]}
        result = {"selection_metric": None, "selection_mode": None, "export_huggingface": bool(options.get("export"))}
        plan = plans.render(block, result, options)
        Path(self.run.config).write_text(plan.text)
        noted = {"version_id": version_id, "task_dir": self.run.task.path, "prepared_at": time.time()}
        Path(self.run.plan).write_text(json.dumps({**noted, "config_sha256": plan.sha256, "config_yaml": plan.text}))
        self.sha256 = plan.sha256

    def _loopai(self, data: Path, model: Path) -> dict[str, Any]:
        content = data.read_bytes()
        train = {"path": str(data), "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "rows": 1}
        return {
            "format": 1,
            "task_id": "task",
            "version_id": self.run.version_id,
            "framework": "stand_in",
            "stage": "sft",
            "backend": {
                "package": BACKEND.package,
                "version": "0",
                "python": os.path.join(sys.prefix, "bin", "python"),
                "environment": sys.prefix,
                "environment_sha256": "0" * 64,
            },
            "launch": {
                "executor": "local",
                "devices": "",
                "nodes": 1,
                "nproc_per_node": 1,
                "env": {},
                "pass_env": [],
            },
            "inputs": {
                "train": train,
                "model": {"path": str(model), "fingerprint": fingerprints.fingerprint_model(str(model)).fingerprint},
                "files": [],
            },
        }

    @property
    def env(self) -> dict[str, str]:
        """The environment of callers: the stand-in's entry point, and user directories of the test's own."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "COVERAGE_PROCESS_START") if key in os.environ}
        dirs = {
            f"LOOPAI_TRAINER_{kind.upper()}_DIR": str(self.root / kind) for kind in ("state", "cache", "data", "config")
        }
        path = os.pathsep.join((str(TESTS), str(TESTS / "fakes" / "site")))
        return {**kept, **dirs, "HOME": str(self.root), "PYTHONPATH": path, **self.extra_env}

    def call(self, *words: str, ignored: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
        """Start `trainer WORDS` as a process in a session of its own; of the signals only `ignored` are ignored."""
        return subprocess.Popen(
            [sys.executable, "-c", CALLER, *words],
            env={**self.env, "IGNORED": " ".join(str(int(number)) for number in ignored)},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def start(self, ignored: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
        """Start `trainer run-prepared` with the right hash."""
        return self.call("run-prepared", self.run.config, "--sha256", self.sha256, "--json", ignored=ignored)

    def run_to_end(self) -> tuple[int, dict[str, Any]]:
        """(exit code, JSON answer) of one whole `trainer run-prepared`."""
        return answer(self.start())

    @property
    def starts(self) -> int:
        """How many times training was exec'd."""
        path = os.path.join(self.run.checkpoints, "starts.txt")
        return len(Path(path).read_text().split()) if os.path.exists(path) else 0

    @property
    def status(self) -> str:
        return observe(self.run).verdict.status

    def state(self) -> dict[str, Any]:
        return observe(self.run).state

    def result(self) -> dict[str, Any]:
        return read_result(self.run) or {}

    def living(self) -> list[dict[str, Any]]:
        """Everything that carries this run's mark and lives."""
        return [dict(one) for one in processes.marked(self.run.version_id, self.run.path)]

    def locked(self) -> tuple[bool, bool]:
        return locks.held(self.run.run_lock), locks.held(self.run.training_lock)


def answer(caller: "subprocess.Popen[bytes]", limit_s: float = LIMIT_S) -> tuple[int, dict[str, Any]]:
    """(exit code, JSON document) of a caller that ends by itself."""
    out, err = caller.communicate(timeout=limit_s)
    try:
        return caller.returncode, checked(json.loads(out))
    except ValueError:
        raise AssertionError(f"exit {caller.returncode}, no JSON: {out!r} {err.decode()}") from None


def kill(identity: Any, number: int = signal.SIGKILL) -> None:
    """Signal exactly that process, if it lives."""
    assert identity and processes.send(identity, number)


def wait_for(condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """The first true value of `condition`; fails after `limit_s`."""
    until = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)
    return value
