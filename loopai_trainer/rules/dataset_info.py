"""LLaMA-Factory's registry format, dataset_info.json: one entry read and judged as LLaMA-Factory would use it.

Source: LLaMA-Factory 0.9.5 data/parser.py and data/loader.py. An unknown key is ignored there without a word, and an
entry that gives `columns` (or `tags`) sets every one that it leaves out to None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from loopai_trainer.records import Problem, Severity
from loopai_trainer.rules.rows.mapping import DatasetMap, Formatting
from loopai_trainer.rules.rows.names import did_you_mean
from loopai_trainer.rules.rows.tool_json import kind_name

COLUMNS: Mapping[str, str | None] = {
    "prompt": "instruction",
    "query": "input",
    "response": "output",
    "history": None,
    "messages": "conversations",
    "system": None,
    "tools": None,
    "images": None,
    "videos": None,
    "audios": None,
    "chosen": None,
    "rejected": None,
    "kto_tag": None,
}
TAGS: Mapping[str, str | None] = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
FORMATTINGS = ("alpaca", "sharegpt", "openai")

_REMOTE: Mapping[str, str] = {
    "hf_hub_url": "the data would be downloaded from a hub",
    "ms_hub_url": "the data would be downloaded from a hub",
    "om_hub_url": "the data would be downloaded from a hub",
    "cloud_file_name": "the data would be read from a cloud store",
    "script_url": "a loading script would run",
}
_NOT_TAKEN: Mapping[str, tuple[object, str, str]] = {
    "num_samples": (None, "rows would be drawn at random, some of them twice", "set max_samples in the template"),
    "split": ("train", "a file has no splits", "leave it out"),
    "subset": (None, "a file has no subsets", "leave it out"),
    "folder": (None, "it does nothing for a file", "leave it out"),
}
"""Key -> (the value that changes nothing, what another one would do, what to do instead)."""
_KEYS = ("file_name", "formatting", "ranking", "columns", "tags", *_NOT_TAKEN, *_REMOTE)
_PREFERENCE = ("chosen", "rejected", "kto_tag")

_MEANT: Mapping[str, Mapping[str, str]] = {
    "": {
        **dict.fromkeys(("format", "type", "style", "data_format"), "formatting"),
        **dict.fromkeys(("file", "filename", "path", "file_path", "data_file", "data_files"), "file_name"),
        **dict.fromkeys(("max_samples", "samples", "sample_num"), "num_samples"),
    },
    "columns": {
        **dict.fromkeys(("instruction", "question", "user"), "prompt"),
        **dict.fromkeys(("input", "context"), "query"),
        **dict.fromkeys(("output", "answer", "assistant", "completion"), "response"),
        **dict.fromkeys(("conversations", "conversation", "turns"), "messages"),
        "system_prompt": "system",
        "functions": "tools",
    },
    "tags": {
        **dict.fromkeys(("human_tag", "human"), "user_tag"),
        **dict.fromkeys(("gpt_tag", "gpt"), "assistant_tag"),
        **dict.fromkeys(("tool_tag", "tool"), "observation_tag"),
        **dict.fromkeys(("function_call_tag", "function_call"), "function_tag"),
        **dict.fromkeys(("from", "from_tag"), "role_tag"),
        **dict.fromkeys(("value", "value_tag"), "content_tag"),
    },
}
"""Names that people write -> the key that they mean; beside those that are a letter or two off."""


class Unreadable(ValueError):
    """The text is no registry. `line` (1-based) is where, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Entry(NamedTuple):
    """One entry. `file_name` as it is written; None: it names no local file, and `problems` says so."""

    name: str
    file_name: str | None
    mapping: DatasetMap
    problems: tuple[Problem, ...]


def parse(text: str) -> Mapping[str, Any]:
    """The registry: entries by name. Raises Unreadable."""
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        names = [key for key, _ in items]
        twice.extend(key for key in found if names.count(key) > 1)
        return found

    try:
        value = json.loads(text, object_pairs_hook=pairs)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except UnicodeEncodeError:
        raise Unreadable("half of a \\u surrogate pair stands for no character") from None
    except RecursionError:
        raise Unreadable("nested too deep to be a registry") from None
    except ValueError as error:
        raise Unreadable(f"not JSON that can be read: {error}") from None  # a number of thousands of digits
    if twice:
        raise Unreadable(f"the key {twice[0]!r} stands twice in one object", _line_of(text, (twice[0],)))
    if not isinstance(value, dict):
        raise Unreadable(f"it is {kind_name(value)}, not an object of entries by name")
    return value


def read_entry(registry: Mapping[str, Any], name: str, text: str, path: str) -> Entry:
    """The entry `name`, which is in the registry, with everything that is to be said of it.

    `text` is what `registry` was parsed from: lines are looked up in it. `path` names the file in problems.
    """
    judge = _Judge(name, text, path)
    entry = registry[name]
    if not isinstance(entry, dict):
        judge.error("DATASET_INFO_VALUE", (), f"is {kind_name(entry)}, not an object", 'write {"file_name": ...}')
        entry = {}
    judge.keys((), entry, _KEYS)
    formatting = judge.formatting(entry)
    columns = judge.maps(entry, "columns", COLUMNS)
    tags = judge.maps(entry, "tags", TAGS)
    written = frozenset(entry["columns"]) if isinstance(entry.get("columns"), dict) else None
    mapping = DatasetMap(name, formatting, columns, tags, written)
    judge.not_taken(entry)
    judge.whole(mapping, entry)
    return Entry(name, judge.file_name(entry), mapping, tuple(judge.problems))


class _Judge:
    """Collects what is to be said of one entry."""

    def __init__(self, name: str, text: str, path: str) -> None:
        self.problems: list[Problem] = []
        self._name, self._text, self._path = name, text, path

    def error(self, code: str, keys: tuple[str, ...], message: str, hint: str, severity: Severity = "error") -> None:
        """One finding on the entry's key `keys` (a path within the entry; empty: the entry itself)."""
        where = ".".join((self._name, *keys))
        self.problems.append(
            Problem(
                severity,
                code,
                "settings",
                f"dataset_info.json: {where} {message}",
                hint,
                path=self._path,
                line=_line_of(self._text, (self._name, *keys)),
                field=where,
            )
        )

    def keys(self, place: tuple[str, ...], found: Mapping[str, Any], known: tuple[str, ...]) -> None:
        """Unknown keys: LLaMA-Factory ignores them, whatever was meant by them."""
        table = _MEANT["".join(place)]
        for key in found:
            if key in known:
                continue
            meant = table.get(key.lower()) or _nearest(key, known)
            if meant and meant not in found:
                hint = f"rename {key!r} to {meant!r}"
                text = f"is not known, and LLaMA-Factory ignores it: did you mean {meant!r}?"
                self.error("DATASET_INFO_KEY", (*place, key), text, hint)
            else:
                severity: Severity = "error" if place else "warning"
                text = "is not known; LLaMA-Factory ignores it"
                self.error("DATASET_INFO_KEY", (*place, key), text, f"known are {', '.join(known)}", severity)

    def formatting(self, entry: Mapping[str, Any]) -> Formatting:
        """The entry's formatting; alpaca if it is left out, or none that is known."""
        value = entry.get("formatting", "alpaca")
        if value in FORMATTINGS:
            return cast(Formatting, value)
        meant = did_you_mean(value, FORMATTINGS) if isinstance(value, str) else None
        shown = repr(value) if isinstance(value, str) else kind_name(value)
        hint = f"write {meant!r}" if meant else f"known are {', '.join(FORMATTINGS)}"
        self.error("DATASET_INFO_VALUE", ("formatting",), f"is {shown}, which is no format", hint)
        return "alpaca"

    def maps(self, entry: Mapping[str, Any], key: str, defaults: Mapping[str, str | None]) -> dict[str, str | None]:
        """`columns` or `tags` with every key that LLaMA-Factory knows."""
        if key not in entry:
            return dict(defaults)
        given = entry[key]
        if not isinstance(given, dict):
            self.error("DATASET_INFO_VALUE", (key,), f"is {kind_name(given)}, not an object", "write names by key")
            return dict(defaults)
        self.keys((key,), given, tuple(defaults))
        result: dict[str, str | None] = {}
        for name in defaults:
            value = given.get(name)
            if value is not None and (type(value) is not str or not value):
                shown = "empty" if value == "" else f"{kind_name(value)}, not a text"
                self.error("DATASET_INFO_VALUE", (key, name), f"is {shown}", "write a name, or null for none")
                value = None
            result[name] = value
        for value in sorted({v for v in result.values() if v is not None}):
            names = [name for name, other in result.items() if other == value]
            if len(names) > 1:
                text = f"is {value!r}, as is {names[0]}: one of them cannot be told from the other"
                self.error("DATASET_INFO_VALUE", (key, names[1]), text, "give each a name of its own")
        return result

    def not_taken(self, entry: Mapping[str, Any]) -> None:
        """What an entry can ask for and a checked snapshot cannot give."""
        for key, why in _REMOTE.items():
            if key in entry:
                hint = "download the file, check it, and name it with file_name"
                self.error("DATASET_INFO_UNSUPPORTED", (key,), f"is not taken: {why}, unseen and unapproved", hint)
        for key, (harmless, why, hint) in _NOT_TAKEN.items():
            if key in entry and entry[key] is not None and entry[key] != harmless:
                self.error("DATASET_INFO_UNSUPPORTED", (key,), f"is not taken: {why}", hint)
        ranking = entry.get("ranking", False)
        if ranking is True:
            text = "is true: preference data is not for supervised fine-tuning, and LLaMA-Factory stops at it"
            self.error("DATASET_INFO_UNSUPPORTED", ("ranking",), text, "leave it out")
        elif ranking not in (False, None):
            text = f"is {kind_name(ranking)}, not true or false"
            self.error("DATASET_INFO_VALUE", ("ranking",), text, "leave it out")
        columns = entry.get("columns")
        for key in _PREFERENCE:
            if isinstance(columns, dict) and columns.get(key) is not None:
                text = "is not taken: preference data is not for supervised fine-tuning"
                self.error("DATASET_INFO_UNSUPPORTED", ("columns", key), text, "leave it out")

    def whole(self, mapping: DatasetMap, entry: Mapping[str, Any]) -> None:
        """Maps that leave out what no row can do without, and what the chosen formatting does not read."""
        gap = mapping.gap()
        if gap is not None:
            hint = f"to give a map clears what it leaves out: {_complete(mapping)}"
            if mapping.formatting == "alpaca" and mapping.columns["messages"]:
                hint = 'rows with turns need "formatting": "sharegpt"'
            text = f"is incomplete for formatting {mapping.formatting!r}: {gap}"
            self.error("DATASET_INFO_INCOMPLETE", (), text, hint)
        if mapping.formatting == "alpaca" and "tags" in entry:
            text = "are not read under formatting 'alpaca'"
            self.error("DATASET_INFO_IGNORED", ("tags",), text, 'set "formatting" to what the rows are', "warning")
        if mapping.formatting == "openai":
            text = (
                "is 'openai', under which LLaMA-Factory adds 'detailed thinking off' to the system prompt of every row "
                "that has no tools; the rows are written in sharegpt form, with no system prompt that nobody wrote"
            )
            hint = "nothing is to be done; outside this trainer use sharegpt with role and content tags"
            self.error("OPENAI_SYSTEM_PROMPT", ("formatting",), text, hint, "warning")

    def file_name(self, entry: Mapping[str, Any]) -> str | None:
        """The local file; None if there is none."""
        if any(key in entry for key in _REMOTE):
            return None
        value = entry.get("file_name")
        if isinstance(value, str) and value.strip() and "\x00" not in value:
            return value
        if not any(problem.field == self._name for problem in self.problems if problem.code == "DATASET_INFO_VALUE"):
            self.error("DATASET_INFO_VALUE", (), "names no file", 'add "file_name": "..."')
        return None


def _nearest(key: str, known: tuple[str, ...]) -> str | None:
    if f"{key.lower()}_tag" in known:
        return f"{key.lower()}_tag"
    return did_you_mean(key, known)


def _complete(mapping: DatasetMap) -> str:
    """The map as it would have to be, for a hint."""
    if mapping.formatting == "alpaca":
        return 'name at least prompt, query and response, such as "response": "output"'
    if mapping.columns["messages"] is None:
        return 'add "messages": "conversations", or how the rows call it'
    return "name role_tag, content_tag, user_tag, assistant_tag, system_tag, observation_tag and function_tag"


def _line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """The 1-based line of the last of `keys`, each looked for after the one before it; None if it is not found."""
    position = 0
    for key in keys:
        spellings = {json.dumps(key), json.dumps(key, ensure_ascii=False)}
        places = [found for one in spellings for found in _key_places(text, one, position)]
        if not places:
            return None
        position = min(places)
    return text.count("\n", 0, position) + 1


def _key_places(text: str, spelling: str, start: int) -> Iterator[int]:
    found = re.compile(re.escape(spelling) + r"\s*:").search(text, start)
    if found:
        yield found.start()
