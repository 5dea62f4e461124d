"""The flags that say what is to be trained: the same for every verb that makes a plan of them, or shows them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopai_trainer.cli import completion, options

if TYPE_CHECKING:
    from loopai_trainer.operations.sources import Request

MakeRequest = Callable[[], "Request"]
"""Makes the request of the flags; raises UsageError, so it is called where refusals are caught."""


def flags(
    dataset: Annotated[str | None, typer.Option(metavar="FILE", help="Training data: .json (list), .jsonl, .parquet.")] = None,
    eval_dataset: Annotated[str | None, typer.Option(metavar="FILE", help="Evaluation data, same formats.")] = None,
    dataset_info: Annotated[str | None, typer.Option(metavar="FILE[:NAME]", help="LLaMA-Factory registry whose entry describes the data.")] = None,
    model: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the base model.")] = None,
    task_description: Annotated[str | None, typer.Option(metavar="TEXT", help="What is trained, in a sentence.")] = None,
    template: Annotated[str | None, typer.Option(metavar="FILE|NAME", help="YAML template; see `trainer templates`.", autocompletion=completion.templates)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A key of the backend; beats template and rules.")] = None,
    env: Annotated[str | None, typer.Option(metavar="PATH|NAME", help="Backend environment: root, bin folder or conda name.")] = None,
    backend_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Checkout of the backend.")] = None,
    devices: Annotated[str | None, typer.Option(metavar="LIST", help="CUDA_VISIBLE_DEVICES for training.")] = None,
    executor: Annotated[str | None, typer.Option(metavar="local|ray_jobs", help="Where the worker runs: this host, or a Ray cluster.", autocompletion=completion.words("local", "ray_jobs"))] = None,
    ray_address: Annotated[str | None, typer.Option(metavar="URL", help="Job server of the Ray cluster: http://HEAD:8265.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes that train together.")] = None,
    config_mode: Annotated[str | None, typer.Option(metavar="rules|llm|template", help="Adjust the template by keyword rules, a language model, or not at all.", autocompletion=completion.words("rules", "llm", "template"))] = None,
    bad_rows: Annotated[str | None, typer.Option(metavar="reject|skip", help="Rows that cannot be trained on: stop, or leave out.", autocompletion=completion.words("reject", "skip"))] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of the validation split.")] = None,
    data_adapter: Annotated[str | None, typer.Option(metavar="auto|native|messages|alpaca|qa|NAME", help="verl: how records are read.", autocompletion=completion.words("auto", "native", "messages", "alpaca", "qa"))] = None,
    data_source: Annotated[str | None, typer.Option(metavar="NAME", help="verl: data_source of records that name none.")] = None,
    validation_ratio: Annotated[float | None, typer.Option(help="verl: share of the prompts that is held out.")] = None,
    reward_mode: Annotated[str | None, typer.Option(metavar="auto|preset|custom", help="verl: where the reward comes from.", autocompletion=completion.words("auto", "preset", "custom"))] = None,
    reward_preset: Annotated[str | None, typer.Option(metavar="NAME", help="verl: the scorer, by the launcher's name.")] = None,
    reward_function: Annotated[str | None, typer.Option(metavar="FILE[:NAME]", help="verl: Python file of a custom reward.")] = None,
    reward_kwargs: Annotated[str | None, typer.Option(metavar="JSON", help="verl: further arguments of the reward.")] = None,
    framework: Annotated[str | None, typer.Option(help="Training framework.")] = None,
    stage: Annotated[str | None, typer.Option(help="Training stage.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="starter.yaml with system: and default_states:.")] = None,
    state: Annotated[str | None, typer.Option(metavar="FILE", help="Explicit state, JSON or YAML.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="VERSION", help="Continue that stopped run from its newest complete checkpoint.", autocompletion=completion.versions)] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Any other setting by its name.")] = None,
    task_id: options.TaskId = None,
    version_id: Annotated[str | None, typer.Option(metavar="ID", help="Id of this run; made anew if left out.")] = None,
    db_path: Annotated[str | None, typer.Option("--db-path", metavar="FILE", help="LoopAI's task store, a SQLite file.")] = None,
    output_dir: options.OutputDir = None,
    trainer_output_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Run directory, instead of the one inside --output-dir.")] = None,
) -> None:  # fmt: skip
    """Never called: its parameters are the flags."""


_SETTINGS: Mapping[str, str] = {
    "dataset": "train_input_dataset_path",
    "eval_dataset": "train_input_eval_dataset_path",
    "dataset_info": "train_input_dataset_info",
    "model": "train_input_model_name",
    "task_description": "train_input_task_description",
    "template": "train_input_config_template_path",
    "devices": "CUDA_VISIBLE_DEVICES",
    "executor": "executor",
    "ray_address": "ray_address",
    "nodes": "nodes",
    "config_mode": "config_mode",
    "bad_rows": "bad_rows",
    "split_seed": "split_seed",
    "framework": "train_framework",
    "stage": "train_stage",
    "task_id": "task_id",
    "version_id": "trainer_version_id",
    "db_path": "db_path",
    "output_dir": "output_dir",
    "trainer_output_dir": "trainer_output_dir",
}
"""Flag's parameter -> setting."""

_BACKEND_FLAGS: Mapping[str, str] = {
    "env": "--env",
    "backend_dir": "--backend-dir",
    "data_adapter": "--data-adapter",
    "data_source": "--data-source",
    "validation_ratio": "--validation-ratio",
    "reward_mode": "--reward-mode",
    "reward_preset": "--reward-preset",
    "reward_function": "--reward-function",
    "reward_kwargs": "--reward-kwargs",
}
"""Flag's parameter -> flag, where the setting is called differently by each backend."""


def taken_by(command: Callable[..., None], *, without: Sequence[str] = ()) -> Callable[..., None]:
    """`command` with the flags in the place of its first parameter, which gets a MakeRequest of them.

    `without`: parameters of `flags` that mean nothing to this verb.
    """
    shared = [one for one in inspect.signature(flags, eval_str=True).parameters.values() if one.name not in without]
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    def called(**values: Any) -> None:
        told = {one.name: values.pop(one.name) for one in shared}
        command(lambda: _request(told), **values)

    # typer reads both.
    called.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined] # functions may have one
    called.__annotations__ = {one.name: one.annotation for one in (*shared, *own)}
    called.__doc__ = command.__doc__
    return called


def _request(told: Mapping[str, Any]) -> Request:
    from loopai_trainer.operations.sources import Request, named_options

    given = {name: value for name, value in told.items() if value is not None}
    keyword = {setting: given[name] for name, setting in _SETTINGS.items() if name in given}
    return Request(
        {**named_options(given.get("option", ())), **keyword},
        os.environ,
        config_path=given.get("config"),
        state_path=given.get("state"),
        overrides=given.get("set_", ()),
        backend_flags={flag: str(given[name]) for name, flag in _BACKEND_FLAGS.items() if name in given},
        resume=given.get("resume"),
    )
