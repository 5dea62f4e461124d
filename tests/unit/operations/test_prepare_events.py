"""prepare's steps are events of the version: before any attempt, and never a completed run."""

import pytest

from loopai_trainer.errors import ConfigError, DataError
from loopai_trainer.files import event_log
from loopai_trainer.operations import prepare_events


def events(place):
    return event_log.read(str(place.run / "events.jsonl"))


def test_both_steps_of_a_good_prepare(place):
    answer = place.prepare()
    check, generation = events(place)
    assert (check["node"], check["status"], check["attempt"]) == ("data_check", "prepared", 0)
    assert check["data"]["counts"] == answer.data["counts"]
    assert "6 of 6 rows of train, 2 of 2 rows of validation" in check["message"]
    assert (generation["node"], generation["status"]) == ("config_generation", "prepared")
    assert generation["data"]["config_sha256"] == answer.data["config_sha256"]
    assert {event["context_id"] for event in (check, generation)} == {"default"}
    assert [event["progress"] for event in (check, generation)] == [None, None]


def test_a_refusal_is_an_event_of_the_step_that_it_belongs_to(place):
    place.write_rows([{"instruction": "only a question", "output": ""}])
    with pytest.raises(DataError):
        place.prepare()
    (refused,) = events(place)
    assert (refused["node"], refused["status"], refused["error"]["code"]) == ("data_check", "failed", "DATA_INVALID")
    place.write_rows([{"instruction": f"question {n}", "output": f"answer {n}"} for n in range(8)])
    with pytest.raises(ConfigError):
        place.prepare(overrides=("learning_rate=-1",))
    assert events(place)[-1]["node"] == "config_generation"
    place.prepare()
    assert [event["status"] for event in events(place)] == ["failed", "failed", "prepared", "prepared"]
    assert [event["seq"] for event in events(place)] == [1, 2, 3, 4]


def test_a_log_that_cannot_be_written_hides_no_refusal(place, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(event_log, "append", full)
    from loopai_trainer.files.run_dir import RunDir

    with pytest.raises(DataError), prepare_events.refusals(RunDir(str(place.root)), "demo", {}):
        raise DataError("bad rows")
