"""Options that several verbs share, so that the same flag means and says the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from loopai_trainer.cli import completion

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour (NO_COLOR does the same).")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No talk on stderr, only the answer on stdout.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="More talk on stderr: steps with times, every finding, where a refusal arose.")
]


class LanguageName(StrEnum):
    """The languages that guide, approval view and overview are written in."""

    en = "en"
    zh = "zh"


Language = Annotated[
    LanguageName | None, typer.Option("--language", help="Language of the view (or LOOPAI_TRAINER_LANGUAGE).")
]
OutputDir = Annotated[
    str | None, typer.Option("--output-dir", metavar="DIR", help="Folder that holds all tasks (default ./outputs).")
]
TaskId = Annotated[str | None, typer.Option("--task-id", metavar="ID", help="Task that the run belongs to.")]
Version = Annotated[
    str,
    typer.Argument(
        metavar="VERSION",
        help="Version id, an unambiguous prefix of one, or a run directory.",
        autocompletion=completion.versions,
    ),
]
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="The training_config.yaml that `trainer prepare` wrote.")]
