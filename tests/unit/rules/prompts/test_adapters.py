"""Adapters: which record becomes which prompt, and what is not guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts import records, references
from loopai_trainer.rules.prompts.adapters import (
    CONTEXT_IN,
    DEFAULT_DATA_SOURCE,
    REPLY_OUT,
    UNNAMED,
    Adapter,
    told_by_keys,
)
from loopai_trainer.rules.prompts.prompt_row import PromptRow

USER = {"role": "user", "content": "What is 9 times 8?"}
NATIVE = {"prompt": [USER], "data_source": "d", "reward_model": {"style": "rule", "ground_truth": "72"}}


def read(record, adapter="auto", data_source="d", text_only=True):
    return Adapter(adapter, data_source, text_only)(record)


def reply(text):
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("record", "adapter", "messages", "truth"),
    [
        (NATIVE, "native", (("user", USER["content"]),), "72"),
        ({"messages": [USER, reply("9 x 8\n#### 72")]}, "messages", (("user", USER["content"]),), "72"),
        ({"messages": [USER], "answer": "72"}, "messages", (("user", USER["content"]),), "72"),
        ({"messages": [USER, reply("I think so")], "ground_truth": "72"}, "messages", (("user", USER["content"]),), "72"),
        (
            {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": r"\boxed{b}"}]},
            "messages",
            (("user", "a?"),),
            "b",
        ),
        ({"prompt": [USER], "answer": "72"}, "messages", (("user", USER["content"]),), "72"),
        ({"messages": [USER], "system": "Be brief.", "answer": "7"}, "messages", (("system", "Be brief."), ("user", USER["content"])), "7"),
        ({"instruction": "Add.", "input": "1 2", "output": "#### 3"}, "alpaca", (("user", "Add.\n1 2"),), "3"),
        ({"instruction": "Add.", "input": "", "output": "x", "answer": "3"}, "alpaca", (("user", "Add."),), "3"),
        ({"question": "q?", "answer": "so\n#### 72"}, "qa", (("user", "q?"),), "72"),
        ({"problem": "q?", "solution": r"so \boxed{72}"}, "qa", (("user", "q?"),), "72"),
        ({"question": "q?", "answer": "Paris"}, "qa", (("user", "q?"),), "Paris"),
        ({"question": "q?", "answer": ["Paris"]}, "qa", (("user", "q?"),), "Paris"),
        ({"question": "q?", "golden_answers": ["Paris", "paris"]}, "qa", (("user", "q?"),), ["Paris", "paris"]),
        ({"question": "q?", "context": "c", "answer": "a"}, "qa", (("user", "c\n\nq?"),), "a"),
        ({"question": "q? A) x B) y", "choices": ["x", "y"], "answer": "A"}, "qa", (("user", "q? A) x B) y"),), "A"),
        ({"question": "q?", "system_prompt": "s", "answer": "a"}, "qa", (("system", "s"), ("user", "q?")), "a"),
        ({"prompt": "q?", "answer": "a"}, "qa", (("user", "q?"),), "a"),
    ],
)  # fmt: skip
def test_a_record_becomes_a_prompt_with_its_answer(record, adapter, messages, truth):
    row = read(record)
    assert isinstance(row, PromptRow), row
    assert (row.adapter, row.messages, row.ground_truth) == (adapter, messages, truth)
    assert told_by_keys(record) == adapter


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ("text", "ROW_NOT_OBJECT"),
        ({"text": "x"}, "FORMAT_UNKNOWN"),
        ({**NATIVE, "prompt": "q?"}, "PROMPT_TYPE"),
        ({**NATIVE, "prompt": None}, "PROMPT_MISSING"),
        ({**NATIVE, "prompt": []}, "PROMPT_MISSING"),
        ({**NATIVE, "prompt": [{"role": "user", "content": None}]}, "CONTENT_TYPE"),
        ({**NATIVE, "prompt": [{"role": "user", "content": [{"type": "text"}]}]}, "CONTENT_TYPE"),
        ({**NATIVE, "prompt": [{"content": "x"}]}, "ROLE_INVALID"),
        ({**NATIVE, "prompt": [{"role": "bot", "content": "x"}]}, "ROLE_INVALID"),
        ({**NATIVE, "prompt": [{"role": "user", "content": " \n"}]}, "PROMPT_EMPTY"),
        ({**NATIVE, "prompt": [{"role": "system", "content": "x"}]}, "PROMPT_MISSING"),
        ({**NATIVE, "prompt": [USER, {"role": "system", "content": "x"}]}, "PROMPT_ORDER"),
        ({**NATIVE, "prompt": [USER, reply("72")]}, "ANSWER_IN_PROMPT"),
        ({**NATIVE, "prompt": ["x"]}, "PROMPT_TYPE"),
        ({**NATIVE, "prompt": 7}, "PROMPT_TYPE"),
        ({**NATIVE, "reward_model": None}, "GROUND_TRUTH_MISSING"),
        ({**NATIVE, "reward_model": {"style": "rule"}}, "GROUND_TRUTH_MISSING"),
        ({**NATIVE, "reward_model": {"ground_truth": "None"}}, "GROUND_TRUTH_MISSING"),
        ({**NATIVE, "reward_model": {"ground_truth": " "}}, "GROUND_TRUTH_MISSING"),
        ({**NATIVE, "reward_model": {"ground_truth": 72}}, "GROUND_TRUTH_TYPE"),
        ({**NATIVE, "extra_info": "x"}, "EXTRA_INFO_TYPE"),
        ({**NATIVE, "data_source": 7}, "DATA_SOURCE_TYPE"),
        ({"messages": [USER, reply("it is 72")]}, "ANSWER_MISSING"),
        ({"messages": [USER, reply(r"\boxed{1}" "\n#### 2")]}, "ANSWER_AMBIGUOUS"),
        ({"messages": [USER, reply("#### 71")], "answer": "72"}, "ANSWER_AMBIGUOUS"),
        ({"messages": [reply("#### 71")]}, "PROMPT_MISSING"),
        ({"messages": [USER, reply("a"), reply("#### 7")]}, "ANSWER_IN_PROMPT"),
        ({"instruction": "Add.", "output": "3"}, "ANSWER_MISSING"),
        ({"instruction": "Add.", "output": "#### null"}, "GROUND_TRUTH_MISSING"),
        ({"instruction": " ", "input": "", "output": "#### 3"}, "PROMPT_MISSING"),
        ({"instruction": 3, "output": "#### 3"}, "CONTENT_TYPE"),
        ({"instruction": "a", "history": [["b", "c"]], "output": "#### 3"}, "FORMAT_UNKNOWN"),
        ({"question": "q?", "answer": None}, "ANSWER_MISSING"),
        ({"question": "q?", "answer": "null"}, "GROUND_TRUTH_MISSING"),
        ({"question": "q?", "answer": ["a", None]}, "GROUND_TRUTH_MISSING"),
        ({"question": "q?", "answer": True}, "GROUND_TRUTH_TYPE"),
        ({"question": "q?", "answer": 1e300}, "GROUND_TRUTH_TYPE"),
        ({"question": "q?", "answer": "first\nsecond"}, "ANSWER_MISSING"),
        ({"question": "q?", "answer": r"\boxed{1"}, "ANSWER_AMBIGUOUS"),
        ({"question": ["q?"], "answer": "a"}, "PROMPT_TYPE"),
        ({"question": None, "answer": "a"}, "PROMPT_MISSING"),
        ({"instruction": None, "output": "#### 5"}, "PROMPT_MISSING"),
        ({"question": "q?", "choices": {"text": ["x", "y"]}, "answer": "A"}, "PROMPT_INCOMPLETE"),
        ({"question": "q?", "images": ["a.png"], "answer": "A"}, "MEDIA_NOT_CONVERTED"),
        ({"question": "q? #### 5", "answer": "5"}, "ANSWER_IN_PROMPT"),
    ],
)  # fmt: skip
def test_a_record_without_a_reliable_prompt_or_answer_is_rejected(record, code):
    verdict = read(record)
    assert isinstance(verdict, Rejection), verdict
    assert verdict.code == code
    assert verdict.message and verdict.hint


def test_the_answer_never_comes_from_a_reply_without_marker():
    assert read({"messages": [USER, reply("72")]}).code == "ANSWER_MISSING"
    row = read({"messages": [USER, reply("72")], "answer": "seventy-two"})
    assert row.ground_truth == "seventy-two"
    assert row.messages == (("user", USER["content"]),)
    assert REPLY_OUT in row.notes


@pytest.mark.parametrize(
    ("value", "truth", "note"),
    [
        (72, "72", references.NUMBER_AS_TEXT),
        (72.0, "72", references.NUMBER_AS_TEXT),
        (0.5, "0.5", references.NUMBER_AS_TEXT),
        ("1,234", "1234", references.COMMAS_OUT),
        ("１２", "12", references.COMMAS_OUT),
        ("−7", "-7", references.COMMAS_OUT),
    ],
)
def test_numbers_are_written_out_with_a_notice(value, truth, note):
    row = read({"question": "q?", "answer": value})
    assert row.ground_truth == truth
    assert note in row.notes


def test_native_ground_truth_is_not_touched():
    record = {**NATIVE, "reward_model": {"style": "rule", "ground_truth": r"\boxed{1,234}"}}
    assert read(record).ground_truth == r"\boxed{1,234}"
    assert read({**NATIVE, "reward_model": {"ground_truth": 72}}, text_only=False).ground_truth == 72


def test_an_explicit_adapter_reads_what_auto_would_read_otherwise():
    assert read({**NATIVE, "reward_model": {"ground_truth": 72}}, "messages").ground_truth == "72"
    assert read({**NATIVE, "prompt": "q?"}, "qa").messages == (("user", "q?"),)
    assert read(NATIVE, "qa").messages == (("user", USER["content"]),)
    assert read(NATIVE, "alpaca").code == "PROMPT_MISSING"


def test_what_names_no_data_source():
    named = read({"question": "q?", "answer": "a", "data_source": "own"})
    assert named.data_source == "own"
    assert read({"question": "q?", "answer": "a"}).data_source == "d"
    unnamed = read({"question": "q?", "answer": "a"}, data_source="")
    assert unnamed.data_source == DEFAULT_DATA_SOURCE
    assert UNNAMED in unnamed.notes
    without = {key: value for key, value in NATIVE.items() if key != "data_source"}
    assert read(without, data_source="").code == "DATA_SOURCE_MISSING"
    assert read(without, data_source="d").data_source == "d"


def test_what_the_source_has_besides_is_kept():
    row = read({**NATIVE, "ability": "math", "extra_info": {"index": 7, "tests": [[1]]}})
    assert (row.ability, row.style, row.extra) == ("math", "rule", {"index": 7, "tests": [[1]]})


def test_a_context_is_put_ahead_once():
    row = read({"question": "c. q?", "context": "c.", "answer": "a"})
    assert row.messages == (("user", "c. q?"),)
    assert CONTEXT_IN not in row.notes


_texts = st.sampled_from(["", " ", "q?", "#### 72", r"\boxed{7}", "null", "a\nb", "最终答案：7", "<answer>x</answer>"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _texts | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "from", "value", "ground_truth", "style", "text", "index"]), inner, max_size=3
    ),
    max_leaves=8,
)  # fmt: skip
_keys = st.sampled_from(
    [
        *[
            "prompt",
            "data_source",
            "reward_model",
            "extra_info",
            "messages",
            "conversations",
            "instruction",
            "input",
            "output",
            "question",
        ],
        *["problem", "answer", "ground_truth", "solution", "choices", "context", "system", "images"],
    ]
)


@given(st.dictionaries(_keys, _values, max_size=6), st.sampled_from(["auto", "native", "messages", "alpaca", "qa"]))
def test_no_record_makes_an_adapter_fail(record, adapter):
    verdict = read(record, adapter)
    assert isinstance(verdict, Rejection | PromptRow)
    if isinstance(verdict, PromptRow):
        assert verdict.messages and verdict.messages[-1][0] in ("user", "tool")
        assert verdict.messages[-1][1].strip()
        assert verdict.data_source
        assert verdict.ground_truth not in (None, "", [], {})


def test_names_that_a_record_gives_its_data_set():
    record = {"dataset": " GSM8K ", "task": 7, "source": "x" * 65, "metadata": {"benchmark": "MATH"}}
    assert records.metadata_of(record) == ["gsm8k", "math"]
    assert records.metadata_of({"metadata": "text"}) == []


def test_a_field_and_a_marked_solution_that_agree_are_one_answer():
    row = read({"question": "q?", "answer": "72", "solution": "so it is\n#### 72"})
    assert (row.ground_truth, row.marker) == ("72", "")
    pasted = "first this and then that and then the other thing"
    record = {"question": f"q? {pasted}\n#### 72", "answer": "72", "solution": f"{pasted}\n#### 72"}
    assert read(record).message == "the prompt holds the reference solution"
    assert read({"instruction": "a", "output": "#### 7", "ability": 7}).ability == ""


@pytest.mark.parametrize(
    "turn", [{"role": "human", "content": "a?"}, {"from": "human", "value": "a?"}, {"role": None, "from": "user"}]
)
def test_a_native_file_is_used_as_it_is_so_that_sharegpt_s_names_will_not_do(turn):
    refused = read({**NATIVE, "prompt": [turn]}, "native")
    assert isinstance(refused, Rejection)
    assert refused.code == "ROLE_INVALID"
    assert "--data-adapter messages" in refused.hint


@pytest.mark.parametrize("adapter", ["auto", "messages"])
@pytest.mark.parametrize(
    "turn",
    [
        {"role": "human", "content": "a?"},
        {"from": "human", "value": "a?"},
        {"role": None, "content": None, "from": "human", "value": "a?"},
    ],
)
def test_sharegpt_s_names_are_converted_where_rows_are_written_anew(adapter, turn):
    row = read({**NATIVE, "prompt": [turn]}, adapter)
    assert isinstance(row, PromptRow)
    assert (row.messages, row.ground_truth) == ((("user", "a?"),), "72")


@pytest.mark.parametrize(
    "answer", ["9 x 8 = 72 #### 72", "####", "9 x 8\n#### ", r"\boxed{}", "so <answer></answer>", "#### 72 is it"]
)
def test_a_marker_without_an_answer_behind_it_makes_no_answer_of_the_text_around(answer):
    verdict = read({"question": "q?", "answer": answer})
    if answer == "#### 72 is it":  # the neighbour that is fine: at the start of the last line
        assert isinstance(verdict, PromptRow)
        assert verdict.ground_truth == "72 is it"
        return
    assert isinstance(verdict, Rejection)
    assert verdict.code == "ANSWER_MISSING"
    assert "marker" in verdict.message


def test_a_ground_truth_by_that_name_is_taken_as_it_is_whatever_it_holds():
    assert read({"question": "q?", "ground_truth": "x = 1  #### one"}).ground_truth == "x = 1  #### one"
