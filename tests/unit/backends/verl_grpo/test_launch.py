"""backends.verl_grpo.launch: the exact command, and an environment that nobody else's settings reach."""

import pytest
from fakes.verl_runs import verl_plan

from loopai_trainer.backends.verl_grpo.launch import build_launch, environment, is_owned
from loopai_trainer.records import LaunchPaths
from loopai_trainer.rules import plan as plans

PATHS = LaunchPaths(
    "/run", "/run/launch", "/run/checkpoints", "/run/metrics", "/run/launch/cache", "/tmp/t", "/run/inputs", 2
)
LAUNCH = {"executor": "local", "devices": "0,1", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
CPU = {"trainer": {"device": "cpu", "n_gpus_per_node": 2}}


def env(native=None, inherited=None, **launch):
    return environment(verl_plan(native, launch={**LAUNCH, **launch}), PATHS, inherited or {})


def test_the_command():
    plan = verl_plan()
    launch = build_launch(plans.approve(plan.text.encode(), plan.sha256, "x.yaml"), PATHS, {})
    assert launch.main.argv == (
        "/env/bin/python", "-m", "verl.trainer.main_ppo",
        "--config-path", "/run/launch", "--config-name", "resolved", "hydra.run.dir=hydra",
    )  # fmt: skip
    assert launch.main.cwd == "/run/launch"
    assert launch.files == {} and launch.helpers == ()


def test_what_reports_write_stays_in_the_run():
    more = env({"trainer": {"logger": ["console", "file", "tensorboard", "wandb"]}}).items() - env().items()
    assert dict(more) == {
        "TENSORBOARD_DIR": "/run/metrics/tensorboard",
        "TENSORBOARD_LOGGING_DIR": "/run/metrics/tensorboard",
        "WANDB_DIR": "/run/metrics",
    }


def test_the_whole_environment_of_a_gpu_run():
    assert env() == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "DO_NOT_TRACK": "1",
        "FLASHINFER_WORKSPACE_BASE": "/run/launch/cache",
        "HF_DATASETS_CACHE": "/run/launch/cache/huggingface/datasets",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": "/run/launch/cache/huggingface",
        "HF_HUB_OFFLINE": "1",
        "HF_MODULES_CACHE": "/run/launch/cache/huggingface/modules",
        "HOME": "/run/launch/cache",
        "HYDRA_FULL_ERROR": "1",
        "MPLCONFIGDIR": "/run/launch/cache/matplotlib",
        "PATH": "/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "RAY_TMPDIR": "/tmp/t",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": "/tmp/t",
        "TORCHINDUCTOR_CACHE_DIR": "/run/launch/cache/torchinductor",
        "TORCH_EXTENSIONS_DIR": "/run/launch/cache/torch_extensions",
        "TRANSFORMERS_OFFLINE": "1",
        "TRITON_CACHE_DIR": "/run/launch/cache/triton",
        "VERL_FILE_LOGGER_PATH": "/run/metrics/verl_metrics-2.jsonl",
        "VLLM_CACHE_ROOT": "/run/launch/cache/vllm",
        "VLLM_NO_USAGE_STATS": "1",
        "XDG_CACHE_HOME": "/run/launch/cache/xdg",
        "XDG_CONFIG_HOME": "/run/launch/cache/config",
    }


@pytest.mark.parametrize(
    "name",
    [
        "RAY_ADDRESS", "RAY_NAMESPACE", "RAY_RUNTIME_ENV_HOOK", "RAY_JOB_CONFIG_JSON_ENV_VAR", "VERL_USE_EXTERNAL_MODULES",
        "VERL_PLATFORM", "VERL_ENGINE_DEVICE", "VERL_USE_MODELSCOPE", "VERL_FILE_LOGGER_PATH", "VERL_LOGGING_LEVEL",
        "PYTHONPATH", "PYTHONSTARTUP", "HF_ENDPOINT", "HF_HOME", "HYDRA_FULL_ERROR", "CUDA_VISIBLE_DEVICES", "WORLD_SIZE",
        "RANK", "VLLM_ATTENTION_BACKEND", "SGLANG_ENABLE_JIT", "LD_PRELOAD", "TMPDIR", "TQ_CONFIG", "WANDB_API_KEY",
    ],
)  # fmt: skip
def test_the_callers_settings_do_not_reach_training(name):
    assert env(inherited={name: "harm"}) == env()
    assert env(inherited={name: "harm"}, host_env={name: "harm"}) == env()


def test_a_plan_cannot_set_what_the_launcher_owns():
    harm = {"RAY_ADDRESS": "10.0.0.1:6379", "VERL_PLATFORM": "npu", "PYTHONPATH": "/harm", "PATH": "/harm"}
    assert env(env=harm) == env()
    assert env(inherited=harm, pass_env=list(harm)) == env()


def test_what_a_plan_may_give():
    got = env(
        inherited={"HF_TOKEN": "t", "NCCL_DEBUG": "INFO", "USER": "u"},
        env={"OMP_NUM_THREADS": 4},
        pass_env=["HF_TOKEN"],
        host_env={"LD_LIBRARY_PATH": "/cuda", "NCCL_IB_HCA": "mlx5"},
    )
    added = {name: value for name, value in got.items() if name not in env()}
    assert added == {
        "HF_TOKEN": "t", "OMP_NUM_THREADS": "4", "LD_LIBRARY_PATH": "/cuda", "NCCL_IB_HCA": "mlx5", "USER": "u",
    }  # fmt: skip


class TestCpu:
    def test_the_plug_in_is_loaded_from_the_approved_copies(self):
        got = env(CPU)
        assert {name: got[name] for name in got.keys() - env().keys()} == {
            "VERL_USE_EXTERNAL_MODULES": "loopai_cpu_platform",
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",
            "PYTHONPATH": "/run/inputs",
            "OMP_NUM_THREADS": "1",
        }

    def test_ray_gets_as_many_names_of_no_device_as_there_are_ranks(self):
        assert env(CPU)["CUDA_VISIBLE_DEVICES"] == "-1,-1"
        assert env({"trainer": {"device": "cpu"}})["CUDA_VISIBLE_DEVICES"] == "-1"

    def test_threads_may_be_chosen(self):
        assert env(CPU, env={"OMP_NUM_THREADS": 2})["OMP_NUM_THREADS"] == "2"

    @pytest.mark.parametrize("trainer", [{}, {"device": "cuda"}, {"device": None}])
    def test_other_plans_load_no_plug_in(self, trainer):
        assert "PYTHONPATH" not in env({"trainer": trainer})


@pytest.mark.parametrize(("name", "owned"), [("RAY_X", True), ("NCCL_DEBUG", False), ("PATH", True), ("OMP_X", False)])
def test_owned_names(name, owned):
    assert is_owned(name) is owned
