from pathlib import Path

import pytest
from fakes.grpo_plans import errors, findings, make_settings
from fakes.sft_plans import input_file

from loopai_trainer.backends.verl_grpo.coverage import (
    CODE_KEYS,
    FILE_KEYS,
    coverage_problems,
    input_files,
    is_classified,
)
from loopai_trainer.rules import dotted

ACTOR, MODEL, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.model", "actor_rollout_ref.rollout"


def native_with(key, value):
    found = {}
    dotted.put(found, key, value)
    return found


def judged(key, value):
    return [(p.code, p.field) for p in coverage_problems(native_with(key, value), "/run")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{MODEL}.hf_config_path", "/other"), (f"{MODEL}.tokenizer_path", "/other"), ("data.tokenizer", "/other"),
        (f"{MODEL}.external_lib", "some.module"), (f"{MODEL}.lora_adapter_path", "/adapter"),
        (f"{MODEL}.lora.adapter_path", "/adapter"), ("data.custom_cls.path", "/data.py"),
        (f"{ROLLOUT}.agent.custom_async_server.path", "/s.py"), (f"{ROLLOUT}.checkpoint_engine.custom_backend_module", "m"),
        (f"{ROLLOUT}.trace.backend", "weave"), (f"{ROLLOUT}.prometheus.file", "/p.yml"),
        ("trainer.checkpoint_callback_class", "a.B"), ("trainer.default_hdfs_dir", "hdfs://x"),
        ("global_profiler.finish_hook_cmd", "rm"),
        (f"{ACTOR}.profiler.finish_hook_cmd", "rm"), ("reward.sandbox_fusion.url", "http://x"),
        ("reward.reward_model.model_path", "/rm"), ("critic.model.path", "/c"), ("skip.rollout.dump_dir", "/d"),
        ("distillation.teacher_models.a.model_path", "/t"), (f"{ACTOR}.megatron.dist_checkpointing_path", "/d"),
        ("transfer_queue.backend.MooncakeStore.metadata_server", "host:1"), ("data.mm_processor_kwargs.x", "y"),
        ("data.sampler.class_path", "/s.py"), ("trainer.something_new", "/file"), ("brand_new.path", "x"),
        (f"{ROLLOUT}.engine_kwargs.vllm.speculative_config", {"model": "/draft"}),
        (f"{ROLLOUT}.engine_kwargs.vllm.chat_template", "/t.jinja"), (f"{ROLLOUT}.engine_kwargs.vllm.plugins", ["a", "b"]),
        (f"{ROLLOUT}.engine_kwargs.vllm.more", [{"module": "a"}]), (f"{ROLLOUT}.engine_kwargs.vllm.dtype", "a/b"),
        (f"{ROLLOUT}.engine_kwargs.vllm.worker_extension_cls", "evil.Worker"),
        (f"{MODEL}.override_config.attn_implementation", "kernels-community/flash-attn"),
        (f"{MODEL}.override_config._name_or_path", "x"), (f"{ACTOR}.optim.override_optimizer_config.x", "y"),
        ("trainer.v1.sampler.sampler_kwargs.file", "x"), ("ray_kwargs.ray_init.dashboard_host", "0.0.0.0"),
        ("ray_kwargs.ray_init.object_spilling_directory", "/x"),
        ("ray_kwargs.ray_init.runtime_env.worker_process_setup_hook", "evil.run"),
        ("ray_kwargs.ray_init.runtime_env.image_uri", "registry/image"), ("ray_kwargs.ray_init.runtime_env", "/env.yaml"),
        ("ray_kwargs.ray_init.runtime_env.mpi.worker_entry", "evil"),
    ],
)  # fmt: skip
def test_what_the_hash_does_not_cover_is_refused(key, value):
    assert judged(key, value) in ([("UNCOVERED_INPUT", key)], [("UNCOVERED_INPUT", f"{key}.model")])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{MODEL}.hf_config_path", None), (f"{MODEL}.custom_chat_template", "{{ messages }}"), (f"{MODEL}.target_modules", "all-linear"),
        (f"{MODEL}.override_config.attn_implementation", "eager"), (f"{MODEL}.override_config.num_hidden_layers", 2),
        (f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype", "fp8"), (f"{ROLLOUT}.engine_kwargs.vllm.enable_lora", False),
        (f"{ROLLOUT}.name", "vllm"), (f"{ACTOR}.strategy", "fsdp2"), (f"{ACTOR}.optim.lr", 1e-6), ("algorithm.adv_estimator", "grpo"),
        ("trainer.experiment_name", "a/b"), ("data.prompt_key", "prompt"), ("data.apply_chat_template_kwargs.effort", "high"),
        ("ray_kwargs.ray_init.runtime_env.config.setup_timeout_seconds", 60),
        ("ray_kwargs.ray_init.num_gpus", 2), ("ray_kwargs.ray_init.include_dashboard", False), ("critic.enable", False),
        ("trainer.v1.sampler.sampler_kwargs.x", 1), ("trainer.something_new", 3), ("global_profiler.steps", [1, 2]),
    ],
)  # fmt: skip
def test_what_is_covered_or_harmless_is_let_through(key, value):
    assert judged(key, value) == []


@pytest.mark.parametrize(
    ("folder", "codes"),
    [("trace.json", []), ("/run/metrics/t.json", []), ("/run/checkpoints/t", []), ("../../x", ["OUTPUT_ELSEWHERE"]),
     ("/tmp/x", ["OUTPUT_ELSEWHERE"]), ("s3://b/x", ["OUTPUT_ELSEWHERE"]), ("/run/prepared_data/x", ["OUTPUT_ELSEWHERE"])],
)  # fmt: skip
@pytest.mark.parametrize("key", ["ray_kwargs.timeline_json_file", "global_profiler.save_path"])
def test_training_writes_into_its_run_alone(key, folder, codes):
    assert [code for code, _ in judged(key, folder)] == codes


@pytest.mark.parametrize(
    "key",
    ["critic.enable", "distillation.enabled", "reward.reward_model.enable", "reward_model.enable", "skip.rollout.enable",
     f"{ROLLOUT}.prometheus.enable", f"{MODEL}.use_shm", "data.use_shm", "trainer.val_only", "trainer.del_local_ckpt_after_load"],
)  # fmt: skip
def test_switches_that_change_what_is_trained(key):
    assert judged(key, True) == [("SWITCH_REFUSED", key)]
    assert judged(key, False) == []


@pytest.mark.parametrize("key", FILE_KEYS)
def test_a_file_is_classified_and_its_copy_pinned(key):
    assert is_classified(key)
    assert judged(key, "/run/inputs/copy.yaml") == []


def test_a_text_at_an_open_place_is_judged_there():
    assert is_classified(f"{ROLLOUT}.engine_kwargs.vllm.anything")
    assert not is_classified("trainer.something_new")


def test_python_files_are_files():
    assert set(CODE_KEYS) <= set(FILE_KEYS)


@pytest.mark.parametrize("key", [f"{ROLLOUT}.multi_turn.tool_config_path", "reward.reward_manager.module.path"])
def test_only_a_pinned_copy_may_be_named(tmp_path, key):
    run = tmp_path / "run"
    copy = input_file(run / "inputs" / f"{key}.yaml", b"tools: []")
    assert ("UNCOVERED_INPUT", key) in [(p.code, p.field) for p in findings(run, native={key: copy.path})]
    assert errors(run, native={key: copy.path}, files=(copy,)) == []


def test_the_reward_is_an_input_and_the_cpu_plug_in_of_a_cpu_plan():
    assert set(input_files(make_settings(), {})) == {"loopai_reward.py"}
    files = input_files(make_settings(), {"trainer": {"device": "cpu"}})
    assert set(files) == {"loopai_reward.py", "loopai_cpu_platform.py", "loopai_cpu_rollout.py"}
    assert all(Path(path).is_file() for path in files.values())
