"""`trainer watch` beside a real run: on a screen of any size, in a pipe, as JSON lines; leaving it changes nothing."""

import json
import os
import re
import signal

import pytest
from fakes.answers import checked_line
from fakes.runs import LIMIT_S, answer, wait_for
from fakes.terminals import Terminal

pytestmark = pytest.mark.flow


@pytest.fixture
def holding(prepare, tmp_path):
    """(a run whose training has done its steps and waits, the caller that waits for it)."""
    hold = tmp_path / "hold"
    hold.write_text("")
    run = prepare(steps=6, hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: (run.state() or {}).get("current_step") == 6)
    yield run, hold, caller
    hold.unlink(missing_ok=True)
    answer(caller)


def is_small(frame):
    """Whether it is a whole frame with a line for the loss instead of its chart."""
    return "loss █" in frame and "Ctrl-C leaves; the run goes on" in frame and "(by step)" not in frame


def test_a_screen_of_any_size_until_the_run_ends(holding):
    run, hold, _ = holding
    screen = Terminal(["watch", run.run.path], run.env)
    screen.wait_for("step 6/6")
    seen = screen.wait_for("Ctrl-C leaves; the run goes on")
    assert "(by step)" in seen
    assert "\x1b[?1049h" in seen  # a screen of its own, so that what was there comes back
    assert not re.search(r"\x1b\[[0-9;]*3[1-7]m", seen)
    screen.resize(40, 12)
    screen.wait_until(lambda seen: any(map(is_small, seen.split("\x1b[H")[1:])))  # a frame that began since then
    hold.unlink()
    code, seen = screen.end()
    assert code == 0
    after = seen.rpartition("\x1b[?1049l")[2]
    assert after.strip().startswith("completed")


@pytest.mark.parametrize("leave", ["ctrl-c", signal.SIGTERM, signal.SIGHUP])
def test_leaving_changes_nothing(holding, leave):
    run, _, caller = holding
    screen = Terminal(["watch", run.run.path], run.env)
    screen.wait_for("Ctrl-C leaves")
    screen.type("\x03") if leave == "ctrl-c" else screen.signal(leave)
    code, seen = screen.end()
    assert code == 130
    assert "\x1b[?1049l" in seen
    assert "the run goes on" in seen.rpartition("\x1b[?1049l")[2]
    assert caller.poll() is None
    assert run.state()["status"] == "running"


def test_json_lines_until_the_end(holding):
    run, hold, _ = holding
    watching = run.call("watch", run.run.path, "--json")
    first = checked_line("version-line", json.loads(watching.stdout.readline()))
    state = checked_line("watch-line", json.loads(watching.stdout.readline()))
    assert first == {"type": "version", "schema": "loopai-trainer/1"}
    assert (state["type"], state["status"], state["current_step"]) == ("state", "running", 6)
    assert state["metrics"] == {"loss": 0.3333, "learning_rate": 0.0001}
    assert state["devices"] == []
    hold.unlink()
    out, err = watching.communicate(timeout=LIMIT_S)
    last = [checked_line("watch-line", json.loads(line)) for line in out.splitlines()][-1]
    assert (watching.returncode, err) == (0, b"")
    assert (last["type"], last["status"]) == ("end", "completed")
    assert "result" not in last


def test_a_pipe_gets_lines(holding):
    run, hold, _ = holding
    watching = run.call("watch", run.run.path)
    assert b"step 6/6, loss 0.3333" in watching.stdout.readline()
    hold.unlink()
    out, err = watching.communicate(timeout=LIMIT_S)
    assert (watching.returncode, err) == (0, b"")
    assert out.splitlines()[-1].startswith(b"completed, step 6/6")
    assert b"\x1b" not in out


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_reader_that_goes_away_is_no_failure(holding, words):
    run, hold, _ = holding
    watching = run.call("watch", run.run.path, *words)
    watching.stdout.readline()
    watching.stdout.close()
    hold.unlink()
    with watching.stderr as stderr:
        assert stderr.read() == b""
    assert watching.wait(LIMIT_S) == 0


def test_what_was_never_started_cannot_be_watched(prepare):
    run = prepare()
    code, document = answer(run.call("watch", run.run.path, "--json"))
    assert (code, document["error"]["code"]) == (2, "NOT_STARTED")


def test_status_shows_the_curve_to_people_alone(holding):
    run, _, _ = holding
    out, _ = run.call("status", run.run.path).communicate(timeout=LIMIT_S)
    assert re.search(r"^loss █\S+ 0\.3333$", out.decode(), re.MULTILINE)
    _, document = answer(run.call("status", run.run.path, "--json"))
    assert "recent" not in document["data"]
    _, document = answer(run.call("status", run.run.path, "--json", "--no-color"))
    assert "recent" not in document["data"]
    assert os.path.exists(run.run.metric_rows)
