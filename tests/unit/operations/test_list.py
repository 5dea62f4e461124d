import os

import pytest

from loopai_trainer.errors import NotFound, TrainerError
from loopai_trainer.operations.list import list_runs
from loopai_trainer.operations.overview import overview
from loopai_trainer.operations.status import status
from loopai_trainer.operations.targets import Scope


def test_the_runs_that_were_written_to_last_stand_first(tmp_path):
    for age, version in enumerate(["z-old", "m", "a-new"][::-1]):
        folder = tmp_path / "task" / "trainer" / version
        folder.mkdir(parents=True)
        (folder / "training_config.yaml").write_text("")
        os.utime(folder, ns=(10**18 - age, 10**18 - age))
    scope = Scope({"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}, str(tmp_path))
    data = list_runs(scope, 2).data
    assert data["count"] == 3
    assert [run["trainer_version_id"] for run in data["runs"]] == ["a-new", "m"]
    assert list_runs(scope, 2).message == "the newest 2 of 3 runs"


def test_one_run_that_cannot_be_looked_into_hides_no_other(tmp_path):
    for version in ("a", "b"):
        folder = tmp_path / "task" / "trainer" / version
        folder.mkdir(parents=True)
        (folder / "training_config.yaml").write_text("")
    (tmp_path / "task" / "trainer" / "a" / "run.lock").symlink_to("run.lock")  # as unreadable as another user's
    scope = Scope({"LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}, str(tmp_path))
    runs = {run["trainer_version_id"]: run for run in list_runs(scope, 9).data["runs"]}
    assert (runs["a"]["status"], runs["b"]["status"]) == (None, "prepared")
    assert (runs["a"]["task_id"], runs["a"]["run_dir"]) == ("task", str(tmp_path / "task" / "trainer" / "a"))


def test_what_prepare_refused_is_no_run_and_waits_for_nobody(place):
    place.write_rows([{"instruction": "a", "output": ""}])
    with pytest.raises(TrainerError):
        place.prepare(trainer_version_id="refused")
    assert (place.root / "outputs" / "default" / "trainer" / "refused").is_dir()
    scope = Scope(place.environ, str(place.root / "outputs"))
    assert list_runs(scope, 5).data == {"count": 0, "runs": []}
    assert overview(scope).data["waiting"] == []
    with pytest.raises(NotFound, match="prepare refused it"):
        status("refused", scope)
    place.write_rows([{"instruction": f"a {n}", "output": "b"} for n in range(8)])
    place.prepare(trainer_version_id="refused")
    assert list_runs(scope, 5).data["count"] == 1
    assert status("refused", scope).data["status"] == "prepared"
