import json
import os
from pathlib import Path
from typing import ClassVar

import pytest
from fakes.backend import BACKEND, StandIn
from fakes.runs import PreparedRun

from loopai_trainer.files import event_log
from loopai_trainer.records import MetricRow
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker import launching, watching
from loopai_trainer.worker.record import Record
from loopai_trainer.worker.watching import Tail, Watcher, metric_line


class TestTail:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "log"

    def append(self, path, data):
        with open(path, "ab") as file:
            file.write(data)

    @pytest.fixture
    def tail(self, path):
        made = Tail(str(path))
        yield made
        made.close()

    def test_a_file_that_is_not_there_yet(self, tail, path):
        assert tail.lines() == []
        self.append(path, b"a\n")
        assert tail.lines() == [b"a"]

    def test_only_whole_lines(self, tail, path):
        self.append(path, b"a\nb")
        assert tail.lines() == [b"a"]
        self.append(path, b"c\n\n")
        assert tail.lines() == [b"bc", b""]
        assert tail.lines() == []

    def test_rotation_loses_nothing(self, tail, path):
        self.append(path, b"a\n")
        assert tail.lines() == [b"a"]
        self.append(path, b"b\n")
        os.rename(path, str(path) + ".1")
        self.append(path, b"c\n")
        assert [tail.lines(), tail.lines()] == [[b"b"], [b"c"]]

    def test_a_line_over_a_rotation_is_joined(self, tail, path):
        self.append(path, b"a")
        assert tail.lines() == []
        os.rename(path, str(path) + ".1")
        self.append(path, b"b\n")
        assert tail.lines() == [b"ab"]

    def test_a_file_that_is_gone_for_now(self, tail, path):
        self.append(path, b"a\n")
        tail.lines()
        os.unlink(path)
        assert tail.lines() == []

    def test_truncation_begins_again(self, tail, path):
        self.append(path, b"aaaa\n")
        tail.lines()
        path.write_bytes(b"b\n")
        assert tail.lines() == [b"b"]

    def test_a_line_without_end_is_given_out_in_pieces(self, tail, path):
        self.append(path, b"x" * 200_000)
        assert tail.lines() == [b"x" * 200_000]

    def test_a_backlog_is_skipped(self, tail, path, monkeypatch):
        monkeypatch.setattr(watching, "_SKIP_BYTES", 100)
        monkeypatch.setattr(watching, "_READ_BYTES", 10)
        self.append(path, b"0123456789\n" * 50)
        tail.lines()
        assert tail.lines() == []
        self.append(path, b"new\n")
        assert tail.lines()[-1] == b"new"


def test_metric_lines_are_strict_json():
    row = MetricRow(3, "eval", {"a": 1.0, "b": float("nan"), "c": float("-inf")})
    line = metric_line(row, 2)
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "step": 3,
        "attempt": 2,
        "kind": "eval",
        "values": {"a": 1.0, "b": None, "c": None},
        "nonfinite": ["b", "c"],
    }


class Watched:
    """A watcher of the stand-in backend, without a training."""

    def __init__(self, folder):
        self.run = PreparedRun(folder).run
        os.makedirs(self.run.checkpoints)
        os.makedirs(self.run.metrics)
        self.plan = plans.read(Path(self.run.config).read_bytes(), "x.yaml")
        self.record = Record(self.run, {"status": "running", "phase": "starting", "attempt": 1})
        self.paths = launching.paths_of(self.run, "/tmp")
        self.watcher = self.again()

    def again(self):
        return Watcher(self.run, self.plan, BACKEND, self.paths, self.record)

    def log(self, text):
        with open(self.run.train_log, "a") as file:
            file.write(text)

    def metric(self, **values):
        with open(BACKEND.metrics_file(self.paths), "a") as file:
            file.write(json.dumps(values) + "\n")

    @property
    def phases(self):
        return [event["node"] for event in event_log.read(self.run.events)]

    @property
    def rows(self):
        return [json.loads(line) for line in Path(self.run.metric_rows).read_text().splitlines()]


@pytest.fixture
def watched(tmp_path):
    made = Watched(tmp_path)
    yield made
    made.watcher.finish()


def test_phase_counts_and_metrics_are_noted(watched):
    watched.log("noise\nphase loading_data\n")
    watched.watcher.tick()
    assert watched.record.state["phase"] == "loading_data"
    watched.log("examples 8\rsteps 5\n")
    watched.metric(step=1, total_steps=5, loss=2.0, learning_rate=0.1)
    watched.watcher.tick()
    state = watched.record.state
    assert (state["train_examples"], state["total_steps"], state["current_step"]) == (8, 5, 1)
    assert (state["loss"], state["learning_rate"], state["phase"]) == (2.0, 0.1, "training")
    assert watched.watcher.stop_reason is None


def test_a_phase_that_training_has_passed_does_not_come_back(watched):
    watched.metric(step=1, loss=2.0)
    watched.watcher.tick()
    watched.log("phase loading_data\n")
    watched.watcher.tick()
    assert watched.record.state["phase"] == "training"


def test_steps_never_go_back(watched):
    watched.metric(step=5, loss=1.0)
    watched.metric(step=3, loss=2.0)
    watched.watcher.tick()
    assert watched.record.state["current_step"] == 5


def test_a_wrong_number_of_examples_is_told(watched):
    watched.log("examples 7\n")
    watched.watcher.tick()
    assert watched.watcher.stop_reason == (
        "EXAMPLES_MISMATCH",
        "training reports 7 train examples, but 8 were approved",
    )


def test_rows_are_not_repeated_by_a_second_worker(watched):
    watched.metric(step=1, loss=1.0)
    watched.watcher.tick()
    watched.metric(step=2, loss=0.5)
    second = watched.again()
    second.take_up()
    second.finish()
    assert [row["step"] for row in watched.rows] == [1, 2]


def test_half_a_row_of_a_dead_worker_does_not_spoil_the_next(watched):
    watched.metric(step=1, loss=1.0)
    Path(watched.run.metric_rows).write_text('{"step": 1, "att')
    second = watched.again()
    second.take_up()
    second.finish()
    assert Path(watched.run.metric_rows).read_text().splitlines()[0] == '{"step": 1, "att'
    assert json.loads(Path(watched.run.metric_rows).read_text().splitlines()[1])["step"] == 1


def test_a_full_disk_delays_rows_and_loses_none(watched, monkeypatch):
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr("os.write", lambda fd, data: real(fd, data[:10]))
        watched.metric(step=1, loss=1.0)
        watched.watcher._read_metrics()
    with monkeypatch.context() as patched:

        def full(fd, data):
            raise OSError(28, "No space left on device")

        patched.setattr("os.write", full)
        watched.metric(step=2, loss=1.0)
        watched.watcher._read_metrics()
    watched.watcher._read_metrics()
    assert [row["step"] for row in watched.rows] == [1, 2]


class Marking(StandIn):
    """The stand-in, saying which bytes its lines of interest hold."""

    log_marks: ClassVar = {"phase": (b"phase ",), "train_examples": (b"examples ",), "total_steps": (b"steps ",)}

    def __init__(self):
        self.shown = []

    def read_log(self, lines):
        found = list(lines)
        self.shown += found
        return super().read_log(found)


@pytest.fixture
def marking(watched):
    backend = Marking()
    made = Watcher(watched.run, watched.plan, backend, watched.paths, watched.record)
    yield watched, made, backend
    made.finish()


def test_only_lines_with_a_mark_are_shown_to_a_backend_that_names_them(marking):
    watched, watcher, backend = marking
    watched.log("noise\n" * 1000 + "phase loading_data\nnoise\nexamples 8\nsteps 5\n" + "noise\n" * 1000)
    watcher.tick()
    assert set(backend.shown) == {"phase loading_data", "examples 8", "steps 5"}
    state = watched.record.state
    assert (state["train_examples"], state["total_steps"], state["phase"]) == (8, 5, "loading_data")


def test_phases_and_counts_are_found_anywhere(marking):
    watched, watcher, _ = marking
    watched.log("phase old\nexamples 7\n" + "noise\n" * 20_000 + "phase new\n")
    watcher.tick()
    assert watched.phases == ["old", "new"]
    assert watcher.stop_reason[0] == "EXAMPLES_MISMATCH"


def test_phases_of_one_look_are_told_in_their_order_by_a_heading_of_counts_too(marking):
    watched, _, backend = marking
    # As a real trainer's: the line above its numbers is the one that says that it trains.
    backend.log_marks = {**Marking.log_marks, "train_examples": (b"phase training", b"examples ")}
    watched.log("phase loading_data\nnoise\nphase loading_model\nphase training\nexamples 8\nsteps 5\n")
    made = Watcher(watched.run, watched.plan, backend, watched.paths, watched.record)
    made.tick()
    made.finish()
    assert watched.phases == ["loading_data", "loading_model", "training"]
    assert watched.record.state["train_examples"] == 8


def test_a_phase_does_not_come_back_with_the_lines_of_the_look_before(marking):
    watched, watcher, backend = marking
    watched.log("phase old\nexamples 8\nphase new\n")
    watcher.tick()
    watched.log("steps 5\n")
    watcher.tick()
    assert backend.shown[-2:] == ["examples 8", "steps 5"]
    assert watched.phases == ["old", "new"]


def test_a_log_that_can_tell_nothing_more_is_not_read(marking, monkeypatch):
    watched, watcher, backend = marking
    watched.log("examples 8\nsteps 5\n")
    watched.metric(step=1, total_steps=5, loss=2.0)
    watcher.tick()
    backend.shown.clear()
    watched.log("examples 9\n" + "noise\n" * 1000)
    monkeypatch.setattr(Tail, "_piece", lambda self: pytest.fail("it was read"))
    watcher._read_log()
    assert backend.shown == []
    monkeypatch.undo()
    os.rename(watched.run.train_log, watched.run.train_log + ".1")
    watched.log("new file\n")
    watcher._read_log()
    watcher._read_log()
    assert watcher._log.offset == len("new file\n")


def test_skipping_a_file_that_is_not_there(tmp_path):
    tail = Tail(str(tmp_path / "absent"))
    tail.skip()
    assert tail.lines() == []


def test_a_lost_record_is_made_good_from_the_rotated_logs(watched):
    for number, text in ((2, "phase loading_data\nexamples 8\n"), (1, "noise\n" * 300_000)):
        Path(f"{watched.run.train_log}.{number}").write_text(text)
    watched.log("noise\n")
    second = watched.again()
    assert second.unsaid == ["train_examples"]
    second.take_up()
    assert second.unsaid == []
    second.finish()
