"""The Parquet files that GRPO reads, and the temporary ones on the way: the only place that knows their schema."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet

from loopai_trainer.files import atomic
from loopai_trainer.files.hashing import sha256_file
from loopai_trainer.files.prompt_columns import NativeFile
from loopai_trainer.files.prompt_values import ValueTypes, to_json
from loopai_trainer.records import InputFile
from loopai_trainer.rules.prompts.columns import PromptColumns

READ_ONLY = 0o444
GROUP_ROWS = 10_000
GROUP_CHARACTERS = 4 << 20
"""A row group is written when it has this many rows or characters: what bounds the memory of writer and reader."""
_FEW_ROWS = 1000
"""Tables of fewer rows are put together before they are written, which costs a copy."""
DEFAULT_STYLE = "rule"
OWN_EXTRA = ("index", "split", "source_position")
"""extra_info that every converted row has, unless its source has a key of that name."""

_TURN = pyarrow.struct([pyarrow.field("role", pyarrow.string()), pyarrow.field("content", pyarrow.string())])
_SPOOL = pyarrow.schema(
    [
        pyarrow.field("prompt", pyarrow.list_(_TURN)),
        pyarrow.field("data_source", pyarrow.string()),
        pyarrow.field("ability", pyarrow.string()),
        pyarrow.field("style", pyarrow.string()),
        pyarrow.field("truth", pyarrow.string()),
        pyarrow.field("extra", pyarrow.string()),
        pyarrow.field("position", pyarrow.int64()),
    ]
)
_DICTIONARIES = ["prompt.list.element.role", "data_source", "ability", "reward_model.style", "extra_info.split"]

Keep = Callable[[int, int], bytearray]
"""(first row, number of rows) -> a flag for each: 0 goes nowhere, n into the n-th target."""


def temporary(folder: str) -> str:
    """A new name in `folder`, which `snapshots.remove_others` would clear away."""
    return os.path.join(folder, f".prompts.{os.getpid()}.{os.urandom(4).hex()}.tmp")


class Spool:
    """Converted rows in a temporary file, until it is known which go where and what types they have.

    `plain_truth`: whether all ground truths are text. Use as a context manager; the file goes away with it.
    """

    def __init__(self, folder: str) -> None:
        self.path = temporary(folder)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, atomic.PRIVATE)
        self._file = os.fdopen(fd, "wb")
        self._writer = pyarrow.ipc.new_file(self._file, _SPOOL)
        self._tables: list[Any] = []
        self._bytes = 0
        self.truth_types = ValueTypes()
        self.extra_types = ValueTypes()
        self.plain_truth = True

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):  # a footer that finds no room must not hide the error that led here
            self._finish()
        if os.path.lexists(self.path):
            os.unlink(self.path)

    def add(self, columns: PromptColumns, positions: Sequence[int]) -> list[int]:
        """Append rows, of which `positions` are the places in their source; gives the characters of each prompt."""
        count = len(columns.truths)
        contents = pyarrow.array(columns.contents, pyarrow.string())
        sizes: list[int] = pyarrow.compute.utf8_length(contents).to_pylist()
        if columns.turns:
            ends = list(accumulate(sizes, initial=0))
            starts = list(accumulate(columns.turns, initial=0))
            sizes = [ends[end] - ends[start] for start, end in pairwise(starts)]
        truths = columns.truths
        if set(map(type, truths)) != {str}:
            self.plain_truth = False
            self.truth_types.observe([{"ground_truth": truth} for truth in truths if type(truth) is not str])
            truths = [truth if type(truth) is str else to_json(truth) for truth in truths]
        extras: Any = pyarrow.nulls(count, pyarrow.string())
        if columns.extras:
            self.extra_types.observe(columns.extras)
            extras = pyarrow.array([to_json(extra) if extra else None for extra in columns.extras], pyarrow.string())
        arrays = [
            _turns(contents, columns),
            pyarrow.array(columns.data_sources, pyarrow.string()),
            *(pyarrow.array(texts or [""] * count, pyarrow.string()) for texts in (columns.abilities, columns.styles)),
            pyarrow.array(truths, pyarrow.string()),
            extras,
            pyarrow.array(positions, pyarrow.int64()),
        ]
        self._add(pyarrow.Table.from_arrays(arrays, schema=_SPOOL))
        return sizes

    def add_questions(self, questions: Any, truths: Any, data_source: str, positions: Sequence[int]) -> None:
        """As `add`, of prompts of one user turn each and ground truths that are texts, both as Arrow arrays."""
        count = len(questions)
        nothing = pyarrow.repeat(pyarrow.scalar(""), count)
        arrays = [
            _as_turns(questions),
            pyarrow.repeat(pyarrow.scalar(data_source), count),
            nothing,
            nothing,
            truths,
            pyarrow.nulls(count, pyarrow.string()),
            _places(positions),
        ]
        self._add(pyarrow.Table.from_arrays(arrays, schema=_SPOOL))

    def _add(self, table: Any) -> None:
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes >= GROUP_CHARACTERS:
            self._write()

    def close(self) -> str:
        """Write what is left; gives the path."""
        self._write()
        self._finish()
        return self.path

    def _finish(self) -> None:
        if not self._file.closed:
            self._writer.close()
            self._file.close()

    def _write(self) -> None:
        if self._tables:
            self._writer.write_table(_together(self._tables))
        self._tables, self._bytes = [], 0


def _together(tables: Sequence[Any]) -> Any:
    table = pyarrow.concat_tables(tables)
    return table.combine_chunks() if table.num_rows < _FEW_ROWS * len(tables) else table


def _turns(contents: Any, columns: PromptColumns) -> Any:
    if not columns.turns:
        return _as_turns(contents)
    roles = pyarrow.array(columns.roles, pyarrow.string())
    return _listed(roles, contents, pyarrow.array(list(accumulate(columns.turns, initial=0)), pyarrow.int32()))


def _as_turns(contents: Any) -> Any:
    """Prompts of one user turn each."""
    return _listed(pyarrow.repeat("user", len(contents)), contents, _counted(len(contents) + 1))


def _listed(roles: Any, contents: Any, ends: Any) -> Any:
    return pyarrow.ListArray.from_arrays(ends, pyarrow.StructArray.from_arrays([roles, contents], fields=list(_TURN)))


def _counted(count: int) -> Any:
    """0, 1, 2 ... as 32-bit integers."""
    ones = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int32()), count)
    return pyarrow.compute.cumulative_sum(ones, start=-1)


def _places(positions: Sequence[int]) -> Any:
    if not isinstance(positions, range):
        return pyarrow.array(positions, pyarrow.int64())
    ones = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), len(positions))
    return pyarrow.compute.cumulative_sum(ones, start=positions.start - 1)


def spooled_prompts(path: str, rows: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
    """The (role, content) turns of these 0-based rows of a spool."""
    found: dict[int, list[tuple[str, str]]] = {}
    wanted, start = sorted(set(rows)), 0
    with pyarrow.OSFile(path) as source:
        for batch in _spooled(source):
            here = [row for row in wanted if start <= row < start + batch.num_rows]
            prompts = batch.column("prompt").take(pyarrow.array([row - start for row in here], pyarrow.int64()))
            for row, turns in zip(here, prompts.to_pylist(), strict=True):
                found[row] = [(turn["role"], turn["content"]) for turn in turns]
            start += batch.num_rows
    return found


def _spooled(source: Any) -> Iterator[Any]:
    reader = pyarrow.ipc.open_file(source)
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)


class Target:
    """A Parquet file on its way into prepared_data. Use as a context manager: without `finish` it goes away."""

    def __init__(self, folder: str, schema: Any = None, compression: str = "none", path: str | None = None) -> None:
        """`compression`: of Parquet (decision 13). `path`: a file that is complete already, and only gets its name."""
        self._folder = folder
        self.path = path or temporary(folder)
        self.rows = 0
        self._writer = None
        if path is None:
            self._writer = pyarrow.parquet.ParquetWriter(
                self.path, schema, compression=compression, use_dictionary=_dictionaries(schema), write_statistics=False
            )
        self._tables: list[Any] = []
        self._bytes = 0

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):  # as above
            if self._writer is not None:
                self._writer.close()
        if os.path.lexists(self.path):
            os.unlink(self.path)

    def add(self, table: Any) -> None:
        """Append rows, in groups of bounded size."""
        if not table.num_rows:
            return
        self.rows += table.num_rows
        self._tables.append(table)
        self._bytes += table.nbytes
        if sum(one.num_rows for one in self._tables) >= GROUP_ROWS or self._bytes >= GROUP_CHARACTERS:
            self._write()

    def _write(self) -> None:
        if self._tables and self._writer is not None:
            self._writer.write_table(_together(self._tables))
        self._tables, self._bytes = [], 0

    def finish(self, name: str, rows: int, source: tuple[str, str] | None) -> InputFile:
        """Give the file its name in prepared_data, mode 0444. `source`: path and SHA-256 of where it comes from."""
        self._write()
        if self._writer is not None:
            self._writer.close()
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())
        digest, size = sha256_file(self.path), os.path.getsize(self.path)
        os.chmod(self.path, READ_ONLY)
        final = os.path.join(self._folder, name)
        os.replace(self.path, final)
        atomic.sync_folder(self._folder)
        source_path, source_sha256 = source or (None, None)
        return InputFile(final, digest, size, rows, source_path, source_sha256)


def _dictionaries(schema: Any) -> list[str]:
    """Columns whose values repeat; a dictionary of prompts would only be built to be given up."""
    return [name for name in _DICTIONARIES if name.partition(".")[0] in schema.names]


def divide_native(path: str, keep: Keep, targets: Sequence[Target]) -> None:
    """Copy rows of a native file into targets, all columns and types as they are."""
    start = 0
    with NativeFile(path) as file:
        for batch in file.batches(None):
            flags = keep(start, batch.num_rows)
            start += batch.num_rows
            table = pyarrow.Table.from_batches([batch])
            for number, target in enumerate(targets, 1):
                target.add(table.filter(mask(flags, number)))


def converted_schema(spool: Spool) -> Any:
    """The schema of the rows in a spool, as GRPO reads them."""
    text = pyarrow.string()
    truth = text if spool.plain_truth else spool.truth_types.fields().get("ground_truth", text)
    own = {"index": pyarrow.int64(), "split": text, "source_position": pyarrow.int64()}
    extra = {**own, **_extra_fields(spool)}
    return pyarrow.schema(
        [
            pyarrow.field("data_source", text),
            pyarrow.field("prompt", pyarrow.list_(_TURN)),
            pyarrow.field("ability", text),
            pyarrow.field("reward_model", pyarrow.struct([("style", text), ("ground_truth", truth)])),
            pyarrow.field("extra_info", pyarrow.struct(list(extra.items()))),
        ]
    )


def _extra_fields(spool: Spool) -> dict[str, Any]:
    # Rows without an index or split of their own get ours, which the source's type has to have room for.
    spool.extra_types.observe([{"index": 0, "split": "", "source_position": 0}])
    return spool.extra_types.fields()


def divide_converted(spool: Spool, keep: Keep, targets: Sequence[tuple[str, Target]]) -> None:
    """Write the rows of a spool into targets, each with the name of its split."""
    schema, start = converted_schema(spool), 0
    with pyarrow.OSFile(spool.path) as source:
        for batch in _spooled(source):
            flags = keep(start, batch.num_rows)
            start += batch.num_rows
            for number, (split, target) in enumerate(targets, 1):
                chosen = batch.filter(mask(flags, number))
                if chosen.num_rows:
                    target.add(_converted(chosen, schema, split, target.rows, spool))


def _converted(batch: Any, schema: Any, split: str, first: int, spool: Spool) -> Any:
    columns = {name: batch.column(name) for name in batch.schema.names}
    count = batch.num_rows
    style = columns["style"]
    if "" in pyarrow.compute.unique(style).to_pylist():
        style = pyarrow.compute.if_else(pyarrow.compute.equal(style, ""), DEFAULT_STYLE, style)
    truth = columns["truth"]
    if not spool.plain_truth:
        # Text among other kinds was refused by the pass, so that each value is JSON here.
        truth = pyarrow.array(
            [json.loads(text) for text in truth.to_pylist()], schema.field("reward_model").type[1].type
        )
    reward = pyarrow.StructArray.from_arrays([style, truth], fields=list(schema.field("reward_model").type))
    own = {
        "index": _places(range(first, first + count)),
        "split": pyarrow.repeat(split, count),
        "source_position": columns["position"],
    }
    extra = _extra_info(columns["extra"], own, schema.field("extra_info").type, spool.extra_types)
    arrays = [columns["data_source"], columns["prompt"], columns["ability"], reward, extra]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _extra_info(texts: Any, own: dict[str, Any], kind: Any, types: ValueTypes) -> Any:
    if texts.null_count == len(texts) and all(
        own[field.name].type == field.type for field in kind if field.name in own
    ):
        nothing = {field.name: pyarrow.nulls(len(texts), field.type) for field in kind}
        return pyarrow.StructArray.from_arrays(list({**nothing, **own}.values()), fields=list(kind))
    objects = [json.loads(text) if text else {} for text in texts.to_pylist()]
    arrays = []
    for field in kind:
        ours = own[field.name].to_pylist() if field.name in own else [None] * len(objects)
        values = [one.get(field.name, default) for one, default in zip(objects, ours, strict=True)]
        arrays.append(types.column(field.name, values))
    return pyarrow.StructArray.from_arrays(arrays, fields=list(kind))


def mask(flags: bytearray, number: int) -> Any:
    """An Arrow mask of the flags that are `number`."""
    values = pyarrow.Array.from_buffers(pyarrow.uint8(), len(flags), [None, pyarrow.py_buffer(bytes(flags))])
    return pyarrow.compute.equal(values, number)
