"""The entry of LLaMA-Factory's dataset registry that a data file needs, told from its first rows.

Source: LLaMA-Factory 0.9.5, data/parser.py: without `formatting` a file counts as Alpaca, and an entry with `columns`
has none of the usual ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopai_trainer.rules.rows import row_check_for

_ALPACA_COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
_ALPACA_MORE = ("system", "history", "tools")
_ROLE_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function",
    "system_tag": "system",
}


def entry_for(path: str, sample: Sequence[object]) -> dict[str, Any]:
    """The entry for the file `path` (absolute), whose first decoded rows are `sample`; Alpaca if they tell nothing."""
    style, _ = row_check_for(sample)
    keys = {key for row in sample if isinstance(row, dict) for key in row}
    entry: dict[str, Any] = {"file_name": path}
    if style in ("sharegpt", "messages"):
        turns = "messages" if "messages" in keys else "conversations"
        more = {name: name for name in ("system", "tools") if name in keys}
        entry |= {"formatting": "sharegpt", "columns": {"messages": turns, **more}}
        if style == "messages":
            entry["tags"] = dict(_ROLE_TAGS)
        return entry
    more = {name: name for name in _ALPACA_MORE if name in keys}
    if more:
        query = {name: key for name, key in _ALPACA_COLUMNS.items() if name != "query" or key in keys}
        entry["columns"] = {**query, **more}
    return entry
