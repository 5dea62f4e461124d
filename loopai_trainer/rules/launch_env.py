"""Which variables a plan may give to training: an allow-list, since a name outside of it may change what is trained.

Light on purpose: the worker imports it before training's exec.
"""

from loopai_trainer.rules import host_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a training's programs are looked for after those of its environment."""

SETTABLE = frozenset((
    "LANG", "LANGUAGE", "TZ", "MASTER_ADDR", "MASTER_PORT", "TOKENIZERS_PARALLELISM", "NUMEXPR_NUM_THREADS",
    "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE", "CUBLAS_WORKSPACE_CONFIG", "TORCH_DISTRIBUTED_DEBUG", "TORCH_SHOW_CPP_STACKTRACES",
    "TRANSFORMERS_VERBOSITY", "DATASETS_VERBOSITY", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_NAME", "WANDB_NOTES",
    "WANDB_TAGS", "WANDB_RUN_GROUP", "WANDB_JOB_TYPE", "WANDB_MODE", "WANDB_BASE_URL", "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_NAME", "SWANLAB_PROJECT", "SWANLAB_WORKSPACE", "SWANLAB_MODE",
))  # fmt: skip
SETTABLE_STARTS = ("LC_", "NCCL_", "TORCH_NCCL_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "UCX_", "FI_")
"""What `loopai.launch.env` may set: threads, network, memory, verbosity, and names under which metrics are logged."""

PASSED_ALONE = frozenset((
    "HF_TOKEN", "WANDB_API_KEY", "SWANLAB_API_KEY", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD",
    "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY",
    "MLFLOW_TRACKING_TOKEN", "COMET_API_KEY", "NEPTUNE_API_TOKEN", "CLEARML_API_ACCESS_KEY", "CLEARML_API_SECRET_KEY",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
))  # fmt: skip
"""What `loopai.launch.pass_env` may name besides: secrets, and how the host reaches a network."""

_LOADS_CODE = frozenset(("OMP_TOOL_LIBRARIES", "OMP_TOOL", "FI_PROVIDER_PATH", "UCX_MODULE_DIR", "NCCL_CONF_FILE"))


def is_settable(name: object) -> bool:
    """Whether `loopai.launch.env` may set it. Names that make a library load other code are left out."""
    if not isinstance(name, str) or name in _LOADS_CODE or "PLUGIN" in name:
        return False
    return name in SETTABLE or (name.startswith(SETTABLE_STARTS) and name.replace("_", "").isalnum())


def is_passable(name: object) -> bool:
    """Whether `loopai.launch.pass_env` may name it."""
    return is_settable(name) or (isinstance(name, str) and name in PASSED_ALONE)


def approved(launch: "Mapping[str, Any]", inherited: "Mapping[str, str]") -> "dict[str, str]":
    """What `loopai.launch` lets reach training: the host's values, what is passed on by name, and what is set."""
    env = host_env.reaching(launch, inherited)
    env.update({n: inherited[n] for n in launch.get("pass_env") or () if is_passable(n) and n in inherited})
    env.update({n: str(value) for n, value in (launch.get("env") or {}).items() if is_settable(n)})
    return env


def env_faults(launch: "Mapping[str, Any]") -> "Iterator[tuple[str, str, str, str]]":
    """(code, message, hint, field) for each variable of the launch block that may not be there. Names no value."""
    field = "loopai.launch.env"
    for name, value in launch["env"].items():
        if isinstance(name, str) and name in PASSED_ALONE:
            message = f"loopai.launch.env sets {name}, whose value would stand in the plan"
            yield "SECRET_IN_CONFIG", message, f"name {name} in loopai.launch.pass_env instead", field
        elif not is_settable(name):
            yield "ENV_NOT_ALLOWED", _not_allowed(name), f"remove {name}", field
        elif not isinstance(value, str | int | float) or "\x00" in str(value):
            yield "ENV_NOT_ALLOWED", f"loopai.launch.env: {name} is no text", "write one line of text", field
    for name in launch["pass_env"]:
        if not is_passable(name):
            yield "ENV_NOT_ALLOWED", _not_allowed(name), f"remove {name}", "loopai.launch.pass_env"


def _not_allowed(name: object) -> str:
    return (
        f"loopai.launch may not give {name} to training: it is not a name for threads, network, memory or logging, "
        "and may change what is trained"
    )
