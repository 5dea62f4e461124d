"""Talking to a cluster's job server by Ray's own client, which honours Ray's tokens; every call has a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loopai_trainer.errors import HostUnfit

_LIMIT_S = 20.0
"""Of one request: Ray's client has no limit, and a head that swallows packets would hold a caller for ever."""

_SLOW_S = 5.0

_OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Ray's client takes them before the address that it is given: another cluster than the approved one would be used."""

_SILENT_S = 30.0
"""For so long a head that let a request time out is not asked again by who only looks: a list asks for many runs."""

_clients: dict[str, Any] = {}
_silent: dict[str, float] = {}


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


def alive(address: str, submission_id: str) -> bool | None:
    """Whether the job waits or runs; None: nobody can say now. A job that the cluster does not know is none."""
    if time.monotonic() < _silent.get(address, 0.0):
        return None
    at_s = time.monotonic()
    try:
        with _told(address):
            return not _client(address).get_job_status(submission_id).is_terminal()
    except HostUnfit as error:
        _clients.pop(address, None)
        if time.monotonic() - at_s >= _SLOW_S:
            _silent[address] = time.monotonic() + _SILENT_S
        return False if error.code == "JOB_UNKNOWN" else None


def stop(address: str, submission_id: str) -> None:
    """Ask for a job's end. Raises HostUnfit."""
    with _told(address):
        _client(address).stop_job(submission_id)


def message(address: str, submission_id: str) -> str:
    """Ray's message on a job; empty if there is none, or it cannot be had."""
    try:
        with _told(address):
            return str(_client(address).get_job_info(submission_id).message or "")
    except HostUnfit:
        return ""


def taken_log(address: str, submission_id: str) -> str:
    """The whole output of a job that has ended, which is forgotten afterwards. Raises HostUnfit."""
    with _told(address):
        client = _client(address)
        text = str(client.get_job_logs(submission_id))
        client.delete_job(submission_id)
        return text


def too_slow(address: str, limit_s: float) -> HostUnfit:
    """The refusal of a cluster on which a short job did not end in time."""
    return HostUnfit(
        f"the cluster at {address} did not check the plan within {limit_s:.0f} s; nothing was started",
        code="CLUSTER_TIMEOUT",
        hint="see whether the cluster is overloaded, or its shared file system slow; then make the same call again",
    )


def _client(address: str) -> Any:
    if address not in _clients:
        with _without_overrides():
            _clients[address] = _limited()(address)
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
        def _do_request(self, method: str, endpoint: str, **words: Any) -> Any:
            try:
                return super()._do_request(method, endpoint, **{"timeout": _LIMIT_S, **words})
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
            raise HostUnfit(f"the cluster at {address} does not know that job", code="JOB_UNKNOWN") from None
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
