"""Rows of a user's own registry entry: each is put under the usual names and then judged as any other row.

What the entry's maps leave out and the row has is refused here, since LLaMA-Factory would drop it without a word.
Source: LLaMA-Factory 0.9.5 data/parser.py DatasetAttr.join, data/converter.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loopai_trainer.contract import RowCheck
from loopai_trainer.records import Rejection, Remark, Remarked, Row
from loopai_trainer.rules.rows.alpaca import AlpacaCheck
from loopai_trainer.rules.rows.chat import MESSAGES, SHAREGPT, ChatCheck
from loopai_trainer.rules.rows.names import did_you_mean
from loopai_trainer.rules.rows.tool_json import kind_name
from loopai_trainer.rules.rows.turn_keys import REASONING, ROLES

DATASET_MAP = "dataset_map"
"""Under this name the settings that a row check gets hold the DatasetMap, if there is one."""

Formatting = Literal["alpaca", "sharegpt", "openai"]

_ALPACA = {"prompt": "instruction", "query": "input", "response": "output"}
_BESIDE = {"system": "system", "tools": "tools"}
_USUAL: Mapping[str, tuple[str, ...]] = {
    "prompt": ("instruction",),
    "query": ("input",),
    "history": ("history",),
    "system": ("system", "system_prompt"),
    "tools": ("tools", "functions"),
}
"""Column of the map -> keys under which rows usually have it: text that is lost if the map does not name it."""
_MEDIA = ("images", "videos", "audios")
_TAG_OF_ROLE = {
    "user": "user_tag",
    "assistant": "assistant_tag",
    "tool": "observation_tag",
    "function": "function_tag",
    "system": "system_tag",
}
_ROLE_NAMES = {
    "sharegpt": ("human", "gpt", "observation", "function_call", "system"),
    "openai": ("user", "assistant", "tool", "function", "system"),
}
"""What the check behind calls the roles of _TAG_OF_ROLE, in its order."""
_MAX_SHAPES = 1000


@dataclass(frozen=True, slots=True)
class DatasetMap:
    """A registry entry as LLaMA-Factory would read it.

    `columns` and `tags` hold every key that it knows; None: not mapped. `written`: the columns that the entry names,
    with null too, which says that a column is left out on purpose; None: the entry has no `columns` at all.
    """

    entry: str
    formatting: Formatting
    columns: Mapping[str, str | None]
    tags: Mapping[str, str | None]
    written: frozenset[str] | None = None

    @property
    def format(self) -> str:
        """For people."""
        return f"{self.formatting} (dataset_info '{self.entry}')"

    def gap(self) -> str | None:
        """What is missing so that not one row can be used; None: nothing."""
        if self.formatting == "alpaca":
            if self.columns["response"] is None:
                return "'columns' names no response, so that no row has an answer"
            if self.columns["prompt"] is None and self.columns["query"] is None:
                return "'columns' names neither prompt nor query, so that no row has a question"
            return None
        if self.columns["messages"] is None:
            return "'columns' names no messages, so that no row has turns"
        absent = [name for name in ("role_tag", "content_tag", "user_tag", "assistant_tag") if self.tags[name] is None]
        return f"'tags' names no {absent[0]}, so that no turn can be read" if absent else None


def mapped_check(mapping: DatasetMap, sample: Sequence[object]) -> tuple[str, RowCheck]:
    """(format, check) for rows of that entry; `sample`: the file's first decoded rows."""
    gap = mapping.gap()
    if gap is not None:
        fault = Rejection("NOT_MAPPED", f"dataset_info: {gap}", "complete the entry in dataset_info.json")
        return mapping.format, lambda value, line: fault
    return mapping.format, MappedCheck(mapping, sample)


class MappedCheck:
    """(row, line) -> Row, Remarked or Rejection, in the words of the row's own names."""

    def __init__(self, mapping: DatasetMap, sample: Sequence[object]) -> None:
        self._map = mapping
        alpaca = mapping.formatting == "alpaca"
        self._pairs = _pairs(mapping)
        self._inner: RowCheck = AlpacaCheck() if alpaca else ChatCheck(_chat_names(mapping))
        self._turns = None if alpaca else _Turns(mapping)
        self._rename = _renamer(mapping, self._pairs)
        # Under the usual names nothing is to be put elsewhere, and a misspelt key can be told from its whole row.
        self._as_it_is = alpaca and mapping.written is None
        self._absent = _absent(mapping, sample)
        self._suspects: dict[tuple[object, ...], tuple[tuple[str, str], ...]] = {}

    def __call__(self, value: object, line: int) -> Row | Remarked | Rejection:
        """Judge one decoded row; raises nothing."""
        if type(value) is not dict:
            return self._inner(value, line)
        for column, key in self._suspects_of(value):
            if value[key]:
                return _lost(self._map, column, key)
        for column, key in self._absent:
            if key not in value:
                return _not_there(column, key, value)
        if self._as_it_is:
            return self._inner(value, line)
        row = {usual: value[key] for usual, key in self._pairs if key in value}
        if self._turns is not None:
            fault = self._turns.put_into(row)
            if fault is not None:
                return fault
        return self._rename(self._inner(row, line))

    def _suspects_of(self, row: dict[str, object]) -> tuple[tuple[str, str], ...]:
        keys = tuple(row)
        found = self._suspects.get(keys)
        if found is None:
            found = tuple(_suspects(self._map, keys))
            if len(self._suspects) < _MAX_SHAPES:
                self._suspects[keys] = found
        return found


def _chat_names(mapping: DatasetMap) -> Any:
    return SHAREGPT if mapping.formatting == "sharegpt" else MESSAGES


def _pairs(mapping: DatasetMap) -> tuple[tuple[str, str], ...]:
    """(usual key, key in the file) of all that the entry maps."""
    if mapping.formatting == "alpaca":
        usual = {**_ALPACA, **_BESIDE, "history": "history"}
    else:
        usual = {"messages": _chat_names(mapping).turns, **_BESIDE}
    usual |= {name: name for name in _MEDIA}
    return tuple((name, key) for column, name in usual.items() if (key := mapping.columns[column]) is not None)


def _suspects(mapping: DatasetMap, keys: tuple[object, ...]) -> list[tuple[str, str]]:
    """(column, key) whose text LLaMA-Factory would leave out, though nobody said so."""
    columns = _USUAL if mapping.formatting == "alpaca" else ("system", "tools")
    taken, written = set(mapping.columns.values()), mapping.written or frozenset()
    found = [
        (column, key)
        for column in columns
        if mapping.columns[column] is None and column not in written
        for key in _USUAL[column]
        if key in keys and key not in taken
    ]
    media = [(name, name) for name in _MEDIA if mapping.columns[name] is None and name not in written and name in keys]
    return found + media


def _absent(mapping: DatasetMap, sample: Sequence[object]) -> list[tuple[str, str]]:
    """(column, key) that the entry maps by name and none of the file's first rows has."""
    rows = [row for row in sample if type(row) is dict]
    if mapping.written is None or not rows:
        return []
    seen = {key for row in rows for key in row}
    wanted = ((column, mapping.columns[column]) for column in sorted(mapping.written))
    return [(column, key) for column, key in wanted if key is not None and key not in seen]


def _lost(mapping: DatasetMap, column: str, key: str) -> Rejection:
    why = "'columns' leaves it out" if mapping.written is not None else "without 'columns' it is not read"
    return Rejection(
        "COLUMN_NOT_MAPPED",
        f"the row has {key}, which LLaMA-Factory would not train on: {why} in dataset_info.json",
        f'add "{column}": "{key}" to the columns of {mapping.entry!r}, beside all others that are used; '
        f'or "{column}": null, if it is to be left out',
        key,
    )


def _not_there(column: str, key: str, row: dict[str, object]) -> Rejection:
    keys = [name for name in row if type(name) is str]
    meant = did_you_mean(key, keys)
    asked = f": did you mean {meant!r}?" if meant else f" (it has {', '.join(keys[:8]) or 'no keys'})"
    return Rejection(
        "COLUMN_NOT_FOUND",
        f"dataset_info.json maps {column} to {key!r}, which the row does not have{asked}",
        f"correct {column} in the entry's columns, or give every row that key (null will do)",
        key,
    )


class _Turns:
    """Puts a chat's turns under the usual names of keys and roles."""

    def __init__(self, mapping: DatasetMap) -> None:
        tags, self._map = mapping.tags, mapping
        self._names = _chat_names(mapping)
        self._role, self._content = str(tags["role_tag"]), str(tags["content_tag"])
        usual = _ROLE_NAMES[mapping.formatting]
        self._roles = {
            tag: name for key, name in zip(_TAG_OF_ROLE.values(), usual, strict=True) if (tag := tags[key]) is not None
        }
        self._openai = mapping.formatting == "openai"

    def put_into(self, row: dict[str, object]) -> Rejection | None:
        """Replace the turns of `row`, which stand under the usual name already."""
        source = row.get(self._names.turns)
        if type(source) is not list:
            return None
        turns: list[object] = []
        for index, message in enumerate(source):
            if type(message) is not dict:
                turns.append(message)
                continue
            role = message.get(self._role)
            usual = self._roles.get(role) if type(role) is str else None
            if usual is None:
                return self._role_fault(message, role, index)
            turn = {k: v for k, v in message.items() if k not in (self._role, self._content)} if self._openai else {}
            turn[self._names.role] = usual
            if self._content in message:
                turn[self._names.content] = message[self._content]
            if not self._openai and len(message) > 2:
                fault = self._not_read(message, usual, index)
                if fault is not None:
                    return fault
                turn |= {key: message[key] for key in REASONING if key in message}
            turns.append(turn)
        row[self._names.turns] = turns
        return None

    def _place(self, index: int) -> str:
        return f"{self._map.columns['messages']}[{index}]"

    def _not_read(self, message: dict[str, object], role: str, index: int) -> Rejection | None:
        for key in ("tool_calls", "function_call"):
            if message.get(key):
                text = f"{self._place(index)} has {key}, which formatting {self._map.formatting!r} does not read"
                hint = 'set "formatting": "openai", or write the call as a turn of the function_tag'
                return Rejection("TOOL_CALLS_LOST", text, hint, f"{self._place(index)}.{key}")
        if message.get("weight") == 0 and role == "gpt":
            text = f"{self._place(index)} has weight 0, but would be trained on all the same"
            return Rejection("WEIGHT_IGNORED", text, "leave the turn or the row out", f"{self._place(index)}.weight")
        return None

    def _role_fault(self, message: dict[str, object], role: object, index: int) -> Rejection:
        field = f"{self._place(index)}.{self._role}"
        if self._role not in message:
            text = f"{self._place(index)} has no {self._role!r}, which is the role_tag in dataset_info.json"
            near = did_you_mean(self._role, [key for key in message if type(key) is str])
            hint = f"rename {near!r} to {self._role!r}" if near else "correct role_tag, or say who speaks in every turn"
            return Rejection("ROLE_MISSING", text, hint, field)
        if type(role) is not str:
            return Rejection(
                "ROLE_UNKNOWN", f"{field} is {kind_name(role)}, not a text", "write the role's name", field
            )
        tag = _TAG_OF_ROLE.get(ROLES.get(role, ""))
        if tag is not None and self._map.tags[tag] is None:
            text = (
                f"the role {role!r} has no tag: 'tags' in dataset_info.json does not name {tag}, and to give 'tags' "
                "clears those left out; LLaMA-Factory would drop the row"
            )
            return Rejection("TAG_NOT_MAPPED", text, f'add "{tag}": "{role}" to the entry\'s tags', field)
        known = ", ".join(self._roles)
        meant = did_you_mean(role, self._roles) or (self._map.tags[tag] if tag else None)
        asked = f": did you mean {meant!r}?" if meant else ""
        shown = role if len(role) <= 40 else role[:40] + "..."
        return Rejection(
            "ROLE_UNKNOWN", f"the role {shown!r} is none of the entry's tags{asked}", f"the tags are {known}", field
        )


_Verdict = Row | Remarked | Rejection


def _renamer(mapping: DatasetMap, pairs: tuple[tuple[str, str], ...]) -> Callable[[_Verdict], _Verdict]:
    """Puts the file's own names into what the check behind says."""
    names = {usual: key for usual, key in pairs if usual != key}
    parts: dict[str, str] = {}
    if mapping.formatting != "alpaca":
        usual_names = _chat_names(mapping)
        own = {usual_names.role: str(mapping.tags["role_tag"]), usual_names.content: str(mapping.tags["content_tag"])}
        parts = {usual: name for usual, name in own.items() if usual != name}
        # Of a chat's columns only the turns: "system" is a role too.
        names = {usual: key for usual, key in names.items() if usual == usual_names.turns}
    if not names and not parts:
        return lambda verdict: verdict
    whole = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b") if names else None
    part = re.compile(r"(\]\.)(" + "|".join(map(re.escape, parts)) + r")\b") if parts else None

    def renamed(text: str) -> str:
        if part is not None:
            text = part.sub(lambda found: found[1] + parts[found[2]], text)
        return whole.sub(lambda found: names[found[1]], text) if whole is not None else text

    def rename(verdict: _Verdict) -> _Verdict:
        if type(verdict) is Row:
            return verdict
        if isinstance(verdict, Remarked):
            return Remarked(verdict.row, tuple(_renamed_remark(remark, renamed) for remark in verdict.remarks))
        assert isinstance(verdict, Rejection)
        field = verdict.field and renamed(verdict.field)
        return Rejection(verdict.code, renamed(verdict.message), renamed(verdict.hint), field)

    return rename


def _renamed_remark(remark: Remark, renamed: Callable[[str], str]) -> Remark:
    if remark.note:
        return remark
    field = remark.field and renamed(remark.field)
    return Remark(remark.code, renamed(remark.message), renamed(remark.hint), field)
