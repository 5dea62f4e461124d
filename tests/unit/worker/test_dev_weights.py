import os

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker import dev_weights


def test_checkpoints_and_exports_go_and_the_rest_stays(tmp_path):
    run = RunDir(str(tmp_path))
    for folder in (run.checkpoints, run.exports, run.metrics):
        os.makedirs(os.path.join(folder, "deeper"))
    dev_weights.remove(run)
    assert os.listdir(run.path) == ["metrics"]
    dev_weights.remove(run)  # again, by whoever else lives


def test_the_result_names_no_model():
    result = {
        "status": "completed", "update_model_path": "/m", "best_checkpoint": {"name": "checkpoint-2"}, "checkpoints": [1],
        "best_metric": {"name": "loss"}, "result": {"status": "completed", "artefact_path": "/a", "reason": "lowest loss"},
    }  # fmt: skip
    assert dev_weights.without_model(result) == {
        "status": "completed", "update_model_path": None, "best_checkpoint": None, "checkpoints": [],
        "best_metric": {"name": "loss"}, "result": {"status": "completed", "reason": "lowest loss"},
    }  # fmt: skip
