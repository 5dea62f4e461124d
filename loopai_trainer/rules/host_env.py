"""What of the preparing shell's environment reaches training: how the host is, with the values that were approved.

Light on purpose: the worker imports it before training's exec.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PINNED = frozenset((
    "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "NUMEXPR_NUM_THREADS", "GLOO_SOCKET_IFNAME",
))  # fmt: skip
PINNED_STARTS = ("LC_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "UCX_", "FI_")
"""Libraries, threads and network of the host: `prepare` writes their values into `loopai.launch.host_env`, and training
gets those, whatever is set when it is started."""

_LOADS_CODE = frozenset((
    *("LD_LIBRARY_PATH", "OMP_TOOL_LIBRARIES", "OMP_TOOL", "FI_PROVIDER_PATH", "UCX_MODULE_DIR"),
    *("NCCL_CONF_FILE",),
))  # fmt: skip

LIVE = ("USER", "LOGNAME", "SHELL")
"""Who starts it; nothing that is trained depends on them, and an approval by one person may be used by another."""


def is_pinned(name: object) -> bool:
    """Whether a variable of that name is written into the plan by `prepare`."""
    return isinstance(name, str) and (name in PINNED or name.startswith(PINNED_STARTS))


def loads_code(name: str) -> bool:
    """Whether its value names libraries or plug-ins, which no digest covers."""
    return name in _LOADS_CODE or "PLUGIN" in name


def pinned(environ: "Mapping[str, str]") -> "dict[str, str]":
    """The variables for the plan, sorted. What is not plain text (a lone surrogate, a NUL) is left out."""
    return {name: environ[name] for name in sorted(environ) if is_pinned(name) and _is_text(environ[name])}


def reaching(launch: "Mapping[str, Any]", inherited: "Mapping[str, str]") -> "dict[str, str]":
    """What training gets of these: the plan's values, and who starts it."""
    values = {name: str(value) for name, value in (launch.get("host_env") or {}).items() if is_pinned(name)}
    return {**values, **{name: inherited[name] for name in LIVE if name in inherited}}


def faults(launch: "Mapping[str, Any]") -> "Iterator[tuple[str, str]]":
    """(message, hint) for each entry of `loopai.launch.host_env` that may not stand there."""
    block = launch.get("host_env") or {}
    if not isinstance(block, dict):
        yield "loopai.launch.host_env is no mapping of variables to texts", "prepare again"
        return
    for name, value in block.items():
        if not is_pinned(name):
            yield f"loopai.launch.host_env may not give {name} to training", f"remove {name}"
        elif not isinstance(value, str) or not _is_text(value):
            yield f"loopai.launch.host_env: {name} is no text", "write one line of text in quotes"


def _is_text(value: str) -> bool:
    return value.isprintable()
