"""Judged rows as columns, many at a time: an object for each row would cost more than all that is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import add, sub
from typing import Protocol, runtime_checkable

from loopai_trainer.records import Row

PLAIN_ROLES = ["user", "assistant"]


@dataclass(slots=True)
class Columns:
    """Rows that follow each other. `contents` and `roles`: of all their turns; `turns`: how many each row has.

    `plain`: all are chats of user and assistant alone, without system and tools. `inner_keys`: how many keys the turns
    had that are objects themselves.
    """

    contents: list[str]
    roles: list[str]
    turns: list[int]
    systems: list[str]
    tools: list[str]
    plain: bool
    inner_keys: int = 0

    @property
    def single(self) -> bool:
        """Whether each row is one question and its answer."""
        return self.turns.count(2) == len(self.turns)

    def characters(self) -> list[int]:
        """Of each row: system, tools and all turns."""
        lengths = list(map(len, self.contents))
        if self.single:
            found = list(map(add, lengths[::2], lengths[1::2]))
        else:
            before = list(accumulate(lengths, initial=0))
            ends = [before[end] for end in accumulate(self.turns, initial=0)]
            found = list(map(sub, ends[1:], ends))
        if self.plain:
            return found
        beside = map(add, map(len, self.systems), map(len, self.tools))
        return list(map(add, found, beside))


@runtime_checkable
class ColumnCheck(Protocol):
    """A row check that can judge many rows at once, if all of them are good in the plainest way."""

    def plain_columns(self, values: Sequence[object]) -> Columns | None:
        """The rows made of `values`, of which nothing is to be said; None: judge each by itself. Raises nothing."""


def plain_columns(check: object, values: Sequence[object]) -> Columns | None:
    """What a row check makes of `values` at once; None: judge each by itself. Not every check is a ColumnCheck."""
    return check.plain_columns(values) if isinstance(check, ColumnCheck) else None


def plain(contents: list[str], turns: list[int], inner_keys: int = 0) -> Columns:
    """Rows of user and assistant in turn, the user first, without system and tools."""
    empty = [""] * len(turns)
    return Columns(contents, PLAIN_ROLES * (len(contents) // 2), turns, empty, empty, True, inner_keys)


def columns_of(rows: Sequence[Row]) -> Columns:
    """Rows that were judged one by one."""
    messages = [row.messages for row in rows]
    roles, contents = [], []
    for role, content in chain.from_iterable(messages):
        roles.append(role)
        contents.append(content)
    turns = list(map(len, messages))
    systems, tools = [row.system for row in rows], [row.tools for row in rows]
    usual = not any(systems) and not any(tools) and not any(count % 2 for count in turns)
    return Columns(contents, roles, turns, systems, tools, usual and roles == PLAIN_ROLES * (len(roles) // 2))
