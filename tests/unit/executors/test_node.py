"""One node's share of a training: its environment, and the guard that leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.runs import wait_for

from loopai_trainer.executors import guard, node
from loopai_trainer.host import processes

GUARD = guard.__file__
SLEEPER = "import time; time.sleep(300)"
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"], start_new_session=True)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(float(sys.argv[2]))
"""


def test_nodes_have_caches_of_their_own():
    env = {"HOME": "/run/cache", "HF_HOME": "/run/cache/hf", "OTHER": "/run/cached", "A": "1"}
    meeting = {"MASTER_ADDR": "h", "NNODES": "2"}
    assert node.node_env(env, "/run/cache", 0, meeting) == {**env, **meeting, "NODE_RANK": "0"}
    second = node.node_env(env, "/run/cache", 1, meeting)
    assert second["HOME"] == "/run/cache/node-1"
    assert second["HF_HOME"] == "/run/cache/node-1/hf"
    assert second["OTHER"] == "/run/cached"
    assert second["NODE_RANK"] == "1"


@pytest.fixture
def started(tmp_path):
    """Starts a node's command; ends what a failed test left."""
    made = node.Node()

    def start(code, *words, **env):
        argv = [sys.executable, "-I", "-S", "-c", code, *words]
        whole = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], **env}
        made.start(argv, str(tmp_path), whole, str(tmp_path / "node.log"))
        return made

    yield start
    made.stop(0.0)


def test_a_command_with_exactly_its_environment(started, tmp_path):
    one = started("import os; print(sorted(os.environ), os.getcwd(), end='')", TMPDIR=str(tmp_path / "tmp"))
    assert wait_for(lambda: one.poll() is not None)
    assert one.poll() == 0
    log = tmp_path / "node.log"
    names = log.read_text()
    assert names == f"['HOME', 'PATH', 'TMPDIR'] {tmp_path}" or "LC_CTYPE" in names
    assert log.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home").is_dir()
    assert (tmp_path / "tmp").is_dir()
    one.stop(1.0)
    assert not (tmp_path / "tmp").exists()


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_exit_statuses(started, code, status):
    one = started(code)
    wait_for(lambda: one.poll() is not None)
    assert one.poll() == status


def test_a_command_that_cannot_be_started(tmp_path):
    one = node.Node()
    assert one.poll() is None
    assert one.stop(1.0) is None
    one.start(["/does/not/exist"], str(tmp_path), {"PATH": "/bin"}, str(tmp_path / "node.log"))
    wait_for(lambda: one.poll() is not None)
    assert one.poll() == 127
    assert "/does/not/exist" in (tmp_path / "node.log").read_text()
    assert one.stop(0.0) == 127


def test_a_stop_ends_everything_below(started, tmp_path):
    pids = tmp_path / "pids"
    one = started(FAMILY, str(pids), "300")
    family = [int(pid) for pid in wait_for(lambda: pids.exists() and pids.read_text()).split()]
    assert one.stop(60.0) == 128 + signal.SIGTERM
    assert [pid for pid in family if processes.identify(pid)] == []


def test_an_end_takes_what_is_left_along(started, tmp_path):
    pids = tmp_path / "pids"
    one = started(FAMILY, str(pids), "0")
    wait_for(lambda: one.poll() is not None)
    assert one.poll() == 0
    family = [int(pid) for pid in pids.read_text().split()]
    assert [pid for pid in family if processes.identify(pid)] == []


def test_a_deaf_command_is_killed_after_the_grace(started, tmp_path):
    ready = tmp_path / "ready"
    code = f"import signal; signal.signal(15, signal.SIG_IGN); open({str(ready)!r}, 'w'); {SLEEPER}"
    one = started(code)
    wait_for(ready.exists)
    assert one.stop(0.2) == 137


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_starters_death_ends_everything(tmp_path, number):
    """The starter is killed, and with it (as Ray does) its own child; the guard is neither."""
    pids = tmp_path / "pids"
    code = f"""
import subprocess, sys, time
argv = [{sys.executable!r}, "-I", "-S", {GUARD!r}, {sys.executable!r}, "-I", "-S", "-c", {FAMILY!r}, {str(pids)!r}, "300"]
child = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
print(child.pid, flush=True)
time.sleep(300)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(starter.stdout.readline())
    family = [int(pid) for pid in wait_for(lambda: pids.exists() and pids.read_text()).split()]
    if number == signal.SIGKILL:
        os.kill(child, signal.SIGKILL)
    starter.send_signal(number)
    starter.wait()
    starter.stdout.close()
    wait_for(lambda: not [pid for pid in family if processes.identify(pid)])


def test_devices_are_those_that_the_cluster_gave(started, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    one = started("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])", CUDA_VISIBLE_DEVICES="0,1")
    wait_for(lambda: one.poll() is not None)
    assert Path(tmp_path, "node.log").read_text() == "5,7\n"


def test_a_plan_without_devices_gets_none(started, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    one = started("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))", CUDA_VISIBLE_DEVICES="")
    wait_for(lambda: one.poll() is not None)
    assert Path(tmp_path, "node.log").read_text() == "''\n"


def test_a_free_port():
    assert 0 < node.Node().free_port() < 65536
