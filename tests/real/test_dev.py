"""trainer dev with real LLaMA-Factory: two steps on a few rows, and the version stays as it was."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from fakes.cli import trainer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


def outcomes(called):
    return {check["name"]: check["outcome"] for check in called.data["checks"]}


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


@pytest.fixture(scope="module")
def tried_sft(workshop):
    prepared = workshop.prepare("dev-lora", "--set", "num_train_epochs=40.0", template="cpu_smoke_lora")
    assert prepared.code == 0, prepared.out + prepared.err
    before = names(prepared.data["run_dir"])
    return prepared, before, trainer("dev", prepared.data["config_path"], **workshop.environ)


class TestSft:
    def test_it_passes(self, tried_sft):
        _, _, called = tried_sft
        assert called.code == 0, called.out + called.err
        wanted = ("configuration", "inputs", "training", "evaluation", "saving")
        assert outcomes(called) == dict.fromkeys(wanted, "passed")
        assert called.data["bounds"] == {"steps": 2, "rows": {"train": 16, "validation": 16}, "limit_s": 900.0}

    def test_llamafactory_saw_16_rows_and_made_two_steps(self, tried_sft):
        folder = Path(tried_sft[2].data["dev_dir"])
        log = (folder / "train.log").read_text()
        assert "Num examples = 16" in log
        assert "Total optimization steps = 2" in log
        state = json.loads((folder / "run_state.json").read_text())
        assert (state["train_examples"], state["validation_examples"], state["current_step"]) == (16, 16, 2)
        rows = [json.loads(line) for line in (folder / "metrics" / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2]

    def test_half_of_the_rows_are_the_longest(self, tried_sft):
        prepared, _, called = tried_sft
        plan = yaml.safe_load(prepared.data["config_yaml"])
        whole = pyarrow.parquet.read_table(plan["loopai"]["inputs"]["train"]["path"])
        few = pyarrow.parquet.read_table(Path(called.data["dev_dir"]) / "prepared_data" / "train.parquet")
        lines = whole["source_line"].to_pylist()
        chosen = few["source_line"].to_pylist()
        assert chosen[:8] == lines[:8]
        assert chosen == [line for line in lines if line in set(chosen)]

    def test_no_weights_are_left_and_the_version_is_as_it_was(self, tried_sft, workshop):
        prepared, before, called = tried_sft
        left = [name for name in names(called.data["dev_dir"]) if name.endswith((".safetensors", ".bin", ".pt"))]
        assert left == []
        assert names(prepared.data["run_dir"]) == before
        assert trainer("status", prepared.data["run_dir"], **workshop.environ).data["status"] == "prepared"

    def test_what_takes_longer_than_it_may_is_ended_and_is_no_failure(self, tried_sft, workshop):
        prepared, _, _ = tried_sft
        called = trainer("dev", prepared.data["config_path"], "--limit", "1", **workshop.environ)
        assert (called.code, called.data["checks"][-1]["code"]) == (3, "DEV_TIME_LIMIT")
        log = (Path(called.data["dev_dir"]) / "run_state.json").read_text()
        assert json.loads(log)["status"] == "failed"
