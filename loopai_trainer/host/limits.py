"""What this host allows a training: open files, shared memory, the driver's version, Ray that runs already."""

from __future__ import annotations

import os
import resource

from loopai_trainer.host import processes
from loopai_trainer.host.devices import NVML_LIBRARY

SHARED_MEMORY = "/dev/shm"
_RAY_PROGRAMS = ("raylet", "gcs_server")
_VERSION_BYTES = 96


def open_files() -> tuple[int, int]:
    """(soft, hard) limit of open files of this process, which training inherits; -1: none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return (-1 if soft == unlimited else soft), (-1 if hard == unlimited else hard)


def shared_memory_bytes(path: str = SHARED_MEMORY) -> int | None:
    """The size of the file system that processes share memory through; None: there is none."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_frsize * found.f_blocks


def driver_version(library: str = NVML_LIBRARY) -> str | None:
    """The version of NVIDIA's driver; None: there is none, or it does not say."""
    import ctypes

    try:
        nvml = ctypes.CDLL(library)
        ask = nvml.nvmlSystemGetDriverVersion
    except (OSError, AttributeError):
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        text = ctypes.create_string_buffer(_VERSION_BYTES)
        return text.value.decode() if ask(text, _VERSION_BYTES) == 0 else None
    finally:
        nvml.nvmlShutdown()


def ray_processes() -> list[tuple[int, str]]:
    """(pid, user) of the Ray nodes that run on this host, those of this program's own trainings left out."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "name", "username"]):
        if process.info["name"] in _RAY_PROGRAMS and not _of_a_run(int(process.info["pid"])):
            found.append((int(process.info["pid"]), str(process.info["username"] or "?")))
    return found


def _of_a_run(pid: int) -> bool:
    """Whether a training of this program has started it: its GPUs are locked. Other users' are not known to be."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + processes.MARK.encode() + b"=" in b"\0" + file.read()
    except OSError:
        return False
