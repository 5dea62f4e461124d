"""A GRPO plan small enough to rehearse anywhere: Parquet rows, a tokenizer, and verl's keys for a CPU smoke."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fakes.tokenizer_files import write_tokenizer
from loopai_trainer.backends.verl_grpo import reward
from loopai_trainer.records import DataReport, LaunchPaths, Plan, PromptFacts, Settings

TRUTHS = ("72", "27", "90", "20", "5", "-3")


def rows(
    truths: Sequence[Any] = TRUTHS, source: str = "openai/gsm8k", content: str = "How many?"
) -> list[dict[str, Any]]:
    """Native rows, one a ground truth."""
    return [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"{content} ({number})"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {"split": "train", "index": number},
        }
        for number, truth in enumerate(truths)
    ]


def write_rows(path: Path, table: Sequence[Mapping[str, Any]]) -> Path:
    """As verl's own Parquet has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(table)), path)
    return path


def make_model(folder: Path) -> Path:
    """Tokenizer and config alone: nothing here loads weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 16, "num_attention_heads": 2,
        "num_key_value_heads": 2, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 300,
        "max_position_embeddings": 4096,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    return folder


def native(train: Path, validation: Path, model: Path, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What differs from verl's defaults; `more`: dotted keys."""
    values: dict[str, Any] = {
        "algorithm": {"adv_estimator": "grpo"},
        "data": {
            "train_files": str(train), "val_files": str(validation), "train_batch_size": 2,
            "max_prompt_length": 128, "max_response_length": 16,
        },
        "actor_rollout_ref": {
            "model": {"path": str(model), "use_remove_padding": False},
            "actor": {
                "ppo_mini_batch_size": 2, "ppo_micro_batch_size_per_gpu": 2, "strategy": "fsdp2",
                "fsdp_config": {"strategy": "fsdp2"}, "use_kl_loss": False,
            },
            "rollout": {
                "name": "loopai_cpu", "n": 2, "tensor_model_parallel_size": 1, "log_prob_micro_batch_size_per_gpu": 2,
            },
        },
        "trainer": {"device": "cpu", "n_gpus_per_node": 1, "nnodes": 1, "logger": ["console", "file"]},
    }  # fmt: skip
    for key, value in (more or {}).items():
        place = values
        *path, last = key.split(".")
        for name in path:
            place = place.setdefault(name, {})
        place[last] = value
    return values


def make_plan(
    root: Path,
    *,
    train: Path,
    validation: Path,
    settings: Mapping[str, Any],
    python: str,
    more: Mapping[str, Any] | None = None,
    checks: Mapping[str, Any] | None = None,
    family: str = "0.9",
) -> tuple[Plan, LaunchPaths]:
    """The plan that prepare would make of it, with the reward's file copied into `inputs/`."""
    asked = Settings({"verl_reward_mode": "auto", **settings}, {})
    counts: dict[str, int] = {}
    for path in (train, validation):
        for source in pyarrow.parquet.read_table(path)["data_source"].to_pylist():
            counts[source] = counts.get(source, 0) + 1
    block = reward.reward_block(asked, DataReport((), (), {}, prompts=PromptFacts(counts, {}, {}, native=True)))
    inputs = root / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for name, source in reward.input_files(asked).items():
        shutil.copyfile(source, inputs / name)
    keys = native(train, validation, make_model(root / "model"), more)
    place = "reward" if family == "0.9" else "custom_reward_function"
    keys[place] = {**keys.get(place, {}), **reward.native_keys(block, str(inputs), family)}
    loopai = {"backend": {"python": python, "version": "0.9.1"}, "reward": block}
    if checks:
        loopai["checks"] = dict(checks)
    plan = Plan("", "", "task", "version", "verl", "grpo", {"loopai": loopai, "result": {}, **keys})
    paths = LaunchPaths(
        *(str(root / name) for name in ("", "launch", "checkpoints", "metrics", "cache", "tmp", "inputs"))
    )
    return plan, paths
