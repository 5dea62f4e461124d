"""`trainer recover`: adopt or end a training whose worker is gone."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options, run_call
from loopai_trainer.cli.output import Output

NAME = "recover"
HELP = "Give a training whose worker is gone a new worker (--adopt), or end it (--terminate)."


def command(
    version: options.Version,
    adopt: Annotated[bool, typer.Option("--adopt", help="Watch the living training to its end.")] = False,
    terminate: Annotated[
        bool, typer.Option("--terminate", help="End its whole process tree; checkpoints stay.")
    ] = False,
    wait_timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Give up waiting after that many seconds (exit 75).")
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
    place = (output_dir, task_id)
    raise typer.Exit(run_call.recover(version, place, output, adopt=adopt, terminate=terminate, timeout_s=wait_timeout))
