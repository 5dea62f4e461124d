"""One question to an OpenAI-compatible chat endpoint, answered within a time limit or not at all.

The only place that loads the package `openai` (extra `llm`). What an endpoint says in its errors is never repeated: it
may hold the key, or anything else.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from loopai_trainer.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ANSWER_BYTES = 256 * 1024
"""A patch is a few hundred bytes; what is larger is no answer."""

NO_KEY = "none"
"""What is sent where there is no key: servers of one's own want none, and the package insists on some text."""


class Endpoint(NamedTuple):
    """`base_url` ends where `/chat/completions` is appended. `key` may be empty; it is in no text that this makes."""

    base_url: str
    model: str
    key: str
    timeout_s: float

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, {self.model!r})"


class EndpointFailed(Exception):
    """There is no usable answer; the text says why, for people, and repeats nothing of what was sent back."""


def ask(endpoint: Endpoint, messages: Sequence[dict[str, str]]) -> str:
    """The text of the answer. Raises EndpointFailed, and SettingsError (PACKAGE_MISSING) without the package.

    `endpoint.timeout_s` holds for everything together, also for an endpoint that sends a byte now and then.
    """
    openai = _package()
    client = _client(openai, endpoint)
    answer: Future[str] = Future()
    # A thread, since the package's own time limit is one for each read; a daemon, since nobody waits for a late one.
    asking = threading.Thread(target=_fill, args=(answer, client, endpoint, messages), daemon=True)
    asking.start()
    try:
        failed = answer.exception(endpoint.timeout_s)
    except TimeoutError:
        raise EndpointFailed(f"it did not answer within {endpoint.timeout_s:g} s") from None
    finally:
        client.close()
    if failed is None:
        return answer.result()
    raise _told(failed, endpoint, openai) from None


def _client(openai: Any, endpoint: Endpoint) -> Any:
    """Asks that address alone, once, and tells it nothing of this account: the package would add what variables say."""
    silent = {name: openai.Omit() for name in ("OpenAI-Organization", "OpenAI-Project")}
    return openai.OpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.key or NO_KEY,
        max_retries=0,
        default_headers=silent,
        http_client=openai.DefaultHttpxClient(follow_redirects=False, timeout=endpoint.timeout_s),
    )


def _fill(answer: Future[str], client: Any, endpoint: Endpoint, messages: Sequence[dict[str, str]]) -> None:
    try:
        answer.set_result(_content(client, endpoint, messages))
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
        answer.set_exception(error)


def _content(client: Any, endpoint: Endpoint, messages: Sequence[dict[str, str]]) -> str:
    import json

    create = client.chat.completions.with_streaming_response.create
    body = bytearray()
    with create(model=endpoint.model, messages=list(messages)) as response:
        for piece in response.iter_bytes():
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                raise EndpointFailed(f"its answer is larger than {MAX_ANSWER_BYTES // 1024} KiB")
    try:
        choice = json.loads(body)["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise EndpointFailed("its answer is no chat completion") from None
    if not isinstance(content, str):
        raise EndpointFailed("its answer holds no text")
    if choice.get("finish_reason") == "length":
        raise EndpointFailed("its answer was cut off by the endpoint's own limit")
    return content


def _told(failed: BaseException, endpoint: Endpoint, openai: Any) -> BaseException:
    """What is to be raised: all that a server or a network can do is an EndpointFailed, anything else is ours."""
    if isinstance(failed, EndpointFailed):
        return failed
    if isinstance(failed, openai.APITimeoutError):
        return EndpointFailed(f"it did not answer within {endpoint.timeout_s:g} s")
    if isinstance(failed, openai.APIStatusError):
        return EndpointFailed(f"it answered with HTTP status {failed.status_code}")
    if isinstance(failed, openai.OpenAIError) or _of_network(failed):
        return EndpointFailed(f"it could not be reached ({_cause(failed)})")
    return failed


def _of_network(failed: BaseException) -> bool:
    return isinstance(failed, OSError) or type(failed).__module__.startswith(("httpx", "httpcore"))


def _cause(failed: BaseException) -> str:
    """The kind of the innermost cause: its name says what happened, its text may say too much."""
    while failed.__cause__ is not None:
        failed = failed.__cause__
    return type(failed).__name__


def _package() -> Any:
    try:
        import openai
    except ImportError:
        raise SettingsError(
            "config_mode llm needs the package openai, which is not installed",
            code="PACKAGE_MISSING",
            hint="pip install 'loopai-trainer[llm]', or leave --config-mode llm out",
        ) from None
    return openai
