"""Snapshots: the Parquet files and the registry that training reads; row_groups knows their schema.

A snapshot's bytes depend on its rows alone (and on pyarrow's version); its name holds its hash; nobody writes it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import operator
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from loopai_trainer.files import atomic, snapshot_items
from loopai_trainer.files.row_groups import SCHEMA, RowGroup
from loopai_trainer.records import InputFile, Row, Turn
from loopai_trainer.rules.rows.columns import Columns, columns_of

READ_ONLY = 0o444
GROUP_ROWS = 10_000
GROUP_CHARACTERS = 2 << 20
"""A row group is written when it has this many rows or characters: what bounds the memory of writer and reader."""

_COLUMNS = {
    "messages": "messages",
    "system": "system",
    "tools": "tools",
    **dict.fromkeys(
        ("prompt", "query", "response", "history", "images", "videos", "audios", "chosen", "rejected", "kto_tag")
    ),
}
_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function",
    "system_tag": "system",
}
"""Every key that LLaMA-Factory 0.9.5 knows (data/parser.py DatasetAttr.join): one left out would become None anyway,

and a map that lists them all means the same under a version with other defaults.
"""


class SnapshotWriter:
    """Writes rows to a temporary file in `folder`; `finish` gives it its name. Use as a context manager.

    Leaving the context without `finish` removes the file. Raises OSError.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._temp = os.path.join(folder, f".snapshot.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        self._file = _HashedFile(self._temp)
        self._writer = pyarrow.parquet.ParquetWriter(
            self._file,
            SCHEMA,
            compression="none",
            use_dictionary=_DICTIONARIES,
            write_statistics=False,
            write_batch_size=_LEAVES_AT_ONCE,
        )
        self._group = self._new_group()
        self._tables: list[Any] = []
        self._table_size = (0, 0)
        self.rows = 0

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        # pyarrow writes a footer when it closes: a full disk must not hide the error that led here.
        self._file.abandon()
        self._writer.close()
        self._file.close()
        if os.path.lexists(self._temp):
            os.unlink(self._temp)

    def add(self, row: Row) -> None:
        """Append one row; many cost far less by `add_rows`."""
        self.add_rows(columns_of([row]), [row.source_line])

    def add_rows(self, rows: Columns, lines: Sequence[int], contents: Any = None) -> list[int]:
        """Append rows, of which `lines` are the positions in their source; gives the characters of each.

        `contents`: those of `rows` as an Arrow array, if there is one already.
        """
        characters = rows.characters()
        self.rows += len(characters)
        sizes = list(itertools.accumulate(characters, initial=0))
        start = 0
        while start < len(characters):
            start = self._group.add(rows, lines, sizes, start, contents)
            if self._group.full:
                self._write_group()
                # What a row group took is not kept for the next one: the pool would hold several times as much.
                pyarrow.default_memory_pool().release_unused()
        return characters

    def _new_group(self) -> RowGroup:
        return RowGroup(GROUP_ROWS, GROUP_CHARACTERS)

    def _write_group(self) -> None:
        self._writer.write_table(self._group.table())
        self._group = self._new_group()

    def add_table(self, table: Any) -> None:
        """Append rows that are in the schema already, a few at a time; in groups of bounded size."""
        self.rows += table.num_rows
        self._tables.append(table)
        rows, size = self._table_size
        self._table_size = (rows + table.num_rows, size + table.nbytes)
        if self._table_size[0] >= GROUP_ROWS or self._table_size[1] >= GROUP_CHARACTERS:
            self._write_tables()

    def _write_tables(self) -> None:
        if self._tables:
            self._writer.write_table(pyarrow.concat_tables(self._tables).combine_chunks())
        self._tables, self._table_size = [], (0, 0)

    def name_items(self, items: Iterable[int]) -> None:
        """Say which items of the source list the rows were (1-based, ascending); all rows have to be there already."""
        self._writer.add_key_value_metadata(snapshot_items.packed(items))

    def close(self) -> str:
        """Write what is left; gives the temporary path. The file still goes away with the context."""
        self._write_tables()
        if self._group.rows:
            self._write_group()
        self._writer.close()
        self._file.sync()
        return self._temp

    def finish(self, name: str, source: tuple[str, str] | None = None) -> InputFile:
        """Give the file its final name `name-<first 16 hex of its SHA-256>.parquet`, mode 0444.

        `source`: path and SHA-256 of the file that the rows came from.
        """
        self.close()
        digest = self._file.sha256
        path = os.path.join(self._folder, f"{name}-{digest[:16]}.parquet")
        os.chmod(self._temp, READ_ONLY)
        os.replace(self._temp, path)
        atomic.sync_folder(self._folder)
        source_path, source_sha256 = source or (None, None)
        return InputFile(path, digest, self._file.size_bytes, self.rows, source_path, source_sha256)


_LEAVES_AT_ONCE = 1 << 15
_DICTIONARIES = ["messages.list.element.role", "system", "tools"]
"""Contents hardly repeat: a dictionary of them would only be built to be given up."""


def split_snapshot(
    path: str, chosen: bytearray, kept: SnapshotWriter, held_out: SnapshotWriter
) -> tuple[Counter[int], Counter[int]]:
    """Copy the rows of `path` into `held_out` where `chosen` is 1, else into `kept`, in order, in bounded memory.

    Gives how many rows have how many characters, for `kept` and for `held_out`.
    """
    lengths: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    start = 0
    with pyarrow.parquet.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            table = file.read_row_group(index, use_threads=False)
            flags = chosen[start : start + table.num_rows]
            start += table.num_rows
            for flag, characters in zip(flags, _characters(table), strict=True):
                lengths[flag][characters] += 1
            mask = pyarrow.array(map(bool, flags), pyarrow.bool_())
            held_out.add_table(table.filter(mask))
            kept.add_table(table.filter(pyarrow.compute.invert(mask)))
    items = snapshot_items.read(path)
    if items is not None:
        held_out.name_items(itertools.compress(items, chosen))
        kept.name_items(itertools.compress(items, map(operator.not_, chosen)))
    return lengths


def _characters(table: Any) -> list[int]:
    """Characters of each row: system, tools and all turns."""
    messages = table.column("messages").combine_chunks()
    of_turns = pyarrow.compute.utf8_length(pyarrow.compute.struct_field(messages.values, "content")).to_pylist()
    before = [0, *itertools.accumulate(of_turns)]
    ends = messages.offsets.to_pylist()
    systems = pyarrow.compute.utf8_length(table.column("system")).to_pylist()
    tools = pyarrow.compute.utf8_length(table.column("tools")).to_pylist()
    return [
        before[end] - before[start] + system + tool
        for start, end, system, tool in zip(ends[:-1], ends[1:], systems, tools, strict=True)
    ]


def rows_at(path: str, indices: Sequence[int]) -> dict[int, Row]:
    """The rows with these 0-based indices; only their row groups are read."""
    found: dict[int, Row] = {}
    wanted = sorted(set(indices))
    start, position = 0, 0
    with pyarrow.parquet.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            end = start + file.metadata.row_group(index).num_rows
            here = []
            while position < len(wanted) and wanted[position] < end:
                here.append(wanted[position])
                position += 1
            if here:
                table = file.read_row_group(index, use_threads=False).take([row - start for row in here])
                found.update(zip(here, map(_row, table.to_pylist()), strict=True))
            start = end
    return found


def rows_in_order(path: str, wanted: Iterator[int]) -> Iterator[list[Row]]:
    """The rows with these ascending 0-based indices, by row group; groups without any of them are not read."""
    start = 0
    next_row = next(wanted, None)
    with pyarrow.parquet.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            end = start + file.metadata.row_group(index).num_rows
            here = []
            while next_row is not None and next_row < end:
                here.append(next_row - start)
                next_row = next(wanted, None)
            if here:
                table = file.read_row_group(index, use_threads=False)
                yield [_row(value) for value in table.take(here).to_pylist()]
            start = end


def _row(value: Mapping[str, Any]) -> Row:
    turns = tuple(Turn(turn["role"], turn["content"]) for turn in value["messages"])
    return Row(turns, value["system"], value["tools"], value["source_line"])


def registry_entry(file: str) -> dict[str, Any]:
    """The entry of `dataset_info.json` that leads to the snapshot at the absolute path `file`, complete."""
    return {
        "file_name": file,
        "formatting": "sharegpt",
        "ranking": False,
        "columns": dict(_COLUMNS),
        "tags": dict(_TAGS),
    }


def write_registry(path: str, files: Mapping[str, str]) -> InputFile:
    """LLaMA-Factory's `dataset_info.json`: an entry for each (name, absolute path of a snapshot); mode 0444."""
    entries = {name: registry_entry(file) for name, file in files.items()}
    # ASCII only: LLaMA-Factory opens the file in the locale's encoding.
    data = (json.dumps(entries, ensure_ascii=True, indent=2) + "\n").encode("ascii")
    atomic.write_bytes(path, data, READ_ONLY)
    return InputFile(path, hashlib.sha256(data).hexdigest(), len(data))


def remove_others(folder: str, wanted: Sequence[str]) -> None:
    """Remove what an earlier prepare left in `folder`: snapshots, rejected rows and temporary files not in `wanted`."""
    keep = {os.path.basename(path) for path in wanted}
    for name in os.listdir(folder):
        ours = name.endswith((".parquet", ".tmp")) or name in ("rejected_rows.jsonl", "dataset_info.json")
        if ours and name not in keep:
            os.unlink(os.path.join(folder, name))


class _HashedFile:
    """A new file that is hashed as it is written; what pyarrow takes for a file object."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, atomic.PRIVATE)
        self._file = io.BufferedWriter(io.FileIO(fd, "wb"))
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False
        self._abandoned = False

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """What is written from now on is dropped."""
        self._abandoned = True
        with contextlib.suppress(OSError):
            self._file.close()

    def write(self, data: Any) -> int:
        if self._abandoned:
            return len(data)
        self._digest.update(data)
        count = self._file.write(data)
        self.size_bytes += count
        return count

    def flush(self) -> None:
        """Nothing: what is written is only relied on after `sync`."""

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.closed = True
