"""Native GRPO Parquet, judged by columns: which rows need a close look, and what the others hold.

Only `prompt`, `data_source` and `reward_model` are read (and an `extra_info` that is no struct), a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet

from loopai_trainer.files.arrow_texts import one_text
from loopai_trainer.rules.prompts.answers import MISSING_WORDS
from loopai_trainer.rules.prompts.keys import joined_texts, single_texts
from loopai_trainer.rules.prompts.leaks import SUSPECT
from loopai_trainer.rules.prompts.prompt_row import ROLES

READ_BYTES = 1 << 19
BATCH_BYTES = 4 << 20
MAX_BATCH_ROWS = 8192

_ROLES = pyarrow.array(sorted(ROLES))
_MISSING = pyarrow.array(sorted(MISSING_WORDS))


def native_schema(path: str) -> Any | None:
    """The schema of a Parquet file that has verl's own columns; None for any other file. Raises nothing."""
    try:
        schema = pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError):
        return None
    names = schema.names
    if "prompt" not in names or "reward_model" not in names or len(set(names)) < len(names):
        return None
    reward = schema.field("reward_model").type
    return schema if pyarrow.types.is_struct(reward) and _child(reward, "ground_truth") is not None else None


class NativeFile:
    """A native Parquet file that is read batch by batch; use as a context manager. Raises ArrowException, OSError."""

    def __init__(self, path: str) -> None:
        self._file = pyarrow.parquet.ParquetFile(path, buffer_size=READ_BYTES)
        self.schema = self._file.schema_arrow
        self.rows: int = self._file.metadata.num_rows

    def __enter__(self) -> NativeFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def needed(self) -> list[str]:
        """The columns that have to be judged."""
        names = ["prompt", "reward_model", *(["data_source"] if "data_source" in self.schema.names else [])]
        if "extra_info" in self.schema.names and not _struct_or_null(self.schema.field("extra_info").type):
            names.append("extra_info")
        return names

    def batches(self, columns: list[str] | None) -> Iterator[Any]:
        """Record batches of bounded size, all columns if None. One row group at a time, and nothing of it is kept."""
        for index in range(self._file.num_row_groups):
            yield from self._batches_of(index, columns)

    def prompts_at(self, rows: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        """The (role, content) turns of these 0-based rows; row groups without any of them are not read."""
        found: dict[int, list[tuple[str, str]]] = {}
        wanted, start = sorted(set(rows)), 0
        for index in range(self._file.num_row_groups):
            end = start + self._file.metadata.row_group(index).num_rows
            here = [row for row in wanted if start <= row < end]
            for batch in self._batches_of(index, ["prompt"]) if here else ():
                within = [row for row in here if start <= row < start + batch.num_rows]
                prompts = batch.column("prompt").take(pyarrow.array([row - start for row in within], pyarrow.int64()))
                for row, turns in zip(within, prompts.to_pylist(), strict=True):
                    found[row] = [(turn["role"], turn["content"]) for turn in turns]
                start += batch.num_rows
            start = end
        return found

    def _batches_of(self, index: int, columns: list[str] | None) -> Iterator[Any]:
        rows = _batch_rows(self._file.metadata.row_group(index), columns)
        yield from self._file.iter_batches(rows, row_groups=[index], columns=columns, use_threads=False)
        pyarrow.default_memory_pool().release_unused()


class PromptBlock:
    """One batch of the needed columns. Texts that are not UTF-8 raise UnicodeDecodeError where they are read."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self._texts: list[str] | None = None
        self._truths: list[object] | None = None
        prompt = batch.column("prompt")
        self.regular = _is_prompt(prompt.type)
        if self.regular:
            turns = prompt.flatten()
            self._roles = _as_text(compute.struct_field(turns, "role"))
            self._contents = _as_text(compute.struct_field(turns, "content"))
            self._lengths = compute.list_value_length(prompt)
            self._single = len(turns) == batch.num_rows and _all(compute.equal(self._lengths, 1))

    def suspects(self, text_only: bool) -> list[int]:
        """Rows (0-based in the batch) that may be bad, in order; all others are good. rules.prompts has the verdict.

        `text_only`: whether a ground truth has to be text.
        """
        rows = self.batch.num_rows
        truth = compute.struct_field(self.batch.column("reward_model"), "ground_truth")
        names = self.batch.schema.names
        if not self.regular or "data_source" not in names or not _plain_truth(truth.type, text_only):
            return list(range(rows))
        masks = [_bad_truth(truth), *_bad_text(self.batch.column("data_source"))]
        if "extra_info" in names and not _struct_or_null(self.batch.schema.field("extra_info").type):
            masks.append(compute.is_valid(self.batch.column("extra_info")))
        if not self._single:
            masks.append(compute.fill_null(compute.equal(self._lengths, 0), True))
        found = {row for mask in masks if _any(mask) for row in compute.indices_nonzero(mask).to_pylist()}
        found.update(self._bad_turns())
        return sorted(found)

    def _bad_turns(self) -> Iterator[int]:
        roles, contents = self._roles, self._contents
        masks = [compute.invert(compute.is_in(roles, value_set=_ROLES)), compute.is_null(contents)]
        # All texts as one are looked through several times as fast as one by one; what none holds, not one holds.
        together = one_text(contents.buffers()[2])
        some = [pattern for pattern in SUSPECT if compute.match_substring_regex(together, pattern)[0].as_py()]
        masks += [compute.fill_null(compute.match_substring_regex(contents, pattern), False) for pattern in some]
        for mask in masks:
            if _any(mask):
                at = compute.indices_nonzero(mask)
                parents = at if self._single else compute.list_parent_indices(self.batch.column("prompt")).take(at)
                yield from parents.to_pylist()
        last_roles, last_contents = roles, contents
        rows: Any = None
        if not self._single:
            filled = compute.greater(compute.fill_null(self._lengths, 0), 0)
            rows = compute.indices_nonzero(filled)
            ends = compute.cumulative_sum(compute.fill_null(self._lengths, 0)).filter(filled)
            last = compute.subtract(ends, 1)
            last_roles, last_contents = roles.take(last), contents.take(last)
        unsure = compute.fill_null(compute.not_equal(last_roles, "user"), True)
        for mask in (unsure, compute.equal(compute.binary_length(compute.utf8_trim_whitespace(last_contents)), 0)):
            mask = compute.fill_null(mask, True)
            if _any(mask):
                at = compute.indices_nonzero(mask)
                yield from (at if rows is None else rows.take(at)).to_pylist()

    def texts(self) -> list[str]:
        """What stands for each prompt (see rules.prompts.keys). Only of a block whose rows are all good."""
        if self._texts is None:
            self._texts = self._made_texts()
        return self._texts

    def _made_texts(self) -> list[str]:
        if not self.regular:
            return joined_texts([[(turn["role"], turn["content"]) for turn in turns] for turns in self._prompts()])
        contents = self._contents.to_pylist()
        if self._single and _all(compute.equal(self._roles, "user")):
            return single_texts(contents)
        turns = list(zip(self._roles.to_pylist(), contents, strict=True))
        ends = [0, *compute.cumulative_sum(self._lengths).to_pylist()]
        return joined_texts([turns[start:end] for start, end in pairwise(ends)])

    def characters(self) -> list[int]:
        """Characters of each prompt. Only of a block whose rows are all good."""
        if not self.regular:
            return [sum(len(turn["content"]) for turn in turns) for turns in self._prompts()]
        sizes = compute.utf8_length(self._contents)
        if not self._single:
            before = pyarrow.concat_arrays([pyarrow.array([0], sizes.type), compute.cumulative_sum(sizes)])
            ends = compute.cumulative_sum(self._lengths)
            starts = compute.subtract(ends, self._lengths)
            sizes = compute.subtract(before.take(ends), before.take(starts))
        result: list[int] = sizes.to_pylist()
        return result

    def data_sources(self) -> dict[str, int]:
        """Rows by data_source."""
        counted = compute.value_counts(self.batch.column("data_source"))
        return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))

    def truths(self) -> list[object]:
        """The ground truths."""
        if self._truths is None:
            self._truths = compute.struct_field(self.batch.column("reward_model"), "ground_truth").to_pylist()
        return self._truths

    def _prompts(self) -> list[Any]:
        prompts: list[Any] = self.batch.column("prompt").to_pylist()
        return prompts


def _batch_rows(group: Any, columns: list[str] | None) -> int:
    """Rows that take about BATCH_BYTES uncompressed, all columns of the row group counted."""
    if not group.num_rows:
        return 1
    sizes = [group.column(index) for index in range(group.num_columns)]
    size = sum(
        column.total_uncompressed_size
        for column in sizes
        if columns is None or column.path_in_schema.partition(".")[0] in columns
    )
    row_bytes: int = max(1, size // group.num_rows)
    return max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // row_bytes))


def _is_prompt(kind: Any) -> bool:
    types = pyarrow.types
    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    return all(_is_text(_child(kind.value_type, name)) for name in ("role", "content"))


def _child(kind: Any, name: str) -> Any | None:
    index = kind.get_field_index(name)
    return kind.field(index).type if index >= 0 else None


def _struct_or_null(kind: Any) -> bool:
    return bool(pyarrow.types.is_struct(kind) or pyarrow.types.is_null(kind))


def _is_text(kind: Any | None) -> bool:
    if kind is None:
        return False
    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _as_text(values: Any) -> Any:
    return values if pyarrow.types.is_string(values.type) else values.cast(pyarrow.string())


def _plain_truth(kind: Any, text_only: bool) -> bool:
    types = pyarrow.types
    number = types.is_integer(kind) or types.is_floating(kind)
    return _is_text(kind) or (number and not text_only)


def _bad_truth(truth: Any) -> Any:
    """Null, NaN, blank, or the text that null becomes."""
    if not _is_text(truth.type):
        missing = compute.is_null(truth)
        return compute.or_(missing, compute.fill_null(compute.is_nan(truth), True)) if _floats(truth) else missing
    text = compute.utf8_trim_whitespace(_as_text(truth))
    short = compute.less(compute.binary_length(text), 8)
    if not _any(compute.fill_null(short, True)):
        return compute.is_null(text)
    blank = compute.fill_null(compute.equal(compute.binary_length(text), 0), True)
    return compute.or_(blank, compute.is_in(compute.utf8_lower(text), value_set=_MISSING))


def _floats(values: Any) -> bool:
    return bool(pyarrow.types.is_floating(values.type))


def _bad_text(values: Any) -> list[Any]:
    if not _is_text(values.type):
        return [pyarrow.array([True] * len(values))]
    if not values.null_count and len(compute.unique(values)) == 1 and values[0].as_py().strip():
        return []
    blank = compute.equal(compute.binary_length(compute.utf8_trim_whitespace(_as_text(values))), 0)
    return [compute.fill_null(blank, True)]


def _any(mask: Any) -> bool:
    return compute.any(mask).as_py() is True


def _all(mask: Any) -> bool:
    return len(mask) == 0 or (mask.null_count == 0 and compute.all(mask).as_py() is True)
