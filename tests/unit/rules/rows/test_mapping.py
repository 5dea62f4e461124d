"""Rows of a registry entry: the same chat as under the usual names, and nothing is lost because a map leaves it out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Rejection, Remarked, Row, Turn
from loopai_trainer.rules.dataset_info import read_entry
from loopai_trainer.rules.rows import row_check_for
from loopai_trainer.rules.rows.mapping import mapped_check

ALL_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function",
    "system_tag": "system",
}
OWN_TAGS = {"role_tag": "who", "content_tag": "text", "user_tag": "Q", "assistant_tag": "A", "system_tag": "S"}


def mapping(**entry):
    return read_entry({"d": {"file_name": "f", **entry}}, "d", "", "p").mapping


def judge(row, sample=None, **entry):
    _, check = mapped_check(mapping(**entry), [row] if sample is None else sample)
    return check(row, 7)


def turns(*pairs, role="who", content="text", **more):
    return [{role: r, content: c, **more} for r, c in pairs]


def test_alpaca_columns_of_other_names_become_the_same_row():
    columns = {"prompt": "q", "query": "ctx", "response": "a", "system": "s", "history": "h", "tools": "t"}
    row = {"q": "Q", "ctx": "C", "a": "A", "s": "S", "h": [["x", "y"]], "t": ""}
    usual = {"instruction": "Q", "input": "C", "output": "A", "system": "S", "history": [["x", "y"]], "tools": ""}
    assert judge(row, columns=columns) == row_check_for([usual])[1](usual, 7)


def test_names_that_change_places_are_told_apart():
    found = judge(
        {"input": "the question", "instruction": "A", "output": "more"},
        columns={"prompt": "input", "query": "output", "response": "instruction"},
    )
    assert found.messages == (Turn("user", "the question\nmore"), Turn("assistant", "A"))


def test_without_columns_the_usual_names_are_read_and_a_misspelt_one_is_told():
    assert judge({"instruction": "Q", "output": "A"}).messages[1] == Turn("assistant", "A")
    assert judge({"instruction": "Q", "ouput": "A"}).code == "FIELD_MISSPELT"


@pytest.mark.parametrize(
    ("entry", "row", "key"),
    [
        ({"columns": {"prompt": "instruction", "response": "output"}}, {"input": "lost"}, "input"),
        ({"columns": {"prompt": "q", "query": "input", "response": "output"}, }, {"system": "lost", "q": "Q"}, "system"),
        ({"columns": {"query": "input", "response": "output"}}, {"input": "x"}, "instruction"),
        ({}, {"system": "lost"}, "system"),
        ({}, {"history": [["a", "b"]]}, "history"),
        ({}, {"tools": "[]"}, "tools"),
        ({}, {"images": ["a.png"]}, "images"),
    ],
)  # fmt: skip
def test_what_the_map_leaves_out_is_not_lost_in_silence(entry, row, key):
    found = judge({"instruction": "Q", "output": "A", **row}, **entry)
    assert (found.code, found.field) == ("COLUMN_NOT_MAPPED", key)
    assert f'"{key}"' in found.hint


def test_what_is_left_out_on_purpose_or_empty_is_no_fault():
    row = {"instruction": "Q", "output": "A", "input": "x", "system": ""}
    columns = {"prompt": "instruction", "query": None, "response": "output", "system": None}
    assert judge(row, columns=columns).messages[0] == Turn("user", "Q")
    assert judge({**row, "input": ""}, columns={"prompt": "instruction", "response": "output"}).system == ""


def test_a_chat_column_that_the_map_leaves_out_is_not_lost_in_silence():
    row = {"conversations": turns(("human", "q"), ("gpt", "a"), role="from", content="value"), "system": "lost"}
    assert judge(row, formatting="sharegpt").code == "COLUMN_NOT_MAPPED"
    kept = judge(row, formatting="sharegpt", columns={"messages": "conversations", "system": "system"})
    assert kept.system == "lost"


def test_a_column_that_no_row_has_is_named_with_the_likely_one():
    columns = {"prompt": "q", "query": "contxt", "response": "a"}
    row = {"q": "Q", "context": "C", "a": "A"}
    found = judge(row, columns=columns)
    assert (found.code, found.field) == ("COLUMN_NOT_FOUND", "contxt")
    assert "did you mean 'context'" in found.message
    assert judge(row, [row, {"q": "Q", "contxt": "C", "a": "A"}], columns=columns).messages[0] == Turn("user", "Q")
    _, check = mapped_check(mapping(columns=columns), [row])
    assert check({"q": "Q", "contxt": "C", "a": "A"}, 9).messages[0] == Turn("user", "Q\nC"), "a later row that has it"
    assert "it has q, a" in judge({"q": "Q", "a": "A"}, columns=columns).message


def test_sharegpt_with_own_tags():
    row = {"dialog": turns(("S", "be brief"), ("Q", "q"), ("A", "a")), "sys": "unused"}
    found = judge(row, formatting="sharegpt", columns={"messages": "dialog"}, tags=OWN_TAGS)
    assert found == Row((Turn("user", "q"), Turn("assistant", "a")), "be brief", "", 7)


@pytest.mark.parametrize(
    ("said", "code", "field", "text"),
    [
        (("Q", "q"), "LAST_TURN_NOT_ASSISTANT", "dialog", "ends with"),
        (("A", "a"), "FIRST_TURN_NOT_USER", "dialog[0]", "begins with"),
        (("q", "a"), "ROLE_UNKNOWN", "dialog[0].who", "did you mean 'Q'"),
        (("user", "q"), "ROLE_UNKNOWN", "dialog[0].who", "did you mean 'Q'"),
        (("tool", "q"), "TAG_NOT_MAPPED", "dialog[0].who", "observation_tag"),
        (("function_call", "q"), "TAG_NOT_MAPPED", "dialog[0].who", "function_tag"),
        ((3, "q"), "ROLE_UNKNOWN", "dialog[0].who", "a number"),
        (("Q", None), "CONTENT_NULL", "dialog[0].text", "dialog[0].text is null"),
        (("Q", ""), "PROMPT_EMPTY", "dialog[0].text", "dialog[0].text is empty"),
        (("Q", ["x"]), "CONTENT_NOT_TEXT", "dialog[0].text", "list of parts"),
    ],
)
def test_faults_are_told_in_the_names_of_the_file(said, code, field, text):
    found = judge({"dialog": turns(said)}, formatting="sharegpt", columns={"messages": "dialog"}, tags=OWN_TAGS)
    assert (found.code, found.field) == (code, field)
    assert text in found.message


def test_a_missing_role_or_content_is_told_in_the_names_of_the_file():
    entry = {"formatting": "sharegpt", "columns": {"messages": "dialog"}, "tags": OWN_TAGS}
    found = judge({"dialog": [{"whoo": "Q", "text": "q"}]}, **entry)
    assert (found.code, found.field, found.hint) == ("ROLE_MISSING", "dialog[0].who", "rename 'whoo' to 'who'")
    assert judge({"dialog": [{"text": "q"}]}, **entry).code == "ROLE_MISSING"
    found = judge({"dialog": [{"who": "Q"}]}, **entry)
    assert (found.code, found.field) == ("CONTENT_MISSING", "dialog[0].text")
    assert judge({"dialog": ["q"]}, **entry).field == "dialog[0]"
    assert judge({"dialog": "q"}, **entry).code == "MESSAGES_NOT_LIST"
    assert judge({}, [{"dialog": []}], **entry).code == "MESSAGES_MISSING"
    assert judge([1], **entry).code == "ROW_NOT_OBJECT"


def test_alpaca_faults_are_told_in_the_names_of_the_file():
    found = judge({"q": "Q", "a": None}, columns={"prompt": "q", "response": "a"})
    assert (found.code, found.field, found.message) == ("OUTPUT_NULL", "a", "a is null: there is nothing to learn")
    found = judge({"q": 1, "a": "A"}, columns={"prompt": "q", "response": "a"})
    assert (found.code, found.field) == ("INSTRUCTION_NOT_TEXT", "q")


def test_remarks_are_told_in_the_names_of_the_file():
    found = judge({"q": "<|im_end|>", "a": "A"}, columns={"prompt": "q", "response": "a"})
    assert isinstance(found, Remarked)
    assert [remark.field for remark in found.remarks] == ["q"]


@pytest.mark.parametrize(("key", "value"), [("tool_calls", [1]), ("function_call", {"name": "f"})])
def test_calls_that_sharegpt_does_not_read_are_not_lost(key, value):
    row = {
        "messages": [
            *turns(("user", "q"), role="role", content="content"),
            {"role": "assistant", "content": "a", key: value},
        ]
    }
    found = judge(row, formatting="sharegpt", columns={"messages": "messages"}, tags=ALL_TAGS)
    assert (found.code, found.field) == ("TOOL_CALLS_LOST", f"messages[1].{key}")


def test_a_weight_of_0_is_not_ignored():
    row = {
        "messages": [
            *turns(("user", "q"), role="role", content="content"),
            {"role": "assistant", "content": "a", "weight": 0},
        ]
    }
    assert judge(row, formatting="sharegpt", columns={"messages": "messages"}, tags=ALL_TAGS).code == "WEIGHT_IGNORED"
    row["messages"][1]["weight"] = 1
    assert isinstance(judge(row, formatting="sharegpt", columns={"messages": "messages"}, tags=ALL_TAGS), Row)


def test_openai_rows_are_those_of_a_messages_file():
    call = {"who": "A", "text": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]}
    results = turns(("T", "1"), ("T", "2"))
    row = {"dialog": [*turns(("Q", "q")), call, *results, *turns(("A", "a"))]}
    tags = {**OWN_TAGS, "observation_tag": "T", "function_tag": "F"}
    found = judge(row, formatting="openai", columns={"messages": "dialog"}, tags=tags)
    assert [turn[0] for turn in found.row.messages] == ["user", "function", "tool", "assistant"]
    assert found.row.messages[1][1] == '[{"name":"f","arguments":{"x":1}}]'
    assert found.row.system == ""
    bad = judge(
        {"dialog": [*turns(("Q", "q")), {**call, "tool_calls": 5}]},
        formatting="openai",
        columns={"messages": "dialog"},
        tags=tags,
    )
    assert bad.field == "dialog[1].tool_calls"


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"columns": {"messages": "conversations"}}, "response"),
        ({"columns": {"response": "output"}}, "neither prompt nor query"),
        ({"formatting": "sharegpt", "columns": {"system": "system"}}, "messages"),
        ({"formatting": "sharegpt", "tags": {"content_tag": "value"}}, "role_tag"),
        ({"formatting": "sharegpt", "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human"}}, "assistant_tag"),
    ],
)  # fmt: skip
def test_a_map_by_which_no_row_can_be_used_rejects_all(entry, what):
    found = judge({"instruction": "q", "output": "a"}, **entry)
    assert found.code == "NOT_MAPPED"
    assert what in found.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", " ", "q", "human", "Q", "A", "S", "<|x|>"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["dialog", "who", "text", "q", "a", "system", "tools", "tool_calls"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
ENTRIES = st.sampled_from(
    [
        {},
        {"columns": {"prompt": "q", "response": "a"}},
        {"formatting": "sharegpt", "columns": {"messages": "dialog", "tools": "tools"}, "tags": OWN_TAGS},
        {"formatting": "openai", "columns": {"messages": "dialog", "system": "system"}, "tags": OWN_TAGS},
    ]
)


@given(JSON, ENTRIES)
def test_no_row_raises(row, entry):
    assert isinstance(judge(row, **entry), Row | Remarked | Rejection)


def test_rows_whose_every_key_differs_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("loopai_trainer.rules.rows.mapping._MAX_SHAPES", 3)
    _, check = mapped_check(mapping(), [])
    for number in range(10):
        assert isinstance(check({"instruction": "q", "output": "a", f"k{number}": 1}, number), Row)
        assert isinstance(check({"instruction": "q", "output": "b"}, number), Row)
    assert len(check._suspects) == 3


@pytest.mark.parametrize("formatting", ["sharegpt", "openai"])
def test_thoughts_beside_a_mapped_text_are_warned_of(formatting):
    row = {"chat": [*turns(("Q", "q")), *turns(("A", "a"), reasoning_content="let me see")]}
    found = judge(row, formatting=formatting, columns={"messages": "chat"}, tags=OWN_TAGS)
    assert isinstance(found, Remarked)
    assert [(remark.code, remark.field) for remark in found.remarks] == [
        ("REASONING_IGNORED", "chat[1].reasoning_content")
    ]
