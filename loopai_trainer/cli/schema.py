"""`trainer schema`: what the `--json` answers look like, for programs that read them."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import completion, options
from loopai_trainer.cli.output import Output, finish

NAME = "schema"
HELP = "Print the JSON Schema of a command's --json answer, or of all of them."


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A command, or watch-line, event-line, log-line, version-line.",
            autocompletion=completion.schemas,
        ),
    ] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.schema import schema

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(finish(NAME, output, lambda: schema(name)))
