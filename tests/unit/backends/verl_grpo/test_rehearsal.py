import dataclasses
import json

import pytest
from fakes import verl_inside, verl_rehearsals

from loopai_trainer.backends.verl_grpo import rehearsal
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Versions
from loopai_trainer.rules.reward_presets import PRESETS, ROUTES, SCORERS

VERSIONS = Versions("verl", "0.9.1", "3.11", "", {}, "")


@pytest.fixture
def plan_of(tmp_path):
    def make(settings=None, **more):
        files = {
            "train": verl_rehearsals.write_rows(tmp_path / "t.parquet", verl_rehearsals.rows()),
            "validation": verl_rehearsals.write_rows(tmp_path / "v.parquet", verl_rehearsals.rows()[:2]),
        }
        return verl_rehearsals.make_plan(
            tmp_path / "run", **files, settings=settings or {}, python="/env/bin/python", **more
        )

    return make


def test_the_question_runs_our_program_in_verls_environment_and_nothing_else_of_the_host(plan_of):
    plan, paths = plan_of()
    question = rehearsal.rehearse(plan, VERSIONS, paths)
    assert question.command.argv == ("/env/bin/python", "-I", "-B", str(verl_inside.FOLDER / "rehearse.py"))
    assert question.command.env["PATH"].startswith("/env/bin:")
    assert question.command.env["HF_HUB_OFFLINE"] == "1"
    assert question.command.env["CUDA_VISIBLE_DEVICES"] == ""
    assert question.limit_s == rehearsal.LIMIT_S
    asked = json.loads(question.stdin)
    assert asked["native"] == plan.native
    assert asked["checks"] == {"max_cut_share": 0.05, "length_sample": 20_000}
    assert asked["reward"]["preset"] == "auto" and asked["reward"]["scorer"] is None
    assert asked["routes"] == dict(ROUTES)


def test_measuring_all_rows_has_a_longer_limit(plan_of):
    plan, paths = plan_of(checks={"length_sample": "all", "max_cut_share": 0.5})
    question = rehearsal.rehearse(plan, VERSIONS, paths)
    assert question.limit_s == rehearsal.LIMIT_ALL_S
    assert json.loads(question.stdin)["checks"] == {"max_cut_share": 0.5, "length_sample": None}


@pytest.mark.parametrize("preset", [name for name, preset in PRESETS.items() if preset.scorer])
def test_a_preset_is_tried_with_the_forms_of_its_scorer(plan_of, preset):
    asked = rehearsal.question_document(plan_of({"verl_reward_preset": preset})[0])
    assert asked["forms"][asked["reward"]["scorer"]] == list(SCORERS[PRESETS[preset].scorer].forms)


def test_the_reward_is_called_as_its_author_knows_it(plan_of, tmp_path):
    assert rehearsal.question_document(plan_of()[0])["reward"]["shown"] == "the reward preset auto"
    file = tmp_path / "mine.py"
    file.write_text("def score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n")
    plan, _ = plan_of({"verl_reward_function_path": f"{file}:score"})
    shown = rehearsal.question_document(plan)["reward"]["shown"]
    assert shown == f"the reward function score of {plan.loopai['reward']['function']}"
    assert shown.endswith(".py")


def test_findings_become_problems(plan_of):
    found = {"severity": "error", "code": "REWARD_NONE", "where": "train", "message": "m", "hint": "h",
             "path": "/t.parquet", "row": 3, "field": "reward_model.ground_truth"}  # fmt: skip
    short = {"severity": "warning", "code": "X", "where": "config", "message": "m"}
    answer = json.dumps({"problems": [found, short], "summary": {"scores seen": "right 1"}}).encode()
    made = rehearsal.rehearsed(plan_of()[0], answer)
    assert (made.problems[0].row, made.problems[0].path, made.problems[0].code) == (3, "/t.parquet", "REWARD_NONE")
    assert (made.problems[1].severity, made.problems[1].hint, made.problems[1].row) == ("warning", "", None)
    assert made.summary == {"scores seen": "right 1"}


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b'{"problems": [{}], "summary": {}}', b'{"problems": [], "summary": 3}']
)
def test_another_answer_is_refused(plan_of, answer):
    with pytest.raises(BackendMissing) as caught:
        rehearsal.rehearsed(plan_of()[0], answer)
    assert caught.value.code == "BACKEND_BROKEN"


def test_the_hosts_libraries_are_those_that_training_gets(plan_of):
    plan, paths = plan_of()
    launch = {
        "host_env": {"LD_LIBRARY_PATH": "/cuda", "LANG": "de_DE.UTF-8", "HOME": "/x"},
        "env": {"OMP_NUM_THREADS": 8, "NCCL_DEBUG": "INFO", "PYTHONPATH": "/x"},
    }

    def env_of(launch):
        loopai = {**plan.loopai, "launch": launch}
        changed = dataclasses.replace(plan, values={**plan.values, "loopai": loopai})
        return rehearsal.rehearse(changed, VERSIONS, paths).command.env

    env = env_of(launch)
    assert (env["LD_LIBRARY_PATH"], env["LANG"], env["NCCL_DEBUG"]) == ("/cuda", "de_DE.UTF-8", "INFO")
    assert env["OMP_NUM_THREADS"] == "1"
    assert not {"HOME", "PYTHONPATH"} & set(env)
    for damaged in (None, [], {"host_env": []}, {"env": "x"}):
        assert env_of(damaged)["LANG"] == "C.UTF-8"
