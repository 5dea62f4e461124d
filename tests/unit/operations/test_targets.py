import json

import pytest

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import run_index
from loopai_trainer.operations.targets import Scope, all_runs, find, open_run


@pytest.fixture
def scope(tmp_path):
    return Scope({"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}, str(tmp_path / "out"))


def make(tmp_path, version, task="t", output="out"):
    folder = tmp_path / output / task / "trainer" / version
    folder.mkdir(parents=True)
    (folder / "training_config.yaml").write_text("")
    return folder


def test_by_id_prefix_and_folder(tmp_path, scope):
    folder = make(tmp_path, "0199-abc")
    make(tmp_path, "0200-abc")
    for target in ("0199-abc", "0199", str(folder)):
        assert find(target, scope).path == str(folder)


def test_an_exact_id_beats_a_longer_one(tmp_path, scope):
    short, _ = make(tmp_path, "v1"), make(tmp_path, "v10")
    assert find("v1", scope).path == str(short)


def test_ambiguous_unknown_and_malformed_targets(tmp_path, scope):
    make(tmp_path, "v1a"), make(tmp_path, "v1b")
    with pytest.raises(UsageError, match="fits 2 runs"):
        find("v1", scope)
    with pytest.raises(NotFound):
        find("v9", scope)
    for bad in ("../v1a", ".", "a b"):
        with pytest.raises((UsageError, NotFound)):
            find(bad, scope)
    with pytest.raises(NotFound, match="not a run directory"):
        find(str(tmp_path), scope)


def test_the_task_narrows_the_search(tmp_path, scope):
    make(tmp_path, "v1", "one"), make(tmp_path, "v1x", "two")
    narrowed = Scope(scope.environ, scope.output_dir, "two")
    assert [run.version_id for run in all_runs(narrowed)] == ["v1x"]
    assert find("v1", narrowed).version_id == "v1x"


def test_the_index_finds_runs_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = make(tmp_path, "v1", output="elsewhere")
    environ = {"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}
    run_index.add(str(folder), environ, "v1")
    assert find("v1", Scope(environ)).path == str(folder)
    with pytest.raises(NotFound):
        find("v1", Scope(environ, str(tmp_path / "out")))


def test_a_damaged_index_and_vanished_runs_are_passed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environ = {"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}
    run_index.add(str(tmp_path / "gone"), environ, "gone")
    with open(run_index.index_path(environ), "ab") as file:
        file.write(b'\xff\n{"path": 1}\n[]\n{"path": "/x"\n')
    assert list(all_runs(Scope(environ))) == []


def test_an_index_that_cannot_be_written_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    run_index.add("/x", {"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "file" / "state")}, "v1")


def test_plan_json_names_version_and_task_of_a_run_directory_elsewhere(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"version_id": "v7", "task_dir": str(tmp_path / "out" / "task")}))
    run = open_run(str(folder))
    assert (run.version_id, run.task.path) == ("v7", str(tmp_path / "out" / "task"))
    (folder / "plan.json").write_text("{")
    assert open_run(str(folder)).version_id == "mine"


def test_a_run_directory_of_the_working_folder_needs_no_slash(tmp_path, scope, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "my run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "training_config.yaml").write_text("")
        assert find(name, scope).path == str(tmp_path / name)
    (tmp_path / "other").mkdir()
    with pytest.raises(NotFound):
        find("other", scope)
    folder = make(tmp_path, "mine")
    assert find("mine", scope).path == str(folder)


def test_a_plan_json_that_is_nested_too_deeply_is_damaged(tmp_path):
    folder = make(tmp_path, "v1")
    (folder / "plan.json").write_text("[" * 100_000 + "]" * 100_000)
    assert open_run(str(folder)).version_id == "v1"


def test_one_id_in_two_tasks_is_refused_until_the_task_is_named(tmp_path, scope):
    one, two = make(tmp_path, "v1", "one"), make(tmp_path, "v1", "two")
    with pytest.raises(UsageError, match="the id of 2 runs") as caught:
        find("v1", scope)
    assert str(one) in caught.value.message and str(two) in caught.value.message
    assert find("v1", Scope(scope.environ, scope.output_dir, "two")).path == str(two)


def test_a_run_at_hand_comes_before_one_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, away, further = (make(tmp_path, "v1", output=place) for place in ("outputs", "away", "further"))
    environ = {"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}
    for folder in (here, away, further):
        run_index.add(str(folder), environ, "v1")
    assert find("v1", Scope(environ)).path == str(here)
    monkeypatch.chdir(away)
    with pytest.raises(UsageError, match="the id of 3 runs"):
        find("v1", Scope(environ))
