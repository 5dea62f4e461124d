"""One question, answered in time or not at all, whatever the endpoint does."""

import socket
import sys
import threading

import pytest
from fakes.chat_endpoint import drips, floods, hangs_up, never, says, sends, serving

from loopai_trainer.errors import SettingsError
from loopai_trainer.host import chat_endpoint
from loopai_trainer.host.chat_endpoint import Endpoint, EndpointFailed, ask

MESSAGES = [{"role": "system", "content": "rules"}, {"role": "user", "content": "数学"}]
KEY = "test-key-0123456789abcdef"


def endpoint(base_url, timeout_s=30.0, key=KEY):
    return Endpoint(base_url, "some-model", key, timeout_s)


def failed(reply, timeout_s=30.0):
    with serving(reply) as served, pytest.raises(EndpointFailed) as error:
        ask(endpoint(served.base_url, timeout_s), MESSAGES)
    return str(error.value)


def test_what_is_sent_and_what_comes_back(monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-this-account")
    with serving(says('{"learning_rate": 1e-5}')) as served:
        assert ask(endpoint(served.base_url), MESSAGES) == '{"learning_rate": 1e-5}'
        (asked,) = served.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "some-model", "messages": MESSAGES}
    assert "of-this-account" not in asked.text


def test_a_server_without_keys_gets_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "somebody-elses")
    with serving(says("x")) as served:
        ask(endpoint(served.base_url, key=""), MESSAGES)
        assert served.asked[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (never, "within 0.5 s"),
        (drips, "within 0.5 s"),
    ],
)
def test_too_late_is_too_late_however_it_comes(reply, said):
    assert said in failed(reply, timeout_s=0.5)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (floods, "larger than 256 KiB"),
        (hangs_up, "could not be reached"),
        (sends(b"<html>no</html>"), "no chat completion"),
        (sends(b"[]"), "no chat completion"),
        (sends(b'{"choices": []}'), "no chat completion"),
        (sends(b'{"choices": [3]}'), "no chat completion"),
        (sends(b"[" * 100_000), "no chat completion"),
        (says(None), "holds no text"),
        (says('{"a": 1', finish_reason="length"), "cut off"),
        (sends(b'{"error": {"message": "wrong key test-key-0123456789abcdef"}}', 401), "HTTP status 401"),
        (sends(b"", 500), "HTTP status 500"),
    ],
)
def test_what_is_no_answer(reply, said):
    text = failed(reply)
    assert said in text
    assert KEY not in text


def test_it_is_not_led_elsewhere():
    with serving(says("{}")) as elsewhere:
        text = failed(sends(b"", 307, location=f"{elsewhere.base_url}/chat/completions"))
        assert "HTTP status 307" in text
        assert elsewhere.asked == []


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with pytest.raises(EndpointFailed, match="could not be reached"):
            ask(endpoint(f"http://127.0.0.1:{taken.getsockname()[1]}/v1"), MESSAGES)


def test_the_key_is_in_no_text_of_the_endpoint():
    assert KEY not in repr(endpoint("http://x/v1")) + str(endpoint("http://x/v1"))


def test_a_fault_of_ours_is_not_taken_for_one_of_the_endpoint(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(chat_endpoint, "_content", broken)
    with pytest.raises(ZeroDivisionError):
        ask(endpoint("http://127.0.0.1:9/v1"), MESSAGES)


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(SettingsError) as error:
        ask(endpoint("http://127.0.0.1:9/v1"), MESSAGES)
    assert error.value.code == "PACKAGE_MISSING"
    assert "loopai-trainer[llm]" in error.value.hint


def test_the_thread_that_asks_keeps_no_program_alive():
    before = set(threading.enumerate())
    with serving(never) as served:
        with pytest.raises(EndpointFailed):
            ask(endpoint(served.base_url, 0.2), MESSAGES)
        asking = set(threading.enumerate()) - before
        assert asking
        assert all(thread.daemon for thread in asking)
