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


def wait_for(condition, limit_s=60.0):
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


# A shell that replaces itself by a shell that does the same, for ever: always the same process, often in exec.
RESTLESS = ("/bin/sh", "-c", 'exec /bin/sh -c "$0" "$0"', 'exec /bin/sh -c "$0" "$0"')


def test_a_process_in_the_middle_of_exec_is_found_at_every_look(tmp_path):
    mark = {processes.MARK: processes.mark("v1", 1, str(tmp_path))}
    process = subprocess.Popen(RESTLESS, env=mark)
    try:
        wait_for(lambda: processes.marked("v1", str(tmp_path)))
        until = time.monotonic() + 60.0
        looks = [mark_of(process.pid, until) for _ in range(500)]
    finally:
        process.kill()
        process.wait()
    assert looks.count(mark[processes.MARK]) == 500


def mark_of(pid, until):
    variables = processes.environment_of(pid, until).split(b"\0")
    return next((one.partition(b"=")[2].decode() for one in variables if one.startswith(b"LOOPAI_TRAINER_RUN=")), None)


STAT = b"7 (sh) S 1 " + b"0 " * 45


@pytest.mark.parametrize(
    ("places", "waits"), [(b"0 0", 2), (b"100 200", 2), (b"100 100", 0)], ids=["in exec", "exec is over", "has none"]
)
def test_only_a_process_that_may_have_variables_is_waited_for(monkeypatch, places, waits):
    reads = iter([b"", b"", b"A=1\0", b"never read"])
    pauses = []
    monkeypatch.setattr(processes, "_read", lambda path: next(reads) if path.endswith("environ") else STAT + places)
    monkeypatch.setattr(processes.time, "sleep", pauses.append)
    monkeypatch.setattr(processes.os, "readlink", lambda path: "/bin/sh")
    found = processes.environment_of(7, time.monotonic() + 60.0)
    assert (found, len(pauses)) == ((b"\0A=1\0", waits) if waits else (b"\0", 0))


def test_what_has_no_program_is_not_waited_for(monkeypatch):
    def no_program(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(processes, "_read", lambda path: b"")
    monkeypatch.setattr(processes.os, "readlink", no_program)
    assert processes.environment_of(2, time.monotonic() + 60.0) == b"\0"


def test_a_wait_for_exec_has_an_end(monkeypatch):
    monkeypatch.setattr(processes, "_read", lambda path: b"" if path.endswith("environ") else STAT + b"0 0")
    monkeypatch.setattr(processes.os, "readlink", lambda path: "/bin/sh")
    assert processes.environment_of(7, time.monotonic() - 1.0) == b"\0"


def test_what_one_look_has_missed_is_ended_all_the_same(sleeper):
    child = sleeper()
    looks = iter([[], [processes.identify(child.pid)], [], []])
    assert processes.terminate(lambda: next(looks), grace_s=60.0, pause_s=0.0) == []
    child.wait()
    assert child.returncode == -signal.SIGTERM


def test_a_stopped_process_is_told_from_one_that_runs(sleeper):
    child = sleeper()
    own = processes.identify(child.pid)
    assert not processes.stopped(own)
    assert not processes.stopped(None)
    os.kill(child.pid, signal.SIGSTOP)
    wait_for(lambda: processes.stopped(own))
    assert processes.stopped(own, traced=False)
    os.kill(child.pid, signal.SIGCONT)
    wait_for(lambda: not processes.stopped(own))


@pytest.mark.parametrize(("state", "traced"), [(b"T", True), (b"t", False)])
def test_a_debugger_is_no_stop(monkeypatch, state, traced):
    monkeypatch.setattr(processes, "alive", lambda identity: True)
    monkeypatch.setattr(processes, "_read", lambda path: b"7 (a b) " + state + b" 1 0")
    assert processes.stopped({"pid": 7})
    assert processes.stopped({"pid": 7}, traced=False) is traced


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
    for child, grace_s, end in ((polite, 60.0, signal.SIGTERM), (deaf, 0.5, signal.SIGKILL)):
        one = processes.identify(child.pid)
        assert processes.terminate(lambda one=one: [one] if processes.alive(one) else [], grace_s=grace_s) == []
        assert child.wait() == -end


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
