"""Swaps after the check: copies have none to suffer from, and what is read in place is looked at again at the end."""

import json
import os
from pathlib import Path

import pytest
from fakes.prepared_sft import DEEPSPEED, PreparedSft
from fakes.runs import answer, wait_for
from fakes.sft_plans import make_paths

from loopai_trainer import backends, executors
from loopai_trainer.operations.run_prepared import run_prepared
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import yaml_text

pytestmark = pytest.mark.flow

SWAPS = {
    "data": lambda run: run.run.path + "/train.jsonl",
    "weights": lambda run: str(run.root / "model" / "model.safetensors"),
    "config of the model": lambda run: str(run.root / "model" / "config.json"),
}


class Started(Exception):
    """Raised where the worker would be started: the checks are over."""


def test_a_deepspeed_json_swapped_after_the_check_has_no_effect(tmp_path, monkeypatch):
    """The copy runs. The swap comes at the last moment: after every check, just before the worker is started."""
    prepared = PreparedSft(tmp_path)

    def swap(name: str) -> None:
        prepared.deepspeed.write_text('{"zero_optimization": {"stage": 3}, "evil": "/x.so"}')
        raise Started

    monkeypatch.setattr(executors, "get", swap)
    with pytest.raises(Started):
        run_prepared(prepared.run.config, prepared.sha256, prepared.environ)
    assert "evil" in prepared.deepspeed.read_text()
    approved = plans.approve(Path(prepared.run.config).read_bytes(), prepared.sha256)
    launch = backends.get("llamafactory", "sft").launch(approved, make_paths(Path(prepared.run.path)), {})
    named = yaml_text.load(launch.files["train.yaml"], "train.yaml").values["deepspeed"]
    assert os.path.dirname(named) == prepared.run.inputs
    assert json.loads(Path(named).read_text()) == DEEPSPEED
    assert os.stat(named).st_mode & 0o777 == 0o444


@pytest.fixture
def held(prepare, tmp_path):
    """A run whose training waits in the middle: (run, its caller, the file that holds it)."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"w" * 1000)
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    return run, caller, hold


@pytest.mark.parametrize("what", SWAPS)
def test_a_swap_while_training_runs_fails_the_run(held, what):
    run, caller, hold = held
    path = SWAPS[what](run)
    times = os.stat(path)
    Path(path + ".new").write_bytes(bytes(times.st_size))  # as large as before, and as old
    os.utime(path + ".new", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(path + ".new", path)
    hold.unlink()
    _, document = answer(caller)
    assert document["status"] == "failed"
    assert document["error"]["code"] == "INPUT_CHANGED_DURING_RUN"
    assert document["data"]["update_model_path"] is None


@pytest.mark.parametrize("what", SWAPS)
def test_a_swap_that_was_undone_before_the_end_is_told(held, what):
    run, caller, hold = held
    path = SWAPS[what](run)
    os.rename(path, path + ".aside")
    Path(path).write_bytes(b"other")
    os.replace(path + ".aside", path)
    hold.unlink()
    code, document = answer(caller)
    assert (code, document["status"]) == (0, "completed")
    (warning,) = [one for one in document["data"]["result"]["warnings"] if "touched" in one]
    assert path in warning


def test_an_untouched_run_is_not_accused(held):
    run, caller, hold = held
    for read in ("model/model.safetensors", "model/config.json"):
        (run.root / read).read_bytes()
    hold.unlink()
    code, document = answer(caller)
    assert code == 0
    assert not [one for one in document["data"]["result"]["warnings"] if "touched" in one]
