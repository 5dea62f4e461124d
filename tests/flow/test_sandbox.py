"""An agent inside its sandbox: it cannot start a training, and sees the one outside as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import sandboxes
from fakes.answers import checked
from fakes.runs import answer, wait_for

pytestmark = pytest.mark.flow

INSIDE = {
    "variable": pytest.param((), {"CODEX_SANDBOX": "seatbelt"}, id="variable"),
    "seccomp": pytest.param(sandboxes.seccomp("bind"), {}, id="seccomp", marks=sandboxes.needs_seccomp),
    "bwrap": pytest.param(sandboxes.bwrap(), {}, id="bwrap", marks=sandboxes.needs_bwrap),
}


def inside(prefix, run, *words, **environ):
    """(exit code, JSON answer) of `trainer WORDS --json` behind `prefix`."""
    argv = [*prefix, sys.executable, "-P", "-m", "loopai_trainer", *words, "--json"]
    done = subprocess.run(argv, capture_output=True, env={**run.env, **environ}, cwd=run.root, timeout=120, check=False)
    try:
        return done.returncode, checked(json.loads(done.stdout))
    except ValueError:
        raise AssertionError(f"exit {done.returncode}: {done.stdout!r} {done.stderr.decode()}") from None


def files_of(run):
    return {
        path: os.stat(path).st_mtime_ns
        for path in Path(run.root).rglob("*")
        if path.is_file() and "cache" not in path.parts
    }


@pytest.mark.parametrize(("prefix", "environ"), INSIDE.values())
def test_run_prepared_refuses_at_once_and_touches_nothing(prepare, prefix, environ):
    run = prepare()
    before = files_of(run)
    code, document = inside(prefix, run, "run-prepared", run.run.config, "--sha256", run.sha256, **environ)
    assert (code, document["error"]["code"], document["error"]["type"]) == (9, "SANDBOXED", "HostUnfit")
    assert "outside" in document["error"]["hint"]
    assert document["error"]["next_command"].startswith("trainer run-prepared")
    assert files_of(run) == before
    assert not os.path.exists(run.run.run_lock)
    assert run.starts == 0
    assert run.run_to_end()[0] == 0  # the approval was not used up


@sandboxes.needs_seccomp
def test_a_caller_that_may_bind_starts_behind_a_harmless_filter(prepare):
    run = prepare()
    code, _ = inside(sandboxes.seccomp("sethostname"), run, "run-prepared", run.run.config, "--sha256", run.sha256)
    assert code == 0


@sandboxes.needs_bwrap
def test_a_live_training_outside_is_seen_as_alive(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    look = lambda *words: inside(sandboxes.bwrap(), run, *words)  # noqa: E731 - the same call seven times
    assert look("status", run.run.path)[1]["data"]["status"] == "running"
    assert look("list", "--output-dir", str(run.root / "outputs"))[1]["data"]["runs"][0]["status"] == "running"
    assert look("logs", run.run.path)[1]["data"]["lines"]
    assert look("events", run.run.path)[1]["data"]["events"]
    code, document = look("wait", run.run.path, "--timeout", "0.2")
    assert (code, document["status"]) == (75, "running")
    assert inside(sandboxes.seccomp("bind"), run, "status", run.run.path)[1]["data"]["status"] == "running"
    hold.unlink()
    assert answer(caller)[0] == 0
    code, document = look("wait", run.run.path)
    assert (code, document["status"]) == (0, "completed")
    assert look("status", run.run.path)[1]["data"]["status"] == "completed"
    assert look("analyze", run.run.path)[0] == 0


@sandboxes.needs_bwrap
def test_a_prepared_run_is_seen_as_prepared_and_can_be_inspected(prepare):
    run = prepare()
    assert inside(sandboxes.bwrap(), run, "status", run.run.path)[1]["data"]["status"] == "prepared"
    code, document = inside(sandboxes.bwrap(), run, "inspect", run.run.config)
    assert code == 0, document
    assert document["data"]["config_sha256"] == run.sha256


@sandboxes.needs_bwrap
def test_a_killed_worker_outside_is_not_called_alive(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    from fakes.runs import kill

    kill(run.state()["worker"])
    wait_for(lambda: run.status == "orphaned")
    assert inside(sandboxes.bwrap(), run, "status", run.run.path)[1]["data"]["status"] == "orphaned"
    hold.unlink()
    answer(caller)
