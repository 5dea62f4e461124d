"""The graph on a real run, by the example of spec/000; and what LLaMA-Factory makes of a generated configuration."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from loopai_trainer import ConfigGenerator

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "run_trainer.py"


def test_the_example_trains_what_a_person_at_its_terminal_approves(workshop, tmp_path):
    words = ["--dataset", workshop.data, "--model", workshop.model, "--template", "cpu_smoke_full"]
    words += ["--env", workshop.lf_env, "--output-dir", tmp_path / "output", "--thread-id", "agent_task"]
    program = subprocess.Popen(
        [sys.executable, str(EXAMPLE), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **workshop.environ},
        cwd=tmp_path,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    sha256 = next(line.split()[1] for line in program.stdout if line.startswith("SHA-256 "))
    (run,) = (tmp_path / "output" / "agent_task" / "trainer").iterdir()
    assert not (run / "approval.json").exists()
    out, err = program.communicate(sha256[:8] + "\n", timeout=600)
    assert program.returncode == 0, out + err
    assert "completed: " in out
    assert "training_report: " in out
    assert "data_check: running 100% reading data" in err
    assert "training_execution: running" in err
    approval = json.loads((run / "approval.json").read_text())
    assert (approval["approved_via"], approval["config_sha256"]) == ("hash", sha256)
    result = json.loads((run / "worker_result.json").read_text())
    assert result["status"] == "completed"
    plan = yaml.safe_load((run / "training_config.yaml").read_text())
    assert float(plan["learning_rate"]) == 5e-5  # what the rules make of the description's 对话 and 简单
    assert list((run / "checkpoints").glob("checkpoint-*"))


ROWS = {
    "alpaca.json": [{"instruction": "q", "input": "i", "output": "a", "system": "s"}],
    "sharegpt.json": [{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}],
    "messages.json": [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}],
}


def test_llamafactory_reads_a_generated_configuration_as_it_is(workshop, tmp_path):
    jobs = []
    for name, rows in ROWS.items():
        data = tmp_path / name
        data.write_text(json.dumps(rows))
        gen = ConfigGenerator()
        config = gen.generate_config(
            "一个聊天助手", str(data), str(workshop.model), str(tmp_path / "o"), "cpu_smoke_lora"
        )
        saved = gen.save_config_as_yaml(config, str(tmp_path / f"{name}.yaml"))
        jobs.append(yaml.safe_load(Path(saved).read_text()))
    assert [job["lora_target"] for job in jobs] == ["q_proj,v_proj"] * 3
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    out = tmp_path / "examples.json"
    command = [
        f"{workshop.lf_env}/bin/python",
        str(HERE / "aligned_examples.py"),
        str(tmp_path / "jobs.json"),
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    prompts = [
        [(one["_prompt"][0]["content"], one["_response"][0]["content"]) for one in rows]
        for rows in json.loads(out.read_text())
    ]
    assert prompts == [[("q\ni", "a")], [("q", "a")], [("q", "a")]]
