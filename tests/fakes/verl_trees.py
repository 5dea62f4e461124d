"""A verl package as far as its configuration tree is read: small, made by hand, for the 0.9 and the 0.8 line."""

from pathlib import Path

from loopai_trainer.records import Versions

PACKAGES = (
    "ray",
    "transferqueue",
    "cachetools",
    "pyzmq",
    "msgspec",
    "fastapi",
    "uvicorn",
    "vllm",
    "sglang",
    "flash-attn",
)

_SHARED = """\
actor_rollout_ref:
  actor:
    optim: {lr: 1.0e-06, weight_decay: 0.01, betas: [0.9, 0.999], lr_scheduler_type: constant, override_optimizer_config: null}
    fsdp_config: {strategy: fsdp, fsdp_size: -1, param_offload: false, optimizer_offload: false, model_dtype: fp32, use_torch_compile: true}
    strategy: fsdp
    ppo_mini_batch_size: 256
    ppo_micro_batch_size: null
    ppo_micro_batch_size_per_gpu: null
    use_dynamic_bsz: false
    ppo_max_token_len_per_gpu: 16384
    clip_ratio: 0.2
    loss_agg_mode: token-mean
    entropy_coeff: 0.0
    use_kl_loss: false
    use_torch_compile: true
    kl_loss_coef: 0.001
    kl_loss_type: low_var_kl
    ppo_epochs: 1
    checkpoint: {save_contents: [model, optimizer, extra], load_contents: '${.save_contents}'}
    ulysses_sequence_parallel_size: 1
  ref:
    strategy: ${actor_rollout_ref.actor.strategy}
    log_prob_micro_batch_size: null
    log_prob_micro_batch_size_per_gpu: null
    log_prob_use_dynamic_bsz: ${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}
    log_prob_max_token_len_per_gpu: ${oc.select:actor_rollout_ref.actor.ppo_max_token_len_per_gpu,16384}
    fsdp_config: {strategy: fsdp, param_offload: false, use_torch_compile: true}
  rollout:
    _target_: verl.workers.config.RolloutConfig
    name: ???
    mode: async
    temperature: 1.0
    top_k: -1
    top_p: 1
    dtype: bfloat16
    gpu_memory_utilization: 0.5
    free_cache_engine: true
    tensor_model_parallel_size: 2
    data_parallel_size: 1
    expert_parallel_size: 1
    pipeline_model_parallel_size: 1
    max_num_batched_tokens: 8192
    max_model_len: null
    max_num_seqs: 256
    enable_chunked_prefill: true
    log_prob_micro_batch_size: null
    log_prob_micro_batch_size_per_gpu: null
    log_prob_use_dynamic_bsz: ${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}
    log_prob_max_token_len_per_gpu: ${oc.select:actor_rollout_ref.actor.ppo_max_token_len_per_gpu,16384}
    n: 1
    engine_kwargs: {vllm: {}, sglang: {}}
    val_kwargs: {n: 1, temperature: 0, do_sample: false}
    multi_turn: {enable: false, tool_config_path: null, function_tool_path: null, format: hermes}
    agent: {num_workers: 8, agent_loop_config_path: null, custom_async_server: {path: null, name: null}}
    prometheus: {enable: false, file: /tmp/p.yml}
    trace: {backend: null}
  model:
    path: ~/models/some
    hf_config_path: null
    tokenizer_path: null
    use_shm: false
    trust_remote_code: false
    custom_chat_template: null
    external_lib: null
    override_config: {}
    enable_gradient_checkpointing: true
    use_remove_padding: true
    lora_rank: 0
    lora_adapter_path: null
    lora: {rank: 0, adapter_path: null}
data:
  tokenizer: null
  train_files: ~/data/train.parquet
  val_files: ~/data/test.parquet
  train_max_samples: -1
  prompt_key: prompt
  max_prompt_length: 512
  max_response_length: 512
  train_batch_size: 1024
  shuffle: true
  seed: null
  dataloader_num_workers: 8
  filter_overlong_prompts: false
  truncation: error
  image_key: images
  video_key: videos
  trust_remote_code: false
  custom_cls: {path: null, name: null}
  apply_chat_template_kwargs: {}
critic: {enable: null}
algorithm:
  adv_estimator: gae
  norm_adv_by_std_in_grpo: true
  use_kl_in_reward: false
  kl_penalty: kl
  kl_ctrl: {type: fixed, kl_coef: 0.001}
ray_kwargs:
  ray_init:
    num_cpus: null
    runtime_env: {py_executable: null}
  timeline_json_file: null
"""

_TRAINER = """\
trainer:
  total_epochs: 30
  total_training_steps: null
  project_name: p
  experiment_name: e
  logger: [console, wandb]
  rollout_data_dir: null
  validation_data_dir: null
  nnodes: 1
  n_gpus_per_node: 8
  save_freq: -1
  resume_mode: auto
  resume_from_path: null
  val_before_train: true
  test_freq: -1
  default_hdfs_dir: null
  default_local_dir: checkpoints/${trainer.project_name}
  max_actor_ckpt_to_keep: null
  device: cuda
"""

_NEW = """\
  use_v1: true
  checkpoint_callback_class: null
  v1:
    trainer_mode: sync
    separate_async: {parameter_sync_step: 4}
    sampler: {custom_sampler: {path: null, name: null}, sampler_kwargs: {}}
reward:
  num_workers: 8
  custom_reward_function: {path: null, name: compute_score}
  reward_manager: {source: register, name: naive, module: {path: null, name: custom_reward_manager}}
  reward_model: {enable: false, model_path: null}
  sandbox_fusion: {url: null}
custom_reward_function: {path: null, name: null}
reward_model: {reward_manager: null}
sandbox_fusion: {url: null}
distillation:
  enabled: false
  elsewhere: {_target_: verl.workers.config.Elsewhere, list_or_text: null, nested: null, several: null, choice: null}
  module: {_target_: verl.trainer.config.config.ModuleConfig, path: null}
  unknown: {_target_: verl.no.such.Module, path: null}
  foreign: {_target_: verl.workers.config.NoSuch, path: null}
transfer_queue: {backend: {storage_backend: SimpleStorage, SimpleStorage: {num_data_storage_units: 8}}}
skip: {rollout: {enable: false, dump_dir: ~/.verl}}
global_profiler: {tool: null, save_path: outputs/profile, finish_hook_cmd: null}
"""

_OLD = """\
  use_legacy_worker_impl: auto
custom_reward_function: {path: null, name: compute_score}
reward_model: {enable: false, reward_manager: naive, model: {path: null}}
"""

_CLASSES = """\
from dataclasses import dataclass, field
from typing import Any, Optional

@dataclass
class BaseConfig:
    temperature: int = 1

@dataclass
class RolloutConfig(BaseConfig):
    name: Optional[str] = None
    temperature: float = 1.0
    top_p: float = 1.0
    max_model_len: Optional[int] = None
    engine_kwargs: dict = field(default_factory=dict)
    val_kwargs: "SamplingConfig" = None
    log_prob_micro_batch_size_per_gpu: int | None = None
    anything: Any = None

@dataclass
class Elsewhere(Unknown, BaseConfig):
    list_or_text: "list[str] | str" = None
    nested: "Optional[RolloutConfig]" = None
    several: typing.Union[int, float, None] = None
    choice: typing.Literal["a", "b"] = "a"
"""

_MODULE = """\
class ModuleConfig:
    path: 'Optional[str]' = None
    def method(self): pass
"""


def make_verl(folder: Path, family: str = "0.9") -> Path:
    """The package folder `verl` below `folder`."""
    package = folder / "verl"
    (package / "trainer" / "config").mkdir(parents=True)
    (package / "workers" / "config").mkdir(parents=True)
    (package / "workers" / "config" / "rollout.py").write_text(_CLASSES)
    (package / "trainer" / "config" / "config.py").write_text(_MODULE)
    tree = _SHARED + _TRAINER + (_NEW if family == "0.9" else _OLD)
    if family == "0.9":
        tree = tree.replace("  train_batch_size: 1024\n", "  train_batch_size: 1024\n  gen_batch_size: null\n")
        tree = tree.replace("  prompt_key:", "  tool_config_path: null\n  prompt_key:")
    (package / "trainer" / "config" / "_generated_ppo_trainer.yaml").write_text(tree)
    return package


def versions_of(package: Path, version: str = "0.9.1", without: tuple[str, ...] = ()) -> Versions:
    """What an environment with that package holds."""
    held = {name: "1.0" for name in PACKAGES if name not in without}
    return Versions("verl", version, "3.11.7", str(package), {"verl": version, **held}, "e" * 64)
