"""The Parquet files that training reads, and their registry."""

import hashlib
import json
import os
import stat
from collections import Counter

import pyarrow.parquet
import pytest

from loopai_trainer.files import snapshots
from loopai_trainer.files.snapshots import SnapshotWriter, remove_others, rows_at, split_snapshot, write_registry
from loopai_trainer.records import Row, Turn
from loopai_trainer.rules.rows.columns import columns_of


def row(number, text="答", system="", tools=""):
    return Row((Turn("user", f"q{number}"), Turn("assistant", text)), system, tools, number)


def written(folder, rows, name="train"):
    with SnapshotWriter(str(folder)) as writer:
        for one in rows:
            writer.add(one)
        return writer.finish(name, ("/source", "ab"))


def test_a_snapshot_holds_the_rows_in_the_one_schema(tmp_path):
    rows = [row(1, system="s"), row(2, tools="[]"), row(4)]
    file = written(tmp_path, rows)
    data = (tmp_path / os.path.basename(file.path)).read_bytes()
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    assert (file.bytes, file.rows, file.source_path, file.source_sha256) == (len(data), 3, "/source", "ab")
    assert os.path.basename(file.path) == f"train-{file.sha256[:16]}.parquet"
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o444
    table = pyarrow.parquet.read_table(file.path)
    assert table.schema.equals(snapshots.SCHEMA)
    assert str(table.schema.field("messages").type) == "list<element: struct<role: string, content: string>>"
    assert table.to_pylist()[0] == {
        "messages": [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "答"}],
        "system": "s",
        "tools": "",
        "source_line": 1,
    }
    assert rows_at(file.path, [2, 0]) == {0: rows[0], 2: rows[2]}
    assert os.listdir(tmp_path) == [os.path.basename(file.path)]


def test_the_same_rows_give_the_same_bytes(tmp_path):
    rows = [row(number) for number in range(100)]
    assert written(tmp_path, rows).sha256 == written(tmp_path, iter(rows)).sha256
    assert written(tmp_path, rows).sha256 != written(tmp_path, rows[::-1]).sha256


def test_row_groups_are_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "GROUP_ROWS", 4)
    file = written(tmp_path, [row(number) for number in range(10)])
    assert pyarrow.parquet.ParquetFile(file.path).num_row_groups == 3
    monkeypatch.setattr(snapshots, "GROUP_CHARACTERS", 100)
    file = written(tmp_path, [row(number, "x" * 60) for number in range(4)])
    assert pyarrow.parquet.ParquetFile(file.path).num_row_groups == 2
    assert rows_at(file.path, range(4)) == {number: row(number, "x" * 60) for number in range(4)}


@pytest.mark.parametrize("group_rows", [1, 3, 100])
@pytest.mark.parametrize("group_characters", [40, 1 << 20])
@pytest.mark.parametrize("at_once", [1, 2, 5, 40])
def test_rows_added_together_give_the_bytes_of_each_added_alone(
    tmp_path, monkeypatch, group_rows, group_characters, at_once
):
    monkeypatch.setattr(snapshots, "GROUP_ROWS", group_rows)
    monkeypatch.setattr(snapshots, "GROUP_CHARACTERS", group_characters)
    rows = [row(number, "水a"[number % 2] * (number % 13), system="s" * (number > 30)) for number in range(40)]
    rows[7] = Row((*rows[7].messages, *rows[8].messages), "", "", 7)
    expected = written(tmp_path, rows)
    with SnapshotWriter(str(tmp_path)) as writer:
        characters = []
        for start in range(0, 40, at_once):
            some = rows[start : start + at_once]
            columns = columns_of(some)
            # Some have their contents as an Arrow array already.
            contents = pyarrow.array(columns.contents) if start % 3 else None
            characters += writer.add_rows(columns, [one.source_line for one in some], contents)
        found = writer.finish("other")
    assert (found.sha256, found.rows) == (expected.sha256, 40)
    assert characters == [sum(len(text) for _, text in one.messages) + len(one.system) for one in rows]


def test_a_split_copies_every_row_to_one_side(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "GROUP_ROWS", 4)
    rows = [row(number, "a" * number, system="s" * (number % 3), tools="[]") for number in range(11)]
    chosen = bytearray(number % 3 == 0 for number in range(11))
    with (
        SnapshotWriter(str(tmp_path)) as both,
        SnapshotWriter(str(tmp_path)) as kept,
        SnapshotWriter(str(tmp_path)) as held,
    ):
        for one in rows:
            both.add(one)
        lengths = split_snapshot(both.close(), chosen, kept, held)
        train, validation = kept.finish("train"), held.finish("validation")
    assert (train.rows, validation.rows) == (7, 4)
    assert list(rows_at(train.path, range(7)).values()) == [rows[n] for n in range(11) if n % 3]
    assert list(rows_at(validation.path, range(4)).values()) == [rows[n] for n in range(11) if n % 3 == 0]
    size = {number: len(f"q{number}") + number + number % 3 + 2 for number in range(11)}
    assert lengths == (Counter(size[n] for n in range(11) if n % 3), Counter(size[n] for n in range(11) if n % 3 == 0))
    assert len(os.listdir(tmp_path)) == 2


def test_an_error_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), SnapshotWriter(str(tmp_path)) as writer:
        writer.add(row(1))
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_the_registry_lists_every_key_that_llamafactory_knows(tmp_path):
    path = str(tmp_path / "dataset_info.json")
    file = write_registry(path, {"train": "/data/水/train.parquet"})
    data = (tmp_path / "dataset_info.json").read_bytes()
    assert data.isascii()
    assert (file.path, file.sha256, file.bytes) == (path, hashlib.sha256(data).hexdigest(), len(data))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o444
    entry = json.loads(data)["train"]
    assert entry["file_name"] == "/data/水/train.parquet"
    assert entry["formatting"] == "sharegpt"
    names = [
        "prompt",
        "query",
        "response",
        "history",
        "messages",
        "system",
        "tools",
        "images",
        "videos",
        "audios",
        "chosen",
        "rejected",
        "kto_tag",
    ]
    assert sorted(entry["columns"]) == sorted(names)
    assert {key: value for key, value in entry["columns"].items() if value} == {
        name: name for name in ("messages", "system", "tools")
    }
    assert entry["tags"] == {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "observation_tag": "tool",
        "function_tag": "function",
        "system_tag": "system",
    }
    write_registry(path, {"train": "/other"})
    assert json.loads((tmp_path / "dataset_info.json").read_bytes())["train"]["file_name"] == "/other"


def test_what_an_earlier_prepare_left_is_removed(tmp_path):
    for name in ("train-1.parquet", "validation-2.parquet", ".snapshot.1.ab.tmp", "rejected_rows.jsonl", "notes.txt"):
        (tmp_path / name).write_text("x")
    remove_others(str(tmp_path), [str(tmp_path / "train-1.parquet")])
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "train-1.parquet"]


def test_rows_in_order_reads_the_groups_that_are_wanted(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "GROUP_ROWS", 4)
    rows = [row(number) for number in range(11)]
    path = written(tmp_path, rows).path
    assert [one for group in snapshots.rows_in_order(path, iter(range(11))) for one in group] == rows
    assert list(snapshots.rows_in_order(path, iter([1, 3, 10]))) == [[rows[1], rows[3]], [rows[10]]]
    assert list(snapshots.rows_in_order(path, iter([]))) == []
    assert list(snapshots.rows_in_order(path, iter([2, 99]))) == [[rows[2]]]
