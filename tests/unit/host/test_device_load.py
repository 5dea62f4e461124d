"""host.device_load: what a driver says of a run's GPUs, and silence where there is none."""

import os

import pytest
from fakes import nvml

from loopai_trainer.host.device_load import DeviceLoad, Gauge

GIB = 2**30


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return os.path.join(nvml.library_folder(tmp_path_factory.mktemp("nvml")), "libnvidia-ml.so.1")


def test_the_devices_of_the_plan_in_its_order(library):
    gauge = Gauge("1,0", library)
    assert gauge.read() == (
        DeviceLoad("GPU 1", "Fake GPU", 42, 2 * GIB, 80 * GIB),
        DeviceLoad("GPU 0", "Fake GPU", 41, GIB, 80 * GIB),
    )
    gauge.close()
    gauge.close()
    assert gauge.read() == ()


def test_a_part_of_a_gpu_has_memory_but_no_use(library):
    gauge = Gauge("MIG-7", library)
    assert gauge.read() == (DeviceLoad("MIG-7", "", None, 3 * GIB, 80 * GIB),)
    gauge.close()


@pytest.mark.parametrize("devices", ["", "0-1", "MIG-none"])
def test_what_names_no_device_shows_none(library, devices):
    gauge = Gauge(devices, library)
    assert gauge.read() == ()
    gauge.close()


def test_without_a_driver_there_is_nothing_to_read():
    gauge = Gauge("0", "libno-such-driver.so")
    assert gauge.read() == ()
    gauge.close()
