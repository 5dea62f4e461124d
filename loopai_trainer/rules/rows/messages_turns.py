"""What a turn of a messages file can hold beside role and content: tool calls, weights, names."""

from __future__ import annotations

from dataclasses import dataclass, field

from loopai_trainer.records import Rejection, Remark, Turn
from loopai_trainer.rules.rows.tool_json import calls_text, single_call_text

_MERGED_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""Between results of calls made at once. Source: LLaMA-Factory 0.9.5 data/converter.py OpenAIDatasetConverter."""


@dataclass(slots=True)
class Draft:
    """The turns read so far. `places[i]`: index in the source of turn i (of its first part, if merged)."""

    remarks: list[Remark]
    turns: list[Turn] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    system: str | None = None

    def merge_result(self, role: str, content: str) -> bool:
        """Whether this is a tool's result that was joined to the result before it."""
        if role != "tool" or not self.turns or self.turns[-1].role != "tool":
            return False
        self.turns[-1] = Turn("tool", self.turns[-1].content + _MERGED_RESULTS + content)
        text = "results of several tool calls were joined into one turn"
        self.remarks.append(Remark("RESULTS_MERGED", text, note=True))
        return True


def openai_turn(message: dict[str, object], role: str, where: str, draft: Draft) -> Rejection | bool:
    """Handle the keys beside role and content. True: the turn was a call and is in the draft; False: go on as usual."""
    calls, single = message.get("tool_calls"), message.get("function_call")
    if not calls and not single:
        return False
    if role not in ("assistant", "function"):
        text = f"{where} calls a tool, but its role is {role!r}"
        return Rejection("TOOL_CALL_INVALID", text, "only the assistant calls tools", where)
    written = calls_text(calls, f"{where}.tool_calls") if calls else single_call_text(single, f"{where}.function_call")
    if isinstance(written, Rejection):
        return written
    draft.remarks += written.remarks
    content = message.get("content")
    if content is not None and content != "":
        if type(content) is not str:
            return Rejection("CONTENT_NOT_TEXT", f"{where}.content is not a text", "write it as a string", where)
        if not content.isspace():
            text = "text beside a tool call is not trained: a function turn holds the calls alone"
            draft.remarks.append(Remark("TEXT_BESIDE_CALL", text, "put it into a turn of its own", f"{where}.content"))
    draft.remarks.append(Remark("CALLS_CONVERTED", "tool calls were written as function turns", note=True))
    draft.turns.append(Turn("function", written.text))
    return True
