"""Parts given as instance, class, factory, registered name or mapping: one rule for what each form means.

Standard library alone and nothing of this package: the driver of a backend carries a copy of this file into the user's
environment. Source: spec/003 section 1.1.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Load = Callable[[str], Any]

NAME_KEYS = ("name", "type")
"""Keys of a mapping that say what is built; all others are its arguments."""


class ComponentError(ValueError):
    """A part that cannot be built. `hint` is one thing to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def split_spec(spec: Any, kind: str) -> tuple[str | None, dict[str, Any]]:
    """(name or dotted path, arguments) of a part as YAML gives it: null, text or a mapping. Raises ComponentError."""
    if spec is None:
        return None, {}
    if isinstance(spec, str):
        return _text(spec, kind), {}
    if not isinstance(spec, dict):
        raise ComponentError(f"{kind} is a {type(spec).__name__}", "write a name, or a mapping with 'name'")
    given = [key for key in NAME_KEYS if spec.get(key) is not None]
    if len(given) > 1:
        raise ComponentError(f"{kind} has both 'name' and 'type'", "keep one of them")
    arguments = {key: value for key, value in spec.items() if key not in NAME_KEYS}
    if not all(isinstance(key, str) for key in arguments):
        raise ComponentError(f"{kind} has an argument whose name is no text", "write arguments as name: value")
    return (_text(spec[given[0]], kind) if given else None), arguments


def is_dotted(name: str) -> bool:
    """Whether a name is a path to code (`package.module:attribute`) and no registered one."""
    return ":" in name


def load_dotted(path: str) -> Any:
    """The object at `package.module:attribute`. Raises ComponentError."""
    module, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ComponentError(f"{path} cannot be loaded: {error}", "name it as package.module:attribute") from error
    return found


class Found(NamedTuple):
    """A part that nothing was called for yet. `what`: the object itself (`made`), or the class or factory to call."""

    what: Any
    arguments: Mapping[str, Any]
    made: bool = False


def build_component(
    spec: Any,
    kind: str,
    expected: type | tuple[type, ...],
    *,
    names: Mapping[str, Any] = {},
    default: Any = None,
    offered: Mapping[str, Any] = {},
    load: Load = load_dotted,
) -> Any:
    """The part that `spec` describes, an instance of `expected`.

    `spec`: an instance; a class; a factory; a name of `names` (whose values are specs themselves, or dotted paths) or a
    dotted path; a mapping with `name` or `type` and arguments; None, or a mapping with arguments alone: `default`, a
    spec too (None: there is no such part). `offered`: arguments that a class or factory gets if it takes them and the
    spec does not give them. Raises ComponentError.
    """
    found = find_component(spec, kind, expected, names=names, default=default, load=load)
    return made_component(found, kind, expected, offered)


def made_component(
    found: Found | None, kind: str, expected: type | tuple[type, ...], offered: Mapping[str, Any] = {}
) -> Any:
    """The part that was found, an instance of `expected`; None for None. Raises ComponentError."""
    if found is None or found.made:
        return found and found.what
    arguments = bound_arguments(found, kind, offered)
    try:
        made = found.what(**arguments)
    except (TypeError, ValueError) as error:
        message = f"{kind}: {_name_of(found.what)} cannot be made: {error}"
        raise ComponentError(message, "change its arguments") from error
    return _checked(made, kind, expected)


def find_component(
    spec: Any,
    kind: str,
    expected: type | tuple[type, ...],
    *,
    names: Mapping[str, Any] = {},
    default: Any = None,
    load: Load = load_dotted,
) -> Found | None:
    """What `build_component` would call, or the part itself; None where there is none. Nothing is called.

    A class is one of `expected`; what a factory gives shows only when it is called. Raises ComponentError.
    """
    arguments: dict[str, Any] = {}
    if isinstance(spec, dict):
        name, arguments = split_spec(spec, kind)
        spec = name
    if spec is None:
        if default is None:
            if arguments:
                raise ComponentError(f"{kind} has arguments, but no name", "add 'name'")
            return None
        spec = default
    if isinstance(spec, str):
        spec = _named(_text(spec, kind), kind, names, load)
    if isinstance(spec, expected):
        if arguments:
            raise ComponentError(f"{kind} is an object already, and takes no arguments", "remove the arguments")
        return Found(spec, {}, made=True)
    if not callable(spec):
        raise ComponentError(f"{kind} is a {type(spec).__name__}, not a {_said(expected)}", "name one that is")
    if isinstance(spec, type) and not issubclass(spec, expected):
        raise ComponentError(f"{kind} is a {spec.__name__}, not a {_said(expected)}", "name one that is")
    return Found(spec, arguments)


def bound_arguments(found: Found, kind: str, offered: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The arguments that a class or factory is called with. Raises ComponentError for those it does not take."""
    import inspect  # costs milliseconds, and only who builds something needs it

    try:
        signature = inspect.signature(found.what)
    except (TypeError, ValueError):
        return dict(found.arguments)  # a builtin that does not say
    parameters, given = signature.parameters, found.arguments
    extra = {name: value for name, value in offered.items() if name in parameters and name not in given}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    unknown = [] if takes_all else [name for name in given if name not in parameters]
    if unknown:
        known = ", ".join(name for name in parameters if name != "self") or "nothing"
        raise ComponentError(f"{kind}: {_name_of(found.what)} takes no '{unknown[0]}'", f"it takes: {known}")
    try:
        signature.bind(**given, **extra)
    except TypeError as error:
        message = f"{kind}: {_name_of(found.what)} cannot be made: {error}"
        raise ComponentError(message, "change its arguments") from error
    return {**given, **extra}


def factory_is_known(make: Any, module: str | None, expected: type | tuple[type, ...]) -> bool:
    """Whether a factory is what its user took it for: written in the module of that name, or annotated as giving one.

    `os.system` is neither, wherever it was found. `module` None: no module counts. A class is always what it is.
    """
    while hasattr(make, "func") and hasattr(make, "keywords"):  # functools.partial
        make = make.func
    if isinstance(make, type) and issubclass(make, expected):
        return True
    if module is not None and getattr(make, "__module__", None) == module:
        return True
    given = _annotated(make)
    return isinstance(given, type) and issubclass(given, expected)


def _annotated(make: Any) -> Any:
    """What a function says that it gives."""
    from typing import get_type_hints

    try:
        return get_type_hints(make).get("return")
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None


def _named(name: str, kind: str, names: Mapping[str, Any], load: Load) -> Any:
    for _ in range(4):  # a name may stand for another one
        if name in names:
            found = names[name]
            if not isinstance(found, str):
                return found
            name = found
        elif is_dotted(name):
            return load(name)
        else:
            break
    raise ComponentError(
        f"there is no {kind} '{name}'", f"use one of: {', '.join(sorted(names))}, or package.module:attribute"
    )


def _checked(made: Any, kind: str, expected: type | tuple[type, ...]) -> Any:
    if not isinstance(made, expected):
        raise ComponentError(
            f"{kind}: what was made is a {type(made).__name__}, not a {_said(expected)}", "name one that is"
        )
    return made


def _text(value: Any, kind: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ComponentError(f"the name of {kind} is no text", "write a registered name, or package.module:attribute")
    name = value.strip()
    module, colon, attribute = name.partition(":")
    if colon and not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise ComponentError(f"{kind}: '{name}' is no path to code", "write package.module:attribute")
    return name


def _said(expected: type | tuple[type, ...]) -> str:
    kinds = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join(one.__name__ for one in kinds)


def _name_of(make: Any) -> str:
    return str(getattr(make, "__name__", type(make).__name__))
