"""`trainer compare`: several runs side by side."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import completion, options
from loopai_trainer.cli.output import Output, finish

NAME = "compare"
HELP = "Compare runs: best metric, checkpoints, duration, and what differs in their plans."


def command(
    versions: Annotated[
        list[str],
        typer.Argument(
            metavar="VERSION...",
            help="Version ids, prefixes or run directories.",
            show_default=False,
            autocompletion=completion.versions,
        ),
    ],
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write a page with all of it and the curves.")
    ] = None,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.compare import compare
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    operation = patiently(output, "reading the runs", lambda _: compare(versions, scope, html))
    raise typer.Exit(finish(NAME, output, operation))
