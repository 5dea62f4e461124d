"""The program: every verb registered once; errors of usage become the same answers as all others."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from loopai_trainer.cli import (
    analyze,
    approve,
    cancel,
    compare,
    dev,
    diff,
    docs,
    doctor,
    events,
    export,
    guide,
    inspect,
    logs,
    overview,
    prepare,
    recover,
    run_prepared,
    schema,
    setup,
    status,
    wait,
    watch,
)
from loopai_trainer.cli import list as list_verb
from loopai_trainer.cli import run as run_verb
from loopai_trainer.cli import templates as templates_verb
from loopai_trainer.cli.output import Output, show
from loopai_trainer.errors import TrainerError, UsageError
from loopai_trainer.operations.answer import failure
from loopai_trainer.version import __version__

EPILOG = (
    "Exit codes: 0 done, 2 usage, 3 validation failed, 4 approval missing or used, 5 hash mismatch, 6 input changed, "
    "7 busy, 8 orphaned training, 9 host unfit, 11 training failed, 12 export failed, 13 cancelled, "
    "69 backend missing, 75 still running at the time limit, 130 interrupted (the training goes on)."
)

app = typer.Typer(
    name="trainer",
    help="Prepare a training plan, approve its hash, run exactly that.",
    epilog=EPILOG,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""typer vendors click and exports only BadParameter; its base is click's UsageError."""
_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_version, is_eager=True),
) -> None:
    if context.invoked_subcommand is None:
        raise typer.Exit(overview.show_overview())


_VERBS = (
    prepare, inspect, dev, diff, approve, run_prepared, run_verb, wait, status, watch, list_verb, logs, events, cancel,
    recover, analyze, compare, export, guide, setup, doctor, templates_verb, schema, docs,
)  # fmt: skip

for _verb in _VERBS:
    app.command(_verb.NAME, help=_verb.HELP)(_verb.command)


def run(argv: Sequence[str]) -> int:
    """Run the program on `argv` and return its exit code; cli.fast catches what is not foreseen here."""
    output = Output(json="--json" in argv, verbose="--verbose" in argv)
    command = next((word for word in argv if not word.startswith("-")), "trainer")
    try:
        code = app(list(argv), prog_name="trainer", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _CLICK_ERROR as error:
        return _usage(command, error, output)
    except typer.Abort:
        return 130
    except TrainerError as error:
        answer = failure(command, error)
    return show(answer, output)


def unforeseen(argv: Sequence[str], error: Exception) -> int:
    """What nobody foresaw: the traceback on stderr, the common error shape as the answer."""
    if isinstance(error, FileNotFoundError) and not _has_working_folder():
        return _no_working_folder(argv)
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        return _unusable_file(argv, error)
    with contextlib.suppress(OSError):
        traceback.print_exception(error, file=sys.stderr)
    command = next((word for word in argv if not word.startswith("-")), "trainer")
    text = f"{type(error).__name__}: {error}"
    refusal = TrainerError(text, code="UNHANDLED_EXCEPTION", hint="please report this", recoverable=False)
    return show(failure(command, refusal), Output(json="--json" in argv))


def _has_working_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _unusable_file(argv: Sequence[str], error: OSError) -> int:
    """What the file system refuses is the host's doing or the user's: told in one line, without a traceback."""
    command = next((word for word in argv if not word.startswith("-")), "trainer")
    refusal = TrainerError(
        f"{os.fsdecode(error.filename)}: {error.strerror}",
        code="FILE_UNUSABLE",
        hint="see to its permissions, its kind and its disk, then make the same call again",
    )
    return show(failure(command, refusal), Output(json="--json" in argv))


def _no_working_folder(argv: Sequence[str]) -> int:
    command = next((word for word in argv if not word.startswith("-")), "trainer")
    refusal = UsageError(
        "the folder that this was called in was deleted, so relative paths mean nothing",
        code="NO_WORKING_FOLDER",
        hint="change to a folder that exists, then make the same call again",
    )
    return show(failure(command, refusal), Output(json="--json" in argv))


def _usage(command: str, error: Any, output: Output) -> int:
    known = any(command == verb.NAME for verb in _VERBS)
    hint = f"see: trainer {command} --help" if known else "see: trainer --help"
    refusal = UsageError(error.format_message(), hint=hint)
    return show(failure(command, refusal), output)
