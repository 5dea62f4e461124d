"""Rules on the method: rollout backend, algorithm, model kind, packages, and what a CPU smoke plan may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import keys
from loopai_trainer.backends.verl_grpo.draft import CPU_ROLLOUT
from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, REF, ROLLOUT
from loopai_trainer.backends.verl_grpo.facts import Facts, error, warning
from loopai_trainer.backends.verl_grpo.rules_batch import has_reference
from loopai_trainer.backends.verl_grpo.rules_parallel import ENGINES
from loopai_trainer.backends.verl_grpo.values import GRPO_ESTIMATORS
from loopai_trainer.records import Problem

NEEDED: Mapping[keys.Family, tuple[str, ...]] = {
    "0.9": ("ray", "transfer_queue", "cachetools", "pyzmq", "msgspec", "fastapi", "uvicorn"),
    "0.8": ("ray", "cachetools", "pyzmq", "fastapi", "uvicorn"),
}
"""What verl's trainer imports and `pip install verl` alone leaves out, in part. Source: 0.9.1, run without them."""

CPU_LIMITS: Mapping[str, int] = {"steps": 20, "replies": 64, "tokens": 2048, "ranks": 2, "megabytes": 200}
"""A CPU smoke plan: at most so many steps, replies a step, tokens a row, ranks, and megabytes of weights."""


def method_problems(facts: Facts) -> Iterator[Problem]:
    """All findings on what is trained, by which algorithm and with which packages."""
    for rule in (_rollout, _algorithm, _reward_manager, _strategies, _lora, _multimodal, _packages, _attention):
        yield from rule(facts)
    if facts.is_cpu:
        yield from _cpu_limits(facts)
        yield from _cpu_keys(facts)


def _rollout(facts: Facts) -> Iterator[Problem]:
    """Source: workers/rollout/base.py:86-106: hf is in no registry; an unknown name fails in the workers."""
    key = f"{ROLLOUT}.name"
    name = facts.values.get(key)
    known = ", ".join(ENGINES)
    if (name == CPU_ROLLOUT) != facts.is_cpu:
        message = f"'{key}' is {name!r} and trainer.device is {facts.values.get('trainer.device')!r}: they don't fit"
        hint = f"{CPU_ROLLOUT} goes with trainer.device: cpu (template verl_grpo_cpu_smoke), {known} with cuda"
        yield error("CPU_ROLLOUT", message, hint, key)
    elif name is None:
        yield error("ROLLOUT_MISSING", f"'{key}' is missing: verl has no default", f"set it to one of {known}", key)
    elif name not in ENGINES and not facts.is_cpu:
        message = f"'{key}' is {name!r}, this launcher knows {known}"
        yield error("ROLLOUT_UNKNOWN", message, "use vllm or sglang (--option verl_rollout_backend=vllm)", key)


def _algorithm(facts: Facts) -> Iterator[Problem]:
    estimator = facts.values.get("algorithm.adv_estimator")
    if estimator not in GRPO_ESTIMATORS:
        message = f"'algorithm.adv_estimator' is {estimator!r}: it trains something else than GRPO"
        yield error("NOT_GRPO", message, "set algorithm.adv_estimator: grpo", "algorithm.adv_estimator")
    if facts.values.on("algorithm.use_kl_in_reward") and facts.values.on(f"{ACTOR}.use_kl_loss"):
        message = "the distance to the reference model is punished twice: in the reward and in the loss"
        yield warning("KL_TWICE", message, "turn off algorithm.use_kl_in_reward", "algorithm.use_kl_in_reward")


def _reward_manager(facts: Facts) -> Iterator[Problem]:
    """Source: experimental/reward_loop, run: prime, batch and limited are 'Unknown reward manager' in 0.9.1."""
    key = keys.REWARD_MANAGER[facts.family]
    name, known = facts.values.get(key), keys.MANAGERS[facts.family]
    own = facts.values.get("reward.reward_manager.source") == "importlib"
    if name is not None and name not in known and not own:
        message = f"'{key}' is {name!r}, verl {facts.versions.version} has {', '.join(known)}"
        yield error("REWARD_MANAGER_UNKNOWN", message, f"set {key}: naive", key)
    if own and not facts.values.get("reward.reward_manager.module.path"):
        message = "'reward.reward_manager.source' is importlib, but module.path names no file"
        yield error(
            "REWARD_MANAGER_UNKNOWN", message, "name the file, or remove source", "reward.reward_manager.source"
        )


def _strategies(facts: Facts) -> Iterator[Problem]:
    wanted = facts.values.get(f"{ACTOR}.strategy")
    for place in (ACTOR, REF):
        key = f"{place}.fsdp_config.strategy"
        used = facts.values.get(key)
        if place == REF and not has_reference(facts):
            continue
        if used is not None and wanted is not None and used != wanted:
            message = f"'{key}' is {used!r}, actor.strategy is {wanted!r}: parts of verl read the one or the other"
            yield error("STRATEGY_DIFFERS", message, f"set {key}: {wanted}", key)


def _lora(facts: Facts) -> Iterator[Problem]:
    """verl 0.9.1's merger takes the adapter out of the weights and writes the base model beside it (its issue 4553)."""
    for key in (f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"):
        rank = facts.values.get(key)
        if isinstance(rank, int) and rank > 0:
            message = f"'{key}' is {rank}: verl's merger would export the base model without the trained adapter"
            yield error("LORA_NOT_EXPORTED", message, f"set {key}: 0, which trains all weights", key)


def _multimodal(facts: Facts) -> Iterator[Problem]:
    config = facts.model.config
    parts = [name for name in ("vision_config", "audio_config", "video_config") if isinstance(config.get(name), dict)]
    if parts:
        message = f"the model reads more than text ({', '.join(parts)} in its config.json)"
        yield error("MODEL_MULTIMODAL", message, "use a language model: only text is prepared", f"{MODEL}.path")
    for split in ("train", "validation"):
        entry = facts.plan.loopai["inputs"].get(split)
        columns = _media_columns(facts, entry["path"]) if entry else []
        if columns:
            message = f"the {split} data has the column {', '.join(columns)}: rows with images, video or sound"
            yield error("DATA_MULTIMODAL", message, "use text alone", f"data.{split}_files")


def _media_columns(facts: Facts, path: str) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    named = [facts.values.get(f"data.{kind}_key") for kind in ("image", "video", "audio")]
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return []  # what is wrong with the file is found where its hash is looked at
    return [name for name in schema.names if name in named and not pa.types.is_null(schema.field(name).type)]


def _packages(facts: Facts) -> Iterator[Problem]:
    held = {name.replace("-", "_").lower() for name in facts.versions.distributions}
    missing = [
        name
        for name in NEEDED[facts.family]
        if name.replace("-", "_") not in held and name.replace("_", "") not in held
    ]
    if missing:
        message = (
            f"verl's trainer needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        )
        hint = "pip install 'verl[verl-core]' cachetools there, or run: trainer setup verl"
        yield error("PACKAGE_MISSING", message, hint, "loopai.backend.environment")
    engine = ENGINES.get(str(facts.values.get(f"{ROLLOUT}.name")))
    if engine and engine not in held:
        message = f"'{ROLLOUT}.name' is {engine}, which is not installed in verl's environment"
        yield error(
            "ROLLOUT_ENGINE_MISSING", message, f"install {engine} there, or choose another rollout", f"{ROLLOUT}.name"
        )


def _attention(facts: Facts) -> Iterator[Problem]:
    """Source: workers/config/model.py:185: without override_config it is flash_attention_2."""
    key = f"{MODEL}.override_config.attn_implementation"
    chosen = facts.values.get(key) or "flash_attention_2"
    held = {name.replace("-", "_").lower() for name in facts.versions.distributions}
    if chosen == "flash_attention_2" and "flash_attn" not in held and not facts.is_cpu:
        message = "verl trains with flash_attention_2 if nothing else is said, and flash-attn is not installed"
        yield error("FLASH_ATTN_MISSING", message, f"install flash-attn there, or set {key}: sdpa", key)


def _cpu_limits(facts: Facts) -> Iterator[Problem]:
    steps = facts.steps
    tokens = facts.values.whole("data.max_prompt_length") + facts.values.whole("data.max_response_length")
    weights = facts.model.weights.size_bytes if facts.model.weights else 0
    found = {
        "steps": (steps.total_steps, "trainer.total_training_steps", "steps"),
        "replies": (steps.replies, "data.train_batch_size", "replies a step"),
        "tokens": (tokens, "data.max_response_length", "tokens a row"),
        "ranks": (steps.devices, "trainer.n_gpus_per_node", "ranks"),
        "megabytes": (weights // 10**6, f"{MODEL}.path", "megabytes of weights"),
    }
    for name, (value, key, what) in found.items():
        if value > CPU_LIMITS[name]:
            message = (
                f"{value} {what}: a CPU smoke plan has at most {CPU_LIMITS[name]}, since it only shows that verl works"
            )
            yield error("CPU_NOT_SMOKE", message, "make it smaller, or train on a GPU (trainer.device: cuda)", key)


def _cpu_keys(facts: Facts) -> Iterator[Problem]:
    """Source: verl 0.9.1 on a CPU, run: FSDP1, packed rows, flash attention and torch.compile don't work there."""
    wanted: Mapping[str, Any] = {
        f"{ACTOR}.strategy": "fsdp2",
        f"{MODEL}.use_remove_padding": False,
        f"{ACTOR}.use_torch_compile": False,
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
    }
    for key, value in wanted.items():
        if facts.values.get(key) != value:
            shown = str(value).lower()
            message = f"'{key}' is {facts.values.get(key)!r}: that does not work on a CPU"
            yield error("CPU_KEY", message, f"set {key}: {shown}", key)
    attention = facts.values.get(f"{MODEL}.override_config.attn_implementation")
    if attention not in ("eager", "sdpa"):
        key = f"{MODEL}.override_config.attn_implementation"
        yield error("CPU_KEY", f"'{key}' is {attention!r}: that does not work on a CPU", f"set {key}: eager", key)
    if facts.family != "0.9":
        message = f"verl {facts.versions.version} has no platform plug-ins: it cannot train on a CPU"
        yield error("CPU_NOT_SMOKE", message, "use verl 0.9 (trainer setup verl)", "trainer.device")
