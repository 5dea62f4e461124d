"""Secrets that would stand in a plan and in what is shown of it: refused, with the way to pass them instead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from loopai_trainer.errors import ConfigError, SettingsError, UsageError
from loopai_trainer.files.small_inputs import Copy
from loopai_trainer.records import Plan, Problem, Settings
from loopai_trainer.rules import secrets

CODE = "SECRET_IN_CONFIG"
HINT = "take it out; name the variable that holds it in loopai.launch.pass_env (such as HF_TOKEN), and inspect again"


def plan_problems(plan: Plan, lines: Mapping[str, int], environ: Mapping[str, str]) -> Iterator[Problem]:
    """An error for each secret in the YAML, by its key and line; no value is said."""
    for key, kind in secrets.found(dict(plan.values), secrets.environment_values(environ)):
        message = f"'{key}' holds {kind}; it would stand in the plan, in its copies and in what is shown"
        yield Problem("error", CODE, "config", message, HINT, line=lines.get(key), field=key)


def refuse_overrides(texts: Sequence[str]) -> None:
    """Raises UsageError for a `--set` that gives a secret, before its text is shown anywhere."""
    for text in texts:
        key, _, value = text.partition("=")
        name = key.strip().rpartition(".")[2]
        kind = secrets.kind_of_token(text)
        if kind is None and secrets.named_secret(name, value.strip().strip("'\"")):
            kind = f"a secret, as its name '{name}' says"
        if kind is not None:
            shown = secrets.redacted(key.strip()) or "..."
            raise UsageError(f"--set {shown}: it gives {kind}, which would stand in the plan", code=CODE, hint=HINT)


def refuse_copies(copies: Sequence[Copy]) -> None:
    """Raises ConfigError for a file that would be copied into `inputs/` with a token in it; nothing is written yet."""
    problems = []
    for copy in copies:
        kind = secrets.kind_of_token(copy.data.decode("utf-8", "replace"))
        if kind is not None:
            name = os.path.basename(copy.path)
            message = f"{name} holds {kind}; its copy in inputs/ would keep it"
            hint = "take it out; let the code read it from a variable that loopai.launch.pass_env names"
            problems.append(Problem("error", CODE, "config", message, hint, field=name))
    if problems:
        raise ConfigError(problems[0].message, code=CODE, hint=problems[0].hint, problems=problems)


def refuse_settings(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raises SettingsError for settings that are, or hold, secrets: plan.json would keep them."""
    # The variable that a setting names for the language model's key may be called anything.
    key = environ.get(settings.text("config_llm_key_env"), "").strip()
    own = (key,) if len(key) >= secrets.MIN_LENGTH else ()
    problems = []
    for name, kind in secrets.found(dict(settings.values), (*own, *secrets.environment_values(environ))):
        origin = settings.origin(name.partition(".")[0])
        message = f"{name} (from {origin}) holds {kind}; plan.json would keep it"
        problems.append(Problem("error", CODE, "settings", message, "take it out", field=name, origin=origin))
    if problems:
        raise SettingsError(problems[0].message, code=CODE, hint="take it out of that setting", problems=problems)
