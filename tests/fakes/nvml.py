"""A stand-in for NVIDIA's driver library: two GPUs, built with the host's C compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest

UUIDS = ("GPU-11aa-22", "GPU-33bb-44")

_SOURCE = r"""
#include <string.h>
struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.1", length); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *handle, char *name, unsigned length) { strncpy(name, "Fake GPU", length); return 0; }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
  strncpy(uuid, (long)handle == 1 ? "GPU-11aa-22" : "GPU-33bb-44", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) { memory->total = 85899345920ULL;
  memory->used = 1073741824ULL * (long)handle; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  *handle = (void *)(long)(strstr(uuid, "11aa") ? 1 : strstr(uuid, "MIG") ? 3 : 2); return strstr(uuid, "none") ? 6 : 0; }
struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *use) {
  use->gpu = 40 + (long)handle; return (long)handle == 3 ? 3 : 0; }
"""


def library_folder(root: Path) -> str:
    """A folder for LD_LIBRARY_PATH; the test is skipped on a host without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in driver with")
    folder = root / "driver"
    folder.mkdir()
    (folder / "nvml.c").write_text(_SOURCE)
    library = str(folder / "libnvidia-ml.so.1")
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, str(folder / "nvml.c")], check=True)
    return str(folder)
