import os

from loopai_trainer.operations.list import list_runs
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
