"""A wait of more than a second is talked about on stderr, a shorter one is not; and nothing is left behind."""

import os
import re
import select
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from loopai_trainer.cli import patience, progress
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.cli.patience import Patience, patiently
from loopai_trainer.errors import DataError
from loopai_trainer.operations.answer import Answer

LIMIT_S = 60.0


@pytest.fixture
def hurried(monkeypatch):
    """Seconds are thousandths here."""
    monkeypatch.setattr(patience, "FIRST_S", 0.001)
    monkeypatch.setattr(patience, "LINE_EVERY_S", 0.002)
    monkeypatch.setattr(patience, "REDRAW_S", 0.002)


class Reader:
    """The other end of stderr: a pipe, since a file that is read and cut while a signal writes to it loses words."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def now(self):
        """What has come since the last look."""
        said = b""
        while select.select([self.descriptor], [], [], 0)[0]:
            said += os.read(self.descriptor, 65536)
        return said.decode()

    def until(self, text):
        """What comes until `text` is among it."""
        said, until = "", time.monotonic() + LIMIT_S
        while text not in said:
            assert time.monotonic() < until, said
            said += self.now()
        return said


@pytest.fixture
def stderr(monkeypatch):
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        # pytest puts its own sys.stderr in place again when the test begins: only what is spoken through is replaced.
        monkeypatch.setattr(patience, "sys", SimpleNamespace(stderr=stream))
        yield Reader(reading)
    os.close(reading)


def set_up():
    """What SIGALRM and the timer are there for: nothing, or the limit that pytest sets for a test."""
    return signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0.0


@pytest.mark.usefixtures("hurried")
def test_a_long_wait_says_what_it_is_at(stderr):
    before = set_up()

    def operation(told):
        assert re.match(r"preparing, \d+ s\n", stderr.until("\n"))
        told("hashing the model", 3_000_000, 12_000_000)
        assert re.search(r"^hashing the model, 3 of 12 MB, \d+ s\n", stderr.until("12 MB"), re.MULTILINE)
        told("rehearsing", 0, 0)
        assert re.search(r"^rehearsing, \d+ s\n", stderr.until("rehearsing,"), re.MULTILINE)
        return Answer("prepare", None)

    assert patiently(Output(), "preparing", operation)().ok
    assert set_up() == before


def test_a_short_one_says_nothing_and_json_stays_json(capfd, monkeypatch):
    assert patience.FIRST_S == 1.0
    monkeypatch.setattr(patience, "FIRST_S", LIMIT_S)
    assert finish("x", Output(json=True), patiently(Output(), "checking", lambda _: Answer("x", None))) == 0
    out, err = capfd.readouterr()
    assert (out[0], err) == ("{", "")


def test_elsewhere_a_step_is_said_once_and_again_after_a_minute(stderr, monkeypatch):
    monkeypatch.setattr(patience, "FIRST_S", 0.001)
    with Patience(Output(), "preparing") as told:
        stderr.until("preparing")
        told("rehearsing", 0, 0)
        assert re.fullmatch(r"rehearsing, \d+ s\n", stderr.until("rehearsing"))
        monkeypatch.setattr(patience, "LINE_EVERY_S", 0.0)
        assert "rehearsing" in stderr.until("rehearsing")


@pytest.mark.usefixtures("hurried")
def test_a_terminal_has_one_line_that_is_taken_away(stderr, monkeypatch):
    monkeypatch.setattr(patience, "redraws", lambda output: True)
    before = set_up()
    with Patience(Output(), "checking this host") as told:
        said = stderr.until("\rchecking this host, ")
        told("x" * 200, 0, 0)
        said = stderr.until("xxx")
        assert "\n" not in said
        assert max(map(len, said.split("\r"))) < 80
    assert stderr.now().endswith(" \r")
    assert set_up() == before


@pytest.mark.usefixtures("hurried")
def test_who_speaks_ends_it_and_a_refusal_does(capfd):
    before = set_up()
    with Patience(Output(), "checking") as told:
        assert told.before(lambda words, end: words + end)("yes", end="!") == "yes!"
        assert set_up() == before
    with pytest.raises(DataError), Patience(Output(), "checking"):
        raise DataError("bad")
    assert set_up() == before


@pytest.mark.usefixtures("hurried")
def test_quiet_is_quiet_and_a_thread_has_no_timer(capfd):
    before, found = set_up(), []
    with Patience(Output(quiet=True), "checking"):
        assert set_up() == before

    def elsewhere():
        with Patience(Output(), "checking"):
            found.append(set_up() == before)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [True]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("term", "terminal", "quiet", "may"),
    [("xterm", True, False, True), ("dumb", True, False, False), ("xterm", False, False, False), ("xterm", True, True, False)],
)  # fmt: skip
def test_a_line_is_replaced_where_a_terminal_can_do_so(monkeypatch, term, terminal, quiet, may):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert progress.redraws(Output(quiet=quiet)) is may


def test_hashing_that_goes_on_is_told_and_what_is_done_in_a_second_is_not(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_S", LIMIT_S)
    tell = progress.bytes_progress(Output())
    tell("hashing the model", 1_000_000, 2_000_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    tell = progress.bytes_progress(Output())
    for done in (1, 2, 3):
        tell("hashing the model", done * 1_000_000, 3_000_000)
    assert capsys.readouterr().err == "hashing the model: 1 of 3 MB\n"


@pytest.mark.usefixtures("hurried")
def test_what_blocks_goes_on_and_waits_are_as_long_as_they_were(stderr):
    reading, writing = os.pipe()
    with Patience(Output(), "checking"):
        stderr.until("checking")
        child = subprocess.Popen(["sh", "-c", "sleep 0.05; echo done"], stdout=writing)
        assert os.read(reading, 100) == b"done\n"
        assert child.wait(LIMIT_S) == 0
    os.close(reading)
    os.close(writing)
