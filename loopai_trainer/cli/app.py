"""The program: every verb registered once; errors of usage become the same answers as all others."""

from __future__ import annotations

import contextlib
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
    options,
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
from loopai_trainer.cli.output import Output, show, unwritable
from loopai_trainer.errors import TrainerError, UsageError
from loopai_trainer.operations import host_refusals
from loopai_trainer.operations.answer import failure
from loopai_trainer.version import __version__

EPILOG = (
    "Exit codes: 0 done, 1 unexpected, 2 usage, 3 validation failed, 4 approval missing or used, 5 hash mismatch, "
    "6 input changed, 7 busy, 8 orphaned training, 9 host unfit, 10 differs (diff), 11 training failed, "
    "12 export failed, 13 cancelled, 69 backend missing, 75 still running at the time limit, "
    "130 interrupted (the training goes on)."
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
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    verb = context.invoked_subcommand
    if verb is None:
        output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)
        raise typer.Exit(overview.show_overview(output))
    _refuse_flags_before(verb, context)


def _refuse_flags_before(verb: str, context: typer.Context) -> None:
    """A flag before the command would hide it from the rules of agents' hosts, which go by a call's first words."""
    given = [name for name, value in context.params.items() if value]
    if given:
        flag = "--" + given[0].replace("_", "-")
        hint = f"put it behind: trainer {verb} ... {flag}, if {verb} takes it (trainer {verb} --help)"
        raise UsageError(f"{flag} stands before the command '{verb}'", hint=hint)


_VERBS = (
    prepare, inspect, dev, diff, approve, run_prepared, run_verb, wait, status, watch, list_verb, logs, events, cancel,
    recover, analyze, compare, export, guide, setup, doctor, templates_verb, schema, docs,
)  # fmt: skip

for _verb in _VERBS:
    app.command(_verb.NAME, help=_verb.HELP)(_verb.command)


_HELP = frozenset(("--help", "-h"))


def run(argv: Sequence[str]) -> int:
    """Run the program on `argv` and return its exit code; cli.fast catches what is not foreseen here."""
    output = Output(json="--json" in argv, verbose="--verbose" in argv)
    command = _command_of(argv)
    try:
        code = app(list(argv), prog_name="trainer", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _CLICK_ERROR as error:
        return _usage(command, error, output)
    except typer.Abort:
        return 130
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # click's own answer to a reader of a help page that has gone
            return unwritable(left.__context__)
        raise
    except TrainerError as error:
        answer = failure(command, error)
    return show(answer, output)


def _is_verb(words: Sequence[str]) -> bool:
    return bool(words) and any(words[0] == verb.NAME for verb in _VERBS)


def _command_of(argv: Sequence[str]) -> str:
    """The verb that an answer names; `trainer` if none was given."""
    if argv and not argv[0].startswith("-"):
        return argv[0]
    return next((word for word in argv if _is_verb([word])), "trainer")


def unforeseen(argv: Sequence[str], error: Exception) -> int:
    """What nobody foresaw: the traceback on stderr, the common error shape as the answer."""
    refused = host_refusals.told(error)
    if refused is not None:
        return show(failure(_command_of(argv), refused), Output(json="--json" in argv))
    if isinstance(error, OSError) and _HELP.intersection(argv):  # it is on its way to stdout, and nothing else is
        return unwritable(error)
    with contextlib.suppress(OSError):
        traceback.print_exception(error, file=sys.stderr)
    text = f"{type(error).__name__}: {error}"
    refusal = TrainerError(text, code="UNHANDLED_EXCEPTION", hint="please report this", recoverable=False)
    return show(failure(_command_of(argv), refusal), Output(json="--json" in argv))


def _usage(command: str, error: Any, output: Output) -> int:
    hint = f"see: trainer {command} --help" if _is_verb([command]) else "see: trainer --help"
    refusal = UsageError(error.format_message(), hint=hint)
    return show(failure(command, refusal), output)
