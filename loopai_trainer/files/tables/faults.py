"""What can be wrong with a piece of a source file before anybody asks whether it is a good row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["row", "file", "remark"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding of a reader.

    scope `row`: this row cannot be read, the ones after it can. `file`: the file is refused, whatever its rows are
    like. `remark`: the row that follows is read, but something is to be said of it.
    `line_offset`: lines between the row's first line and the fault. `raw`: the row's bytes, as far as they are known.
    """

    code: str
    message: str
    hint: str = ""
    scope: Scope = "row"
    field: str | None = None
    line_offset: int = 0
    raw: bytes = b""
