"""Calls a reward as verl's reward manager would, in a child process that is killed when a call takes too long.

Runs in verl's environment. The child is forked, so that what is loaded already need not be loaded again, and a reward
that ends the process, hangs in C code or breaks its interpreter costs one call. A sync function runs in a thread and an
async one in an event loop: signals and thread-bound tricks fail here as they would in training.
Source: verl 0.9.1 experimental/reward_loop/reward_manager/naive.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
import numbers
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

SHOWN_CHARACTERS = 120


class Caller:
    """One reward, called again and again. `load` gives the function; it runs in the child, at each start of one."""

    def __init__(self, load: Callable[[], Any], load_limit_s: float, call_limit_s: float) -> None:
        self._load = load
        self._load_limit_s = load_limit_s
        self._call_limit_s = call_limit_s
        self._pid = 0
        self._asks = self._answers = -1
        self._pending = b""

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What came of one call (see `described`), or kind `slow`, `died` or `load`."""
        if not self._pid:
            loaded = self._start()
            if loaded["kind"] != "loaded":
                return loaded
        try:
            _write(self._asks, json.dumps(arguments).encode() + b"\n")
        except OSError:
            return self._ended()
        answer = self._read(self._call_limit_s)
        if answer is None:
            self.close()
            return {"kind": "slow", "limit_s": self._call_limit_s}
        return answer or self._ended()

    def close(self) -> None:
        """End the child, whatever it is doing."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._asks)
            os.close(self._answers)
        self._pid, self._pending = 0, b""

    def _start(self) -> dict[str, Any]:
        ask_read, ask_write = os.pipe()
        answer_read, answer_write = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads that a child has not: libraries' own, which no reward waits for.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(ask_write)
            os.close(answer_read)
            _serve(self._load, ask_read, answer_write)
        os.close(ask_read)
        os.close(answer_write)
        self._pid, self._asks, self._answers = pid, ask_write, answer_read
        answer = self._read(self._load_limit_s)
        if answer is None or not answer or answer["kind"] != "loaded":
            self.close()
        if answer is None:
            return {"kind": "load", "shown": f"loading it takes more than {self._load_limit_s:.0f} seconds"}
        return answer or {"kind": "load", "shown": "loading it ends the process"}

    def _read(self, limit_s: float) -> dict[str, Any] | None:
        """The next answer; None: none within the limit; empty: the child is gone."""
        until = time.monotonic() + limit_s
        while b"\n" not in self._pending:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([self._answers], [], [], left_s)[0]:
                return None
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                return {}
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> dict[str, Any]:
        self.close()
        return {"kind": "died"}


def _serve(load: Callable[[], Any], asks: int, answers: int) -> None:
    """The child: never returns."""
    try:
        function = load()
        _write(answers, b'{"kind": "loaded"}\n')
        runner = asyncio.new_event_loop()
        with os.fdopen(asks, "rb") as questions:
            for line in questions:
                _write(answers, json.dumps(_called(function, runner, json.loads(line))).encode() + b"\n")
    except Exception as error:  # noqa: BLE001 - loading a user's file may raise anything
        _write(answers, json.dumps({**raised(error), "kind": "load"}).encode() + b"\n")
    finally:
        os._exit(0)


def _called(function: Any, runner: asyncio.AbstractEventLoop, arguments: dict[str, Any]) -> dict[str, Any]:
    async def run() -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        return await runner.run_in_executor(None, lambda: function(**arguments))

    try:
        return described(runner.run_until_complete(run()))
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        return raised(error)


def raised(error: BaseException) -> dict[str, Any]:
    """What an exception says; `missing`: the module that was not found, if that is at its bottom."""
    told: BaseException | None = error
    missing, seen = "", 0
    while told is not None and seen < 10:
        if isinstance(told, ModuleNotFoundError) and told.name:
            missing = told.name
        told, seen = told.__cause__ or told.__context__, seen + 1
    root = error.__cause__ or error
    return {"kind": "raised", "missing": missing, "shown": _short(f"{type(root).__name__}: {root}")}


def described(value: Any) -> dict[str, Any]:
    """{kind: score, score, shape} for a result that verl can use; else another kind, and what it was.

    `shape`: "number", or each key of a dict -> number or text: verl makes columns of them.
    """
    if value is None:
        return {"kind": "none", "shown": "None"}
    if inspect.iscoroutine(value):
        value.close()
        return {"kind": "coroutine", "shown": "a coroutine: the function has to be declared with async def"}
    if isinstance(value, dict):
        return _described_dict(value)
    if not _is_number(value):
        return {"kind": "type", "type": type(value).__name__, "shown": _short(repr(value))}
    kind = "score" if math.isfinite(value) else "not_finite"
    return {"kind": kind, "score": float(value) if kind == "score" else None, "shape": "number", "shown": repr(value)}


def _described_dict(value: dict[Any, Any]) -> dict[str, Any]:
    shown = _short(repr(value))
    if "score" not in value:
        return {"kind": "no_score", "shown": shown}
    shape = {str(key): "text" if isinstance(item, str) else "number" for key, item in value.items()}
    bad = sorted(
        str(key)
        for key, item in value.items()
        if key != "score" and not isinstance(item, str) and not (_is_number(item) and math.isfinite(item))
    )
    score = value["score"]
    if not _is_number(score):
        return {"kind": "type", "type": f"dict whose score is {type(score).__name__}", "shown": shown}
    kind = "extras" if bad else "score"
    if not math.isfinite(score):
        kind = "not_finite"
    number = float(score) if math.isfinite(score) else None
    return {"kind": kind, "score": number, "shape": shape, "bad": bad, "shown": shown}


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) or type(value).__name__ in ("bool", "bool_")  # numpy's bool is no Real


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
