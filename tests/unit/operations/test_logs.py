from pathlib import Path

from fakes.runs import PreparedRun

from loopai_trainer.files import log_tail
from loopai_trainer.operations import logs as module
from loopai_trainer.operations.logs import follow_logs, logs
from loopai_trainer.operations.targets import Scope


def test_the_log_of_a_run_that_was_never_started(tmp_path):
    run = PreparedRun(tmp_path).run
    assert "was never started" in logs(run.path, Scope({}), 10).message
    Path(run.train_log).write_text("")
    assert logs(run.path, Scope({}), 10).message == f"{run.train_log} has no lines yet"


def test_a_line_that_is_written_while_following_begins_is_shown_once(tmp_path, monkeypatch):
    run = PreparedRun(tmp_path).run
    Path(run.train_log).write_text("old\n")

    def late(path, count, *end):
        with open(path, "a") as file:
            file.write("new\n")
        return log_tail.tail(path, count, *end)

    monkeypatch.setattr(module, "tail", late)
    assert list(follow_logs(run.path, Scope({}), 10)) == ["old", "new"]
