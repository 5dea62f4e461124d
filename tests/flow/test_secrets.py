"""A token that training was given does not come back out of anything that shows or records the run."""

import json
import os
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, PreparedRun, answer

pytestmark = pytest.mark.flow

VALUE = "correct-horse-battery"
TOKEN = "hf_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Babcdef"

RECORDS = (
    "events.jsonl",
    "run_state.json",
    "worker_result.json",
    "worker.log",
    "training_report.md",
    "report.html",
    "launch/request.json",
)


@pytest.fixture
def failed(prepare, monkeypatch):
    """A run whose training fails with its secrets on its lips, started by somebody who has them."""
    run = prepare(exit_code=3, stop_at=2, last_words=f"RuntimeError: login with {VALUE} and {TOKEN} failed")
    monkeypatch.setattr(PreparedRun, "env", {**run.env, "MY_API_KEY": VALUE})
    code, document = run.run_to_end()
    assert (code, document["status"]) == (11, "failed")
    return run, document


def test_records_and_answers_are_free_of_them(failed):
    run, document = failed
    assert "login with [redacted] and [redacted] failed" in document["error"]["detail"]
    for name in RECORDS:
        path = Path(run.run.path, name)
        if path.exists():
            text = path.read_text()
            assert VALUE not in text and TOKEN not in text, name
    for words in (["status", run.run.path], ["events", run.run.path], ["logs", run.run.path], ["wait", run.run.path]):
        _, shown = answer(run.call(*words, "--json"))
        assert VALUE not in json.dumps(shown) and TOKEN not in json.dumps(shown), words


@pytest.mark.parametrize("words", [["logs"], ["logs", "-f"], ["events", "-f"], ["status"]])
def test_terminals_see_none_of_them(failed, words):
    run, _ = failed
    caller = run.call(words[0], run.run.path, *words[1:])
    out, err = caller.communicate(timeout=LIMIT_S)
    assert VALUE.encode() not in out + err and TOKEN.encode() not in out + err
    assert out


def test_the_log_itself_is_what_training_wrote(failed):
    """Evidence is not edited; it is readable by its owner alone."""
    run, _ = failed
    assert TOKEN in Path(run.run.train_log).read_text()
    assert os.stat(run.run.train_log).st_mode & 0o077 == 0
