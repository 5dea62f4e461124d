"""Rules on batches: what has to divide what, with the numbers and the nearest ones that work.

Each rule names where verl 0.9.1 (or 0.8.0.dev) would fail: some before the start, most after minutes, some never.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopai_trainer.backends.verl_grpo.batch_sizes import (
    BatchSizes,
    batch_hint,
    either_hint,
    mini_hint,
    sizes_of,
)
from loopai_trainer.backends.verl_grpo.effective import ACTOR, REF, ROLLOUT
from loopai_trainer.backends.verl_grpo.facts import Facts, divisors, error, nearest, warning
from loopai_trainer.records import Problem


def batch_problems(facts: Facts) -> Iterator[Problem]:
    """All findings on batches and steps."""
    for rule in (_rows, _group, _batch_over_devices, _mini_batch, _mini_batch_over_devices):
        yield from rule(facts)
    if _dynamic(facts):
        yield from _token_limits(facts)
    else:
        yield from _micro_batch_keys(facts)
        yield from _micro_batches(facts)
        yield from _log_prob_batches(facts)
    yield from _same_batching(facts)
    yield from _asynchronous(facts)
    yield from _steps(facts)


def has_reference(facts: Facts) -> bool:
    """Whether a reference model is loaded. Source: trainer/ppo/utils.py need_reference_policy."""
    return facts.values.on("algorithm.use_kl_in_reward") or facts.values.on(f"{ACTOR}.use_kl_loss")


def _dynamic(facts: Facts) -> bool:
    return facts.values.on(f"{ACTOR}.use_dynamic_bsz")


def _sizes(facts: Facts) -> BatchSizes:
    return sizes_of(facts, _dynamic(facts), has_reference(facts))


def _rows(facts: Facts) -> Iterator[Problem]:
    """Source: trainer_base.py:765 and :450: zero steps an epoch are a ZeroDivisionError after all workers are up."""
    steps = facts.steps
    if steps.batch and steps.rows < steps.batch:
        message = (
            f"{steps.rows} rows to train on are fewer than data.train_batch_size ({steps.batch}): the loader drops "
            "what does not fill a batch, so there would be 0 steps"
        )
        most = f"{batch_hint(_sizes(facts))}, or give more rows" if steps.rows else "give rows"
        yield error("TOO_FEW_ROWS", message, most, "data.train_batch_size")
    elif steps.unused:
        message = (
            f"{steps.unused} of {steps.rows} rows are left out in each epoch: they do not fill a batch of {steps.batch}"
        )
        yield warning("ROWS_UNUSED", message, "choose a batch size that divides the rows", "data.train_batch_size")
    validation = facts.plan.loopai["inputs"].get("validation") or {}
    if validation.get("rows") == 0:
        message = "the validation data has no rows: verl's loader cannot be made of it"
        yield error("NO_VALIDATION_ROWS", message, "give validation data with rows", "data.val_files")


def _group(facts: Facts) -> Iterator[Problem]:
    """Source: core_algos.py:315-317: a group of one has mean 0 and deviation 1, and nothing warns."""
    if facts.steps.group == 1:
        message = "'actor_rollout_ref.rollout.n' is 1: GRPO compares replies to one prompt, and one has no other"
        yield error(
            "GROUP_OF_ONE", message, "set actor_rollout_ref.rollout.n to 2 or more (usual: 4 to 16)", f"{ROLLOUT}.n"
        )


def _batch_over_devices(facts: Facts) -> Iterator[Problem]:
    """Source: utils/config.py:120-126; with dynamic batches not asserted, and needed all the same for equal work."""
    steps = facts.steps
    if steps.replies and not _dynamic(facts) and steps.replies % steps.devices:
        message = (
            f"data.train_batch_size ({steps.batch}) x rollout.n ({steps.group}) = {steps.replies} replies cannot be "
            f"dealt out to {steps.devices} GPUs"
        )
        yield error("BATCH_NOT_DIVISIBLE", message, batch_hint(_sizes(facts)), "data.train_batch_size")


def _mini_batch(facts: Facts) -> Iterator[Problem]:
    """Source: workers/config/actor.py:225; trainer_base.py:1590 pads the rest with made-up samples and says nothing."""
    batch, mini = facts.steps.batch, facts.steps.mini_batch
    if not batch or not mini:
        return
    field = f"{ACTOR}.ppo_mini_batch_size"
    if batch < mini:
        message = f"data.train_batch_size ({batch}) is less than ppo_mini_batch_size ({mini})"
        yield error("MINI_BATCH_TOO_LARGE", message, mini_hint(_sizes(facts)), field)
    elif batch % mini:
        message = (
            f"data.train_batch_size ({batch}) is no multiple of ppo_mini_batch_size ({mini}): verl would fill up with "
            "made-up samples"
        )
        yield error("MINI_BATCH_NOT_DIVISIBLE", message, either_hint(_sizes(facts)), field)


def _mini_batch_over_devices(facts: Facts) -> Iterator[Problem]:
    """Source: workers/engine_workers.py:267: found at the first update, after the first rollout."""
    steps = facts.steps
    replies, parallel = steps.mini_batch * steps.group, steps.data_parallel
    if replies and replies % parallel:
        message = (
            f"ppo_mini_batch_size ({steps.mini_batch}) x rollout.n ({steps.group}) = {replies} replies cannot be dealt "
            f"out to {parallel} data-parallel ranks"
        )
        yield error("MINI_BATCH_NOT_DIVISIBLE", message, mini_hint(_sizes(facts)), f"{ACTOR}.ppo_mini_batch_size")


def _micro_batch_keys(facts: Facts) -> Iterator[Problem]:
    """Source: workers/config/actor.py:198-212, utils/config.py:130-186."""
    pairs = [(f"{ACTOR}.ppo_micro_batch_size", True), (f"{ROLLOUT}.log_prob_micro_batch_size", True)]
    pairs.append((f"{REF}.log_prob_micro_batch_size", has_reference(facts)))
    for old, needed in pairs:
        new = f"{old}_per_gpu"
        has_old, has_new = facts.values.get(old) is not None, facts.values.get(new) is not None
        if has_old and has_new:
            message = f"'{old}' and '{new}' are both set, and verl refuses that"
            yield error("MICRO_BATCH_TWICE", message, f"remove {old}, which is the old name", old)
        elif needed and not has_old and not has_new:
            message = f"'{new}' is missing: verl cuts batches by it, as long as use_dynamic_bsz is off"
            hint = f"set {new} (1 always fits), or actor_rollout_ref.actor.use_dynamic_bsz: true"
            yield error("MICRO_BATCH_MISSING", message, hint, new)


def _micro_batches(facts: Facts) -> Iterator[Problem]:
    """Source: workers/engine/utils.py:125 (0.9.1), fsdp_workers.py:239-262 (0.8), workers/config/actor.py:233."""
    steps, values = facts.steps, facts.values
    key = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    micro, share = values.whole(key), steps.mini_batch * steps.group // steps.data_parallel
    even = steps.mini_batch * steps.group % steps.data_parallel == 0
    if micro and share and even and share % micro:
        message = (
            f"ppo_mini_batch_size ({steps.mini_batch}) x rollout.n ({steps.group}) / {steps.data_parallel} ranks = "
            f"{share} replies a GPU are no multiple of ppo_micro_batch_size_per_gpu ({micro})"
        )
        yield error("MICRO_BATCH_NOT_DIVISIBLE", message, f"set it to one of {divisors(share)}", key)
    old = values.whole(f"{ACTOR}.ppo_micro_batch_size")
    if old and steps.mini_batch and steps.mini_batch % old:
        message = f"ppo_mini_batch_size ({steps.mini_batch}) is no multiple of ppo_micro_batch_size ({old})"
        hint = f"set it to one of {divisors(steps.mini_batch)}"
        yield error("MICRO_BATCH_NOT_DIVISIBLE", message, hint, f"{ACTOR}.ppo_micro_batch_size")
    if old and old * steps.sequence_parallel < steps.devices:
        message = f"ppo_micro_batch_size ({old}) is of all {steps.devices} GPUs together, and less than one for each"
        hint = "set actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 1 instead"
        yield error("MICRO_BATCH_TOO_SMALL", message, hint, f"{ACTOR}.ppo_micro_batch_size")


def _log_prob_batches(facts: Facts) -> Iterator[Problem]:
    """Source: workers/engine/utils.py:125: found at the first log-prob pass, after the first rollout."""
    steps = facts.steps
    if not steps.replies or steps.replies % steps.data_parallel:
        return
    share = steps.replies // steps.data_parallel
    for place, needed in ((ROLLOUT, True), (REF, has_reference(facts))):
        key = f"{place}.log_prob_micro_batch_size_per_gpu"
        micro = facts.values.whole(key)
        if needed and micro and share % micro:
            message = (
                f"{steps.replies} replies of a step / {steps.data_parallel} ranks = {share} are no multiple of "
                f"'{key}' ({micro})"
            )
            yield error("MICRO_BATCH_NOT_DIVISIBLE", message, f"set it to one of {divisors(share)}", key)


def _token_limits(facts: Facts) -> Iterator[Problem]:
    """Source: workers/engine/utils.py:106: one row that does not fit is an assertion at the first batch."""
    longest = facts.values.whole("data.max_prompt_length") + facts.values.whole("data.max_response_length")
    checked = [(f"{ACTOR}.ppo_max_token_len_per_gpu", True), (f"{ROLLOUT}.log_prob_max_token_len_per_gpu", True)]
    checked.append((f"{REF}.log_prob_max_token_len_per_gpu", has_reference(facts)))
    for key, needed in checked:
        limit = facts.values.whole(key)
        if not needed or not limit:
            continue
        parallel = facts.steps.sequence_parallel
        if limit * parallel < longest:
            message = (
                f"'{key}' ({limit}) x sequence parallel ({parallel}) is less than one row: max_prompt_length + "
                f"max_response_length = {longest} tokens"
            )
            hint = f"set it to at least {-(-longest // parallel)}; {-(-2 * longest // parallel)} is usual"
            yield error("TOKEN_LIMIT_TOO_SMALL", message, hint, key)


def _same_batching(facts: Facts) -> Iterator[Problem]:
    """Source: workers/engine_workers.py:616."""
    key = f"{ROLLOUT}.log_prob_use_dynamic_bsz"
    if bool(facts.values.get(key)) != _dynamic(facts):
        message = f"'{key}' and actor.use_dynamic_bsz differ, and verl refuses that at the start of its workers"
        yield error("BATCHING_DIFFERS", message, f"remove {key}: it follows actor.use_dynamic_bsz", key)


def _asynchronous(facts: Facts) -> Iterator[Problem]:
    """Source: trainer_base.py:535, :1485, :735."""
    values, batch = facts.values, facts.steps.batch
    mode = values.get("trainer.v1.trainer_mode")
    if facts.family != "0.9" or not batch:
        return
    if mode in ("colocate_async", "separate_async"):
        message = f"trainer.v1.trainer_mode is {mode}: this launcher was tried with the synchronous trainer alone"
        yield warning("MODE_UNTRIED", message, "remove it, or watch the first steps", "trainer.v1.trainer_mode")
    every = values.whole("trainer.v1.separate_async.parameter_sync_step")
    if mode == "separate_async" and every and batch % every:
        message = f"data.train_batch_size ({batch}) is no multiple of parameter_sync_step ({every})"
        hint = f"set it to {nearest(batch, every)}"
        yield error("BATCH_NOT_DIVISIBLE", message, hint, "trainer.v1.separate_async.parameter_sync_step")
    generated = values.whole("data.gen_batch_size")
    if mode == "sync" and generated and batch % generated:
        message = f"data.gen_batch_size ({generated}) does not divide data.train_batch_size ({batch})"
        yield error("BATCH_NOT_DIVISIBLE", message, f"set it to one of {divisors(batch)}", "data.gen_batch_size")


def _steps(facts: Facts) -> Iterator[Problem]:
    """Source: trainer_base.py:467: training also ends after total_epochs, then without its last save and validation."""
    steps = facts.steps
    possible = steps.steps_per_epoch * steps.epochs
    if steps.planned_steps and 0 < possible < steps.planned_steps:
        message = (
            f"trainer.total_training_steps ({steps.planned_steps}) is more than {steps.epochs} epochs of "
            f"{steps.steps_per_epoch} steps: verl would stop at step {possible}, without its last checkpoint"
        )
        epochs = -(-steps.planned_steps // steps.steps_per_epoch)
        hint = f"set trainer.total_epochs to {epochs}, or total_training_steps to at most {possible}"
        yield error("STEPS_EXCEED_EPOCHS", message, hint, "trainer.total_training_steps")
