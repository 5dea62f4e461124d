"""`trainer run-prepared`: run exactly the YAML with that hash, or re-attach to it; stays until the end."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options, run_call
from loopai_trainer.cli.output import Output

NAME = "run-prepared"
HELP = "Run exactly the YAML with that hash, or re-attach; stays in the foreground to the end."


def command(
    config: options.Config,
    sha256: Annotated[str, typer.Option("--sha256", metavar="HEX", help="The approved hash, in full.")],
    version_id: Annotated[str | None, typer.Option(metavar="ID", help="Refuse any other version.")] = None,
    wait_timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Return after that many seconds (exit 75); training goes on."),
    ] = None,
    verify_all: Annotated[
        bool, typer.Option("--verify-all", help="Hash every input again, without the cache.")
    ] = False,
    node_rank: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Several hosts without a cluster: which one this is; 0 owns the run."),
    ] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view (shared with the fast path)."""
    call = run_call.Call(config, sha256, version_id, wait_timeout, verify_all, node_rank)
    raise typer.Exit(run_call.run_prepared(call, Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)))
