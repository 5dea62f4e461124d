"""verl FSDP GRPO: the answers to the contract, each from the file that owns the question.

Light on purpose: the worker imports this before training's exec, so each answer loads its file when it is asked.
What runs inside verl's own environment lies in `inside/` and is never imported here.
"""

from __future__ import annotations

from loopai_trainer.backends.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal

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
        Question,
        Rehearsal,
        Resolved,
        Settings,
        Versions,
    )


class VerlGrpo(Plain):
    """The backend verl/grpo (see contract.Backend for what each method answers)."""

    name = "verl"
    package = "verl"
    stages: tuple[str, ...] = ("grpo",)
    data_kind: Literal["chat", "prompts", "tasks"] = "prompts"
    losses_decide = False
    joins_cluster = True
    judged_by: tuple[str, ...] = ("actor/loss", "actor/grad_norm", "critic/score/mean")
    """Other keys are null in healthy runs. Source: interface section 7."""

    def fields(self) -> tuple[Field, ...]:
        """Settings of spec/001 that only this backend knows."""
        from loopai_trainer.backends.verl_grpo.fields import FIELDS

        return FIELDS

    def row_check(self, settings: Settings, sample: Sequence[object]) -> tuple[str, RowCheck]:
        """Chats are not what GRPO trains on: prompts are read by rules.prompts."""
        from loopai_trainer.errors import ConfigError

        raise ConfigError("verl trains on prompts with a ground truth", hint="use --framework llamafactory for chats")

    def probe(self, environment: Environment) -> Versions:
        """The installed verl and everything beside it."""
        from loopai_trainer.host.environments import read_versions

        return read_versions(environment, self.package)

    def environment_spec(self) -> EnvironmentSpec | None:
        """The pinned set that `trainer setup verl` installs."""
        from loopai_trainer.backends.verl_grpo.requirements import environment_spec

        return environment_spec()

    def file_keys(self) -> tuple[str, ...]:
        """Tool and agent configurations that a template may name."""
        from loopai_trainer.backends.verl_grpo.coverage import FILE_KEYS

        return FILE_KEYS

    def owned_keys(self) -> Mapping[str, str]:
        """Identity, data, model, reward, checkpoints and logging."""
        from loopai_trainer.backends.verl_grpo.draft import OWNED_KEYS

        return OWNED_KEYS

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        """One process: verl's own leader, whatever number of GPUs its Ray workers take."""
        from loopai_trainer.backends.verl_grpo.draft import placement

        return placement(settings, native)

    def reserved(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """`reward`: mode, preset, function, name, kwargs and where the choice comes from."""
        from loopai_trainer.backends.verl_grpo.reward import reward_block

        return {"reward": reward_block(settings, data)}

    def result_block(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """The validation metric of the settings."""
        from loopai_trainer.backends.verl_grpo.draft import result_block

        return result_block(settings)

    def input_files(self, settings: Settings, native: Mapping[str, Any]) -> Mapping[str, str]:
        """The reward router or the custom reward, and the CPU smoke plug-in where the plan is a CPU one."""
        from loopai_trainer.backends.verl_grpo.coverage import input_files

        return input_files(settings, native)

    def resolve(self, native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> Question | None:
        """verl's own Hydra files, composed with the native keys."""
        from loopai_trainer.backends.verl_grpo.compose import resolve

        return resolve(native, environment, paths)

    def resolved(self, answer: bytes) -> Resolved:
        """The resolved configuration, or what Hydra refused."""
        from loopai_trainer.backends.verl_grpo.compose import resolved

        return resolved(answer)

    def rehearse(self, plan: Plan, versions: Versions, paths: LaunchPaths) -> Question | None:
        """verl's own validation, the reward on real rows, the lengths of prompts."""
        from loopai_trainer.backends.verl_grpo.rehearsal import rehearse

        return rehearse(plan, versions, paths)

    def rehearsed(self, plan: Plan, answer: bytes) -> Rehearsal:
        """Its findings."""
        from loopai_trainer.backends.verl_grpo.rehearsal import rehearsed

        return rehearsed(plan, answer)

    def template_problems(
        self, template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions
    ) -> list[Problem]:
        """Against the installed version's own configuration tree."""
        from loopai_trainer.backends.verl_grpo.template import template_problems

        return template_problems(template, lines, versions)

    def draft(
        self, settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
    ) -> dict[str, Any]:
        """verl's keys, short: only what differs from its defaults, and every choice to be seen."""
        from loopai_trainer.backends.verl_grpo.draft import draft

        return draft(settings, data, base, model, paths)

    def check(self, plan: Plan, versions: Versions, host: Host) -> list[Problem]:
        """Divisibility, enumerations, coverage, model, devices, disk: what verl would find after minutes or never."""
        from loopai_trainer.backends.verl_grpo.check import check

        return check(plan, versions, host)

    def row_meter(self, plan: Plan, versions: Versions) -> tuple[RowMeter | None, list[Problem]]:
        """Prompts are measured by the rehearsal, with the model's own tokenizer inside the environment."""
        return None, []

    def launch_problems(self, plan: Plan) -> list[Problem]:
        """Nothing that only the moment of launching shows."""
        return []

    def summary(self, plan: Plan) -> dict[str, Any]:
        """For the approval view."""
        from loopai_trainer.backends.verl_grpo.view import summary

        return summary(plan)

    def red_flags(self, plan: Plan) -> list[Problem]:
        """For the top of the approval view."""
        from loopai_trainer.backends.verl_grpo.view import red_flags

        return red_flags(plan)

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        """`python -m verl.trainer.main_ppo` on the one resolved file in `launch/`."""
        from loopai_trainer.backends.verl_grpo.launch import build_launch

        return build_launch(approved, paths, inherited)

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """Lines of verl's file logger."""
        from loopai_trainer.backends.verl_grpo.metrics import read_metrics

        return read_metrics(lines)

    def metrics_file(self, paths: LaunchPaths) -> str:
        """metrics/verl_metrics-<attempt>.jsonl: verl truncates its file at every start."""
        from loopai_trainer.backends.verl_grpo.metrics import metrics_file

        return metrics_file(paths)

    def read_log(self, lines: Iterable[str]) -> list[LogFact]:
        """The sizes of the datasets, the number of steps and the phase."""
        from loopai_trainer.backends.verl_grpo.log import read_log

        return read_log(lines)

    @property
    def log_marks(self) -> Mapping[str, Sequence[bytes]]:
        """What a line has to hold to be of interest (contract.MarksLog)."""
        from loopai_trainer.backends.verl_grpo.log import MARKS

        return MARKS

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        """The approved rows, where verl reports all that it keeps."""
        from loopai_trainer.backends.verl_grpo.log import expected_examples

        return expected_examples(plan)

    def lost(self, plan: Plan, row: MetricRow) -> str:
        """One of the deciding metrics is null or not finite: the weights are poisoned."""
        from loopai_trainer.backends.verl_grpo.metrics import lost

        return lost(plan, row)

    def step_problems(self, paths: LaunchPaths, step: int) -> list[Problem]:
        """Samples that verl made up because the reward raised."""
        from loopai_trainer.backends.verl_grpo.rollouts import step_problems

        return step_problems(paths, step)

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """global_step_N folders."""
        from loopai_trainer.backends.verl_grpo.checkpoints import find_checkpoints

        return find_checkpoints(folder)

    def final_artefact(self, folder: str) -> Artefact:
        """The newest checkpoint."""
        from loopai_trainer.backends.verl_grpo.checkpoints import final_artefact

        return final_artefact(folder)

    def selection(self, plan: Plan) -> tuple[str | None, Mode | None]:
        """`result.selection_metric` and `selection_mode` of the approved YAML."""
        from loopai_trainer.backends.verl_grpo.metrics import selection

        return selection(plan)

    def explain_failure(self, log_tail: Sequence[str]) -> tuple[str, str] | None:
        """The first error of verl's own processes, and what to do."""
        from loopai_trainer.backends.verl_grpo.failures import explain_failure

        return explain_failure(log_tail)

    def resume_problems(self, checkpoint: Checkpoint, before: Plan) -> list[Problem]:
        """Shards of every rank, optimizer and random states, the place in the data; all whole."""
        from loopai_trainer.backends.verl_grpo.resume import checkpoint_problems

        return checkpoint_problems(checkpoint, before)

    def resume_keys(self, path: str) -> dict[str, Any]:
        """trainer.resume_mode and trainer.resume_from_path."""
        from loopai_trainer.backends.verl_grpo.resume import resume_keys

        return resume_keys(path)

    def dev_plan(self, plan: Plan, versions: Versions) -> DevPlan:
        """Two steps of a small batch, validated and saved once."""
        from loopai_trainer.backends.verl_grpo.dev import dev_plan

        return dev_plan(plan, versions)

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        """`python -m verl.model_merger`."""
        from loopai_trainer.backends.verl_grpo.export import export

        return export(plan, checkpoint, destination)

    def export_problems(self, plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
        """Shards, config and tokenizer."""
        from loopai_trainer.backends.verl_grpo.export import export_problems

        return export_problems(plan, checkpoint)

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        """Keys, shapes, dtype and finiteness of the weights; tokenizer and generation settings of the base."""
        from loopai_trainer.backends.verl_grpo.export import verify_export

        return verify_export(plan, folder)


BACKEND: Backend = VerlGrpo()
