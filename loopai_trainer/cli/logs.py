"""`trainer logs`: what training printed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "logs"
HELP = "Show what training printed (or the worker's own log)."


def command(
    version: options.Version,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends.")] = False,
    tail: Annotated[int, typer.Option(metavar="N", min=0, help="The last N lines.")] = 100,
    worker: Annotated[bool, typer.Option("--worker", help="The worker's own log.")] = False,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli import follow as following
    from loopai_trainer.operations.logs import follow_logs, logs
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    if follow:
        raise typer.Exit(following.lines(NAME, output, lambda: follow_logs(version, scope, tail, worker)))
    raise typer.Exit(finish(NAME, output, lambda: logs(version, scope, tail, worker)))
