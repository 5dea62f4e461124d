"""TrainerAgent of spec/000: the same prepare and run_prepared as a LangGraph graph, with a person's approval between.

The only file that needs LangGraph (extra `langgraph`). check_required_fields -> data_check -> config_generation ->
approval -> training_execution; each failure leads to the end. Nodes can be repeated: a graph that died in one goes on
there, and training that goes on meanwhile is attached to.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

try:
    from langgraph.config import get_config, get_stream_writer
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import get_runtime
    from langgraph.types import Command, interrupt
except ImportError as missing:
    raise ImportError("TrainerAgent needs LangGraph: pip install 'loopai-trainer[langgraph]'") from missing

from loopai_trainer import api
from loopai_trainer.operations import agent_rounds
from loopai_trainer.operations.agent_rounds import Section

CHECK, DATA, CONFIG, APPROVAL, TRAINING = (
    *("check_required_fields", "data_check", "config_generation", "approval", "training_execution"),
)
CONFIGER_NODE = "config_node"
"""LoopAI's node that asks the user for what is missing; its Starter graph reads `next_to`."""


class TrainerGraphState(TypedDict, total=False):
    """What the graph reads and writes of LoopAI's state; other keys of a parent's state are left alone."""

    task_id: str
    output_dir: str
    language: str
    system: dict[str, Any]
    trainer: dict[str, Any]
    constructor: dict[str, Any]
    obtainer: dict[str, Any]
    configer: dict[str, Any]
    exception: str
    next_to: str


class TrainerGraphContext(TypedDict, total=False):
    """`exception_navigate`: the parent graph's node that gets control when required fields are missing."""

    exception_navigate: str


class TrainerAgent:
    """`TrainerAgent(checkpointer=..., store=...)()` is the compiled graph; its state is `{"trainer": {...}}`.

    After config_generation it interrupts with the approval data (interface section 5, `prepare`); resume it by
    `Command(resume=SHA256)` with the hash of the YAML that a person has approved, or by `Command(resume=False)` to give
    up. Without a checkpointer it cannot be resumed: then the approval data's `next_command` starts training.
    `auto_approve=True` opts out of the approval, which is recorded as `auto`.
    """

    def __init__(self, checkpointer: Any = None, store: Any = None, *, auto_approve: bool = False) -> None:
        self.checkpointer = checkpointer
        self.store = store
        self.auto_approve = auto_approve is True  # whatever else it is, such as the text "false", opts out of nothing

    def __call__(self) -> Any:
        """The compiled graph, to be invoked or to be a node of another graph."""
        graph = StateGraph(TrainerGraphState, context_schema=TrainerGraphContext)
        graph.add_node(CHECK, _check_required_fields, destinations=(DATA, END))
        graph.add_node(DATA, _data_check, destinations=(CONFIG, END))
        graph.add_node(CONFIG, self._config_generation, destinations=(APPROVAL, TRAINING, END))
        graph.add_node(APPROVAL, _approval, destinations=(APPROVAL, TRAINING, END))
        graph.add_node(TRAINING, self._training_execution, destinations=(APPROVAL, END))
        graph.add_edge(START, CHECK)
        return graph.compile(checkpointer=self.checkpointer, store=self.store)

    def get_training_summary(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What came of it: `final_status` (completed, failed, cancelled, awaiting_approval, missing_fields, ...),

        `output_files` (name -> path of what exists), `trainer_version_id`, `best_checkpoint`, `best_metric`,
        `update_model_path`, `execution_time_s`, `missing_fields`, `message` and `error`.
        """
        return agent_rounds.summary(state.get("trainer") or {}, waits=bool(state.get("__interrupt__")))

    def _config_generation(self, state: TrainerGraphState) -> Any:
        section = _section(state)
        result = section["trainer_result"]
        section["trainer_config_generation_success"] = result["ok"]
        section["trainer_config_generation_error"] = None if result["ok"] else result["message"]
        _tell(section, CONFIG, "running" if result["ok"] else "failed", result["message"])
        if not result["ok"]:
            return _to(END, section)
        if not self.auto_approve:
            return _to(APPROVAL, section)
        section[agent_rounds.APPROVED] = result["data"]["config_sha256"]
        return _to(TRAINING, section)

    def _training_execution(self, state: TrainerGraphState) -> Any:
        section = _section(state)
        plan = section["trainer_result"]["data"]
        made = api.run_prepared(
            plan["config_path"],
            section[agent_rounds.APPROVED],
            version_id=section["trainer_version_id"],
            watch=agent_rounds.StepProgress(section, TRAINING, get_stream_writer()),
            approved_via="auto" if self.auto_approve else "hash",
        )["trainer"]
        result = made["trainer_result"]
        if agent_rounds.asks_again(result) and not self.auto_approve:
            return _to(APPROVAL, _asked_again(section, result["error"]))
        section = {"trainer_training_success": result["status"] == "completed", **section, **made}
        _tell(section, TRAINING, result["status"], result["message"])
        return _to(END, section)


def _check_required_fields(state: TrainerGraphState) -> Any:
    section = agent_rounds.begun(state.get("trainer") or {})
    guide = api.prefill_guide(_with(state, section), thread_id=_thread_id())
    missing = guide["missing_fields"]
    section["trainer_missing_fields"] = missing
    section[agent_rounds.CONTEXT] = guide.get("task_id") or _thread_id()
    if not missing:
        return _to(DATA, section)  # where the guide could not be made, prepare refuses, and says why
    _tell(section, CHECK, "failed", "missing: " + ", ".join(missing))
    asked = {
        "trainer": section,
        "exception": "ConfigerError",
        "next_to": CONFIGER_NODE,
        "configer": {**(state.get("configer") or {}), "configer_error": missing},
    }
    navigate = _exception_navigate()
    if navigate is None:
        return Command(goto=END, update=asked)
    return Command(goto=navigate, update=asked, graph=Command.PARENT)


def _data_check(state: TrainerGraphState) -> Any:
    section = _section(state)
    tell = agent_rounds.ByteProgress(section, DATA, get_stream_writer())
    made = api.prepare(_with(state, section), thread_id=_thread_id(), progress=tell)["trainer"]
    passed = agent_rounds.data_passed(made["trainer_result"])
    section = {**section, **made, "trainer_data_check_passed": passed}
    _tell(section, DATA, "running" if passed else "failed", made["trainer_result"]["message"])
    return _to(CONFIG if passed else END, section)


def _approval(state: TrainerGraphState) -> Any:
    """Ask a person; everything before `interrupt` happens again when they have answered, so it only reads."""
    section = _section(state)
    data = section["trainer_result"]["data"]
    told = interrupt({**data, "refused": section.get("trainer_last_error")})
    if agent_rounds.given_up(told):
        return _to(END, agent_rounds.not_approved(section))
    sha256 = agent_rounds.approved_hash(told)
    if sha256 is None:
        return _to(APPROVAL, agent_rounds.no_hash(section))
    # Whether it is the hash of the YAML as it lies there is for run_prepared to find out: it reads the file once.
    return _to(TRAINING, {**section, agent_rounds.APPROVED: sha256, "trainer_last_error": None})


def _asked_again(section: Section, refused: Mapping[str, Any]) -> Section:
    """Nothing was started. Whoever is asked again is told why, and shown the YAML as it is now."""
    path = section["trainer_result"]["data"]["config_path"]
    now = api.inspect_prepared_config(path)["trainer"]["trainer_result"]
    if now["ok"]:
        return {**section, "trainer_result": now, "trainer_last_error": dict(refused)}
    return {**section, "trainer_last_error": now["error"]}


def _section(state: TrainerGraphState) -> Section:
    return dict(state.get("trainer") or {})


def _with(state: TrainerGraphState, section: Section) -> dict[str, Any]:
    return {**state, "trainer": section}


def _to(node: str, section: Section) -> Any:
    return Command(goto=node, update={"trainer": section})


def _tell(section: Section, node: str, status: str, message: str) -> None:
    get_stream_writer()(agent_rounds.event(section, node, status, message))


def _thread_id() -> str | None:
    """The graph's thread, which names the task if nothing else does."""
    found = (get_config().get("configurable") or {}).get("thread_id")
    return None if found is None else str(found)


def _exception_navigate() -> str | None:
    context: Any = get_runtime().context
    found = context.get("exception_navigate") if isinstance(context, Mapping) else None
    return str(found) if found else None
