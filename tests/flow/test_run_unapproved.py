"""`trainer run --no-approval` as a process: prepared, trained by the stand-in, recorded as approved by nobody."""

import json
import os
import subprocess
import sys

import pytest
from fakes.answers import checked
from fakes.llamafactory_env import make_environment
from fakes.llamafactory_program import make_startable
from fakes.sft_plans import make_model_folder

pytestmark = pytest.mark.flow

TEMPLATE = """finetuning_type: full
template: qwen
use_cpu: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
max_steps: 4
save_steps: 2
"""


@pytest.fixture
def call(tmp_path):
    env = make_startable(make_environment(tmp_path / "env"))
    model = make_model_folder(tmp_path / "model")
    (tmp_path / "data.jsonl").write_text('{"instruction": "a", "output": "b"}\n' * 2)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        **{f"LOOPAI_TRAINER_{kind}_DIR": str(tmp_path / kind) for kind in ("STATE", "CACHE", "DATA", "CONFIG")},
    }
    plan = (
        *("--dataset", "data.jsonl", "--model", str(model), "--task-description", "answer"),
        *("--template", "template.yaml", "--env", str(env), "--version-id", "v1", "--task-id", "t"),
    )

    def called(*words):
        argv = [sys.executable, "-m", "loopai_trainer", "run", *plan, *words, "--json"]
        done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
        return done, checked(json.loads(done.stdout))

    return called


def test_a_run_that_nobody_approved(call, tmp_path):
    done, answer = call("--no-approval")
    assert (done.returncode, answer["command"], answer["status"]) == (0, "run", "completed"), answer
    run = tmp_path / "outputs" / "t" / "trainer" / "v1"
    record = json.loads((run / "approval.json").read_text())
    assert (record["approved_via"], record["config_sha256"]) == ("auto", answer["data"]["config_sha256"])
    assert "nobody approves this" in done.stderr
    assert "re-attach at any time with: trainer run-prepared" in done.stderr


def test_it_is_refused_without_the_opt_out_and_by_a_policy(call, tmp_path):
    done, answer = call()
    assert (done.returncode, answer["error"]["code"]) == (4, "APPROVAL_MISSING")
    (tmp_path / "CONFIG").mkdir()
    (tmp_path / "CONFIG" / "policy.yaml").write_text("approval_require: terminal\n")
    done, answer = call("--no-approval")
    assert (done.returncode, answer["error"]["code"]) == (4, "APPROVAL_MISSING")
    assert "policy.yaml" in answer["error"]["detail"]
    assert not (tmp_path / "outputs").exists()
