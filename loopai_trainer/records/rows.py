"""A chat row, and what a row check says of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Turn(NamedTuple):
    """One message. `role` is user, assistant, tool or function (system stands in `Row.system`)."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Row:
    """A chat, whatever the source format was.

    `messages` alternates user/tool and assistant/function and ends with one of the latter.
    `tools` is JSON text or empty. `source_line`: 1-based line (JSON, JSONL) or 0-based row (Parquet).
    """

    messages: tuple[Turn, ...]
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
