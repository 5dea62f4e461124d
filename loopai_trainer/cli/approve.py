"""`trainer approve`: a person reads the YAML at a terminal and types the beginning of its hash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.operations.answer import Answer

if TYPE_CHECKING:
    from loopai_trainer.cli.patience import Patience

NAME = "approve"
HELP = "Read a prepared YAML at your own terminal and approve it by the first characters of its hash."


def command(
    version: options.Version,
    note: Annotated[str, typer.Option(metavar="TEXT", help="A remark that the approval record keeps.")] = "",
    output_dir: options.OutputDir = None,
    task_id: options.TaskId = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli import approval_view
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.approve import approve
    from loopai_trainer.operations.targets import Scope

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)
    scope = Scope(os.environ, output_dir, task_id)

    def operation(patience: Patience) -> Answer:
        show = patience.before(approval_view.before_approval(output))
        return approve(version, scope, show, note=note, progress=patience, language=output.language)

    raise typer.Exit(finish(NAME, output, patiently(output, "checking the plan", operation)))
