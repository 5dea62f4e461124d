"""Transcripts for GRPO: an agent that does what SKILL.md and references/grpo.md say, word by word, with a verl played."""

import json
import re
import shlex

import pytest
from fakes.runs import wait_for
from fakes.skill import REFERENCES, SKILL, section
from fakes.skill_session import GrpoSession, reference_line
from fakes.verl_rehearsals import rows as prompts
from fakes.verl_rehearsals import write_rows as write_prompts

from loopai_trainer.host import processes

pytestmark = pytest.mark.flow

PREPARE, STOP, RUN, WAIT = "1. Prepare", "3. Stop", "4. Run", "5. Wait"
SOON = {"540": "0.5"}
MARK = "trainer prepare"
GRPO = {MARK: "trainer prepare --framework verl --reward-mode preset --reward-preset math_boxed"}
"""What step 1 has an agent add for GRPO."""


@pytest.fixture
def agent(tmp_path):
    session = GrpoSession(tmp_path)
    yield session
    left = session.leave()
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


def call_of_the_page(agent, **replaced):
    """The call of grpo.md, for a host without GPUs; `replaced`: further words of it."""
    words = {"verl_grpo_vllm": "verl_grpo_cpu_smoke", "--devices 0,1,2,3": "--devices 0", **replaced}
    return agent.fill(reference_line("grpo", "## Call"), words)


def test_step_1_adds_what_the_page_says(agent):
    said = section((SKILL / "SKILL.md").read_text(), "### 1. Prepare")
    assert "GRPO: add `--framework verl`" in said
    page = (REFERENCES / "grpo.md").read_text()
    for flag in ("--framework verl", "--reward-mode preset", "--reward-preset"):
        assert flag in page


def test_the_call_as_it_stands_on_any_host(agent):
    # Preparing elsewhere than where the GPUs are is fine; the page's own template, devices and reward, a whole batch of rows.
    write_prompts(agent.root / "train.parquet", prompts([str(n) for n in range(2048)]))
    assert agent.type(agent.fill(reference_line("grpo", "## Call"))) in (0, 3)
    if agent.error:  # a host with one to three GPUs says which ones it lacks, and nothing else
        errors = {problem["code"] for problem in agent.error["problems"] if problem["severity"] == "error"}
        assert errors == {"DEVICE_NOT_FOUND"}
    else:
        assert agent.data["train_framework"] == "verl"
    assert agent.starts == 0


def test_prepare_stop_approve_run_wait_report(agent):
    agent.hold.touch()
    assert agent.type(call_of_the_page(agent)) == 0
    assert (agent.data["train_framework"], agent.data["train_stage"]) == ("verl", "grpo")
    # "Show the user, besides the YAML": each of it stands in the summary.
    asked = section((REFERENCES / "grpo.md").read_text(), "## Show the user, besides the YAML")
    for name in re.findall(r"`(\w+)`", asked):
        assert name in agent.data["summary"], name
    assert agent.data["counts"]["train"] == {"input": 40, "usable": 40, "rejected": 0}
    assert agent.type(agent.fill("trainer status VERSION --json")) == 0
    assert (agent.data["status"], agent.starts) == ("prepared", 0)
    assert agent.step(RUN, SOON) == 75
    wait_for(lambda: agent.starts)
    assert agent.step(WAIT, SOON) == 75
    agent.hold.unlink()
    assert agent.step(WAIT) == 0
    data = agent.data
    assert data["status"] == "completed"
    assert (data["best_metric"]["name"], data["best_metric"]["step"]) == ("val-core/openai/gsm8k/acc/mean@1", 2)
    assert data["best_checkpoint"]["name"] == "global_step_2"
    # "`data.update_model_path` is the exported, verified model folder", and no shard.
    assert data["update_model_path"] == f"{agent.run.exports}/global_step_2"
    assert agent.step(RUN) == 0
    assert agent.starts == 1


def test_the_next_round_begins_from_the_last_and_is_approved_anew(agent):
    assert agent.step(PREPARE, GRPO) == 0
    first = agent.names["HASH"]
    assert agent.step(RUN) == 0
    model = agent.data["update_model_path"]
    write_prompts(agent.root / "train.parquet", prompts([str(n) for n in range(50, 90)], content="Another?"))
    again = "trainer prepare --framework verl --reward-mode preset --reward-preset math_boxed"
    line = agent.line_of(PREPARE, {MARK: again, "--model MODEL_DIR ": ""})
    assert agent.type(line) == 0
    assert model in agent.data["config_yaml"]
    assert agent.data["diff"]["changed"]
    assert agent.step(RUN, {"HASH": first}) == 5
    assert agent.starts == 1
    assert agent.step(RUN) == 0
    assert agent.starts == 2


def test_the_user_wants_a_change(agent):
    assert agent.step(PREPARE, GRPO) == 0
    old = agent.names["HASH"]
    text = agent.config.read_text()
    agent.config.write_text(text.replace("lr: 0.001", "lr: 0.002"))
    assert agent.config.read_text() != text
    # Whoever forgets what step 3 says of GRPO is told so.
    assert agent.step(STOP) == 3
    assert agent.error["next_command"].endswith(" --refresh")
    line = "trainer inspect CONFIG_PATH --refresh --json"
    assert line.removesuffix(" --json") in (REFERENCES / "grpo.md").read_text()
    assert agent.type(agent.fill(line)) == 0
    assert agent.data["config_yaml"] == agent.config.read_text()
    assert agent.names["HASH"] != old
    assert agent.step(RUN, {"HASH": old}) == 5
    assert agent.starts == 0
    assert agent.step(RUN) == 0
    assert agent.starts == 1


def test_a_failed_export_is_made_up_for(agent):
    broken = agent.root / "no_merge"
    broken.touch()
    assert agent.step(PREPARE, GRPO) == 0
    assert agent.step(RUN) == 12
    assert (agent.error["code"], agent.data["update_model_path"]) == ("EXPORT_FAILED", None)
    assert agent.data["best_checkpoint"]["name"] == "global_step_2"
    # As recovery.md has it: mend the cause, then the command that the answer names.
    broken.unlink()
    assert shlex.split(agent.error["next_command"])[:2] == ["trainer", "export"]
    assert agent.type(agent.error["next_command"] + " --json") == 0
    assert agent.step(WAIT) == 0
    assert agent.data["update_model_path"] == f"{agent.run.exports}/global_step_2"
    assert agent.starts == 1


def test_rows_that_are_left_out_are_counted_and_rejected_on_request(agent):
    lines = [{"problem": f"{n} + {n}?", "answer": f"#### {2 * n}"} for n in range(40)]
    lines.append({"problem": "Why?", "answer": ""})
    (agent.root / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent.names["DATA"] = "sums.jsonl"
    more = {MARK: GRPO[MARK] + " --data-source openai/gsm8k"}
    assert agent.step(PREPARE, more) == 0
    counts = agent.data["counts"]
    assert sum(counts[split]["usable"] for split in counts) == 40
    assert sum(counts[split]["rejected"] for split in counts) == 1
    assert agent.step(PREPARE, {MARK: more[MARK] + " --bad-rows reject"}) == 3
    (problem,) = agent.error["problems"]
    assert problem["line"] == 41


def test_a_reward_is_never_guessed(agent):
    write_prompts(agent.root / "train.parquet", prompts([str(n) for n in range(8)], source="my/own"))
    assert agent.step(PREPARE, {MARK: "trainer prepare --framework verl --reward-mode auto"}) == 3
    assert agent.error["code"] == "REWARD_SOURCE_UNKNOWN" or "REWARD_SOURCE_UNKNOWN" in {
        problem["code"] for problem in agent.error["problems"]
    }
    assert agent.starts == 0
