import pytest

from loopai_trainer.rules import host_env

SHELL = {
    "LANG": "C.UTF-8",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "NCCL_IB_HCA": "mlx5",
    "OMP_NUM_THREADS": "4",
    "PATH": "/bin",
    "PYTHONPATH": "/evil",
    "LD_PRELOAD": "/evil.so",
    "HF_TOKEN": "x",
    "USER": "me",
    "LC_ALL": "a\nb",
    "TZ": "\udcff",
}


def test_values_of_the_host_are_pinned_in_order():
    assert list(host_env.pinned(SHELL).items()) == [
        ("LANG", "C.UTF-8"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("NCCL_IB_HCA", "mlx5"),
        ("OMP_NUM_THREADS", "4"),
    ]


def test_training_gets_the_pinned_values_and_who_starts_it():
    launch = {"host_env": {"LANG": "C", "PYTHONPATH": "/evil"}}
    assert host_env.reaching(launch, SHELL) == {"LANG": "C", "USER": "me"}
    assert host_env.reaching({}, SHELL) == {"USER": "me"}


@pytest.mark.parametrize(
    "block", [{"PYTHONPATH": "/x"}, {"LD_PRELOAD": "x"}, {"LANG": 1}, {"LANG": "a\nb"}, {1: "x"}, ["LANG"], "LANG"]
)
def test_anything_else_in_the_block_is_a_fault(block):
    assert len(list(host_env.faults({"host_env": block}))) == 1


@pytest.mark.parametrize("launch", [{}, {"host_env": {}}, {"host_env": {"LANG": "C", "NCCL_DEBUG": "INFO"}}])
def test_a_sound_block_has_none(launch):
    assert list(host_env.faults(launch)) == []


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "NCCL_NET_PLUGIN", "OMP_TOOL_LIBRARIES", "FI_PROVIDER_PATH"])
def test_variables_that_load_code_are_known(name):
    assert host_env.is_pinned(name)
    assert host_env.loads_code(name)
    assert not host_env.loads_code("NCCL_DEBUG")
