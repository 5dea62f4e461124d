"""How training starts: argument list, working folder, files and the complete environment, all from the approved YAML.

Light on purpose: the worker imports it before training's exec.
"""

import os

from loopai_trainer.rules import launch_env, sinks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopai_trainer.records import ApprovedPlan, Launch, LaunchPaths, Plan, Problem

CONFIG_NAME = "train.yaml"
OWNED = frozenset((
    "PATH", "HOME", "TMPDIR", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONHOME",
    "XDG_CACHE_HOME", "HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "MPLCONFIGDIR", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "FORCE_TORCHRUN", "NPROC_PER_NODE", "NNODES", "NODE_RANK",
    "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "USE_V1", "USE_RAY", "USE_KT", "USE_MCA", "ALLOW_EXTRA_ARGS",
))  # fmt: skip
"""What reaches training from nowhere but the launcher; what a plan may set is in launch_env."""


def build_launch(approved: "ApprovedPlan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "Launch":
    """The launch of an approved plan. The YAML is named relative to `launch/`, since torchrun's command line is
    split at blanks by LLaMA-Factory (launcher.py, 0.9.5)."""
    from loopai_trainer.records import Command, Launch
    from loopai_trainer.rules import yaml_text

    plan = approved.plan
    python = plan.loopai["backend"]["python"]
    program = os.path.join(os.path.dirname(python), "llamafactory-cli")
    argv = (python, program, "train", CONFIG_NAME)
    return Launch(
        main=Command(argv, paths.launch, environment(plan, paths, inherited)),
        files={CONFIG_NAME: yaml_text.dump(plan.native)},
    )


def environment(plan: "Plan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "dict[str, str]":
    """Training's complete environment: what the plan holds of the host's, its additions, and the launcher's own.

    Nothing else passes: USE_V1 and USE_RAY switch to another trainer, ALLOW_EXTRA_ARGS hides misspelt keys, WORLD_SIZE
    changes the batch, USE_*_HUB, HF_* and PYTHONPATH change what is loaded (read in LLaMA-Factory 0.9.5).
    """
    env = launch_env.approved(plan.loopai["launch"], inherited)
    env = {name: value for name, value in env.items() if name not in OWNED}
    env["PATH"] = os.path.dirname(plan.loopai["backend"]["python"]) + os.pathsep + launch_env.SYSTEM_PATH
    env.update(_folders(paths))
    env.update(sinks.folders(reporters(plan.native), paths.metrics))
    env.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        PYTHONNOUSERSITE="1",
        PYTHONUNBUFFERED="1",
        CUDA_DEVICE_ORDER="PCI_BUS_ID",  # an index means the same GPU here as in nvidia-smi
        CUDA_VISIBLE_DEVICES=visible_devices(plan),
    )
    if needs_torchrun(plan):
        env.update(FORCE_TORCHRUN="1", NPROC_PER_NODE=str(process_count(plan)))
    if node_count(plan) > 1:  # rank 0 by itself; whatever starts the others says their rank
        env.update(NNODES=str(node_count(plan)), NODE_RANK="0")
    return env


def reporters(native: "Mapping[str, object]") -> list[str]:
    """Where the metrics of these native keys go besides the run's own files."""
    told = native.get("report_to")
    names = [str(name) for name in (told if isinstance(told, list) else [told]) if name not in (None, "", "none")]
    return [*names, *(["swanlab"] if native.get("use_swanlab") is True and "swanlab" not in names else [])]


def process_count(plan: "Plan") -> int:
    """Training processes on a node."""
    return int(plan.loopai["launch"].get("nproc_per_node") or 1)


def node_count(plan: "Plan") -> int:
    """Nodes that train together."""
    return int(plan.loopai["launch"].get("nodes") or 1)


def needs_torchrun(plan: "Plan") -> bool:
    """More than one process, or a framework that trains under torchrun alone."""
    native = plan.native
    return process_count(plan) * node_count(plan) > 1 or bool(native.get("deepspeed") or native.get("fsdp"))


def visible_devices(plan: "Plan") -> str:
    """CUDA_VISIBLE_DEVICES. A CPU plan hides all: with several visible, LLaMA-Factory starts torchrun by itself."""
    return "" if plan.native.get("use_cpu") is True else str(plan.loopai["launch"]["devices"])


def launch_problems(plan: "Plan") -> "list[Problem]":
    """A rendezvous port that the YAML fixes and somebody holds. Without one LLaMA-Factory finds a free port itself."""
    value = (plan.loopai["launch"].get("env") or {}).get("MASTER_PORT")
    if value is None or not needs_torchrun(plan):
        return []
    from loopai_trainer.host import ports
    from loopai_trainer.records import Problem

    field = "loopai.launch.env.MASTER_PORT"
    try:
        taken = ports.is_taken(int(str(value)))
    except ValueError:
        message = f"MASTER_PORT is {value!r}, which is no TCP port"
        return [Problem("error", "NO_PORT", "host", message, "choose a port from 1024 to 65535", field=field)]
    if not taken:
        return []
    holder = ports.owner(int(str(value)))
    message = f"port {value} is taken" + (f" by process {holder}" if holder else "")
    hint = "wait for that process, or leave MASTER_PORT out: a free port is found then"
    return [Problem("error", "NO_PORT", "host", message, hint, field=field)]


def _folders(paths: "LaunchPaths") -> "dict[str, str]":
    """Everything that a library would keep in the user's home goes into the run, and away with it."""
    cache = paths.cache
    hub = os.path.join(cache, "huggingface")
    return {
        "HOME": cache,
        "XDG_CACHE_HOME": os.path.join(cache, "xdg"),
        "HF_HOME": hub,
        "HF_DATASETS_CACHE": os.path.join(hub, "datasets"),
        "HF_MODULES_CACHE": os.path.join(hub, "modules"),
        "MPLCONFIGDIR": os.path.join(cache, "matplotlib"),
        "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "torchinductor"),
        "TORCH_EXTENSIONS_DIR": os.path.join(cache, "torch_extensions"),
        "TMPDIR": paths.tmp,
    }
