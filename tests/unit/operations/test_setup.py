"""Setup with a stand-in backend: a local wheel of a few bytes instead of gigabytes from a registry."""

import os
import shlex
import shutil
import sys
import threading
import time
import zipfile
from types import SimpleNamespace

import pytest
from filelock import FileLock

from loopai_trainer.errors import BackendMissing, UsageError
from loopai_trainer.host import environments
from loopai_trainer.operations import setup as setups
from loopai_trainer.operations.setup import Talk, environment_root, make_environment
from loopai_trainer.records import EnvironmentSpec


def make_wheel(folder, name="tinybackend", version="1.0"):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "VALUE = 7\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """One environment that was really made: (spec, environ, root, what was said)."""
    folder = tmp_path_factory.mktemp("setup")
    make_wheel(folder / "wheels")
    spec = EnvironmentSpec("tinybackend", ("tinybackend==1.0",), "tinybackend==1.0\n", "import tinybackend")
    environ = {
        **os.environ,
        environments.DATA_DIR_VARIABLE: str(folder / "data"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
    }
    said = []
    root, reused = make_environment(spec, environ, Talk(said.append, said.append))
    assert not reused
    return spec, environ, root, said


@pytest.fixture
def copied(built, tmp_path, monkeypatch):
    """Virtual environments are copies of the one that was really made: to make one takes many times as long."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\ncp -a {shlex.quote(built[2])} "$3" && rm "$3/{environments.MARKER}"\n')
    program.chmod(0o755)
    monkeypatch.setattr(setups, "_base_python", lambda: str(program))


def with_spec(built, **changes):
    spec = built[0]
    values = {name: getattr(spec, name) for name in ("name", "requirements", "constraints", "smoke")}
    return EnvironmentSpec(**{**values, **changes})


def test_an_environment_is_made_tried_and_marked(built):
    spec, environ, root, said = built
    marker = environments.read_marker(root)
    assert marker["spec_sha256"] == environments.spec_sha256(spec)
    assert marker["versions"]["tinybackend"] == "1.0"
    assert said[0] == "making a virtual environment" and said[-1].endswith(f"is ready in {root}")
    versions = environments.read_versions(environments.resolve(root, "tinybackend", environ), "tinybackend")
    assert versions.version == "1.0"
    assert environments.default(spec, environ).root == root


def test_a_finished_one_is_reused(built):
    spec, environ, root, _ = built
    said = []
    assert make_environment(spec, environ, Talk(said.append)) == (root, True)
    assert said == []


def test_other_pins_or_another_python_are_another_environment(built, monkeypatch):
    spec, environ, root, _ = built
    assert environment_root(with_spec(built, constraints="tinybackend==1.0\nx==1\n"), environ) != root
    monkeypatch.setattr(sys, "version_info", SimpleNamespace(major=3, minor=99))
    assert environment_root(spec, environ) != root


def test_a_smoke_test_that_fails_leaves_no_mark_and_tells_the_log(built, copied):
    spec = with_spec(
        built,
        constraints="# broken\ntinybackend==1.0\n",
        smoke="import tinybackend\nraise SystemExit('torchvision::nms does not exist')",
    )
    with pytest.raises(BackendMissing) as caught:
        make_environment(spec, built[1], Talk(lambda _: None))
    error = caught.value
    assert (error.code, error.exit_code) == ("SETUP_FAILED", 69)
    assert "torchvision::nms does not exist" in error.message
    assert error.details["log_path"] in error.message
    assert environments.read_marker(environment_root(spec, built[1])) is None


def test_a_requirement_that_cannot_be_had_shows_pips_own_words(built, copied):
    spec = with_spec(built, requirements=("there-is-no-such-backend==1",))
    with pytest.raises(BackendMissing, match="No matching distribution found"):
        make_environment(spec, built[1], Talk(lambda _: None))


def test_a_half_made_one_is_removed_and_built_anew(built, tmp_path):
    spec, environ, _, _ = built
    environ = {**environ, environments.DATA_DIR_VARIABLE: str(tmp_path)}
    half = environment_root(spec, environ)
    os.makedirs(os.path.join(half, "lib"))
    open(os.path.join(half, "lib", "rubbish"), "w").close()
    said = []

    def build(spec, root, environ, talk):
        assert not os.path.exists(root)
        shutil.copytree(built[2], root, symlinks=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setups, "_build", build)
        assert make_environment(spec, environ, Talk(said.append)) == (half, False)
    assert said == [f"removing the half-made {half}"]
    assert not os.path.exists(os.path.join(half, "lib", "rubbish"))


def test_the_second_of_two_waits_says_so_and_reuses(built, tmp_path, monkeypatch):
    spec, environ, _, _ = built
    environ = {**environ, environments.DATA_DIR_VARIABLE: str(tmp_path)}
    root = environment_root(spec, environ)
    os.makedirs(os.path.dirname(root))
    waiting, said, outcome = threading.Event(), [], []

    def say(line):
        said.append(line)
        waiting.set()

    monkeypatch.setattr(setups, "_build", lambda *_: pytest.fail("built twice"))
    second = threading.Thread(target=lambda: outcome.append(make_environment(spec, environ, Talk(say))))
    with FileLock(root + ".lock", thread_local=False):
        second.start()
        assert waiting.wait(30)
        shutil.copytree(built[2], root, symlinks=True)
    second.join(30)
    assert outcome == [(root, True)]
    assert said == ["another setup is at work; waiting for it"]


def test_without_a_live_view_a_line_is_said_now_and_then(built, tmp_path, monkeypatch):
    monkeypatch.setattr(setups, "POLL_S", 0.01)
    monkeypatch.setattr(setups, "SAY_EVERY_S", 0.0)
    said, live = [], []
    log, seen = str(tmp_path / "log"), tmp_path / "seen"
    code = "import os, sys, time\nprint('Collecting  x')\nuntil = time.monotonic() + 60.0\n"
    code += "while not os.path.exists(sys.argv[1]) and time.monotonic() < until: time.sleep(0.01)"
    waiting = (sys.executable, "-u", "-c", code, str(seen))

    def until(wanted, lines):
        def note(line):
            lines.append(line)
            if line == wanted:
                seen.touch()

        return note

    setups._step("working", waiting, log, os.environ, Talk(until("working: Collecting x", said)))
    seen.unlink()
    setups._step("working", waiting, log, os.environ, Talk(lambda _: None, until("Collecting x", live)))
    assert "working: Collecting x" in said and "Collecting x" in live


def test_an_interrupted_step_takes_its_process_along(built, tmp_path, monkeypatch):
    def interrupt(line):
        raise KeyboardInterrupt

    log = tmp_path / "log"
    forever = (sys.executable, "-c", "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    monkeypatch.setattr(setups, "POLL_S", 0.01)
    monkeypatch.setattr(setups, "_newest_line", _once_it_has_started)
    with pytest.raises(KeyboardInterrupt):
        setups._step("working", forever, str(log), os.environ, Talk(lambda _: None, interrupt))
    pid = int(log.read_text().splitlines()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _once_it_has_started(log, limit_s=30.0):
    end = time.monotonic() + limit_s
    while not setups._tail(log)[-1].isdigit():
        assert time.monotonic() < end
        time.sleep(0.01)
    return ""


def test_packages_of_the_caller_do_not_leak_in():
    cleaned = setups._clean({"PYTHONPATH": "/x", "PIP_TARGET": "/y", "PIP_INDEX_URL": "mirror", "HTTPS_PROXY": "p"})
    assert cleaned == {"PIP_INDEX_URL": "mirror", "HTTPS_PROXY": "p", "PYTHONNOUSERSITE": "1"}


def test_setup_answers_with_backend_python_folder_and_versions(built, monkeypatch):
    spec, environ, root, _ = built
    monkeypatch.setattr(setups, "_spec", lambda name: spec)
    answer = setups.setup("tinybackend", environ)
    assert answer.ok and set(answer.data) == {"backend", "python", "env_dir", "versions"}
    assert (answer.data["backend"], answer.data["env_dir"]) == ("tinybackend", root)
    assert answer.data["versions"]["tinybackend"] == "1.0"


def test_an_unknown_backend_is_refused_with_the_known_ones():
    with pytest.raises(UsageError) as caught:
        setups.setup("axolotl", {})
    assert "llamafactory" in caught.value.hint
    assert setups._spec("llamafactory").name == "llamafactory"
