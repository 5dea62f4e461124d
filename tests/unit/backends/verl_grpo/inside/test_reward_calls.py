import os
import sys
import time

import pytest
from fakes import verl_inside

reward_calls = verl_inside.load("reward_calls")


def call(function, load_limit_s=60.0, call_limit_s=60.0, **arguments):
    caller = reward_calls.Caller(lambda: function, load_limit_s, call_limit_s)
    try:
        return caller.call(arguments)
    finally:
        caller.close()


async def awaited(x):
    return x * 2.0


class Judge:
    """An object with an async call is no coroutine function to `inspect`, and none to verl."""

    async def __call__(self, x):
        return 1.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, {"kind": "score", "score": 1.0, "shape": "number"}),
        (True, {"kind": "score", "score": 1.0, "shape": "number"}),
        (float("nan"), {"kind": "not_finite", "score": None, "shape": "number"}),
        (float("-inf"), {"kind": "not_finite"}),
        (None, {"kind": "none"}),
        ((0.0, "wrong"), {"kind": "type", "type": "tuple"}),
        ([1.0], {"kind": "type", "type": "list"}),
        ("1.0", {"kind": "type", "type": "str"}),
        (1j, {"kind": "type", "type": "complex"}),
        ({"acc": 1.0}, {"kind": "no_score"}),
        ({}, {"kind": "no_score"}),
        ({"score": None}, {"kind": "type", "type": "dict whose score is NoneType"}),
        ({"score": float("nan")}, {"kind": "not_finite", "score": None}),
        ({"score": 1, "acc": False}, {"kind": "score", "shape": {"score": "number", "acc": "number"}}),
        ({"score": 1, "pred": "x"}, {"kind": "score", "shape": {"score": "number", "pred": "text"}}),
        ({"score": 1, "x": [1], "y": None, "z": float("inf")}, {"kind": "extras", "bad": ["x", "y", "z"]}),
    ],
)
def test_what_verl_can_use_and_what_not(value, expected):
    found = reward_calls.described(value)
    assert {name: found[name] for name in expected} == expected


def test_numpy_s_numbers_are_numbers():
    numpy = pytest.importorskip("numpy")
    for value in (numpy.float32(1), numpy.float64(1), numpy.int64(1), numpy.bool_(True)):
        assert reward_calls.described(value)["kind"] == "score"
    assert reward_calls.described(numpy.array([1.0]))["kind"] == "type"


def test_long_results_are_shown_short():
    assert len(reward_calls.described("x" * 10_000)["shown"]) <= reward_calls.SHOWN_CHARACTERS


def test_functions_are_called_by_keyword_again_and_again():
    caller = reward_calls.Caller(lambda: lambda a, b: a + b, 60.0, 60.0)
    try:
        assert [caller.call({"a": number, "b": 1})["score"] for number in range(3)] == [1.0, 2.0, 3.0]
    finally:
        caller.close()


def test_async_functions_are_awaited_and_others_that_give_a_coroutine_refused():
    assert call(awaited, x=2)["score"] == 4.0
    assert call(lambda x: awaited(x), x=2)["kind"] == "coroutine"
    assert call(Judge(), x=2)["kind"] == "coroutine"


def test_a_call_is_in_no_main_thread_as_in_training():
    import threading

    assert call(lambda: threading.current_thread() is threading.main_thread())["score"] == 0.0


def test_a_million_characters_pass_both_ways():
    assert call(lambda text: len(text), text="x" * 1_000_000)["score"] == 1_000_000


def test_exceptions_are_told_with_their_cause():
    def load():
        raise RuntimeError("Error loading module") from ModuleNotFoundError("No module named 'a.b'", name="a.b")

    assert call(lambda: 1 / 0)["shown"] == "ZeroDivisionError: division by zero"
    assert call(load) == {"kind": "raised", "missing": "a.b", "shown": "ModuleNotFoundError: No module named 'a.b'"}
    caller = reward_calls.Caller(load, 60.0, 60.0)
    assert caller.call({}) == {"kind": "load", "missing": "a.b", "shown": "ModuleNotFoundError: No module named 'a.b'"}
    caller.close()


def test_a_call_that_hangs_is_killed_and_the_next_one_works(tmp_path):
    mark = tmp_path / "loaded"

    def hangs():
        while True:
            time.sleep(60)

    def load():
        if mark.exists():
            return lambda: 1.0
        mark.touch()
        return hangs

    caller = reward_calls.Caller(load, 60.0, 0.5)
    try:
        assert caller.call({})["kind"] == "slow"
        caller._call_limit_s = 60.0
        assert caller.call({})["score"] == 1.0
    finally:
        caller.close()


@pytest.mark.parametrize("leave", [lambda: os._exit(0), lambda: sys.exit(3), lambda: os.kill(os.getpid(), 9)])
def test_a_reward_that_ends_its_process_costs_one_call(leave):
    caller = reward_calls.Caller(lambda: lambda go: leave() if go else 1.0, 60.0, 60.0)
    try:
        assert caller.call({"go": True})["kind"] == "died"
        assert caller.call({"go": False})["score"] == 1.0
    finally:
        caller.close()


def test_loading_that_hangs_or_ends_the_process():
    hanging = reward_calls.Caller(lambda: time.sleep(600), 0.5, 60.0)
    assert "more than" in hanging.call({})["shown"]
    leaving = reward_calls.Caller(lambda: os._exit(1), 60.0, 60.0)
    assert leaving.call({}) == {"kind": "load", "shown": "loading it ends the process"}


def test_no_child_is_left():
    caller = reward_calls.Caller(lambda: lambda: 1.0, 60.0, 60.0)
    caller.call({})
    pid = caller._pid
    caller.close()
    caller.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
