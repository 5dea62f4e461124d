"""`trainer dev`: try a prepared plan on a few rows, without approval, in a folder of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output

NAME = "dev"
HELP = "Try a prepared plan: all checks, then a few steps on a few rows. Needs no approval."


def command(
    config: options.Config,
    limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for the steps (default 900, at most 3600).")
    ] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.run_call import dev

    raise typer.Exit(dev(config, limit, Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)))
