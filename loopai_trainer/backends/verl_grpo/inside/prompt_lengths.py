"""Measures prompts in tokens as verl does, against data.max_prompt_length; runs in verl's environment.

verl cuts a longer prompt on the left without a word (experimental/agent_loop/agent_loop.py), or drops the row with
data.filter_overlong_prompts; data.truncation has no effect in 0.9.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """Lengths in tokens of the rows that stand for all `rows`; `longest` and its row among everything measured.

    `over`: rows of the sample that are too long; `failed`: (row, what the chat template said).
    """

    rows: int
    lengths: list[int]
    longest: tuple[int, int]
    over: int
    failed: list[tuple[int, str]]
    pictured: int


def measure(
    render: Callable[[Any], str],
    count: Callable[[list[str]], list[int]],
    rows: int,
    sample: Iterable[tuple[int, bool, Mapping[str, Any]]],
    maximum: int,
    batch: int = 256,
) -> Measured:
    """`sample`: (row, whether it stands for all, its columns); `render`: messages -> text, by the chat template."""
    lengths: list[int] = []
    failed: list[tuple[int, str]] = []
    longest, over, pictured = (0, -1), 0, 0
    waiting: list[tuple[int, bool, str]] = []

    def flush() -> None:
        nonlocal longest, over
        for (number, stands, _), size in zip(waiting, count([text for _, _, text in waiting]), strict=True):
            longest = max(longest, (size, -1 - number))
            if stands:
                lengths.append(size)
                over += size > maximum
        waiting.clear()

    for number, stands, row in sample:
        if row.get("images") or row.get("videos"):
            pictured += 1
            continue
        try:
            waiting.append((number, stands, render(row["prompt"])))
        except Exception as error:  # noqa: BLE001 - a chat template may raise anything
            failed.append((number, f"{type(error).__name__}: {error}"))
        if len(waiting) >= batch:
            flush()
    if waiting:
        flush()
    return Measured(rows, sorted(lengths), (longest[0], -1 - longest[1]), over, failed, pictured)


def findings(
    where: str, path: str, found: Measured, data: Mapping[str, Any], max_cut_share: float
) -> list[dict[str, Any]]:
    """What the lengths mean: `data` is the composed `data` block."""
    told = [
        _problem("error", "PROMPT_TEMPLATE", where, path, row, f"the chat template refuses the prompt: {said}"
                 f" ({len(found.failed)} of the rows measured)", "correct the roles and contents of the messages")
        for row, said in found.failed[:1]
    ]  # fmt: skip
    if found.pictured:
        message = f"{found.pictured} rows hold pictures or videos: their length in tokens is not known here"
        told.append(_problem("warning", "LENGTHS_UNKNOWN", where, path, None, message, "leave room for them"))
    if found.over or found.longest[0] > data["max_prompt_length"]:
        told.append(_too_long(where, path, found, data, max_cut_share))
    if data.get("filter_overlong_prompts"):
        told += _too_few(where, path, found, data)
    return told


def _too_long(where: str, path: str, found: Measured, data: Mapping[str, Any], max_cut_share: float) -> dict[str, Any]:
    maximum, measured = data["max_prompt_length"], len(found.lengths)
    longest, row = found.longest
    share = found.over / measured if measured else 0.0
    about = "" if measured == found.rows else f" of a sample of {measured}, {found.rows} in all"
    count = f"{found.over} of {measured} rows" if not about else f"{found.over} rows{about}"
    filtered = bool(data.get("filter_overlong_prompts"))
    does = "verl drops them" if filtered else "verl cuts them on the left without a word"
    limit = f"data.max_prompt_length = {maximum} tokens, the longest {longest}"
    message = f"{count} ({share:.1%}) are longer than {limit}: {does}"
    hint = f"set data.max_prompt_length to {longest}, or leave these rows out"
    severity = "error" if share > max_cut_share and not filtered else "warning"
    code = "PROMPTS_DROPPED" if filtered else "PROMPTS_CUT"
    return _problem(severity, code, where, path, row, message, hint)


def _too_few(where: str, path: str, found: Measured, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not found.lengths:
        return []
    left = found.rows - round(found.rows * found.over / len(found.lengths))
    needed = data["train_batch_size"] if where == "train" else 1
    if left >= needed:
        return []
    what = "data.train_batch_size" if where == "train" else "one validation row"
    message = f"{left} of {found.rows} rows are left after verl drops long prompts, fewer than {what} = {needed}"
    hint = "raise data.max_prompt_length, give more rows, or lower data.train_batch_size"
    return [_problem("error", "ROWS_TOO_FEW", where, path, None, message, hint)]


def summary(found: Measured, maximum: int) -> str:
    """For the approver."""
    if not found.lengths:
        return "not measured"
    middle, high = (found.lengths[int(share * (len(found.lengths) - 1))] for share in (0.5, 0.99))
    sampled = "" if len(found.lengths) == found.rows else f" (sample of {len(found.lengths)})"
    return (
        f"{found.rows} rows{sampled}: p50 {middle}, p99 {high}, longest {found.longest[0]} of {maximum} tokens; "
        f"{found.over} too long"
    )


def _problem(
    severity: str, code: str, where: str, path: str, row: int | None, message: str, hint: str
) -> dict[str, Any]:
    return {
        "severity": severity, "code": code, "where": where, "message": message, "hint": hint,
        "path": path, "row": row, "field": "data.max_prompt_length" if code != "PROMPT_TEMPLATE" else "prompt",
    }  # fmt: skip
