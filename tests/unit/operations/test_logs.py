from pathlib import Path

from fakes.runs import PreparedRun

from loopai_trainer.operations.logs import logs
from loopai_trainer.operations.targets import Scope


def test_the_log_of_a_run_that_was_never_started(tmp_path):
    run = PreparedRun(tmp_path).run
    assert "was never started" in logs(run.path, Scope({}), 10).message
    Path(run.train_log).write_text("")
    assert logs(run.path, Scope({}), 10).message == f"{run.train_log} has no lines yet"
