import pytest

from loopai_trainer.backends.verl_grpo.values import RANGES, WORDS, Range, value_fault

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("algorithm.adv_estimator", "foo", "grpo"), ("algorithm.adv_estimator", "gae", "grpo_vectorized"),
        ("algorithm.kl_penalty", "full", "k3"), ("algorithm.kl_ctrl.type", "foo", "adaptive"),
        (f"{ACTOR}.loss_agg_mode", "mean", "token-mean"), (f"{ACTOR}.policy_loss.loss_mode", "foo", "gspo"),
        (f"{ACTOR}.strategy", "megatron", "fsdp2"), (f"{ACTOR}.fsdp_config.model_dtype", "int8", "bf16"),
        (f"{ACTOR}.optim.lr_scheduler_type", "linear", "cosine"), (f"{ACTOR}.optim.optimizer_impl", "evil.module", "torch.optim"),
        (f"{ACTOR}.checkpoint.save_contents", ["model", "foo"], ["model", "hf_model"]), (f"{ROLLOUT}.mode", "sync", "async"),
        ("data.truncation", "cut", "left"), ("model_engine", "megatron", "dp"), ("trainer.device", "npu", "cuda"),
        ("trainer.resume_mode", "foo", "auto"), ("trainer.v1.trainer_mode", "foo", "sync"),
        ("transfer_queue.backend.storage_backend", "MooncakeStore", "SimpleStorage"),
    ],
)  # fmt: skip
def test_words_outside_their_choices_are_told(key, wrong, right):
    message, hint = value_fault(key, wrong)
    assert key in message and hint
    assert value_fault(key, right) is None
    assert value_fault(key, None) is None


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("data.train_batch_size", 0, 1), (f"{ROLLOUT}.n", 0, 1), (f"{ROLLOUT}.temperature", 0, 0.1),
        (f"{ROLLOUT}.val_kwargs.temperature", -0.1, 0), (f"{ROLLOUT}.gpu_memory_utilization", 1.5, 1),
        (f"{ROLLOUT}.gpu_memory_utilization", 0, 0.01), (f"{ROLLOUT}.top_p", 1.1, 1.0), (f"{ROLLOUT}.top_k", 0, -1),
        (f"{ACTOR}.optim.lr", 0, 1e-6), (f"{ACTOR}.optim.lr_warmup_steps_ratio", 1.1, 1), (f"{ACTOR}.clip_ratio_c", 1, 1.1),
        ("trainer.save_freq", 0, -1), ("trainer.save_freq", -2, 1), ("trainer.total_training_steps", 0, 1),
        ("data.dataloader_num_workers", -1, 0), (f"{ROLLOUT}.max_num_batched_tokens", 0, 1), ("algorithm.gamma", 2, 1),
    ],
)  # fmt: skip
def test_numbers_outside_their_range_are_told(key, wrong, right):
    message, hint = value_fault(key, wrong)
    assert key in message and str(wrong) in message and hint
    assert value_fault(key, right) is None


@pytest.mark.parametrize("value", ["x", True, None, [1], float("nan")])
def test_what_is_no_number_is_the_business_of_types(value):
    assert value_fault("data.train_batch_size", value) is None


def test_a_near_miss_gets_a_hint():
    assert value_fault(f"{ACTOR}.kl_loss_type", "low_var_k")[1] == "did you mean low_var_kl?"
    assert "cannot be exported" in value_fault(f"{ACTOR}.strategy", "veomni")[1]


def test_a_range_says_what_it_is():
    assert str(Range(1, 10**12, also=-1)) == "at least 1, or -1"
    assert str(Range(0, 1, open_least=True)) == "above 0 and at most 1"


def test_no_key_has_words_and_a_range():
    assert not set(WORDS) & set(RANGES)
