"""JSON Lines of a question and its answer as Arrow columns: read, judged and folded some hundred rows at a time.

What is not certain here is left to others: a text as JSON to the table's own reader, a row to rules.prompts.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow
import pyarrow.compute as compute
import pyarrow.json

from loopai_trainer.files.arrow_texts import holds, one_text
from loopai_trainer.files.tables.json_values import count_byte
from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.adapters import DEFAULT_DATA_SOURCE, UNNAMED, PromptCheck
from loopai_trainer.rules.prompts.columns import (
    ANSWER_LINE,
    ANSWER_MARKS,
    LONGEST_NUMBER,
    PROMPT_MARKS,
    TwoTexts,
    two_texts,
)
from loopai_trainer.rules.prompts.keys import LENGTHS, SHORT_DIGITS, TextKeys, answer_keys, single_texts
from loopai_trainer.rules.prompts.records import METADATA, metadata_of

_TYPES = {str: pyarrow.string(), int: pyarrow.int64()}
_OPEN, _CLOSE = b"{}"
_MIN_BLOCK_BYTES = 1 << 16
_PATIENCE = 8
"""After so many texts in vain, no more of a file are tried: each costs its parsing twice."""
_BLANKS = b"\n\t\r\v\f\x1c\x1d\x1e\x1f"
"""The blanks of ASCII beside the space."""


class _Known(NamedTuple):
    """How records with these keys are read."""

    shape: TwoTexts
    parsing: Any


class LineReader:
    """Texts of whole lines -> their columns, if each line is one record of the same plain shape; else None.

    `adapter`: as the user named it.
    """

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter
        self._known: dict[tuple[tuple[str, type], ...], _Known | None] = {}
        self._patience = _PATIENCE

    def __call__(self, text: bytes) -> PromptLines | None:
        """The columns of `text`, which has no line end at its end. Raises nothing."""
        if not self._patience:
            return None
        found = self._read(text)
        self._patience = self._patience - 1 if found is None else _PATIENCE
        return found

    def _read(self, text: bytes) -> PromptLines | None:
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
        known = self._of(text[: text.find(b"\n")] if b"\n" in text else text)
        rows = _lines_of_objects(text)
        if known is None or not rows:
            return None
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=max(_MIN_BLOCK_BYTES, len(text) + 1))
        try:
            one_text(text).validate(full=True)
            table = pyarrow.json.read_json(pyarrow.BufferReader(text), reading, known.parsing)
        except pyarrow.ArrowException:
            return None
        # Objects begin and end at lines' ends, and there are as many as lines: no line has two, or a part of one.
        if table.num_rows != rows:
            return None
        if any(table.column(name).null_count for name in (known.shape.question, known.shape.answer)):
            return None
        return PromptLines(text, known.shape, table)

    def _of(self, line: bytes) -> _Known | None:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if type(record) is not dict:
            return None
        key = tuple((name, type(value)) for name, value in record.items())
        if key not in self._known:
            self._known = {key: self._made(record)}
        return self._known[key]

    def _made(self, record: dict[str, Any]) -> _Known | None:
        shape = two_texts(record, self._adapter)
        types = {name: _TYPES.get(type(value)) for name, value in record.items()}
        # Only values of these types: without objects and lists inside, a brace at a line's end is the record's own.
        if shape is None or not all(types.values()) or {types[shape.question], types[shape.answer]} != {_TYPES[str]}:
            return None
        schema = pyarrow.schema(list(types.items()))
        return _Known(shape, pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"))


class PromptLines:
    """Records of one plain shape. `questions`: an Arrow array of texts, no null among them; `table`: all columns."""

    def __init__(self, text: bytes, shape: TwoTexts, table: Any) -> None:
        self.shape = shape
        self.questions = _whole(table.column(shape.question))
        self._text = text
        self.table = table
        self._answers = _whole(table.column(shape.answer))

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def values(self, rows: Sequence[int] | None = None) -> list[object]:
        """The records of these 0-based rows (None: of all), as the table's reader gives them."""
        lines = self._text.split(b"\n")
        return [orjson.loads(line) for line in (lines if rows is None else map(lines.__getitem__, rows))]

    def answers(self) -> tuple[Any, int]:
        """(ground truths as an Arrow array, null where the row needs a close look; how many were marked by `####`)."""
        texts = self._answers
        tails = compute.binary_slice(texts.view(pyarrow.binary()), -(len(ANSWER_LINE) + LONGEST_NUMBER), None)
        parts = compute.split_pattern(tails, ANSWER_LINE, max_splits=1, reverse=True)
        ends = parts.values.take(compute.subtract(parts.offsets[1:], 1)).view(pyarrow.string())
        sure = compute.and_(
            compute.ascii_is_decimal(ends), compute.less_equal(compute.binary_length(ends), LONGEST_NUMBER)
        )
        marked = compute.equal(compute.list_value_length(parts), 2)
        if not self.shape.stated:
            sure = compute.and_(sure, marked)
        unsure = [_with_any(texts, ANSWER_MARKS), _with_any(self.questions, PROMPT_MARKS), _blank(self.questions)]
        for mask in unsure:
            if mask is not None:
                sure = compute.and_not(sure, mask)
        count = compute.sum(compute.and_(sure, marked)).as_py() or 0
        return compute.if_else(sure, ends, pyarrow.scalar(None, pyarrow.string())), count


class JudgedLines(NamedTuple):
    """The good rows of some lines. `questions`, `truths`: Arrow arrays of texts; `bad`: 0-based lines, and why.

    `names`: what the good rows name their data set or task (see rules.prompts.records), each combination once.
    """

    adapter: str
    data_source: str
    questions: Any
    truths: Any
    bad: list[tuple[int, Rejection]]
    markers: Counter[str]
    notes: Counter[str]
    names: list[list[str]]


def judged(lines: PromptLines, data_source: str, check: PromptCheck) -> JudgedLines:
    """The verdicts of `check` on all rows, most of them without asking it. `data_source`: for the rows."""
    truths, marked = lines.answers()
    markers, notes = Counter({"####": marked} if marked else {}), Counter[str]()
    if not data_source and truths.null_count < len(lines):
        notes[UNNAMED] = len(lines) - truths.null_count
    questions, table, bad = lines.questions, lines.table, list[tuple[int, Rejection]]()
    if truths.null_count:
        unsure: list[int] = compute.indices_nonzero(compute.is_null(truths)).to_pylist()
        found: list[str | None] = truths.to_pylist()
        for row, value in zip(unsure, lines.values(unsure), strict=True):
            verdict = check(value)
            if isinstance(verdict, Rejection):
                bad.append((row, verdict))
                continue
            # Of such a record the prompt is always the question itself, and the truth is text.
            found[row] = verdict.ground_truth
            markers.update([verdict.marker] if verdict.marker else ())
            notes.update(verdict.notes)
        truths = pyarrow.array(found, pyarrow.string())
    if bad:
        good = compute.is_valid(truths)
        questions, truths, table = questions.filter(good), truths.filter(good), table.filter(good)
    named = data_source or DEFAULT_DATA_SOURCE
    return JudgedLines(lines.shape.adapter, named, questions, truths, bad, markers, notes, _names(table))


def _names(table: Any) -> list[list[str]]:
    columns = [name for name in METADATA if name in table.schema.names]
    if not columns:
        return [[]] if table.num_rows else []
    combinations = table.select(columns).group_by(columns, use_threads=False).aggregate([])
    return [metadata_of(record) for record in combinations.to_pylist()]


def keys_and_sizes(questions: Any, keys: TextKeys) -> tuple[array[int], array[int]]:
    """Of prompts of one user turn each: the keys, as those of `single_texts` are, and how many characters they have."""
    count = len(questions)
    if not count:
        return array("Q"), array("I")
    sizes = compute.utf8_length(questions)
    data = _data(questions)
    for blank in _BLANKS:
        if blank in data:
            data = data.replace(bytes((blank,)), b" ")
    offsets = questions.buffers()[1]
    spaced = pyarrow.Array.from_buffers(pyarrow.string(), count, [None, offsets, pyarrow.py_buffer(data)])
    result = keys.of_pieces(memoryview(data), memoryview(offsets).cast("i")[: count + 1])
    others: list[int] = compute.indices_nonzero(_unlike(spaced, sizes)).to_pylist()
    if others:
        folded = single_texts(questions.take(pyarrow.array(others, pyarrow.int32())).to_pylist())
        for row, key in zip(others, keys(folded), strict=True):
            result[row] = key
    return result, array("I", sizes.buffers()[1].to_pybytes())[:count]


def truth_keys(truths: Any) -> array[int]:
    """What `answer_keys` gives for these texts, an Arrow array."""
    lengths = compute.binary_length(truths)
    short = compute.and_(compute.ascii_is_decimal(truths), compute.less_equal(lengths, SHORT_DIGITS))
    if not len(truths) or not compute.all(short).as_py():
        return answer_keys(truths.to_pylist())
    keys = compute.add(compute.multiply(truths.cast(pyarrow.int64()), LENGTHS), lengths)
    return array("q", keys.buffers()[1].to_pybytes())[: len(keys)]


def _unlike(texts: Any, sizes: Any) -> Any:
    """A mask of the texts (their blanks are spaces) that folding may change: all but ASCII with single spaces in it."""
    lengths = compute.binary_length(texts)
    trimmed = compute.binary_length(compute.ascii_trim_whitespace(texts))
    result = compute.or_(compute.not_equal(lengths, trimmed), compute.not_equal(lengths, sizes))
    # Of all as one: two blanks may also be the last of one text and the first of the next, which the mask has already.
    if _two_spaces(texts.buffers()[2]):
        result = compute.or_(result, compute.match_substring(texts, "  "))
    return result


def _two_spaces(data: Any) -> bool:
    """Whether a space follows a space. Masks of bytes cost less than half of what a search for two letters does."""
    letters = pyarrow.Array.from_buffers(pyarrow.uint8(), data.size, [None, data])
    spaces = compute.equal(letters, pyarrow.scalar(ord(" "), pyarrow.uint8()))
    return bool(compute.any(compute.and_(spaces[1:], spaces[:-1])).as_py())


def _lines_of_objects(text: bytes) -> int:
    """The number of lines, if each begins and ends with a brace; else 0."""
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return 0
    # RE2 looks for the first byte, which is rare here: far faster than `bytes.count`.
    ends = compute.count_substring_regex(one_text(text).view(pyarrow.binary()), "}\n{")[0].as_py()
    return ends + 1 if ends == count_byte(text, b"\n") else 0


def _whole(column: Any) -> Any:
    """A column of texts as one array whose texts begin at the start of its buffer."""
    texts = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return texts if texts.offset == 0 else texts.take(pyarrow.array(range(len(texts)), pyarrow.int32()))


def _data(texts: Any) -> bytes:
    """The bytes of all texts, one after the other."""
    buffer = texts.buffers()[2]
    return buffer.to_pybytes() if buffer is not None else b""


def _with_any(texts: Any, marks: Sequence[str]) -> Any | None:
    """A mask of the texts that hold any of these marks; None if none does."""
    result = None
    buffer = texts.buffers()[2]
    # All texts as one are looked through several times as fast as one by one, for a rare first letter ten times.
    for mark in marks:
        if holds(buffer, mark):
            mask = compute.match_substring(texts, mark)
            result = mask if result is None else compute.or_(result, mask)
    return result


def _blank(texts: Any) -> Any | None:
    """A mask of the texts that show nothing; None if there is none."""
    mask = compute.equal(compute.binary_length(compute.utf8_trim_whitespace(texts)), 0)
    return mask if compute.any(mask).as_py() else None
