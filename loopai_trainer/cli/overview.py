"""`trainer` alone: where you are."""

from __future__ import annotations

import os

from loopai_trainer.cli.output import Output, finish


def show_overview(output: Output) -> int:
    """One operation; one view."""
    from loopai_trainer.operations.overview import overview
    from loopai_trainer.operations.targets import Scope

    return finish("trainer", output, lambda: overview(Scope(os.environ)))
