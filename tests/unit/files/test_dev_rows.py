import hashlib
import json
import os

import pyarrow
import pyarrow.parquet
import pytest

from loopai_trainer.errors import NotShown
from loopai_trainer.files import dev_rows


def parquet(path, lengths, metadata=None):
    table = pyarrow.table({"number": range(len(lengths)), "text": ["x" * length for length in lengths]})
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    return str(path)


def numbers(path):
    return pyarrow.parquet.read_table(path)["number"].to_pylist()


@pytest.mark.parametrize(("rows", "there", "taken"), [(3, 10, 3), (3, 2, 2), (3, 0, 0)])
def test_the_first_rows_and_no_more(tmp_path, rows, there, taken):
    source = parquet(tmp_path / "a.parquet", [1] * there)
    file = dev_rows.write(source, str(tmp_path / "dev" / "train.parquet"), rows)
    assert (file.rows, numbers(file.path)) == (taken, list(range(taken)))
    with open(file.path, "rb") as written:
        data = written.read()
    assert (file.sha256, file.bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert os.stat(file.path).st_mode & 0o777 == 0o444


def test_columns_of_nothing_and_of_structures_are_kept(tmp_path):
    table = pyarrow.table({"a": pyarrow.nulls(5), "b": [[{"role": "user", "content": "x"}]] * 5})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    file = dev_rows.write(str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"), 3, longest=True)
    assert pyarrow.parquet.read_table(file.path).equals(table.slice(0, 3))


def test_half_of_them_are_the_longest_in_their_own_order(tmp_path):
    source = parquet(tmp_path / "a.parquet", [5, 5, 1, 900, 2, 1, 800, 3])
    file = dev_rows.write(source, str(tmp_path / "b.parquet"), 4, longest=True)
    assert numbers(file.path) == [0, 1, 3, 6]


def test_the_longest_are_looked_for_at_the_beginning_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(dev_rows, "LOOKED_AT", 4)
    source = parquet(tmp_path / "a.parquet", [1, 1, 1, 7, 10_000])
    file = dev_rows.write(source, str(tmp_path / "b.parquet"), 2, longest=True)
    assert numbers(file.path) == [0, 3]


def test_what_the_file_says_of_all_its_rows_is_left_out_and_the_rest_kept(tmp_path):
    source = parquet(tmp_path / "a.parquet", [1] * 3, {"loopai.items": "AAAA", "huggingface": "{}"})
    file = dev_rows.write(source, str(tmp_path / "b.parquet"), 2)
    metadata = pyarrow.parquet.read_schema(file.path).metadata
    assert metadata[b"huggingface"] == b"{}"
    assert b"loopai.items" not in metadata


def test_lines_of_json(tmp_path):
    source = tmp_path / "tasks.jsonl"
    source.write_text("".join(json.dumps({"n": number}) + "\n\n" for number in range(9)))
    file = dev_rows.write(str(source), str(tmp_path / "b.jsonl"), 2)
    with open(file.path) as written:
        assert [json.loads(line)["n"] for line in written] == [0, 1]
    assert file.rows == 2


@pytest.mark.parametrize(
    ("name", "words"), [("a.parquet", "cannot be read as Parquet"), ("a.csv", "neither Parquet nor JSON Lines")]
)
def test_other_files_are_refused(tmp_path, name, words):
    source = tmp_path / name
    source.write_bytes(b"PAR1, or not")
    with pytest.raises(NotShown, match=words):
        dev_rows.write(str(source), str(tmp_path / "b.parquet"), 2)
