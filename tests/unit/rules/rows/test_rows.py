"""The verdict on each kind of row: what LLaMA-Factory 0.9.5 drops, spoils or stops at is told apart."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Rejection, Remarked, Row, Turn
from loopai_trainer.rules.rows import alpaca, chat, row_check_for

ALPACA = {"instruction": "q", "input": "", "output": "a"}
SHAREGPT = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}
MESSAGES = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
TOOLS = [{"name": "get", "description": "", "parameters": {"type": "object", "properties": {}}}]


def judge(row, like):
    _, check = row_check_for([like])
    return check(row, 7)


def shares(*turns, **more):
    return {"conversations": [{"from": role, "value": value} for role, value in turns], **more}


def messages(*turns, **more):
    return {
        "messages": [
            turn if isinstance(turn, dict) else dict(zip(("role", "content"), turn, strict=False)) for turn in turns
        ],
        **more,
    }


def codes(verdict):
    return [remark.code for remark in verdict.remarks] if isinstance(verdict, Remarked) else []


def row_of(verdict):
    assert isinstance(verdict, (Row, Remarked)), verdict
    return verdict.row if isinstance(verdict, Remarked) else verdict


@pytest.mark.parametrize(
    ("row", "turns", "system", "tools"),
    [
        (ALPACA, [("user", "q"), ("assistant", "a")], "", ""),
        ({"instruction": "q", "input": "i", "output": "a"}, [("user", "q\ni"), ("assistant", "a")], "", ""),
        ({"instruction": "", "input": "i", "output": "a"}, [("user", "i"), ("assistant", "a")], "", ""),
        ({"instruction": None, "input": "i", "output": "a"}, [("user", "i"), ("assistant", "a")], "", ""),
        ({"instruction": "q", "output": "a"}, [("user", "q"), ("assistant", "a")], "", ""),
        ({**ALPACA, "system": "s"}, [("user", "q"), ("assistant", "a")], "s", ""),
        ({**ALPACA, "system": None, "history": None, "tools": None}, [("user", "q"), ("assistant", "a")], "", ""),
        (
            {**ALPACA, "history": [["q0", "a0"]]},
            [("user", "q0"), ("assistant", "a0"), ("user", "q"), ("assistant", "a")],
            "",
            "",
        ),
        ({**ALPACA, "tools": json.dumps(TOOLS)}, [("user", "q"), ("assistant", "a")], "", json.dumps(TOOLS)),
        ({**ALPACA, "tools": TOOLS}, [("user", "q"), ("assistant", "a")], "", json.dumps(TOOLS)),
        ({**ALPACA, "extra": 1, "images": []}, [("user", "q"), ("assistant", "a")], "", ""),
    ],
)
def test_alpaca_rows_that_are_used(row, turns, system, tools):
    assert judge(row, ALPACA) == Row(tuple(Turn(*turn) for turn in turns), system, tools, 7)


@pytest.mark.parametrize(
    ("row", "code", "field"),
    [
        ({"instruction": "q", "input": ""}, "OUTPUT_MISSING", "output"),
        ({**ALPACA, "output": None}, "OUTPUT_NULL", "output"),
        *[({**ALPACA, "output": value}, "OUTPUT_NOT_TEXT", "output") for value in (42, 4.5, True, ["a"], {"a": 1})],
        ({**ALPACA, "output": ""}, "OUTPUT_EMPTY", "output"),
        ({**ALPACA, "output": " \n\t\u3000"}, "OUTPUT_EMPTY", "output"),
        ({"input": "", "output": "a"}, "PROMPT_EMPTY", "instruction"),
        ({"instruction": None, "output": "a"}, "PROMPT_EMPTY", "instruction"),
        ({"instruction": " ", "input": "", "output": "a"}, "PROMPT_EMPTY", "instruction"),
        ({**ALPACA, "instruction": 3}, "INSTRUCTION_NOT_TEXT", "instruction"),
        ({**ALPACA, "input": ["x"]}, "INPUT_NOT_TEXT", "input"),
        ({"Instruction": "q", "input": "", "output": "a"}, "FIELD_MISSPELT", "Instruction"),
        ({"instruction": "q", "ouput": "a"}, "FIELD_MISSPELT", "ouput"),
        ({"instruction": "q", "inptu": "i", "output": "a"}, "FIELD_MISSPELT", "inptu"),
        ({**ALPACA, "system": 5}, "SYSTEM_NOT_TEXT", "system"),
        ({**ALPACA, "history": "said"}, "HISTORY_INVALID", "history"),
        ({**ALPACA, "history": [["q0"]]}, "HISTORY_INVALID", "history[0]"),
        ({**ALPACA, "history": [["q0", None]]}, "HISTORY_INVALID", "history[0]"),
        ({**ALPACA, "history": [["q0", "a0"], ["", "a1"]]}, "PROMPT_EMPTY", "history[1][0]"),
        ({**ALPACA, "history": [["q0", " "]]}, "OUTPUT_EMPTY", "history[0][1]"),
        ({**ALPACA, "tools": " "}, "TOOLS_INVALID", "tools"),
        ({**ALPACA, "images": ["a.png"]}, "MEDIA_UNSUPPORTED", "images"),
        ({}, "OUTPUT_MISSING", "output"),
        *[(value, "ROW_NOT_OBJECT", None) for value in (None, [1], "text", 3)],
        (SHAREGPT, "FORMAT_MIXED", None),
        (MESSAGES, "FORMAT_MIXED", None),
    ],
)
def test_alpaca_rows_that_are_rejected(row, code, field):
    verdict = judge(row, ALPACA)
    assert isinstance(verdict, Rejection)
    assert (verdict.code, verdict.field) == (code, field)
    assert verdict.message
    assert verdict.hint


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({**ALPACA, "output": "a<|im_end|>"}, "SPECIAL_TOKEN"),
        ({**ALPACA, "instruction": "q</s>"}, "SPECIAL_TOKEN"),
        ({**ALPACA, "system": "<｜User｜>"}, "SPECIAL_TOKEN"),
        ({**ALPACA, "history": [["<|eot_id|>", "a"]]}, "SPECIAL_TOKEN"),
        ({**ALPACA, "instruction": "what is in <image>?"}, "MEDIA_PLACEHOLDER"),
        ({**ALPACA, "sytem": "s"}, "FIELD_IGNORED"),
        ({**ALPACA, "histroy": []}, "FIELD_IGNORED"),
        ({**ALPACA, "system_prompt": "s"}, "FIELD_IGNORED"),
    ],
)
def test_alpaca_rows_with_a_warning(row, code):
    assert codes(judge(row, ALPACA)) == [code]


def test_less_than_signs_and_other_words_are_no_reason_to_warn():
    assert isinstance(judge({**ALPACA, "output": "1 < 2, <b>bold</b>, <think>x</think>", "story": "s"}, ALPACA), Row)


CALL = '{"name": "get", "arguments": {"x": 1}}'


@pytest.mark.parametrize(
    ("row", "turns", "system", "tools"),
    [
        (SHAREGPT, [("user", "q"), ("assistant", "a")], "", ""),
        (shares(("system", "s"), ("human", "q"), ("gpt", "a")), [("user", "q"), ("assistant", "a")], "s", ""),
        (shares(("human", "q"), ("gpt", "a"), system="s"), [("user", "q"), ("assistant", "a")], "s", ""),
        (
            shares(("human", "q"), ("function_call", CALL), ("observation", ""), ("gpt", "a"), tools=json.dumps(TOOLS)),
            [("user", "q"), ("function", CALL), ("tool", ""), ("assistant", "a")],
            "",
            json.dumps(TOOLS),
        ),
        (shares(("user", "q"), ("assistant", "a")), [("user", "q"), ("assistant", "a")], "", ""),
        (shares(("human", "q"), ("gpt", "a"), tools=""), [("user", "q"), ("assistant", "a")], "", ""),
        (
            shares(("human", "q"), ("gpt", "<think>t</think>b")),
            [("user", "q"), ("assistant", "<think>t</think>b")],
            "",
            "",
        ),
        (
            shares(("human", "q"), ("function_call", "<think>t</think>\n" + CALL)),
            [("user", "q"), ("function", "<think>t</think>\n" + CALL)],
            "",
            "",
        ),
    ],
)
def test_sharegpt_rows_that_are_used(row, turns, system, tools):
    assert judge(row, SHAREGPT) == Row(tuple(Turn(*turn) for turn in turns), system, tools, 7)


@pytest.mark.parametrize(
    ("row", "code", "field"),
    [
        (shares(("human", "q"), ("gpt", "a"), ("human", "q")), "LAST_TURN_NOT_ASSISTANT", "conversations"),
        (shares(("human", "q"), ("gptt", "a")), "ROLE_UNKNOWN", "conversations[1].from"),
        (shares(("gpt", "a"), ("human", "q"), ("gpt", "a")), "FIRST_TURN_NOT_USER", "conversations[0]"),
        (shares(("human", "q"), ("human", "q"), ("gpt", "a")), "ROLES_NOT_ALTERNATING", "conversations[1]"),
        (shares(("human", "q"), ("gpt", "a"), ("gpt", "a")), "ROLES_NOT_ALTERNATING", "conversations[2]"),
        (shares(("human", "q"), ("system", "s"), ("gpt", "a")), "SYSTEM_NOT_FIRST", "conversations[1]"),
        (shares(("system", "s"), ("system", "s"), ("gpt", "a")), "SYSTEM_NOT_FIRST", "conversations[1]"),
        (shares(("system", "s")), "MESSAGES_EMPTY", "conversations"),
        ({"conversations": []}, "MESSAGES_EMPTY", "conversations"),
        ({"conversations": None}, "MESSAGES_MISSING", "conversations"),
        ({"other": 1}, "MESSAGES_MISSING", "conversations"),
        ({"conversation": SHAREGPT["conversations"]}, "FIELD_MISSPELT", "conversation"),
        ({"conversations": json.dumps(SHAREGPT["conversations"])}, "MESSAGES_NOT_LIST", "conversations"),
        ({"conversations": {"from": "human"}}, "MESSAGES_NOT_LIST", "conversations"),
        ({"conversations": ["q", "a"]}, "MESSAGE_NOT_OBJECT", "conversations[0]"),
        ({"conversations": [{"value": "q"}, {"from": "gpt", "value": "a"}]}, "ROLE_MISSING", "conversations[0].from"),
        ({"conversations": [{"role": "user", "content": "q"}]}, "ROLE_MISSING", "conversations[0].from"),
        (shares((["human"], "q"), ("gpt", "a")), "ROLE_UNKNOWN", "conversations[0].from"),
        (
            {"conversations": [{"from": "human"}, {"from": "gpt", "value": "a"}]},
            "CONTENT_MISSING",
            "conversations[0].value",
        ),
        (shares(("human", None), ("gpt", "a")), "CONTENT_NULL", "conversations[0].value"),
        (shares(("human", 3), ("gpt", "a")), "CONTENT_NOT_TEXT", "conversations[0].value"),
        (shares(("human", "q"), ("gpt", "")), "OUTPUT_EMPTY", "conversations[1].value"),
        (shares(("human", " "), ("gpt", "a")), "PROMPT_EMPTY", "conversations[0].value"),
        (shares(("human", "q"), ("function_call", "get(x)")), "TOOL_CALL_INVALID", "conversations[1].value"),
        (shares(("human", "q"), ("function_call", '{"name": "get"}')), "TOOL_CALL_INVALID", "conversations[1].value"),
        (shares(("human", "q"), ("function_call", "[]")), "TOOL_CALL_INVALID", "conversations[1].value"),
        (shares(("human", "q"), ("gpt", "a"), tools=" "), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools="[{'name': 'get'}]"), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools='{"name": "get"}'), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools="[1]"), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools="[{}]"), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools={"a": 1}), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), tools=[{"name": "x", "p": math.nan}]), "TOOLS_INVALID", "tools"),
        (shares(("human", "q"), ("gpt", "a"), system=5), "SYSTEM_NOT_TEXT", "system"),
        (shares(("human", "q"), ("gpt", "a"), videos=["a.mp4"]), "MEDIA_UNSUPPORTED", "videos"),
        (ALPACA, "FORMAT_MIXED", None),
        (None, "ROW_NOT_OBJECT", None),
    ],
)
def test_sharegpt_rows_that_are_rejected(row, code, field):
    verdict = judge(row, SHAREGPT)
    assert isinstance(verdict, Rejection), verdict
    assert (verdict.code, verdict.field) == (code, field)
    assert verdict.hint


def test_a_misspelt_role_is_answered_with_the_one_that_was_meant():
    assert "did you mean 'gpt'" in judge(shares(("human", "q"), ("gptt", "a")), SHAREGPT).message
    assert "did you mean 'user'" in judge(messages(("User", "q"), ("assistant", "a")), MESSAGES).message
    assert "write 'system'" in judge(messages(("developer", "s"), ("user", "q"), ("assistant", "a")), MESSAGES).hint


def test_sharegpt_rows_with_a_warning():
    assert codes(judge(shares(("human", "q<|im_start|>"), ("gpt", "a")), SHAREGPT)) == ["SPECIAL_TOKEN"]
    assert codes(judge(shares(("system", "s"), ("human", "q"), ("gpt", "a"), system="t"), SHAREGPT)) == ["SYSTEM_TWICE"]
    assert codes(judge(shares(("observation", "r"), ("gpt", "a")), SHAREGPT)) == ["RESULT_WITHOUT_CALL"]
    assert codes(judge(shares(("human", "q"), ("gpt", "a"), sytem="s"), SHAREGPT)) == ["FIELD_IGNORED"]
    twice = '{"name": "get", "arguments": "{}"}'
    assert codes(judge(shares(("human", "q"), ("function_call", twice)), SHAREGPT)) == ["ARGUMENTS_AS_TEXT"]


def call(arguments, name="get"):
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def called(arguments):
    return judge(messages(("user", "q"), call(arguments), ("tool", "r"), ("assistant", "a")), MESSAGES)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"tank": "T2"}, '[{"name":"get","arguments":{"tank":"T2"}}]'),
        ('{"x": 1}', '[{"name":"get","arguments":{"x":1}}]'),
        ("", '[{"name":"get","arguments":{}}]'),
        (None, '[{"name":"get","arguments":{}}]'),
        (
            '{"id": 123456789012345678901234567890}',
            '[{"name":"get","arguments":{"id":123456789012345678901234567890}}]',
        ),
        ({"z": "水"}, '[{"name":"get","arguments":{"z":"水"}}]'),
    ],
)
def test_tool_calls_become_function_turns_that_are_encoded_once(arguments, text):
    verdict = called(arguments)
    assert row_of(verdict).messages == (("user", "q"), ("function", text), ("tool", "r"), ("assistant", "a"))
    assert codes(verdict) == ["CALLS_CONVERTED"]
    assert all(remark.note for remark in verdict.remarks)


@pytest.mark.parametrize(
    "arguments", ["{x: 1}", "[1]", 5, {"x": b"bytes"}, {"x": {1, 2}}, '{"x": NaN}', '{"x": "\\ud800"}']
)
def test_arguments_that_are_no_object_are_rejected(arguments):
    assert called(arguments).code == "TOOL_CALL_INVALID"


def test_a_number_too_long_for_any_parser_is_rejected():
    assert called('{"x": ' + "9" * 5000 + "}").code == "TOOL_CALL_INVALID"


def test_arguments_that_arrow_padded_or_rounded_are_warned_of():
    assert codes(called({"tank": "T2", "valve": None})) == ["ARGUMENT_NULL", "CALLS_CONVERTED"]
    assert codes(called({"id": 1.2345678901234568e29})) == ["NUMBER_INEXACT", "CALLS_CONVERTED"]


def test_the_older_function_call_and_parallel_calls():
    older = {"role": "assistant", "content": "", "function_call": {"name": "get", "arguments": "{}"}}
    verdict = judge(messages(("user", "q"), older), MESSAGES)
    assert row_of(verdict).messages[-1] == ("function", '[{"name":"get","arguments":{}}]')
    two = call({})
    two["tool_calls"] += call({"b": 2}, "put")["tool_calls"]
    verdict = judge(messages(("user", "q"), two, ("tool", "r1"), ("tool", "r2"), ("assistant", "a")), MESSAGES)
    row = row_of(verdict)
    assert row.messages[1].content == '[{"name":"get","arguments":{}},{"name":"put","arguments":{"b":2}}]'
    assert row.messages[2] == ("tool", "r1\n</tool_response>\n<tool_response>\nr2")
    assert codes(verdict) == ["CALLS_CONVERTED", "RESULTS_MERGED"]


def test_keys_that_arrow_adds_with_null_change_nothing():
    padded = [
        {"role": r, "content": c, "name": None, "tool_calls": None, "weight": None}
        for r, c in (("user", "q"), ("assistant", "a"))
    ]
    assert judge({"messages": padded, "system": None, "tools": None}, MESSAGES) == judge(MESSAGES, MESSAGES)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (messages(("user", "q"), ("assistant", None)), "CONTENT_NULL"),
        (messages(("user", [{"type": "text", "text": "q"}]), ("assistant", "a")), "CONTENT_NOT_TEXT"),
        (messages(("user", "q"), {"role": "assistant", "content": "a", "weight": 0}), "WEIGHT_IGNORED"),
        (messages(("developer", "s"), ("user", "q"), ("assistant", "a")), "ROLE_UNKNOWN"),
        (messages(("user", "q")), "LAST_TURN_NOT_ASSISTANT"),
        (messages(("user", "q"), ("user", "q"), ("assistant", "a")), "ROLES_NOT_ALTERNATING"),
        (messages(("user", "q"), call({}), ("function", CALL), ("assistant", "a")), "ROLES_NOT_ALTERNATING"),
        ({"messages": []}, "MESSAGES_EMPTY"),
        (messages({"role": "user", "content": "q", "tool_calls": [1]}, ("assistant", "a")), "TOOL_CALL_INVALID"),
        (messages(("user", "q"), {"role": "assistant", "content": "", "tool_calls": {"a": 1}}), "TOOL_CALL_INVALID"),
        (
            messages(("user", "q"), {"role": "assistant", "content": "", "tool_calls": [{"name": "get"}]}),
            "TOOL_CALL_INVALID",
        ),
        (messages(("user", "q"), {"role": "assistant", "content": "", "function_call": "get"}), "TOOL_CALL_INVALID"),
        (messages(("user", "q"), call({}, name="")), "TOOL_CALL_INVALID"),
        (messages(("user", "q"), {**call({}), "content": ["x"]}), "CONTENT_NOT_TEXT"),
        (messages(("user", "q"), ("assistant", ""), ("user", "q"), ("assistant", "a")), "OUTPUT_EMPTY"),
    ],
)
def test_messages_rows_that_are_rejected(row, code):
    verdict = judge(row, MESSAGES)
    assert isinstance(verdict, Rejection), verdict
    assert verdict.code == code


def test_text_beside_a_call_is_told_since_it_is_not_trained():
    verdict = judge(messages(("user", "q"), {**call({}), "content": "let me see"}), MESSAGES)
    assert "TEXT_BESIDE_CALL" in codes(verdict)
    assert "TEXT_BESIDE_CALL" not in codes(judge(messages(("user", "q"), {**call({}), "content": " "}), MESSAGES))


def test_a_legacy_result_with_the_role_function_is_explained():
    verdict = judge(messages(("user", "q"), call({}), ("function", CALL), ("assistant", "a")), MESSAGES)
    assert "role tool" in verdict.hint


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ([ALPACA], "alpaca"),
        ([{"instruction": "q", "input": "i"}], "alpaca"),
        ([SHAREGPT, ALPACA, SHAREGPT], "sharegpt"),
        ([MESSAGES], "messages"),
        ([{"conversations": MESSAGES["messages"]}], "messages"),
        ([{"messages": SHAREGPT["conversations"]}], "sharegpt"),
        ([{"conversations": None, "instruction": "q", "output": "a"}], "alpaca"),
        ([{"messages": "x"}], "messages"),
        ([None, 3, ALPACA], "alpaca"),
        ([{"question": "q", "answer": "a"}], "unknown"),
        ([], "unknown"),
        ([None], "unknown"),
    ],
)
def test_the_format_is_told_from_the_sample(sample, name):
    assert row_check_for(sample)[0] == name


def test_turns_under_the_other_format_s_key_are_read():
    _, check = row_check_for([{"conversations": MESSAGES["messages"]}])
    assert row_of(check({"conversations": MESSAGES["messages"]}, 1)).messages == (("user", "q"), ("assistant", "a"))


def test_rows_of_no_known_format_say_what_is_known():
    verdict = judge({"Instruction": "q"}, {"Instruction": "q"})
    assert verdict.code == "FORMAT_UNKNOWN"
    assert verdict.hint == "rename 'Instruction' to 'instruction'"
    assert "conversations" in judge({"question": "q"}, {"question": "q"}).hint
    assert judge(None, {"question": "q"}).code == "ROW_NOT_OBJECT"


def test_the_rest_of_what_keys_and_tools_can_hold():
    assert codes(judge(shares(("system", "<|user|>"), ("human", "q"), ("gpt", "a")), SHAREGPT)) == ["SPECIAL_TOKEN"]
    assert isinstance(judge(shares(("human", "q"), ("gpt", "a"), images=[]), SHAREGPT), Row)
    assert judge({"Instruction": "q", "Output": "a"}, ALPACA).field == "Instruction"
    assert judge({**ALPACA, "tools": [1]}, ALPACA).code == "TOOLS_INVALID"
    assert isinstance(judge(shares(("human", "q"), ("function_call", "<tool_call>x</tool_call>")), SHAREGPT), Row)
    assert (
        judge({"data": [ALPACA]}, {"data": [ALPACA]}).hint
        == "if the rows stand under 'data', make that list the whole file"
    )
    deep = '{"x": ' + "[" * 900 + "1234567890123456789" + "]" * 900 + "}"
    assert called(deep).code == "TOOL_CALL_INVALID"


def test_rows_that_all_have_other_keys_do_not_fill_the_memory():
    _, check = row_check_for([ALPACA])
    for number in range(1200):
        assert isinstance(check({**ALPACA, f"key {number}": 1}, 1), Row)
    assert len(check._shapes._seen) == 1000


NAMES = st.sampled_from(
    [
        "instruction",
        "input",
        "output",
        "system",
        "history",
        "tools",
        "conversations",
        "messages",
        "from",
        "value",
        "role",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "images",
        "weight",
        "Output",
        "x",
    ]
)
WORDS = st.sampled_from(
    ["human", "gpt", "user", "assistant", "tool", "function", "system", "", " ", "q", "<|im_end|>", "[]", "{}"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8) | st.binary(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)
TURN = st.fixed_dictionaries(
    {},
    optional={
        "from": WORDS | VALUES,
        "value": WORDS | VALUES,
        "role": WORDS | VALUES,
        "content": WORDS | VALUES,
        "tool_calls": VALUES,
    },
)
ROWS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "instruction": WORDS | VALUES,
        "input": WORDS | VALUES,
        "output": WORDS | VALUES,
        "conversations": st.lists(TURN, max_size=4) | VALUES,
        "messages": st.lists(TURN, max_size=4) | VALUES,
        "system": VALUES,
        "history": VALUES,
        "tools": VALUES,
    },
)


@given(st.lists(ROWS, max_size=4), st.sampled_from([ALPACA, SHAREGPT, MESSAGES, {}]))
def test_any_row_gets_a_verdict_and_nothing_is_raised(rows, like):
    for sample in (rows, [like]):
        _, check = row_check_for(sample)
        for row in rows:
            verdict = check(row, 1)
            if isinstance(verdict, Rejection):
                assert verdict.code.isupper()
                continue
            good = row_of(verdict)
            assert len(good.messages) >= 2
            assert len(good.messages) % 2 == 0
            for index, (role, content) in enumerate(good.messages):
                assert role in (("user", "tool"), ("assistant", "function"))[index % 2]
                assert type(content) is str
            assert type(good.system) is str
            assert type(good.tools) is str


@given(st.lists(st.tuples(st.sampled_from(["human", "gpt", "gptt", "system"]), WORDS), max_size=6))
def test_the_quick_look_at_plain_chats_gives_what_the_close_one_gives(turns):
    quick = judge(shares(*turns), SHAREGPT)
    # A key more in each turn makes the check look closely.
    closely = judge({"conversations": [{"from": r, "value": v, "n": 1} for r, v in turns]}, SHAREGPT)
    assert quick == closely


TEXT = st.sampled_from(["q", "水", "", " ", "\n", "a <b", "<|im_end|>", "x<image>", "</s>"])
ODD = TEXT | st.none() | st.integers(0, 1) | st.just([]) | st.just({})
MOSTLY = st.one_of(TEXT, TEXT, ODD)
ROLES = st.sampled_from(["human", "gpt", "user", "assistant", "system", "Human", "tool", "function_call"]) | ODD


def turns_of(role, content):
    usual = {"from": ("human", "gpt"), "role": ("user", "assistant")}[role]
    plain = st.lists(st.sampled_from(["q", "水", " x"]), min_size=2, max_size=4).map(
        lambda texts: [{role: usual[number % 2], content: text} for number, text in enumerate(texts)]
    )
    turn = st.fixed_dictionaries({role: ROLES, content: MOSTLY}, optional={"weight": st.just(0), "extra": ODD})
    mixed = st.tuples(plain, st.lists(turn | ODD, max_size=2)).map(lambda both: both[0] + both[1])
    return plain | mixed | st.lists(turn, max_size=4)


COLUMNS = dict.fromkeys(("system", "tools", "history", "extra", "images", "sytem"), ODD)


@given(
    st.one_of(
        st.tuples(
            st.just(ALPACA),
            st.fixed_dictionaries({"output": MOSTLY}, optional={"instruction": MOSTLY, "input": MOSTLY, **COLUMNS}),
        ),
        st.tuples(
            st.just(SHAREGPT),
            st.fixed_dictionaries({"conversations": turns_of("from", "value")}, optional=COLUMNS),
        ),
        st.tuples(
            st.just(MESSAGES),
            st.fixed_dictionaries({"messages": turns_of("role", "content")}, optional=COLUMNS),
        ),
    )
)
def test_the_quick_look_at_a_good_row_gives_the_verdict_of_the_close_one(case):
    like, row = case
    quick = judge(row, like)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alpaca, "_plain_row", lambda row, line: None)
        patch.setattr(chat, "_plain_turns", lambda source, names: None)
        assert judge(row, like) == quick


def test_the_quick_look_is_enough_for_good_rows(monkeypatch):
    monkeypatch.setattr(alpaca, "Shapes", None)
    monkeypatch.setattr(chat.ChatCheck, "_read", None)
    assert alpaca._plain_row(ALPACA, 1) == Row((("user", "q"), ("assistant", "a")), "", "", 1)
    assert isinstance(judge(SHAREGPT, SHAREGPT), Row)
    assert isinstance(judge(MESSAGES, MESSAGES), Row)


UNSEEN = ["\u200b", "\ufeff\u200b", " \u200d\n", "\u2060\u00a0", "\u00ad", "\u3164", "\u2800 ", "\ufe0f", "\U000e0020"]


@pytest.mark.parametrize("unseen", UNSEEN)
@pytest.mark.parametrize(
    ("make", "like", "code"),
    [
        (lambda text: {**ALPACA, "output": text}, ALPACA, "OUTPUT_EMPTY"),
        (lambda text: {**ALPACA, "instruction": text}, ALPACA, "PROMPT_EMPTY"),
        (lambda text: {**ALPACA, "history": [[text, "a"]]}, ALPACA, "PROMPT_EMPTY"),
        (lambda text: {**ALPACA, "history": [["q", text]]}, ALPACA, "OUTPUT_EMPTY"),
        (lambda text: shares(("human", "q"), ("gpt", text)), SHAREGPT, "OUTPUT_EMPTY"),
        (lambda text: shares(("human", text), ("gpt", "a")), SHAREGPT, "PROMPT_EMPTY"),
        (lambda text: messages(("user", "q"), ("assistant", text)), MESSAGES, "OUTPUT_EMPTY"),
        (lambda text: messages(("user", "q", 1), ("assistant", text)), MESSAGES, "OUTPUT_EMPTY"),
    ],
)
def test_a_text_that_shows_nothing_is_blank(make, like, code, unseen):
    found = judge(make(unseen), like)
    assert isinstance(found, Rejection), found
    assert found.code == code
    assert isinstance(judge(make(unseen + "x" + unseen), like), Row)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize(("like", "names"), [(MESSAGES, ("role", "content")), (SHAREGPT, ("from", "value"))])
def test_thoughts_beside_the_answer_are_warned_of(key, like, names):
    (turns,) = like.values()
    row = {next(iter(like)): [turns[0], {**turns[1], key: "let me see"}]}
    found = judge(row, like)
    assert codes(found) == ["REASONING_IGNORED"]
    assert found.remarks[0].field == f"{next(iter(like))}[1].{key}"
    assert row_of(found).messages == (("user", "q"), ("assistant", "a"))
    for nothing in ("", None):
        assert isinstance(judge({next(iter(like)): [turns[0], {**turns[1], key: nothing}]}, like), Row)


@pytest.mark.parametrize(
    ("like", "turn", "code"),
    [
        (SHAREGPT, {"from": "gpt", "value": "a", "role": "user"}, "ROLE_TWICE"),
        (MESSAGES, {"role": "assistant", "content": "a", "from": "human"}, "ROLE_TWICE"),
        (MESSAGES, {"role": "assistant", "content": "a", "from": "Alice", "value": 0.5}, None),
        (SHAREGPT, {"from": "gpt", "value": "a", "content": "b"}, "CONTENT_TWICE"),
        (MESSAGES, {"role": "assistant", "content": "a", "value": "b"}, "CONTENT_TWICE"),
        (SHAREGPT, {"from": "gpt", "value": "a", "weight": 0}, "WEIGHT_IGNORED"),
        (SHAREGPT, {"from": "gpt", "value": "a", "tool_calls": [{"function": {"name": "f"}}]}, "TOOL_CALLS_LOST"),
        (SHAREGPT, {"from": "gpt", "value": "a", "role": "assistant", "content": "a"}, None),
        (MESSAGES, {"role": "assistant", "content": "a", "from": "gpt", "value": "a"}, None),
        (MESSAGES, {"role": "assistant", "content": "a", "from": "", "value": None, "weight": 1}, None),
    ],
)
def test_a_turn_that_says_two_things_is_refused(like, turn, code):
    ((name, turns),) = like.items()
    found = judge({name: [turns[0], turn]}, like)
    assert (found.code if isinstance(found, Rejection) else None) == code
    if code is None:
        assert row_of(found).messages[1] == ("assistant", "a")


@pytest.mark.parametrize(
    ("like", "more", "code"),
    [
        (ALPACA, MESSAGES, "ANSWER_TWICE"),
        (ALPACA, SHAREGPT, "ANSWER_TWICE"),
        (ALPACA, {"response": "b"}, "ANSWER_TWICE"),
        (ALPACA, {"response": "a"}, None),
        (ALPACA, {"response": "", "messages": [], "conversations": None}, None),
        (MESSAGES, SHAREGPT, "ANSWER_TWICE"),
        (MESSAGES, {"output": "b"}, "ANSWER_TWICE"),
        (MESSAGES, {"output": "a", "response": "a"}, None),
        (SHAREGPT, {"response": "b"}, "ANSWER_TWICE"),
        (SHAREGPT, {"messages": SHAREGPT["conversations"]}, None),
    ],
)
def test_a_row_with_two_answers_is_refused(like, more, code):
    found = judge({**like, **more}, like)
    assert (found.code if isinstance(found, Rejection) else None) == code
    if code is None:
        assert isinstance(found, Row)
    else:
        assert found.field == next(iter(more))


@pytest.mark.parametrize("like", [ALPACA, MESSAGES, SHAREGPT])
def test_preference_pairs_beside_a_row_are_warned_of(like):
    found = judge({**like, "chosen": "good", "rejected": "bad"}, like)
    assert codes(found) == ["PREFERENCE_IGNORED"]
    assert "chosen and rejected" in found.remarks[0].message
    assert codes(judge({**like, "chosen": "", "rejected": "bad"}, like)) == ["PREFERENCE_IGNORED"]
    assert isinstance(judge({**like, "chosen": None, "rejected": ""}, like), Row)
