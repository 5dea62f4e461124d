"""The settings of spec/001 that only verl GRPO knows."""

from loopai_trainer.records import Field
from loopai_trainer.rules import sinks

PRESETS = (
    "auto", "verl_builtin", "gsm8k_exact", "math_boxed", "math_dapo", "prime_math", "geometry", "qa_exact_match",
)  # fmt: skip
"""Source: spec/001, "Use exactly one reward mode"."""

FIELDS: tuple[Field, ...] = (
    Field("verl_env_path", "environment of verl: its root, its bin folder or its conda name", "--env", ("VERL_ENV_PATH", "VERL_CONDA_ENV"), kind="path"),
    Field("verl_dir", "checkout of verl; shown only, and never written to", "--backend-dir", ("VERL_DIR",), kind="path"),
    Field("verl_source_dataset_path", "generated records to convert: .json, .jsonl or .parquet", None, ("VERL_SOURCE_DATASET_PATH",), kind="path"),
    Field("verl_source_eval_dataset_path", "generated evaluation records to convert", None, ("VERL_SOURCE_EVAL_DATASET_PATH",), kind="path"),
    Field("verl_data_adapter", "how records are read: auto, native, messages, alpaca, qa, or as an installed package offers by name", "--data-adapter", ("VERL_DATA_ADAPTER",), "auto"),
    Field("verl_data_source", "data_source of records that name none", "--data-source", ("VERL_DATA_SOURCE",)),
    Field("verl_validation_ratio", "share of the prompts (0 to 1) that is held out, if no validation data are given", "--validation-ratio", ("VERL_VALIDATION_RATIO",), 0.05, kind="number"),
    Field("verl_split_seed", "seed of that split", None, ("VERL_SPLIT_SEED",), 42, kind="int"),
    Field("verl_reward_mode", "where the reward comes from", "--reward-mode", ("VERL_REWARD_MODE",), "auto", choices=("auto", "preset", "custom")),
    Field("verl_reward_preset", "verl's scorer, by the launcher's name", "--reward-preset", ("VERL_REWARD_PRESET",), choices=PRESETS),
    Field("verl_reward_function_path", "Python file of a custom reward: FILE[:NAME]", "--reward-function", ("VERL_REWARD_FUNCTION_PATH",), kind="path"),
    Field("verl_reward_function_name", "its function, compute_score if not said otherwise", None, ("VERL_REWARD_FUNCTION_NAME",)),
    Field("verl_reward_kwargs", "further keyword arguments of the reward, a JSON object", "--reward-kwargs", ("VERL_REWARD_KWARGS",), kind="json"),
    Field("verl_algorithm", "reinforcement learning algorithm", None, ("VERL_ALGORITHM",), "grpo", choices=("grpo",)),
    Field("verl_entrypoint", "module of verl that trains", None, ("VERL_ENTRYPOINT",), "verl.trainer.main_ppo", choices=("verl.trainer.main_ppo",)),
    Field("verl_model_backend", "how the model is spread over GPUs; which FSDP says the template", None, ("VERL_MODEL_BACKEND",), "fsdp", choices=("fsdp",)),
    Field("verl_rollout_backend", "what generates the replies", None, ("VERL_ROLLOUT_BACKEND",), choices=("vllm", "sglang")),
    Field("verl_selection_metric", "validation metric that chooses the checkpoint; may hold *", None, ("VERL_SELECTION_METRIC",), "val-core/*/acc/mean@*"),
    Field("verl_selection_mode", "whether more or less of it is better", None, ("VERL_SELECTION_MODE",), "max", choices=("max", "min", "maximize", "minimize")),
    Field("verl_export_huggingface", "make a Hugging Face model of the chosen checkpoint", None, default=True, kind="bool"),
    Field("verl_max_actor_ckpt_to_keep", "checkpoints that verl keeps", None, ("VERL_MAX_ACTOR_CKPT_TO_KEEP",), kind="int"),
    Field("verl_inherit_previous_config", "start from the last successful round's approved hyper-parameters", None, ("VERL_INHERIT_PREVIOUS_CONFIG",), True, kind="bool"),
    Field("verl_use_previous_best_model", "go on with the last successful round's exported model", None, ("VERL_USE_PREVIOUS_BEST_MODEL",), True, kind="bool"),
    Field("verl_reuse_previous_validation", "keep the last round's validation data while the reward is the same", None, ("VERL_REUSE_PREVIOUS_VALIDATION",), True, kind="bool"),
    Field("verl_multi_round_enabled", "export, and save at a positive cadence, so that another round can follow", None, ("VERL_MULTI_ROUND_ENABLED",), True, kind="bool"),
    *sinks.fields(),
)  # fmt: skip
