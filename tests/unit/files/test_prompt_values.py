"""Nested values whose types are known at the end."""

import json

import pyarrow
import pytest

from loopai_trainer.files.prompt_values import ValueTypes, to_json


def types_of(*batches):
    types = ValueTypes()
    for batch in batches:
        types.observe(batch)
    return types


@pytest.mark.parametrize(
    ("batches", "kind"),
    [
        ([[{"a": 1}], [{"a": None}], [None]], pyarrow.int64()),
        ([[{"a": None}], [{"a": "x"}]], pyarrow.string()),
        ([[{"a": None}]], pyarrow.string()),
        ([[{"a": []}], [{"a": [1]}]], pyarrow.list_(pyarrow.int64())),
        ([[{"a": 0.5}], [{"a": 1.5}]], pyarrow.float64()),
        ([[{"a": {}}]], pyarrow.string()),
    ],
)
def test_types_grow_together(batches, kind):
    types = types_of(*batches)
    assert types.fields() == {"a": kind}


def test_structs_get_the_fields_of_all():
    types = types_of([{"a": {"x": 1}}], [{"a": {"y": "t"}}])
    column = types.column("a", [{"x": 1}, {"y": "t"}, None])
    assert column.to_pylist() == [{"x": 1, "y": None}, {"x": None, "y": "t"}, None]


@pytest.mark.parametrize(
    "batches",
    [
        [[{"a": 1}, {"a": "x"}]],
        [[{"a": 1}], [{"a": "x"}]],
        [[{"a": 2**60 + 1}], [{"a": 0.5}]],
        [[{"a": [2**60 + 1]}], [{"a": [0.5]}]],
        [[{"a": 2**70}]],
        [[{"a": {"x": 1}}], [{"a": [1]}]],
    ],
)
def test_what_fits_no_type_is_kept_as_json(batches):
    types = types_of(*batches)
    assert types.mixed == {"a"}
    values = [one["a"] for batch in batches for one in batch]
    column = types.column("a", [*values, None])
    assert column.type == pyarrow.string()
    assert [json.loads(text) for text in column.to_pylist()[:-1]] == values
    assert column.to_pylist()[-1] is None
    types.observe([{"a": 1}])
    assert types.fields() == {"a": pyarrow.string()}


def test_what_json_does_not_know_becomes_text():
    assert json.loads(to_json({"a": b"x", "b": "é"})) == {"a": "b'x'", "b": "é"}
