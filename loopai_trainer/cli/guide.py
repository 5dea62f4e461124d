"""`trainer guide`: which settings are there, where each comes from, what is missing."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish

NAME = "guide"
HELP = "Show every setting with its value and origin, and what is still missing."


def command(
    task_type: Annotated[str | None, typer.Option(metavar="sft|grpo", help="Kind of task.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="starter.yaml.")] = None,
    state: Annotated[str | None, typer.Option(metavar="FILE", help="Explicit state, JSON or YAML.")] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.guide import guide
    from loopai_trainer.operations.sources import Request

    keyword = {"train_stage": task_type} if task_type else {}
    request = Request(keyword, os.environ, config_path=config, state_path=state)
    raise typer.Exit(finish(NAME, Output(json=json, no_color=no_color, quiet=quiet), lambda: guide(request, task_type)))
