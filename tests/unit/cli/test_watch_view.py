"""What `watch` draws fits any screen, says the same without colour or Unicode, and spells out what would move a cursor."""

import pytest
from rich.cells import cell_len

from loopai_trainer.cli import watch_view
from loopai_trainer.host.device_load import DeviceLoad
from loopai_trainer.operations.watch import Sample

GIB = 2**30
STATE = {
    "trainer_version_id": "0199aa01-7c3e-7d2a-9b1f-2f0c7a7e1b01",
    "status": "running",
    "phase": "saving_checkpoint",
    "current_step": 30,
    "total_steps": 120,
    "started_at": None,
    "eta_s": 75.0,
    "loss": 1.5,
    "run_dir": "/runs/v1",
}


def sample(**changes):
    values = {
        "status": STATE,
        "curves": {"loss": [(step, 2 / step) for step in range(1, 31)], "eval_loss": [(30, 1.25)]},
        "metrics": {"loss": 1.5, "eval_loss": 1.25, "lr": 1e-5, "grad_norm": 0.5, "throughput": 12345.0},
        "steps_per_minute": 12.5,
        "devices": (
            DeviceLoad("GPU 0", "NVIDIA H200", 87, 45 * GIB, 139 * GIB),
            DeviceLoad("MIG-1", "", None, None, None),
        ),
        "log": tuple(f"line {number} {'x' * 200}" for number in range(50)),
        "goes_on": True,
    }
    return Sample(**{**values, **changes})


def test_eighty_columns_show_all_of_it():
    lines = watch_view.frame(sample(), 80, 24)
    text = "\n".join(lines)
    for wanted in (
        *(
            "running, saving checkpoint",
            STATE["trainer_version_id"],
            "step 30/120",
            "25 %",
            "about 1 min left",
            "█",
            "░",
        ),
        *("loss 1.5", "eval loss 1.25", "lr 1e-05", "grad norm 0.5", "12.5 steps/min", "12,345 tokens/s"),
        *("GPU 0  use 87 %  memory 45.0 of 139.0 GiB  NVIDIA H200", "MIG-1  use -  memory -"),
        *("(by step)", "train.log:", "line 49", watch_view.LEAVE),
    ):
        assert wanted in text, wanted
    assert len(lines) <= 24


@pytest.mark.parametrize("width", [1, 10, 29, 50, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 8, 24, 60])
def test_any_size_is_kept_to(width, height):
    for changes in ({}, {"curves": {}, "devices": (), "log": ()}, {"log": ("宽字" * 100,)}):
        lines = watch_view.frame(sample(**changes), width, height)
        assert len(lines) <= height
        assert max(map(cell_len, lines)) <= width
        assert lines[-1] == watch_view.LEAVE[:width]


def test_a_small_screen_has_a_sparkline():
    text = "\n".join(watch_view.frame(sample(), 40, 14))
    assert "(by step)" not in text
    assert "loss █" in text


def test_a_terminal_that_has_no_unicode_gets_none():
    "\n".join(watch_view.frame(sample(), 80, 24, "ascii")).encode("ascii")
    "\n".join(watch_view.frame(sample(), 40, 14, "ascii")).encode("ascii")


def test_the_log_moves_no_cursor():
    text = "\n".join(watch_view.frame(sample(log=("a\x1b[2Jb\tc\x9bd",)), 80, 24))
    assert "\x1b" not in text and "\x9b" not in text and "\t" not in text
    assert "a\\x1b[2Jb    c" in text


def test_many_gpus_are_counted():
    text = "\n".join(watch_view.frame(sample(devices=(DeviceLoad("GPU", "", 1, 1, GIB),) * 16), 80, 40))
    assert "... and 8 more GPUs" in text


def test_a_run_that_has_ended_says_how():
    ended = {**STATE, "status": "failed", "phase": "failed", "duration_s": 5.0, "error": {"detail": "out of memory"}}
    lines = watch_view.frame(sample(status=ended, goes_on=False), 200, 24)
    assert lines[0].startswith("failed  ")
    assert "5 s" in lines[1]
    assert lines[-1].endswith("is failed at step 30 of 120: out of memory")


def test_what_is_wrong_with_a_run_that_goes_on_stands_whole_below():
    error = {"code": "WORKER_STOPPED", "detail": "its worker, process 77, is stopped (SIGSTOP), " * 3, "hint": "go on"}
    lines = watch_view.frame(sample(status={**STATE, "error": error}), 60, 24)
    below = lines[next(at for at, line in enumerate(lines) if line.startswith("its worker")) :]
    assert below.pop() == watch_view.LEAVE
    assert " ".join(below) == f"{error['detail']}; go on"


def test_a_run_without_numbers_yet():
    state = {**STATE, "phase": "queued", "status": "queued", "current_step": None, "total_steps": None, "eta_s": None}
    empty = sample(status=state, curves={}, metrics={}, steps_per_minute=None, devices=(), log=())
    assert watch_view.frame(empty, 80, 24) == [f"queued  {STATE['trainer_version_id']}", "step 0/?", watch_view.LEAVE]


def test_one_line_for_a_pipe():
    told = "saving checkpoint, step 30/120, loss 1.5, about 1 min left, 12.5 steps/min"
    assert watch_view.line(sample()) == told
    scored = sample(metrics={"critic/score/mean": 0.25}, steps_per_minute=None)
    assert watch_view.line(scored).endswith("left, score 0.25")


def test_the_time_since_the_start(monkeypatch):
    monkeypatch.setattr(watch_view.time, "time", lambda: 1_000_000_120.0)
    state = {**STATE, "started_at": "2001-09-09T01:46:40.000Z"}
    assert "2 min" in watch_view.frame(sample(status=state), 80, 24)[1]


def test_what_stays_on_the_screen():
    text = "\n".join(watch_view.summary(sample(), 80))
    assert "(by step)" in text and "line 49" not in text
