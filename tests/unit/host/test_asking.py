"""host.asking: a program that answers, one that does not, and what is left of it."""

import json
import os
import sys
import time

import pytest
from fakes.runs import wait_for

from loopai_trainer.errors import BackendMissing, ConfigError
from loopai_trainer.host import asking
from loopai_trainer.host.asking import Stopped, ask, run_program
from loopai_trainer.records import Command, Question

CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


def question(code, stdin=b"", limit_s=60.0, words=(), **env):
    command = Command((sys.executable, "-I", "-S", "-c", code, *words), "", {"PATH": "/usr/bin:/bin", **env})
    return Question("asking", command, stdin, limit_s)


def gone(path):
    """Whether all of the processes that a file names end, now that they were told to."""
    pids = [int(word) for word in path.read_text().split()]
    until = time.monotonic() + 30.0
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return len(pids) == 2 and not any(map(alive, pids))


def started(path):
    """Whether a program and its child have told who they are."""
    return path.exists() and len(path.read_text().split()) == 2


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended between opening and reading
        return False


def test_the_answer_is_stdout_and_the_scratch_folder_goes_away():
    code = "import json, os, sys; print(json.dumps([sys.stdin.read(), os.getcwd(), dict(os.environ)]))"
    said, folder, environ = json.loads(ask(question(code, b"hello", HOME="/nowhere", OWN="1")))
    assert said == "hello"
    assert environ["OWN"] == "1"
    assert environ["HOME"] == environ["HF_HOME"] == environ["TMPDIR"] == folder
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('no such module')", "exit status 1; its last words:\n  no such module"),
        ("pass", "gave no answer"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit status -9"),
    ],
)
def test_a_broken_program_is_said_with_its_last_words(code, said):
    with pytest.raises(BackendMissing, match="asking") as refused:
        ask(question(code))
    assert refused.value.code == "BACKEND_BROKEN"
    assert said in refused.value.message


LAST_WORD = """
import json, os, signal
with open(os.environ["LOOPAI_TRAINER_AT_WORK"], "w") as file:
    file.write(WORD)
if os.fork() == 0:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
os.wait()
"""
WORD = {"code": "REWARD_KILLS", "who": "the reward function f of /a.py\x1b", "hint": "signal nobody else"}


def test_who_kills_the_program_that_runs_their_code_is_named():
    with pytest.raises(ConfigError) as refused:
        ask(question(LAST_WORD.replace("WORD", repr(json.dumps(WORD)))))
    said = "asking: the program was killed by SIGKILL while the reward function f of /a.py\\x1b ran in a child of it"
    assert (refused.value.code, refused.value.message, refused.value.hint) == ("REWARD_KILLS", said, WORD["hint"])
    assert [(one.severity, one.code, one.message) for one in refused.value.problems] == [
        ("error", "REWARD_KILLS", said)
    ]


@pytest.mark.parametrize("word", ["", "{", "[]", '{"code": "X"}'])
def test_a_word_that_says_nothing_leaves_a_broken_program(word):
    with pytest.raises(BackendMissing) as refused:
        ask(question(LAST_WORD.replace("WORD", repr(word))))
    assert refused.value.code == "BACKEND_BROKEN"


def test_too_much_of_an_answer_is_none(monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_BYTES", 10)
    with pytest.raises(BackendMissing, match="far too much"):
        ask(question("print('x' * 11)"))


def test_a_program_that_is_not_there():
    command = Command(("/bin/does-not-exist",), "", {})
    with pytest.raises(BackendMissing, match="cannot be started"):
        ask(Question("asking", command, b"", 1.0))


def test_at_the_limit_all_of_it_is_ended(tmp_path):
    pids = tmp_path / "pids"
    with pytest.raises(BackendMissing) as refused:
        ask(question(CHILD, limit_s=0.5, words=(str(pids),)), lambda: not wait_for(lambda: started(pids)))
    assert refused.value.code == "BACKEND_TIMEOUT"
    assert gone(pids)


def test_the_caller_can_stop_it(tmp_path):
    pids = tmp_path / "pids"
    with pytest.raises(Stopped):
        ask(question(CHILD, words=(str(pids),)), lambda: started(pids))
    assert gone(pids)


def test_a_program_runs_with_its_output_in_a_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    command = question("import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)").command
    assert run_program("running", command, 60.0, str(log)) == 3
    assert sorted(log.read_text().splitlines()) == ["before", "one", "two"]


STRAY = """
import os, sys, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()} ")
        time.sleep(600)
while len(open(sys.argv[1]).read().split()) < 2:
    time.sleep(0.01)
print("answered", flush=True)
"""


def test_what_leaves_its_session_is_ended_too(tmp_path):
    pids = tmp_path / "pids"
    pids.touch()
    assert ask(question(STRAY, words=(str(pids),))) == b"answered\n"
    assert gone(pids)
