"""Turns of a prompt as they stand in a source: lists of {role, content}, or of {from, value}."""

from __future__ import annotations

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.prompt_row import ROLES
from loopai_trainer.rules.rows.tool_json import kind_name

_SHAREGPT = {"human": "user", "gpt": "assistant", "observation": "tool"}
_KEYS = (("role", "from"), ("content", "value"))
_CONVERTED = "; ShareGPT's names are converted with --data-adapter messages"

Turns = tuple[tuple[str, str], ...]


def turns_of(value: object, field: str, *, as_written: bool = False) -> Turns | Rejection:
    """(role, content) of each turn of a list; a null key counts as one that is not there.

    `as_written`: the turns are not written anew, so that only {role, content} with known roles will do.
    """
    if value is None:
        return Rejection("PROMPT_MISSING", f"{field} is null or missing", "give the chat turns of the prompt", field)
    if isinstance(value, str):
        hint = "convert the file, each text becoming one user turn, with --data-adapter qa"
        return Rejection(
            "PROMPT_TYPE", f"{field} is text, wanted is a list of {{role, content}}: some chat templates would render "
            "a turn per letter", hint, field,
        )  # fmt: skip
    if not isinstance(value, list):
        message = f"{field} is {kind_name(value)}, wanted is a list of {{role, content}}"
        return Rejection("PROMPT_TYPE", message, "give a list of chat turns", field)
    if not value:
        return Rejection("PROMPT_MISSING", f"{field} is an empty list", "give the chat turns of the prompt", field)
    result = []
    for number, item in enumerate(value):
        turn = _turn(item, f"{field}[{number}]", as_written)
        if isinstance(turn, Rejection):
            return turn
        result.append(turn)
    return tuple(result)


def prompt_fault(turns: Turns, field: str) -> Rejection | None:
    """What keeps turns from being a prompt: it asks something, and the assistant has the next word."""
    if not turns or not any(role == "user" for role, _ in turns):
        return Rejection("PROMPT_MISSING", f"{field} has no user turn", "a prompt needs a question", field)
    role, content = turns[-1]
    if role == "assistant":
        message = f"{field} ends with an assistant turn: an answer must not stand in the prompt"
        return Rejection("ANSWER_IN_PROMPT", message, "end the prompt with the user's turn", field)
    if role == "system":
        return Rejection("PROMPT_ORDER", f"{field} ends with a system turn", "end it with the user's turn", field)
    if not content or content.isspace():
        return Rejection("PROMPT_EMPTY", f"the last turn of {field} is blank", "give the question", field)
    return None


def _turn(item: object, place: str, as_written: bool) -> tuple[str, str] | Rejection:
    if not isinstance(item, dict):
        return Rejection("PROMPT_TYPE", f"{place} is {kind_name(item)}, not an object", "write {role, content}", place)
    role, content = (
        item.get(name) if as_written or item.get(name) is not None else item.get(other) for name, other in _KEYS
    )
    if not isinstance(role, str):
        hint = f"name the role of each turn{_CONVERTED if 'from' in item else ''}"
        return Rejection("ROLE_INVALID", f"{place} has no role", hint, place)
    known = role if as_written else _SHAREGPT.get(role, role)
    if known not in ROLES:
        hint = f"known are {', '.join(sorted(ROLES))}{_CONVERTED if role in _SHAREGPT else ''}"
        return Rejection(
            "ROLE_INVALID", f"{place} has the role {role[:40]!r}, which no chat template knows", hint, place
        )
    if not isinstance(content, str):
        hint = "turns hold text; multimodal rows are kept as native Parquet alone"
        return Rejection("CONTENT_TYPE", f"the content of {place} is {kind_name(content)}, not text", hint, place)
    return known, content
