"""What `run-prepared` and `wait` do in the terminal: talk, progress, signals. Shared by typer's path and the fast one.

Light on purpose: nothing heavy is imported before training has started. Ctrl-C, SIGTERM and SIGHUP end the waiting
alone (exit 130), never the run.
"""

import os
import signal

from loopai_trainer.cli.output import Output, finish
from loopai_trainer.errors import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from loopai_trainer.cli.request_flags import MakeRequest
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher


class Call:
    """The arguments of run-prepared."""

    __slots__ = ("config", "node_rank", "sha256", "verify_all", "version_id", "wait_timeout_s")

    def __init__(
        self,
        config: str,
        sha256: str,
        version_id: str | None = None,
        wait_timeout_s: float | None = None,
        verify_all: bool = False,
        node_rank: int | None = None,
    ) -> None:
        self.node_rank = node_rank
        self.config = config
        self.sha256 = sha256
        self.version_id = version_id
        self.wait_timeout_s = wait_timeout_s
        self.verify_all = verify_all


class _Detached(BaseException):
    """A signal told this process to stop waiting; not an Exception, so that nothing takes it for a failure."""


def run_prepared(call: Call, output: Output) -> int:
    """Start or attach, wait, print the answer, return the exit code."""
    if call.node_rank:
        return _join(call, output)
    from loopai_trainer.operations import run_prepared as operation

    return _waited(
        "run-prepared",
        output,
        lambda watch: operation.run_prepared(
            call.config,
            call.sha256,
            os.environ,
            version_id=call.version_id,
            wait_timeout_s=call.wait_timeout_s,
            verify_all=call.verify_all,
            watch=watch,
            talk=output.talk,
            progress=_hashing(output),
            node_rank=call.node_rank,
        ),
    )


def _join(call: Call, output: Output) -> int:
    """Take part in a training that another host owns; a signal ends this host's share of it."""
    from loopai_trainer.operations import join_node

    return _waited(
        "run-prepared",
        output,
        lambda watch: join_node.join(
            call.config,
            call.sha256,
            int(call.node_rank or 0),
            os.environ,
            version_id=call.version_id,
            wait_timeout_s=call.wait_timeout_s,
            watch=watch,
            talk=output.talk,
        ),
        stops="this host's ranks, if they had been started, are stopped, and the run fails without them",
    )


def run(make_request: "MakeRequest", output: Output, *, no_approval: bool, timeout_s: float | None) -> int:
    """Prepare and run without approval, wait, print the answer."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations import run as operation

    def operate(watch: "Watcher") -> "Answer":
        prepared = patiently(
            output,
            "preparing",
            lambda patience: operation.run(
                make_request(),
                no_approval=no_approval,
                wait_timeout_s=timeout_s,
                watch=watch,
                talk=patience.before(output.talk),
                progress=patience,
            ),
        )
        return prepared()

    return _waited("run", output, operate)


def _hashing(output: Output) -> "Callable[[str, int, int], None] | None":
    """Progress of large hashing; what draws it is loaded when there is much to hash."""
    if output.quiet:
        return None
    large = 64 * 1024 * 1024
    draw: Callable[[str, int, int], None] | None = None

    def report(what: str, done: int, total: int) -> None:
        nonlocal draw
        if draw is None and total >= large:
            from loopai_trainer.cli.progress import bytes_progress

            draw = bytes_progress(output)
        if draw is not None:
            draw(what, done, total)

    return report


def wait(version: str, timeout_s: float | None, output_dir: str | None, task_id: str | None, output: Output) -> int:
    """Wait for a run that goes on."""
    from loopai_trainer.operations import wait as operation
    from loopai_trainer.operations.targets import Scope

    scope = Scope(os.environ, output_dir, task_id)
    return _waited("wait", output, lambda watch: operation.wait(version, scope, timeout_s, watch))


def recover(
    version: str,
    place: "tuple[str | None, str | None]",
    output: Output,
    *,
    adopt: bool,
    terminate: bool,
    timeout_s: float | None,
) -> int:
    """Adopt or end an orphaned training and wait for its end; `place`: output directory and task id."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations import recover as operation
    from loopai_trainer.operations.targets import Scope

    scope = Scope(os.environ, *place)
    return _waited(
        "recover",
        output,
        lambda watch: patiently(
            output,
            "looking after the training",
            lambda patience: operation.recover(
                version,
                scope,
                adopt=adopt,
                terminate=terminate,
                wait_timeout_s=timeout_s,
                watch=patience.before(watch),
            ),
        )(),
    )


def dev(config: str, limit_s: float | None, output: Output) -> int:
    """Try a plan; Ctrl-C, SIGTERM and SIGHUP stop the dev run, too."""
    from loopai_trainer.cli.patience import patiently
    from loopai_trainer.operations import dev as operation

    return _waited(
        "dev",
        output,
        lambda watch: patiently(
            output,
            "checking the plan",
            lambda patience: operation.dev(
                config,
                os.environ,
                limit_s=limit_s,
                watch=watch,
                talk=patience.before(output.talk),
                progress=patience,
            ),
        )(),
        stops="the dev run, if it had been started, is being stopped",
    )


def _waited(command: str, output: Output, operation: "Callable[[Watcher], Answer]", *, stops: str = "") -> int:
    watcher = _LateProgress(output, stops)
    # What `nohup` or a background shell had ignored stays ignored: such a caller wants to stay.
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    former = {number: signal.signal(number, _detach) for number in heard}

    def watched() -> "Answer":
        try:
            return operation(watcher.update)
        finally:
            watcher.close()

    try:
        return finish(command, output, watched)
    except _Detached:
        return finish(command, output, watcher.interrupted)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _detach(number: int, frame: "FrameType | None") -> None:
    raise _Detached


class _LateProgress:
    """RunProgress, loaded with the first state that it has to show: by then training has been started."""

    def __init__(self, output: Output, stops: str) -> None:
        self._output = output
        self._stops = stops
        self._progress: object | None = None
        self._run_dir = ""

    def update(self, state: "dict[str, object]") -> None:
        self._run_dir = str(state.get("run_dir") or "")
        if self._output.quiet or not state.get("training_started"):
            return
        from loopai_trainer.cli.progress import RunProgress

        if not isinstance(self._progress, RunProgress):
            self._progress = RunProgress(self._output)
        self._progress.update(state)

    def interrupted(self) -> "Answer":
        """Refuses to go on waiting, naming the command that waits again."""
        from loopai_trainer.operations import commands

        if self._stops:
            raise Interrupted(f"interrupted: {self._stops}", hint="call it again")
        raise Interrupted(
            "no longer waiting; a run that was started goes on",
            hint="wait for it again whenever you like",
            next_command=commands.wait(self._run_dir) if self._run_dir else "",
        )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()  # type: ignore[attr-defined] # RunProgress, imported late
