"""What the host refuses to a call (its own folder, a file), told as something that the caller can act on."""

from __future__ import annotations

import os

from loopai_trainer.errors import TrainerError, UsageError


def told(error: Exception) -> TrainerError | None:
    """NO_WORKING_FOLDER or FILE_UNUSABLE for what the file system has refused; None for everything else."""
    if isinstance(error, FileNotFoundError) and not _has_working_folder():
        return UsageError(
            "the folder that this was called in was deleted, so relative paths mean nothing",
            code="NO_WORKING_FOLDER",
            hint="change to a folder that exists, then make the same call again",
        )
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        return TrainerError(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            code="FILE_UNUSABLE",
            hint="see to its permissions, its kind and its disk, then make the same call again",
        )
    return None


def _has_working_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
