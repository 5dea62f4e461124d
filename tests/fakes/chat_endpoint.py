"""An OpenAI-compatible chat endpoint on the loopback, which answers as a test wants it to: well, badly, or not at all."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["_Handler"], None]


class Asked:
    """One request: its path, headers (by lower-case name) and decoded body; `text` is all of it as it came."""

    def __init__(self, handler: "_Handler", body: bytes) -> None:
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body: dict[str, Any] = json.loads(body)
        self.text = str(handler.headers) + body.decode()


class ChatEndpoint:
    """`base_url` to be asked; `asked` what came. Answers `reply`, which a test may replace."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.endpoint = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        endpoint: ChatEndpoint = self.server.endpoint  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        endpoint.asked.append(Asked(self, body))
        try:
            endpoint.reply(self)
        except OSError:
            pass  # the caller has gone: that is what some tests are about

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(reply: Reply) -> Iterator[ChatEndpoint]:
    endpoint = ChatEndpoint(reply)
    try:
        yield endpoint
    finally:
        endpoint.close()


def says(content: object, finish_reason: str = "stop") -> Reply:
    """A whole chat completion with that text."""
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": content}}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return sends(json.dumps(body).encode())


def sends(body: bytes, status: int = 200, **headers: str) -> Reply:
    """These very bytes."""
    return lambda handler: handler.send(status, body, **headers)


def never(handler: _Handler) -> None:
    """Takes the question and is silent until the test is over."""
    handler.server.endpoint.over.wait()  # type: ignore[attr-defined]


def drips(handler: _Handler) -> None:
    """Sends a byte now and then, so that no single read takes long, until the caller goes or the test is over."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    while not handler.server.endpoint.over.wait(0.02):  # type: ignore[attr-defined]
        handler.wfile.write(b" ")
        handler.wfile.flush()


def floods(handler: _Handler) -> None:
    """Sends without an end."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    while not handler.server.endpoint.over.is_set():  # type: ignore[attr-defined]
        handler.wfile.write(b" " * 65536)


def hangs_up(handler: _Handler) -> None:
    """Closes the connection without a word."""
    handler.close_connection = True
