"""`trainer templates`: the bundled templates."""

from __future__ import annotations

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "templates"
HELP = "List the bundled templates."


def command(
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.templates import templates

    raise typer.Exit(finish(NAME, Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose), templates))
