"""The executor `inline`: the worker runs inside the caller and dies with it; for debugging alone (spec/001)."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_WORKER = "loopai_trainer.worker.entry"
"""By name: it is loaded with the first run."""


class Inline:
    """Runs the worker's own main function to its end. Handle: the text `inline`."""

    name = "inline"

    def start(self, argv: Sequence[str], run_dir: str, log_path: str, inherit_fds: Sequence[int]) -> str:
        """Run the worker of `python ... -c CODE ARGS` as main(ARGS) here; returns when the run is over."""
        at = list(argv).index("-c")
        module = importlib.import_module(_WORKER)
        sys.stderr.write("the worker runs inside this process: the run ends with it (debugging alone)\n")
        module.main(list(argv[at + 2 :]))
        return "inline"

    def alive(self, handle: str) -> bool:
        """Never: start() has returned, so the worker is gone."""
        return False

    def stop(self, handle: str, grace_s: float) -> None:
        """Nothing is left to stop."""

    def where(self, handle: str) -> str:
        """For people."""
        return "inside the caller"


EXECUTOR = Inline()
