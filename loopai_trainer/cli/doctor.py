"""`trainer doctor`: whether this host can run trainings, a line a check, each with what mends it."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "doctor"
HELP = "Check this host: environments, GPUs, disk, locks, ports, sandbox, policy. Changes nothing."


def command(
    env: Annotated[
        str | None, typer.Option(metavar="PATH|NAME", help="A backend environment to look at: root or conda name.")
    ] = None,
    output_dir: options.OutputDir = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.doctor import doctor

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    operation = partial(doctor, os.environ, output_dir=output_dir, environment=env)
    raise typer.Exit(finish(NAME, output, patiently(output, "checking this host", lambda _: operation())))
