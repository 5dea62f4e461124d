"""A turn's keys beside its role and its text: what would be dropped without a word, or says something else."""

from __future__ import annotations

from loopai_trainer.records import Rejection, Remark

ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "observation": "tool",
    "tool": "tool",
    "function_call": "function",
    "function": "function",
    "system": "system",
}
"""Role in the source -> role of a Turn (and `system`). The names of both formats are unambiguous in either."""
OTHER_NAME = {"from": "role", "role": "from", "value": "content", "content": "value"}
"""What the other format calls it."""
REASONING = ("reasoning_content", "reasoning", "thinking")
"""Keys of chat APIs that hold a model's thoughts; LLaMA-Factory 0.9.5 data/converter.py reads none of them."""
_CALLS = ("tool_calls", "function_call")


def turn_fault(message: dict[str, object], role: str, where: str, names: tuple[str, str]) -> Rejection | None:
    """Why a turn with further keys cannot be taken as it stands. `names`: the keys of its role and its text."""
    for name in names:
        other = OTHER_NAME[name]
        twice = message.get(other)
        if not isinstance(twice, str) or not twice or twice == message.get(name):
            continue
        # "from" beside a role may as well be who wrote it, by name: that contradicts nothing.
        if name == names[0] and ROLES.get(twice, role) == role:
            continue
        text = f"{where} has both {name} and {other}, which differ; only {name} would be read"
        code = "ROLE_TWICE" if name == names[0] else "CONTENT_TWICE"
        return Rejection(code, text, "keep the one that is meant", f"{where}.{other}")
    if message.get("weight") == 0 and role == "assistant":
        text = f"{where} has weight 0, but would be trained on all the same"
        return Rejection("WEIGHT_IGNORED", text, "leave the turn or the row out", f"{where}.weight")
    if names[0] == "from":
        return _lost_calls(message, where)
    return None


def _lost_calls(message: dict[str, object], where: str) -> Rejection | None:
    for key in _CALLS:
        if message.get(key):
            text = f"{where} has {key}, which is only read beside role and content"
            hint = "write the call as a turn of function_call, or the whole file with role and content"
            return Rejection("TOOL_CALLS_LOST", text, hint, f"{where}.{key}")
    return None


def thought_remarks(message: dict[str, object], where: str) -> tuple[Remark, ...]:
    """Thoughts beside the answer are not trained: the answer alone is."""
    found = next((key for key in REASONING if message.get(key)), None)
    if found is None:
        return ()
    hint = "to train them, put them at the start of the text as <think>...</think>; else take the key out"
    return (Remark("REASONING_IGNORED", f"{found} beside the text is not trained on", hint, f"{where}.{found}"),)
