"""What each argument of the Python API has to be, and the refusal that names one that is something else.

Settings, which come by any name, are not among them: `rules.settings` has their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from loopai_trainer.errors import UsageError
from loopai_trainer.records import Problem

CODE = "ARGUMENT_INVALID"
_SHOWN_CHARACTERS = 80


class _Kind(NamedTuple):
    words: str
    fits: Callable[[Any], bool]


def _is_path(value: Any) -> bool:
    return isinstance(value, str) or hasattr(type(value), "__fspath__")


def _is_seconds(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and float(value) >= 0


def _are_texts(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return is_list and all(isinstance(one, str) for one in value)


_TEXT = _Kind("text", lambda value: isinstance(value, str))
_PATH = _Kind("a path, as text or as a path object", _is_path)
_SECONDS = _Kind("a number of seconds, 0 or more", _is_seconds)
_FLAG = _Kind("True or False", lambda value: isinstance(value, bool))
_TEXTS = _Kind("a list of texts", _are_texts)
_CALLABLE = _Kind("a function", callable)
_MAPPING = _Kind("a dict", lambda value: isinstance(value, Mapping))

_NEEDED: Mapping[str, _Kind] = {
    "prepared_config_path": _PATH,
    "expected_config_sha256": _TEXT,
    "version": _TEXT,
    "section_name": _TEXT,
    "overrides": _TEXTS,
    "refresh": _FLAG,
    "verify_all": _FLAG,
    "adopt": _FLAG,
    "terminate": _FLAG,
    "task_description": _TEXT,
    "dataset_path": _PATH,
    "model_name": _PATH,
    "template_path": _PATH,
    "use_swanlab": _FLAG,
    "swanlab_project": _TEXT,
    "api_key_env": _TEXT,
    "timeout_s": _SECONDS,
    "config": _MAPPING,
    "output_path": _PATH,
}
_OPTIONAL: Mapping[str, _Kind] = {
    "config_path": _PATH,
    "output_dir": _PATH,
    "task_id": _TEXT,
    "version_id": _TEXT,
    "field_name": _TEXT,
    "task_type": _TEXT,
    "resume": _TEXT,
    "limit_s": _SECONDS,
    "wait_timeout_s": _SECONDS,
    "progress": _CALLABLE,
    "watch": _CALLABLE,
    "model_path": _TEXT,
    "base_url": _TEXT,
    "api_key": _TEXT,
}
"""Arguments that may be None, which stands for not given."""


def refuse_unfit(given: Mapping[str, Any], needs: Sequence[str] = ()) -> None:
    """Raises UsageError ARGUMENT_INVALID with one finding for each argument that cannot be meant, by its name.

    `needs`: names of those that other calls may leave out and this one may not.
    """
    problems = list(_unfit(given, needs))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(problems[0].message + more, code=CODE, hint=problems[0].hint, problems=problems)


def _unfit(given: Mapping[str, Any], needs: Sequence[str]) -> Iterator[Problem]:
    for name, value in given.items():
        needed = name in _NEEDED or name in needs
        kind = _NEEDED.get(name) or _OPTIONAL[name]
        if kind.fits(value) or (value is None and not needed):
            continue
        message = f"{name} is {_shown(value)} ({type(value).__name__}); it has to be {kind.words}"
        hint = f"give {name} as {kind.words}" + ("" if needed else ", or leave it out")
        yield Problem("error", CODE, "settings", message, hint, field=name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
