import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules import plan_diff

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("ab/", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
BLOCKS = st.dictionaries(st.sampled_from(["loopai", "result", "lr"]), PLAIN, max_size=3)


def changed(before, after, **dirs):
    return [tuple(change) for change in plan_diff.changes(before, after, **dirs)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "changed", 1, 2)]),
        ({"a": 1}, {}, [("a", "removed", 1, None)]),
        ({}, {"a": None}, [("a", "added", None, None)]),
        ({"a": 1}, {"a": 1.0}, [("a", "changed", 1, 1.0)]),
        ({"a": 1}, {"a": True}, [("a", "changed", 1, True)]),
        ({"a": 0.0}, {"a": -0.0}, [("a", "changed", 0.0, -0.0)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, [("a.b", "changed", 1, 3)]),
        ({"a": {"b": 1}}, {}, [("a.b", "removed", 1, None)]),
        ({}, {"a": {"b": {"c": 1}}}, [("a.b.c", "added", None, 1)]),
        ({}, {"a": {}}, [("a", "added", None, {})]),
        ({"a": {"b": 1}}, {"a": 5}, [("a", "changed", {"b": 1}, 5)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", "changed", [1, 2], [1, 3])]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}, {"c": 3}]}, [("a.0.b", "changed", 1, 2), ("a.1.c", "added", None, 3)]),
        ({"a": []}, {"a": [{"b": 2}]}, [("a", "changed", [], [{"b": 2}])]),
        ({"x": 1, "a": 1}, {"a": 2, "n": 3}, [("a", "changed", 1, 2), ("n", "added", None, 3), ("x", "removed", 1, None)]),
    ],
)  # fmt: skip
def test_keys_that_differ(before, after, expected):
    assert changed(before, after) == expected


def plan(run_dir, registry="r1", train="t1", **native):
    files = [{"path": f"{run_dir}/prepared_data/dataset_info.json", "sha256": registry, "bytes": 2},
             {"path": f"{run_dir}/inputs/deepspeed.json", "sha256": "d1", "bytes": 3}]  # fmt: skip
    inputs = {"train": {"path": f"{run_dir}/prepared_data/train-{train}.parquet", "sha256": train}, "files": files}
    return {"loopai": {"version_id": run_dir, "inputs": inputs}, "output_dir": run_dir, **native}


def test_what_follows_from_the_version_alone_is_no_difference():
    dirs = {"before_dir": "/out/v1", "after_dir": "/elsewhere/v2"}
    assert changed(plan("/out/v1"), plan("/elsewhere/v2", registry="r2"), **dirs) == []
    found = changed(plan("/out/v1"), plan("/elsewhere/v2", train="t2", lr=1), **dirs)
    assert [key for key, *_ in found] == ["loopai.inputs.train.path", "loopai.inputs.train.sha256", "lr"]


def test_another_file_is_a_difference_and_so_is_a_path_outside():
    dirs = {"before_dir": "/out/v1", "after_dir": "/out/v1"}
    other = plan("/out/v1")
    other["loopai"]["inputs"]["files"][1]["sha256"] = "d2"
    assert changed(plan("/out/v1"), other, **dirs) == [("loopai.inputs.files.1.sha256", "changed", "d1", "d2")]
    assert changed({"a": "/out/v10/x"}, {"a": "/out/v1/x"}, **dirs) == [("a", "changed", "/out/v10/x", "{run_dir}/x")]


def test_within_one_version_nothing_is_passed_over_but_its_id():
    before, after = plan("/out/v1"), plan("/out/v1", registry="r2")
    assert changed(before, after) == [("loopai.inputs.files.0.sha256", "changed", "r1", "r2")]


@given(BLOCKS, BLOCKS)
def test_it_is_empty_exactly_if_nothing_but_the_version_differs(before, after):
    def bare(values):
        block = values.get("loopai")
        own = {k: v for k, v in block.items() if k != "version_id"} if isinstance(block, dict) else block
        return {**values, "loopai": own} if "loopai" in values else values

    found = plan_diff.changes(before, after)
    assert (found == []) == (repr_sorted(bare(before)) == repr_sorted(bare(after)))
    assert len({change.key for change in found}) == len(found)


def repr_sorted(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{repr_sorted(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(repr_sorted, value)) + "]"
    return repr(value)


def test_unified_text_and_its_digest():
    text = plan_diff.unified("a: 1\nb: 2\n", "a: 1\nb: 3", "v1", "v2")
    assert text == "--- v1\n+++ v2\n@@ -1,2 +1,2 @@\n a: 1\n-b: 2\n+b: 3\n\\ No newline at end of file\n"
    assert plan_diff.unified("a: 1\n", "a: 1\n", "v1", "v2") == ""
    assert plan_diff.digest(text) == hashlib.sha256(text.encode()).hexdigest()


def test_the_json_of_a_change():
    assert plan_diff.Change("lr", "changed", 1, 2).as_json() == {"key": "lr", "kind": "changed", "from": 1, "to": 2}
