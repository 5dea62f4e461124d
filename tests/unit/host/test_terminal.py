"""At a real pseudo-terminal, in a process of its own session."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

ASK = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
from loopai_trainer.errors import ApprovalError
from loopai_trainer.host import terminal
try:
    with terminal.own("a person is wanted", "trainer approve x") as tty:
        answer = tty.ask("well? ")
        tty.stream.write(f"name={tty.name} answer={answer!r} end\\n")
except ApprovalError as error:
    os.write(fd, f"{error.code}: {error.message} [{error.next_command}] end\\n".encode())
"""

BACKGROUND = "import os, signal\nsignal.signal(signal.SIGTTOU, signal.SIG_IGN)\nimport sys\n" + ASK.replace(
    "from loopai_trainer.errors",
    "child = os.fork()\nif not child:\n    os.setpgid(0, 0)\nelse:\n    os.waitpid(child, 0)\n    sys.exit()\nfrom loopai_trainer.errors",
    1,
)

EARLY = """
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDWR)
from loopai_trainer.host import terminal
with terminal.own("a person is wanted", "trainer approve x") as tty:
    os.write(fd, b"ready")
    select.select([fd], [], [])  # until a line was typed
    tty.stream.write(f"answer={tty.ask('well? ')!r} end\\n")
"""


class Pty:
    def __init__(self, program):
        self.master, self.slave = pty.openpty()
        self.name = os.ttyname(self.slave)
        null = subprocess.DEVNULL
        argv = [sys.executable, "-c", program, self.name]
        self.process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True)
        self.seen = ""

    def until(self, text):
        limit = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < limit, self.seen
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536).decode()
        return self.seen

    def type(self, data):
        os.write(self.master, data)


@pytest.fixture
def at():
    opened = []

    def start(program):
        opened.append(Pty(program))
        return opened[-1]

    yield start
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        os.close(one.master)
        os.close(one.slave)


def test_what_is_typed_comes_back_with_the_terminals_name(at):
    here = at(ASK)
    here.until("well? ")
    here.type(b"  abc \n")
    assert f"name={here.name} answer='abc' end" in here.until("end")


def test_what_was_typed_before_the_question_does_not_count(at):
    here = at(EARLY)
    here.until("ready")
    here.type(b"early\n")
    here.until("well? ")
    here.type(b"late\n")
    assert "answer='late'" in here.until("end")


def test_the_end_of_input_is_no_answer(at):
    here = at(ASK)
    here.until("well? ")
    here.type(b"\x04")
    assert "answer=None" in here.until("end")


def test_an_empty_line_is_an_empty_answer(at):
    here = at(ASK)
    here.until("well? ")
    here.type(b"\n")
    assert "answer=''" in here.until("end")


def test_a_background_job_is_refused_instead_of_being_stopped(at):
    here = at(BACKGROUND)
    said = here.until("end")
    assert (
        "NO_TERMINAL: a person is wanted, and this command does not run in its foreground [trainer approve x]" in said
    )


def test_without_a_terminal_it_is_refused():
    program = ASK.replace("fd = os.open(sys.argv[1], os.O_RDWR)", "fd = 1")
    argv = [sys.executable, "-c", program]
    done = subprocess.run(
        argv, start_new_session=True, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == "NO_TERMINAL: a person is wanted, and there is none here [trainer approve x] end\n"


def test_a_hang_up_ends_it(at):
    here = at(ASK)
    here.until("well? ")
    here.process.send_signal(signal.SIGHUP)
    assert here.process.wait(60) == -signal.SIGHUP


def test_the_device_of_a_terminal_that_is_no_pts(monkeypatch, tmp_path):
    import builtins

    from loopai_trainer.host import terminal

    real = builtins.open

    def fake(path, *arguments, **options):
        if path == "/proc/self/stat":
            path = tmp_path / "stat"
            path.write_text(f"1 (a) b) S 1 1 1 {(4 << 8) | 1} 1")
        return real(path, *arguments, **options)

    monkeypatch.setattr(builtins, "open", fake)
    assert terminal._device_name() == "/dev/tty (4:1)"
