"""`trainer list`: the runs that are known, newest first."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "list"
HELP = "List known runs, newest first."


def command(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 50,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.list import list_runs
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(finish(NAME, output, lambda: list_runs(Scope(os.environ, output_dir, task_id), limit)))
