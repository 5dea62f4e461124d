"""How busy the GPUs of a run are: their use and memory by NVML, without torch; nothing where there is no driver."""

from __future__ import annotations

from typing import Any, NamedTuple

from loopai_trainer.host.devices import NVML_LIBRARY, list_devices, lock_names
from loopai_trainer.records import Device


class DeviceLoad(NamedTuple):
    """One GPU now. `use_percent`: share of the last moments in which a kernel ran; None where NVML cannot say (MIG)."""

    label: str
    name: str
    use_percent: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


class Gauge:
    """A connection to the driver for the devices of a CUDA_VISIBLE_DEVICES value. Close it."""

    def __init__(self, devices: str, library: str = NVML_LIBRARY) -> None:
        present = list_devices(library)
        self._nvml: Any = _opened(library) if present else None
        self._handles: list[tuple[str, str, Any]] = []
        if self._nvml is None:
            return
        by_name = {device.uuid or f"index-{device.index}": device for device in present}
        for name in _names(devices, present):
            device, handle = by_name.get(name), self._handle(name)
            if handle is not None:
                told = (f"GPU {device.index}", device.name) if device else (name, "")
                self._handles.append((*told, handle))

    def read(self) -> tuple[DeviceLoad, ...]:
        """The devices as they are now, in the order of the plan."""
        return tuple(
            DeviceLoad(label, name, self._use_percent(handle), *self._memory(handle))
            for label, name, handle in self._handles
        )

    def close(self) -> None:
        """Let the driver go."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml, self._handles = None, []

    def _handle(self, name: str) -> Any:
        import ctypes

        handle = ctypes.c_void_p()
        if name.startswith("index-"):
            found = self._nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name[6:])), ctypes.byref(handle))
        else:
            found = self._nvml.nvmlDeviceGetHandleByUUID(ctypes.c_char_p(name.encode()), ctypes.byref(handle))
        return handle if found == 0 else None

    def _use_percent(self, handle: Any) -> int | None:
        import ctypes

        class Utilization(ctypes.Structure):
            _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))

        use = Utilization()
        return use.gpu if self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)) == 0 else None

    def _memory(self, handle: Any) -> tuple[int | None, int | None]:
        import ctypes

        class Memory(ctypes.Structure):
            _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))

        memory = Memory()
        if self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
            return None, None
        return memory.used, memory.total


def _names(devices: str, present: tuple[Device, ...]) -> tuple[str, ...]:
    try:
        return lock_names(devices, present)
    except ValueError:
        return ()  # CUDA reads such a value in its own way: nothing is told rather than something wrong


def _opened(library: str) -> Any:
    import ctypes

    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == 0 else None
