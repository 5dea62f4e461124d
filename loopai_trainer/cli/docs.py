"""`trainer docs`: the pages of the installed version, for agents and people without the repository."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import completion, options
from loopai_trainer.cli.output import Output, finish

NAME = "docs"
HELP = "Print a page of the installed version, for agents and people without the repository."
TOPICS = "skill, approval, sft, grpo, errors, recovery, config-keys or exit-codes; left out: what there is."


def command(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help=TOPICS, autocompletion=completion.topics)
    ] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.docs import docs

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    raise typer.Exit(finish(NAME, output, lambda: docs(topic)))
