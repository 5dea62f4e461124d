"""The quick way through a batch gives what the rows give one by one."""

from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.adapters import Adapter
from loopai_trainer.rules.prompts.columns import columns_of, quick_columns

_questions = st.sampled_from(["q?", "What is 9 x 8? " * 6, " ", "", "end with ####", "#### 72", "the answer?", None, 7])
_answers = st.sampled_from(
    [
        "so\n#### 72",
        "72",
        "#### 72",
        "so\n#### 1,234",
        "\\boxed{72}\n#### 72",
        "\\boxed{7}\n#### 72",
        "Paris",
        "",
        "null",
        "What is 9 x 8? " * 6,
        "a\nb",
        "the answer\n#### 5",
        "x\n#### ²",
        "x\n#### 72 ",
        72,
        None,
        True,
        ["72"],
        "y\n#### ",
    ]
)
_extra = st.fixed_dictionaries(
    {}, optional={"id": st.integers(0, 9), "data_source": st.just("own"), "system": st.just("s")}
)


def _qa(question, answer, extra):
    return {"question": question, "answer": answer, **extra}


def _alpaca(question, answer, extra):
    return {"instruction": question, "input": "", "output": answer}


def _chat(question, answer, extra):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": turns[: 1 if extra.get("id") == 3 else 2]}


_batches = st.sampled_from([_qa, _alpaca, _chat]).flatmap(
    lambda make: st.lists(st.builds(make, _questions, _answers, _extra), min_size=1, max_size=6)
)
_named = st.sampled_from(["", "d"])
_adapters = st.sampled_from(["auto", "qa", "alpaca", "messages", "native"])


def _same(values, adapter, data_source):
    check = Adapter(adapter, data_source, True)
    found = quick_columns(values, adapter, data_source, check)
    if found is None:
        return False
    quick, bad = found
    verdicts = [check(value) for value in values]
    assert bad == [(index, one) for index, one in enumerate(verdicts) if isinstance(one, Rejection)]
    slow = columns_of([one for one in verdicts if not isinstance(one, Rejection)])
    assert (quick.contents, quick.truths, quick.data_sources) == (slow.contents, slow.truths, slow.data_sources)
    assert (+quick.adapters, +quick.markers, +quick.notes) == (slow.adapters, slow.markers, slow.notes)
    assert not slow.turns
    return True


@given(_batches, _adapters, _named)
def test_the_quick_way_gives_the_same(values, adapter, data_source):
    _same(values, adapter, data_source)


def test_the_quick_way_is_taken():
    rows = [_qa("q?", "so\n#### 72", {}), _qa("q?", "so\n#### 1,234", {}), _qa("", "so\n#### 5", {})]
    assert _same(rows, "auto", "")
    assert _same([_alpaca("q?", "so\n#### 72", {}), _alpaca("q?", "72", {})], "auto", "d")
    assert _same([_chat("q?", "so\n#### 72", {})], "messages", "d")


def test_columns_hold_turns_only_where_there_are_several():
    check = Adapter("auto", "d", True)
    row = check({"question": "q?", "system": "s", "answer": "a"})
    columns = columns_of([row, check({"question": "r?", "answer": "b"})])
    assert columns.turns == [2, 1]
    assert columns.prompts() == [[("system", "s"), ("user", "q?")], [("user", "r?")]]
    assert columns_of([check({"question": "r?", "answer": "b"})]).prompts() == [[("user", "r?")]]


def test_what_rows_have_besides_becomes_columns():
    check = Adapter("auto", "d", True)
    native = {"prompt": [{"role": "user", "content": "q?"}], "ability": "math", "extra_info": {"index": 3}}
    row = check({**native, "reward_model": {"style": "model", "ground_truth": "5"}})
    columns = columns_of([row, check({"question": "r?", "answer": "b"})])
    assert (columns.abilities, columns.styles) == (["math", ""], ["model", ""])
    assert columns.extras == [{"index": 3}, None]


def test_records_of_several_shapes_go_one_by_one():
    check = Adapter("auto", "d", True)
    assert quick_columns([_qa("q?", "5", {}), {"question": "q?", "answer": "5", "id": 1}], "auto", "d", check) is None
    assert quick_columns([_qa("q?", "5", {}), "text"], "auto", "d", check) is None
    assert quick_columns([_qa("q?", 5, {})], "auto", "d", check) is None
    assert quick_columns([_alpaca("", "5", {})], "auto", "d", check) is None
    assert quick_columns([{"messages": [{"role": "user", "content": "a"}] * 2}], "auto", "d", check) is None
