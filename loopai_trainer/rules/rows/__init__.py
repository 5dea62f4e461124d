"""What a good row is: the format told from a sample, and the check that makes a chat of a row or says why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopai_trainer.contract import RowCheck
from loopai_trainer.records import Rejection, Remarked, Row
from loopai_trainer.rules.rows.alpaca import AlpacaCheck, not_an_object
from loopai_trainer.rules.rows.chat import ChatCheck, Names
from loopai_trainer.rules.rows.names import did_you_mean

__all__ = ["FORMATS", "row_check_for"]

FORMATS = {
    "alpaca": "objects with instruction, input, output (and system, history, tools)",
    "sharegpt": 'objects with conversations: [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]',
    "messages": 'objects with messages: [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]',
}


def row_check_for(sample: Sequence[object]) -> tuple[str, RowCheck]:
    """(format, check) for rows like those of `sample` (a file's first decoded rows), by majority.

    The format is alpaca, sharegpt, messages, or "unknown", whose check rejects every row. A check is not shared between
    files: it remembers the sets of keys that it has seen.
    """
    votes = Counter(found for found in map(_looks_like, sample) if found is not None)
    if not votes:
        return "unknown", _Unknown()
    turns, style = votes.most_common(1)[0][0]
    if turns is None:
        return "alpaca", AlpacaCheck()
    if style == "from":
        return "sharegpt", ChatCheck(Names("sharegpt", turns, "from", "value"))
    return "messages", ChatCheck(Names("messages", turns, "role", "content"))


def _looks_like(row: object) -> tuple[str | None, str] | None:
    """(key of the turns, what a turn calls its role), (None, "") for alpaca, None if it cannot be told."""
    if type(row) is not dict:
        return None
    for turns, usual in (("messages", "role"), ("conversations", "from")):
        value = row.get(turns)
        if value is None:
            continue
        first = value[0] if type(value) is list and value else None
        if type(first) is dict and ("from" in first) != ("role" in first):
            return turns, "from" if "from" in first else "role"
        return turns, usual
    if "instruction" in row or "output" in row:
        return None, ""
    return None


class _Unknown:
    """Rejects all rows of a file whose format cannot be told."""

    def __call__(self, value: object, line: int) -> Row | Remarked | Rejection:
        """Judge one decoded row; raises nothing."""
        if type(value) is not dict:
            return not_an_object(value)
        keys = [str(key) for key in value]
        shown = ", ".join(keys[:8]) + (", ..." if len(keys) > 8 else "")
        message = f"the row is of no known format; its keys are: {shown or '(none)'}"
        inner = next(
            (key for key, item in value.items() if type(item) is list and item and type(item[0]) is dict), None
        )
        if inner is not None:
            return Rejection(
                "FORMAT_UNKNOWN", message, f"if the rows stand under {inner!r}, make that list the whole file"
            )
        wanted = ("instruction", "output", "conversations", "messages")
        meant = next((f"rename {key!r} to {name!r}" for key in keys if (name := did_you_mean(key, wanted))), None)
        return Rejection("FORMAT_UNKNOWN", message, meant or "known are " + "; ".join(FORMATS.values()))
