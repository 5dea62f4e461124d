"""Runs Agent Lightning 0.3 on an approved plan, in the user's own environment: one role a process.

Reads the plan (launch/agl_plan.json, made of the approved bytes) and nothing else; what it writes lies in the run
directory. Source of what it guards against: Agent Lightning 0.3.0, read and run (see docs/decisions/0049).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5
_STOPPED = 128 + signal.SIGTERM


def main(argv: list[str]) -> int:
    """argv: the plan's path and the role (all, algorithm, runner, store, server). Returns the exit status."""
    path, role = argv
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    sys.path.insert(0, document["paths"]["inputs"])  # where the approved copies of these files lie
    from agl_hidden import hide
    from agl_told import STOP, Failed, say

    hide(document["secrets"])
    _end_children_with_this()
    if role == "store":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it stays until the algorithm has read it, and ends with that
    else:
        _stop_on_signal(STOP)
    if role in ("runner", "store"):
        end_with(document["paths"]["exit"])
    try:
        say(f"phase importing ({role})")
        import agl_run

        agl_run.run(document, role)
    except Failed as failed:
        say(f"error {failed.code}: {failed}")
        return 1
    except KeyboardInterrupt:
        say("stopped on request")
        return _STOPPED
    except Exception as error:  # noqa: BLE001 - the driver's boundary: told in one line, its traceback logged
        import traceback

        traceback.print_exc()
        say(f"error AGENT_LIGHTNING_FAILED: {type(error).__name__}: {error}")
        return 1
    return _STOPPED if STOP.is_set() else 0


def _stop_on_signal(stopping: threading.Event) -> None:
    """SIGTERM ends the algorithm as Ctrl-C does, so that the store is written; a second one ends at once."""

    def stop(*_: object) -> None:
        if stopping.is_set():
            os._exit(_STOPPED)
        stopping.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _end_children_with_this() -> None:
    """Every forked child (a runner) dies with this process, and of SIGTERM: Agent Lightning leaves them alive."""
    import ctypes

    libc = ctypes.CDLL(None)

    def in_child() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=in_child)


def end_with(exit_path: str) -> None:
    """A store or runner ends when training's main process has: by itself it would go on for ever."""

    def wait() -> None:
        while not os.path.exists(exit_path):
            time.sleep(_POLL_S)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of tracers and servers would keep it alive
