"""The base model as an input of a plan: its folder, its fingerprint, and what the reserved block says of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from loopai_trainer.errors import ConfigError
from loopai_trainer.files import fingerprints, user_dirs
from loopai_trainer.files.hashing import HashCache
from loopai_trainer.records import Model, Problem, Settings
from loopai_trainer.rules import plan_flags

_FIELD = "train_input_model_name"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


NONE = Model("", "")
"""Of a plan that has none."""


def read(settings: Settings, environ: Mapping[str, str], progress: Callable[[int, int], None] | None) -> Model:
    """The model that the settings name; NONE if they name none, which `require` has allowed then.

    Raises ConfigError for what is no folder (a hub id is none, decision 17).
    """
    named = settings.text(_FIELD)
    if not named:
        return NONE
    path = os.path.abspath(named)
    if not os.path.isdir(path):
        problem = _no_folder(named, path, settings.origin(_FIELD))
        raise ConfigError(problem.message, hint=problem.hint, problems=[problem])
    cache = HashCache(user_dirs.hash_cache(environ))
    weights_read = settings.text("hash_weights") != plan_flags.STAT
    return fingerprints.fingerprint_model(path, cache, progress, weights_read=weights_read)


def entries(model: Model, settings: Settings) -> dict[str, Any]:
    """{"model": entry} for `loopai.inputs`; empty for a plan without a model."""
    return {} if model == NONE else {"model": entry(model, settings)}


def entry(model: Model, settings: Settings) -> dict[str, Any]:
    """`loopai.inputs.model`; the opt-out from reading the weights stands there in words."""
    opt_out = {"hash_weights": plan_flags.STAT} if settings.text("hash_weights") == plan_flags.STAT else {}
    return {"path": model.path, "fingerprint": model.fingerprint, **opt_out}


def looks_like_hub_id(named: str) -> bool:
    """Whether `named`, which is no folder here, may be the id of a model on a hub."""
    return _HUB_ID.fullmatch(named) is not None


def _no_folder(named: str, path: str, origin: str) -> Problem:
    code, message = "MODEL_NOT_FOUND", f"there is no model folder {path}"
    hint = "name a folder that holds config.json, weights and tokenizer; a hub id is not read"
    if looks_like_hub_id(named):
        code, message = "MODEL_IS_HUB_ID", f"'{named}' is no folder here, but may be the id of a model on a hub"
        hint = f"download it first, at a fixed revision: hf download {named} --revision COMMIT --local-dir DIR"
    return Problem("error", code, "model", message, hint, path=path, field=_FIELD, origin=origin)
