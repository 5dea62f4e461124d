"""The aligned examples that LLaMA-Factory's own converter makes from a snapshot equal those that it makes from the source.

All cases share one start of LLaMA-Factory's interpreter, which costs more than all of them together.
"""

import json
import os
import random
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fakes.row_backend import prepare

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).with_name("aligned_examples.py")
TOOLS = json.dumps([{"name": "get", "description": "a tool", "parameters": {"type": "object", "properties": {}}}])
TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function",
    "system_tag": "system",
}
ALPACA = {"prompt": "instruction", "query": "input", "response": "output"}


def texts(seed, count):
    """Deterministic texts in several scripts, with the characters that readers stumble over."""
    rng = random.Random(seed)
    pieces = [
        "pump",
        "泵",
        "“q”",
        '"',
        "\\",
        "\n",
        " ",
        "\t",
        "é",
        "e\u0301",
        "\u200b",
        "😀",
        "{x}",
        "\\n",
        "，",
        "\u2028",
        "\x00",
        "#",
    ]
    return ["t" + "".join(rng.choices(pieces, k=rng.randint(1, 12))) for _ in range(count)]


def alpaca_rows():
    rows = [
        {
            "instruction": q,
            "input": i,
            "output": a,
            "system": s,
            "history": [[q, a]] * (n % 3),
            "tools": TOOLS if n % 2 else "",
        }
        for n, (q, i, a, s) in enumerate(zip(*(texts(seed, 40) for seed in range(4)), strict=True))
    ]
    rows[0]["input"] = rows[1]["system"] = rows[2]["instruction"] = ""
    rows[3]["input"] = rows[4]["system"] = rows[5]["history"] = rows[6]["tools"] = rows[7]["instruction"] = None
    return rows


def sharegpt_rows():
    call = '{"name": "get", "arguments": {"x": 1.50, "y": null}}'
    rows = []
    for n, (q, a, s) in enumerate(zip(*(texts(seed, 30) for seed in (5, 6, 7)), strict=True)):
        turns = [("human", q), ("gpt", a)] * (n % 3 + 1)
        if n % 4 == 0:
            turns += [("human", q), ("function_call", call), ("observation", a), ("gpt", a)]
        if n % 5 == 0:
            turns.insert(0, ("system", s))
        rows.append(
            {"conversations": [{"from": r, "value": v} for r, v in turns], "system": s if n % 2 else "", "tools": TOOLS}
        )
    return rows


def messages_rows():
    rows = []
    for q, a, s in zip(*(texts(seed, 20) for seed in (8, 9, 10)), strict=True):
        turns = [
            ("system", s),
            ("user", q),
            ("assistant", a),
            ("user", q),
            ("function", '[{"name":"f","arguments":{}}]'),
        ]
        turns += [("tool", s), ("assistant", a)]
        rows.append({"messages": [{"role": r, "content": c} for r, c in turns[len(rows) % 2 :]]})
    return rows


def system_in_every_third():
    chats = [[("user", q), ("assistant", a)] for q, a in zip(texts(11, 12), texts(12, 12), strict=True)]
    for turns in chats[::3]:
        turns.insert(0, ("system", "s"))
    return [{"messages": [{"role": r, "content": c} for r, c in turns]} for turns in chats]


def openai_rows():
    def call(*calls):
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": c} for c in calls],
        }

    one = {"name": "get", "arguments": '{"tank": "T2", "level": 1.0}'}
    two = {"name": "put", "arguments": {"valve": "V9", "percent": [40]}}
    ask, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    result = {"role": "tool", "content": "61", "tool_call_id": "1"}
    return [
        {"messages": [ask, call(one), result, answer], "tools": json.loads(TOOLS)},
        {"messages": [ask, call(one, two), result, {**result, "content": "ok"}, answer], "tools": None},
        {"messages": [ask, answer, ask, call(two)]},
    ]


def openai_reference():
    """openai_rows as a person would write them in ShareGPT form, since LLaMA-Factory has no other way to read them right."""
    one = '{"name":"get","arguments":{"tank":"T2","level":1.0}}'
    two = '{"name":"put","arguments":{"valve":"V9","percent":[40]}}'
    both = "61\n</tool_response>\n<tool_response>\nok"
    chats = [
        ([("user", "q"), ("function", f"[{one}]"), ("tool", "61"), ("assistant", "a")], TOOLS),
        ([("user", "q"), ("function", f"[{one},{two}]"), ("tool", both), ("assistant", "a")], ""),
        ([("user", "q"), ("assistant", "a"), ("user", "q"), ("function", f"[{two}]")], ""),
    ]
    return [{"messages": [{"role": r, "content": c} for r, c in turns], "tools": tools} for turns, tools in chats]


def bad_rows():
    """Rows that LLaMA-Factory drops between others that it keeps."""
    good = {"instruction": "q", "input": "", "output": "a"}
    return [
        good,
        {**good, "output": None},
        {**good, "instruction": "q2"},
        {"instruction": "q3", "input": ""},
        {**good, "input": "i"},
    ]


def own_alpaca_rows():
    """Alpaca rows under a user's own column names."""
    names = {
        "instruction": "question",
        "input": "ctx",
        "output": "input",
        "system": "persona",
        "history": "before",
        "tools": "api",
    }
    return [{names[key]: value for key, value in row.items()} | {"id": n} for n, row in enumerate(alpaca_rows())]


def own_sharegpt_rows():
    """ShareGPT rows under a user's own column, key and role names."""
    roles = {"human": "Q", "gpt": "A", "function_call": "call", "observation": "result", "system": "setup"}
    return [
        {
            "dialog": [{"who": roles[turn["from"]], "text": turn["value"], "n": 1} for turn in row["conversations"]],
            "persona": row["system"],
            "api": row["tools"],
        }
        for row in sharegpt_rows()
    ]


OWN_COLUMNS = {
    "prompt": "question",
    "query": "ctx",
    "response": "input",
    "system": "persona",
    "history": "before",
    "tools": "api",
}
OWN_TAGS = {"role_tag": "who", "content_tag": "text", "user_tag": "Q", "assistant_tag": "A", "observation_tag": "result",
            "function_tag": "call", "system_tag": "setup"}  # fmt: skip
CHATS = {"formatting": "sharegpt", "columns": {"messages": "conversations", "system": "system", "tools": "tools"}}
MESSAGES = {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": TAGS}
CASES = {
    # name: (rows, file name, registry entry for the source, rows of the reference if the source itself is not one)
    "alpaca": (
        alpaca_rows(),
        "a.jsonl",
        {"columns": {**ALPACA, "system": "system", "history": "history", "tools": "tools"}},
        None,
    ),
    "alpaca-plain": ([{key: row[key] for key in ALPACA.values()} for row in alpaca_rows()], "a.json", {}, None),
    "alpaca-parquet": ([{key: row[key] for key in ALPACA.values()} for row in alpaca_rows()], "a.parquet", {}, None),
    "alpaca-bad": (bad_rows(), "a.jsonl", {}, None),
    "sharegpt": (sharegpt_rows(), "s.json", CHATS, None),
    "sharegpt-parquet": (sharegpt_rows(), "s.parquet", CHATS, None),
    "messages": (messages_rows(), "m.jsonl", MESSAGES, None),
    "tool-calls": (
        openai_rows(),
        "o.jsonl",
        {**MESSAGES, "columns": {"messages": "messages", "tools": "tools"}},
        openai_reference(),
    ),
    "own-alpaca": (own_alpaca_rows(), "a.jsonl", {"columns": OWN_COLUMNS}, None),
    "own-sharegpt": (
        own_sharegpt_rows(),
        "s.jsonl",
        {
            "formatting": "sharegpt",
            "columns": {"messages": "dialog", "system": "persona", "tools": "api"},
            "tags": OWN_TAGS,
        },
        None,
    ),
    "partial-tags": (
        system_in_every_third(),
        "m.jsonl",
        # Clears system_tag, so that rows with a system turn are dropped.
        {**MESSAGES, "tags": {key: TAGS[key] for key in ("role_tag", "content_tag", "user_tag", "assistant_tag")}},
        None,
    ),
}
BY_REGISTRY = ("own-alpaca", "own-sharegpt", "partial-tags")
"""Prepared with --dataset-info; the others by their usual names."""


def write_rows(path, rows):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def examples(tmp_path_factory, lf_env):
    """Case -> (aligned examples from the source, from the snapshot, our report)."""
    root = tmp_path_factory.mktemp("parity")
    jobs, reports = [], {}
    for name, (rows, file_name, entry, reference) in CASES.items():
        folder = root / name
        folder.mkdir()
        write_rows(folder / file_name, rows)
        if reference is not None:
            write_rows(folder / "reference.jsonl", reference)
        read_name = file_name if reference is None else "reference.jsonl"
        (folder / "dataset_info.json").write_text(json.dumps({"data": {"file_name": read_name, **entry}}))
        info = str(folder / "dataset_info.json") if name in BY_REGISTRY else None
        reports[name] = prepare(folder / "run", folder / file_name, bad_rows="skip", train_input_dataset_info=info)
        prepared = os.path.dirname(reports[name].registry.path)
        jobs += [{"dataset_dir": str(folder), "dataset": "data"}, {"dataset_dir": prepared, "dataset": "train"}]
    (root / "jobs.json").write_text(json.dumps(jobs))
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(root / "hub"),
        "HF_DATASETS_CACHE": str(root / "cache"),
    }
    subprocess.run(
        [f"{lf_env}/bin/python", str(SCRIPT), str(root / "jobs.json"), str(root / "out.json")],
        env=environment,
        cwd=root,
        check=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    found = json.loads((root / "out.json").read_text(encoding="utf-8"))
    return {name: (found[2 * n], found[2 * n + 1], reports[name]) for n, name in enumerate(CASES)}


def trained(examples):
    """Those that LLaMA-Factory does not drop (data/processor/supervised.py); no system or tools is "" or None alike."""
    return [
        {**one, "_system": one["_system"] or "", "_tools": one["_tools"] or ""}
        for one in examples
        if len(one["_prompt"]) % 2 == 1 and len(one["_response"]) == 1
    ]


@pytest.mark.parametrize("name", CASES)
def test_the_snapshot_trains_what_the_source_would(examples, name):
    from_source, from_snapshot, report = examples[name]
    assert trained(from_snapshot) == trained(from_source)
    assert len(trained(from_snapshot)) == len(from_snapshot) == report.splits[0].counts.usable


def test_nothing_but_the_bad_rows_is_missing(examples):
    usable = {name: report.splits[0].counts.usable for name, (_, _, report) in examples.items()}
    assert (usable.pop("alpaca-bad"), usable.pop("partial-tags")) == (3, 8)
    assert usable == {name: len(rows) for name, (rows, _, _, _) in CASES.items() if name in usable}
