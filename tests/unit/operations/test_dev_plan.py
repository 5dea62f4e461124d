"""operations.dev_plan: the bounded plan in its own folder, with nothing in it that leads back to the version's."""

import dataclasses
import json
import os
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from fakes.llamafactory_env import versions_of
from fakes.prepared_sft import PreparedSft

from loopai_trainer import backends
from loopai_trainer.backends.plain import Plain
from loopai_trainer.errors import NotShown
from loopai_trainer.host import environments
from loopai_trainer.operations import dev_plan
from loopai_trainer.records import DevPlan
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker import guards

BACKEND = backends.get("llamafactory", "sft")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return PreparedSft(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def plan(prepared):
    return plans.read(Path(prepared.run.config).read_bytes(), "config")


def made(prepared, plan, name="dev-1"):
    versions = versions_of(prepared.env)
    environment = environments.resolve(str(prepared.env), "llamafactory", {})
    cut = dev_plan.bounded(BACKEND, plan, versions)
    dev = prepared.run.task.dev_run("v1", name)
    os.makedirs(dev.path, exist_ok=True)
    return dev_plan.make(plan, prepared.run, dev, BACKEND, cut, environment, 60.0)


def test_no_path_leads_into_the_versions_own_folder(prepared, plan):
    found = made(prepared, plan)
    assert prepared.run.path not in found.plan.text
    guards.check_place(found.run, found.plan)
    guards.check_fresh(found.run, found.plan)
    assert found.plan.native["output_dir"] == found.run.checkpoints
    assert found.plan.native["deepspeed"] == os.path.join(found.run.inputs, "deepspeed.json")


def test_every_input_is_there_as_the_plan_says(prepared, plan):
    found = made(prepared, plan)
    from loopai_trainer.files import hashing

    for entry in plans.inputs(found.plan):
        assert hashing.sha256_file(entry.path) == entry.sha256
        assert os.stat(entry.path).st_mode & 0o777 == 0o444
    registry = json.loads(Path(found.run.dataset_info).read_text())
    assert {name: entry["file_name"] for name, entry in registry.items()} == {
        name: found.plan.loopai["inputs"][name]["path"] for name in ("train", "validation")
    }
    train = pyarrow.parquet.read_table(found.plan.loopai["inputs"]["train"]["path"])
    whole = pyarrow.parquet.read_table(plan.loopai["inputs"]["train"]["path"])
    assert train.schema.equals(whole.schema)
    assert train.num_rows == found.plan.loopai["inputs"]["train"]["rows"] == 6


def test_its_block_says_what_it_is(prepared, plan):
    found = made(prepared, plan)
    block = yaml.safe_load(found.plan.text)["loopai"]
    assert block["dev"] == {
        "of": {"version_id": "v1", "config_sha256": plan.sha256}, "steps": 2, "rows": 6, "limit_s": 60.0,
    }  # fmt: skip
    assert (block["version_id"], block["task_id"], block["launch"]["executor"]) == ("dev-1", "task", "local")
    assert found.plan.result["export_huggingface"] is False


def test_tokens_are_not_handed_out_and_nothing_is_continued_or_approved(prepared, plan):
    resume = os.path.join(prepared.run.inputs, "checkpoint-3")
    os.makedirs(resume, exist_ok=True)
    state = Path(resume, "trainer_state.json")
    state.write_text("{}")
    inputs = plan.loopai["inputs"]
    more = [{"path": str(state), "sha256": "0" * 64}, {"path": prepared.run.earlier_metrics, "sha256": "0" * 64}]
    loopai = {
        **plan.loopai,
        "launch": {**plan.loopai["launch"], "pass_env": ["WANDB_API_KEY"], "executor": "inline"},
        "resume": {"path": resume, "step": 3},
        "approval": {"require": "terminal"},
        "checks": {"max_cut_share": 0.5},
        "inputs": {**inputs, "files": [*inputs["files"], *more]},
    }
    found = made(prepared, dataclasses.replace(plan, values={**plan.values, "loopai": loopai}), "dev-2")
    block = found.plan.loopai
    assert (block["launch"]["pass_env"], block["launch"]["executor"]) == ([], "local")
    assert not {"resume", "approval", "checks"} & set(block)
    assert [os.path.basename(entry["path"]) for entry in block["inputs"]["files"]] == [
        "dataset_info.json",
        "deepspeed.json",
    ]


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("/run", "/dev"),
        ("/run/inputs/a.json", "/dev/inputs/a.json"),
        ("/running/a", "/running/a"),
        ("sqlite:////run/metrics/m.db", "sqlite:////dev/metrics/m.db"),
        ("/run/data/x.parquet", "/dev/train.parquet"),
        ({"a": ["/run/b", 3, None, True]}, {"a": ["/dev/b", 3, None, True]}),
    ],
)
def test_paths_are_moved(value, after):
    assert dev_plan.relocated(value, "/run", "/dev", {"/run/data/x.parquet": "/dev/train.parquet"}) == after


def test_a_backend_without_a_bounded_version(plan):
    class Other(Plain):
        name = "other"

    with pytest.raises(NotShown, match="other has no bounded version"):
        dev_plan.bounded(Other(), plan, None)


def test_a_backend_that_asks_for_too_much(plan):
    class Greedy(Plain):
        name = "greedy"

        def dev_plan(self, plan, versions):
            return DevPlan(plan.native, 1000)

    with pytest.raises(NotShown) as refusal:
        dev_plan.bounded(Greedy(), plan, None)
    assert (refusal.value.code, refusal.value.exit_code) == ("DEV_UNBOUNDED", 3)
