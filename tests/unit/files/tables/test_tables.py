"""What a source file may look like, and that every fault is told with its place in one pass."""

import gzip
import hashlib
import json
import os

import orjson
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopai_trainer.files.tables import Fault, json_items, json_values, open_table, source
from loopai_trainer.files.tables.json_lines import JsonLines
from loopai_trainer.files.tables.json_values import doubtful, examine

GOOD = {"instruction": "q", "input": "", "output": "a"}


def read(path):
    """(positions and values, faults as (position, code))."""
    table = open_table(str(path))
    rows, faults = [], []
    for position, value in table.rows():
        if isinstance(value, Fault):
            assert value.message
            faults.append((position + value.line_offset, value.code))
        else:
            rows.append((position, value))
    return rows, faults, table


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
        return path

    return write


def line(value):
    return orjson.dumps(value).decode()


@pytest.mark.parametrize(
    ("name", "text", "positions", "layout"),
    [
        ("a.jsonl", '{"a":1}\n{"a":2}\n', [1, 2], "JSON Lines"),
        ("a.JSONL", '{"a":1}\r\n{"a":2}', [1, 2], "JSON Lines"),
        ("a.jsonl", '{"a":1}\r{"a":2}\r', [1, 2], "JSON Lines"),
        ("a.jsonl", '\n  \n{"a":1}\n\t\n{"a":2}\n\n', [3, 5], "JSON Lines"),
        ("a.jsonl", '\ufeff{"a":1}\n{"a":2}', [1, 2], "JSON Lines"),
        ("a.jsonl", '{"a":1}\n\ufeff{"a":2}', [1, 2], "JSON Lines"),
        ("a.jsonl", '{"a":1}{"a":2}\n', [1, 1], "JSON Lines"),
        ("a.jsonl", '[{"a":1},\n{"a":2}]', [1, 2], "JSON list"),
        ("a.jsonl", '{\n"a":1\n}\n{\n"a":2\n}\n', [1, 4], "JSON objects"),
        ("a.json", '[{"a":1},{"a":2}]\n', [1, 1], "JSON list"),
        ("a.JSON", '\ufeff\n[\n{"a":1}\n,\n {"a":\n2}\n]', [3, 5], "JSON list"),
        ("a.json", '{"a":1}\n{"a":2}\n', [1, 2], "JSON Lines"),
        ("a.json", '{"a":1}', [1], "JSON Lines"),
        ("a.json", '{"a":1,\n "b":[]}', [1], "JSON objects"),
        ("a.json", '{"a":{\n"b":1}}', [1], "JSON objects"),
        ("a.json", "[]", [], "JSON list"),
        ("a.json", '[1, "x", null, true, [2], "a, ]", -1.5e3]', [1] * 7, "JSON list"),
        ("a.jsonl", "", [], "JSON Lines"),
    ],
)
def test_layouts_that_are_read(write, name, text, positions, layout):
    rows, faults, table = read(write(name, text))
    assert faults == []
    assert [position for position, _ in rows] == positions
    assert table.layout == layout


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('{"a":1}\n{"a":\n{"a":2}\n{"a":3', [(2, "JSON_CUT"), (4, "JSON_CUT")]),
        ('{"a":"x\n{"a":2}', [(1, "JSON_CUT")]),
        ('{"a":1,}\n{"a":2}', [(1, "JSON_TRAILING_COMMA")]),
        ('{"a":[1,]}\n{"a":2}', [(1, "JSON_TRAILING_COMMA")]),
        ('{"a":1},\n{"a":2}', [(1, "JSON_TRAILING_COMMA")]),
        ('{"a":1,"a":2}\n{"a":2}', [(1, "DUPLICATE_KEY")]),
        ('{"a":{"b":1,"b":2}}\n{"a":2}', [(1, "DUPLICATE_KEY")]),
        ('{"a" : 1, "a": 2}\n{"a":2}', [(1, "DUPLICATE_KEY")]),
        ('{"x":[{"a":1, "a":2}]}\n{"a":2}', [(1, "DUPLICATE_KEY")]),
        ('{"a":NaN}\n{"a":2}', [(1, "JSON_NUMBER")]),
        ('{"a":-Infinity,"b":1e999}\n{"a":2}', [(1, "JSON_NUMBER")]),
        ('{"a":' + "9" * 5000 + ',"b":NaN}\n{"a":2}', [(1, "JSON_NUMBER")]),
        ('{"a":"\\ud800"}\n{"a":2}', [(1, "LONE_SURROGATE")]),
        ('{"a":"\\ude00x"}\n{"a":2}', [(1, "LONE_SURROGATE")]),
        ('{"a":' + "[" * 3000 + "]" * 3000 + '}\n{"a":2}', [(1, "NESTED_TOO_DEEP")]),
        ("{'a':1}\n{\"a\":2}", [(1, "JSON_INVALID")]),
        ('{"a":"x\ty"}\n{"a":2}', [(1, "JSON_INVALID")]),
        ('{"a":1} x\n{"a":2}', [(1, "JSON_INVALID")]),
        ('\n# comment\n{"a":2}', [(2, "JSON_INVALID")]),
    ],
)
def test_bad_lines_do_not_end_the_reading(write, text, faults):
    rows, found, _ = read(write("a.jsonl", text))
    assert found == faults
    assert (len(text.splitlines()), {"a": 2}) in rows or any(value == {"a": 2} for _, value in rows)


def test_a_fault_names_the_column(write):
    table = open_table(str(write("a.jsonl", '{"a":1,}\n')))
    assert "column 8" in next(iter(table.rows()))[1].message


def test_text_that_looks_like_keys_is_no_duplicate(write):
    rows = [{"a": 'say "x": 1, "x": 2', "b": {"c": "a:b", "d": '":'}}, {"a": '\\":', "b": [{"c": 1}, {"c": 2}]}]
    assert read(write("a.jsonl", "\n".join(map(line, rows))))[0] == [(1, rows[0]), (2, rows[1])]
    spaced = '{"a" : "x", "b"\t: {"c" :1}}'
    assert read(write("b.jsonl", spaced))[:2] == ([(1, json.loads(spaced))], [])


KEYS = st.sampled_from(["a", "b", "a:b", "\\u0061", "c"])


def objects(values):
    pair = st.builds('"{}"{}:{}'.format, KEYS, st.sampled_from(["", " ", "\t", "  "]), values)
    return st.lists(pair, max_size=4).map(lambda pairs: "{" + ", ".join(pairs) + "}")


VALUES = st.recursive(
    st.sampled_from(["1", '"x"', '"a:b"', '"\\u003a"', '"\\u003A:"', '"\\\\"', '"\\":"', '"\\/"', '"é"']),
    lambda inner: objects(inner) | st.lists(inner, max_size=2).map(lambda items: "[" + ",".join(items) + "]"),
    max_leaves=6,
)


def keys_twice(text):
    seen = []

    def pairs(items):
        seen.append(len(dict(items)) != len(items))
        return dict(items)

    json.loads(text, object_pairs_hook=pairs)
    return any(seen)


@given(st.lists(objects(VALUES), min_size=1, max_size=3))
def test_no_key_that_stands_twice_is_missed_in_a_row_or_among_rows(texts):
    twice = [keys_twice(text) for text in texts]
    for text, expected in zip(texts, twice, strict=True):
        assert not expected or doubtful(text.encode(), orjson.loads(text))
    assert not any(twice) or doubtful("\n".join(texts).encode(), [orjson.loads(text) for text in texts])


def test_what_is_nested_too_deep_to_be_written_again_is_looked_at_closely():
    text = b"[" * 300 + b"]" * 300
    assert doubtful(text, orjson.loads(text))


_GOOD_LINES = ('{"a":2}', '{"a" : "x:y"}', '{"a":"\\u003a"}', '{"a":[{"b":1},{}]}')
_ODD_LINES = ("", " ", "oops", '{"a":1} {"a":2}', "[1", "2]", "null", '{"a":[{}', "{}]}", "{},{}", '{"a":1,"a":2}')
_CUT_LINES = ("1,2,3", "[[1", "2]]", "1],[2", '{"a":[[1', "2]]}", '{"a":', "1}", '"b', 'c"')
LINES = st.sampled_from([*_GOOD_LINES, *_ODD_LINES, *_CUT_LINES, '{"a":NaN}', '{"a":"\\ud800"}', "\ufeff{}"])


@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n"]), st.sampled_from([7, 64, 1 << 18]), st.booleans())
def test_lines_read_together_are_read_as_each_alone(tmp_path_factory, lines, newline, block_bytes, ended):
    folder = tmp_path_factory.mktemp("lines")
    text = newline.join(lines) + (newline if ended else "")
    (folder / "all.jsonl").write_bytes(text.encode())
    expected = []
    for number, one in enumerate(text.split("\n"), 1):
        raw = one.encode()
        raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        expected += [(number, found) for found in examine(raw, 0, "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loopai_trainer.files.tables.source.BLOCK_BYTES", block_bytes)
        patch.setattr("loopai_trainer.files.tables.json_lines._TOGETHER_BYTES", block_bytes // 7)
        patch.setattr("loopai_trainer.files.tables.json_lines._CLOSELY", 2)
        found = list(JsonLines(str(folder / "all.jsonl"), len(text)).rows())

    def plain(items):
        return [(at, (x.code, x.message, x.scope) if isinstance(x, Fault) else repr(x)) for at, x in items]

    assert plain(found) == plain(expected)


def test_good_lines_are_parsed_together_and_a_bad_one_spoils_few(write, monkeypatch):
    monkeypatch.setattr("loopai_trainer.files.tables.json_lines._TOGETHER_BYTES", 64)
    lines = [f'{{"a":{number}}}' for number in range(100)]
    lines[50] = "oops"
    batches = list(open_table(str(write("a.jsonl", "\n".join(lines) + "\n"))).batches())
    assert [position for positions, _ in batches for position in positions] == list(range(1, 101))
    assert all(len(positions) == len(values) > 0 for positions, values in batches)
    spoilt = [positions for positions, values in batches if any(type(value) is Fault for value in values)]
    assert [51 in positions for positions in spoilt] == [True]
    assert len(spoilt[0]) < 12


def test_faults_of_many_lines_are_not_held_at_once(write, monkeypatch):
    monkeypatch.setattr("loopai_trainer.files.tables.json_lines._CLOSELY", 3)
    batches = list(open_table(str(write("a.jsonl", '{"a":1}\n' + "oops\n" * 20))).batches())
    assert [len(values) for _, values in batches] == [3] * 7


def test_items_found_one_by_one_are_handed_on_together(write, monkeypatch):
    text = "[" + ",".join(f'{{"{number}":{number}}}' for number in range(60)) + "]"
    table = open_table(str(write("a.json", text)))
    assert max(len(values) for _, values in table.batches()) > 1
    assert table.shared_lines
    monkeypatch.setattr(json_items, "_HELD_BYTES", 1)
    assert all(len(values) == 1 for _, values in open_table(str(write("b.json", text))).batches())


def test_what_is_said_of_items_does_not_depend_on_later_ones(write):
    table = open_table(str(write("a.json", '[\n{"a":1},\n{"b":2},\n{"c":3}, {"d":4}\n]')))
    seen = [(list(positions), table.shared_lines) for positions, _ in table.batches()]
    assert seen == [([2, 3, 4], False), ([4], True)]


@pytest.mark.parametrize(
    ("text", "faults", "count"),
    [
        ('[{"a":1},\n{"a":2},\n]', [(3, "JSON_TRAILING_COMMA")], 2),
        ('[{"a":1}\n{"a":2}]', [(2, "JSON_INVALID")], 2),
        ('[{"a":1},,\n{"a":2}]', [(2, "JSON_INVALID")], 2),
        ('[,{"a":1}]', [(1, "JSON_INVALID")], 1),
        ('[{"a":1},\n{"a":2,},\n{"a":3}]', [(2, "JSON_TRAILING_COMMA")], 2),
        ('[{"a":1},\n{"a":\n oops},\n{"a":3}]', [(3, "JSON_INVALID")], 2),
        ('[{"a":1},\n{"a":2}', [(2, "JSON_CUT")], 2),
        ('[{"a":1},\n{"a":"2', [(2, "JSON_CUT")], 1),
        ('[{"a":1},\n{"a":"x\ny"},\n{"a":3}]', [(2, "JSON_INVALID")], 2),
        ('[{"a":1}]\n[2]', [(1, "ROWLIKE")], 0),
        ('[{"a":1},\n{"b":2}]\nmore', [(3, "JSON_EXTRA")], 2),
        ('[{"a":1}}]', [(1, "JSON_INVALID")], 1),
        ('[{"a":1},\n{"a":1,"a":2}]', [(2, "DUPLICATE_KEY")], 1),
        ('[{"a":1},\n{"a":NaN}]', [(2, "JSON_NUMBER")], 2),
        ('[{"a":1},\nword]', [(2, "JSON_INVALID")], 1),
        ('{\n"a":1},\n{\n"a":2}', [(3, "JSON_INVALID")], 2),
        ('{\n"a":1\n}\n]', [(4, "JSON_INVALID")], 1),
    ],
)
def test_faults_of_a_list_or_of_objects(write, text, faults, count):
    rows, found, _ = read(write("a.json", text))
    if faults[0][1] == "ROWLIKE":
        # Lines that each hold a list: the row check says what is wrong with them.
        assert [value for _, value in rows] == [[{"a": 1}], [2]]
        return
    assert found == faults
    assert len(rows) == count


@pytest.mark.parametrize("codec", ["gbk", "gb18030", "shift_jis", "cp1252"])
def test_other_encodings_are_refused_with_offset_and_name(write, codec):
    text = {"cp1252": "café été", "shift_jis": "こんにちは、世界"}.get(codec, "请详细解释一下水泵是如何工作的")
    path = write("a.jsonl", b'{"a":"plain"}\n' + f'{{"a":"{text}"}}\n'.encode(codec))
    table = open_table(str(path))
    rows = list(table.rows())
    fault = rows[1][1]
    assert rows[1][0] == 2
    assert fault.code == "ENCODING"
    offset = next(index for index, byte in enumerate(path.read_bytes()) if byte >= 0x80)
    if codec in ("gbk", "gb18030"):
        assert f"byte offset {offset}" in fault.message
        assert "iconv -f GBK" in fault.hint
    if codec == "cp1252":
        assert "iconv -f WINDOWS-1252" in fault.hint


def test_a_single_bad_byte_is_found_in_a_list_too(write):
    path = write("a.json", b'[{"a":"x"},\n{"a":\n"\xff"},{"a":"y"}]')
    rows, faults, _ = read(path)
    assert faults == [(3, "ENCODING")]
    assert len(rows) == 2


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_refused_at_once(write, codec):
    rows, faults, _ = read(write("a.jsonl", '{"a":1}\n'.encode(codec)))
    assert (rows, faults) == ([], [(0, "ENCODING")])


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        ("a.csv", b"a,b", "accepted are"),
        ("a.jsonl.gz", gzip.compress(b"{}", mtime=0), "gunzip"),
        ("a.jsonl", gzip.compress(b"{}", mtime=0), "gunzip"),
        ("a.json", b"PAR1....PAR1", ".parquet"),
        ("a.ndjson", b"{}", "name it .jsonl"),
        ("a", b"{}", "accepted are"),
        ("a.txt", b"{}", "accepted are"),
    ],
)
def test_other_files_are_refused_with_advice(write, name, data, hint):
    table = open_table(str(write(name, data)))
    ((position, fault),) = table.rows()
    assert (position, fault.code, fault.scope) == (0, "FILE_TYPE", "file")
    assert hint in fault.hint


def test_folders_pipes_and_absent_files_are_refused(tmp_path):
    assert read(tmp_path)[1] == [(0, "NOT_A_FILE")]
    assert read(tmp_path / "none.json")[1] == [(0, "FILE_NOT_FOUND")]
    ((_, fault),) = open_table(f"{tmp_path}/a.json,{tmp_path}/b.json").rows()
    assert "join them" in fault.hint
    os.mkfifo(tmp_path / "p.json")
    assert read(tmp_path / "p.json")[1] == [(0, "NOT_A_FILE")]
    assert read(tmp_path / ("x" * 300 + ".json"))[1] == [(0, "FILE_UNREADABLE")]


def test_hash_size_and_notes_are_of_the_whole_file(write):
    path = write("a.jsonl", "\ufeff" + line(GOOD) + "\n" + line(GOOD))
    rows, _, table = read(path)
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert table.bytes_read == path.stat().st_size
    assert table.notes == ["byte-order mark left out"]
    assert len(rows) == 2


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_row_that_is_too_long_is_told_and_skipped(write, name, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_BYTES", 64)
    for module in (json_values, json_items):
        monkeypatch.setattr(module, "MAX_ROW_BYTES", 200)
    monkeypatch.setattr("loopai_trainer.files.tables.json_lines.MAX_ROW_BYTES", 200)
    rows = [{"a": "1"}, {"a": "x" * 1000}, {"a": "2"}, {"a": "y" * 1000}]
    text = "\n".join(map(line, rows)) if name == "a.jsonl" else "[" + ",\n".join(map(line, rows)) + "]"
    found, faults, _ = read(write(name, text))
    if name == "a.jsonl":
        assert found == [(1, rows[0]), (3, rows[2])]
        assert faults == [(2, "ROW_TOO_LONG"), (4, "ROW_TOO_LONG")]
    else:
        assert found == [(1, rows[0])]
        assert faults == [(2, "ROW_TOO_LONG")]


def test_parquet_rows_are_counted_from_zero(tmp_path):
    rows = [{"a": "x", "b": [1, 2]}, {"a": None, "b": None}, {"a": "z", "b": []}]
    path = tmp_path / "a.PARQUET"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    found, faults, table = read(path)
    assert found == list(enumerate(rows))
    assert faults == []
    assert table.unit == "row"
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_damaged_parquet_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    assert read(path)[1] == [(0, "PARQUET_INVALID")]
    path.write_bytes(b"")
    assert read(path)[1] == [(0, "PARQUET_INVALID")]
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    pyarrow.parquet.write_table(table, path)
    assert read(path)[1] == [(0, "DUPLICATE_KEY")]


def test_parquet_text_that_is_not_utf8_is_told_by_row(tmp_path):
    data = pyarrow.array([b"good", b"\xff\xfe", b"fine"], pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), 3, data.buffers())
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([text], names=["a"]), tmp_path / "a.parquet")
    rows, faults, _ = read(tmp_path / "a.parquet")
    assert faults == [(1, "ENCODING")]
    assert rows == [(0, {"a": "good"}), (2, {"a": "fine"})]


TEXT = st.text(max_size=12) | st.sampled_from(['"', "\\", '":', "}, {", "]", "[{", '\\\\"', "，", "}", '{"a"'])
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ROW = st.dictionaries(st.sampled_from(["instruction", "input", "output", "a b", ""]), VALUE, max_size=4)


@settings(deadline=None)
@given(st.lists(ROW | VALUE, max_size=12), st.sampled_from([None, 2]), st.booleans(), st.integers(3, 40))
def test_lines_and_lists_give_the_rows_that_were_written(tmp_path_factory, rows, indent, ascii_only, block):
    folder = tmp_path_factory.mktemp("twins")
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_only)
    (folder / "a.json").write_text(text, encoding="utf-8")
    (folder / "a.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows), encoding="utf-8"
    )
    before, source.BLOCK_BYTES = source.BLOCK_BYTES, block
    try:
        as_list, list_faults, table = read(folder / "a.json")
        as_lines, line_faults, _ = read(folder / "a.jsonl")
    finally:
        source.BLOCK_BYTES = before
    assert list_faults == line_faults == []
    assert [value for _, value in as_list] == rows
    if as_lines and isinstance(rows[0], list) and len(rows) == 1:
        # One line that is a list is read as the list of rows.
        assert [value for _, value in as_lines] == rows[0]
    elif not (rows and isinstance(rows[0], list)):
        assert as_lines == [(index + 1, row) for index, row in enumerate(rows)]
    if indent:
        starts = [position for position, _ in as_list]
        assert starts == sorted(starts)
        assert [text.split("\n")[start - 1].strip()[:1] for start in starts] == [json.dumps(row)[:1] for row in rows]
    assert table.sha256 == hashlib.sha256((folder / "a.json").read_bytes()).hexdigest()


@settings(deadline=None)
@given(
    st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ \n\r1aé\ufeff', max_size=80).map(str.encode),
    st.sampled_from(["jsonl", "json", "parquet"]),
)
def test_any_bytes_are_read_without_an_error(tmp_path_factory, data, extension):
    path = tmp_path_factory.mktemp("bytes") / f"a.{extension}"
    path.write_bytes(data)
    rows, _faults, table = read(path)
    assert all(position >= 0 for position, _ in rows)
    if table.bytes_read:
        assert table.sha256 == hashlib.sha256(data).hexdigest()


def test_memory_does_not_grow_with_the_row_groups_of_a_parquet_file(tmp_path):
    path, group = tmp_path / "a.parquet", 1 << 20
    table = pyarrow.table({"a": [str(n) * (group // 100) for n in range(100, 200)]})
    with pyarrow.parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(24):
            writer.write_table(table)
    before = pyarrow.total_allocated_bytes()
    held = [pyarrow.total_allocated_bytes() for _ in open_table(str(path)).rows()]
    assert len(held) == 2400
    assert max(held) - before < 3 * table.nbytes
