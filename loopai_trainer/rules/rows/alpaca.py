"""Alpaca rows: instruction, input, output, and optionally system, history and tools.

The user's text is instruction + "\\n" + input, each left out if empty; pairs in `history` come before it as turns.
Source: LLaMA-Factory 0.9.5 data/converter.py AlpacaDatasetConverter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from loopai_trainer.records import Rejection, Remark, Remarked, Row, Turn
from loopai_trainer.rules.rows.columns import Columns, plain
from loopai_trainer.rules.rows.shapes import Shapes, media_fault, pair_remarks, rival_fault
from loopai_trainer.rules.rows.text_marks import has_mark, is_blank, marks_in, nothing_to_say
from loopai_trainer.rules.rows.tool_json import kind_name, tools_text

REQUIRED = ("instruction", "input", "output")
OPTIONAL = ("system", "history", "tools")
_RIVALS = ("messages", "conversations", "response")
_INSTRUCTION, _INPUT, _OUTPUT = map(itemgetter, REQUIRED)

new_row = partial(tuple.__new__, Row)
"""A Row from the tuple of its fields; half the cost of a call by name, which every row would pay."""


class AlpacaCheck:
    """(row, line) -> Row, Remarked or Rejection. Remembers only what it worked out about sets of keys."""

    def __init__(self) -> None:
        self._shapes = Shapes(REQUIRED, OPTIONAL, _RIVALS)

    def __call__(self, value: object, line: int) -> Row | Remarked | Rejection:
        """Judge one decoded row; raises nothing."""
        if type(value) is not dict:
            return not_an_object(value)
        if len(value) == 3:
            plain = _plain_row(value, line)
            if plain is not None:
                return plain
        shape = self._shapes.of(value)
        if shape.misspelt is not None:
            return shape.misspelt
        output = value.get("output")
        fault = _output_fault(value, output) if type(output) is not str or is_blank(output) else None
        if fault is None and shape.media:
            fault = media_fault(value, shape.media)
        if fault is None and shape.rivals:
            fault = rival_fault(value, shape.rivals, (output,), "output")
        if fault is not None:
            return fault
        remarks = shape.remarks + pair_remarks(value, shape.pairs) if shape.pairs else shape.remarks
        prompt = _prompt(value)
        if isinstance(prompt, Rejection):
            return prompt
        return self._row(value, prompt, str(output), line, remarks)

    def plain_columns(self, values: Sequence[Any]) -> Columns | None:
        """See ColumnCheck: rows of one question and one answer."""
        try:
            keys = self._shapes.clean_keys(values)
            if keys is None:
                return None
            everywhere = all("input" in names for names in keys)
            inputs = list(map(_INPUT, values)) if everywhere else [value.get("input", "") for value in values]
            questions, answers = list(map(_INSTRUCTION, values)), list(map(_OUTPUT, values))
        except (KeyError, TypeError, AttributeError):  # a row that is no object, or has not all of the keys
            return None
        if set(map(type, chain(questions, inputs, answers))) != {str}:
            return None
        contents = answers * 2
        contents[1::2] = answers
        contents[::2] = [
            (question + "\n" + given if question else given) if given else question
            for question, given in zip(questions, inputs, strict=True)
        ]
        return plain(contents, [2] * len(values)) if nothing_to_say(contents) else None

    def _row(
        self, value: dict[str, object], prompt: str, output: str, line: int, remarks: tuple[Remark, ...]
    ) -> Row | Remarked | Rejection:
        system, tools, history = value.get("system"), value.get("tools"), value.get("history")
        if system is None:
            system = ""
        elif type(system) is not str:
            return _not_text("SYSTEM_NOT_TEXT", "system", system)
        written = tools_text(tools)
        if isinstance(written, Rejection):
            return written
        turns: tuple[Turn, ...] = (Turn("user", prompt), Turn("assistant", output))
        if history:
            earlier = _history(history)
            if isinstance(earlier, Rejection):
                return earlier
            turns = (*earlier, *turns)
            remarks += tuple(
                mark for turn in earlier if "<" in turn.content for mark in marks_in(turn.content, "history")
            )
        if "<" in prompt:
            remarks += marks_in(prompt, "instruction")
        if "<" in output:
            remarks += marks_in(output, "output")
        if "<" in system:
            remarks += marks_in(system, "system")
        row = Row(turns, system, written, line)
        return Remarked(row, remarks) if remarks else row


def _plain_row(row: dict[str, object], line: int) -> Row | None:
    """The row made of one question and one answer of which nothing is to be said; None: look closely.

    Most rows are so, and the close look costs three times as much. `row` has three keys.
    """
    try:
        question, given, answer = row["instruction"], row["input"], row["output"]
    except KeyError:
        return None
    if type(question) is not str or type(given) is not str or type(answer) is not str:
        return None
    if given:
        question = question + "\n" + given if question else given
    # No text that shows nothing begins with these letters of ASCII or Chinese; to ask so first is the quicker way.
    if not question or not answer:
        return None
    first, start = question[0], answer[0]
    if not ("0" <= first < "\x7f" or "\u3400" <= first < "\ua000") and is_blank(question):
        return None
    if not ("0" <= start < "\x7f" or "\u3400" <= start < "\ua000") and is_blank(answer):
        return None
    if ("<" in question and has_mark(question)) or ("<" in answer and has_mark(answer)):
        return None
    return new_row(((("user", question), ("assistant", answer)), "", "", line))


def not_an_object(value: object) -> Rejection:
    """The row is a list, a text, a number or null."""
    return Rejection("ROW_NOT_OBJECT", f"the row is {kind_name(value)}, not an object", "write one object a row")


def _output_fault(row: dict[str, object], output: object) -> Rejection:
    if output is None:
        if "output" in row:
            return Rejection("OUTPUT_NULL", "output is null: there is nothing to learn", "give the answer", "output")
        if "conversations" in row or "messages" in row:
            return mixed("alpaca")
        return Rejection("OUTPUT_MISSING", "the row has no output", "give the answer under the key output", "output")
    if type(output) is not str:
        return _not_text("OUTPUT_NOT_TEXT", "output", output)
    what = "is empty" if not output else "holds only blanks or characters that show nothing"
    return Rejection(
        "OUTPUT_EMPTY", f"output {what}: the model would learn to say nothing", "give the answer", "output"
    )


def mixed(expected: str) -> Rejection:
    """The row is of another format than the rows at the start of the file."""
    return Rejection(
        "FORMAT_MIXED", f"the row is not of the format {expected} that the file began with", "one format in a file"
    )


def _not_text(code: str, field: str, value: object) -> Rejection:
    return Rejection(code, f"{field} is {kind_name(value)}, not a text", "write it as a string", field)


def _prompt(row: dict[str, object]) -> str | Rejection:
    parts: list[str] = []
    for name in ("instruction", "input"):
        part = row.get(name)
        if type(part) is str:
            if part:
                parts.append(part)
        elif part is not None:
            return _not_text(f"{name.upper()}_NOT_TEXT", name, part)
    prompt = "\n".join(parts)
    if is_blank(prompt):
        message = "instruction and input are empty or missing: an empty question would be trained"
        return Rejection("PROMPT_EMPTY", message, "give the question under instruction or input", "instruction")
    return prompt


def _history(history: object) -> tuple[Turn, ...] | Rejection:
    if type(history) is not list:
        return _bad_history(f"history is {kind_name(history)}, not a list of pairs", "history")
    turns: list[Turn] = []
    for index, pair in enumerate(history):
        field = f"history[{index}]"
        if type(pair) is not list or len(pair) != 2:
            return _bad_history(f"{field} is not a pair [question, answer]", field)
        question, answer = pair
        if type(question) is not str or type(answer) is not str:
            other = question if type(question) is not str else answer
            return _bad_history(f"{field} holds {kind_name(other)}, not a text", field)
        if is_blank(question):
            return Rejection("PROMPT_EMPTY", f"the question in {field} is empty", "give the question", f"{field}[0]")
        if is_blank(answer):
            return Rejection("OUTPUT_EMPTY", f"the answer in {field} is empty", "give the answer", f"{field}[1]")
        turns += (Turn("user", question), Turn("assistant", answer))
    return tuple(turns)


def _bad_history(message: str, field: str) -> Rejection:
    return Rejection("HISTORY_INVALID", message, 'write [["question", "answer"], ...]', field)
