from pathlib import Path

import pytest
from fakes.grpo_plans import REMOVED, errors, findings, make_data, warnings

from loopai_trainer.rules import yaml_text

ACTOR, REF, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout"
MICRO, LOG_MICRO, REF_MICRO = (
    f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    f"{REF}.log_prob_micro_batch_size_per_gpu",
)
CASE = Path(__file__).parents[3] / "cases" / "grpo" / "GRPO-06A"


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def one(run, code, **plan):
    """The only error, whose code has to be this one."""
    (problem,) = [found for found in findings(run, **plan) if found.severity == "error"]
    assert problem.code == code, problem
    return problem


def test_sound_plans_have_no_problems(run):
    assert findings(run) == []


@pytest.mark.parametrize(
    ("batch", "n", "gpus", "hint"),
    [(7, 1, "0,1", "6 or 8"), (6, 2, "0,1,2,3,4,5,6,7", "4 or 8"), (1, 3, "0,1", "to 2")],
)
def test_1_the_replies_of_a_step_over_the_gpus(run, batch, n, gpus, hint):
    changes = {
        "data.train_batch_size": batch,
        f"{ROLLOUT}.n": n,
        f"{ACTOR}.ppo_mini_batch_size": batch,
        "trainer.total_training_steps": 2,
    }
    plan = {
        "changes": changes,
        "launch": {"devices": gpus},
        "native": {"trainer.n_gpus_per_node": len(gpus.split(","))},
    }
    problem = next(p for p in findings(run, **plan) if p.code == "BATCH_NOT_DIVISIBLE")
    assert hint in problem.hint
    assert f"({batch}) x rollout.n ({n}) = {batch * n}" in problem.message


def test_1_neighbours_that_work(run):
    assert errors(run, changes={"data.train_batch_size": 6, f"{ACTOR}.ppo_mini_batch_size": 2, f"{ROLLOUT}.n": 3}) == []


def test_2_a_mini_batch_above_the_batch(run):
    problem = one(run, "MINI_BATCH_TOO_LARGE", changes={f"{ACTOR}.ppo_mini_batch_size": 16})
    assert problem.hint == "set ppo_mini_batch_size to one of 1, 2, 4, 8"
    assert errors(run, changes={f"{ACTOR}.ppo_mini_batch_size": 8}) == []


def test_3_a_batch_that_verl_would_fill_up(run):
    problem = one(run, "MINI_BATCH_NOT_DIVISIBLE", changes={"data.train_batch_size": 10, "trainer.total_epochs": 20})
    assert problem.hint == "set data.train_batch_size to 8 or 12, or ppo_mini_batch_size to one of 1, 2, 5, 10"
    assert "made-up samples" in problem.message
    assert errors(run, changes={"data.train_batch_size": 12, "trainer.total_epochs": 20}) == []


def test_4_a_mini_batch_over_the_ranks(run):
    changes = {"data.train_batch_size": 9, f"{ACTOR}.ppo_mini_batch_size": 9, f"{ROLLOUT}.n": 3}
    found = [p for p in findings(run, changes=changes) if p.code == "MINI_BATCH_NOT_DIVISIBLE"]
    assert [p.hint for p in found] == ["set data.train_batch_size and ppo_mini_batch_size both to 8 or 10"]
    assert "(9) x rollout.n (3) = 27 replies" in found[0].message


def test_5_a_micro_batch_that_does_not_divide_a_gpu_s_share(run):
    problem = one(run, "MICRO_BATCH_NOT_DIVISIBLE", changes={MICRO: 3})
    assert problem.field == MICRO
    assert "4 replies a GPU" in problem.message
    assert problem.hint == "set it to one of 1, 2, 4"
    assert errors(run, changes={MICRO: 2}) == []


@pytest.mark.parametrize("key", [LOG_MICRO, REF_MICRO])
def test_6_a_log_prob_batch_that_does_not_divide_a_gpu_s_share(run, key):
    problem = one(run, "MICRO_BATCH_NOT_DIVISIBLE", changes={key: 3})
    assert problem.field == key
    assert problem.hint == "set it to one of 1, 2, 4, 8"
    assert errors(run, changes={key: 8}) == []


def test_6_a_batch_that_no_gpu_could_share_is_told_once(run):
    changes = {"data.train_batch_size": 7, f"{ACTOR}.ppo_mini_batch_size": 7, f"{ROLLOUT}.n": 3, LOG_MICRO: 5}
    assert [p.field for p in findings(run, changes=changes) if p.field == LOG_MICRO] == []


def test_6_without_a_reference_model_its_batch_does_not_count(run):
    assert errors(run, changes={REF_MICRO: 3, f"{ACTOR}.use_kl_loss": False}) == []
    assert errors(run, changes={REF_MICRO: 3, f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": True}) != []


@pytest.mark.parametrize("key", [MICRO, LOG_MICRO, REF_MICRO])
def test_7_neither_and_both_names_of_a_micro_batch(run, key):
    old = key.removesuffix("_per_gpu")
    assert one(run, "MICRO_BATCH_MISSING", changes={key: REMOVED}).field == key
    assert one(run, "MICRO_BATCH_TWICE", changes={old: 4}).field == old
    assert errors(run, changes={key: REMOVED, old: 4}) == []


def test_7_a_batch_cut_by_tokens_needs_none(run):
    changes = {f"{ACTOR}.use_dynamic_bsz": True, MICRO: REMOVED, LOG_MICRO: REMOVED, REF_MICRO: REMOVED}
    assert errors(run, changes=changes) == []


@pytest.mark.parametrize(("old", "code"), [(3, "MICRO_BATCH_NOT_DIVISIBLE"), (1, "MICRO_BATCH_TOO_SMALL")])
def test_8_the_old_name_means_all_gpus_together(run, old, code):
    changes = {MICRO: REMOVED, f"{ACTOR}.ppo_micro_batch_size": old}
    assert one(run, code, changes=changes).field == f"{ACTOR}.ppo_micro_batch_size"
    changes[f"{ACTOR}.ppo_micro_batch_size"] = 2
    assert errors(run, changes=changes) == []


def test_14_one_way_of_cutting_batches(run):
    key = f"{ROLLOUT}.log_prob_use_dynamic_bsz"
    assert one(run, "BATCHING_DIFFERS", changes={key: True}).field == key
    assert errors(run, changes={key: False}) == []


@pytest.mark.parametrize(
    "key",
    [
        f"{ACTOR}.ppo_max_token_len_per_gpu",
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        f"{REF}.log_prob_max_token_len_per_gpu",
    ],
)
def test_15_a_row_that_no_gpu_could_take(run, key):
    changes = {f"{ACTOR}.use_dynamic_bsz": True, key: 767}
    found = [p for p in findings(run, changes=changes) if p.field == key]
    assert [p.code for p in found] == ["TOKEN_LIMIT_TOO_SMALL"]
    assert "768 tokens" in found[0].message
    assert found[0].hint == "set it to at least 768; 1536 is usual"
    assert errors(run, changes={**changes, key: 768}) == []


def test_15_without_a_reference_model_its_limit_does_not_count(run):
    key = f"{REF}.log_prob_max_token_len_per_gpu"
    assert errors(run, changes={f"{ACTOR}.use_dynamic_bsz": True, key: 1, f"{ACTOR}.use_kl_loss": False}) == []


def test_15_sequence_parallel_ranks_share_a_row(run):
    changes = {
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": 384,
        f"{ACTOR}.ulysses_sequence_parallel_size": 2,
    }
    assert errors(run, changes=changes) == []


def test_16_fewer_rows_than_a_batch(run):
    problem = one(run, "TOO_FEW_ROWS", data=make_data(run, 7), changes={"trainer.total_training_steps": REMOVED})
    assert "7 rows" in problem.message and "(8)" in problem.message and "0 steps" in problem.message
    assert problem.hint == "set data.train_batch_size to 4, or give more rows"  # 7 would be no multiple of the 4
    assert errors(run, data=make_data(run, 8), changes={"trainer.total_training_steps": REMOVED}) == []


def test_16_a_limit_on_the_rows_counts(run):
    assert "TOO_FEW_ROWS" in errors(run, changes={"data.train_max_samples": 7})
    assert errors(run, changes={"data.train_max_samples": 8}) == []


def test_grpo_06a_four_rows_and_batches_of_64(run):
    override = yaml_text.load((CASE / "override.yaml").read_text(), "override.yaml").values
    template = {**override, "actor_rollout_ref": {"rollout": {"n": 4}}}
    data = make_data(run, 4)
    problem = next(p for p in findings(run, template=template, data=data) if p.code == "TOO_FEW_ROWS")
    assert "4 rows" in problem.message and "64" in problem.message and "0 steps" in problem.message


def test_17_validation_data_without_rows(run):
    data = make_data(run)
    empty = [
        split.__class__(**{**fields(split), "snapshot": snapshot(split, 0)}) if split.where == "validation" else split
        for split in data.splits
    ]
    data = data.__class__(tuple(empty), (), {}, prompts=data.prompts)
    assert one(run, "NO_VALIDATION_ROWS", data=data).field == "data.val_files"


def fields(record):
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def snapshot(split, rows):
    return split.snapshot.__class__(**{**fields(split.snapshot), "rows": rows})


def test_18_rows_that_no_batch_takes_are_told(run):
    assert warnings(run, data=make_data(run, 83)) == ["ROWS_UNUSED"]
    found = findings(run, data=make_data(run, 83))
    assert "3 of 83 rows" in found[0].message
    assert warnings(run, data=make_data(run, 88)) == []


def test_19_batches_of_the_asynchronous_trainer(run):
    changes = {"trainer.v1.trainer_mode": "separate_async", "trainer.v1.separate_async.parameter_sync_step": 3}
    assert one(run, "BATCH_NOT_DIVISIBLE", changes=changes).field == "trainer.v1.separate_async.parameter_sync_step"
    changes["trainer.v1.separate_async.parameter_sync_step"] = 4
    assert (errors(run, changes=changes), warnings(run, changes=changes)) == ([], ["MODE_UNTRIED"])


def test_19_parts_of_a_batch_that_are_fetched(run):
    problem = one(run, "BATCH_NOT_DIVISIBLE", changes={"data.gen_batch_size": 3})
    assert problem.hint == "set it to one of 1, 2, 4, 8"
    assert errors(run, changes={"data.gen_batch_size": 4}) == []


def test_20_more_steps_than_the_epochs_have(run):
    changes = {"trainer.total_training_steps": 17, "trainer.total_epochs": 2}
    problem = one(run, "STEPS_EXCEED_EPOCHS", changes=changes)
    assert "stop at step 16" in problem.message
    assert problem.hint == "set trainer.total_epochs to 3, or total_training_steps to at most 16"
    assert errors(run, changes={**changes, "trainer.total_training_steps": 16}) == []


def test_22_the_0_8_line_has_the_same_rule(run):
    plan = {"version": "0.8.0.dev", "changes": {MICRO: 3}}
    assert errors(run, **plan) == ["MICRO_BATCH_NOT_DIVISIBLE"]
    assert errors(run, version="0.8.0.dev") == []


def test_a_group_of_one_learns_nothing(run):
    problem = one(run, "GROUP_OF_ONE", changes={f"{ROLLOUT}.n": 1})
    assert "compares replies" in problem.message
    assert errors(run, changes={f"{ROLLOUT}.n": 3}) == []


@pytest.mark.parametrize("key", ["data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"])
@pytest.mark.parametrize("value", ["8", None, 0, -3, 2.5, [1]])
def test_what_is_no_number_at_all_breaks_no_rule(run, key, value):
    findings(run, native={key: value})


def sizes(batch, mini, n, micro, gpus, parallel=1):
    return {
        "changes": {
            "data.train_batch_size": batch, f"{ACTOR}.ppo_mini_batch_size": mini, f"{ROLLOUT}.n": n, MICRO: micro,
            LOG_MICRO: 1, f"{ACTOR}.ulysses_sequence_parallel_size": parallel, "trainer.total_training_steps": 1,
        },
        "launch": {"devices": ",".join(map(str, range(gpus)))},
        "native": {"trainer.n_gpus_per_node": gpus},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "mini", "n", "micro", "gpus", "parallel"),
    [
        (26, 12, 5, 1, 6, 1),  # divisors of 26 that cannot be dealt out to 6
        (5, 3, 2, 3, 8, 2),  # 2 and 4 are near, and no multiple of the micro-batch
        (6, 6, 2, 1, 8, 1),
        (28, 19, 3, 1, 6, 1),
        (8, 16, 3, 1, 2, 1),
        (40, 24, 2, 1, 3, 1),  # more rows than there are would be needed
        (7, 5, 3, 4, 4, 2),
    ],
)
def test_sizes_that_a_hint_names_are_accepted_when_they_are_used(run, batch, mini, n, micro, gpus, parallel):
    plan = sizes(batch, mini, n, micro, gpus, parallel)
    key = f"{ACTOR}.ppo_mini_batch_size"
    found = [p for p in findings(run, **plan) if p.severity == "error" and p.field in ("data.train_batch_size", key)]
    assert found
    for problem in found:
        for part in problem.hint.removeprefix("set ").split(", or "):
            named, _, values = part.replace("one of ", "").rpartition(" to ")
            keys = ["data.train_batch_size"] if "train_batch" in named else []
            keys += [key] if "mini" in named else []
            assert keys and values
            for value in map(int, values.replace(" or ", ", ").split(", ")):
                used = {**plan, "changes": {**plan["changes"], **dict.fromkeys(keys, value)}}
                assert errors(run, **used) == [], (problem.hint, keys, value)
