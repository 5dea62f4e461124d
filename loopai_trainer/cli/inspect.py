"""`trainer inspect`: read a prepared YAML again after edits, check everything, show it with its present hash."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "inspect"
HELP = "Re-check a prepared YAML after edits and show it with its present hash. Starts nothing."


def command(
    config: options.Config,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Take the inputs that the YAML names into it, as they are now.")
    ] = False,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.inspect import inspect

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)
    operation = partial(inspect, config, os.environ, refresh_inputs=refresh)
    doing = "checking the plan"
    raise typer.Exit(finish(NAME, output, patiently(output, doing, lambda patience: operation(progress=patience))))
