"""The settings that only this backend knows."""

from loopai_trainer.records import Field
from loopai_trainer.rules import sinks

FIELDS: tuple[Field, ...] = (
    Field(
        "llamafactory_env_path",
        "environment of LLaMA-Factory: its root, its bin folder or its conda name",
        "--env",
        ("LLAMAFACTORY_ENV_PATH",),
        kind="path",
    ),
    Field(
        "llamafactory_dir",
        "checkout of LLaMA-Factory; shown only, and never written to",
        "--backend-dir",
        ("LLAMAFACTORY_DIR",),
        kind="path",
    ),
    Field(
        "train_input_dataset_info",
        "LLaMA-Factory registry that describes the data: FILE[:NAME]",
        "--dataset-info",
        ("TRAIN_DATASET_INFO",),
        aliases=("dataset_info",),
    ),
    Field(
        "export_huggingface",
        "merge the chosen adapter into its base model after training",
        None,
        ("EXPORT_HUGGINGFACE",),
        default=False,
        kind="bool",
    ),
    *sinks.fields(),
)
