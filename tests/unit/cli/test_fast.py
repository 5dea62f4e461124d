"""The front-end ahead of typer takes exact forms alone, and answers as the typer path does."""

import json
import subprocess
import sys

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.cli import app, fast


def both(words, capsys):
    """(exit code, stdout) of the fast path and of typer's."""
    results = []
    for run in (fast.main, app.run):
        code = run(list(words))
        results.append((code, capsys.readouterr().out))
    return results


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPAI_TRAINER_STATE_DIR", str(tmp_path / "state"))
    return PreparedRun(tmp_path)


def test_version(capsys):
    (fast_code, fast_out), (code, out) = both(["--version"], capsys)
    assert (fast_code, fast_out) == (code, out)


@pytest.mark.parametrize("target", ["path", "nope", "../x"])
@pytest.mark.parametrize("more", [(), ("--output-dir", "OUT"), ("--output-dir=OUT", "--task-id", "task")])
def test_status_json(prepared, capsys, target, more):
    target = prepared.run.path if target == "path" else target
    more = [word.replace("OUT", str(prepared.root / "outputs")) for word in more]
    assert fast.parse([target, *more, "--json"], values=("--output-dir", "--task-id"), switches=("--json",))
    first, second = both(["status", target, *more, "--json"], capsys)
    assert first == second
    assert json.loads(first[1])["command"] == "status"


@pytest.mark.parametrize("more", [(), ("--limit", "1"), ("--limit=3", "--task-id", "task"), ("--output-dir", "/nope")])
@pytest.mark.parametrize("shown", [(), ("--json",), ("--no-color", "--quiet")])
def test_list(prepared, capsys, monkeypatch, more, shown):
    monkeypatch.setenv("OUTPUT_DIR", str(prepared.root / "outputs"))
    first, second = both(["list", *more, *shown], capsys)
    assert first == second
    assert first[0] == (2 if "/nope" in more else 0)


@pytest.mark.parametrize("json_flag", [(), ("--json",)])
@pytest.mark.parametrize("sha256", ["0" * 64, "abc"])
def test_run_prepared_refuses_alike(prepared, capsys, sha256, json_flag):
    words = ["run-prepared", prepared.run.config, "--sha256", sha256, *json_flag]
    first, second = both(words, capsys)
    assert first == second
    assert first[0] == 5


@pytest.mark.parametrize(
    "words",
    [
        ["run-prepared"],
        ["run-prepared", "config"],
        ["run-prepared", "config", "--sha256"],
        ["run-prepared", "config", "--sha256", "--json"],
        ["run-prepared", "config", "--sha256", "a", "--bogus"],
        ["run-prepared", "config", "--sha256", "a", "--wait-timeout", "soon"],
        ["run-prepared", "config", "--sha256", "a", "--wait-timeout", "nan"],
        ["run-prepared", "config", "other", "--sha256", "a"],
        ["run-prepared", "config", "--sha256", "a", "--sha256", "b"],
        ["run-prepared", "--help"],
        ["status", "v1"],
        ["status", "--json"],
        ["status", "v1", "--json", "--help"],
        ["list", "--json", "v1"],
        ["list", "--limit", "0"],
        ["list", "--limit", "many"],
        ["list", "--help"],
        [],
        ["--version", "--json"],
    ],
)
def test_everything_else_is_left_to_typer(words, monkeypatch):
    seen = []
    monkeypatch.setattr(app, "run", lambda argv: seen.append(argv) or 7)
    assert fast.main(words) == 7
    assert seen == [words]


HEAVY = {
    "typer",
    "rich",
    "orjson",
    "pyarrow",
    "psutil",
    "xxhash",
    "pydantic",
    "filelock",
    "platformdirs",
    "concurrent.futures",
}
IMPORTED = (
    "import sys; from loopai_trainer.cli.fast import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
)


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (["--version"], HEAVY | {"json", "dataclasses"}),
        (["status", "RUN", "--json"], HEAVY | {"dataclasses", "typing", "yaml", "email", "subprocess", "_hashlib"}),
        (["run-prepared", "CONFIG", "--sha256", "HASH", "--json"], HEAVY | {"subprocess"}),
    ],
)
def test_the_fast_paths_load_nothing_heavy(prepared, words, forbidden):
    """A regression here shows long before scripts/bench does. run-prepared is followed to its answer; the stand-in's entry point alone loads email."""
    replace = {"RUN": prepared.run.path, "CONFIG": prepared.run.config, "HASH": prepared.sha256}
    argv = [sys.executable, "-c", IMPORTED, *(replace.get(word, word) for word in words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=prepared.env)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert loaded & forbidden == set()
