import json

import pytest
from fakes.agent_plans import plan

from loopai_trainer.backends.agentlightning import outcome


def store(run, rollouts, attempts=None):
    folder = run / "checkpoints" / "store"
    folder.mkdir(parents=True)
    attempts = [{"status": one["status"]} for one in rollouts] if attempts is None else attempts
    for name, found in (("rollouts", rollouts), ("attempts", attempts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))


def rollout(number, status="succeeded", reward=1.0, spans=2):
    return {"rollout_id": f"ro-{number}", "status": status, "reward": reward, "spans": spans}


def codes(made, run):
    return [problem.code for problem in outcome.verdict_problems(made, str(run))]


def test_a_store_in_which_all_went_well_says_nothing_against_it(tmp_path):
    store(tmp_path, [rollout(n) for n in range(4)])
    assert codes(plan("dev", tmp_path), tmp_path) == []


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (rollout(3, status="failed", reward=None, spans=0), "ROLLOUTS_FAILED"),
        (rollout(3, status="running"), "ROLLOUTS_FAILED"),
        (rollout(3, spans=0), "NO_SPANS"),
        (rollout(3, reward=None), "NO_REWARD"),
        (rollout(3, reward=float("nan")), "NO_REWARD"),
        (rollout(3, reward=float("inf")), "NO_REWARD"),
        (rollout(3, reward=0.0), None),
    ],
)
def test_one_rollout_that_went_wrong_fails_the_run(tmp_path, last, code):
    store(tmp_path, [*(rollout(n) for n in range(3)), last])
    assert codes(plan("dev", tmp_path), tmp_path) == ([code] if code else [])


def test_a_rollout_that_never_came_fails_the_run(tmp_path):
    store(tmp_path, [rollout(n) for n in range(3)])
    (problem,) = outcome.verdict_problems(plan("dev", tmp_path), str(tmp_path))
    assert (problem.code, problem.message) == ("ROLLOUTS_MISSING", "3 of 4 rollouts were made")


def test_an_attempt_that_failed_before_another_one_succeeded_is_told(tmp_path):
    store(tmp_path, [rollout(n) for n in range(4)], [{"status": "succeeded"}] * 4 + [{"status": "timeout"}])
    assert codes(plan("dev", tmp_path), tmp_path) == ["ATTEMPTS_FAILED"]


def test_an_empty_store_is_no_success(tmp_path):
    assert codes(plan("dev", tmp_path), tmp_path) == ["NO_ROLLOUTS"]
    store(tmp_path, [])
    (tmp_path / "checkpoints" / "store" / "rollouts.jsonl").write_text('{"torn')
    assert codes(plan("dev", tmp_path), tmp_path) == ["NO_ROLLOUTS"]


def test_nobody_can_count_the_rollouts_of_another_algorithm(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    store(tmp_path, [rollout(1)])
    spec = {"file": str(tmp_path / "mine.py"), "name": "baseline"}
    assert codes(plan("dev", tmp_path, algorithm=spec), tmp_path) == []


def prompt(folder, step, **changed):
    path = folder / f"prompt-{step}"
    path.mkdir()
    (path / "prompt.json").write_text(json.dumps({"template": "x", "failed": 0, **changed}))


def test_scored_prompts_are_checkpoints(tmp_path):
    prompt(tmp_path, 10)
    prompt(tmp_path, 2, failed=1)
    (tmp_path / "prompt-3").mkdir()
    (tmp_path / "other").mkdir()
    found = outcome.find_checkpoints(str(tmp_path))
    assert [(one.step, one.complete) for one in found] == [(2, False), (3, False), (10, True)]
    assert found[0].why == "1 of its rollouts failed"
    assert outcome.find_checkpoints(str(tmp_path / "none")) == []


def test_the_result_of_a_search_is_the_best_prompt(tmp_path):
    (tmp_path / "prompts.jsonl").write_text("{}\n")
    assert not outcome.final_artefact(str(tmp_path), "apo").loadable
    (tmp_path / "best_prompt.json").write_text('{"template": "x"}')
    assert outcome.final_artefact(str(tmp_path), "apo").path.endswith("best_prompt.json")


def test_the_result_of_a_dry_run_is_the_store(tmp_path):
    assert not outcome.final_artefact(str(tmp_path), "dev").loadable
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "closed.json").write_text('{"role": "all"}')
    assert outcome.final_artefact(str(tmp_path), "dev").loadable
    assert outcome.final_artefact(str(tmp_path), "apo").loadable  # a search that was none: Baseline in a dev run
