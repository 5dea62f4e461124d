"""Turns of a prompt as they stand in a source: lists of {role, content}, or of {from, value}."""

from __future__ import annotations

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.prompt_row import ROLES
from loopai_trainer.rules.rows.tool_json import kind_name

_SHAREGPT = {"human": "user", "gpt": "assistant", "observation": "tool"}

Turns = tuple[tuple[str, str], ...]


def turns_of(value: object, field: str) -> Turns | Rejection:
    """(role, content) of each turn of a list; a null key counts as one that is not there."""
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
        turn = _turn(item, f"{field}[{number}]")
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


def _turn(item: object, place: str) -> tuple[str, str] | Rejection:
    if not isinstance(item, dict):
        return Rejection("PROMPT_TYPE", f"{place} is {kind_name(item)}, not an object", "write {role, content}", place)
    role = item.get("role", item.get("from"))
    content = item.get("content", item.get("value"))
    if not isinstance(role, str):
        return Rejection("ROLE_INVALID", f"{place} has no role", "name the role of each turn", place)
    known = _SHAREGPT.get(role, role)
    if known not in ROLES:
        hint = f"known are {', '.join(sorted(ROLES))}"
        return Rejection(
            "ROLE_INVALID", f"{place} has the role {role[:40]!r}, which no chat template knows", hint, place
        )
    if not isinstance(content, str):
        hint = "turns hold text; multimodal rows are kept as native Parquet alone"
        return Rejection("CONTENT_TYPE", f"the content of {place} is {kind_name(content)}, not text", hint, place)
    return known, content
