"""Adapters: a decoded record -> a prompt with its reference answer, or why not. Nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts import records
from loopai_trainer.rules.prompts.leaks import leak
from loopai_trainer.rules.prompts.prompt_row import PromptRow
from loopai_trainer.rules.prompts.references import Reference, native_fault, reference
from loopai_trainer.rules.prompts.turns import Turns, prompt_fault, turns_of
from loopai_trainer.rules.rows.tool_json import kind_name

DEFAULT_DATA_SOURCE = "generated"
"""For records that name none, where no --data-source is given either."""
UNNAMED = f"records that name no data_source, which is now {DEFAULT_DATA_SOURCE!r} (--data-source names it)"
REPLY_OUT = "assistant's last turns that were taken out of the prompt"
CONTEXT_IN = "contexts that were put ahead of their question"
TEXT_PROMPT = "texts that became a prompt of one user turn"

PromptCheck = Callable[[object], PromptRow | Rejection]
"""A decoded record -> the row, or why not. Pure; raises nothing."""


class Adapter:
    """Reads records by one adapter, or (`auto`) each by the one that its keys ask for.

    `data_source`: for records that name none. `text_only`: whether the reward compares text, so that numbers as
    verl's own ground truth are refused.
    """

    def __init__(self, name: str, data_source: str, text_only: bool) -> None:
        self._name = name
        self._data_source = data_source
        self._text_only = text_only
        self._read: dict[str, Callable[[dict[str, Any]], PromptRow | Rejection]] = {
            "native": self._native,
            "messages": self._messages,
            "alpaca": self._alpaca,
            "qa": self._qa,
        }

    def __call__(self, record: object) -> PromptRow | Rejection:
        """Judge one record; raises nothing."""
        if type(record) is not dict:
            return Rejection("ROW_NOT_OBJECT", f"the row is {kind_name(record)}, not an object", "one object a row")
        name = self._name if self._name != "auto" else told_by_keys(record)
        if name is None:
            return _unknown(record)
        return self._read[name](record)

    def _native(self, record: dict[str, Any]) -> PromptRow | Rejection:
        # A native file is used as it is, and a chat template gets the very names that stand in it.
        turns = turns_of(record.get("prompt"), "prompt", as_written=self._name == "native")
        if isinstance(turns, Rejection):
            return turns
        reward = record.get("reward_model")
        if not isinstance(reward, dict):
            message = f"reward_model is {kind_name(reward)}: there is no ground truth"
            return Rejection("GROUND_TRUTH_MISSING", message, "give reward_model.ground_truth", "reward_model")
        truth = reward.get("ground_truth")
        fault = prompt_fault(turns, "prompt") or native_fault(truth, self._text_only)
        return fault or self._finished(record, turns, Reference(truth), "native")

    def _messages(self, record: dict[str, Any]) -> PromptRow | Rejection:
        field = next((name for name in (*records.TURNS, "prompt") if record.get(name) is not None), "messages")
        turns = turns_of(record.get(field), field)
        if isinstance(turns, Rejection):
            return turns
        reply, notes = "", []
        if turns[-1][0] == "assistant":
            reply, turns = turns[-1][1], turns[:-1]
            notes.append(REPLY_OUT)
        system = records.text_of(record, records.SYSTEMS)
        if system and not any(role == "system" for role, _ in turns):
            turns = (("system", system), *turns)
        return self._with_reference(record, turns, "messages", field, notes, reply)

    def _alpaca(self, record: dict[str, Any]) -> PromptRow | Rejection:
        instruction, given = record.get("instruction"), record.get("input")
        for name, value in (("instruction", instruction), ("input", given)):
            if value is not None and not isinstance(value, str):
                return Rejection("CONTENT_TYPE", f"{name} is {kind_name(value)}, not text", "give text", name)
        if record.get("history"):
            message = "the record has a history, which the adapter alpaca does not read"
            return Rejection("FORMAT_UNKNOWN", message, "write the chat as messages", "history")
        parts = [text for text in (instruction, given) if text and not text.isspace()]
        return self._asked(record, "\n".join(parts), "alpaca", "instruction", [])

    def _qa(self, record: dict[str, Any]) -> PromptRow | Rejection:
        field = next((name for name in records.QUESTIONS if record.get(name) is not None), "question")
        question = record.get(field)
        if field == "prompt" and isinstance(question, list):
            return self._messages(record)  # so that one of two files may hold texts and the other one chats
        if question is not None and not isinstance(question, str):
            hint = "give text; chats are read by --data-adapter messages"
            return Rejection("PROMPT_TYPE", f"{field} is {kind_name(question)}, not text", hint, field)
        question, notes = question or "", [TEXT_PROMPT] if field == "prompt" else []
        choices = next((record[name] for name in records.CHOICES if record.get(name)), None)
        if choices is not None and not _hold_all(question, choices):
            message = "the record has choices that its question does not hold: it could not be answered"
            return Rejection("PROMPT_INCOMPLETE", message, "write the choices into the question", field)
        context = records.text_of(record, records.CONTEXTS)
        if context and context not in question:
            question, notes = f"{context}\n\n{question}" if question.strip() else "", [*notes, CONTEXT_IN]
        return self._asked(record, question, "qa", field, notes)

    def _asked(
        self, record: dict[str, Any], question: str, adapter: str, field: str, notes: list[str]
    ) -> PromptRow | Rejection:
        if not question or question.isspace():
            return Rejection("PROMPT_MISSING", f"{field} is null, blank or missing", "give the question", field)
        system = records.text_of(record, records.SYSTEMS)
        turns: Turns = (("system", system), ("user", question)) if system else (("user", question),)
        return self._with_reference(record, turns, adapter, field, notes, "")

    def _with_reference(
        self, record: dict[str, Any], turns: Turns, adapter: str, field: str, notes: list[str], reply: str
    ) -> PromptRow | Rejection:
        fault = prompt_fault(turns, field)
        if fault is not None:
            return fault
        media = next((name for name in records.MEDIA if record.get(name)), None)
        if media is not None:
            message = f"the record has {media}, which only native Parquet keeps"
            return Rejection("MEDIA_NOT_CONVERTED", message, "write verl's own columns", media)
        answer = reference(record, reply)
        if isinstance(answer, Rejection):
            return answer
        return self._finished(record, turns, answer._replace(notes=(*notes, *answer.notes)), adapter)

    def _finished(self, record: dict[str, Any], turns: Turns, answer: Reference, adapter: str) -> PromptRow | Rejection:
        given = leak([content for _, content in turns], answer.truth, answer.solution)
        if given:
            return Rejection("ANSWER_IN_PROMPT", given, "take the answer out of the prompt", "prompt")
        fault = _side_fault(record)
        if fault is not None:
            return fault
        source, notes = record.get("data_source") or "", answer.notes
        if not source.strip():
            source = self._data_source
        if not source:
            if adapter == "native":
                hint = "name the data set, or give --data-source"
                return Rejection("DATA_SOURCE_MISSING", "the row has no data_source", hint, "data_source")
            source, notes = DEFAULT_DATA_SOURCE, (*notes, UNNAMED)
        reward = record.get("reward_model")
        style = _text(reward.get("style")) if isinstance(reward, dict) else ""
        ability, extra = _text(record.get("ability")), record.get("extra_info")
        return PromptRow(turns, source, answer.truth, adapter, ability, style, extra, answer.marker, notes)


def _side_fault(record: dict[str, Any]) -> Rejection | None:
    source, extra = record.get("data_source"), record.get("extra_info")
    if source is not None and not isinstance(source, str):
        message = f"data_source is {kind_name(source)}, not text"
        return Rejection("DATA_SOURCE_TYPE", message, "name the data set", "data_source")
    if extra is not None and not isinstance(extra, dict):
        message = f"extra_info is {kind_name(extra)}, not an object: verl would stop at it"
        return Rejection("EXTRA_INFO_TYPE", message, "give an object, or leave it out", "extra_info")
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def told_by_keys(record: dict[str, Any]) -> str | None:
    """The adapter that a record's keys ask for; None if they tell nothing.

    A key that is null counts only where no other one tells more: in Parquet each row has the columns of all.
    """
    native = records.is_native(record)
    if native and (record["reward_model"] is not None or records.reference_of(record) is None):
        return "native"
    if any(record.get(name) is not None for name in records.TURNS) or isinstance(record.get("prompt"), list):
        return "messages"
    if record.get(records.INSTRUCTION) is not None:
        return "alpaca"
    if any(record.get(name) is not None for name in records.QUESTIONS):
        return "qa"
    if records.INSTRUCTION in record:
        return "alpaca"
    return "qa" if any(name in record for name in records.QUESTIONS) else None


def _hold_all(question: str, choices: object) -> bool:
    if isinstance(choices, dict):
        choices = choices.get("text", list(choices.values()))
    items = choices if isinstance(choices, list) else [choices]
    return all(str(item).strip() in question for item in items)


def _unknown(record: dict[str, Any]) -> Rejection:
    shown = ", ".join(str(key)[:40] for key in list(record)[:8]) or "(none)"
    message = f"the row is of no known format; its keys are: {shown}"
    hint = "known are verl's own columns, messages, conversations, instruction and question with an answer"
    return Rejection("FORMAT_UNKNOWN", message, hint)
