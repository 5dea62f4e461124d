"""Lines that are read, judged and folded as columns end as each of them alone does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.files.prompt_lines import LineReader, judged, keys_and_sizes, truth_keys
from loopai_trainer.files.tables.json_lines import JsonLines
from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.adapters import Adapter
from loopai_trainer.rules.prompts.columns import columns_of
from loopai_trainer.rules.prompts.keys import TextKeys, answer_keys, joined_texts
from loopai_trainer.rules.prompts.records import metadata_of

_texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            " a  b",
            "a\n",
            "Was 5？",
            "\x1c",
            "\u200b",
            "end ####",
            "#### 72",
            "the answer?",
            "\\boxed{7}",
            "答案：7",
            "q?",
            "",
            " ",
        ]
    ),
)
_answers = st.one_of(
    _texts,
    st.sampled_from(
        [
            "so\n#### 72",
            "72",
            "so\n#### 1,234",
            "\\boxed{7}\n#### 72",
            "null",
            "x\n#### ²",
            "x\n#### 72 ",
            "</\n#### 5",
            f"\n#### {'9' * 18}",
            f"\n#### {'9' * 19}",
            "9" * 30,
            "\n#### \n#### 5",
            "NSWER\n#### 5",
            "\n#### ５",
            "\n#### ",
        ]
    ),
)
_record = st.fixed_dictionaries(
    {"question": _texts, "answer": _answers},
    optional={"id": st.integers(-3, 3), "dataset": st.sampled_from(["GSM8K", " ", "math"]), "task": st.just("t")},
)
_alpaca = st.fixed_dictionaries({"instruction": _texts, "output": _answers})
_problem = st.fixed_dictionaries({"problem": _texts, "answer": _answers})


def _written(records):
    return "\n".join(json.dumps(record, ensure_ascii=index % 2 == 0) for index, record in enumerate(records)).encode()


def _same(records, adapter, data_source):
    lines = LineReader(adapter)(_written(records))
    if lines is None:
        return False
    assert lines.values() == records
    check = Adapter(adapter, data_source, True)
    found = judged(lines, data_source, check)
    verdicts = [check(record) for record in records]
    assert found.bad == [(index, one) for index, one in enumerate(verdicts) if isinstance(one, Rejection)]
    rows = [one for one in verdicts if not isinstance(one, Rejection)]
    slow = columns_of(rows)
    assert (found.questions.to_pylist(), found.truths.to_pylist()) == (slow.contents, slow.truths)
    assert (found.markers, found.notes) == (slow.markers, slow.notes)
    assert not slow.turns
    assert {found.adapter} >= set(slow.adapters)
    assert {found.data_source} >= set(slow.data_sources)
    good = [record for record, one in zip(records, verdicts, strict=True) if not isinstance(one, Rejection)]
    assert {tuple(names) for names in found.names} == {tuple(metadata_of(record)) for record in good}
    keys = TextKeys(42)
    prompts, sizes = keys_and_sizes(found.questions, keys)
    assert prompts == keys(joined_texts([row.messages for row in rows]))
    assert list(sizes) == [len(text) for text in slow.contents]
    assert truth_keys(found.truths) == answer_keys(slow.truths)
    return True


@given(
    st.one_of(*(st.lists(kind, min_size=1, max_size=8) for kind in (_record, _alpaca, _problem))),
    st.sampled_from(["auto", "qa", "alpaca"]),
    st.sampled_from(["", "d"]),
)
def test_lines_together_get_the_verdicts_and_keys_of_each_alone(records, adapter, data_source):
    _same(records, adapter, data_source)


def test_lines_are_taken_together():
    plain = {"question": "q?", "answer": "so\n#### 72"}
    assert _same([plain, {**plain, "answer": "1,234"}, {"answer": "b", "question": ""}], "auto", "")
    assert _same([{"instruction": "q?", "output": "72"}, {"instruction": "q?", "output": "a\n#### 7"}], "alpaca", "d")
    assert _same([{**plain, "id": 1, "dataset": "gsm8k"}, {**plain, "id": 2, "dataset": "math"}], "auto", "d")


_QA = b'{"question": "q", "answer": "1"}'
_odd = st.sampled_from(
    [
        _QA, _QA, _QA, b"", b" ", _QA + _QA, _QA + b" {", b'"question": "c", "answer": "d"}', b"[1]", _QA + b"\0", b" " + _QA,
        b'{"question": "a", "question": "b", "answer": "c"}', b'{"question": "a\xff", "answer": "1"}', _QA[:-1],
        b'{"question": "\\ud800", "answer": "1"}', b'{"question": "\\udc00", "answer": "1"}', b'{"question": null, "answer": "1"}',
        b'{"question": 7, "answer": "1"}', b'{"question": "a", "answer": "1", "id": 5}', b'{"question": "a"}', b"{}", b"null",
        b'{"quest\\u0069on": "a", "answer": "1"}', b'{"quest\\u0069on": "a", "question": "b", "answer": "1"}', _QA + b",",
        b'{"question": "\\u0000\\ud83d\\ude00", "answer": "1"}', b'{"answer": "1", "question": "q"}', _QA + b"\r",
        b'{"question": "a\tb", "answer": "1"}', b'{"question": "a", "answer": {"x": "}"}}', b'{"question": "\xed\xa0\x80", "answer": "1"}',
    ]
)  # fmt: skip


@given(st.lists(_odd, min_size=1, max_size=5))
def test_a_text_is_taken_only_if_each_line_is_a_record_for_itself(tmp_path_factory, lines):
    text = b"\n".join(lines)
    found = LineReader("auto")(text)
    if found is None:
        return
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(text)
    assert list(enumerate(found.values(), 1)) == list(JsonLines(str(path), len(text)).rows())
    assert found.questions.to_pylist() == [record["question"] for record in found.values()]
    assert found.answers()[0].null_count < len(found)


@pytest.mark.parametrize(
    "line",
    [
        b'{"question": "a", "question": "b", "answer": "c"}',
        b'{"question": "a\xff", "answer": "c"}',
        b'{"question": "\\ud800", "answer": "c"}',
        b'{"question": null, "answer": "c"}',
        b'{"question": "a", "answer": {"x": "}"}}',
        b'{"question": "a", "answer": "b"}{"question": "a", "answer": "b"}',
        b"",
        b"[1]",
    ],
)
def test_one_odd_line_leaves_all_to_the_tables_own_reader(line):
    assert LineReader("auto")(_QA) is not None
    for text in (line, _QA + b"\n" + line, line + b"\n" + _QA):
        assert LineReader("auto")(text) is None


def test_a_key_that_the_first_line_has_not_leaves_all_to_the_tables_own_reader():
    more = b'{"question": "a", "answer": "b", "more": 1}'
    assert LineReader("auto")(_QA + b"\n" + more) is None
    assert LineReader("auto")(more + b"\n" + _QA).values()[1] == {"question": "q", "answer": "1"}


def test_objects_that_begin_on_one_line_and_end_on_another_are_not_taken():
    assert LineReader("auto")(_QA + b' {"question": "c",\n"answer": "d"}') is None
    assert LineReader("auto")(b'{"question": "q",\n"answer": "1"}\n' + _QA + _QA) is None


def test_windows_line_ends_are_taken():
    found = LineReader("auto")(_QA + b"\r\n" + _QA + b"\r")
    assert len(found.values()) == 2


def test_a_reader_gives_up_on_a_file_of_other_records():
    reader = LineReader("auto")
    assert reader(_QA) is not None
    assert {reader(b'{"a": 1}') for _ in range(8)} == {None}
    assert reader(_QA) is None
