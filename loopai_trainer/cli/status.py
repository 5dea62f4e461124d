"""`trainer status`: where a run is, computed from its locks and files; read only."""

from __future__ import annotations

import os

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "status"
HELP = "Say where a run is. Reads only, also inside a sandbox."


def command(
    version: options.Version,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.targets import Scope

    if json:
        from loopai_trainer.operations.status import status as look
    else:
        from loopai_trainer.operations.watch import status_with_curve as look

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    raise typer.Exit(finish(NAME, output, lambda: look(version, scope)))
