"""A plan for LLaMA-Factory as the real `prepare` makes it, in a stand-in environment: everything but the training."""

import json
import os
import time
from pathlib import Path

from fakes.llamafactory_env import DISTRIBUTIONS, make_environment
from fakes.sft_plans import make_model_folder
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import processes
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request
from loopai_trainer.rules import approval

TEMPLATE = """finetuning_type: full
template: qwen
use_cpu: true
deepspeed: ds.json
learning_rate: 1.0e-4
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
num_train_epochs: 1.0
val_size: 0.25
"""
DEEPSPEED = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}


class PreparedSft:
    """`run` with its YAML's `sha256`; the folders of `model` and `env` beside it; `environ` of its callers."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root = root
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
        self.template = root / "template.yaml"
        self.template.write_text(TEMPLATE)
        self.deepspeed = root / "ds.json"
        self.deepspeed.write_text(json.dumps(DEEPSPEED))
        self.data = root / "data.jsonl"
        rows = [{"instruction": f"question {number}", "output": f"answer {number}"} for number in range(8)]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.model = make_model_folder(root / "model")
        self.env = make_environment(root / "env", {**DISTRIBUTIONS, "deepspeed": "0.18.2"})
        keyword = {
            "train_input_dataset_path": str(self.data),
            "train_input_model_name": str(self.model),
            "train_input_task_description": "answer questions",
            "train_input_config_template_path": str(self.template),
            "llamafactory_env_path": str(self.env),
            "output_dir": str(root / "outputs"),
            "task_id": "task",
            "trainer_version_id": "v1",
            **settings,
        }
        data = prepare(Request(keyword, self.environ)).data
        assert data is not None
        self.answer = data
        self.run: RunDir = TaskDir(str(root / "outputs"), "task").run("v1")
        self.sha256: str = data["config_sha256"]

    def used_record(self, config_sha256: str | None = None) -> bytes:
        """Write the record of an approval that was used up, for this hash if no other is given; returns its bytes."""
        now = time.time()
        record = approval.new_record(
            task_id="task",
            version_id="v1",
            run_dir=self.run.path,
            round_number=1,
            config_sha256=config_sha256 or self.sha256,
            prepared_at=now,
            approved_at=now,
            counted_from=now,
            boot=None,
            approver={"user": "tester"},
            approved_via="hash",
        )
        used = approval.consumed(record, at=now, by=processes.own_identity())
        data = json.dumps(used).encode()
        Path(self.run.approval).write_bytes(data)
        (self.root / "record.json").write_bytes(data)
        return data

    def forget_use(self) -> None:
        """Take back what a start up to the spawn has written."""
        for path in (self.run.approval, self.run.task.approvals, self.run.run_state):
            if os.path.exists(path):
                os.unlink(path)
