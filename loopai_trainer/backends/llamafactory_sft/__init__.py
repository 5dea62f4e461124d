"""LLaMA-Factory supervised fine-tuning: the answers to the contract, each from the file that owns the question.

Light on purpose: the worker imports this before training's exec, so each answer loads its file when it is asked.
"""

from __future__ import annotations

from loopai_trainer.backends.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from loopai_trainer.contract import Backend, RowCheck, RowMeter
    from loopai_trainer.records import (
        ApprovedPlan,
        Artefact,
        Checkpoint,
        Command,
        DataReport,
        DevPlan,
        Environment,
        EnvironmentSpec,
        Field,
        Host,
        Launch,
        LaunchPaths,
        LogFact,
        MetricRow,
        Mode,
        Model,
        Placement,
        Plan,
        Problem,
        Settings,
        Versions,
    )


class LlamaFactorySft(Plain):
    """The backend llamafactory/sft (see contract.Backend for what each method answers)."""

    name = "llamafactory"
    package = "llamafactory"
    stages: tuple[str, ...] = ("sft",)

    def fields(self) -> tuple[Field, ...]:
        """Settings of spec/001 that only this backend knows."""
        from loopai_trainer.backends.llamafactory_sft.fields import FIELDS

        return FIELDS

    def row_check(self, settings: Settings, sample: Sequence[object]) -> tuple[str, RowCheck]:
        """By the user's own registry entry, else Alpaca, ShareGPT or messages by the first rows."""
        from loopai_trainer.rules.rows import row_check_for
        from loopai_trainer.rules.rows.mapping import DATASET_MAP, mapped_check

        mapping = settings.values.get(DATASET_MAP)
        return row_check_for(sample) if mapping is None else mapped_check(mapping, sample)

    def probe(self, environment: Environment) -> Versions:
        """The installed llamafactory and everything beside it."""
        from loopai_trainer.host.environments import read_versions

        return read_versions(environment, self.package)

    def environment_spec(self) -> EnvironmentSpec | None:
        """The pinned set that `trainer setup llamafactory` installs."""
        from loopai_trainer.backends.llamafactory_sft.requirements import environment_spec

        return environment_spec()

    def file_keys(self) -> tuple[str, ...]:
        """DeepSpeed, FSDP and accelerate JSON."""
        from loopai_trainer.backends.llamafactory_sft.coverage import FILE_KEYS

        return FILE_KEYS

    def owned_keys(self) -> Mapping[str, str]:
        """Identity, data and output folder."""
        from loopai_trainer.backends.llamafactory_sft.draft import OWNED_KEYS

        return OWNED_KEYS

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        """A plan that says use_cpu is a CPU smoke one: it names no devices, whatever CUDA_VISIBLE_DEVICES says here."""
        from loopai_trainer.records import Placement

        if native.get("use_cpu") is True:
            return Placement("", settings.values.get("nproc_per_node") or 1)
        return super().placement(settings, native)

    def result_block(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """As for every supervised training; the merge of an adapter only if it is asked for."""
        wanted = settings.values.get("export_huggingface") is True
        return {**super().result_block(settings, data), "export_huggingface": wanted}

    def launch_env(self, settings: Settings, run: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """SwanLab's mode is a native key here."""
        env, pass_env = super().launch_env(settings, run)
        return {name: value for name, value in env.items() if name != "SWANLAB_MODE"}, pass_env

    def template_problems(
        self, template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions
    ) -> list[Problem]:
        """Against the installed version's own argument classes."""
        from loopai_trainer.backends.llamafactory_sft.template import template_problems

        return template_problems(template, lines, versions)

    def draft(
        self, settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
    ) -> dict[str, Any]:
        """LLaMA-Factory's keys, in reading order."""
        from loopai_trainer.backends.llamafactory_sft.draft import draft

        return draft(settings, data, base, model, paths)

    def check(self, plan: Plan, versions: Versions, host: Host) -> list[Problem]:
        """Identity, coverage, output, evaluation, saving, method, model folder, devices, disk."""
        from loopai_trainer.backends.llamafactory_sft.check import check

        return check(plan, versions, host)

    def row_meter(self, plan: Plan, versions: Versions) -> tuple[RowMeter | None, list[Problem]]:
        """The model's own tokenizer, the chosen template and LLaMA-Factory's way to cut."""
        from loopai_trainer.backends.llamafactory_sft.lengths import row_meter

        return row_meter(plan, versions)

    def launch_problems(self, plan: Plan) -> list[Problem]:
        """A fixed MASTER_PORT that is taken."""
        from loopai_trainer.backends.llamafactory_sft.launch import launch_problems

        return launch_problems(plan)

    def summary(self, plan: Plan) -> dict[str, Any]:
        """For the approval view."""
        from loopai_trainer.backends.llamafactory_sft.view import summary

        return summary(plan)

    def red_flags(self, plan: Plan) -> list[Problem]:
        """For the top of the approval view."""
        from loopai_trainer.backends.llamafactory_sft.view import red_flags

        return red_flags(plan)

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        """`llamafactory-cli train train.yaml`, in `launch/`."""
        from loopai_trainer.backends.llamafactory_sft.launch import build_launch

        return build_launch(approved, paths, inherited)

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """Lines of trainer_log.jsonl."""
        from loopai_trainer.backends.llamafactory_sft.metrics import read_metrics

        return read_metrics(lines)

    def metrics_file(self, paths: LaunchPaths) -> str:
        """checkpoints/trainer_log.jsonl."""
        from loopai_trainer.backends.llamafactory_sft.metrics import metrics_file

        return metrics_file(paths)

    def read_log(self, lines: Iterable[str]) -> list[LogFact]:
        """Both streams; batches have to overlap by log.OVERLAP_LINES lines."""
        from loopai_trainer.backends.llamafactory_sft.log import read_log

        return read_log(lines)

    def resume_problems(self, checkpoint: Checkpoint, before: Plan) -> list[Problem]:
        """Weights, optimizer, scheduler and the random state of every process have to be there, and whole."""
        from loopai_trainer.backends.llamafactory_sft.resume import checkpoint_problems

        return checkpoint_problems(checkpoint, before)

    def resume_keys(self, path: str) -> dict[str, Any]:
        """resume_from_checkpoint."""
        from loopai_trainer.backends.llamafactory_sft.resume import resume_keys

        return resume_keys(path)

    def dev_plan(self, plan: Plan, versions: Versions) -> DevPlan:
        """Two steps on 16 rows, evaluated and saved once."""
        from loopai_trainer.backends.llamafactory_sft.dev import dev_plan

        return dev_plan(plan)

    @property
    def log_marks(self) -> Mapping[str, Sequence[bytes]]:
        """What a line has to hold to be of interest (contract.MarksLog)."""
        from loopai_trainer.backends.llamafactory_sft.log import MARKS

        return MARKS

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        """The approved rows; nothing where packing joins rows."""
        from loopai_trainer.backends.llamafactory_sft.schedule import expected_examples

        return expected_examples(plan)

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """checkpoint-N folders."""
        from loopai_trainer.backends.llamafactory_sft.checkpoints import find_checkpoints

        return find_checkpoints(folder)

    def final_artefact(self, folder: str) -> Artefact:
        """The weights beside the checkpoint-N folders."""
        from loopai_trainer.backends.llamafactory_sft.checkpoints import final_artefact

        return final_artefact(folder)

    def selection(self, plan: Plan) -> tuple[str | None, Mode | None]:
        """SFT goes by spec/001's order of metrics; the YAML names none of its own."""
        return None, None

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        """`llamafactory-cli export` for an adapter."""
        from loopai_trainer.backends.llamafactory_sft.export import export

        return export(plan, checkpoint, destination)

    def export_files(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Mapping[str, str]:
        """The YAML of that command."""
        from loopai_trainer.backends.llamafactory_sft.export import export_files

        return export_files(plan, checkpoint, destination)

    def export_problems(self, plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
        """A quantised base, a changed vocabulary, changed base weights."""
        from loopai_trainer.backends.llamafactory_sft.export import export_problems

        return export_problems(plan, checkpoint)

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        """Against the base model's headers, config and generation settings, and the training's tokenizer."""
        from loopai_trainer.backends.llamafactory_sft.export import verify_export

        return verify_export(plan, folder)

    def explain_failure(self, log_tail: Sequence[str]) -> tuple[str, str] | None:
        """The first rank's own error, and what to do."""
        from loopai_trainer.backends.llamafactory_sft.failures import explain_failure

        return explain_failure(log_tail)


BACKEND: Backend = LlamaFactorySft()
