import hashlib

import pytest
from fakes.plans import LOOPAI, RESULT, small_plan
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.errors import ConfigError, PlanChanged
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import yaml_text


def test_the_same_arguments_give_the_same_bytes_and_their_hash():
    first, second = small_plan(), small_plan()
    assert first.text == second.text
    assert first.sha256 == hashlib.sha256(first.text.encode()).hexdigest()
    assert first.native == {"learning_rate": 1e-5}
    assert (first.task_id, first.version_id, first.framework, first.stage) == ("demo", "v1", "llamafactory", "sft")


def test_reserved_blocks_stand_first():
    assert small_plan().text.startswith("loopai:\n")
    with pytest.raises(ConfigError, match="reserved"):
        plans.render(LOOPAI, RESULT, {"loopai": {}})


def test_approve_takes_exactly_the_right_hash():
    plan = small_plan()
    approved = plans.approve(plan.text.encode(), plan.sha256)
    assert approved.plan == plan
    assert approved.approval_sha256 == plan.sha256


@pytest.mark.parametrize(
    "spoil", [str.upper, lambda h: h[:8], lambda h: h + " ", lambda h: "", lambda h: "0" * 64, lambda h: "é" + h[1:]]
)
def test_any_other_hash_is_a_mismatch(spoil):
    plan = small_plan(task_id="abc")
    wrong = spoil(plan.sha256)
    with pytest.raises(PlanChanged) as caught:
        plans.approve(plan.text.encode(), wrong)
    assert caught.value.details == {"expected": wrong, "got": plan.sha256}
    assert f"expected: {wrong}\n  got:      {plan.sha256}" in caught.value.message


@given(st.data())
def test_any_changed_byte_is_refused(data):
    plan = small_plan()
    original = plan.text.encode()
    at = data.draw(st.integers(0, len(original) - 1))
    changed = original[:at] + bytes([(original[at] + data.draw(st.integers(1, 255))) % 256]) + original[at + 1 :]
    with pytest.raises(PlanChanged):
        plans.approve(changed, plan.sha256)


@pytest.mark.parametrize("key", sorted(plans._SHAPE))
def test_a_damaged_reserved_block_is_refused_by_key(key):
    values = yaml_text.load(small_plan().text, "x").values
    *parents, last = key.split(".")
    target = values["loopai"]
    for part in parents:
        target = target[part]
    target[last] = True
    with pytest.raises(ConfigError) as caught:
        plans.read(yaml_text.dump(values).encode(), "training_config.yaml")
    assert caught.value.problems[0].code == "RESERVED_BLOCK"
    assert caught.value.problems[0].field in (f"loopai.{key}", f"loopai.{parents[0]}" if parents else f"loopai.{key}")


def test_missing_blocks_foreign_formats_and_bad_entries_are_refused():
    for text in ("a: 1\n", "loopai: {}\n", "loopai: 1\nresult: {}\n"):
        with pytest.raises(ConfigError):
            plans.read(text.encode(), "x.yaml")
    with pytest.raises(ConfigError, match="format 2"):
        small_plan(format=2)
    inputs = {**LOOPAI["inputs"], "files": [{"path": "/x"}]}
    with pytest.raises(ConfigError, match="no path and sha256"):
        small_plan(inputs=inputs)
    with pytest.raises(ConfigError, match="UTF-8 at byte 0"):
        plans.read(b"\xff", "x.yaml")


def test_inputs_lists_all_that_is_pinned():
    found = plans.inputs(small_plan())
    assert [(entry.label, entry.path) for entry in found] == [
        ("train", "/run/train.parquet"),
        ("dataset_info.json", "/run/dataset_info.json"),
    ]


def test_a_plan_may_have_no_model():
    inputs = {name: entry for name, entry in LOOPAI["inputs"].items() if name != "model"}
    plan = plans.render({**LOOPAI, "inputs": inputs}, RESULT, {})
    assert plan.loopai["inputs"].get("model") is None
