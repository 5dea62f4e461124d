"""`trainer prepare`: validate everything, write the final YAML, show it for approval. Nothing starts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from loopai_trainer.cli import options, request_flags
from loopai_trainer.cli.output import Output, finish

NAME = "prepare"
HELP = "Validate data and plan, write the final YAML and its hash. Starts nothing."


class Printed(StrEnum):
    """What `--print` can give to a shell script."""

    config_path = "config_path"
    config_sha256 = "config_sha256"
    trainer_version_id = "trainer_version_id"


def _command(
    make_request: request_flags.MakeRequest,
    print_: Annotated[Printed | None, typer.Option("--print", help="Print that one value alone.")] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    language: options.Language = None,
) -> None:
    """Parse; one operation; one view."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations.prepare import prepare

    output = Output(json=json, no_color=no_color, quiet=quiet, verbose=verbose, language=language)
    only = print_.value if print_ else None
    operation = patiently(output, "preparing", lambda patience: prepare(make_request(), patience))
    raise typer.Exit(finish(NAME, output, operation, only=only))


command = request_flags.taken_by(_command)
