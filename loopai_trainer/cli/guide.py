"""`trainer guide`: the inputs to confirm before a plan is made: what is set, where from, and what is missing."""

from __future__ import annotations

from typing import Annotated

import typer

from loopai_trainer.cli import options, request_flags
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.operations.answer import Answer

NAME = "guide"
HELP = "Show every setting with its value and origin, and what is still missing. Takes the flags of prepare."


def _command(
    make_request: request_flags.MakeRequest,
    task_type: Annotated[str | None, typer.Option(metavar="sft|grpo", help="Kind of task.")] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.operations.guide import guide

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)

    def operation() -> Answer:
        request = make_request()
        if language:
            request = request._replace(keyword={**request.keyword, "language": language.value})
        return guide(request, task_type)

    raise typer.Exit(finish(NAME, output, operation))


command = request_flags.taken_by(_command, without=("set_", "resume"))
