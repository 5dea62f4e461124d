import pytest
from fakes.grpo_plans import GPUS, errors, findings, make_data, make_plan, make_settings, warnings

from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo import coverage, rules_output
from loopai_trainer.records import Host

ACTOR = "actor_rollout_ref.actor"


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def one(run, code, **plan):
    """The only error, whose code has to be this one."""
    (problem,) = [found for found in findings(run, **plan) if found.severity == "error"]
    assert problem.code == code, problem
    return problem


@pytest.mark.parametrize("key", ["data.train_files", "data.val_files", "actor_rollout_ref.model.path"])
@pytest.mark.parametrize("value", ["/elsewhere", ["/elsewhere", "/more"], None])
def test_an_edit_that_leaves_the_checked_inputs_is_refused(run, key, value):
    assert one(run, "INPUT_MISMATCH", native={key: value}).field == key


def test_a_list_of_the_one_file_is_the_same(run):
    path = str(run / "prepared_data" / "train.parquet")
    assert errors(run, native={"data.train_files": [path]}) == []


def test_no_validation_data_is_refused(run):
    data = make_data(run, validation_rows=0)
    assert one(run, "NO_VALIDATION", data=data).field == "data.val_files"


@pytest.mark.parametrize(
    "key", ["trainer.default_local_dir", "trainer.rollout_data_dir", "trainer.validation_data_dir"]
)
def test_training_writes_into_its_run_alone(run, key):
    assert one(run, "OUTPUT_ELSEWHERE", native={key: "/elsewhere"}).field == key


@pytest.mark.parametrize("mode", ["auto", "resume_path", None])
def test_nothing_older_is_continued(run, mode):
    assert errors(run, native={"trainer.resume_mode": mode}) == ["RESUME_MODE"]


@pytest.mark.parametrize(("key", "checked"), [("data.prompt_key", "prompt"), ("data.reward_fn_key", "data_source")])
def test_columns_that_were_not_checked_are_not_trained_on(run, key, checked):
    problem = one(run, "INPUT_MISMATCH", changes={key: "raw_prompt"})
    assert problem.field == key and "'raw_prompt'" in problem.message
    assert errors(run, changes={key: checked}) == []


@pytest.mark.parametrize(
    "native",
    [
        {"reward.custom_reward_function.path": "/elsewhere.py"},
        {"reward.custom_reward_function.name": "other"},
        {"reward.custom_reward_function.reward_kwargs": {"preset": "math_boxed"}},
        {"reward": {"num_workers": 1}},
    ],
)
def test_another_reward_than_the_chosen_one_is_refused(run, native):
    assert one(run, "INPUT_MISMATCH", native=native).field == "reward.custom_reward_function"


def test_the_0_8_line_has_its_reward_elsewhere(run):
    native = {"custom_reward_function.name": "other"}
    assert one(run, "INPUT_MISMATCH", version="0.8.0.dev", native=native).field == "custom_reward_function"


def test_a_reward_whose_copy_is_not_pinned_is_refused(run, monkeypatch):
    monkeypatch.setattr(coverage, "input_files", lambda settings, native: {})
    assert one(run, "UNCOVERED_INPUT").field == "reward.custom_reward_function"


def test_a_run_directory_that_cannot_be_written_is_refused(run, monkeypatch):
    monkeypatch.setattr(rules_output.os, "access", lambda path, mode: False)
    assert one(run, "OUTPUT_NOT_WRITABLE").field == "trainer.default_local_dir"


DAMAGED = [
    {"mode": "auto", "kwargs": {}, "runs_code": 3},
    None,
    3,
    "x",
    [],
    {},
    {"mode": "preset"},
    {"mode": "preset", "preset": [1], "kwargs": 3},
]


@pytest.mark.parametrize("block", DAMAGED)
def test_a_damaged_block_is_refused_and_not_shown(run, block):
    assert "RESERVED_BLOCK" in errors(run, reward=block)
    plan = make_plan(run, reward=block)
    backend = backends.get("verl", "grpo")
    assert "reward_calls" not in backend.summary(plan)
    assert backend.red_flags(plan) == []


@pytest.mark.parametrize(
    ("logger", "count"),
    [(["console", "file"], 0), (["file"], 0), ("file", 0), (["console"], 1), ("console", 1), (["console", "file", "clearml"], 1), (["clearml"], 2), (None, 2)],
)  # fmt: skip
def test_metrics_come_from_the_file_and_go_nowhere_else(run, logger, count):
    found = errors(run, native={"trainer.logger": logger})
    assert found == ["LOGGER"] * (1 if logger is None else count) or (logger is None and set(found) == {"LOGGER"})


def test_a_place_for_metrics_that_is_not_installed_is_refused(run):
    problem = one(run, "PACKAGE_MISSING", native={"trainer.logger": ["console", "file", "trackio"]})
    assert (problem.where, problem.field) == ("environment", "trainer.logger")
    assert "pip install trackio" in problem.hint


def test_a_folder_with_older_output_is_refused(run):
    folder = run / "checkpoints"
    (folder / "global_step_4").mkdir(parents=True)
    assert "global_step_4" in one(run, "OUTPUT_NOT_FRESH").message
    (folder / "global_step_4").rmdir()
    assert errors(run) == []


def test_saving_nothing_is_refused_where_a_model_is_to_be_exported(run):
    assert "NO_CHECKPOINTS" in errors(run, native={"trainer.save_freq": -1})
    plan = {"native": {"trainer.save_freq": -1}, "result": {"export_huggingface": False}}
    assert "NO_CHECKPOINTS" in warnings(run, **plan)
    assert errors(run, **plan) == []


def test_a_checkpoint_without_weights_is_refused(run):
    key = f"{ACTOR}.checkpoint.save_contents"
    assert one(run, "NO_CHECKPOINTS", changes={key: ["optimizer"]}).field == key
    assert errors(run, changes={key: ["model"]}) == []


@pytest.mark.parametrize(
    ("keep", "codes"), [(1, ["BEST_MAY_BE_DELETED", "ONE_CHECKPOINT"]), (3, ["BEST_MAY_BE_DELETED"]), (4, []), (9, [])]
)
def test_a_keep_limit_that_can_delete_the_best(run, keep, codes):
    assert warnings(run, changes={"trainer.max_actor_ckpt_to_keep": keep}) == codes  # 10 steps, saved every 3


@pytest.mark.parametrize(
    ("save", "test", "codes"),
    [
        (2, 2, []),
        (2, 4, []),
        (4, 2, ["SCORES_WITHOUT_CHECKPOINT"]),
        (2, 3, ["SCORES_WITHOUT_CHECKPOINT"]),
        (2, -1, ["NO_VALIDATION_STEPS"]),
    ],
)
def test_scores_that_belong_to_a_checkpoint(run, save, test, codes):
    native = {"trainer.save_freq": save, "trainer.test_freq": test}
    assert warnings(run, native=native) == codes


@pytest.mark.parametrize(
    ("result", "fits"),
    [
        ({"selection_metric": ""}, False),
        ({"selection_metric": None}, False),
        ({"selection_mode": "best"}, False),
        ({"selection_metric": "val-core/*/reward/mean@1", "selection_mode": "min"}, True),
    ],
)
def test_how_the_best_is_chosen(run, result, fits):
    assert errors(run, result=result) == ([] if fits else ["SELECTION_INVALID"])


def disk(run, free, **plan):
    return [p for p in findings(run, host=Host(GPUS, 8, free), **plan) if p.code == "DISK_SPACE"]


def test_the_disk_s_need_is_12_bytes_a_parameter_and_checkpoint_and_2_of_the_export(run):
    from loopai_trainer.files.model_folder import read_model_folder

    findings(run)
    parameters = read_model_folder(str(run.parent / "model")).weights.parameters
    need = (4 + 1) * 12 * parameters + 2 * parameters  # 4 checkpoints of 10 steps, of 5 that may be kept
    assert disk(run, need) == []
    (problem,) = disk(run, need - 1)
    assert problem.severity == "warning" and "4 kept + 1" in problem.message
    least = 2 * 12 * parameters + 2 * parameters
    assert [p.severity for p in disk(run, least)] == ["warning"]
    assert [p.severity for p in disk(run, least - 1)] == ["error"]


def test_the_disk_s_need_follows_what_is_saved_and_kept(run):
    from loopai_trainer.files.model_folder import read_model_folder

    findings(run)
    parameters = read_model_folder(str(run.parent / "model")).weights.parameters
    plan = {
        "changes": {f"{ACTOR}.checkpoint.save_contents": ["model", "hf_model"], "trainer.max_actor_ckpt_to_keep": 2}
    }
    plan |= {
        "settings": make_settings(verl_export_huggingface=False, verl_multi_round_enabled=False),
        "native": {"trainer.save_freq": 1},
    }
    need = (2 + 1) * 6 * parameters
    assert disk(run, need, **plan) == []
    assert len(disk(run, need - 1, **plan)) == 1
