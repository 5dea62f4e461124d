"""The GPUs of this host, through NVML and without torch; and what a CUDA_VISIBLE_DEVICES value means."""

import re
from collections.abc import Sequence
from typing import Any

from loopai_trainer.records import Device, Host, Problem

NVML_LIBRARY = "libnvidia-ml.so.1"
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+")


def list_devices(library: str = NVML_LIBRARY) -> tuple[Device, ...]:
    """All GPUs that the driver shows to this process; none if there is no driver."""
    import ctypes

    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return ()
    if nvml.nvmlInit_v2() != 0:
        return ()
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return ()
        return tuple(device for index in range(count.value) if (device := _device(nvml, index)))
    finally:
        nvml.nvmlShutdown()


def read_host(folder: str) -> Host:
    """What this machine offers to a run in `folder` (or in its nearest parent that exists)."""
    import os
    import shutil

    while not os.path.isdir(folder):
        folder = os.path.dirname(os.path.abspath(folder))
    return Host(list_devices(), os.cpu_count() or 1, shutil.disk_usage(folder).free)


def parse_devices(text: str) -> tuple[str, ...]:
    """The devices in a CUDA_VISIBLE_DEVICES value: indices and UUIDs; the empty text hides them all.

    Raises ValueError for what CUDA would read differently from what its author meant.
    """
    if not text.strip():
        return ()
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if re.fullmatch(r"\d+\s*[-:]\s*\d+", name):
            raise ValueError(f"{name!r} is a range; CUDA reads no ranges, so list every device")
        if name == "-1":
            raise ValueError("'-1' hides this and every later device; use an empty value to hide all of them")
        if not (name.isdecimal() and name.isascii()) and not _UUID.fullmatch(name):
            raise ValueError(f"{name!r} is neither an index nor a GPU-... or MIG-... id; CUDA stops reading there")
    plain = [str(int(name)) if name.isdecimal() else name for name in names]
    twice = sorted({name for name in plain if plain.count(name) > 1})
    if twice:
        raise ValueError(f"device {twice[0]} is listed twice; CUDA then shows no device at all")
    return tuple(plain)


def lock_names(text: str, present: Sequence[Device]) -> tuple[str, ...]:
    """What the devices of a good CUDA_VISIBLE_DEVICES value are called, however they were named: the UUID, if known."""
    found: dict[str, None] = {}
    for name in parse_devices(text):
        fitting = [device for device in present if _names(name, device)]
        found[fitting[0].uuid or f"index-{fitting[0].index}" if fitting else name] = None
    return tuple(found)


def device_problems(text: str, host: Host) -> list[Problem]:
    """Faults of a CUDA_VISIBLE_DEVICES value on this host. NO_DEVICE is a warning: preparing elsewhere is normal."""
    try:
        names = parse_devices(text)
    except ValueError as error:
        return [_problem("error", "DEVICES_INVALID", f"CUDA_VISIBLE_DEVICES={text!r}: {error}", "correct --devices")]
    if not names:
        return []
    if not host.devices:
        message = f"CUDA_VISIBLE_DEVICES={text!r}, but this host has no GPU"
        return [_problem("warning", "NO_DEVICE", message, "run it on a host with a GPU, or use a CPU smoke template")]
    twice = _named_twice(names, host.devices)
    if twice:
        message = f"CUDA_VISIBLE_DEVICES={text!r}: {twice}"
        return [_problem("error", "DEVICES_INVALID", message, "name each device once, by its index or in full")]
    missing = [name for name in names if not _present(name, host.devices)]
    if missing:
        held = ", ".join(str(device.index) for device in host.devices)
        message = f"CUDA_VISIBLE_DEVICES={text!r}: device {', '.join(missing)} is not on this host (it has {held})"
        return [_problem("error", "DEVICE_NOT_FOUND", message, "choose from the host's devices with --devices")]
    return []


def _named_twice(names: Sequence[str], devices: Sequence[Device]) -> str:
    """Why a device is not told by its name alone, or is named in two ways; empty if all is well."""
    by_index: dict[int, str] = {}
    for name in names:
        found = [device.index for device in devices if _names(name, device)]
        if len(found) > 1:
            return f"{name!r} fits {len(found)} devices"
        for index in found:
            if index in by_index:
                return f"{by_index[index]!r} and {name!r} are one device"
            by_index[index] = name
    return ""


def _names(name: str, device: Device) -> bool:
    return device.index == int(name) if name.isdecimal() else device.uuid.startswith(name)


def _present(name: str, devices: Sequence[Device]) -> bool:
    return name.startswith("MIG-") or any(_names(name, device) for device in devices)


def _problem(severity: Any, code: str, message: str, hint: str) -> Problem:
    return Problem(severity, code, "host", message, hint, field="CUDA_VISIBLE_DEVICES")


def _device(nvml: Any, index: int) -> Device | None:
    import ctypes

    class Memory(ctypes.Structure):
        _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))

    handle, memory = ctypes.c_void_p(), Memory()
    name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
        return None
    nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
    nvml.nvmlDeviceGetUUID(handle, uuid, ctypes.c_uint(len(uuid)))
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    return Device(index, uuid.value.decode(), name.value.decode(), memory.total)
