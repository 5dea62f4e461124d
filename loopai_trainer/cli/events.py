"""`trainer events`: the run's events, in the order of `seq`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "events"
HELP = "Show a run's events in order."


def command(
    version: options.Version,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends.")] = False,
    since: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Only events after that number.")] = 0,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli import follow as following
    from loopai_trainer.operations.events import events, follow_events
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    if follow:
        raise typer.Exit(following.lines(NAME, output, lambda: follow_events(version, scope, since)))
    raise typer.Exit(finish(NAME, output, lambda: events(version, scope, since)))
