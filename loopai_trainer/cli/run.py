"""`trainer run`: prepare and run without a person, for scripts that opt out of approval; recorded as such."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options, request_flags, run_call
from loopai_trainer.cli.output import Output

NAME = "run"
HELP = "Prepare and run in one go, approved by nobody; refused without --no-approval. Takes the flags of prepare."


def _command(
    make_request: request_flags.MakeRequest,
    no_approval: Annotated[
        bool, typer.Option("--no-approval", help="Opt out of approval; the record says approved_via: auto.")
    ] = False,
    wait_timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Return after that many seconds of the run (exit 75); training goes on."),
    ] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(run_call.run(make_request, output, no_approval=no_approval, timeout_s=wait_timeout))


command = request_flags.taken_by(_command)
