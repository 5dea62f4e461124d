"""A worker that somebody has stopped: its run looks alive for ever, so status, wait and cancel say what is wrong."""

import signal

import pytest
from fakes.runs import answer, kill, wait_for

from loopai_trainer.host import processes

pytestmark = pytest.mark.flow


def test_a_stopped_worker_is_named_until_it_goes_on(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    worker = run.state()["worker"]
    kill(worker, signal.SIGSTOP)
    try:
        wait_for(lambda: processes.stopped(worker))
        code, document = answer(run.call("status", run.run.path, "--json"))
        error = document["data"]["error"]
        assert (code, document["status"], error["code"]) == (0, "running", "WORKER_STOPPED")
        assert f"its worker, process {worker['pid']}, is stopped" in error["detail"]
        assert "kill -CONT" in error["hint"]
        code, document = answer(run.call("wait", run.run.path, "--timeout", "0.1", "--json"))
        assert code == 75
        assert "is stopped (SIGSTOP)" in document["message"]
        hold.unlink()
        wait_for(lambda: run.status == "finalizing")  # training has ended; nobody writes that down
        assert answer(run.call("status", run.run.path, "--json"))[1]["data"]["error"]["code"] == "WORKER_STOPPED"
    finally:
        kill(worker, signal.SIGCONT)
    code, document = answer(caller)
    assert (code, document["status"], document["data"].get("error")) == (0, "completed", None)
