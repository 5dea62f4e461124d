"""A place to prepare in: a stand-in LLaMA-Factory environment (metadata and argument classes), model and data."""

import json
import time
from pathlib import Path

import pytest
from fakes.llamafactory_env import make_environment
from fakes.sft_plans import make_model_folder

from loopai_trainer.host import clocks
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request
from loopai_trainer.rules import approval

TEMPLATE = """finetuning_type: full
template: qwen
use_cpu: true
learning_rate: 1.0e-4
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
num_train_epochs: 1.0
val_size: 0.25
"""


class Place:
    """`prepare(**settings)` prepares here; keyword arguments are settings by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "DATA")}
        self.template = root / "template.yaml"
        self.template.write_text(TEMPLATE)
        self.data = root / "data.jsonl"
        self.write_rows([{"instruction": f"question {n}", "output": f"answer {n}"} for n in range(8)])
        self.model = make_model_folder(root / "model")
        self.env = make_environment(root / "env")

    def write_rows(self, rows) -> None:
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def request(self, overrides=(), **settings) -> Request:
        keyword = {
            "train_input_dataset_path": str(self.data),
            "train_input_model_name": str(self.model),
            "train_input_task_description": "answer questions",
            "train_input_config_template_path": str(self.template),
            "llamafactory_env_path": str(self.env),
            "output_dir": str(self.root / "outputs"),
            "trainer_version_id": "v1",
            **settings,
        }
        return Request({k: v for k, v in keyword.items() if v is not None}, self.environ, overrides=overrides)

    def prepare(self, overrides=(), **settings):
        return prepare(self.request(overrides, **settings))

    @property
    def run(self) -> Path:
        return self.root / "outputs" / "default" / "trainer" / "v1"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class SetClock:
    """A wall clock to be set; the time since boot goes its own way."""

    def __init__(self) -> None:
        self.now = time.time()
        self.boot_id = "b1"
        self.boot_s = 1000.0

    def forward(self, seconds: float) -> None:
        self.now += seconds
        self.boot_s += seconds

    def read(self) -> approval.Clock:
        return approval.Clock(self.now, self.boot_id, self.boot_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """The clock that approvals are held against."""
    found = SetClock()
    monkeypatch.setattr(clocks, "read", found.read)
    monkeypatch.setattr(time, "time", lambda: found.now)
    return found
