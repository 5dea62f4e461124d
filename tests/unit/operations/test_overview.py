"""`trainer` alone says where somebody is: last runs, what waits for a person, what to type next."""

import json
import shlex

import pytest
from fakes.answers import checked

from loopai_trainer.cli import app, fast, list_view
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.overview import LOOKED_INTO, SHOWN, overview
from loopai_trainer.operations.targets import Scope

STATUSES = {
    "prepared": "trainer inspect outputs/t/trainer/prepared/training_config.yaml",
    "approved": "trainer inspect outputs/t/trainer/approved/training_config.yaml",
    "queued": "trainer watch outputs/t/trainer/queued",
    "running": "trainer watch outputs/t/trainer/running",
    "finalizing": "trainer watch outputs/t/trainer/finalizing",
    "unknown": "trainer watch outputs/t/trainer/unknown",
    "orphaned": "trainer recover outputs/t/trainer/orphaned --adopt",
}
ENDED = {
    "failed": "trainer logs outputs/t/trainer/failed",
    "completed": "trainer status outputs/t/trainer/completed",
    "cancelled": "trainer status outputs/t/trainer/cancelled",
}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Sets the runs that are known: (version id, status), the newest first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def know(*found, folder=tmp_path / "outputs"):
        known = [
            {
                "task_id": "t", "trainer_version_id": name, "status": status, "phase": None, "current_step": None,
                "total_steps": None, "started_at": None, "updated_at": None,
                "run_dir": f"{folder}/t/trainer/{name}", "best_checkpoint": None,
            }
            for name, status in found
        ]  # fmt: skip
        answer = Answer("list", {"count": len(known), "runs": known}, message=f"{len(known)} runs known")
        monkeypatch.setattr("loopai_trainer.operations.overview.list_runs", lambda scope, limit: answer)

    return know


def said():
    return overview(Scope({})).data


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_has_its_next_command(runs, status):
    runs((status, status))
    (item,) = (item for kind in ("orphaned", "waiting", "going_on") for item in said()[kind])
    assert item == {"trainer_version_id": status, "status": status, "next_command": STATUSES[status]}


@pytest.mark.parametrize("status", ENDED)
def test_of_what_ended_the_newest_run_alone_is_remarked(runs, status):
    runs((status, status), ("old", "failed"))
    assert [item["next_command"] for item in said()["ended"]] == [ENDED[status]]
    runs(("new", "prepared"), (status, status))
    assert said()["ended"] == []


def test_a_run_that_cannot_be_looked_into_asks_for_nothing(runs):
    runs(("broken", None))
    data = said()
    assert [data[kind] for kind in ("orphaned", "waiting", "going_on", "ended")] == [[], [], [], []]
    assert data["runs"][0]["status"] is None


def test_commands_outside_of_this_folder_have_whole_paths(runs, tmp_path):
    runs(("a", "running"), folder="/else where")
    assert said()["going_on"][0]["next_command"] == "trainer watch '/else where/t/trainer/a'"


def test_every_command_that_is_named_exists(runs):
    import typer

    names = typer.main.get_command(app.app).commands
    runs(*((status, status) for status in (*ENDED, *STATUSES)))
    data = said()
    kinds = [item for kind in ("orphaned", "waiting", "going_on", "ended") for item in data[kind]]
    runs()
    for item in [*kinds, *said()["first_steps"]]:
        assert shlex.split(item["next_command"])[1] in names


def test_what_is_shown_fits_a_plain_terminal(runs, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    runs(("lost", "orphaned"), *((f"p{n}", "prepared") for n in range(SHOWN + 2)), ("r", "running"))
    assert app.run([]) == 0
    out, err = capsys.readouterr()
    assert (err, "\x1b" in out) == ("", False)
    assert max(map(len, out.splitlines())) <= 80
    assert f"the newest {SHOWN} of {SHOWN + 4} runs\n" in out
    assert "... and 2 more: trainer list" in out
    assert out.index("an operator decides") < out.index("Wait for your approval") < out.index("Going on")
    assert out.count("trainer inspect") == SHOWN
    assert "p3" in out.partition("Lost")[0]
    assert "p4" not in out.partition("Lost")[0]


def test_who_has_no_runs_is_told_how_to_begin(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPAI_TRAINER_STATE_DIR", str(tmp_path))
    assert app.run([]) == 0
    out = capsys.readouterr().out
    assert "no runs yet" in out
    for command in ("trainer doctor", "trainer guide", "trainer templates", "trainer --help", "trainer docs"):
        assert command in out


def test_so_many_are_looked_into(monkeypatch):
    asked = []
    nothing = Answer("list", {"count": 0, "runs": []}, message="no runs yet")
    monkeypatch.setattr(
        "loopai_trainer.operations.overview.list_runs", lambda scope, limit: asked.append(limit) or nothing
    )
    overview(Scope({}))
    assert asked == [LOOKED_INTO]
    assert list_view.SHOWN == SHOWN


def test_in_chinese_all_but_what_is_typed_and_compared(runs, capsys, monkeypatch):
    runs(("lost", "orphaned"), *((f"p{n}", "prepared") for n in range(SHOWN + 1)), ("r", "running"))
    assert app.run(["--language", "zh"]) == 0
    out = capsys.readouterr().out
    for words in ("最新的 5 次", "状态", "等待您审批", "另有 1 个", "trainer recover", "所有命令", "prepared"):
        assert words in out
    assert "Wait for" not in out
    monkeypatch.setenv("LOOPAI_TRAINER_LANGUAGE", "zh")
    runs()
    assert app.run([]) == 0
    assert "还没有任何运行" in capsys.readouterr().out


@pytest.mark.parametrize("found", [[], [("one", "running")], [("lost", "orphaned"), ("new", "failed"), ("odd", None)]])
def test_as_json_it_is_one_document_of_its_schema(runs, capsys, found):
    runs(*found)
    assert fast.main(["--json"]) == 0
    document = checked(json.loads(capsys.readouterr().out))
    assert (document["command"], document["data"]["count"]) == ("trainer", len(found))
    assert bool(document["data"]["first_steps"]) is not bool(found)


def test_one_run_is_one(runs, capsys):
    runs(("one", "running"))
    assert app.run([]) == 0
    assert "\n1 run\n" in capsys.readouterr().out
