import os
import sys

import pytest
from fakes.runs import wait_for

from loopai_trainer import executors
from loopai_trainer.contract import Executor
from loopai_trainer.errors import ConfigError
from loopai_trainer.executors import inline, local
from loopai_trainer.host import locks, processes


@pytest.mark.parametrize("name", ["local", "inline"])
def test_bundled_executors(name):
    found: Executor = executors.get(name)
    assert found.name == name
    assert found.where("1///")


def test_an_unknown_executor_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="'moon'") as refused:
        executors.get("moon")
    assert "inline, local" in refused.value.hint


def test_another_distributions_executor_is_found(tmp_path, monkeypatch):
    folder = tmp_path / "moon-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: moon\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[loopai_trainer.executors]\nmoon = loopai_trainer.executors.local:EXECUTOR\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert executors.get("moon") is local.EXECUTOR


def reap(handle):
    pid = local.pid_of(handle)
    return os.waitstatus_to_exitcode(wait_for(lambda: (ended := os.waitpid(pid, os.WNOHANG))[0] and ended)[1])


class TestLocal:
    def start(self, tmp_path, code, fds=()):
        argv = [sys.executable, "-c", code]
        return local.EXECUTOR.start(argv, str(tmp_path), str(tmp_path / "worker.log"), fds)

    def test_the_worker_is_detached_and_logged(self, tmp_path):
        code = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == ''); print('e', file=sys.stderr)"
        handle = self.start(tmp_path, code)
        assert reap(handle) == 0
        log = tmp_path / "worker.log"
        assert sorted(log.read_text().split()) == ["True", "True", "e"]
        assert log.stat().st_mode & 0o777 == 0o600

    def test_descriptors_keep_their_numbers_and_the_lock(self, tmp_path):
        path = str(tmp_path / "run.lock")
        fd = locks.try_exclusive(path)
        other = os.open(os.devnull, os.O_RDONLY)
        code = f"import os; os.fstat({other}); from loopai_trainer.host import locks; print(locks.owns({fd})); input()"
        handle = self.start(tmp_path, code, (fd, other))
        assert not os.get_inheritable(fd)
        os.close(fd)
        os.close(other)
        wait_for(lambda: "True" in (tmp_path / "worker.log").read_text())
        reap(handle)
        assert not locks.held(path)

    def test_signals_that_a_caller_ignores_are_not_ignored_below(self, tmp_path):
        import signal

        former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            handle = self.start(tmp_path, "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)")
        finally:
            signal.signal(signal.SIGHUP, former)
        reap(handle)
        assert (tmp_path / "worker.log").read_text() == "True\n"

    def test_alive_and_stop(self, tmp_path):
        handle = self.start(tmp_path, "import time; print('up', flush=True); time.sleep(60)")
        wait_for(lambda: (tmp_path / "worker.log").read_text())
        assert local.EXECUTOR.alive(handle)
        assert str(local.pid_of(handle)) in local.EXECUTOR.where(handle)
        local.EXECUTOR.stop(handle, grace_s=60.0)
        assert reap(handle) == -15
        assert not local.EXECUTOR.alive(handle)

    def test_a_handle_of_a_process_that_has_ended_is_dead(self):
        assert not local.EXECUTOR.alive(f"{os.getpid()}///")
        assert local.handle_of(2**22 + 7) == f"{2**22 + 7}///"
        own = processes.own_identity()
        assert local.EXECUTOR.alive(local.handle_of(own["pid"]))

    def test_a_program_that_is_not_there_is_an_error(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            local.EXECUTOR.start(["/bin/does-not-exist"], str(tmp_path), str(tmp_path / "worker.log"), ())


def test_inline_runs_the_module_here(tmp_path, monkeypatch, capsys):
    (tmp_path / "some_worker.py").write_text("SEEN = []\ndef main(words):\n    SEEN.append(words)\n    return 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(inline, "_WORKER", "some_worker")
    argv = [sys.executable, "-P", "-c", "import some_worker", "a", "b"]
    handle = inline.EXECUTOR.start(argv, str(tmp_path), str(tmp_path / "worker.log"), ())
    import some_worker  # type: ignore[import-not-found]

    assert some_worker.SEEN == [["a", "b"]]
    assert not inline.EXECUTOR.alive(handle)
    inline.EXECUTOR.stop(handle, 0.0)
    assert "debugging" in capsys.readouterr().err
