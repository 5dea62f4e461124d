"""results.picture: drawn, taken over, or neither, and it is said which."""

import builtins
import subprocess
import sys

import pytest
from fakes.finished_runs import FinishedRun

from loopai_trainer import backends
from loopai_trainer.results import picture, points
from loopai_trainer.results.analysis import analyze_folder

PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


@pytest.fixture
def without_matplotlib(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def save(finished):
    analysis = analyze_folder(finished.run.path, backends.get("llamafactory", "sft"))
    return picture.save(finished.run, analysis, points.curves(analysis.rows), "demo / v1 $x_{y$")


def written(finished):
    path = finished.path / "loss.png"
    return path.read_bytes() if path.exists() else None


def test_it_is_drawn(finished):
    assert save(finished) == "drawn"
    assert written(finished).startswith(b"\x89PNG\r\n\x1a\n")


def test_losses_over_many_decades_are_drawn(finished):
    finished.log([1000.0, 10.0, 0.1, 0.001])
    assert save(finished) == "drawn"


def test_a_single_negative_value_is_drawn(finished):
    finished.log([-1.0])
    assert save(finished) == "drawn"


def test_the_own_picture_of_llamafactory_is_taken_over(finished, without_matplotlib):
    (finished.checkpoints / "training_loss.png").write_bytes(PNG)
    assert save(finished) == "taken over from LLaMA-Factory"
    assert written(finished) == PNG


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_what_is_no_picture_is_not_taken_over(finished, without_matplotlib, content):
    (finished.checkpoints / "training_loss.png").write_bytes(content)
    assert "loopai-trainer[plot]" in save(finished)
    assert written(finished) is None


def test_neither(finished, without_matplotlib):
    assert save(finished).startswith("none: install matplotlib")


def test_no_curve(finished):
    finished.log([])
    assert save(finished) == "none: training logged no curve"


def test_matplotlib_is_not_imported_with_the_module():
    code = "import sys, loopai_trainer.results.finish; assert not {'matplotlib', 'plotext'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
