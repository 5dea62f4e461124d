"""operations.compare: ranked by one metric alone; what differs in the plans is said key by key."""

import os
import re
from pathlib import Path

import pytest
from fakes.finished_runs import FinishedRun

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files.run_dir import TaskDir
from loopai_trainer.operations import compare as compared
from loopai_trainer.operations.targets import Scope


@pytest.fixture
def scope(tmp_path):
    user = {f"LOOPAI_TRAINER_{kind}_DIR": str(tmp_path / kind) for kind in ("STATE", "CACHE")}
    return Scope(user, str(tmp_path / "outputs"))


@pytest.fixture
def make(tmp_path):
    def made(version, evaluations, **keys):
        run = FinishedRun(tmp_path / version)
        run.log([2.0, 1.8, 1.6, 1.4, 1.3, 1.2, 1.1, 1.0], evaluations)
        text = Path(run.run.config).read_text()
        for key, value in keys.items():
            text = re.sub(rf"(?m)^{key}: .*\n", "", text) + f"{key}: {value}\n"
        target = TaskDir(str(tmp_path / "outputs"), "demo").run(version)
        os.makedirs(os.path.dirname(target.path), exist_ok=True)
        os.rename(run.path, target.path)
        Path(target.config).write_text(text.replace("version_id: v1", f"version_id: {version}"))
        return target

    return made


def names(answer):
    return [run["version_id"] for run in answer.data["runs"]]


def test_the_best_run_stands_first(make, scope):
    make("a", [1.4, 1.1, 0.9, 1.0])
    make("b", [1.4, 1.1, 0.7, 1.0])
    make("c", [1.4, 1.1, 1.2, 1.0])
    answer = compared.compare(["a", "b", "c"], scope)
    assert (answer.data["metric"], answer.data["mode"], answer.data["not_ranked"]) == ("eval_loss", "min", None)
    assert names(answer) == ["b", "a", "c"]
    best = answer.data["runs"][0]
    assert (best["best_metric"]["value"], best["best_step"], best["best_checkpoint_name"]) == (0.7, 30, "checkpoint-30")
    assert (best["checkpoint_count"], best["metric_count"]) == (4, 12)
    assert answer.message == "ranked by eval_loss (min)"


def test_different_metrics_are_not_ranked(make, scope):
    make("a", [1.4, 1.1, 0.9, 1.0])
    make("b", [])
    answer = compared.compare(["b", "a"], scope)
    assert answer.data["metric"] is None
    assert "eval_loss (min), loss (min)" in answer.data["not_ranked"]
    assert names(answer) == ["b", "a"]


def test_a_run_without_metrics_stands_last(make, scope):
    empty = make("a", [1.0])
    for path in Path(empty.checkpoints).rglob("*.json*"):
        path.unlink()
    make("b", [1.4, 1.1, 0.7, 1.0])
    answer = compared.compare(["a", "b"], scope)
    assert names(answer) == ["b", "a"]
    why = f"it is {answer.data['runs'][1]['status']} and has no eval_loss"
    assert [run["not_ranked"] for run in answer.data["runs"]] == [None, why]
    assert answer.message == f"ranked by eval_loss (min); not ranked: a ({why})"


def test_what_differs_is_said_by_key(make, scope):
    make("a", [1.0], lora_rank=8, model_name_or_path="/m")
    make("b", [1.0], lora_rank=16, seed=1, model_name_or_path="/m")
    told = compared.compare(["a", "b"], scope).data["config_differences"]
    assert {one["key"]: one["values"] for one in told} == {
        "lora_rank": {"a": 8, "b": 16},
        "seed": {"a": 42, "b": 1},
    }


@pytest.mark.parametrize(("words", "error"), [(["a"], UsageError), (["a", "a"], UsageError), (["a", "zz"], NotFound)])
def test_refusals(make, scope, words, error):
    make("a", [1.0])
    with pytest.raises(error):
        compared.compare(words, scope)


def test_a_page_of_all_runs(make, scope, tmp_path):
    make("a", [1.4, 1.1, 0.9, 1.0])
    make("b", [1.4, 1.1, 0.7, 1.0], seed=1)
    page = tmp_path / "page.html"
    for _ in range(2):  # a page may be written again
        answer = compared.compare(["a", "b"], scope, str(page))
    assert answer.data["page_path"] == str(page)
    text = page.read_text()
    assert text.index("<td>b</td>") < text.index("<td>a</td>")
    assert "b: eval_loss" in text
    assert "<code>seed</code>" in text


def test_no_other_file_becomes_a_page(make, scope, tmp_path):
    config = make("a", [1.0]).config
    make("b", [1.0])
    before = Path(config).read_text()
    for path in (config, str(tmp_path), str(tmp_path / "no" / "such" / "folder.html")):
        with pytest.raises(UsageError) as caught:
            compared.compare(["a", "b"], scope, path)
        assert "--html" in caught.value.hint
    assert Path(config).read_text() == before
