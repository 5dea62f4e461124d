"""`--dataset-info FILE[:NAME]`: which registry entry describes the data, and where its file lies."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopai_trainer.errors import DataError
from loopai_trainer.records import Problem, Settings
from loopai_trainer.rules import dataset_info as rules
from loopai_trainer.rules.rows.mapping import DATASET_MAP

SETTING = "train_input_dataset_info"
DATASET = "train_input_dataset_path"
FILE_NAME = "dataset_info.json"
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A registry and its entry for the training data. `path` is absolute."""

    path: str
    text: str
    registry: Mapping[str, Any]
    entry: rules.Entry
    origin: str

    @property
    def file(self) -> str:
        """Absolute path of the entry's file. Raises DataError if it names none."""
        if self.entry.file_name is None:
            raise _refusal(self.entry.problems)
        return self._absolute(self.entry.file_name)

    def entry_for(self, path: str) -> rules.Entry:
        """The entry whose file is `path`, else that of the training data: an evaluation file usually looks like it."""
        if _same(self.file, path):
            return self.entry
        for name, value in self.registry.items():
            file_name = value.get("file_name") if isinstance(value, dict) else None
            if isinstance(file_name, str) and _same(self._absolute(file_name), path):
                return _with_origin(rules.read_entry(self.registry, name, self.text, self.path), self.origin)
        return self.entry

    def _absolute(self, file_name: str) -> str:
        return os.path.abspath(os.path.join(os.path.dirname(self.path), file_name))


def load(settings: Settings) -> DatasetInfo | None:
    """The registry that the settings name; None if they name none. Raises DataError for what is no such registry."""
    wanted, origin = settings.text(SETTING), settings.origin(SETTING)
    if not wanted:
        return None
    path, name = _split(wanted)
    text = _text(path, origin)
    try:
        registry = rules.parse(text)
    except rules.Unreadable as error:
        raise _unreadable(path, str(error), "correct the file", origin, error.line) from None
    name = _chosen(registry, name, path, origin)
    entry = _with_origin(rules.read_entry(registry, name, text, path), origin)
    return DatasetInfo(path, text, registry, entry, origin)


def complete(settings: Settings) -> Settings:
    """Settings whose training file is the entry's, if none was named. Raises DataError if another one was."""
    info = load(settings)
    if info is None:
        return settings
    named = settings.text(DATASET)
    if not named:
        origin = f"{info.origin} {info.path}:{info.entry.name}"
        return Settings({**settings.values, DATASET: info.file}, {**settings.origins, DATASET: origin})
    if not _same(named, info.file):
        message = (
            f"the dataset is not the file of the entry {info.entry.name!r} in {info.path}\n"
            f"  entry:   {info.file}\n  dataset: {os.path.abspath(named)} (from {settings.origin(DATASET)})"
        )
        hint = "leave --dataset out, or correct the entry's file_name"
        problem = Problem("error", "DATASET_MISMATCH", "settings", message, hint, path=info.path, origin=info.origin)
        raise _refusal([problem])
    return settings


def with_map(settings: Settings, entry: rules.Entry) -> Settings:
    """What a row check gets: the settings and the entry's map."""
    return Settings({**settings.values, DATASET_MAP: entry.mapping}, settings.origins)


def _split(wanted: str) -> tuple[str, str | None]:
    """(absolute path of the registry, name); a folder stands for the dataset_info.json in it."""
    path, name = wanted, None
    if not os.path.exists(wanted) and ":" in wanted:
        path, _, name = wanted.rpartition(":")
    if os.path.isdir(path):
        path = os.path.join(path, FILE_NAME)
    return os.path.abspath(path), name or None


def _text(path: str, origin: str) -> str:
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            raise _unreadable(path, f"larger than {_MAX_BYTES >> 20} MiB", "name a registry, not a data file", origin)
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"not UTF-8 at byte {error.start}", "save it as UTF-8", origin) from None
    except OSError as error:
        hint = "name LLaMA-Factory's dataset_info.json, as FILE or FILE:NAME"
        raise _unreadable(path, error.strerror or str(error), hint, origin) from None


def _chosen(registry: Mapping[str, Any], name: str | None, path: str, origin: str) -> str:
    if name is None and len(registry) == 1:
        return next(iter(registry))
    shown = ", ".join(list(registry)[:12]) + (", ..." if len(registry) > 12 else "")
    if name is None:
        if not registry:
            raise _unreadable(path, "it has no entries", "describe the data in one", origin)
        message, hint = f"it has {len(registry)} entries ({shown})", f"name one: {path}:NAME"
    elif name in registry:
        return name
    elif "," in name:
        message, hint = f"{name!r} are several entries", "name one; join the files of several first"
    else:
        close = difflib.get_close_matches(name, registry, n=1)
        message = f"it has no entry {name!r} (it has {shown or 'none'})"
        hint = f"did you mean {close[0]}?" if close else "name one of its entries"
    raise _refusal(
        [Problem("error", "DATASET_INFO_ENTRY", "settings", f"{path}: {message}", hint, path, origin=origin)]
    )


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _with_origin(entry: rules.Entry, origin: str) -> rules.Entry:
    return entry._replace(problems=tuple(replace(problem, origin=origin) for problem in entry.problems))


def _unreadable(path: str, what: str, hint: str, origin: str, line: int | None = None) -> DataError:
    message = f"{path}: {what}"
    return _refusal([Problem("error", "DATASET_INFO_UNREADABLE", "settings", message, hint, path, line, origin=origin)])


def _refusal(problems: tuple[Problem, ...] | list[Problem]) -> DataError:
    errors = [problem for problem in problems if problem.severity == "error"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return DataError(errors[0].message + more, hint=errors[0].hint, problems=problems)
