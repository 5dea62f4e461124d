"""dataset_info.json as LLaMA-Factory reads it, and what is said of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules.dataset_info import COLUMNS, TAGS, Unreadable, parse, read_entry

CHAT = {"file_name": "f", "formatting": "sharegpt"}


def read(entry, name="d"):
    text = json.dumps({"other": {"file_name": "o"}, name: entry}, indent=1)
    return read_entry(parse(text), name, text, "/r/dataset_info.json")


def said(entry):
    return [(p.code, p.severity, p.field) for p in read(entry).problems]


def test_an_entry_of_a_file_alone_gets_the_defaults():
    entry = read({"file_name": "f.jsonl"})
    assert (entry.file_name, entry.problems) == ("f.jsonl", ())
    assert (entry.mapping.formatting, entry.mapping.columns, entry.mapping.tags) == ("alpaca", COLUMNS, TAGS)
    assert entry.mapping.written is None


def test_a_map_that_is_given_clears_what_it_leaves_out():
    mapping = read({**CHAT, "columns": {"messages": "m"}, "tags": {**TAGS, "system_tag": None}}).mapping
    assert mapping.columns == {**dict.fromkeys(COLUMNS), "messages": "m"}
    assert mapping.tags["system_tag"] is None
    assert mapping.written == {"messages"}


@pytest.mark.parametrize(
    ("entry", "field", "meant"),
    [
        ({"file_name": "f", "format": "sharegpt"}, "d.format", "formatting"),
        ({"file_name": "f", "formating": "sharegpt"}, "d.formating", "formatting"),
        ({"file_name": "f", "column": {}}, "d.column", "columns"),
        ({"file": "f"}, "d.file", "file_name"),
        ({"file_name": "f", "columns": {"instruction": "q", "prompt": "p", "response": "r"}}, "d.columns.instruction", None),
        ({"file_name": "f", "columns": {"prompt": "p", "output": "r"}}, "d.columns.output", "response"),
        ({"file_name": "f", "columns": {"prompt": "p", "respons": "r"}}, "d.columns.respons", "response"),
        ({**CHAT, "tags": {**TAGS, "human_tag": "h", "user_tag": None}}, "d.tags.human_tag", None),
        ({**CHAT, "tags": {"role": "r"}}, "d.tags.role", "role_tag"),
        ({**CHAT, "tags": {"tool_tag": "r"}}, "d.tags.tool_tag", "observation_tag"),
    ],
)  # fmt: skip
def test_unknown_keys_are_refused_with_the_key_that_was_meant(entry, field, meant):
    problem = next(p for p in read(entry).problems if p.code == "DATASET_INFO_KEY")
    assert (problem.severity, problem.field) == ("error", field)
    assert (f"did you mean {meant!r}?" in problem.message) is bool(meant)


def test_an_unknown_key_like_no_other_is_a_warning():
    assert said({"file_name": "f", "file_sha1": "00"}) == [("DATASET_INFO_KEY", "warning", "d.file_sha1")]


def test_problems_name_the_line_of_their_key():
    text = '{\n "a": {"format": "x"},\n "b": {\n  "file_name": "f",\n  "columns": {\n   "x": "y",\n   "response": "r", "prompt": "p"}}}'
    assert [p.line for p in read_entry(parse(text), "b", text, "p").problems] == [6]
    text = '{"\\u0061": {"format": 1, "file_name": "f"}}'
    assert [p.line for p in read_entry(parse(text), "a", text, "p").problems] == [None], "written in an unusual way"


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"file_name": "f", "formatting": "share_gpt"}, "d.formatting"),
        ({"file_name": "f", "formatting": None}, "d.formatting"),
        ({"file_name": "f", "formatting": "pairs"}, "d.formatting"),
        ({"file_name": "f", "ranking": "true"}, "d.ranking"),
        ({"file_name": "f", "columns": []}, "d.columns"),
        ({"file_name": "f", "columns": None}, "d.columns"),
        ({"file_name": "f", "columns": {"prompt": 1, "query": "i", "response": "o"}}, "d.columns.prompt"),
        ({"file_name": "f", "columns": {"prompt": "", "query": "i", "response": "o"}}, "d.columns.prompt"),
        ({"file_name": "f", "columns": {"prompt": "a", "query": "a", "response": "o"}}, "d.columns.query"),
        ({**CHAT, "tags": {**TAGS, "function_tag": "gpt"}}, "d.tags.function_tag"),
        ({"file_name": 5}, "d"),
        ({"file_name": " "}, "d"),
        ({"file_name": "a\0b"}, "d"),
        ({}, "d"),
        ([], "d"),
    ],
)
def test_values_that_mean_nothing_are_refused(entry, field):
    assert said(entry) == [("DATASET_INFO_VALUE", "error", field)]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"hf_hub_url": "a/b"}, "d.hf_hub_url"),
        ({"ms_hub_url": None}, "d.ms_hub_url"),
        ({"om_hub_url": "a/b"}, "d.om_hub_url"),
        ({"script_url": "s"}, "d.script_url"),
        ({"cloud_file_name": "s3://b/f"}, "d.cloud_file_name"),
    ],
)
def test_what_is_not_a_local_file_is_refused(more, field):
    entry = read({"file_name": "f", **more})
    assert [(p.code, p.field) for p in entry.problems] == [("DATASET_INFO_UNSUPPORTED", field)]
    assert entry.file_name is None


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"num_samples": 5}, "d.num_samples"),
        ({"split": "test"}, "d.split"),
        ({"subset": "s"}, "d.subset"),
        ({"folder": "f"}, "d.folder"),
        ({"ranking": True}, "d.ranking"),
        ({"columns": {"prompt": "p", "response": "r", "chosen": "c"}}, "d.columns.chosen"),
        ({"columns": {"prompt": "p", "response": "r", "kto_tag": "c"}}, "d.columns.kto_tag"),
    ],
)
def test_what_a_checked_snapshot_cannot_give_is_refused(more, field):
    assert said({"file_name": "f", **more}) == [("DATASET_INFO_UNSUPPORTED", "error", field)]


def test_values_that_change_nothing_are_accepted():
    assert said({"file_name": "f", "num_samples": None, "split": "train", "subset": None, "ranking": False}) == []


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ({"file_name": "f", "columns": {"messages": "m"}}, 'rows with turns need "formatting": "sharegpt"'),
        ({"file_name": "f", "columns": {"prompt": "p"}}, "response"),
        ({**CHAT, "columns": {"system": "s"}}, '"messages": "conversations"'),
        ({**CHAT, "tags": {"role_tag": "role", "content_tag": "content"}}, "system_tag"),
    ],
)
def test_a_map_that_leaves_out_what_every_row_needs_is_refused(entry, hint):
    (problem,) = read(entry).problems
    assert problem.code == "DATASET_INFO_INCOMPLETE"
    assert hint in problem.hint


def test_tags_under_alpaca_and_the_openai_system_prompt_are_warned_of():
    assert said({"file_name": "f", "tags": TAGS}) == [("DATASET_INFO_IGNORED", "warning", "d.tags")]
    assert said({**CHAT, "formatting": "openai"}) == [("OPENAI_SYSTEM_PROMPT", "warning", "d.formatting")]


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ('{"a": 1,\n}', "not JSON", 2),
        ("[]", "a list", None),
        ('{"a": {},\n "a": {}}', "stands twice", 1),
        ('{"a": ' + "[" * 100_000, "nested too deep", None),
        ('{"a": "\\ud800"}', "surrogate", None),
        ('{"a": ' + "1" * 5000 + "}", "not JSON that can be read", None),
    ],
)
def test_a_text_that_is_no_registry_is_refused(text, what, line):
    with pytest.raises(Unreadable, match=what) as caught:
        parse(text)
    assert caught.value.line == line


KEYS = st.sampled_from(
    ["file_name", "formatting", "format", "columns", "tags", "ranking", "split", "prompt", "role_tag", "x"]
)
VALUES = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "alpaca", "openai", "f.jsonl"])
ANY = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=10
)


@given(ANY)
def test_no_entry_raises(entry):
    found = read(entry)
    assert found.file_name is None or found.file_name.strip()
    assert found.file_name is not None or any(p.severity == "error" for p in found.problems)
    assert all(p.message and p.hint and p.path for p in found.problems)
