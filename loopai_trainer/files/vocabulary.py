"""The tokens that a tokenizer.json holds, told from the file alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SMALLEST_SHARE = 0.5
"""A vocabulary of fewer tokens than half of the model's rows has been lost (padding of the rows is far less)."""


def tokens(document: Mapping[str, Any]) -> dict[str, object]:
    """Token -> id (or score), added tokens included, of a parsed tokenizer.json."""
    model = document.get("model")
    told = model.get("vocab") if isinstance(model, dict) else None
    found: dict[str, object] = {}
    if isinstance(told, dict):
        found |= told
    elif isinstance(told, list):  # Unigram: [token, score]
        found |= {str(entry[0]): number for number, entry in enumerate(told) if isinstance(entry, list) and entry}
    added = document.get("added_tokens")
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            found[entry["content"]] = entry.get("id")
    return found


def is_told(document: Mapping[str, Any]) -> bool:
    """Whether it has a list of tokens at all; some kinds of tokenizer keep theirs elsewhere."""
    model = document.get("model")
    return isinstance(model, dict) and isinstance(model.get("vocab"), dict | list)


def lost(found: Mapping[str, object], rows: object) -> str:
    """That these tokens are far fewer than the `rows` of the model's embedding (vocab_size); empty if they are not."""
    if not isinstance(rows, int) or len(found) >= SMALLEST_SHARE * rows:
        return ""
    return f"{len(found)} {'entry' if len(found) == 1 else 'entries'} against vocab_size {rows}"
