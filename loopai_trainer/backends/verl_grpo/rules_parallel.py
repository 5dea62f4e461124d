"""Rules on devices and on how the model is split over them: what engines find after minutes of start-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, ROLLOUT
from loopai_trainer.backends.verl_grpo.facts import Facts, divisors, error, warning
from loopai_trainer.host.devices import device_problems, parse_devices
from loopai_trainer.records import Problem
from loopai_trainer.rules import cluster

ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang"}
"""rollout.name -> the distribution that verl needs for it. verl registers trtllm too, which was never tried here."""

CPUS_A_RANK, CPUS_BESIDE = 3, 2
"""What verl asks Ray for: a bundle of three CPUs for each rank, and its runner and workers."""


def parallel_problems(facts: Facts) -> Iterator[Problem]:
    """All findings on devices, tensor, sequence and data parallelism, and lengths that the model can take."""
    yield from _devices(facts)
    yield from _ray_cpus(facts)
    yield from _tensor_parallel(facts)
    yield from _other_parallel(facts)
    yield from _sequence_parallel(facts)
    yield from _lengths(facts)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _devices(facts: Facts) -> Iterator[Problem]:
    """Source: single_controller/ray/base.py:241, which is reached after Ray is up."""
    if facts.is_cpu:
        return
    launch, values = facts.plan.loopai["launch"], facts.values
    if not cluster.on_cluster(launch):  # there the cluster says which GPUs there are
        yield from device_problems(launch["devices"], facts.host)
    try:
        named = len(parse_devices(launch["devices"])) * launch["nodes"]
    except ValueError:
        return
    wanted = facts.steps.devices
    if named == 0:
        message = "no devices are named: only a CPU smoke plan (trainer.device: cpu) trains without one"
        yield error(
            "NO_DEVICES_NAMED", message, "name --devices, or use the template verl_grpo_cpu_smoke", "trainer.device"
        )
    elif wanted != named:
        message = (
            f"trainer.nnodes ({values.get('trainer.nnodes')}) x n_gpus_per_node "
            f"({values.get('trainer.n_gpus_per_node')}) = {wanted} GPUs, but {named} devices are named "
            f"({launch['devices']}{' on each node' if launch['nodes'] > 1 else ''})"
        )
        each = max(1, named // max(1, launch["nodes"]))
        yield error("DEVICES_DIFFER", message, f"set n_gpus_per_node to {each}", "trainer.n_gpus_per_node")


def _ray_cpus(facts: Facts) -> Iterator[Problem]:
    """Source: single_controller/ray/base.py, run: Ray waits for ever for CPUs (logical ones) that it does not have."""
    key = "ray_kwargs.ray_init.num_cpus"
    if cluster.on_cluster(facts.plan.loopai["launch"]):
        return  # the cluster's nodes have what they have
    given = facts.values.whole(key)
    needed = CPUS_A_RANK * facts.steps.devices + CPUS_BESIDE
    if given and given < needed:
        message = (
            f"'{key}' is {given}: verl would wait for ever for {needed} ({CPUS_A_RANK} a rank, {CPUS_BESIDE} beside)"
        )
        yield error("RAY_CPUS", message, f"set it to at least {needed}: they are counted, not used up", key)
    elif not given and facts.host.cpu_count < needed:
        message = (
            f"verl needs {needed} of Ray's CPUs ({CPUS_A_RANK} a rank, {CPUS_BESIDE} beside), this host has "
            f"{facts.host.cpu_count}: on it, verl would wait for ever"
        )
        yield warning("RAY_CPUS", message, f"set {key}: {needed}; they are counted, not used up", key)


def _tensor_parallel(facts: Facts) -> Iterator[Problem]:
    """Source: engine_workers.py:660 (devices), vLLM's verify_with_parallel_config (heads), replica.py:114."""
    key = f"{ROLLOUT}.tensor_model_parallel_size"
    tensor, devices = facts.values.whole(key), facts.steps.devices
    copies = facts.values.whole(f"{ROLLOUT}.data_parallel_size", 1)
    if not tensor:
        return
    if tensor * copies > devices or devices % (tensor * copies):
        message = (
            f"{devices} GPUs cannot be shared out to copies of the model of tensor_model_parallel_size ({tensor}) x "
            f"data_parallel_size ({copies}) GPUs each"
        )
        yield error("TENSOR_PARALLEL_DEVICES", message, _fitting(facts, key, copies), key)
    heads, kv_heads = _heads(facts)
    if heads and heads % tensor:
        message = f"the model's {heads} attention heads cannot be split over tensor_model_parallel_size ({tensor})"
        yield error("TENSOR_PARALLEL_HEADS", message, _fitting(facts, key, copies), key)
    elif kv_heads and kv_heads % tensor and tensor % kv_heads:
        message = f"the model's {kv_heads} key-value heads do not fit tensor_model_parallel_size ({tensor})"
        yield error("TENSOR_PARALLEL_HEADS", message, _fitting(facts, key, copies), key)


def _heads(facts: Facts) -> tuple[int, int]:
    """The model's attention and key-value heads; 0 for what its config does not say."""
    config = text_config(facts.model.config)
    return _count(config.get("num_attention_heads")), _count(config.get("num_key_value_heads"))


def _fitting(facts: Facts, key: str, copies: int = 1) -> str:
    """The sizes of this key that suit the devices, `copies` times, and the model's heads."""
    devices, (heads, kv_heads) = facts.steps.devices, _heads(facts)
    if devices % copies:
        return f"set {ROLLOUT}.data_parallel_size to one of {divisors(devices)}, and {key}: 1"
    found = [
        size
        for size in range(1, devices // copies + 1)
        if devices // copies % size == 0 and heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)
    ]
    return f"set {key} to {'one of ' if len(found) > 1 else ''}{', '.join(map(str, found))}"


def _other_parallel(facts: Facts) -> Iterator[Problem]:
    """Source: workers/config/rollout.py:281-325."""
    values = facts.values
    name = values.get(f"{ROLLOUT}.name")
    if values.whole(f"{ROLLOUT}.pipeline_model_parallel_size", 1) > 1:
        key = f"{ROLLOUT}.pipeline_model_parallel_size"
        yield error("PIPELINE_PARALLEL", f"'{key}' above 1 does not work with {name}", f"set {key}: 1", key)
    expert = values.whole(f"{ROLLOUT}.expert_parallel_size", 1)
    product = values.whole(f"{ROLLOUT}.tensor_model_parallel_size", 1) * values.whole(
        f"{ROLLOUT}.data_parallel_size", 1
    )
    if expert > 1 and expert != product:
        message = f"expert_parallel_size ({expert}) has to be 1 or tensor x data parallel size ({product})"
        key = f"{ROLLOUT}.expert_parallel_size"
        yield error("EXPERT_PARALLEL", message, f"set it to 1 or {product}", key)
    shard = values.get(f"{ACTOR}.fsdp_config.fsdp_size")
    if isinstance(shard, int) and shard > 0 and facts.steps.devices % shard:
        message = f"fsdp_size ({shard}) does not divide {facts.steps.devices} GPUs"
        yield error(
            "FSDP_SIZE",
            message,
            f"set it to -1 or one of {divisors(facts.steps.devices)}",
            f"{ACTOR}.fsdp_config.fsdp_size",
        )


def _sequence_parallel(facts: Facts) -> Iterator[Problem]:
    """Source: models/transformers/monkey_patch.py:343-347, workers/config/actor.py:331-341."""
    key = f"{ACTOR}.ulysses_sequence_parallel_size"
    parallel, devices = facts.steps.sequence_parallel, facts.steps.devices
    if parallel <= 1:
        return
    heads, kv_heads = _heads(facts)
    if devices % parallel:
        message = f"'{key}' ({parallel}) does not divide {devices} GPUs"
        yield error("SEQUENCE_PARALLEL", message, _fitting(facts, key), key)
    if heads and heads % parallel:
        message = f"the model's {heads} attention heads cannot be split over '{key}' ({parallel})"
        yield error("SEQUENCE_PARALLEL", message, _fitting(facts, key), key)
    elif kv_heads and kv_heads % parallel and parallel % kv_heads:
        message = f"the model's {kv_heads} key-value heads do not fit '{key}' ({parallel})"
        yield error("SEQUENCE_PARALLEL", message, _fitting(facts, key), key)
    if not facts.values.on(f"{MODEL}.use_remove_padding"):
        message = f"'{key}' ({parallel}) needs actor_rollout_ref.model.use_remove_padding"
        yield error("SEQUENCE_PARALLEL", message, "set use_remove_padding: true, or sequence parallel to 1", key)


def _lengths(facts: Facts) -> Iterator[Problem]:
    """Source: vllm_async_server.py:593-599, :1107; async_sglang_server.py:170; vLLM's own scheduler check."""
    values = facts.values
    prompt, response = values.whole("data.max_prompt_length"), values.whole("data.max_response_length")
    longest, limit = prompt + response, values.whole(f"{ROLLOUT}.max_model_len")
    config = text_config(facts.model.config)
    model = _count(config.get("max_position_embeddings"))
    stretched = isinstance(config.get("rope_scaling"), dict)
    if limit and limit < longest:
        message = (
            f"'{ROLLOUT}.max_model_len' ({limit}) is less than prompt ({prompt}) + response ({response}) = {longest}"
        )
        yield error("LENGTH_EXCEEDS_MODEL", message, f"set it to at least {longest}", f"{ROLLOUT}.max_model_len")
    if model and not stretched and max(limit, longest) > model:
        what = (
            f"'{ROLLOUT}.max_model_len' ({limit})"
            if limit > longest
            else f"max_prompt_length + max_response_length ({longest})"
        )
        message = f"{what} is more than the model's max_position_embeddings ({model})"
        hint = f"shorten both to {model} tokens together, such as {model // 2} and {model - model // 2}"
        yield error("LENGTH_EXCEEDS_MODEL", message, hint, "data.max_response_length")
    yield from _batched_tokens(facts, limit or longest)


def _batched_tokens(facts: Facts, longest: int) -> Iterator[Problem]:
    values, key = facts.values, f"{ROLLOUT}.max_num_batched_tokens"
    batched, rows = values.whole(key), values.whole(f"{ROLLOUT}.max_num_seqs")
    if facts.is_cpu or not batched:
        return
    if rows and batched < rows:
        message = f"'{key}' ({batched}) is less than max_num_seqs ({rows}): vLLM refuses that at its start"
        yield error("BATCHED_TOKENS", message, f"set it to at least {rows}; 8192 is usual", key)
    elif values.get(f"{ROLLOUT}.enable_chunked_prefill") is False and batched < longest:
        message = f"'{key}' ({batched}) is less than one row ({longest} tokens), and enable_chunked_prefill is off"
        yield error("BATCHED_TOKENS", message, f"set it to at least {longest}, or enable_chunked_prefill: true", key)
