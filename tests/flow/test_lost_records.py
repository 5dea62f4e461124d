"""An ended run whose record is lost, damaged or false: its result stays the truth, and the record is made again."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from fakes.runs import answer, wait_for

from loopai_trainer.files import state_file
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

pytestmark = pytest.mark.flow


def ended(prepare, **options):
    run = prepare(steps=2, **options)
    first = run.run_to_end()
    wait_for(lambda: run.locked() == (False, False))
    return run, first


def half(text):
    return text[: len(text) // 2]


DAMAGE = {
    "torn": lambda text: "{",
    "list": lambda text: "[]",
    "empty object": lambda text: "{}",
    "half": half,
    "empty": lambda text: "",
    "wrong types": lambda text: '{"status":"completed","result":5,"error":7}',
    "false end": lambda text: '{"status": "cancelled"}',
    "bare end": lambda text: '{"status": "completed"}',
    "lost end": lambda text: json.dumps({**json.loads(text), "status": "running"}),
}


@pytest.mark.parametrize("damage", [None, *DAMAGE])
def test_a_completed_run_stays_completed(prepare, damage):
    run, first = ended(prepare)
    assert first[0] == 0
    before = Path(run.run.run_state).read_text()
    if damage is None:
        os.unlink(run.run.run_state)
    else:
        Path(run.run.run_state).write_text(DAMAGE[damage](before))
    code, document = answer(run.call("status", run.run.path, "--json"))
    assert (code, document["status"], document["data"]["result"]["status"]) == (0, "completed", "completed")
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    for name in ("best_checkpoint", "checkpoints", "current_step", "total_steps", "started_at", "result", "task_id"):
        assert document["data"][name] == first[1]["data"][name]
    assert run.starts == 1
    restored = state_file.read(run.run)
    assert (restored.damaged, restored.state["status"], restored.state["attempt"]) == ("", "completed", 1)
    kept = Path(run.run.run_state + ".damaged-1")
    if damage in (None, "lost end"):
        assert not kept.exists()
    else:
        assert kept.read_text() == DAMAGE[damage](before)
    assert run.run_to_end()[1]["data"] == document["data"]


def test_a_failed_run_does_not_become_completed(prepare):
    run, first = ended(prepare, exit_code=3)
    assert first[0] == 11
    Path(run.run.run_state).write_text('{"status": "completed"}')
    assert run.status == "failed"
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "EXIT_STATUS")
    assert run.starts == 1


@pytest.mark.parametrize("text", [None, "{", '{"checkpoints":5,"best_checkpoint":"x"}', '{"status": "completed"}'])
@pytest.mark.parametrize("options", [{}, {"exit_code": 3}])
def test_an_end_without_its_result_is_not_believed_and_made_again(prepare, text, options):
    run, first = ended(prepare, **options)
    if text is None:
        os.unlink(run.run.result)
    else:
        Path(run.run.result).write_text(text)
    Path(run.run.run_state).write_text('{"status": "completed"}')
    code, document = answer(run.call("status", run.run.path, "--json"))
    assert (code, document["status"], document["data"]["result"]) == (0, "failed", None)
    code, document = run.run_to_end()
    assert (code, document["status"]) == (first[0], first[1]["status"])
    assert document["data"]["checkpoints"] == first[1]["data"]["checkpoints"]
    if text is not None:
        assert Path(run.run.result + ".damaged-1").read_text() == text
    assert run.starts == 1


def test_a_result_under_another_hash_is_not_believed(prepare):
    run, _ = ended(prepare)
    forged = {**run.result(), "config_sha256": "0" * 64, "status": "cancelled"}
    Path(run.run.result).write_text(json.dumps(forged))
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert run.starts == 1


def test_an_ended_state_of_a_run_that_never_started_is_not_believed(prepare):
    run = prepare(steps=1)
    Path(run.run.run_state).write_text('{"status": "completed"}')
    assert run.status == "failed"
    assert run.run_to_end()[0] == 0
    assert run.starts == 1


def test_a_copied_result_of_another_version_is_not_believed(prepare):
    run, _ = ended(prepare)
    other = prepare("v2", steps=1)
    Path(other.run.result).write_bytes(Path(run.run.result).read_bytes())
    assert other.status == "prepared"


def test_records_of_any_shape_are_read_without_a_fault(prepare):
    run, _ = ended(prepare)
    texts = ["5", "null", '"x"', "[{}]", '{"status": []}', '{"status": "completed", "error": {"code": 5}}']
    texts += ['{"status":"running","worker":5,"tree":{"members":5}}', '{"checkpoints":5,"best_checkpoint":"x"}', "\x00"]
    for text in texts:
        for path, other in ((run.run.run_state, run.run.result), (run.run.result, run.run.run_state)):
            before, kept = Path(path).read_text(), Path(other).read_text()
            Path(path).write_text(text)
            for words in (("status", run.run.path), ("wait", run.run.path, "--timeout", "5")):
                _, document = answer(run.call(*words, "--json"))
                assert document["status"] in ("completed", "failed")
            Path(path).write_text(before)
            assert Path(other).read_text() == kept


@pytest.mark.parametrize("made_again", [False, True])
def test_a_training_whose_run_directory_is_deleted_is_ended(prepare, tmp_path, made_again):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold), helper_s=300.0)
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    started = read_started(run.run)
    mine = [run.state()["worker"], started["keeper"], started["training"], *run.living()]
    assert len(mine) > 4  # the helper too, in its own session
    worker = run.state()["worker"]
    processes.send(worker, signal.SIGSTOP)  # it sees the whole of it at once, and writes nothing meanwhile
    shutil.rmtree(run.run.path)
    if made_again:  # what stands in its place is somebody else's, and is left alone
        os.mkdir(run.run.path)
    processes.send(worker, signal.SIGCONT)
    wait_for(lambda: not any(processes.alive(one) for one in mine), limit_s=120.0)
    code, document = answer(caller)
    assert os.path.exists(run.run.path) == made_again
    if not made_again:
        assert (code, document["error"]["code"]) == (2, "RUN_DIR_GONE")
    else:
        assert os.listdir(run.run.path) in ([], ["run.lock"])  # of the caller, which looked what it may start there
