import json

import pytest
from fakes.grpo_plans import GPUS, HOST, MODEL_CONFIG, errors, findings, make_settings, warnings
from fakes.sft_plans import make_model_folder

from loopai_trainer.records import Host

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
TP, SP = f"{ROLLOUT}.tensor_model_parallel_size", f"{ACTOR}.ulysses_sequence_parallel_size"
FOUR = {"settings": make_settings(CUDA_VISIBLE_DEVICES="0,1,2,3")}


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def one(run, code, **plan):
    """The only error, whose code has to be this one."""
    (problem,) = [found for found in findings(run, **plan) if found.severity == "error"]
    assert problem.code == code, problem
    return problem


def model_with(run, **config):
    return make_model_folder(run.parent / "other", {**MODEL_CONFIG, **config})


@pytest.mark.parametrize(("tensor", "gpus"), [(2, "0"), (4, "0,1"), (3, "0,1,2,3")])
def test_9_copies_of_the_model_over_the_gpus(run, tensor, gpus):
    plan = {"settings": make_settings(CUDA_VISIBLE_DEVICES=gpus), "changes": {TP: tensor}}
    problem = next(p for p in findings(run, **plan) if p.code == "TENSOR_PARALLEL_DEVICES")
    count = len(gpus.split(","))
    assert f"{count} GPUs" in problem.message and f"({tensor})" in problem.message
    fitting = [n for n in (1, 2, 4) if count % n == 0]
    assert problem.hint == f"set {TP} to {'one of ' if count > 1 else ''}{', '.join(map(str, fitting))}"
    for value in fitting:
        assert errors(run, **{**plan, "changes": {TP: value}}) == []


@pytest.mark.parametrize(("tensor", "copies", "fits"), [(2, 1, True), (2, 2, True), (4, 2, False), (1, 3, False)])
def test_9_data_parallel_copies_count(run, tensor, copies, fits):
    found = errors(run, **FOUR, changes={TP: tensor, f"{ROLLOUT}.data_parallel_size": copies})
    assert found == ([] if fits else ["TENSOR_PARALLEL_DEVICES"])


@pytest.mark.parametrize(
    ("tensor", "copies", "hint"),
    [(4, 2, f"set {TP} to one of 1, 2"), (1, 3, f"set {ROLLOUT}.data_parallel_size to one of 1, 2, 4, and {TP}: 1")],
)
def test_9_a_hint_counts_the_copies_too(run, tensor, copies, hint):
    (problem,) = findings(run, **FOUR, changes={TP: tensor, f"{ROLLOUT}.data_parallel_size": copies})
    assert problem.hint == hint


def test_11_what_no_rollout_of_ours_has(run):
    key = f"{ROLLOUT}.pipeline_model_parallel_size"
    assert one(run, "PIPELINE_PARALLEL", changes={key: 2}).field == key
    assert errors(run, changes={key: 1}) == []


@pytest.mark.parametrize(("expert", "fits"), [(1, True), (2, True), (4, False)])
def test_11_experts_over_all_parts_of_a_copy(run, expert, fits):
    found = errors(run, changes={f"{ROLLOUT}.expert_parallel_size": expert, TP: 2})
    assert found == ([] if fits else ["EXPERT_PARALLEL"])


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tensor", "fits"),
    [(4, 2, 4, True), (6, 2, 4, False), (8, 8, 4, True), (8, 1, 4, True), (12, 3, 4, False), (None, None, 4, True)],
)
def test_12_heads_over_tensor_parallel(run, heads, kv_heads, tensor, fits):
    model = model_with(run, num_attention_heads=heads, num_key_value_heads=kv_heads)
    found = [p for p in findings(run, **FOUR, model=model, changes={TP: tensor}) if p.severity == "error"]
    assert [p.code for p in found] == ([] if fits else ["TENSOR_PARALLEL_HEADS"])
    if not fits:
        assert f"({tensor})" in found[0].message
        assert found[0].hint == f"set {TP} to " + ("one of 1, 2" if heads == 6 else "1")


@pytest.mark.parametrize(
    ("heads", "kv_heads", "parallel", "fits"),
    [(4, 2, 2, True), (4, 2, 4, True), (6, 2, 4, False), (12, 3, 2, False), (4, 4, 3, False)],
)
def test_13_heads_and_gpus_over_sequence_parallel(run, heads, kv_heads, parallel, fits):
    model = model_with(run, num_attention_heads=heads, num_key_value_heads=kv_heads)
    found = errors(run, **FOUR, model=model, changes={SP: parallel})
    assert ("SEQUENCE_PARALLEL" in found) is not fits


def test_13_sequence_parallel_needs_packed_rows(run):
    changes = {SP: 2, "actor_rollout_ref.model.use_remove_padding": False}
    assert "use_remove_padding" in one(run, "SEQUENCE_PARALLEL", changes=changes).message
    assert errors(run, changes={SP: 2}) == []


@pytest.mark.parametrize(
    ("prompt", "response", "limit", "fits"),
    [
        (512, 256, 768, True),
        (512, 257, 768, False),
        (2048, 2048, None, True),
        (2048, 2049, None, False),
        (512, 256, 4096, True),
        (512, 256, 4097, False),
    ],
)
def test_20_lengths_that_the_model_can_take(run, prompt, response, limit, fits):
    changes = {
        "data.max_prompt_length": prompt,
        "data.max_response_length": response,
        f"{ROLLOUT}.max_model_len": limit,
    }
    assert errors(run, changes=changes) == ([] if fits else ["LENGTH_EXCEEDS_MODEL"])


def test_20_a_stretched_model_takes_more(run):
    changes = {"data.max_prompt_length": 4096, "data.max_response_length": 4096, f"{ROLLOUT}.max_model_len": None}
    assert errors(run, changes=changes) == ["LENGTH_EXCEEDS_MODEL"]
    model = model_with(run, rope_scaling={"rope_type": "yarn", "factor": 4.0})
    assert errors(run, model=model, changes=changes) == []


@pytest.mark.parametrize(
    ("batched", "rows", "chunked", "fits"),
    [(256, 256, True, True), (255, 256, True, False), (767, 256, False, False), (768, 256, False, True)],
)
def test_tokens_of_one_pass_of_the_engine(run, batched, rows, chunked, fits):
    changes = {
        f"{ROLLOUT}.max_num_batched_tokens": batched,
        f"{ROLLOUT}.max_num_seqs": rows,
        f"{ROLLOUT}.enable_chunked_prefill": chunked,
    }
    assert errors(run, changes=changes) == ([] if fits else ["BATCHED_TOKENS"])


def test_21_as_many_gpus_as_devices(run):
    problem = one(run, "DEVICES_DIFFER", native={"trainer.n_gpus_per_node": 4})
    assert "4 GPUs, but 2 devices" in problem.message
    assert problem.hint == "set n_gpus_per_node to 2"


def test_21_devices_that_the_host_has_not(run):
    host = Host(GPUS[:1], 8, 10**13)
    assert "DEVICE_NOT_FOUND" in errors(run, host=host)
    assert warnings(run, host=Host((), 8, 10**13)) == ["NO_DEVICE"]
    assert errors(run, host=Host((), 8, 10**13)) == []


def test_21_no_devices_without_a_cpu_plan(run):
    assert "NO_DEVICES_NAMED" in errors(run, launch={"devices": ""})
    assert "DEVICES_INVALID" in errors(run, launch={"devices": "0-3"})


@pytest.mark.parametrize("plan", [{"native": {"trainer.nnodes": 2}}, {"launch": {"nodes": 2}}])
def test_more_than_one_node_without_a_cluster_is_refused(run, plan):
    assert "NODES" in errors(run, **plan)


def test_cpus_that_ray_would_wait_for(run):
    key = "ray_kwargs.ray_init.num_cpus"
    assert one(run, "RAY_CPUS", changes={key: 7}).hint.startswith("set it to at least 8")
    assert errors(run, changes={key: 8}) == []
    few = Host(GPUS, 7, 10**13)
    assert warnings(run, host=few) == ["RAY_CPUS"]
    assert warnings(run, host=few, changes={key: 8}) == []


@pytest.mark.parametrize(("size", "fits"), [(-1, True), (2, True), (1, True), (3, False)])
def test_shards_over_the_gpus(run, size, fits):
    assert errors(run, changes={f"{ACTOR}.fsdp_config.fsdp_size": size}) == ([] if fits else ["FSDP_SIZE"])


def test_a_language_model_inside_another_config_is_looked_at(run):
    model = model_with(run)
    config = json.loads((model / "config.json").read_text())
    inner = {"num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 4096}
    (model / "config.json").write_text(json.dumps({**config, "text_config": inner}))
    assert errors(run, **FOUR, model=model, changes={TP: 4}) == ["TENSOR_PARALLEL_HEADS"]


@pytest.mark.parametrize(
    "key", [TP, SP, f"{ROLLOUT}.data_parallel_size", f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.max_num_batched_tokens"]
)
@pytest.mark.parametrize("value", ["2", None, 0, 2.5])
def test_what_is_no_number_at_all_breaks_no_rule(run, key, value):
    findings(run, native={key: value}, host=HOST)
