"""Agent Lightning: the answers to the contract for the stages dev, apo and grpo, each from the file that owns it.

Light on purpose: the worker imports this before training's exec, so each answer loads its file when it is asked.
What runs inside Agent Lightning's own environment lies in `inside/` and is never imported here.
"""

from __future__ import annotations

from loopai_trainer.backends.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal

    from loopai_trainer.contract import RowCheck, RowMeter
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
        Settings,
        Versions,
    )


_DRY_RUN = (
    "A dry run makes no checkpoint: its result is what the agent did, task by task (rollouts, spans, rewards and "
    "triplets in checkpoints/store)."
)


class AgentLightning(Plain):
    """One stage of the backend agentlightning (see contract.Backend for what each method answers)."""

    name = "agentlightning"
    package = "agentlightning"
    data_kind: Literal["chat", "prompts", "tasks"] = "tasks"
    losses_decide = False
    judged_by: tuple[str, ...] = ("reward", "score", "val/score")

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.stages: tuple[str, ...] = (stage,)
        self.needs_model = self.makes_model = stage == "grpo"
        self.without_checkpoints = _DRY_RUN if stage == "dev" else ""

    def fields(self) -> tuple[Field, ...]:
        """Environment, key and what general settings mean here."""
        from loopai_trainer.backends.agentlightning.fields import fields

        return fields(self.stage)

    def row_check(self, settings: Settings, sample: Sequence[object]) -> tuple[str, RowCheck]:
        """Chats are not what agents work on: tasks are taken as they stand."""
        from loopai_trainer.errors import ConfigError

        raise ConfigError("agents work on tasks, not on chats", hint="use --framework llamafactory for chats")

    def probe(self, environment: Environment) -> Versions:
        """What is installed. Raises BackendMissing for pairs that are known not to work, too."""
        from loopai_trainer.backends.agentlightning.versions import require_known
        from loopai_trainer.host.environments import read_versions

        versions = read_versions(environment, self.package)
        require_known(versions, self.stage)
        return versions

    def environment_spec(self) -> EnvironmentSpec | None:
        """The pinned set that `trainer setup agentlightning` installs."""
        from loopai_trainer.backends.agentlightning.requirements import environment_spec

        return environment_spec()

    def file_keys(self) -> tuple[str, ...]:
        """The agent, and components of the user's own."""
        from loopai_trainer.backends.agentlightning.keys import FILE_KEYS

        return FILE_KEYS

    def owned_keys(self) -> Mapping[str, str]:
        """Tasks, and the name of the key's variable."""
        from loopai_trainer.backends.agentlightning.draft import OWNED_KEYS

        return OWNED_KEYS

    def renamed_keys(self) -> Mapping[str, str]:
        """The names of Agent Lightning's own Trainer, older ones among them."""
        from loopai_trainer.backends.agentlightning.keys import OLD_NAMES

        return OLD_NAMES

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        """No device, but for grpo; runners are counted by the strategy."""
        from loopai_trainer.records import Placement

        return Placement(settings.text("CUDA_VISIBLE_DEVICES") if self.stage == "grpo" else "", 1)

    def launch_env(self, settings: Settings, run: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """The optimiser's key, by the name of its variable."""
        from loopai_trainer.backends.agentlightning.fields import API_KEY_ENV

        return {}, (settings.text(API_KEY_ENV),) if self.stage == "apo" and settings.text(API_KEY_ENV) else ()

    def result_block(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """The highest reward, or score on validation tasks; of grpo a model folder is made."""
        metric = {"dev": "reward", "apo": "val/score", "grpo": "val/reward"}[self.stage]
        return {"selection_metric": metric, "selection_mode": "max", "export_huggingface": self.stage == "grpo"}

    def input_files(self, settings: Settings, native: Mapping[str, Any]) -> Mapping[str, str]:
        """The driver."""
        from loopai_trainer.backends.agentlightning.coverage import input_files

        return input_files(self.stage)

    def rehearse(self, plan: Plan, versions: Versions, paths: LaunchPaths) -> Question | None:
        """The agent imported, and every part looked at."""
        from loopai_trainer.backends.agentlightning.launch import is_one
        from loopai_trainer.backends.agentlightning.rehearsal import rehearse

        # 1.x has no parts to be made; and what is wrong already need not wait for the import of Agent Lightning.
        found = [*self.check_plan(plan, versions), *self.template_problems(plan.native, {}, versions)]
        known = any(problem.severity == "error" for problem in found)
        return None if known or is_one(plan) else rehearse(plan, paths)

    def rehearsed(self, plan: Plan, answer: bytes) -> Rehearsal:
        """What could not be made."""
        from loopai_trainer.backends.agentlightning.rehearsal import rehearsed

        return rehearsed(answer)

    def template_problems(
        self, template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions
    ) -> list[Problem]:
        """Unknown keys, names and values; older names of keys."""
        from loopai_trainer.backends.agentlightning.keys import problems

        return list(problems(template, lines))

    def draft(
        self, settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
    ) -> dict[str, Any]:
        """Every part by name, with its defaults."""
        from loopai_trainer.backends.agentlightning.draft import draft

        return draft(settings, data, base, self.stage, model, paths)

    def check(self, plan: Plan, versions: Versions, host: Host) -> list[Problem]:
        """Agent, algorithm, strategy, limits, endpoints."""
        return self.check_plan(plan, versions)

    def check_plan(self, plan: Plan, versions: Versions) -> list[Problem]:
        """The same, whatever the host."""
        from loopai_trainer.backends.agentlightning.check import check

        return check(plan, versions)

    def row_meter(self, plan: Plan, versions: Versions) -> tuple[RowMeter | None, list[Problem]]:
        """Tasks have no length in tokens: what becomes of them is the agent's affair."""
        return None, []

    def launch_problems(self, plan: Plan) -> list[Problem]:
        """A fixed port of the store that is taken."""
        from loopai_trainer.backends.agentlightning.ports import launch_problems

        return launch_problems(plan)

    def summary(self, plan: Plan) -> dict[str, Any]:
        """For the approval view."""
        from loopai_trainer.backends.agentlightning.view import summary

        return summary(plan)

    def red_flags(self, plan: Plan) -> list[Problem]:
        """For the top of the approval view."""
        from loopai_trainer.backends.agentlightning.view import red_flags

        return red_flags(plan)

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        """The driver on the approved keys; split roles have helpers."""
        from loopai_trainer.backends.agentlightning.launch import build_launch

        return build_launch(approved, paths, inherited)

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """The driver's lines."""
        from loopai_trainer.backends.agentlightning.metrics import read_metrics

        return read_metrics(lines)

    def metrics_file(self, paths: LaunchPaths) -> str:
        """metrics/agentlightning_metrics-<attempt>.jsonl."""
        from loopai_trainer.backends.agentlightning.launch import metrics_file

        return metrics_file(paths)

    def read_log(self, lines: Iterable[str]) -> list[LogFact]:
        """The driver's phases."""
        from loopai_trainer.backends.agentlightning.log import read_log

        return read_log(lines)

    @property
    def log_marks(self) -> Mapping[str, Sequence[bytes]]:
        """What a line has to hold to be of interest (contract.MarksLog)."""
        from loopai_trainer.backends.agentlightning.log import MARKS

        return MARKS

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        """Nothing: the verdict counts the store's rollouts against the approved tasks."""
        return {}

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """Scored prompts; for grpo verl's own folders."""
        if self.stage == "grpo":
            from loopai_trainer.backends.agentlightning import verl_checkpoints

            return verl_checkpoints.find_checkpoints(folder)
        from loopai_trainer.backends.agentlightning.outcome import find_checkpoints

        return find_checkpoints(folder)

    def final_artefact(self, folder: str) -> Artefact:
        """The best prompt, or the store's content; for grpo the newest checkpoint."""
        if self.stage == "grpo":
            from loopai_trainer.backends.agentlightning import verl_checkpoints

            return verl_checkpoints.final_artefact(folder)
        from loopai_trainer.backends.agentlightning.outcome import final_artefact

        return final_artefact(folder, self.stage)

    def verdict_problems(self, plan: Plan, run: str) -> list[Problem]:
        """What the store says (contract.Judges)."""
        from loopai_trainer.backends.agentlightning.outcome import verdict_problems

        return verdict_problems(plan, run)

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        """grpo: verl's merger. A prompt, or a store, is what it is."""
        if self.stage != "grpo":
            return None
        from loopai_trainer.backends.agentlightning import verl_checkpoints
        from loopai_trainer.backends.agentlightning.launch import quiet_and_offline

        return verl_checkpoints.export(plan, checkpoint, destination, quiet_and_offline())

    def export_problems(self, plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
        """Shards, adapters."""
        from loopai_trainer.backends.agentlightning.verl_checkpoints import export_problems

        return export_problems(plan, checkpoint)

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        """Weights against the base model's config, tokenizer against the base's."""
        from loopai_trainer.backends.agentlightning.verl_checkpoints import verify_export

        return verify_export(plan, folder)

    def dev_plan(self, plan: Plan, versions: Versions) -> DevPlan:
        """Baseline over a few tasks (contract.TriesOut)."""
        from loopai_trainer.backends.agentlightning.trying import dev_plan

        return dev_plan(plan)

    def selection(self, plan: Plan) -> tuple[str | None, Mode | None]:
        """`result` of the approved YAML."""
        return plan.result.get("selection_metric"), plan.result.get("selection_mode")

    def explain_failure(self, log_tail: Sequence[str]) -> tuple[str, str] | None:
        """What the driver said last."""
        from loopai_trainer.backends.agentlightning.log import explain_failure

        return explain_failure(log_tail)
