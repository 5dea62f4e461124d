"""What can be known of a custom reward's file by reading it: verl would find it after minutes, or the copy would break.

Nothing of the file is run here; the rehearsal runs the copy. verl calls the function by keyword, loads the file by its
path alone, outside of any package, and lets its folder be no place to import from.
Source: verl 0.9.1 utils/import_utils.py load_module and experimental/reward_loop/reward_manager/naive.py.
"""

from __future__ import annotations

import ast
import difflib
import os
import sys
from collections.abc import Iterator, Sequence

from loopai_trainer.records import Problem

ARGUMENTS = ("data_source", "solution_str", "ground_truth", "extra_info")
"""What verl passes, all by keyword."""

MAX_BYTES = 16 * 1024 * 1024

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check(path: str, name: str, given: Sequence[str] = ()) -> list[Problem]:
    """Everything wrong with function `name` of the file; `given` are further keyword arguments that it gets."""
    if not name.isidentifier():
        return [_problem("REWARD_FUNCTION_MISSING", path, None, f"'{name}' cannot be the name of a function")]
    try:
        with open(path, "rb") as file:
            source = file.read(MAX_BYTES + 1)
    except OSError as error:
        return [_problem("REWARD_FILE_UNREADABLE", path, None, f"cannot be read: {error.strerror}")]
    if len(source) > MAX_BYTES:
        return [_problem("REWARD_FILE_UNREADABLE", path, None, f"is larger than {MAX_BYTES} bytes")]
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        return [_problem("REWARD_FILE_INVALID", path, error.lineno, f"is not Python: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [_problem("REWARD_FILE_INVALID", path, None, f"is not Python: {error}")]
    return [*_lost_imports(tree, path), *_function_problems(tree, path, name, given)]


def _lost_imports(tree: ast.Module, path: str) -> Iterator[Problem]:
    """Imports that would not find their module from the copy in `inputs/`."""
    folder = os.path.dirname(path)
    hint = "put everything into one file, or install the module into verl's environment"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = "." * node.level + (node.module or "")
            message = f"imports from {module}, and the copy that runs lies in no package"
            yield _problem("REWARD_LOCAL_IMPORT", path, node.lineno, message, hint)
            continue
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        whole = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for module in whole:
            beside = _beside(folder, module.partition(".")[0])
            if beside:
                message = f"imports {module}, which is {beside} beside it and not beside the copy that runs"
                yield _problem("REWARD_LOCAL_IMPORT", path, node.lineno, message, hint)


def _beside(folder: str, module: str) -> str:
    """The file or folder that a name means only because the script lies beside it."""
    if module in sys.stdlib_module_names:
        return ""
    for place in (f"{module}.py", module):
        path = os.path.join(folder, place)
        if os.path.isfile(path) if place.endswith(".py") else os.path.isdir(path):
            return place
    return ""


def _function_problems(tree: ast.Module, path: str, name: str, given: Sequence[str]) -> Iterator[Problem]:
    found = dict(_top_names(tree.body))
    if name in found:
        node = found[name]
        if isinstance(node, _Function):
            yield from _signature_problems(node, path, given)
        return
    if "*" in found:
        return  # the rehearsal will see
    functions = [known for known, node in found.items() if isinstance(node, _Function | ast.Assign)]
    near = difflib.get_close_matches(name, functions, 1) or functions[:1]
    hint = f"name the function: {path}:{near[0]}" if near else "define it in that file"
    yield _problem("REWARD_FUNCTION_MISSING", path, None, f"has no function '{name}'", hint)


def _top_names(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Names that the module has once it is loaded -> the statement; `*` for what a star import brings."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (part.id, node) for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
            )
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _top_names(getattr(node, block, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_names(handler.body)


def _signature_problems(node: _Function, path: str, given: Sequence[str]) -> Iterator[Problem]:
    """Where a call by keyword would raise."""
    passed = (*ARGUMENTS, *given)
    arguments = node.args
    names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    refused = [name for name in passed if name not in names] if arguments.kwarg is None else []
    wrapped = bool(node.decorator_list)  # a decorator may change what it takes
    if refused and not wrapped:
        message = f"'{node.name}' takes no argument {', '.join(refused)}, and it is called by keyword"
        hint = f"declare it as {node.name}({', '.join(passed)}, **kwargs)"
        yield _problem("REWARD_SIGNATURE", path, node.lineno, message, hint)
    positional = [argument.arg for argument in arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    missing = [argument.arg for argument in arguments.posonlyargs] + [name for name in needed if name not in passed]
    if missing and not wrapped:
        message = f"'{node.name}' needs {', '.join(missing)}, which nobody passes by keyword"
        hint = "give it a default, or pass it with --reward-kwargs"
        yield _problem("REWARD_SIGNATURE", path, node.lineno, message, hint)


def _problem(code: str, path: str, line: int | None, said: str, hint: str = "") -> Problem:
    message = f"the reward file {path} {said}" if not said.startswith("'") else f"the reward file {path}: {said}"
    hint = hint or "name a Python file with a reward function: --reward-function FILE[:NAME]"
    return Problem("error", code, "config", message, hint, path=path, line=line, field="verl_reward_function_path")
