import os
import shutil
import subprocess

import pytest

from loopai_trainer.host.devices import device_problems, list_devices, parse_devices, read_host
from loopai_trainer.records import Device, Host

GPUS = (Device(0, "GPU-11aa-22", "a", 1), Device(1, "GPU-33bb-44", "b", 1))
HOST = Host(GPUS, 4, 10**9)

# A driver with two GPUs, of which the second has gone: what NVML answers, in C.
NVML = r"""
#include <string.h>
struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return COUNT; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return index; }
int nvmlDeviceGetName(void *handle, char *name, unsigned length) { strncpy(name, "Fake GPU", length); return 0; }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) { strncpy(uuid, "GPU-0123", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) { memory->total = 85899345920ULL; return 0; }
"""


def build_driver(tmp_path, init=0, count=0):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in driver with")
    source, library = tmp_path / "nvml.c", tmp_path / f"libfake{init}{count}.so"
    source.write_text(NVML)
    defines = (f"-DINIT={init}", f"-DCOUNT={count}")
    subprocess.run([compiler, "-shared", "-fPIC", "-w", *defines, "-o", str(library), str(source)], check=True)
    return str(library)


def test_devices_come_from_the_driver_and_one_that_is_gone_is_left_out(tmp_path):
    assert list_devices(build_driver(tmp_path)) == (Device(0, "GPU-0123", "Fake GPU", 85899345920),)


@pytest.mark.parametrize(("init", "count"), [(9, 0), (0, 9)])
def test_a_driver_that_refuses_has_no_devices(tmp_path, init, count):
    assert list_devices(build_driver(tmp_path, init, count)) == ()


def test_no_driver_has_no_devices():
    assert list_devices("libthere-is-no-such-driver.so.1") == ()


def test_the_host_of_a_folder_that_does_not_exist_yet(tmp_path):
    host = read_host(str(tmp_path / "a" / "b"))
    assert host.cpu_count == os.cpu_count()
    assert host.free_bytes > 0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()), ("  ", ()), ("0", ("0",)), ("0,1", ("0", "1")), (" 3 , 01 ", ("3", "1")),
        ("GPU-11aa-22", ("GPU-11aa-22",)), ("MIG-GPU-1/2/0", ("MIG-GPU-1/2/0",)),
    ],
)  # fmt: skip
def test_values_that_cuda_reads(text, names):
    assert parse_devices(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-3", "is a range"), ("0:3", "is a range"), ("-1", "hides this"), ("0,-1", "hides this"), ("0,0", "listed twice"),
        ("1,01", "listed twice"), ("cuda:0", "neither an index"), ("0,", "neither an index"), ("0 1", "neither an index"),
        ("all", "neither an index"), ("²", "neither an index"),
    ],
)  # fmt: skip
def test_values_that_cuda_reads_differently_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_devices(text)


@pytest.mark.parametrize("text", ["", "0", "1,0", "GPU-11aa-22", "GPU-33", "MIG-x"])
def test_devices_that_are_there_raise_no_problem(text):
    assert device_problems(text, HOST) == []


@pytest.mark.parametrize(
    ("text", "host", "severity", "code"),
    [
        ("0-1", HOST, "error", "DEVICES_INVALID"),
        ("0,2", HOST, "error", "DEVICE_NOT_FOUND"),
        ("GPU-99", HOST, "error", "DEVICE_NOT_FOUND"),
        ("0,GPU-11aa-22", HOST, "error", "DEVICES_INVALID"),
        ("GPU-1,GPU-11", HOST, "error", "DEVICES_INVALID"),
        ("GPU-", HOST, "error", "DEVICES_INVALID"),
        ("0,1,2,3", HOST, "error", "DEVICE_NOT_FOUND"),
        ("0", Host((), 1, 1), "warning", "NO_DEVICE"),
    ],
)
def test_device_problems(text, host, severity, code):
    (problem,) = device_problems(text, host)
    assert (problem.severity, problem.code, problem.field) == (severity, code, "CUDA_VISIBLE_DEVICES")
