"""setup: makes a backend's pinned environment, proves that it works, marks it complete; a finished one is reused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from filelock import FileLock, Timeout

from loopai_trainer import backends
from loopai_trainer.errors import BackendMissing, UsageError
from loopai_trainer.files import atomic
from loopai_trainer.host import environments
from loopai_trainer.operations.answer import Answer
from loopai_trainer.records import EnvironmentSpec

Progress = Callable[[str], None]
"""Called with one line for people, whenever something new is to be said."""

TAIL_LINES = 15
POLL_S = 0.5
SAY_EVERY_S = 20.0


class Talk(NamedTuple):
    """`say`: a line that stays. `live`: the log's newest line, twice a second, for a terminal that replaces it;
    None: such a line is said every 20 seconds instead."""

    say: Progress
    live: Progress | None = None


def setup(
    name: str, environ: Mapping[str, str], progress: Progress | None = None, live: Progress | None = None
) -> Answer:
    """The environment of the backend called `name`, made if need be.

    Raises UsageError for an unknown name, BackendMissing (SETUP_FAILED) with the log's path and its last lines.
    """
    spec = _spec(name)
    made, reused = make_environment(spec, environ, Talk(progress or _say_nothing, live))
    environment = environments.resolve(made, spec.name, environ, f"trainer setup {spec.name}")
    versions = environments.read_versions(environment, spec.name)
    data = {
        "backend": spec.name,
        "python": environment.python,
        "env_dir": environment.root,
        "versions": dict(versions.distributions),
    }
    return Answer("setup", data, message=f"{spec.name} {versions.version} {'was there' if reused else 'is ready'}")


def make_environment(spec: EnvironmentSpec, environ: Mapping[str, str], talk: Talk) -> tuple[str, bool]:
    """(root, whether it was there already). One process builds, others wait for it. Raises BackendMissing."""
    root = environment_root(spec, environ)
    if environments.read_marker(root):
        return root, True
    os.makedirs(os.path.dirname(root), mode=0o700, exist_ok=True)
    with _only_one(root + ".lock", talk):
        if environments.read_marker(root):
            return root, True
        if os.path.lexists(root):
            talk.say(f"removing the half-made {root}")
            shutil.rmtree(root)
        _build(spec, root, environ, talk)
    return root, False


def environment_root(spec: EnvironmentSpec, environ: Mapping[str, str]) -> str:
    """Where it is made: one folder for each set of pins and Python version."""
    digest = environments.spec_sha256(spec, f"{sys.version_info.major}.{sys.version_info.minor}")
    return os.path.join(environments.environments_dir(environ), f"{spec.name}-{digest[:12]}")


def _spec(name: str) -> EnvironmentSpec:
    known: dict[str, None] = {}
    for framework, stage in backends.names():
        spec = backends.get(framework, stage).environment_spec()
        if spec is not None:
            known[spec.name] = None
            if name in (spec.name, framework):
                return spec
    raise UsageError(f"there is no backend '{name}' to set up", hint=f"choose one of: {', '.join(known)}")


def _build(spec: EnvironmentSpec, root: str, environ: Mapping[str, str], talk: Talk) -> None:
    log = root + ".log"
    constraints = root + ".constraints.txt"
    atomic.write_text(constraints, spec.constraints)
    python = os.path.join(root, "bin", "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off")
    env = _clean(environ)
    with open(log, "wb") as output:
        output.truncate()
    _step("making a virtual environment", (_base_python(), "-m", "venv", root), log, env, talk)
    _step(f"installing {' '.join(spec.requirements)}", (*pip, "-c", constraints, *spec.requirements), log, env, talk)
    _step("trying it: importing what training needs", (python, "-c", spec.smoke), log, env, talk)
    environment = environments.resolve(root, spec.name, environ)
    versions = environments.read_versions(environment, spec.name)
    marker = {
        "format": 1,
        "spec_sha256": environments.spec_sha256(spec),
        "made_at": time.time(),
        "versions": dict(versions.distributions),
    }
    atomic.write_json(os.path.join(root, environments.MARKER), marker)
    talk.say(f"{spec.name} {versions.version} is ready in {root}")


def _step(what: str, argv: Sequence[str], log: str, env: Mapping[str, str], talk: Talk) -> None:
    """Run one command with its output in the log, telling the log's newest line. Raises BackendMissing."""
    talk.say(what)
    said = time.monotonic()
    with open(log, "ab") as output:
        output.write(f"\n$ {' '.join(argv[:1])} ... # {what}\n".encode())
        output.flush()
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=os.path.dirname(log),
        )
        try:
            while _still_runs(process):
                if talk.live:
                    talk.live(_newest_line(log))
                elif time.monotonic() - said >= SAY_EVERY_S:
                    said = time.monotonic()
                    talk.say(f"{what}: {_newest_line(log)}")
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        tail = "\n  ".join(_tail(log))
        raise BackendMissing(
            f"setup failed while {what} (exit status {process.returncode}); the last lines of {log}:\n  {tail}",
            code="SETUP_FAILED",
            hint=f"read {log}, then run the same setup again: it starts afresh",
            details={"log_path": log},
        )


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


@contextmanager
def _only_one(path: str, talk: Talk) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        talk.say("another setup is at work; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _base_python() -> str:
    """The interpreter behind this one: an environment made from a virtual one would depend on that one's life."""
    base = getattr(sys, "_base_executable", "")
    return base if base and os.path.isfile(base) else sys.executable


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment (pip's own settings and proxies included), without what would leak in other packages."""
    unwanted = (
        "PYTHONPATH",
        "PYTHONHOME",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_CONSTRAINT",
    )
    return {name: value for name, value in environ.items() if name not in unwanted} | {"PYTHONNOUSERSITE": "1"}


def _newest_line(log: str) -> str:
    lines = _tail(log)
    return re.sub(r"\s+", " ", lines[-1])[:100] if lines else ""


def _tail(log: str) -> list[str]:
    with open(log, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16384))
        text = file.read().decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def _say_nothing(line: str) -> None:
    del line
