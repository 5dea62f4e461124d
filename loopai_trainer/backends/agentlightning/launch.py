"""How Agent Lightning starts: the driver's approved copy on the approved keys, one process a role.

Light on purpose: the worker imports it before training's exec.
"""

import json
import os

from loopai_trainer.rules import launch_env, secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.records import ApprovedPlan, Command, Launch, LaunchPaths, Plan

DRIVER, DRIVER_1 = "agl_main.py", "agl_one.py"
PLAN_FILE = "agl_plan.json"
STORE_FOLDER, BEST_PROMPT = "store", "best_prompt.json"

OWNED_STARTS = ("PYTHON", "HF_", "AGL_", "OTEL_", "AGENTOPS_", "LITELLM_", "VERL_", "RAY_", "VLLM_", "HYDRA_")
OWNED = frozenset(("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "DO_NOT_TRACK"))
"""What reaches the run from nowhere but the launcher."""


def build_launch(approved: "ApprovedPlan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "Launch":
    """The launch of an approved plan. Split roles: the algorithm is the main process, store and runners its helpers."""
    from loopai_trainer.records import Launch

    plan = approved.plan
    files = {PLAN_FILE: json.dumps(document(plan, paths), ensure_ascii=False, indent=1) + "\n"}
    if plan.native["strategy"].get("name") != "split":
        return Launch(_command(plan, paths, inherited, "all"), files)
    roles = ("algorithm", "server", "controller") if is_one(plan) else ("algorithm", "store", "runner")
    main, *helpers = (_command(plan, paths, inherited, role) for role in roles)
    return Launch(main, files, tuple(helpers))


def is_one(plan: "Plan") -> bool:
    """Whether the plan is one of Agent Lightning 1.x."""
    return not str(plan.loopai["backend"]["version"]).startswith("0.")


def document(plan: "Plan", paths: "LaunchPaths") -> "dict[str, Any]":
    """What the driver reads: the approved keys, and the places of this run."""
    return {
        "stage": plan.stage,
        "native": plan.native,
        "files": pinned_files(plan),
        "secrets": secret_variables(plan),
        "paths": {
            "inputs": paths.inputs,
            "metrics": metrics_file(paths),
            "results": paths.checkpoints,
            "store": os.path.join(paths.checkpoints, STORE_FOLDER),
            "exit": os.path.join(paths.launch, "exit.json"),
            "store_port": os.path.join(paths.launch, "store_port"),
        },
    }


def pinned_files(plan: "Plan") -> "dict[str, str]":
    """Path -> SHA-256 of each small file that the plan covers: no other file's code is imported."""
    return {str(entry["path"]): str(entry["sha256"]) for entry in plan.loopai["inputs"]["files"]}


def secret_variables(plan: "Plan") -> "list[str]":
    """Names of the variables that are passed by name: what an agent prints of their values is not written down."""
    named = (plan.native.get("llm") or {}).get("api_key_env")
    passed = plan.loopai["launch"].get("pass_env") or ()
    return sorted({*(name for name in passed if secrets.is_secret_name(name)), *([str(named)] if named else [])})


def metrics_file(paths: "LaunchPaths") -> str:
    """One file an attempt."""
    return os.path.join(paths.metrics, f"agentlightning_metrics-{paths.attempt}.jsonl")


def _command(plan: "Plan", paths: "LaunchPaths", inherited: "Mapping[str, str]", role: str) -> "Command":
    from loopai_trainer.records import Command

    argv = (
        *(
            plan.loopai["backend"]["python"],
            "-I",
            "-B",
            os.path.join(paths.inputs, DRIVER_1 if is_one(plan) else DRIVER),
        ),
        *(os.path.join(paths.launch, PLAN_FILE), role),
    )
    env = environment(plan, paths, inherited)
    if is_one(plan):  # each rollout is a process that imports the agent by name
        env.update(PYTHONPATH=paths.inputs, LOOPAI_AGENT_PLAN=os.path.join(paths.launch, PLAN_FILE))
    elif role in ("algorithm", "runner"):
        env.update(AGL_CURRENT_ROLE=role, AGL_MANAGED_STORE="0")
    return Command(argv, paths.launch, env)


def environment(plan: "Plan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "dict[str, str]":
    """The complete environment: the host's as approved, the approved additions, the launcher's own."""
    launch = plan.loopai["launch"]
    env = launch_env.approved(launch, inherited)
    env = {name: value for name, value in env.items() if not is_owned(name) or name in launch_env.PASSED_ALONE}
    env["PATH"] = os.path.dirname(plan.loopai["backend"]["python"]) + os.pathsep + launch_env.SYSTEM_PATH
    env.update(quiet_and_offline())
    env.update(folders(paths.cache, paths.tmp))
    env["CUDA_VISIBLE_DEVICES"] = str(launch["devices"])
    if plan.stage == "grpo":
        env.update(VERL_FILE_LOGGER_PATH=metrics_file(paths), RAY_TMPDIR=paths.tmp, RAY_USAGE_STATS_ENABLED="0")
        env.update(CUDA_DEVICE_ORDER="PCI_BUS_ID")
    base_url = (plan.native.get("llm") or {}).get("base_url")
    if base_url:
        env["OPENAI_BASE_URL"] = str(base_url)  # what an agent's own client takes, if it names no other
    return env


def is_owned(name: str) -> bool:
    """Whether a variable of that name comes from the launcher or from nowhere."""
    return name in OWNED or name.startswith(OWNED_STARTS)


def quiet_and_offline() -> "dict[str, str]":
    """Nothing is loaded or reported. LITELLM_LOCAL_MODEL_COST_MAP: else its import asks a web page, for seconds."""
    return {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "AGENTOPS_AUTO_INIT": "False",
        "AGENTOPS_TELEMETRY": "False",
        "OTEL_SDK_DISABLED": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
    }


def folders(cache: str, tmp: str) -> "dict[str, str]":
    """Everything that a library would keep in the user's home goes into `cache`, and away with it."""
    return {
        "HOME": cache,
        "XDG_CACHE_HOME": os.path.join(cache, "xdg"),
        "XDG_CONFIG_HOME": os.path.join(cache, "config"),
        "HF_HOME": os.path.join(cache, "huggingface"),
        "MPLCONFIGDIR": os.path.join(cache, "matplotlib"),
        "TMPDIR": tmp,
    }
