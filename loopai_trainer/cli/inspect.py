"""`trainer inspect`: read a prepared YAML again after edits, check everything, show it with its present hash."""

from __future__ import annotations

import os

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "inspect"
HELP = "Re-check a prepared YAML after edits and show it with its present hash. Starts nothing."


def command(
    config: options.Config, json: options.Json = False, no_color: options.NoColor = False, quiet: options.Quiet = False
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.inspect import inspect

    output = Output(json=json, no_color=no_color, quiet=quiet)
    raise typer.Exit(finish(NAME, output, lambda: inspect(config, os.environ)))
