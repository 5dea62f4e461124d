"""`trainer diff`: what a version's YAML changes since the last approved round, or against another version."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "diff"
HELP = "Show what a version changes since the last approved round of its task. Reads only."


def command(
    version: options.Version,
    against: Annotated[
        str, typer.Option(metavar="VERSION|approved", help="Compare with that version, or the last approved round.")
    ] = "approved",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 10 if anything differs.")] = False,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.diff import diff
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)
    scope = Scope(os.environ, output_dir, task_id)
    raise typer.Exit(finish(NAME, output, lambda: diff(version, scope, against=against, exit_code=exit_code)))
