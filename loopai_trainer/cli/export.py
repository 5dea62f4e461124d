"""`trainer export`: a Hugging Face model folder of a finished run's checkpoint."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "export"
HELP = "Make a model folder of a finished run's checkpoint, and verify it."


def command(
    version: options.Version,
    step: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The checkpoint of that step, not the chosen one.")
    ] = None,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.export import export
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    operation = patiently(output, "exporting", lambda _: export(version, scope, step))
    raise typer.Exit(finish(NAME, output, operation))
