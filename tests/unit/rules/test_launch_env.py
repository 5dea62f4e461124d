import pytest

from loopai_trainer.backends.llamafactory_sft.launch import OWNED
from loopai_trainer.rules import launch_env


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PATH", "HOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONHASHSEED",
        "DISABLE_VERSION_CHECK", "USE_MODELSCOPE_HUB", "USE_OPENMIND_HUB", "USE_V1", "USE_RAY", "HF_HOME", "HF_ENDPOINT",
        "HF_HUB_OFFLINE", "HF_TOKEN", "WANDB_API_KEY", "TORCH_HOME", "TORCH_LOGS", "TORCHINDUCTOR_CACHE_DIR", "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_INJECTION64_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_CONF_FILE",
        "OMP_TOOL_LIBRARIES", "FI_PROVIDER_PATH", "UCX_MODULE_DIR", "TENSORBOARD_LOGGING_DIR", "WANDB_DIR", "RANK", "WORLD_SIZE",
        "ACCELERATE_MIXED_PRECISION", "FORCE_TORCHRUN", "nccl_debug", "NCCL_A=B", "NCCL_ X", "", 3, None, ("a",),
    ],
)  # fmt: skip
def test_what_may_change_a_run_cannot_be_set(name):
    assert not launch_env.is_settable(name)


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "MASTER_PORT",
        "PYTORCH_CUDA_ALLOC_CONF",
        "CUDA_LAUNCH_BLOCKING",
        "LC_ALL",
        "WANDB_PROJECT",
    ],
)
def test_tuning_can_be_set_and_passed(name):
    assert launch_env.is_settable(name) and launch_env.is_passable(name)


def test_secrets_are_passed_alone():
    for name in launch_env.PASSED_ALONE:
        assert launch_env.is_passable(name) and not launch_env.is_settable(name)
    assert not launch_env.is_passable("LD_PRELOAD")


def test_nothing_that_the_launcher_owns_can_be_set_or_passed():
    assert not [name for name in OWNED if launch_env.is_passable(name)]
