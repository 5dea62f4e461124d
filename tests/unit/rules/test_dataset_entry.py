import pytest

from loopai_trainer.rules.dataset_entry import entry_for

TURNS = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
ROLES = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
TAGS = {
    "role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant",
    "observation_tag": "tool", "function_tag": "function", "system_tag": "system",
}  # fmt: skip
ALPACA = {"prompt": "instruction", "query": "input", "response": "output"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], {}),
        ([3, None], {}),
        ([{"instruction": "a", "input": "", "output": "b"}], {}),
        (
            [{"instruction": "a", "input": "", "output": "b", "system": "s"}],
            {"columns": {**ALPACA, "system": "system"}},
        ),
        (
            [{"instruction": "a", "output": "b", "history": []}],
            {"columns": {"prompt": "instruction", "response": "output", "history": "history"}},
        ),
        ([{"conversations": TURNS}], {"formatting": "sharegpt", "columns": {"messages": "conversations"}}),
        (
            [{"conversations": TURNS, "tools": "[]"}],
            {"formatting": "sharegpt", "columns": {"messages": "conversations", "tools": "tools"}},
        ),
        ([{"messages": ROLES}], {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": TAGS}),
    ],
)
def test_entries(rows, expected):
    assert entry_for("/d.json", rows) == {"file_name": "/d.json", **expected}
