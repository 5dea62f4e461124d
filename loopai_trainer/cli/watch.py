"""`trainer watch`: a live view of a run; with --json, JSON lines."""

from __future__ import annotations

import os

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output

NAME = "watch"
HELP = "Watch a run live: step, curve, learning rate, pace, GPUs, log. Reads only."


def command(
    version: options.Version,
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli import follow, watch_screen
    from loopai_trainer.operations import watch
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    if json:
        raise typer.Exit(follow.lines(NAME, output, lambda: watch.follow_samples(version, scope)))
    raise typer.Exit(watch_screen.run(lambda: watch.start(version, scope), output))
