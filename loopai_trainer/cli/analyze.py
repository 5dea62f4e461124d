"""`trainer analyze`: metrics, checkpoints and the best one of a run directory or a bare output folder."""

from __future__ import annotations

import os

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.operations.answer import Answer

NAME = "analyze"
HELP = "Read metrics and checkpoints of a run or of any backend output folder, and choose the best."


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
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.analyze import analyze
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    scope = Scope(os.environ, output_dir, task_id)
    operation = patiently(output, "reading metrics and checkpoints", lambda _: Answer(NAME, analyze(version, scope)))
    raise typer.Exit(finish(NAME, output, operation))
