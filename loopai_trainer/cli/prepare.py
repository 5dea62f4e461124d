"""`trainer prepare`: validate everything, write the final YAML, show it for approval. Nothing starts."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from loopai_trainer.cli import options
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.operations.answer import Answer

if TYPE_CHECKING:
    from loopai_trainer.operations.prepare import Progress

NAME = "prepare"
HELP = "Validate data and plan, write the final YAML and its hash. Starts nothing."


class Printed(StrEnum):
    """What `--print` can give to a shell script."""

    config_path = "config_path"
    config_sha256 = "config_sha256"
    trainer_version_id = "trainer_version_id"


def command(
    dataset: Annotated[str | None, typer.Option(metavar="FILE", help="Training data: .json (list), .jsonl, .parquet.")] = None,
    eval_dataset: Annotated[str | None, typer.Option(metavar="FILE", help="Evaluation data, same formats.")] = None,
    dataset_info: Annotated[str | None, typer.Option(metavar="FILE[:NAME]", help="LLaMA-Factory registry whose entry describes the data.")] = None,
    model: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the base model.")] = None,
    task_description: Annotated[str | None, typer.Option(metavar="TEXT", help="What is trained, in a sentence.")] = None,
    template: Annotated[str | None, typer.Option(metavar="FILE|NAME", help="YAML template; see `trainer templates`.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A key of the backend; beats template and rules.")] = None,
    env: Annotated[str | None, typer.Option(metavar="PATH|NAME", help="Backend environment: root, bin folder or conda name.")] = None,
    backend_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Checkout of the backend.")] = None,
    devices: Annotated[str | None, typer.Option(metavar="LIST", help="CUDA_VISIBLE_DEVICES for training.")] = None,
    config_mode: Annotated[str | None, typer.Option(metavar="rules|template", help="Adjust the template by keyword rules, or not at all.")] = None,
    bad_rows: Annotated[str | None, typer.Option(metavar="reject|skip", help="Rows that cannot be trained on: stop, or leave out.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of the validation split.")] = None,
    data_adapter: Annotated[str | None, typer.Option(metavar="auto|native|messages|alpaca|qa", help="verl: how records are read.")] = None,
    data_source: Annotated[str | None, typer.Option(metavar="NAME", help="verl: data_source of records that name none.")] = None,
    validation_ratio: Annotated[float | None, typer.Option(help="verl: share of the prompts that is held out.")] = None,
    reward_mode: Annotated[str | None, typer.Option(metavar="auto|preset|custom", help="verl: where the reward comes from.")] = None,
    reward_preset: Annotated[str | None, typer.Option(metavar="NAME", help="verl: the scorer, by the launcher's name.")] = None,
    reward_function: Annotated[str | None, typer.Option(metavar="FILE[:NAME]", help="verl: Python file of a custom reward.")] = None,
    reward_kwargs: Annotated[str | None, typer.Option(metavar="JSON", help="verl: further arguments of the reward.")] = None,
    framework: Annotated[str | None, typer.Option(help="Training framework.")] = None,
    stage: Annotated[str | None, typer.Option(help="Training stage.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="starter.yaml with system: and default_states:.")] = None,
    state: Annotated[str | None, typer.Option(metavar="FILE", help="Explicit state, JSON or YAML.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="VERSION", help="Continue that stopped run from its newest complete checkpoint.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Any other setting by its name.")] = None,
    task_id: options.TaskId = None,
    version_id: Annotated[str | None, typer.Option(metavar="ID", help="Id of this run; made anew if left out.")] = None,
    output_dir: options.OutputDir = None,
    trainer_output_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Run directory, instead of the one inside --output-dir.")] = None,
    print_: Annotated[Printed | None, typer.Option("--print", help="Print that one value alone.")] = None,
    json: options.Json = False,
    no_color: options.NoColor = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Parse; one operation; one view."""
    from loopai_trainer.operations.prepare import prepare
    from loopai_trainer.operations.sources import Request, named_options

    output = Output(json=json, no_color=no_color, quiet=quiet)

    def operation() -> Answer:
        keyword = {
            "train_input_dataset_path": dataset,
            "train_input_eval_dataset_path": eval_dataset,
            "train_input_dataset_info": dataset_info,
            "train_input_model_name": model,
            "train_input_task_description": task_description,
            "train_input_config_template_path": template,
            "CUDA_VISIBLE_DEVICES": devices,
            "config_mode": config_mode,
            "bad_rows": bad_rows,
            "split_seed": split_seed,
            "train_framework": framework,
            "train_stage": stage,
            "task_id": task_id,
            "trainer_version_id": version_id,
            "output_dir": output_dir,
            "trainer_output_dir": trainer_output_dir,
        }
        flags = {
            "--env": env,
            "--backend-dir": backend_dir,
            "--data-adapter": data_adapter,
            "--data-source": data_source,
            "--validation-ratio": None if validation_ratio is None else str(validation_ratio),
            "--reward-mode": reward_mode,
            "--reward-preset": reward_preset,
            "--reward-function": reward_function,
            "--reward-kwargs": reward_kwargs,
        }
        request = Request(
            {**named_options(option or ()), **{k: v for k, v in keyword.items() if v is not None}},
            os.environ,
            config_path=config,
            state_path=state,
            overrides=set_ or (),
            backend_flags={flag: value for flag, value in flags.items() if value is not None},
            resume=resume,
        )
        return prepare(request, _progress(output))

    only = print_.value if print_ else None
    raise typer.Exit(finish(NAME, output, operation, only=only))


def _progress(output: Output) -> Progress | None:
    from loopai_trainer.cli.progress import bytes_progress

    return bytes_progress(output)
