"""Talking to a cluster's job server by Ray's own client, which honours Ray's tokens; every call has a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from loopai_trainer.errors import HostUnfit

_REQUEST_S = 20.0
"""Of one request: Ray's client has no limit, and a head that swallows packets would hold a caller for ever."""

_CONNECT_S = 5.0
"""Of its connection: a host that is off, or behind a firewall, says nothing at all; a busy one takes it at once."""

_LEAST_S = 1.0
"""What a request gets when its caller has no time left: else a short time limit would hear from no head at all."""

_SLOW_S = 0.1

_OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Ray's client takes them before the address that it is given: another cluster than the approved one would be used."""

_SILENT_TIMES, _SILENT_S = 10.0, 30.0
"""A head that took a while to answer nothing is not asked again by who only looks for so many times that while, and at
most for so long: a list asks for many runs, and whoever waits asks again and again."""

_clients: dict[str, Any] = {}
_silent: dict[str, float] = {}
_why: dict[str, str] = {}
"""Why a job server could not be asked at the last look."""


def submit(address: str, submission_id: str, entrypoint: str, env_vars: Mapping[str, str]) -> None:
    """Submit a job once; a job of that id that is there already is taken for this one. Raises HostUnfit."""
    with _told(address):
        client = _client(address)
        try:
            client.submit_job(
                entrypoint=entrypoint, submission_id=submission_id, runtime_env={"env_vars": dict(env_vars)}
            )
        except RuntimeError as error:
            if "already exists" not in str(error):
                raise


def alive(address: str, submission_id: str, limit_s: float | None = None) -> bool | None:
    """Whether the job waits or runs; None: nobody can say now. A job that the cluster does not know is none.

    `limit_s`: the time that the caller has left.
    """
    if _silent_now(address):
        return None
    with suppress(HostUnfit):
        _limited()  # loading Ray may take a second, which is no silence of the head
    at_s = time.monotonic()
    try:
        with _told(address):
            lives = not _client(address, limit_s).get_job_status(submission_id).is_terminal()
        _why.pop(address, None)
        return lives
    except HostUnfit as error:
        if error.code == "JOB_UNKNOWN":
            _why.pop(address, None)
            return False
        _why[address] = error.message
        _clients.pop(address, None)
        took_s = time.monotonic() - at_s
        if took_s >= _SLOW_S:
            _silent[address] = time.monotonic() + min(_SILENT_TIMES * took_s, _SILENT_S)
        return None


def _silent_now(address: str) -> bool:
    return time.monotonic() < _silent.get(address, 0.0)


def stop(address: str, submission_id: str, limit_s: float | None = None) -> None:
    """Ask for a job's end. Raises HostUnfit."""
    if _silent_now(address):
        raise _unreachable(address, "it gave no answer a moment ago")
    with _told(address):
        _client(address, limit_s).stop_job(submission_id)


def message(address: str, submission_id: str) -> str:
    """Ray's message on a job, or why its state could not be asked for; empty if there is none, or it cannot be had."""
    if address in _why:
        return _why[address]
    try:
        with _told(address):
            return str(_client(address).get_job_info(submission_id).message or "")
    except HostUnfit as error:
        return error.message if error.code == "JOB_UNKNOWN" else ""


def log(address: str, submission_id: str) -> str:
    """The output of a job so far, as Ray keeps it. Raises HostUnfit."""
    if _silent_now(address):
        raise _unreachable(address, "it gave no answer a moment ago")
    with _told(address):
        text = str(_client(address).get_job_logs(submission_id))
    _why.pop(address, None)
    return text


def too_slow(address: str, limit_s: float) -> HostUnfit:
    """The refusal of a cluster on which a short job did not end in time."""
    return HostUnfit(
        f"the cluster at {address} did not check the plan within {limit_s:.0f} s; nothing was started",
        code="CLUSTER_TIMEOUT",
        hint="see whether the cluster is overloaded, or its shared file system slow; then make the same call again",
    )


def _client(address: str, limit_s: float | None = None) -> Any:
    until = float("inf") if limit_s is None else time.monotonic() + limit_s
    if address not in _clients:
        with _without_overrides():
            _clients[address] = _limited()(address, until)
    _clients[address].until = until
    return _clients[address]


def _limited() -> type[Any]:
    """Ray's client, with a time limit on each request."""
    try:
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        raise HostUnfit(
            "Ray is not installed beside this program, so no cluster can be asked",
            code="RAY_MISSING",
            hint="install it: pip install 'loopai-trainer[ray]', in the version that the cluster runs",
        ) from None

    class Client(JobSubmissionClient):  # type: ignore[misc] # ray has no types
        def __init__(self, address: str, until: float) -> None:
            self.until = until
            super().__init__(address)

        def _do_request(self, method: str, endpoint: str, **words: Any) -> Any:
            left_s = max(self.until - time.monotonic(), _LEAST_S)
            timeout = (min(_CONNECT_S, left_s), min(_REQUEST_S, left_s))
            try:
                return super()._do_request(method, endpoint, **{"timeout": timeout, **words})
            except AuthenticationError as error:
                raise _refused(str(self._address), str(error).partition("\n")[0]) from None

    return Client


@contextmanager
def _without_overrides() -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in _OVERRIDES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@contextmanager
def _told(address: str) -> Iterator[None]:
    """Says what Ray's client raises in this program's words."""
    try:
        yield
    except HostUnfit:
        raise
    except OSError as error:  # its ConnectionError, and all of requests'
        raise _unreachable(address, str(error)) from None
    except RuntimeError as error:
        if "status code 404" in str(error):
            message = f"the cluster at {address} does not know that job"
            hint = "its head was restarted, or this is another cluster; `trainer status` says what is known of the run"
            raise HostUnfit(message, code="JOB_UNKNOWN", hint=hint) from None
        raise _refused(address, str(error)) from None
    except (KeyError, ValueError) as error:
        raise _refused(address, f"its answer is none of a job server ({type(error).__name__})") from None


def _unreachable(address: str, why: str) -> HostUnfit:
    return HostUnfit(
        f"the Ray cluster at {address} cannot be reached: {why}",
        code="CLUSTER_UNREACHABLE",
        hint="see whether its head runs and its job server is reachable from here, then make the same call again",
    )


def _refused(address: str, why: str) -> HostUnfit:
    return HostUnfit(
        f"the Ray cluster at {address} refused: {why}",
        code="CLUSTER_REFUSED",
        hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to its token; or see its logs",
    )
