"""The entry point: answers `--version`, `status VERSION --json`, `list` and `run-prepared` without typer.

Agents poll `status` and `list` and chain `run-prepared`; typer alone costs more CPU than they do. Only exact forms are
taken here; anything else, every mistake included, goes to typer, which knows how to complain. A test holds the two
paths together.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the program and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    _take_all_characters()
    try:
        code = _fast(words)
        if code is not None:
            return code
        from loopai_trainer.cli.app import run

        return run(words)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the CLI's main: the unforeseen becomes an answer here
        from loopai_trainer.cli.app import unforeseen

        return unforeseen(words, error)


def _open_missing_streams() -> None:
    """Streams that the caller closed (`2>&-`) lead nowhere, so that no file of a run gets their numbers."""
    if sys.stdout is None or sys.stderr is None or sys.stdin is None:
        import os

        while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
            os.set_inheritable(fd, True)
        os.close(fd)
        sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - open as long as the program
        sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above


def _take_all_characters() -> None:
    """What a terminal of another encoding than UTF-8 cannot show is escaped as in JSON: no answer may fail for that."""
    if getattr(sys.stdout, "errors", "") == "strict" and hasattr(sys.stdout, "reconfigure"):
        import codecs

        codecs.register_error("json_escape", _json_escape)
        sys.stdout.reconfigure(errors="json_escape")


def _json_escape(error: UnicodeError) -> "tuple[str, int]":
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


def _fast(words: "list[str]") -> int | None:
    if words == ["--version"]:
        from loopai_trainer.version import __version__

        return _say(__version__)
    if words[:1] == ["status"]:
        parsed = parse(words[1:], values=("--output-dir", "--task-id"), switches=("--json",))
        return _status(*parsed) if parsed and parsed[1].get("--json") else None
    if words[:1] == ["run-prepared"]:
        values = ("--sha256", "--version-id", "--wait-timeout")
        switches = ("--json", "--no-color", "--quiet", "--verify-all")
        parsed = parse(words[1:], values=values, switches=switches)
        return _run_prepared(*parsed) if parsed else None
    if words[:1] == ["list"]:
        # With a name of its own in the place of the one positional argument, which `list` has not.
        values = ("--limit", "--output-dir", "--task-id")
        parsed = parse(["", *words[1:]], values=values, switches=("--json", "--no-color", "--quiet"))
        return _list(parsed[1]) if parsed else None
    return None


def _say(line: str) -> int:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        sys.stdout = None  # Python must not try to flush it once more
        return 1
    return 0


def parse(
    words: "Sequence[str]", *, values: "Sequence[str]", switches: "Sequence[str]"
) -> "tuple[str, dict[str, Any]] | None":
    """(the one positional argument, flags) if the words are of the plainest form; None: let typer look at them."""
    positional: list[str] = []
    flags: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in values and name not in flags:
            found = value if equals else next(rest, "")
            if not found or found.startswith("-"):
                return None
            flags[name] = found
        elif word in switches:
            flags[word] = True
        elif word.startswith("-"):
            return None
        else:
            positional.append(word)
    return (positional[0], flags) if len(positional) == 1 else None


def _status(version: str, flags: "dict[str, Any]") -> int:
    import os

    from loopai_trainer.cli.output import Output, finish
    from loopai_trainer.operations.status import status
    from loopai_trainer.operations.targets import Scope

    scope = Scope(os.environ, flags.get("--output-dir"), flags.get("--task-id"))
    return finish("status", Output(json=True), lambda: status(version, scope))


def _list(flags: "dict[str, Any]") -> int | None:
    import os

    from loopai_trainer.cli.output import Output, finish
    from loopai_trainer.operations.list import list_runs
    from loopai_trainer.operations.targets import Scope

    limit = flags.get("--limit", "50")
    if not limit.isdecimal() or int(limit) < 1:
        return None
    output = Output(json="--json" in flags, no_color="--no-color" in flags, quiet="--quiet" in flags)
    scope = Scope(os.environ, flags.get("--output-dir"), flags.get("--task-id"))
    return finish("list", output, lambda: list_runs(scope, int(limit)))


def _run_prepared(config: str, flags: "dict[str, Any]") -> int | None:
    from loopai_trainer.cli import run_call
    from loopai_trainer.cli.output import Output

    timeout_s = _seconds(flags.get("--wait-timeout"))
    if "--sha256" not in flags or timeout_s == -1:
        return None
    output = Output(json="--json" in flags, no_color="--no-color" in flags, quiet="--quiet" in flags)
    call = run_call.Call(config, flags["--sha256"], flags.get("--version-id"), timeout_s, "--verify-all" in flags)
    return run_call.run_prepared(call, output)


def _seconds(text: str | None) -> float | None:
    """A number of seconds; -1 for what typer has to refuse."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return -1
    return seconds if 0 <= seconds < float("inf") else -1
