"""`trainer templates`: the bundled templates and the user's own."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import completion, options
from loopai_trainer.cli.output import Output, finish

NAME = "templates"
HELP = "List templates, show one, or copy one to begin your own with."


def command(
    action: Annotated[
        str,
        typer.Argument(
            metavar="[ACTION]",
            help="list (default), show or copy.",
            autocompletion=completion.words("list", "show", "copy"),
        ),
    ] = "list",
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Template to show or copy.", autocompletion=completion.templates),
    ] = None,
    new_name: Annotated[str | None, typer.Argument(metavar="[NEW_NAME]", help="Name of the copy.")] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.templates import templates

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(finish(NAME, output, lambda: templates(action, name, new_name, os.environ)))
