"""verl's own configuration tree, read as files: which keys there are, of which type, with which defaults.

`trainer/config/_generated_ppo_trainer.yaml` of the installed version is the tree that Hydra composes (checked against
a real composition); types of keys without a default come from the dataclasses that its `_target_`s name. No
interpreter is started, and nothing of verl is imported.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from loopai_trainer.errors import BackendMissing
from loopai_trainer.rules import dotted

GENERATED = os.path.join("trainer", "config", "_generated_ppo_trainer.yaml")

MISSING = "???"
"""Hydra's mark of a value that has to be given."""

OPEN_PLACES = (
    "actor_rollout_ref.actor.optim.override_optimizer_config",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs",
    "actor_rollout_ref.rollout.custom",
    "actor_rollout_ref.rollout.engine_kwargs",
    "actor_rollout_ref.rollout.engine_kwargs.sglang",
    "actor_rollout_ref.rollout.engine_kwargs.trtllm",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
    "actor_rollout_ref.rollout.repetition_penalty",
    "actor_rollout_ref.rollout.val_kwargs.repetition_penalty",
    "custom_reward_function.reward_kwargs",
    "data.apply_chat_template_kwargs",
    "data.mm_processor_kwargs",
    "ray_kwargs.ray_init",
    "ray_kwargs.ray_init.runtime_env",
    "reward.custom_reward_function.reward_kwargs",
    "reward.reward_kwargs",
    "reward_model.reward_kwargs",
    "trainer.v1.sampler.sampler_kwargs",
)
"""Places where verl reads keys of others, or keys that its tree lacks (`+key=` on its command line)."""

_WIDER: Mapping[str, frozenset[str]] = {
    # Their default is of one type alone, and verl reads others as well.
    "data.train_files": frozenset(("str", "list")),
    "data.val_files": frozenset(("str", "list")),
    "trainer.logger": frozenset(("str", "list")),
    "trainer.total_training_steps": frozenset(("int",)),
    "trainer.max_actor_ckpt_to_keep": frozenset(("int",)),
    "trainer.max_critic_ckpt_to_keep": frozenset(("int",)),
    "trainer.esi_redundant_time": frozenset(("int", "float")),
    "trainer.rollout_data_dir": frozenset(("str",)),
    "trainer.validation_data_dir": frozenset(("str",)),
    "trainer.resume_from_path": frozenset(("str",)),
    "data.gen_batch_size": frozenset(("int",)),
    "data.val_batch_size": frozenset(("int",)),
    "data.seed": frozenset(("int",)),
    "actor_rollout_ref.ref.log_prob_micro_batch_size": frozenset(("int",)),
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": frozenset(("int",)),
    "actor_rollout_ref.ref.log_prob_use_dynamic_bsz": frozenset(("bool",)),
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": frozenset(("int",)),
    "ray_kwargs.ray_init.num_cpus": frozenset(("int",)),
    "reward.custom_reward_function.path": frozenset(("str",)),
    "custom_reward_function.path": frozenset(("str",)),
    "custom_reward_function.name": frozenset(("str",)),
    "actor_rollout_ref.model.target_modules": frozenset(("str", "list")),
    "actor_rollout_ref.model.exclude_modules": frozenset(("str", "list")),
    "actor_rollout_ref.rollout.repetition_penalty": frozenset(("float",)),
    "actor_rollout_ref.rollout.val_kwargs.repetition_penalty": frozenset(("float",)),
}

_EXTRA = ("actor_rollout_ref.rollout.repetition_penalty", "actor_rollout_ref.rollout.val_kwargs.repetition_penalty")
"""Read by verl, and in no tree."""


class Kind(NamedTuple):
    """Types that a key takes (`bool int float str list dict`; empty: any) and whether it may be null."""

    names: frozenset[str]
    optional: bool


class Tree(NamedTuple):
    """`values`: the tree with its defaults, interpolations as they stand. `kinds`: dotted key -> what it takes."""

    values: Mapping[str, Any]
    kinds: Mapping[str, Kind]

    def holds(self, key: str) -> bool:
        """Whether verl has the key."""
        return dotted.has(self.values, key)


def read_tree(package_dir: str) -> Tree:
    """The tree of the verl in `package_dir`. Raises BackendMissing if it is not where it used to be."""
    path = os.path.join(package_dir, GENERATED)
    try:
        return _read(package_dir, os.stat(path).st_mtime_ns)
    except (OSError, yaml.YAMLError, SyntaxError, ValueError) as error:
        raise BackendMissing(
            f"the configuration tree of verl cannot be read: {path}: {error}",
            code="BACKEND_BROKEN",
            hint="install verl again in that environment, or run: trainer setup verl",
        ) from None


@functools.lru_cache(maxsize=4)
def _read(package_dir: str, _written_ns: int) -> Tree:
    with open(os.path.join(package_dir, GENERATED), encoding="utf-8") as file:
        values = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping")
    values.setdefault("model_engine", "dp")  # a Hydra group, not in the generated file
    classes: dict[str, dict[str, ast.ClassDef]] = {}
    kinds = {
        key: Kind(_WIDER.get(key, kind.names), kind.optional or key in _WIDER)
        for key, kind in _kinds(values, "", package_dir, classes)
    }
    kinds.update({key: Kind(_WIDER[key], True) for key in _EXTRA})
    return Tree(values, kinds)


def _kinds(
    values: Mapping[str, Any], prefix: str, package_dir: str, classes: dict[str, dict[str, ast.ClassDef]]
) -> Iterator[tuple[str, Kind]]:
    target = values.get("_target_")
    fields = _fields(target, package_dir, classes) if isinstance(target, str) else {}
    for name, value in values.items():
        key = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict) and value:
            yield key, Kind(frozenset(("dict",)), False)
            yield from _kinds(value, key, package_dir, classes)
        else:
            yield key, _kind(value, fields.get(name))


def _kind(default: Any, annotated: Kind | None) -> Kind:
    """From the default and the annotation; where they disagree, both are taken."""
    if default is None or default == MISSING or _is_interpolation(default):
        return annotated or Kind(frozenset(), True)
    own = type(default).__name__
    if annotated is None or not annotated.names:
        return Kind(frozenset((own,)) if annotated is None else frozenset(), annotated is not None)
    return Kind(annotated.names | {own}, annotated.optional)


def _is_interpolation(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("${")


def _fields(target: str, package_dir: str, classes: dict[str, dict[str, ast.ClassDef]]) -> dict[str, Kind]:
    """Field -> type of the dataclass `verl.a.b.Name`, with those that it inherits; empty for what is not found."""
    module, _, name = target.rpartition(".")
    if module not in classes:
        classes[module] = dict(_classes(module, package_dir))
    known = classes[module]
    found: dict[str, Kind] = {}
    for definition in _ancestry(name, known):
        for node in definition.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = _annotated(node.annotation)
    return found


def _classes(module: str, package_dir: str) -> Iterator[tuple[str, ast.ClassDef]]:
    parts = module.split(".")[1:]
    path = os.path.join(package_dir, *parts)
    if os.path.isdir(path):
        files = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".py")]
    else:
        files = [f"{path}.py"]
    for file_path in files:
        if os.path.isfile(file_path):
            with open(file_path, encoding="utf-8") as file:
                tree = ast.parse(file.read(), file_path)
            yield from ((node.name, node) for node in tree.body if isinstance(node, ast.ClassDef))


def _ancestry(name: str, known: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Base classes first, so that a later definition of a field wins, as it does for a dataclass."""
    definition = known.get(name)
    if definition is None:
        return
    for base in definition.bases:
        if isinstance(base, ast.Name) and base.id != name:
            yield from _ancestry(base.id, known)
    yield definition


_NAMES: Mapping[str, str] = {
    "bool": "bool", "int": "int", "float": "float", "str": "str", "list": "list", "tuple": "list", "List": "list",
    "dict": "dict", "Dict": "dict", "Literal": "str",
}  # fmt: skip


def _annotated(annotation: ast.expr) -> Kind:
    names: set[str] = set()
    optional = False
    for part in _union(annotation):
        if isinstance(part, ast.Constant) and part.value is None:
            optional = True
            continue
        text = ast.unparse(part.value if isinstance(part, ast.Subscript) else part).rpartition(".")[2]
        if text not in _NAMES and text[:1].isupper() and text.endswith("Config"):
            names.add("dict")
        elif text in _NAMES:
            names.add(_NAMES[text])
        else:
            return Kind(frozenset(), True)
    return Kind(frozenset(names), optional)


def _union(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        yield from _union(annotation.left)
        yield from _union(annotation.right)
    elif isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).rpartition(".")[2] in (
        "Optional",
        "Union",
    ):
        inner = annotation.slice
        for part in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
            yield from _union(part)
        if ast.unparse(annotation.value).endswith("Optional"):
            yield ast.Constant(None)
    else:
        yield annotation
