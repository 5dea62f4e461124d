import json
import os
import subprocess
import sys

from loopai_trainer.host import ancestry

CHILD = "import json; from loopai_trainer.host import ancestry; print(json.dumps(ancestry.command_lines()))"


def test_the_nearest_comes_first_and_an_agents_name_is_found(tmp_path):
    link = tmp_path / "claude (x) y"
    link.symlink_to(sys.executable)
    outer = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', {CHILD!r}], check=True)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([str(link), "-c", outer], env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found[0][0] == str(link)
    assert found[1:] == [list(line) for line in ancestry_of_this()]


def ancestry_of_this():
    with open("/proc/self/cmdline", "rb") as file:
        own = file.read().rstrip(b"\0").decode().split("\0")
    return [own, *ancestry.command_lines()]


def test_it_ends_where_nothing_more_is_seen(monkeypatch):
    monkeypatch.setattr(ancestry, "_read", lambda path: b"")
    assert ancestry.command_lines() == []


def test_a_chain_that_goes_in_circles_ends(monkeypatch):
    stat = b"7 (name) with (brackets) S 7 7 7 0"
    monkeypatch.setattr(ancestry, "_read", lambda path: stat if path.endswith("stat") else b"")
    found = ancestry.command_lines()
    assert len(found) == 64
    assert found[0] == ["name) with (brackets"]
