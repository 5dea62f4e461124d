"""How verl starts: argument list, working folder and the complete environment, all from the approved YAML.

Light on purpose: the worker imports it before training's exec.
"""

import os

from loopai_trainer.rules import launch_env, sinks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopai_trainer.records import ApprovedPlan, Launch, LaunchPaths, Plan

MODULE = "verl.trainer.main_ppo"
CONFIG_NAME = "resolved"
"""`launch/resolved.yaml`, which the worker writes: what the installed verl composed of the approved keys."""
HYDRA_FOLDER = "hydra"

OWNED_STARTS = ("RAY_", "VERL_", "HYDRA_", "HF_", "PYTHON", "SGLANG_", "VLLM_", "TRANSFORMERS_")
OWNED = frozenset((
    "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "FLASHINFER_WORKSPACE_BASE", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "RANK", "LOCAL_RANK", "WORLD_SIZE", "DO_NOT_TRACK",
))  # fmt: skip
"""What reaches training from nowhere but the launcher. RAY_ADDRESS above all: with it, verl would join another
cluster and train there. Source: verl 0.9.1 and ray 2.60, by their own reading of os.environ."""

_NO_DEVICE = "-1"
"""Stands for one logical GPU of a CPU plan: Ray refuses more GPUs than CUDA_VISIBLE_DEVICES names, CUDA knows no -1."""


def build_launch(approved: "ApprovedPlan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "Launch":
    """The launch of an approved plan: nothing but the resolved file says what is trained.

    Hydra's own folder is named relative to `launch/`, the working folder: an override would have to be quoted.
    """
    from loopai_trainer.records import Command, Launch

    plan = approved.plan
    argv = (
        *(plan.loopai["backend"]["python"], "-m", MODULE),
        *("--config-path", paths.launch, "--config-name", CONFIG_NAME, f"hydra.run.dir={HYDRA_FOLDER}"),
    )
    return Launch(main=Command(argv, paths.launch, environment(plan, paths, inherited)))


def environment(plan: "Plan", paths: "LaunchPaths", inherited: "Mapping[str, str]") -> "dict[str, str]":
    """Training's complete environment: the host's as approved, the approved additions, the launcher's own."""
    from loopai_trainer.backends.verl_grpo.metrics import metrics_file

    launch = plan.loopai["launch"]
    env = launch_env.approved(launch, inherited)
    env = {name: value for name, value in env.items() if not is_owned(name) or name in launch_env.PASSED_ALONE}
    env["PATH"] = os.path.dirname(plan.loopai["backend"]["python"]) + os.pathsep + launch_env.SYSTEM_PATH
    env.update(quiet_and_offline())
    env.update(folders(paths.cache, paths.tmp))
    env.update(sinks.folders(reporters(plan.native), paths.metrics))
    env.update(
        VERL_FILE_LOGGER_PATH=metrics_file(paths),
        RAY_TMPDIR=paths.tmp,
        CUDA_DEVICE_ORDER="PCI_BUS_ID",  # an index means the same GPU here as in nvidia-smi
        CUDA_VISIBLE_DEVICES=visible_devices(plan),
    )
    if is_cpu(plan):
        env.setdefault("OMP_NUM_THREADS", "1")  # each rank and rollout: else all of them would use all cores
        env.update(
            VERL_USE_EXTERNAL_MODULES="loopai_cpu_platform",
            VERL_PLATFORM="cpu",
            VERL_ENGINE_DEVICE="cuda",
            PYTHONPATH=paths.inputs,
        )
    return env


def reporters(native: "Mapping[str, object]") -> list[str]:
    """Where the metrics of these native keys go besides the console and verl's own file."""
    trainer = native.get("trainer")
    told = trainer.get("logger") if isinstance(trainer, dict) else None
    names = told if isinstance(told, list) else [told]
    return [str(name) for name in names if name in sinks.PACKAGES]


def is_owned(name: str) -> bool:
    """Whether a variable of that name comes from the launcher or from nowhere."""
    return name in OWNED or name.startswith(OWNED_STARTS)


def is_cpu(plan: "Plan") -> bool:
    """Whether the plan is a CPU smoke one."""
    trainer = plan.native.get("trainer")
    return isinstance(trainer, dict) and trainer.get("device") == "cpu"


def visible_devices(plan: "Plan") -> str:
    """CUDA_VISIBLE_DEVICES: the approved devices; for a CPU plan as many names of none as it has ranks."""
    if not is_cpu(plan):
        return str(plan.loopai["launch"]["devices"])
    return ",".join([_NO_DEVICE] * int(plan.native["trainer"].get("n_gpus_per_node") or 1))


def quiet_and_offline() -> "dict[str, str]":
    """Nothing is loaded from a hub or reported to anybody; errors are told whole."""
    return {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "HYDRA_FULL_ERROR": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }


def folders(cache: str, tmp: str) -> "dict[str, str]":
    """Everything that a library would keep in the user's home goes into `cache`, and away with it."""
    hub = os.path.join(cache, "huggingface")
    return {
        "HOME": cache,
        "XDG_CACHE_HOME": os.path.join(cache, "xdg"),
        "XDG_CONFIG_HOME": os.path.join(cache, "config"),
        "HF_HOME": hub,
        "HF_DATASETS_CACHE": os.path.join(hub, "datasets"),
        "HF_MODULES_CACHE": os.path.join(hub, "modules"),
        "MPLCONFIGDIR": os.path.join(cache, "matplotlib"),
        "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "torchinductor"),
        "TORCH_EXTENSIONS_DIR": os.path.join(cache, "torch_extensions"),
        "VLLM_CACHE_ROOT": os.path.join(cache, "vllm"),
        "FLASHINFER_WORKSPACE_BASE": cache,
        "TMPDIR": tmp,
    }
