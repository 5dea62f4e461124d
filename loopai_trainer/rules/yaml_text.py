"""YAML in and out, so that PyYAML, YAML 1.2 readers and OmegaConf (LLaMA-Factory's reader) all see the same values.

The rule: nothing that two of these readers understand differently is ever written, and what they would
understand differently on the way in is read as OmegaConf reads it, or refused with its line.
Source: measured with PyYAML 6.0.4, OmegaConf 2.4.0 and ruamel.yaml (`1e-5` is text to the first, a number to the
others).
"""

from __future__ import annotations

import re

import yaml

from loopai_trainer.errors import ConfigError
from loopai_trainer.records import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.records import Where

MAX_NODES = 10_000
"""OmegaConf 2.4.0 refuses a document with more expanded nodes."""

_OMEGACONF_FLOAT = re.compile(
    r"""^(?:
     [-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)
    |\.[0-9_]+(?:[eE][-+][0-9]+)?
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@-]*(?: [A-Za-z0-9_./+@-]+)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"))

_BASE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BASE_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(_BASE_LOADER):  # type: ignore[misc] # the C loader exists only where libyaml does
    pass


def _without(resolvers: Mapping[str, list[Any]], *tags: str) -> dict[str, list[Any]]:
    return {first: [pair for pair in pairs if pair[0] not in tags] for first, pairs in resolvers.items()}


_Loader.yaml_implicit_resolvers = _without(
    _BASE_LOADER.yaml_implicit_resolvers, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float"
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _OMEGACONF_FLOAT, list("-+0123456789."))


class _Dumper(_BASE_DUMPER):  # type: ignore[misc] # as above
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    plain_enough = text.isprintable() and "'" not in text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if plain_enough else '"')


_Dumper.add_representer(str, _represent_text)


class Document:
    """A parsed mapping. `lines` maps each dotted key to its 1-based line."""

    __slots__ = ("lines", "values")

    def __init__(self, values: dict[str, Any], lines: dict[str, int]) -> None:
        self.values = values
        self.lines = lines


def dump(values: Mapping[str, Any]) -> str:
    """YAML text of plain values (dict, list, text, number, bool, None) in their order; same values, same text."""
    text: str = yaml.dump(
        dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=4096
    )
    return text


def load(text: str, path: str, where: Where = "template") -> Document:
    """Parse one mapping. Raises ConfigError that names `path` and the line of everything that cannot be trusted."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise _refusal(
                path, where, [_problem(path, where, 1, "NOT_A_MAPPING", "the file is not a mapping of keys to values")]
            )
        walk = _Walk(path, where)
        walk.visit(node, "")
        if walk.problems:
            raise _refusal(path, where, walk.problems)
        values = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _refusal(path, where, [_syntax_problem(text, path, where, error)]) from None
    except (RecursionError, ValueError, TypeError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _refusal(path, where, [_problem(path, where, None, "YAML_INVALID", detail)]) from None
    finally:
        loader.dispose()
    return Document(values, walk.lines)


class _Walk:
    """Visits every node: finds duplicate keys, keys that are not text and interpolations; notes lines."""

    def __init__(self, path: str, where: Where) -> None:
        self.path = path
        self.where = where
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.nodes = 0

    def visit(self, node: yaml.Node, key: str) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ValueError(f"it has more than {MAX_NODES} nodes (aliases included), which OmegaConf refuses")
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, key)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, f"{key}.{index}")
        elif isinstance(node, yaml.ScalarNode):
            self._scalar(node, key)

    def _mapping(self, node: yaml.MappingNode, prefix: str) -> None:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                self._add(
                    line, "KEY_NOT_TEXT", f"the key {_shown(key_node)} is not text", prefix or None, "quote the key"
                )
                continue
            name = key_node.value
            key = f"{prefix}.{name}" if prefix else name
            if name in seen:
                message = f"the key '{key}' stands twice (first on line {seen[name]})"
                self._add(line, "DUPLICATE_KEY", message, key, "keep one of the two")
            seen[name] = line
            self.lines[key] = line
            self.visit(value_node, key)

    def _scalar(self, node: yaml.ScalarNode, key: str) -> None:
        if node.tag == "tag:yaml.org,2002:str" and ("${" in node.value or node.value == "???"):
            self._add(
                node.start_mark.line + 1,
                "INTERPOLATION",
                f"the value of '{key}' is {node.value!r}: OmegaConf reads that as an interpolation, not as text",
                key,
                "write the value itself",
            )

    def _add(self, line: int, code: str, message: str, key: str | None, hint: str) -> None:
        self.problems.append(_problem(self.path, self.where, line, code, message, key, hint))


def _shown(node: yaml.Node) -> str:
    return repr(node.value) if isinstance(node, yaml.ScalarNode) else "(a list or mapping)"


def _problem(
    path: str, where: Where, line: int | None, code: str, message: str, key: str | None = None, hint: str = ""
) -> Problem:
    return Problem("error", code, where, message, hint, path=path, line=line, field=key)


def _syntax_problem(text: str, path: str, where: Where, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    message = f"not valid YAML: {said}" + (f" ({context})" if context else "")
    line = mark.line + 1 if mark else None
    opened = _open_quote(text, line) if line else None
    hint = (
        "correct that line"
        if opened is None
        else f"look at line {opened}, too: it opens a quote that it does not close"
    )
    return _problem(path, where, line, "YAML_INVALID", message, hint=hint)


def _open_quote(text: str, before: int) -> int | None:
    """The first line before line `before` that opens a double quote and does not close it: the fault may lie there."""
    lines = text.splitlines()[: before - 1]
    return next((number for number, line in enumerate(lines, 1) if _double_quotes(line) % 2), None)


def _double_quotes(line: str) -> int:
    code = re.split(r"(?:^|\s)#", line, maxsplit=1)[0]
    return code.replace('\\"', "").count('"')


def _refusal(path: str, where: Where, problems: list[Problem]) -> ConfigError:
    first = problems[0]
    at = f"{path}:{first.line}" if first.line else path
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ConfigError(f"{at}: {first.message}{more}", hint=first.hint, problems=problems)
