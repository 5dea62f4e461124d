"""Judges the keys, types and values of a template against the installed verl's own configuration tree."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import keys
from loopai_trainer.backends.verl_grpo.tree import OPEN_PLACES, Kind, Tree, read_tree
from loopai_trainer.backends.verl_grpo.values import value_fault
from loopai_trainer.records import Problem, Versions
from loopai_trainer.rules import dotted

RESERVED = ("loopai", "result")

_HYDRA = "it is a matter of Hydra's own, and the launcher composes the configuration itself"

REFUSED: Mapping[str, str] = {
    "hydra": _HYDRA,
    "defaults": _HYDRA,
    "ray_kwargs.ray_init.address": "training would join another Ray cluster, whose processes nobody watches or stops",
    "ray_kwargs.ray_init._temp_dir": "the launcher gives each run a Ray folder of its own",
    "ray_kwargs.ray_init.runtime_env.working_dir": "training would run other code than what was approved",
    "ray_kwargs.ray_init.runtime_env.py_modules": "training would run other code than what was approved",
    "ray_kwargs.ray_init.runtime_env.pip": "packages would be installed after the approval",
    "ray_kwargs.ray_init.runtime_env.uv": "packages would be installed after the approval",
    "ray_kwargs.ray_init.runtime_env.conda": "another environment would be used than what was approved",
    "ray_kwargs.ray_init.runtime_env.container": "another environment would be used than what was approved",
    "ray_kwargs.ray_init.runtime_env.py_executable": "another Python would be used than what was approved",
    "ray_kwargs.ray_init.runtime_env.env_vars": "name variables in loopai.launch.env, where they are shown",
}
"""Keys that verl takes and a plan must not have -> why."""

RENAMED: Mapping[str, str] = {
    "learning_rate": "actor_rollout_ref.actor.optim.lr",
    "lr": "actor_rollout_ref.actor.optim.lr",
    "num_train_epochs": "trainer.total_epochs",
    "epochs": "trainer.total_epochs",
    "max_steps": "trainer.total_training_steps",
    "save_steps": "trainer.save_freq",
    "eval_steps": "trainer.test_freq",
    "save_total_limit": "trainer.max_actor_ckpt_to_keep",
    "num_generations": "actor_rollout_ref.rollout.n",
    "group_size": "actor_rollout_ref.rollout.n",
    "model_name_or_path": "nothing: --model sets it",
    "beta": "actor_rollout_ref.actor.kl_loss_coef",
    "kl_coef": "actor_rollout_ref.actor.kl_loss_coef",
    "mini_batch_size": "actor_rollout_ref.actor.ppo_mini_batch_size",
    "ppo_micro_batch_size_per_device": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "per_device_train_batch_size": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "max_completion_length": "data.max_response_length",
}
"""Names of neighbouring tools -> verl's."""

_WANTED: Mapping[str, str] = {
    "bool": "true or false", "int": "a whole number", "float": "a number", "str": "text", "dict": "a mapping",
    "list": "a list",
}  # fmt: skip


def template_problems(template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions) -> list[Problem]:
    """Unknown keys, keys of another version, values of the wrong type or outside their range; by line."""
    tree = read_tree(versions.package_dir)
    found = list(keys.other_family(template, lines, versions.version))
    for key, why in REFUSED.items():
        if dotted.has(template, key) and dotted.get(template, key) is not None:
            found.append(_problem("KEY_REFUSED", f"'{key}' cannot be set: {why}", f"remove {key}", key, lines))
    judge = _Judge(tree, lines, versions.version)
    found += judge.below(template, "")
    return sorted(found, key=lambda problem: problem.line or 0)


class _Judge:
    """Walks a template beside verl's tree."""

    def __init__(self, tree: Tree, lines: Mapping[str, int], version: str) -> None:
        self._tree = tree
        self._lines = lines
        self._version = version

    def below(self, values: Mapping[str, Any], prefix: str) -> Iterator[Problem]:
        for name, value in values.items():
            key = f"{prefix}.{name}" if prefix else str(name)
            if "." in str(name) and not _is_open(key, self._tree):
                message = f"'{name}' is written with dots: verl would not read it"
                yield _problem("UNKNOWN_KEY", message, "write it as nested mappings", key, self._lines)
            elif not (key in RESERVED or key in REFUSED or keys.belongs_to_other(key, self._version)):
                yield from self._one(key, value)

    def _one(self, key: str, value: Any) -> Iterator[Problem]:
        kind = self._tree.kinds.get(key)
        if kind is None:
            if not _is_open(key, self._tree):
                yield _problem("UNKNOWN_KEY", *self._unknown(key), key, self._lines)
            return
        fault = _fault(key, kind, value)
        if fault:
            yield _problem("WRONG_TYPE", *fault, key, self._lines)
            return
        outside = value_fault(key, value)
        if outside:
            yield _problem("VALUE_OUT_OF_RANGE", *outside, key, self._lines)
        if isinstance(value, dict):
            yield from self.below(value, key)

    def _unknown(self, key: str) -> tuple[str, str]:
        message = f"'{key}' is not a key of verl {self._version}"
        parent, _, name = key.rpartition(".")
        if name in RENAMED:
            instead = RENAMED[name]
            return message, instead if instead.startswith("nothing") else f"it is called {instead}"
        siblings = dotted.get(self._tree.values, parent) if parent else self._tree.values
        close = difflib.get_close_matches(name, siblings if isinstance(siblings, dict) else (), n=1, cutoff=0.7)
        if close:
            return message, f"did you mean {f'{parent}.' if parent else ''}{close[0]}?"
        elsewhere = [known for known in self._tree.kinds if known.rpartition(".")[2] == name and _is_main(known)]
        return message, f"did you mean {elsewhere[0]}?" if elsewhere else f"remove {key}"


def _is_main(key: str) -> bool:
    return not key.startswith(("critic.", "distillation.", "reward_model.", "custom_reward_function.", "skip."))


def _is_open(key: str, tree: Tree) -> bool:
    """Whether verl takes a key that its tree lacks: at one of the open places, or below one."""
    place = key
    while place:
        if place in OPEN_PLACES:
            return True
        place = place.rpartition(".")[0]
        if place in tree.kinds and dotted.get(tree.values, place) in ({}, None):
            return True
    return False


def _problem(code: str, message: str, hint: str, key: str, lines: Mapping[str, int]) -> Problem:
    return Problem("error", code, "template", message, hint, line=lines.get(key), field=key)


def _fault(key: str, kind: Kind, value: Any) -> tuple[str, str] | None:
    """(message, hint) for a value of the wrong type, or None."""
    if value is None and not kind.optional:
        return f"'{key}' has no value", "give it a value, or remove it"
    if value is None or not kind.names:
        return None
    name = type(value).__name__
    if name in kind.names or (name == "int" and "float" in kind.names):
        return None
    names = kind.names - {"int"} if "float" in kind.names else kind.names
    wanted = " or ".join(_WANTED[one] for one in sorted(names))
    return f"'{key}' is {_shown(value)}, it has to be {wanted}", _hint(key, kind, value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, bool):
        return "the truth value " + ("true" if value else "false")
    return f"the {'list' if isinstance(value, list) else 'mapping' if isinstance(value, dict) else 'number'} {value!r}"


def _hint(key: str, kind: Kind, value: Any) -> str:
    name = key.rpartition(".")[2]
    if isinstance(value, float) and "int" in kind.names and value.is_integer():
        return f"write {name}: {int(value)}"
    if isinstance(value, str) and "bool" in kind.names and value.lower() in ("true", "false"):
        return f"write {name}: {value.lower()} (without quotes)"
    if isinstance(value, str) and kind.names & {"int", "float"}:
        return _unquoted(name, kind, value)
    return "quote the text" if "str" in kind.names else "correct the value"


def _unquoted(name: str, kind: Kind, text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "correct the value"
    if math.isfinite(number) and number.is_integer() and "int" in kind.names:
        return f"write {name}: {int(number)} (without quotes)"
    if math.isfinite(number) and "float" in kind.names:
        return f"write {name}: {_yaml_float(number)} (without quotes)"
    return "correct the value"


def _yaml_float(number: float) -> str:
    """With a point before the exponent: PyYAML reads `1e-04` as text."""
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text
