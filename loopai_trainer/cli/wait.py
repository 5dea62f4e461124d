"""`trainer wait`: wait for a run that goes on; its exit code is the run's."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options, run_call
from loopai_trainer.cli.output import Output

NAME = "wait"
HELP = "Wait for a run; exit 75 if it still runs after --timeout seconds."


def command(
    version: options.Version,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Give up waiting after that many seconds.")
    ] = None,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(run_call.wait(version, timeout, output_dir, task_id, output))
