"""Settings that only Agent Lightning's backend knows, and general ones that mean something else to it."""

from __future__ import annotations

from loopai_trainer.records import Field

API_KEY_ENV = "agentlightning_api_key_env"

_OWN = (
    Field(
        "agentlightning_env_path", "environment with agentlightning: its root, bin folder or conda name", "--env",
        ("AGENTLIGHTNING_ENV_PATH",), kind="path",
    ),
    Field(
        API_KEY_ENV, "name of the variable that holds the key of the optimiser's endpoint", None,
        ("AGENTLIGHTNING_API_KEY_ENV",), "OPENAI_API_KEY",
    ),
    Field(
        "train_input_dataset_path", "tasks: .json (list), .jsonl or .parquet, one object a task", "--dataset",
        ("TRAIN_DATASET_PATH",), required=True, kind="path",
    ),
    Field(
        "train_input_task_description", "what the agent is for, in a sentence", "--task-description",
        ("TRAIN_TASK_DESCRIPTION",),
    ),
)  # fmt: skip
_NO_MODEL = Field(
    "train_input_model_name", "not used: this stage trains no model", "--model", ("TRAIN_MODEL_PATH",), kind="path",
    aliases=("model_path",),
)  # fmt: skip


def fields(stage: str) -> tuple[Field, ...]:
    """All of a stage; a field that has the name of a general one takes its place."""
    return _OWN if stage == "grpo" else (*_OWN, _NO_MODEL)
