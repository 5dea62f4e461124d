"""`trainer cancel`: stop a run's whole process tree; checkpoints stay."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "cancel"
HELP = "Stop a run's whole process tree and keep its checkpoints."


def command(
    version: options.Version,
    timeout: Annotated[float, typer.Option(metavar="S", min=0, help="Wait that long for the end.")] = 120.0,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.cancel import cancel
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    operation = patiently(output, "stopping the run", lambda _: cancel(version, scope, timeout))
    raise typer.Exit(finish(NAME, output, operation))
