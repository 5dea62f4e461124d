"""Chat rows: ShareGPT (from/value) and messages (role/content), which differ in names and in how tools are called.

Source: LLaMA-Factory 0.9.5 data/converter.py: an optional system turn first, then user or tool result and assistant or
function call in turn, an even number. Its openai form merges tool results that follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

from loopai_trainer.records import Rejection, Remark, Remarked, Row, Turn
from loopai_trainer.rules.rows.alpaca import mixed, new_row, not_an_object
from loopai_trainer.rules.rows.columns import Columns, plain
from loopai_trainer.rules.rows.messages_turns import Draft, openai_turn
from loopai_trainer.rules.rows.names import did_you_mean
from loopai_trainer.rules.rows.shapes import Shapes, media_fault, pair_remarks, rival_fault
from loopai_trainer.rules.rows.text_marks import has_mark, is_blank, marks_in, nothing_to_say
from loopai_trainer.rules.rows.tool_json import call_text_fault, kind_name, tools_text
from loopai_trainer.rules.rows.turn_keys import OTHER_NAME, ROLES, thought_remarks, turn_fault

_KNOWN_ROLES = {
    "from": ("human", "gpt", "observation", "function_call", "system"),
    "role": ("user", "assistant", "tool", "function", "system"),
}
_USUAL = {
    "from": (itemgetter("from"), itemgetter("value"), ["human", "gpt"]),
    "role": (itemgetter("role"), itemgetter("content"), ["user", "assistant"]),
}
"""What a turn calls its role -> how to get its role and its text, and the roles of a question and its answer."""
_RIVALS = ("messages", "conversations", "output", "response")
_PLAIN_ROLES = ("user", "assistant")
_ASKING = ("user", "tool")
_ANSWERING = ("assistant", "function")


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of a chat row: where its turns stand, and what a turn calls its role and its text."""

    format: str
    turns: str
    role: str
    content: str


SHAREGPT = Names("sharegpt", "conversations", "from", "value")
MESSAGES = Names("messages", "messages", "role", "content")


class ChatCheck:
    """(row, line) -> Row, Remarked or Rejection. Remembers only what it worked out about sets of keys."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shapes = Shapes((names.turns,), ("system", "tools"), tuple(n for n in _RIVALS if n != names.turns))
        self._openai = names.role == "role"
        self._good_tools = ""

    def __call__(self, value: object, line: int) -> Row | Remarked | Rejection:
        """Judge one decoded row; raises nothing."""
        if type(value) is not dict:
            return not_an_object(value)
        source = value.get(self._names.turns)
        if type(source) is not list or not source:
            return self._no_turns(value, source)
        shape = self._shapes.of(value)
        if shape.media:
            fault = media_fault(value, shape.media)
            if fault is not None:
                return fault
        if shape.rivals:
            last = source[-1].get(self._names.content) if type(source[-1]) is dict else None
            fault = rival_fault(value, shape.rivals, (source, last), self._names.turns)
            if fault is not None:
                return fault
        if not (shape.remarks or shape.pairs or value.get("tools")) and value.get("system") in (None, ""):
            plain = _plain_turns(source, self._names)
            if plain is not None:
                return new_row((plain, "", "", line))
        draft = Draft([*shape.remarks, *pair_remarks(value, shape.pairs)])
        fault = self._read(source, draft) or _order_fault(draft, self._names)
        if fault is not None:
            return fault
        return self._row(value, draft, line)

    def plain_columns(self, values: Sequence[Any]) -> Columns | None:
        """See ColumnCheck: chats between user and assistant alone."""
        role, content, usual = _USUAL[self._names.role]
        try:
            if self._shapes.clean_keys(values) is None:
                return None
            sources = list(map(itemgetter(self._names.turns), values))
            turns = list(map(len, sources))
            messages = list(chain.from_iterable(sources))
            # Each turn has both keys, so that none has another one if it has two.
            if set(map(type, sources)) != {list} or set(map(len, messages)) != {2}:
                return None
            roles, contents = list(map(role, messages)), list(map(content, messages))
        except (KeyError, TypeError, AttributeError):  # a row or a turn that is no object, or has not these keys
            return None
        if not all(count and not count % 2 for count in set(turns)) or roles != usual * (len(roles) // 2):
            return None
        if set(map(type, contents)) != {str} or not nothing_to_say(contents):
            return None
        return plain(contents, turns, inner_keys=2 * len(messages))

    def _row(self, value: dict[str, object], draft: Draft, line: int) -> Row | Remarked | Rejection:
        system, column = draft.system, value.get("system")
        if column is not None and type(column) is not str:
            return Rejection(
                "SYSTEM_NOT_TEXT", f"system is {kind_name(column)}, not a text", "write a string", "system"
            )
        if system is None:
            system = column or ""
        elif column and column != system:
            message = "the row has a system turn and another text in the column system; the turn is used"
            draft.remarks.append(Remark("SYSTEM_TWICE", message, "keep one of the two", "system"))
        if "<" in system:
            draft.remarks += marks_in(system, "system")
        tools = value.get("tools")
        # Most rows of a file have the same tools, and to parse them costs more than all the rest.
        if tools and tools != self._good_tools:
            written = tools_text(tools)
            if isinstance(written, Rejection):
                return written
            tools = written
            self._good_tools = written
        row = Row(tuple(draft.turns), system, str(tools or ""), line)
        return Remarked(row, tuple(draft.remarks)) if draft.remarks else row

    def _read(self, source: list[object], draft: Draft) -> Rejection | None:
        """Fill `draft` with the turns; the first one that cannot be read is the row's fault."""
        for index, message in enumerate(source):
            if type(message) is not dict:
                return _not_a_turn(message, index, self._names)
            fault = self._turn(message, index, draft)
            if fault is not None:
                return fault
        return None

    def _turn(self, message: dict[str, object], index: int, draft: Draft) -> Rejection | None:
        names = self._names
        name = message.get(names.role)
        role = ROLES.get(name) if type(name) is str else None
        if role is None:
            return _role_fault(message, name, index, names)
        if len(message) > 2:
            place = f"{names.turns}[{index}]"
            fault = turn_fault(message, role, place, (names.role, names.content))
            if fault is not None:
                return fault
            draft.remarks += thought_remarks(message, place)
        if self._openai and len(message) > 2:
            found = openai_turn(message, role, place, draft)
            if isinstance(found, Rejection):
                return found
            if found:
                draft.places.append(index)
                return None
        content = message.get(names.content)
        if type(content) is not str:
            return _content_fault(message, content, index, names)
        return self._add(role, content, index, draft)

    def _add(self, role: str, content: str, index: int, draft: Draft) -> Rejection | None:
        names = self._names
        if role == "user" or role == "assistant":
            if is_blank(content):
                return _empty_turn(role, content, index, names)
            if "<" in content:
                draft.remarks += marks_in(content, _content_field(index, names))
        elif role == "system":
            draft.system = content
            return _late_system(index, names) if index else None
        else:
            fault = _tool_turn(role, content, index, draft, names)
            if fault is not None:
                return fault
            if self._openai and draft.merge_result(role, content):
                return None
        draft.turns.append(Turn(role, content))
        draft.places.append(index)
        return None

    def _no_turns(self, row: dict[str, object], source: object) -> Rejection:
        names = self._names
        if source is None:
            others = ("conversations", "messages", "output")
            if any(row.get(name) for name in others if name != names.turns):
                return mixed(names.format)
            shape = self._shapes.of(row)
            if shape.misspelt is not None:
                return shape.misspelt
            what = "is null" if names.turns in row else "is missing"
            return Rejection("MESSAGES_MISSING", f"{names.turns} {what}", "give the turns of the chat", names.turns)
        if type(source) is not list:
            hint = "write a list, not JSON inside a string" if type(source) is str else "write a list of turns"
            message = f"{names.turns} is {kind_name(source)}, not a list"
            return Rejection("MESSAGES_NOT_LIST", message, hint, names.turns)
        return _nothing_said(names)


def _plain_turns(source: list[Any], names: Names) -> tuple[tuple[str, str], ...] | None:
    """The turns of a chat between user and assistant alone of which nothing is to be said; None: look closely.

    Most rows are so, and the close look costs four times as much. What can be asked of all turns at once is.
    """
    pairs, odd = divmod(len(source), 2)
    role_key = names.role
    role, content, usual = _USUAL[role_key]
    try:
        contents = list(map(content, source))
        if odd or list(map(role, source)) != usual * pairs:
            return None
        text = "".join(contents)
    except (KeyError, TypeError):  # a turn that is no object, has no such key, or a content that is no text
        return None
    # Each turn has both keys, so that none has another one if they are twice as many as the turns.
    if sum(map(len, source)) != 4 * pairs:
        return None
    if not all(map(str.strip, contents)) if text.isascii() else any(map(is_blank, contents)):
        return None
    if "<" in text and has_mark(text):
        return None
    return tuple(zip(_PLAIN_ROLES * pairs, contents))  # noqa: B905 - equally many, and to say so costs as much again


def _nothing_said(names: Names) -> Rejection:
    return Rejection(
        "MESSAGES_EMPTY", f"{names.turns} has no turn to learn from", "give question and answer", names.turns
    )


def _role_fault(message: dict[str, object], name: object, index: int, names: Names) -> Rejection:
    field = f"{names.turns}[{index}].{names.role}"
    if names.role not in message:
        near = _meant_key(message, names.role)
        hint = f"rename {near!r} to {names.role!r}" if near else f"say who speaks under the key {names.role!r}"
        return Rejection("ROLE_MISSING", f"{names.turns}[{index}] has no {names.role!r}", hint, field)
    if type(name) is not str:
        return Rejection("ROLE_UNKNOWN", f"{field} is {kind_name(name)}, not a text", "write the role's name", field)
    if name == "developer":
        return Rejection("ROLE_UNKNOWN", "the role 'developer' is not known to LLaMA-Factory", "write 'system'", field)
    known = _KNOWN_ROLES[names.role]
    meant = did_you_mean(name, known)
    asked = f": did you mean {meant!r}?" if meant else ""
    return Rejection(
        "ROLE_UNKNOWN", f"the role {_short(name)!r} is not known{asked}", f"known are {', '.join(known)}", field
    )


def _meant_key(message: dict[str, object], wanted: str) -> str | None:
    """A key of `message` that may stand for `wanted`: misspelt, or the other format's name."""
    other = OTHER_NAME[wanted]
    if other in message:
        return other
    return next((key for key in message if type(key) is str and did_you_mean(key, [wanted])), None)


def _content_fault(message: dict[str, object], content: object, index: int, names: Names) -> Rejection:
    field = f"{names.turns}[{index}].{names.content}"
    if content is None:
        if names.content not in message:
            near = _meant_key(message, names.content)
            hint = f"rename {near!r} to {names.content!r}" if near else "give the text, or leave the row out"
            return Rejection("CONTENT_MISSING", f"{field} is missing", hint, field)
        return Rejection("CONTENT_NULL", f"{field} is null", "give the text, or leave the row out", field)
    if type(content) is list:
        return Rejection("CONTENT_NOT_TEXT", f"{field} is a list of parts, not a text", "join its text parts", field)
    return Rejection("CONTENT_NOT_TEXT", f"{field} is {kind_name(content)}, not a text", "write it as a string", field)


def _late_system(index: int, names: Names) -> Rejection:
    message = f"{names.turns}[{index}] is a system turn; only the first turn may be one"
    return Rejection("SYSTEM_NOT_FIRST", message, "put its text first, or leave it out", f"{names.turns}[{index}]")


def _order_fault(draft: Draft, names: Names) -> Rejection | None:
    """User or tool result, then assistant or function call, and so on; the last one answers."""
    turns = draft.turns
    if not turns:
        return _nothing_said(names)
    for position, (role, _) in enumerate(turns):
        if role in (_ANSWERING if position % 2 else _ASKING):
            continue
        field = f"{names.turns}[{draft.places[position]}]"
        if position == 0:
            return Rejection(
                "FIRST_TURN_NOT_USER", f"the chat begins with a turn of {role!r}", "begin with the user", field
            )
        message = f"a turn of {role!r} follows one of {turns[position - 1].role!r}"
        hint = "user and assistant take turns; join turns of the same side"
        if role == "function":
            hint = "a function turn is a call that the model makes; a tool's result has the role tool or observation"
        return Rejection("ROLES_NOT_ALTERNATING", message, hint, field)
    if len(turns) % 2:
        message = f"the chat ends with a turn of {turns[-1].role!r}: there is no answer to learn"
        return Rejection("LAST_TURN_NOT_ASSISTANT", message, "give the answer, or drop that turn", names.turns)
    if turns[0].role == "tool":
        draft.remarks.append(Remark("RESULT_WITHOUT_CALL", "the chat begins with a tool's result", "", names.turns))
    return None


def _empty_turn(role: str, content: str, index: int, names: Names) -> Rejection:
    what = "is empty" if not content else "holds only blanks or characters that show nothing"
    field = _content_field(index, names)
    if role == "user":
        return Rejection(
            "PROMPT_EMPTY", f"{field} {what}: an empty question would be trained", "give the question", field
        )
    return Rejection("OUTPUT_EMPTY", f"{field} {what}: the model would learn to say nothing", "give the answer", field)


def _tool_turn(role: str, content: str, index: int, draft: Draft, names: Names) -> Rejection | None:
    """Judge a call or a result. A result may be empty."""
    found = (
        call_text_fault(content, _content_field(index, names))
        if role == "function"
        else marks_in(content, _content_field(index, names))
        if "<" in content
        else ()
    )
    if isinstance(found, Rejection):
        return found
    draft.remarks += found
    return None


def _content_field(index: int, names: Names) -> str:
    return f"{names.turns}[{index}].{names.content}"


def _not_a_turn(message: object, index: int, names: Names) -> Rejection:
    field = f"{names.turns}[{index}]"
    hint = f'write {{"{names.role}": ..., "{names.content}": ...}}'
    return Rejection("MESSAGE_NOT_OBJECT", f"{field} is {kind_name(message)}, not an object", hint, field)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."
