"""Runs in verl's environment: composes verl's own Hydra files with a plan's keys, and says what it could not take.

stdin: {"native": {...}, "open": ["dotted.place", ...]}; stdout: one JSON document {"yaml": text, "problems": [...]}.
Needs hydra and omegaconf alone; verl is found and not imported. `rehearse.py` loads this file for `compose`.
"""

import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

PRIMARY = "ppo_trainer"


def config_folder() -> str:
    """The folder of verl's Hydra files, without importing verl."""
    from importlib.util import find_spec

    spec = find_spec("verl")
    if spec is None or not spec.origin:
        raise FileNotFoundError("verl is not installed in this environment")
    return os.path.join(os.path.dirname(spec.origin), "trainer", "config")


def compose(native: dict[str, Any], open_places: Sequence[str] = ()) -> tuple[Any, list[dict[str, str]]]:
    """(the whole configuration, problems). A problem: {severity, code, message, hint, field}.

    A key that verl's tree lacks is a problem unless it lies below one of `open_places`, or where verl has an empty
    mapping or nothing.
    """
    from hydra import compose as compose_files
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    with initialize_config_dir(config_folder(), version_base=None):
        config = compose_files(PRIMARY)
    OmegaConf.set_struct(config, False)
    known = OmegaConf.to_container(config, resolve=False)
    problems = list(_unknown(native, known, "", frozenset(open_places)))
    try:
        config = OmegaConf.merge(config, OmegaConf.create(native))
        OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        field = getattr(error, "full_key", None) or ""
        said = str(error).splitlines()[0]
        problems.append(_problem("COMPOSE_FAILED", f"verl's configuration cannot take it: {said}", "correct it", field))
    return config, problems


def _unknown(
    native: dict[str, Any], known: dict[str, Any], prefix: str, open_places: frozenset[str]
) -> Iterator[dict[str, str]]:
    for name, value in native.items():
        key = f"{prefix}.{name}" if prefix else name
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            hint = f"did you mean {f'{prefix}.' if prefix else ''}{close[0]}?" if close else f"remove {key}"
            if key not in open_places:
                yield _problem("UNKNOWN_KEY", f"'{key}' is not a key of this verl", hint, key)
        elif isinstance(value, dict) and known[name] and key not in open_places:
            if isinstance(known[name], dict):
                yield from _unknown(value, known[name], key, open_places)
            else:
                message = f"'{key}' is a mapping, verl has {known[name]!r} there"
                yield _problem("WRONG_TYPE", message, "give it a value", key)


def _problem(code: str, message: str, hint: str, field: str) -> dict[str, str]:
    return {"severity": "error", "code": code, "message": message, "hint": hint, "field": field}


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    from omegaconf import OmegaConf

    config, problems = compose(question["native"], question.get("open", ()))
    if any(problem["code"] == "COMPOSE_FAILED" for problem in problems):
        return {"yaml": "", "problems": problems}
    return {"yaml": OmegaConf.to_yaml(config, resolve=True), "problems": problems}


def main() -> None:
    """Answers the question on stdin. Whatever a library prints goes to stderr."""
    answer_fd = os.dup(1)
    os.dup2(2, 1)
    try:
        answer = _answer(json.load(sys.stdin))
    except (ImportError, OSError) as error:
        message = f"verl's configuration cannot be read: {error}"
        answer = {"yaml": "", "problems": [_problem("BACKEND_BROKEN", message, "run: trainer setup verl", "")]}
    with os.fdopen(answer_fd, "w", encoding="utf-8") as out:
        json.dump(answer, out)


if __name__ == "__main__":
    main()
