"""A chat row, and what a row check says of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Turn(NamedTuple):
    """One message. `role` is user, assistant, tool or function (system stands in `Row.system`)."""

    role: str
    content: str


class Row(NamedTuple):
    """A chat, whatever the source format was. A tuple, since one is made for every row of a file.

    `messages` are turns as (role, content): a Turn, or a plain pair, which costs half and is equal to one. They
    alternate user/tool and assistant/function and end with one of the latter.
    `tools` is JSON text or empty. `source_line`: 1-based line (JSON, JSONL) or 0-based row (Parquet).
    """

    messages: tuple[tuple[str, str], ...]
    system: str
    tools: str
    source_line: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a row cannot be trained on as it stands."""

    code: str
    message: str
    hint: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a person should know of a row that is used. A `note` is only counted; else it is a warning."""

    code: str
    message: str
    hint: str = ""
    field: str | None = None
    note: bool = False


@dataclass(frozen=True, slots=True)
class Remarked:
    """A row that is used, and what is to be said of it."""

    row: Row
    remarks: tuple[Remark, ...]


class RowLength(NamedTuple):
    """What training makes of a row, in tokens. `tokens` is the whole row, `kept` what training sees of it.

    `prompt_lost`, `answer_lost`: tokens cut from the ends of prompts and of answers; `turns_lost`: question and answer
    pairs left out whole. `exact` is False where a part of the row (a tool list, a huge text) was only estimated.
    """

    tokens: int
    kept: int
    prompt_lost: int = 0
    answer_lost: int = 0
    turns_lost: int = 0
    exact: bool = True
