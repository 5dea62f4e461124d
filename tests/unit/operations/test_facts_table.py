"""What LLaMA-Factory 0.9.5 does with bad rows, row by row of the measured table, and what prepare says instead.

Where LLaMA-Factory drops, spoils or crashes, prepare refuses with line and field, or warns, or mends and accepts.
"""

import gzip
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from fakes.row_backend import prepare

from loopai_trainer.errors import DataError
from loopai_trainer.files.snapshots import rows_at

GOOD = {"instruction": "q", "input": "", "output": "a"}
OTHER = {"instruction": "q2", "input": "", "output": "b"}
TOOL = {"name": "get", "description": "a tool", "parameters": {"type": "object", "properties": {}}}


def row(**changes):
    return {**GOOD, **changes}


def without(*keys):
    return {key: value for key, value in GOOD.items() if key not in keys}


def chat(*turns, **more):
    """ShareGPT: ("human", "q") pairs."""
    return {"conversations": [{"from": role, "value": text} for role, text in turns], **more}


def messages(*turns, **more):
    return {"messages": [{"role": role, "content": text} for role, text in turns], **more}


CHAT = chat(("human", "q"), ("gpt", "a"))
CHAT2 = chat(("human", "q2"), ("gpt", "b"))
OPENAI = messages(("user", "q"), ("assistant", "a"))


def lines(*rows):
    return "".join(json.dumps(one) + "\n" for one in rows).encode()


def listed(*rows):
    return json.dumps(rows, indent=1).encode()


def many_lines(**last):
    """5000 rows, 11 MB, of which only the last has more keys."""
    rows = [{"instruction": f"q{n}", "output": f"{n} " + "a" * 2200} for n in range(5000)]
    rows[-1] |= last
    return lines(*rows)


class Fact(NamedTuple):
    """A row of the table. `refused`: (code, line, field) of the errors; empty: accepted with `usable` rows.

    `warned`: (code, line) of the warnings; `entry`: the registry entry that describes the data.
    """

    data: bytes | Callable[[], bytes]
    refused: tuple[tuple[str, int | None, str | None], ...] = ()
    usable: int = 1
    warned: tuple[tuple[str, int | None], ...] = ()
    entry: dict[str, Any] | None = None
    name: str = "data.jsonl"


def no(*refused, warned=(), entry=None, name="data.jsonl", data):
    return Fact(data, refused, 0, warned, entry, name)


NONE_USABLE = ("NO_USABLE_ROWS", None, None)
EVERYWHERE = [{"output": value} for value in (3, 2.5, True, ["a"], {"a": 1})]


def unusable(code, field, *rows, count=None):
    """Every row has the same fault."""
    return no(*((code, line, field) for line in range(1, len(rows) + 1)), NONE_USABLE, data=lines(*rows))


FACTS = {
    "output missing in one row": no(("OUTPUT_MISSING", 2, "output"), data=lines(GOOD, without("output"))),
    "output null in one row": no(("OUTPUT_NULL", 2, "output"), data=lines(GOOD, row(output=None))),
    **{
        f"output a {type(more['output']).__name__} in all rows": unusable("OUTPUT_NOT_TEXT", "output", row(**more), row(**more))
        for more in EVERYWHERE
    },
    "output a number in one row": no(("OUTPUT_NOT_TEXT", 2, "output"), data=lines(GOOD, row(output=3))),
    "output empty": no(("OUTPUT_EMPTY", 2, "output"), data=lines(GOOD, row(output=""))),
    "output blank": no(("OUTPUT_EMPTY", 2, "output"), data=lines(GOOD, row(output=" \n"))),
    "instruction missing in one row": no(("PROMPT_EMPTY", 2, "instruction"), data=lines(GOOD, without("instruction"))),
    "instruction null in one row": no(("PROMPT_EMPTY", 2, "instruction"), data=lines(GOOD, row(instruction=None))),
    "instruction empty in one row": no(("PROMPT_EMPTY", 2, "instruction"), data=lines(GOOD, row(instruction=""))),
    "instruction missing in all rows": unusable("PROMPT_EMPTY", "instruction", without("instruction"), without("instruction")),
    "keys with capitals": no(
        ("FORMAT_UNKNOWN", 1, None), NONE_USABLE, data=lines({"Instruction": "q", "Input": "", "Output": "a"})
    ),
    "rows of no known format": no(("FORMAT_UNKNOWN", 1, None), NONE_USABLE, data=lines({"text": "a"})),
    "instruction a number in all rows": unusable("INSTRUCTION_NOT_TEXT", "instruction", row(instruction=1), row(instruction=2)),
    "input missing in one row": Fact(lines(GOOD, {**without("input"), "instruction": "q2"}), usable=2),
    "input missing in all rows": Fact(lines(without("input"))),
    "columns omits query, rows have input": no(
        ("COLUMN_NOT_MAPPED", 2, "input"),
        data=lines(GOOD, row(input="context")),
        entry={"columns": {"prompt": "instruction", "response": "output"}},
    ),
    "columns omits response": no(
        ("DATASET_INFO_INCOMPLETE", 2, "d"),
        ("NOT_MAPPED", 1, None),
        NONE_USABLE,
        data=lines(GOOD),
        entry={"columns": {"prompt": "instruction", "query": "input"}},
    ),
    "columns names a column that is not there": no(
        ("COLUMN_NOT_FOUND", 1, "outputs"),
        NONE_USABLE,
        data=lines(GOOD),
        entry={"columns": {"prompt": "instruction", "query": "input", "response": "outputs"}},
    ),
    "an extra column": Fact(lines(row(id=1), {**OTHER, "id": 2}), usable=2),
    "an extra column in a later row only": Fact(lines(GOOD, {**OTHER, "id": 2}), usable=2),
    "an extra column a number, then a text, jsonl": Fact(lines(row(id=1), {**OTHER, "id": "2"}), usable=2),
    "an extra column a number, then a text, json": Fact(listed(row(id=1), {**OTHER, "id": "2"}), usable=2, name="data.json"),
    "an extra column an object, then an array": Fact(lines(row(meta={}), {**OTHER, "meta": []}), usable=2),
    "a system column that is not mapped": no(("COLUMN_NOT_MAPPED", 1, "system"), NONE_USABLE, data=lines(row(system="s")), entry={}),
    "a system column, without a registry": Fact(lines(row(system="s"))),
    "system mapped, null": Fact(
        lines(row(system=None)),
        entry={"columns": {"prompt": "instruction", "query": "input", "response": "output", "system": "system"}},
    ),
    "system a number": no(("SYSTEM_NOT_TEXT", 2, "system"), data=lines(GOOD, row(system=5))),
    "a history column that is not mapped": no(
        ("COLUMN_NOT_MAPPED", 1, "history"), NONE_USABLE, data=lines(row(history=[["x", "y"]])), entry={}
    ),
    "a history column, without a registry": Fact(lines(row(history=[["x", "y"]]))),
    "a history pair of one": no(("HISTORY_INVALID", 2, "history[0]"), data=lines(GOOD, row(history=[["x"]]))),
    "a history answer that is null": no(("HISTORY_INVALID", 2, "history[0]"), data=lines(GOOD, row(history=[["x", None]]))),
    "history a text": no(("HISTORY_INVALID", 2, "history"), data=lines(GOOD, row(history="x"))),
    "a key twice in one object": no(
        ("DUPLICATE_KEY", 2, "output"), data=lines(GOOD) + b'{"instruction": "q", "input": "", "output": "a", "output": "b"}\n'
    ),
    "NaN in an extra column": Fact(
        lines(GOOD) + b'{"instruction": "q2", "input": "", "output": "b", "score": NaN}\n', usable=2, warned=(("JSON_NUMBER", 2),)
    ),
    "NaN as the output": no(
        ("OUTPUT_NOT_TEXT", 2, "output"),
        warned=(("JSON_NUMBER", 2),),
        data=lines(GOOD) + b'{"instruction": "q2", "input": "", "output": NaN}\n',
    ),
    "rows under a key of one object": no(
        ("FORMAT_UNKNOWN", 1, None), NONE_USABLE, data=json.dumps({"data": [GOOD]}).encode(), name="data.json"
    ),
    "an object of columns": no(
        ("OUTPUT_NOT_TEXT", 1, "output"),
        NONE_USABLE,
        data=json.dumps({"instruction": ["q"], "input": [""], "output": ["a"]}).encode(),
        name="data.json",
    ),
    "one record alone": Fact(json.dumps(GOOD, indent=1).encode(), name="data.json"),
    "a broken line": no(("JSON_CUT", 2, None), data=lines(GOOD) + b'{"instruction": "q\n' + lines(OTHER)),
    "a last line that is cut": no(("JSON_CUT", 2, None), data=lines(GOOD) + b'{"instruction": "q", "outp'),
    "a broken first line": no(("JSON_INVALID", 1, None), data=b"oops\n" + lines(GOOD)),
    "a trailing comma in a list": no(("JSON_TRAILING_COMMA", 2, None), data=b"[" + lines(GOOD)[:-1] + b",\n]", name="data.json"),
    "a list inside .jsonl": Fact(listed(GOOD, OTHER), usable=2),
    "lines inside .json": Fact(lines(GOOD, OTHER), usable=2, name="data.json"),
    "objects over several lines": Fact(b"\n".join(json.dumps(one, indent=1).encode() for one in (GOOD, OTHER)), usable=2),
    "two objects on one line": Fact(json.dumps(GOOD).encode() + b" " + lines(OTHER), usable=2),
    "blank lines": Fact(b"\n" + lines(GOOD) + b"  \n" + lines(OTHER) + b"\n\n", usable=2),
    "CRLF": Fact(lines(GOOD, OTHER).replace(b"\n", b"\r\n"), usable=2),
    "CR alone": Fact(lines(GOOD, OTHER).replace(b"\n", b"\r"), usable=2),
    "a NUL escape": Fact(lines(row(output="a\x00b"))),
    "a byte-order mark, jsonl": Fact(b"\xef\xbb\xbf" + lines(GOOD)),
    "a byte-order mark, json": Fact(b"\xef\xbb\xbf" + listed(GOOD), name="data.json"),
    "invalid UTF-8, jsonl": no(("ENCODING", 2, None), data=lines(GOOD) + b'{"instruction": "\xff", "output": "a"}\n'),
    "invalid UTF-8, json": no(
        ("ENCODING", 2, None), data=b"[" + lines(GOOD)[:-1] + b',\n{"instruction": "\xff", "output": "a"}]', name="data.json"
    ),
    "UTF-16": no(("ENCODING", None, None), data=lines(GOOD).decode().encode("utf-16")),
    "half a surrogate pair": no(("LONE_SURROGATE", 2, None), data=lines(GOOD) + lines(row(output="?")).replace(b"?", b"\\ud800")),
    "a line of 25 MB": Fact(lines(row(output="a" * 25_000_000))),
    "a .gz file": no(("FILE_TYPE", None, None), data=gzip.compress(lines(GOOD), mtime=0), name="data.jsonl.gz"),
    "gzip under the name .jsonl": no(("FILE_TYPE", None, None), data=gzip.compress(lines(GOOD), mtime=0)),
    "an empty file": no(("NO_ROWS", None, None), data=b""),
    "an empty list": no(("NO_ROWS", None, None), data=b"[]", name="data.json"),
    "a line that is null": no(("ROW_NOT_OBJECT", 2, None), data=lines(GOOD, None)),
    "a line that is {}": no(("OUTPUT_MISSING", 2, "output"), data=lines(GOOD, {})),
    "a line that is a list": no(("ROW_NOT_OBJECT", 2, None), data=lines(GOOD, [1])),
    "a line that is a text": no(("ROW_NOT_OBJECT", 2, None), data=lines(GOOD, "x")),
    "null in a list": no(("ROW_NOT_OBJECT", 7, None), data=listed(GOOD, None), name="data.json"),
    "an integer beyond 64 bits in an extra column": Fact(lines(row(id=2**70))),
    "alpaca and sharegpt rows in one file": no(("FORMAT_MIXED", 3, None), data=lines(GOOD, OTHER, CHAT)),
    "special tokens in the text": Fact(lines(row(output="a<|im_end|>")), warned=(("SPECIAL_TOKEN", 1),)),
    "rows that repeat": Fact(lines(GOOD, OTHER, GOOD), usable=3, warned=(("DUPLICATE_ROW", 1),)),
    "a .csv file": no(("FILE_TYPE", None, None), data=b"instruction,input,output\nq,,1\n", name="data.csv"),
    "a csv cell NA": no(("FILE_TYPE", None, None), data=b"instruction,input,output\nq,,NA\n", name="data.CSV"),
    "ranking: true": no(("DATASET_INFO_UNSUPPORTED", 4, "d.ranking"), data=lines(GOOD), entry={"ranking": True}),
    "a kto_tag": no(
        ("DATASET_INFO_UNSUPPORTED", 8, "d.columns.kto_tag"),
        data=lines(row(label=True)),
        entry={"columns": {"prompt": "instruction", "query": "input", "response": "output", "kto_tag": "label"}},
    ),
    "images": no(("MEDIA_UNSUPPORTED", 2, "images"), data=lines(GOOD, row(images=["a.png"]))),
    "<image> in the text": Fact(lines(row(instruction="<image>q")), warned=(("MEDIA_PLACEHOLDER", 1),)),
    "tools that are no JSON": no(("TOOLS_INVALID", 2, "tools"), data=lines(GOOD, row(tools="{'name'}"))),
    "a function call that is no JSON": no(
        ("TOOL_CALL_INVALID", 2, "conversations[1].value"), data=lines(CHAT, chat(("human", "q2"), ("function_call", "get()")))
    ),
    "sharegpt, the last turn from the human": no(
        ("LAST_TURN_NOT_ASSISTANT", 2, "conversations"), data=lines(CHAT, chat(("human", "q"), ("gpt", "a"), ("human", "q")))
    ),
    "sharegpt, the first turn from gpt": no(
        ("FIRST_TURN_NOT_USER", 2, "conversations[0]"), data=lines(CHAT, chat(("gpt", "a"), ("human", "q")))
    ),
    "sharegpt, two turns of one side": no(
        ("ROLES_NOT_ALTERNATING", 2, "conversations[1]"),
        data=lines(CHAT, chat(("human", "q"), ("human", "q"), ("gpt", "a"), ("gpt", "b"))),
    ),
    "sharegpt, system in the middle": no(
        ("SYSTEM_NOT_FIRST", 2, "conversations[1]"), data=lines(CHAT, chat(("human", "q"), ("system", "s"), ("gpt", "a")))
    ),
    "sharegpt, two system turns": no(
        ("SYSTEM_NOT_FIRST", 2, "conversations[1]"),
        data=lines(CHAT, chat(("system", "s"), ("system", "s"), ("human", "q"), ("gpt", "a"))),
    ),
    "sharegpt, from missing": no(
        ("ROLE_MISSING", 2, "conversations[1].from"),
        data=lines(CHAT, {"conversations": [{"from": "human", "value": "q"}, {"value": "a"}]}),
    ),
    "sharegpt, unknown role": no(("ROLE_UNKNOWN", 2, "conversations[1].from"), data=lines(CHAT, chat(("human", "q"), ("gptt", "a")))),
    "sharegpt, all rows user and assistant": Fact(lines(chat(("user", "q"), ("assistant", "a")))),
    "sharegpt, user and assistant under the default tags of a registry": no(
        ("ROLE_UNKNOWN", 1, "conversations[0].from"),
        NONE_USABLE,
        data=lines(chat(("user", "q"), ("assistant", "a"))),
        entry={"formatting": "sharegpt"},
    ),
    "sharegpt, no turns": no(("MESSAGES_EMPTY", 2, "conversations"), data=lines(CHAT, chat())),
    "sharegpt, only system": no(("MESSAGES_EMPTY", 2, "conversations"), data=lines(CHAT, chat(("system", "s")))),
    "sharegpt, conversations null": no(("MESSAGES_MISSING", 2, "conversations"), data=lines(CHAT, {"conversations": None})),
    "sharegpt, conversations missing": no(("MESSAGES_MISSING", 2, "conversations"), data=lines(CHAT, {"id": 1})),
    "sharegpt, value null": no(("CONTENT_NULL", 2, "conversations[1].value"), data=lines(CHAT, chat(("human", "q"), ("gpt", None)))),
    "sharegpt, value missing": no(
        ("CONTENT_MISSING", 2, "conversations[1].value"),
        data=lines(CHAT, {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt"}]}),
    ),
    "sharegpt, value a number": no(("CONTENT_NOT_TEXT", 2, "conversations[1].value"), data=lines(CHAT, chat(("human", "q"), ("gpt", 1)))),
    "sharegpt, value empty": no(("OUTPUT_EMPTY", 2, "conversations[1].value"), data=lines(CHAT, chat(("human", "q"), ("gpt", "")))),
    "sharegpt, conversations JSON in a text": no(
        ("MESSAGES_NOT_LIST", 2, "conversations"), data=lines(CHAT, {"conversations": json.dumps(CHAT["conversations"])})
    ),
    "role and content without tags": Fact(lines(OPENAI)),
    "role and content under a registry without tags": no(
        ("ROLE_MISSING", 1, "messages[0].from"),
        NONE_USABLE,
        data=lines(OPENAI),
        entry={"formatting": "sharegpt", "columns": {"messages": "messages"}},
    ),
    "messages that are not mapped": no(
        ("MESSAGES_MISSING", 1, "conversations"), NONE_USABLE, data=lines(OPENAI), entry={"formatting": "sharegpt"}
    ),
    "openai tags without one for tool": no(
        ("TAG_NOT_MAPPED", 2, "messages[2].role"),
        data=lines(OPENAI, messages(("user", "q"), ("function", '{"name": "f", "arguments": {}}'), ("tool", "1"), ("assistant", "a"))),
        entry={
            "formatting": "sharegpt",
            "columns": {"messages": "messages"},
            "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant",
                     "function_tag": "function"},
        },
    ),
    "openai, role developer": no(
        ("ROLE_UNKNOWN", 2, "messages[0].role"), data=lines(OPENAI, messages(("developer", "s"), ("user", "q"), ("assistant", "a")))
    ),
    "openai, last turn from the user": no(
        ("LAST_TURN_NOT_ASSISTANT", 2, "messages"), data=lines(OPENAI, messages(("user", "q"), ("assistant", "a"), ("user", "q")))
    ),
    "openai, two users in a row": no(
        ("ROLES_NOT_ALTERNATING", 2, "messages[1]"), data=lines(OPENAI, messages(("user", "q"), ("user", "q"), ("assistant", "a")))
    ),
    "openai, no turns": no(("MESSAGES_EMPTY", 2, "messages"), data=lines(OPENAI, messages())),
    "openai, content null": no(("CONTENT_NULL", 2, "messages[1].content"), data=lines(OPENAI, messages(("user", "q"), ("assistant", None)))),
    "openai, content in parts": no(
        ("CONTENT_NOT_TEXT", 2, "messages[0].content"),
        data=lines(OPENAI, messages(("user", [{"type": "text", "text": "q"}]), ("assistant", "a"))),
    ),
    "openai, weight 0": no(
        ("WEIGHT_IGNORED", 2, "messages[1].weight"),
        data=lines(OPENAI, {"messages": [OPENAI["messages"][0], {**OPENAI["messages"][1], "weight": 0}]}),
    ),
    "openai, arguments as JSON text": Fact(
        lines(
            {
                "messages": [
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]},
                ]
            }
        )
    ),
    "openai, a tool list": Fact(lines({**OPENAI, "tools": [{"type": "function", "function": TOOL}]})),
    "sharegpt, arguments as a text inside the call": Fact(
        lines(chat(("human", "q"), ("function_call", '{"name": "f", "arguments": "{}"}'))), warned=(("ARGUMENTS_AS_TEXT", 1),)
    ),
    "a column that first appears beyond 10 MB": Fact(lambda: many_lines(id=2), usable=5000),
    "a type that changes beyond 10 MB": Fact(lambda: lines(row(id=1)) + many_lines(id="x"), usable=5001),
    "input in no row of the first 10 MB": Fact(lambda: many_lines(input="i"), usable=5000),
    "upper-case extension": Fact(lines(GOOD), name="DATA.JSONL"),
}  # fmt: skip


def told(problems, severity):
    return [(p.code, p.line, p.field) for p in problems if p.severity == severity]


@pytest.mark.parametrize("name", FACTS)
def test_the_row_of_the_table(tmp_path, name):
    fact = FACTS[name]
    path = tmp_path / fact.name
    path.write_bytes(fact.data() if callable(fact.data) else fact.data)
    info = None
    if fact.entry is not None:
        info = tmp_path / "dataset_info.json"
        info.write_text(json.dumps({"d": {"file_name": fact.name, **fact.entry}}, indent=1))
    try:
        report = prepare(tmp_path / "run", path, train_input_dataset_info=info and str(info))
    except DataError as error:
        assert told(error.problems, "error") == list(fact.refused)
        assert [found[:2] for found in told(error.problems, "warning")] == list(fact.warned)
        assert all(p.message and p.hint for p in error.problems)
        assert fact.refused, "was to be accepted"
    else:
        assert not fact.refused
        assert [found[:2] for found in told(report.problems, "warning")] == list(fact.warned)
        assert report.splits[0].counts.usable == fact.usable
        assert report.splits[0].counts.rejected == 0


CALL = [{"function": {"name": "f", "arguments": '{"x": 1}'}}]
MADE = {
    "input is joined to the instruction": (row(input="i"), [("user", "q\ni"), ("assistant", "a")]),
    "history comes before": (
        row(history=[["x", "y"]]),
        [("user", "x"), ("assistant", "y"), ("user", "q"), ("assistant", "a")],
    ),
    "arguments in JSON text become an object": (
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": CALL}]},
        [("user", "q"), ("function", '[{"name":"f","arguments":{"x":1}}]')],
    ),
    "user and assistant under from": (chat(("user", "q"), ("assistant", "a")), [("user", "q"), ("assistant", "a")]),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_mended_becomes_what_was_meant(tmp_path, name):
    source, made = MADE[name]
    (tmp_path / "a.jsonl").write_bytes(lines(source))
    report = prepare(tmp_path / "run", tmp_path / "a.jsonl")
    assert [tuple(turn) for turn in rows_at(report.splits[0].snapshot.path, [0])[0].messages] == made


def test_system_is_kept_without_a_registry(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines(row(system="s")))
    report = prepare(tmp_path / "run", tmp_path / "a.jsonl")
    assert rows_at(report.splits[0].snapshot.path, [0])[0].system == "s"


@pytest.mark.parametrize("by_registry", [False, True])
@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("folder", "NOT_A_FILE", "join several"),
        ("a.jsonl,b.jsonl", "FILE_NOT_FOUND", "several are not taken"),
        ("*.jsonl", "FILE_NOT_FOUND", "one existing file"),
        ("pipe.jsonl", "NOT_A_FILE", "regular file"),
        ("a", "FILE_TYPE", "accepted are"),
        ("a.arrow", "FILE_TYPE", "accepted are"),
        ("a.txt", "FILE_TYPE", "accepted are"),
        ("a.jsonl.zst", "FILE_TYPE", "unzstd"),
        ("a.ndjson", "FILE_TYPE", ".jsonl"),
    ],
)
def test_what_is_no_single_file_of_a_known_type_is_refused(tmp_path, name, code, hint, by_registry):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.jsonl").write_bytes(lines(GOOD))
    os.mkfifo(tmp_path / "pipe.jsonl")
    for other in ("a.jsonl", "b.jsonl", "a", "a.arrow", "a.txt", "a.jsonl.zst", "a.ndjson"):
        (tmp_path / other).write_bytes(lines(GOOD))
    info = tmp_path / "dataset_info.json"
    info.write_text(json.dumps({"d": {"file_name": name}}))
    with pytest.raises(DataError) as caught:
        prepare(tmp_path / "run", tmp_path / name, train_input_dataset_info=str(info) if by_registry else None)
    assert told(caught.value.problems, "error") == [(code, None, None)]
    assert hint in caught.value.problems[0].hint
