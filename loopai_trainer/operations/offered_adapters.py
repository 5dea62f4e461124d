"""Data adapters that installed packages offer: what each makes of a record is then judged like any other record."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from loopai_trainer.errors import SettingsError
from loopai_trainer.files.tables import Batch, Fault
from loopai_trainer.host import offered
from loopai_trainer.records import Problem
from loopai_trainer.rules.rows.tool_json import kind_name

KNOWN = ("auto", "native", "messages", "alpaca", "qa")
"""The adapters of this program."""

Rewrite = Callable[[dict[str, Any]], object]
"""A record as its source has it -> an object that one of KNOWN reads, or None for a record that is of no use."""


def find(name: str) -> tuple[str, Rewrite | None]:
    """(the adapter of this program that reads the records, what is done to each of them before).

    Raises SettingsError for a name that neither this program nor an installed package has, or that gives no function.
    """
    if name in KNOWN:
        return name, None
    point = offered.find(offered.DATA_ADAPTERS, name)
    if point is None:
        known = ", ".join((*KNOWN, *offered.names(offered.DATA_ADAPTERS)))
        raise _refusal(f"there is no data adapter '{name}'", f"known are {known}")
    try:
        function = point.load()
    except Exception as error:
        raise _refusal(f"the data adapter '{name}' ({point.value}) cannot be loaded: {_told(error)}", "") from error
    if not callable(function):
        raise _refusal(f"the data adapter '{name}' ({point.value}) is {kind_name(function)}, not a function", "")
    return "auto", function


def rewritten(batches: Iterable[Batch], rewrite: Rewrite) -> Iterator[Batch]:
    """The batches with what `rewrite` makes of each record; a Fault stands for one of which it makes none."""
    for positions, values in batches:
        yield positions, [_one(value, rewrite) if type(value) is dict else value for value in values]


def _one(record: dict[str, Any], rewrite: Rewrite) -> object:
    try:
        made = rewrite(copy.deepcopy(record))
    except Exception as error:  # noqa: BLE001 - another package's function may raise anything
        return _failed(f"raised {_told(error)}", "mend the adapter, or the record", record)
    if made is None:
        message = "the data adapter makes nothing of this record"
        return Fault("ADAPTER_REFUSED", message, "see its documentation", raw=_written(record))
    if type(made) is not dict:
        return _failed(f"gave {kind_name(made)}, not an object", "let it return a dict, or None", record)
    return made


def _failed(what: str, hint: str, record: dict[str, Any]) -> Fault:
    return Fault("ADAPTER_FAILED", f"the data adapter {what}", hint, raw=_written(record))


def _written(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace")


def _told(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _refusal(message: str, hint: str) -> SettingsError:
    hint = hint or "mend that package, or choose an adapter of this program"
    problem = Problem("error", "SETTING_INVALID", "settings", message, hint, field="verl_data_adapter")
    return SettingsError(message, hint=hint, problems=[problem])
