"""`trainer setup`: make the pinned environment of a backend."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import completion, options
from loopai_trainer.cli.output import Output, finish

NAME = "setup"
HELP = (
    "Install the pinned environment of a backend (llamafactory, verl, agentlightning); reused if it is there already."
)


def command(
    backend: Annotated[
        str,
        typer.Argument(
            metavar="BACKEND", help="llamafactory, verl or agentlightning", autocompletion=completion.backends
        ),
    ],
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.progress import ReplacedLine
    from loopai_trainer.operations.setup import setup

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    lines = ReplacedLine(output)
    raise typer.Exit(finish(NAME, output, lambda: setup(backend, os.environ, lines.say, lines.live)))
