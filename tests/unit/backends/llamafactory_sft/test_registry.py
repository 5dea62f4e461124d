import json
import os
from dataclasses import replace

import pytest
from fakes.llamafactory_env import DISTRIBUTIONS
from fakes.sft_plans import make_plan

from loopai_trainer.backends.llamafactory_sft.check import check
from loopai_trainer.records import Device, Host, Versions

HOST = Host((Device(0, "GPU-0", "test", 1 << 35),), 8, 10**12)
VERSIONS = Versions("llamafactory", "0.9.5", "3.11.7", "/env/llamafactory", DISTRIBUTIONS, "e" * 64)


@pytest.fixture
def plan(tmp_path):
    return make_plan(tmp_path / "run")


def findings(plan):
    return [(problem.code, problem.field, problem.message) for problem in check(plan, VERSIONS, HOST)]


def edit(plan, change):
    path = os.path.join(plan.native["dataset_dir"], "dataset_info.json")
    with open(path) as file:
        registry = json.load(file)
    change(registry)
    os.chmod(path, 0o644)
    with open(path, "w") as file:
        json.dump(registry, file)


@pytest.mark.parametrize(
    ("change", "split", "said"),
    [
        (lambda r: r["train"].update(file_name="/other.parquet"), "train", "another file_name"),
        (lambda r: r["train"].update(formatting="alpaca"), "train", "another formatting"),
        (lambda r: r["train"]["columns"].update(messages="other"), "train", "another columns"),
        (lambda r: r["train"]["tags"].update(user_tag="assistant"), "train", "another tags"),
        (lambda r: r["train"].update(num_samples=3), "train", "another num_samples"),
        (lambda r: r["train"].update(hf_hub_url="a/b"), "train", "another hf_hub_url"),
        (lambda r: r["train"].pop("tags"), "train", "another tags"),
        (lambda r: r["validation"].update(file_name=r["train"]["file_name"]), "validation", "another file_name"),
        (lambda r: r.pop("validation"), "validation", "is missing"),
        (lambda r: r.update(train=[1]), "train", "is missing"),
    ],
)
def test_an_entry_that_leads_elsewhere_is_refused(plan, change, split, said):
    edit(plan, change)
    ((code, field, message),) = findings(plan)
    assert (code, field) == ("REGISTRY_CHANGED", f"loopai.inputs.{split}") and said in message


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_what_is_no_registry_is_refused(plan, text):
    path = os.path.join(plan.native["dataset_dir"], "dataset_info.json")
    os.chmod(path, 0o644)
    with open(path, "w") as file:
        file.write(text)
    assert [finding[:2] for finding in findings(plan)] == [("REGISTRY_CHANGED", "dataset_dir")]


def with_entry(plan, split, **changes):
    inputs = plan.loopai["inputs"]
    entry = {**inputs[split], **changes}
    return replace(plan, values={**plan.values, "loopai": {**plan.loopai, "inputs": {**inputs, split: entry}}})


def test_a_plan_that_names_another_snapshot_is_refused(plan, tmp_path):
    other = plan.loopai["inputs"]["validation"]["path"]
    assert ("REGISTRY_CHANGED", "loopai.inputs.train") in [
        f[:2] for f in findings(with_entry(plan, "train", path=other))
    ]


@pytest.mark.parametrize("rows", [91, 0, None, "90", -1])
def test_rows_that_are_not_the_snapshots_are_refused(plan, rows):
    found = findings(with_entry(plan, "train", rows=rows))
    assert [finding[:2] for finding in found] == [("ROWS_MISMATCH", "loopai.inputs.train.rows")]
    assert "holds 90" in found[0][2]


@pytest.mark.parametrize("data", [b"PAR1", b"", None])
def test_a_snapshot_that_is_no_parquet_is_refused(plan, data):
    path = plan.loopai["inputs"]["train"]["path"]
    os.unlink(path)
    if data is not None:
        with open(path, "wb") as file:
            file.write(data)
    assert [finding[0] for finding in findings(plan)] == ["SNAPSHOT_UNREADABLE"]
