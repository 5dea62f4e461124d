"""Lets an unmodified verl 0.9 train on a CPU: a device platform, and the rollout backend `loopai_cpu`. Smoke runs only.

verl imports this in the driver and in every Ray worker, since VERL_USE_EXTERNAL_MODULES names it; VERL_PLATFORM=cpu
chooses the platform, VERL_ENGINE_DEVICE=cuda the FSDP2 engine, which has no entry for a CPU but runs on one.
Source: verl 0.9.1 (verl/__init__.py, plugin/platform, workers/engine/base.py, workers/rollout/{base,replica}.py).
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch
import verl.utils.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

ROLLOUT = "loopai_cpu"

_FREE_AND_ALL_BYTES = (8 << 30, 16 << 30)
"""Any size will do: verl shows it, and decides nothing by it."""


def _answer(value: object) -> Callable[..., Any]:
    return lambda *_, **__: value


_nothing = _answer(None)


class _CpuDevice(types.ModuleType):
    """What verl asks of torch.cuda: one of these, else torch.cpu's own answer, else nothing."""

    is_available = staticmethod(_answer(True))
    mem_get_info = staticmethod(_answer(_FREE_AND_ALL_BYTES))
    memory_allocated = memory_reserved = staticmethod(_answer(0))
    max_memory_allocated = max_memory_reserved = staticmethod(_answer(0))
    get_device_name = staticmethod(_answer("cpu"))
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name, _nothing)


_DEVICE = _CpuDevice("loopai_cpu_device")


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc] # verl is not installed where types are checked
    """verl's questions about a device, answered for a CPU. Ray counts logical GPUs, which need not be real ones."""

    device_name = vendor_name = property(_answer("cpu"))
    device_module = property(_answer(_DEVICE))
    is_available = _answer(True)
    is_platform_available = _answer(False)  # never found by itself: VERL_PLATFORM=cpu has to ask for it
    current_device = _answer("cpu")
    device_count = _answer(1)
    get_device_capability = _answer((None, None))
    communication_backend_name = _answer("gloo")
    visible_devices_envvar = _answer("CUDA_VISIBLE_DEVICES")
    ray_resource_name = _answer("GPU")
    ray_noset_envvars = _answer(["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"])
    is_ipc_supported = _answer(False)
    nvtx_range = _answer(contextlib.nullcontext())
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = empty_cache = set_allocator_settings = _nothing
    profiler_start = profiler_stop = cudart = _nothing


def _use_gloo() -> None:
    """One backend for all: verl asks for "cpu:gloo,cpu:gloo" here, which torch refuses (utils/distributed.py)."""
    make_group = verl.utils.distributed.initialize_global_process_group_ray

    def initialize_global_process_group_ray(timeout_second: float | None = None, backend: str | None = None) -> None:
        make_group(timeout_second, backend or "gloo")

    verl.utils.distributed.initialize_global_process_group_ray = initialize_global_process_group_ray


def _do_without_pinned_memory() -> None:
    """FSDP2's offload of a reference model pins memory, which torch refuses without an accelerator."""
    if not torch.cuda.is_available():
        torch.Tensor.pin_memory = lambda self, *_, **__: self


def _replica() -> type:
    import loopai_cpu_rollout  # type: ignore[import-not-found] # beside this file, on the path of training alone

    replica: type = loopai_cpu_rollout.Replica
    return replica


_use_gloo()
_do_without_pinned_memory()
base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "loopai_cpu_rollout.Adapter"
RolloutReplicaRegistry.register(ROLLOUT, _replica)
