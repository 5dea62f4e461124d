"""LLaMA-Factory's own arguments, read from the installed version's source with `ast`: no interpreter is started.

LLaMA-Factory does not check types: `bf16: "false"` switches bf16 on (its HfArgumentParser.parse_dict copies values).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Versions

ROOT_CLASSES = ("ModelArguments", "DataArguments", "TrainingArguments", "FinetuningArguments", "GeneratingArguments")
"""What `llamafactory-cli train` parses. Source: llamafactory/hparams/parser.py `_TRAIN_ARGS`, 0.9.5."""

_TRANSFORMERS_FILES = ("trainer_utils.py", "training_args.py", "training_args_seq2seq.py")


class Argument(NamedTuple):
    """One key. `kinds`: the types that its annotation names (str for enumerations); `listable`: split by comma."""

    name: str
    kinds: frozenset[str]
    choices: tuple[object, ...]
    optional: bool
    default: Any
    listable: bool


def read_arguments(versions: Versions) -> Mapping[str, Argument]:
    """Every key that the installed version accepts. Raises BackendMissing (BACKEND_BROKEN) if its source lacks them."""
    return _read(versions.package_dir, versions.site_packages)


@lru_cache(maxsize=4)
def _read(package_dir: str, site_packages: tuple[str, ...]) -> Mapping[str, Argument]:
    transformers_dir = _transformers_dir(package_dir, site_packages)
    own = _classes(os.path.join(package_dir, "hparams", name) for name in _hparams_files(package_dir))
    theirs = _classes(os.path.join(transformers_dir, name) for name in _TRANSFORMERS_FILES)
    constants = _classes([os.path.join(package_dir, "extras", "constants.py")])
    enumerations = _enumerations({**theirs, **constants})
    found: dict[str, Argument] = {}
    for root in ROOT_CLASSES:
        if root not in own or "Seq2SeqTrainingArguments" not in theirs:
            raise _broken(package_dir, f"the classes behind {root} are not where they used to be")
        definitions = list(_ancestry(own[root], own, theirs))
        split = {name for definition in definitions for name in _split_names(definition)}
        for definition in definitions:
            found.update(_arguments(definition, enumerations, split))
    return found


def _transformers_dir(package_dir: str, site_packages: tuple[str, ...]) -> str:
    for folder in (*site_packages, os.path.dirname(package_dir)):
        path = os.path.join(folder, "transformers")
        if os.path.isfile(os.path.join(path, "training_args.py")):
            return path
    raise _broken(package_dir, "transformers is not installed beside it")


def _hparams_files(package_dir: str) -> list[str]:
    folder = os.path.join(package_dir, "hparams")
    return [name for name in sorted(os.listdir(folder)) if name.endswith("_args.py")] if os.path.isdir(folder) else []


def _classes(paths: Iterable[str]) -> dict[str, ast.ClassDef]:
    found = {}
    for path in paths:
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read(), path)
            found.update({node.name: node for node in tree.body if isinstance(node, ast.ClassDef)})
    return found


def _enumerations(classes: Mapping[str, ast.ClassDef]) -> dict[str, tuple[object, ...]]:
    """Class name -> its members' values, for classes that derive from an Enum."""
    return {
        name: tuple(
            statement.value.value
            for statement in node.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        )
        for name, node in classes.items()
        if any(ast.unparse(base).endswith("Enum") for base in node.bases)
    }


def _ancestry(
    node: ast.ClassDef, own: Mapping[str, ast.ClassDef], theirs: Mapping[str, ast.ClassDef]
) -> Iterator[ast.ClassDef]:
    """Base classes first, so that a later definition of a name wins, as it does for a dataclass."""
    for base in reversed(node.bases):
        if not isinstance(base, ast.Name):
            continue
        if base.id == "BaseTrainingArguments":
            yield from _ancestry(theirs["Seq2SeqTrainingArguments"], theirs, theirs)
        elif base.id in own:
            yield from _ancestry(own[base.id], own, theirs)
    yield node


def _arguments(
    definition: ast.ClassDef, enumerations: Mapping[str, tuple[object, ...]], split: set[str]
) -> dict[str, Argument]:
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            initialised, default = _default(node.value)
            if initialised and not _is_class_variable(node.annotation):
                kinds, choices = _kinds(node.annotation, enumerations)
                optional = "None" in kinds or (default is None and _has_default(node.value))
                name = node.target.id
                found[name] = Argument(name, kinds - {"None"}, choices, optional, default, name in split)
    return found


def _split_names(definition: ast.ClassDef) -> set[str]:
    """Attributes that `__post_init__` passes to split_arg: they take a comma list or a YAML list."""
    return {
        call.args[0].attr
        for call in ast.walk(definition)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "split_arg"
        and call.args
        and isinstance(call.args[0], ast.Attribute)
    }


def _is_class_variable(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).startswith(("ClassVar", "typing.ClassVar"))


def _has_default(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return any(keyword.arg == "default" for keyword in value.keywords)
    return value is not None


def _default(value: ast.expr | None) -> tuple[bool, Any]:
    """(whether the constructor takes it, its default as far as it is a literal)."""
    if isinstance(value, ast.Call):
        keywords = {keyword.arg: keyword.value for keyword in value.keywords}
        if "init" in keywords and ast.unparse(keywords["init"]) == "False":
            return False, None
        value = keywords.get("default")
    try:
        return True, ast.literal_eval(value) if value is not None else None
    except ValueError:
        return True, None


def _kinds(
    annotation: ast.expr, enumerations: Mapping[str, tuple[object, ...]]
) -> tuple[frozenset[str], tuple[object, ...]]:
    """The names in a union; Literal and enumerations give choices, `list[str]` a list; other classes count as text."""
    kinds: set[str] = set()
    choices: list[object] = []
    for part in _union(annotation):
        if isinstance(part, ast.Constant) and part.value is None:
            kinds.add("None")
        elif isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
            choices.extend(
                ast.literal_eval(part.slice) if isinstance(part.slice, ast.Tuple) else [_literal(part.slice)]
            )
        else:
            name = ast.unparse(part.value if isinstance(part, ast.Subscript) else part)
            choices.extend(enumerations.get(name, ()))
            kinds.add(name if name in ("bool", "int", "float", "str", "dict", "list") else "str")
    kinds.update(type(choice).__name__ for choice in choices)
    return frozenset(kinds), tuple(choices) if kinds <= {"None", "str"} else ()


def _literal(node: ast.expr) -> object:
    value: object = ast.literal_eval(node)
    return value


def _union(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        yield from _union(annotation.left)
        yield from _union(annotation.right)
    elif isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("Optional", "Union"):
        inner = annotation.slice
        for part in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
            yield from _union(part)
        if ast.unparse(annotation.value) == "Optional":
            yield ast.Constant(None)
    else:
        yield annotation


def _broken(package_dir: str, what: str) -> BackendMissing:
    return BackendMissing(
        f"the LLaMA-Factory in {package_dir} cannot be read: {what}",
        code="BACKEND_BROKEN",
        hint="install llamafactory again in that environment, or run: trainer setup llamafactory",
    )
