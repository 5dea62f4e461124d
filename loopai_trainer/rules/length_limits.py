"""What a person allows of rows that training would cut, and of a template that does not fit: settings and YAML alike.

Values that differ from the defaults stand in the plan (`loopai.checks`), so that the approved hash covers them and
`inspect` judges by the same limits as `prepare` did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer.errors import SettingsError
from loopai_trainer.records import Problem, Settings

NAMES = ("max_cut_share", "length_sample", "allow_template_mismatch")


class LengthLimits(NamedTuple):
    """`max_cut_share`: share of measured rows that may lose something; `length_sample`: rows measured, None for all."""

    max_cut_share: float = 0.05
    length_sample: int | None = 20_000
    allow_template_mismatch: bool = False


def of_settings(settings: Settings) -> LengthLimits:
    """Raises SettingsError for values outside their range."""
    limits, problems = read({name: settings.values[name] for name in NAMES if settings.values.get(name) is not None})
    if problems:
        raise SettingsError(problems[0].message, hint=problems[0].hint, problems=problems)
    return limits


def of_plan(loopai: Mapping[str, Any]) -> tuple[LengthLimits, list[Problem]]:
    """The limits that a plan's reserved block names, and what is wrong with it after an edit."""
    block = loopai.get("checks", {})
    if isinstance(block, dict):
        return read(block, "loopai.checks.")
    return LengthLimits(), [_problem("loopai.checks", "'loopai.checks' is not a mapping", f"use {', '.join(NAMES)}")]


def to_plan(limits: LengthLimits) -> dict[str, Any]:
    """The block `loopai.checks`: what differs from the defaults, `all` for no limit."""
    shown = limits._asdict()
    if limits.length_sample is None:
        shown["length_sample"] = "all"
    standard = LengthLimits()._asdict()
    return {name: value for name, value in shown.items() if value != standard[name]}


def read(values: Mapping[str, Any], prefix: str = "") -> tuple[LengthLimits, list[Problem]]:
    """Limits from names and values; a value that is wrong is told and its default taken."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        kind = _KINDS.get(name)
        try:
            if kind is None:
                raise ValueError(f"is not one of {', '.join(NAMES)}")
            found[name] = kind(value)
        except ValueError as error:
            field = prefix + name
            problems.append(_problem(field, f"{field} = {value!r} {error}", "correct the value, or leave it out"))
    return LengthLimits(**found), problems


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("has to be a number from 0 to 1: a share of the rows")
    return float(value)


def _sample(value: Any) -> int | None:
    text = str(value).strip().lower()
    if text == "all":
        return None
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError("has to be a number of rows above 0, or: all")
    return int(text)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("has to be true or false")
    return value


_KINDS = {"max_cut_share": _share, "length_sample": _sample, "allow_template_mismatch": _flag}


def _problem(field: str, message: str, hint: str) -> Problem:
    return Problem("error", "LENGTH_LIMIT_INVALID", "settings", message, hint, field=field)
