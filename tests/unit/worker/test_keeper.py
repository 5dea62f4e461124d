"""The keeper as a process: what it writes, what it survives, and what it holds the lock for."""

import json
import marshal
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.runs import kill, wait_for

from loopai_trainer.host import locks, processes
from loopai_trainer.worker import keeper, launching
from loopai_trainer.worker.keeper import Log


class Kept:
    """A keeper started as the worker starts it."""

    def __init__(self, folder, argv, **changed):
        self.folder = folder
        self.lock = str(folder / "training.lock")
        self.paths = {name: str(folder / file) for name, file in PLACES.items()}
        job = {
            "argv": argv,
            "cwd": str(folder),
            "env": {"PATH": os.environ["PATH"], "MARKED": "yes"},
            "log_limit_bytes": 1024 * 1024,
            "log_files": 3,
            **self.paths,
            **changed,
        }
        read, write = os.pipe()
        os.write(write, marshal.dumps(job))
        os.close(write)
        fd = locks.try_exclusive(self.lock)
        command = [sys.executable, "-I", "-S", "-c", launching._KEEPER, os.path.dirname(keeper.__file__)]
        actions = [(os.POSIX_SPAWN_DUP2, fd, 99), (os.POSIX_SPAWN_DUP2, read, 0), (os.POSIX_SPAWN_DUP2, 99, 3)]
        self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)
        os.close(fd)
        os.close(read)
        self.reaped = None

    def wait(self):
        """The keeper's exit status, once it has left."""
        return wait_for(self._ended)[1]

    def _ended(self):
        if self.reaped is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.reaped = (pid, os.waitstatus_to_exitcode(status))
        return self.reaped

    def read(self, name):
        return json.loads(Path(self.paths[name]).read_text()) if os.path.exists(self.paths[name]) else None

    @property
    def output(self):
        return Path(self.paths["log"]).read_bytes()


PLACES = {"log": "train.log", "started": "started", "exit": "exit.json"}


@pytest.fixture
def keep(tmp_path):
    made = []

    def start(code, **changed):
        argv = changed.pop("argv", [sys.executable, "-c", code])
        made.append(Kept(tmp_path, argv, **changed))
        return made[-1]

    yield start
    for one in made:
        if one.reaped is None:
            os.kill(one.pid, signal.SIGKILL)  # our own child, not yet reaped: its pid cannot have been used again
            os.waitpid(one.pid, 0)


def test_the_lock_number_is_the_one_that_the_worker_hands_over():
    assert launching._KEEPER_LOCK_FD == keeper.LOCK_FD


def test_exit_status_output_and_identities(keep):
    kept = keep("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert kept.wait() == 0
    record = kept.read("exit")
    assert (record["returncode"], record["signal"], record["exec_error"]) == (7, None, None)
    assert record["duration_s"] >= 0
    assert sorted(kept.output.split()) == [b"err", b"out"]
    started = kept.read("started")
    assert started["keeper"]["pid"] == kept.pid
    assert set(started["training"]) == {"pid", "start_time", "boot_id", "pid_ns"}
    assert not locks.held(kept.lock)


def test_a_signal_is_named(keep):
    kept = keep("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    kept.wait()
    assert kept.read("exit")["signal"] == signal.SIGSEGV


def test_a_program_that_cannot_be_started_is_reported(keep):
    kept = keep("", argv=["/bin/does-not-exist"])
    assert kept.wait() == 0
    record = kept.read("exit")
    assert record["returncode"] is None
    assert "/bin/does-not-exist" in record["exec_error"]
    assert "No such file" in record["exec_error"]


def test_a_folder_that_is_gone_is_reported(keep):
    kept = keep("", cwd="/does/not/exist")
    kept.wait()
    assert "/does/not/exist" in kept.read("exit")["exec_error"]


def test_nothing_starts_without_a_whole_job(tmp_path):
    fd = locks.try_exclusive(str(tmp_path / "training.lock"))
    command = [sys.executable, "-I", "-S", "-c", launching._KEEPER, os.path.dirname(keeper.__file__)]
    done = subprocess.run(
        command, input=marshal.dumps({"argv": ["x"]})[:-4], capture_output=True, pass_fds=(fd,), check=False
    )
    os.close(fd)
    assert done.returncode != 0
    assert os.listdir(tmp_path) == ["training.lock"]


def test_training_gets_a_clean_start(keep, tmp_path):
    code = (
        "import json, os, signal, sys;"
        "print(json.dumps({'fds': sorted(os.listdir('/proc/self/fd')), 'cwd': os.getcwd(), 'marked': os.environ['MARKED'],"
        "'leader': os.getsid(0) == os.getpid(), 'stdin': os.read(0, 1).decode()}))"
    )
    kept = keep(code)
    kept.wait()
    told = json.loads(kept.output)
    assert told == {"fds": ["0", "1", "2", "3"], "cwd": str(tmp_path), "marked": "yes", "leader": True, "stdin": ""}


def test_training_ignores_no_signal_whatever_its_caller_ignored(keep):
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    former = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        kept = keep("", argv=["/bin/sh", "-c", "grep SigIgn /proc/self/status"])
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    kept.wait()
    assert int(kept.output.split()[1], 16) & ((1 << 31) - 1) == 0  # 32 and 33 are the C library's own


def test_the_lock_is_held_until_the_last_descendant_has_gone(keep, tmp_path):
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True,"
        "stdin=-3, stdout=-3, stderr=-3); print(p.pid, flush=True)"
    )
    kept = keep(code)
    wait_for(lambda: kept.read("exit"))
    rank = processes.identify(int(kept.output))
    assert locks.held(kept.lock)
    assert kept.read("exit")["returncode"] == 0
    kill(rank)
    assert kept.wait() == 0
    assert not locks.held(kept.lock)


def test_polite_signals_do_not_move_a_keeper(keep):
    kept = keep("import sys; sys.stdin.read(); print('up', flush=True); import time; time.sleep(60)")
    wait_for(lambda: os.path.exists(kept.paths["log"]) and kept.output)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        kill(processes.identify(kept.pid), number)
    kill(kept.read("started")["training"])
    assert kept.wait() == 0
    assert kept.read("exit")["signal"] == signal.SIGKILL


def test_training_dies_with_its_keeper(keep):
    kept = keep("import time; print('up', flush=True); time.sleep(60)")
    wait_for(lambda: os.path.exists(kept.paths["log"]) and kept.output)
    training = kept.read("started")["training"]
    kill(processes.identify(kept.pid))
    wait_for(lambda: not processes.alive(training))
    assert kept.read("exit") is None


def test_last_words_are_in_the_log_before_the_end_is_told(keep):
    kept = keep("import sys; sys.stdout.write('x' * 300_000 + 'last words'); sys.stdout.flush()")
    wait_for(lambda: kept.read("exit"))
    assert kept.output.endswith(b"last words")


def test_output_is_rotated_and_no_line_is_lost(keep):
    kept = keep("for n in range(30_000): print(n)", log_limit_bytes=100_000)
    kept.wait()
    pieces = [
        Path(kept.paths["log"] + end).read_bytes() for end in (".1", "") if os.path.exists(kept.paths["log"] + end)
    ]
    assert all(len(piece) <= 100_000 for piece in pieces)
    assert b"".join(pieces).split() == [str(number).encode() for number in range(30_000)]


class TestLog:
    @pytest.fixture
    def log(self, tmp_path):
        made = Log(str(tmp_path / "log"), 10, 2)
        yield made
        os.close(made.fd)

    def all(self, log):
        names = [log.path + end for end in (".2", ".1", "")]
        return [Path(name).read_bytes() for name in names if os.path.exists(name)]

    def test_files_are_cut_between_lines(self, log):
        log.write(b"aaaa\nbbbb\ncccc\n")
        assert self.all(log) == [b"aaaa\nbbbb\n", b"cccc\n"]

    def test_the_oldest_goes(self, log):
        for text in (b"11111111\n", b"22222222\n", b"33333333\n", b"44444444\n"):
            log.write(text)
        assert self.all(log) == [b"22222222\n", b"33333333\n", b"44444444\n"]

    def test_a_line_longer_than_a_file_is_cut(self, log):
        log.write(b"x" * 25)
        assert [len(piece) for piece in self.all(log)] == [10, 10, 5]

    def test_a_started_line_goes_on_in_the_next_file(self, log):
        log.write(b"12345678")
        log.write(b"90ab\ncd")
        assert self.all(log) == [b"12345678", b"90ab\ncd"]

    def test_what_a_full_disk_does_not_take_is_counted(self, log, monkeypatch):
        def full(fd, data):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.write", full)
        log.write(b"abcd")
        assert log.dropped_bytes == 4

    def test_a_rotation_that_fails_is_tried_again_later(self, log, monkeypatch):
        def refuse(old, new):
            raise OSError(13, "no")

        with monkeypatch.context() as patched:
            patched.setattr("os.replace", refuse)
            log.write(b"12345678\n")
            log.write(b"abcdefgh\n")
        log.write(b"ABCDEFGH\n")
        assert self.all(log) == [b"12345678\nabcdefgh\n", b"ABCDEFGH\n"]

    def test_an_existing_log_is_appended_to(self, log):
        log.write(b"1234")
        again = Log(log.path, 10, 2)
        again.write(b"5678")
        os.close(again.fd)
        assert self.all(log) == [b"12345678"]


class TestExitOnAFullDisk:
    @pytest.fixture
    def full(self, monkeypatch):
        """write_whole fails as often as this list is long."""
        errors = []
        real = keeper.write_whole

        def write(path, text):
            if errors:
                raise errors.pop()
            real(path, text)

        monkeypatch.setattr(keeper, "write_whole", write)
        monkeypatch.setattr(keeper, "_RETRY_S", 0.0)
        return errors

    def test_the_reserved_space_takes_it(self, tmp_path, full):
        path = str(tmp_path / "exit.json")
        keeper.reserve(path)
        assert os.stat(path + ".reserved").st_size == 4096
        full.append(OSError(28, "full"))
        ending = keeper.Ending(path)
        ending.note({"returncode": 7})
        assert not ending.waiting
        assert json.loads((tmp_path / "exit.json").read_text())["returncode"] == 7
        assert os.listdir(tmp_path) == ["exit.json"]

    def test_without_it_the_status_is_kept_and_tried_again(self, tmp_path, full):
        full += [OSError(28, "full")] * 5
        ending = keeper.Ending(str(tmp_path / "exit.json"))
        ending.note({"returncode": 7})
        assert ending.waiting
        assert os.listdir(tmp_path) == []
        ending.insist()
        assert not ending.waiting
        assert json.loads((tmp_path / "exit.json").read_text())["returncode"] == 7

    def test_the_tries_are_bounded(self, tmp_path, full):
        full += [OSError(28, "full")] * 1000
        ending = keeper.Ending(str(tmp_path / "exit.json"))
        ending.note({"returncode": 7})
        ending.insist()
        assert len(full) == 1000 - 31

    def test_the_reserved_space_goes_when_it_is_not_needed(self, tmp_path):
        path = str(tmp_path / "exit.json")
        keeper.reserve(path)
        keeper.Ending(path).note({"returncode": 0})
        assert os.listdir(tmp_path) == ["exit.json"]
