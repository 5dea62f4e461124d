"""Columns pass no row that its row check would refuse, and say the same of the good ones."""

import pyarrow
import pyarrow.parquet
import pytest
from fakes.prompt_sources import native_row, native_rows, write_native
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopai_trainer.files.prompt_columns import NativeFile, PromptBlock, native_schema
from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.adapters import Adapter
from loopai_trainer.rules.prompts.keys import joined_texts

TURN = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
SCHEMA = pyarrow.schema(
    [
        ("data_source", pyarrow.string()),
        ("prompt", pyarrow.list_(TURN)),
        ("reward_model", pyarrow.struct([("style", pyarrow.string()), ("ground_truth", pyarrow.string())])),
    ]
)

_turn = st.none() | st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "user", "user", "system", "assistant", "tool", "human", "bot", None]),
        "content": st.sampled_from(["q?", "q  ？\n", "é", "", " \n", "\u3000", "#### 5", "\\boxed{5}", "####", None]),
    }
)
_row = st.fixed_dictionaries(
    {
        "data_source": st.sampled_from(["d", "d", "e", " ", "", None]),
        "prompt": st.lists(_turn, max_size=3) | st.none(),
        "reward_model": st.none()
        | st.fixed_dictionaries(
            {"style": st.none(), "ground_truth": st.sampled_from(["5", "x", "", " ", "None", "nan", None])}
        ),
    }
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_row, min_size=1, max_size=6), st.integers(0, 2))
def test_what_columns_pass_rows_pass(rows, skipped):
    batch = pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(min(skipped, len(rows) - 1))
    rows = rows[min(skipped, len(rows) - 1) :]
    check = Adapter("native", "", True)
    verdicts = [check(row) for row in batch.to_pylist()]
    suspects = PromptBlock(batch).suspects(True)
    refused = [index for index, one in enumerate(verdicts) if isinstance(one, Rejection)]
    assert set(refused) <= set(suspects)
    good = [one for one in verdicts if not isinstance(one, Rejection)]
    block = PromptBlock(batch.filter(pyarrow.array([not isinstance(one, Rejection) for one in verdicts])))
    assert block.texts() == joined_texts([one.messages for one in good])
    assert block.characters() == [sum(len(content) for _, content in one.messages) for one in good]
    assert block.truths() == [one.ground_truth for one in good]
    assert sum(block.data_sources().values()) == len(good)


def test_ordinary_rows_are_not_suspected():
    batch = pyarrow.RecordBatch.from_pylist(native_rows(20))
    assert PromptBlock(batch).suspects(True) == []
    hinted = [native_row(n, f'{n}? End with "#### <number>" or \\boxed{{}}.') for n in range(5)]
    assert PromptBlock(pyarrow.RecordBatch.from_pylist(hinted)).suspects(True) == []


@pytest.mark.parametrize(
    "rows",
    [
        [native_row(1, truth=5)],
        [{**native_row(1), "prompt": "text"}],
        [{key: value for key, value in native_row(1).items() if key != "data_source"}],
        [{**native_row(1), "extra_info": "text"}],
        [{**native_row(1), "data_source": 7}],
        [{**native_row(1), "prompt": [{"from": "human", "value": "q?"}]}],
    ],
)
def test_columns_of_other_types_are_looked_at_row_by_row(rows):
    assert PromptBlock(pyarrow.RecordBatch.from_pylist(rows)).suspects(True) == [0]


def test_numbers_are_fine_for_a_reward_that_takes_them_but_not_their_absence():
    rows = [native_row(0, truth=5.0), native_row(1, truth=float("nan")), native_row(2, truth=7.5)]
    assert PromptBlock(pyarrow.RecordBatch.from_pylist(rows)).suspects(False) == [1]


@pytest.mark.parametrize(
    ("rows", "native"),
    [
        (native_rows(2), True),
        ([{"prompt": "q?", "reward_model": {"ground_truth": "5"}}], True),
        ([{"prompt": "q?", "reward_model": "5"}], False),
        ([{"prompt": "q?", "answer": "5"}], False),
        ([{"question": "q?", "answer": "5"}], False),
    ],
)
def test_native_files_are_told_by_their_columns(tmp_path, rows, native):
    assert (native_schema(str(write_native(tmp_path / "a.parquet", rows))) is not None) == native


def test_what_is_no_parquet_is_not_native(tmp_path):
    (tmp_path / "a.parquet").write_text("no")
    assert native_schema(str(tmp_path / "a.parquet")) is None
    assert native_schema(str(tmp_path / "none.parquet")) is None


def test_only_needed_columns_are_read_in_batches_of_bounded_size(tmp_path):
    rows = [native_row(n, extra_info={"long": "x" * 20000}) for n in range(500)]
    path = write_native(tmp_path / "a.parquet", rows, row_group_size=200)
    with NativeFile(str(path)) as file:
        batches = list(file.batches(file.needed()))
        assert {name for batch in batches for name in batch.schema.names} == {"prompt", "reward_model", "data_source"}
        assert [batch.num_rows for batch in batches] == [200, 200, 100]
        assert max(batch.num_rows for batch in file.batches(None)) == 200
        long = [native_row(n, "x" * 100_000 + str(n)) for n in range(200)]
    with NativeFile(str(write_native(tmp_path / "b.parquet", long, use_dictionary=False))) as file:
        assert max(batch.nbytes for batch in file.batches(None)) < 8 << 20


def test_prompts_are_found_by_their_rows(tmp_path):
    path = write_native(tmp_path / "a.parquet", native_rows(50), row_group_size=7)
    with NativeFile(str(path)) as file:
        found = file.prompts_at([49, 0, 7, 7])
    assert found == {n: [("user", f"What is {n} plus {n}?")] for n in (0, 7, 49)}
