import os
import signal
import subprocess
import sys
import time

import pytest

from loopai_trainer.host import processes


@pytest.fixture
def sleeper():
    """Starts Python processes that sleep, and ends them."""
    made = []

    def start(code="import time; time.sleep(60)", **kwargs):
        made.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **kwargs))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.communicate()


def wait_for(condition, limit_s=20.0):
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_identity_of_this_process():
    own = processes.own_identity()
    assert own["pid"] == os.getpid()
    assert processes.alive(own)
    assert processes.visible(own)


@pytest.mark.parametrize(
    "changed", [{"start_time": 1}, {"boot_id": "another"}, {"pid_ns": 1}, {"pid": 4194304 + 5}, {"pid": None}]
)
def test_any_other_part_means_another_process(changed):
    assert not processes.alive({**processes.own_identity(), **changed})


@pytest.mark.parametrize("record", [None, {}, {"pid": os.getpid()}, {"pid": True}, {"pid": -1}, "text"])
def test_an_incomplete_record_is_never_trusted(record):
    assert not processes.alive(record)


def test_other_namespaces_are_not_visible():
    assert not processes.visible({**processes.own_identity(), "pid_ns": 1})
    assert not processes.visible(None)


def test_a_zombie_is_not_alive(sleeper):
    child = sleeper("pass")
    wait_for(lambda: processes.identify(child.pid) is None)  # not reaped yet
    assert os.path.exists(f"/proc/{child.pid}")


def test_descendants_are_found_whatever_their_session(sleeper):
    code = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    child = sleeper(code)
    grandchild = int(child.stdout.readline())
    found = {one["pid"] for one in processes.descendants(processes.identify(child.pid))}
    assert found == {grandchild}
    assert {child.pid, grandchild} <= {one["pid"] for one in processes.descendants(processes.own_identity())}
    processes.send(processes.identify(grandchild), signal.SIGKILL)


def test_nothing_descends_from_the_dead():
    assert processes.descendants(None) == []
    assert processes.descendants({**processes.own_identity(), "start_time": 1}) == []


def test_marked_processes_are_those_of_this_run_alone(sleeper, tmp_path):
    here, other = tmp_path / "a", tmp_path / "b"
    here.mkdir()
    other.mkdir()
    ours = sleeper(env={**os.environ, processes.MARK: processes.mark("v1", 2, str(here))})
    sleeper(env={**os.environ, processes.MARK: processes.mark("v1", 1, str(other))})
    sleeper(env={**os.environ, processes.MARK: processes.mark("v10", 1, str(here))})
    sleeper(env={**os.environ, "X": f"{processes.MARK}={processes.mark('v1', 1, str(here))}"})
    wait_for(lambda: processes.marked("v1", str(here)))
    assert [one["pid"] for one in processes.marked("v1", str(here))] == [ours.pid]


def test_send_refuses_a_used_pid(sleeper):
    child = sleeper()
    identity = processes.identify(child.pid)
    assert identity is not None
    assert not processes.send({**identity, "start_time": identity["start_time"] + 1}, signal.SIGKILL)
    assert child.poll() is None
    assert processes.send(identity, signal.SIGKILL)
    child.wait()
    assert not processes.send(identity, signal.SIGKILL)


def test_terminate_asks_first_and_kills_the_deaf(sleeper):
    polite = sleeper()
    deaf = sleeper(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    deaf.stdout.readline()
    both = [processes.identify(polite.pid), processes.identify(deaf.pid)]
    survivors = processes.terminate(lambda: [one for one in both if processes.alive(one)], grace_s=0.5)
    assert survivors == []
    assert polite.wait() == -signal.SIGTERM
    assert deaf.wait() == -signal.SIGKILL


def test_terminate_reports_survivors(sleeper):
    child = sleeper()
    identity = processes.identify(child.pid)
    other = {**identity, "start_time": 1}  # cannot be signalled, so it stays
    assert processes.terminate(lambda: [other], grace_s=0.02, kill_s=0.05, pause_s=0.01) == [other]
    assert child.poll() is None


def test_a_process_that_may_not_be_signalled_is_left_as_a_survivor(monkeypatch):
    def refuse(identity, number):
        raise PermissionError

    monkeypatch.setattr(processes, "send", refuse)
    own = processes.own_identity()
    assert processes.terminate(lambda: [own], grace_s=0.01, kill_s=0.01, pause_s=0.001) == [own]


def test_describe_shows_age_and_command(sleeper):
    child = sleeper()
    wait_for(lambda: b"sleep" in processes._read(f"/proc/{child.pid}/cmdline"))
    shown = processes.describe(processes.identify(child.pid))
    assert shown["pid"] == child.pid
    assert 0 <= shown["age_s"] < 60
    assert "time.sleep(60)" in shown["command"]


def test_a_command_name_with_brackets_does_not_confuse(sleeper, tmp_path):
    program = tmp_path / "a) R (b"
    program.symlink_to(sys.executable)
    child = subprocess.Popen([str(program), "-c", "import time; time.sleep(60)"])
    try:
        assert processes.identify(child.pid)["start_time"] > 1
    finally:
        child.kill()
        child.wait()


def test_no_proc_is_an_error(monkeypatch):
    monkeypatch.setattr(processes, "identify", lambda pid: None)
    with pytest.raises(OSError, match="/proc"):
        processes.own_identity()


def test_a_command_is_shown_on_one_line_without_anything_that_a_terminal_obeys(sleeper):
    one = sleeper("import time; '\x1b[2J\u202e'\nprint(1, flush=True)\ntime.sleep(60)")
    one.stdout.readline()
    command = processes.describe(processes.identify(one.pid))["command"]
    assert command.isprintable()
    assert command.endswith("' [2J ' print(1, flush=True) time.sleep(60)")


def test_a_run_directory_that_is_gone_has_no_marked_processes(tmp_path):
    assert processes.marked("v1", str(tmp_path / "gone")) == []
