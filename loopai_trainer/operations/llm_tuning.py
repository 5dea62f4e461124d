"""Config mode `llm`: a language model proposes changes of a template; whatever is wrong with its answer, the keyword
rules apply instead, and it is said.

What was asked and answered is kept, so that a plan can be accounted for though nobody can make the answer again
(decisions/0045).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loopai_trainer.errors import SettingsError
from loopai_trainer.host import chat_endpoint
from loopai_trainer.host.chat_endpoint import Endpoint, EndpointFailed
from loopai_trainer.records import Problem, Settings
from loopai_trainer.rules import secrets, tuning, tuning_patch
from loopai_trainer.rules.tuning_patch import AnswerRefused

MODEL, BASE_URL, KEY_ENV, TIMEOUT_S = (
    *("config_llm_model", "config_llm_base_url"),
    *("config_llm_key_env", "config_llm_timeout_s"),
)
"""The settings of the endpoint."""

DEFAULT_KEY_ENV = "OPENAI_API_KEY"
_MAX_TIMEOUT_S = 3600.0
_SHOWN_ANSWER = 2000


class LlmTuning(NamedTuple):
    """The tuned template. `record`: what plan.json keeps of question and answer; `warnings`: what an approver sees."""

    values: dict[str, Any]
    changes: list[tuning.Change]
    notes: list[str]
    warnings: tuple[Problem, ...]
    record: dict[str, Any]


def tune(
    template: Mapping[str, Any], settings: Settings, environ: Mapping[str, str], given: Collection[str] = ()
) -> LlmTuning:
    """The template as the model wants it, else as the rules do. Keys in `given` are neither's to change.

    Raises SettingsError for an endpoint that is none, and (PACKAGE_MISSING) without the package `openai`.
    """
    description, asked = settings.text("train_input_task_description"), endpoint(settings, environ)
    who = f"the language model {asked.model} at {asked.base_url}"
    record: dict[str, Any] = {"model": asked.model, "base_url": asked.base_url, "answer": None, "not_used": None}
    try:
        own = (asked.key,) if len(asked.key) >= secrets.MIN_LENGTH else ()  # its variable may have any name
        said = secrets.redacted(description, (*own, *secrets.environment_values(environ)))
        text = chat_endpoint.ask(asked, tuning_patch.question(template, said, given))
        record["answer"] = secrets.redacted(text[:_SHOWN_ANSWER], (asked.key,) if asked.key else ())
        patch = tuning_patch.read_answer(text, template, given)
    except (EndpointFailed, AnswerRefused) as error:
        record["not_used"] = str(error)
        return _by_rules(tuning.tune(template, description, given), who, record, _in_clear(asked))
    changes = [
        tuning.Change(key, template.get(key), value, f"{who} proposes it")
        for key, value in patch.items()
        if template.get(key) != value
    ]
    done = ", ".join(f"{one.key} {_shown(one.before)} -> {one.after}" for one in changes) or "nothing"
    message = f"{who} has changed: {done}"
    answer = f"its answer that was used: {json.dumps(patch)}"
    warning = Problem("warning", "TUNED_BY_LLM", "config", message, "read these values before you approve them")
    warnings = (*((warning,) if changes else ()), *_in_clear(asked))
    return LlmTuning({**template, **patch}, changes, [message, answer], warnings, record)


def endpoint(settings: Settings, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint that the settings name, with its key. Raises SettingsError for what is missing or unusable."""
    missing = [name for name in (MODEL, BASE_URL) if not settings.text(name)]
    if missing:
        raise SettingsError(
            f"config_mode llm needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} missing",
            code="SETTINGS_MISSING",
            hint=f"give {' '.join(f'--option {name}=VALUE' for name in missing)}, or leave --config-mode llm out",
        )
    return Endpoint(
        _address(settings), settings.text(MODEL), _key(settings, environ), _timeout_s(settings.values.get(TIMEOUT_S))
    )


def _by_rules(
    tuned: tuple[dict[str, Any], list[tuning.Change], list[str]],
    who: str,
    record: dict[str, Any],
    others: tuple[Problem, ...],
) -> LlmTuning:
    values, changes, notes = tuned
    message = f"{who} was not used: {record['not_used']}; the keyword rules apply instead"
    warning = Problem(
        "warning",
        "LLM_NOT_USED",
        "config",
        message,
        "mend the endpoint and prepare again, or go on with what the rules made",
    )
    return LlmTuning(values, changes, [message, *notes], (warning, *others, *tuning.disagreements(notes)), record)


def _in_clear(asked: Endpoint) -> tuple[Problem, ...]:
    """A warning if the key has gone over a network that others may listen to."""
    parts = urlsplit(asked.base_url)
    host = parts.hostname or ""
    if not asked.key or parts.scheme == "https" or host in ("localhost", "::1") or host.startswith("127."):
        return ()
    message = f"the key was sent to {asked.base_url} without encryption"
    return (Problem("warning", "LLM_KEY_IN_CLEAR", "config", message, "use an address that begins with https://"),)


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)


def _address(settings: Settings) -> str:
    text = settings.text(BASE_URL)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and not (parts.query or parts.fragment or parts.username)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        good = False
    if not good:
        raise SettingsError(
            f"{BASE_URL} (from {settings.origin(BASE_URL)}) is no address of an endpoint: {secrets.redacted(text)}",
            hint="give one such as http://127.0.0.1:8000/v1",
        )
    return text


def _key(settings: Settings, environ: Mapping[str, str]) -> str:
    """The key's value; empty if the usual variable is not set, since a server of one's own wants none."""
    name = settings.text(KEY_ENV) or DEFAULT_KEY_ENV
    value = environ.get(name, "").strip()
    if not value and settings.origin(KEY_ENV) not in ("default", "unset"):
        raise SettingsError(
            f"{KEY_ENV} (from {settings.origin(KEY_ENV)}) names the variable {name}, which is not set",
            hint=f"set {name} to the endpoint's key",
        )
    if not value.isascii() or not value.isprintable():
        raise SettingsError(f"the variable {name} holds no key", hint=f"set {name} to the endpoint's key")
    return value


def _timeout_s(value: Any) -> float:
    if isinstance(value, int | float) and 0 < value <= _MAX_TIMEOUT_S:
        return float(value)
    raise SettingsError(
        f"{TIMEOUT_S} is {value}: it has to be above 0 and at most {_MAX_TIMEOUT_S:g}", hint="leave it out for 60 s"
    )
