import os
import socket
from pathlib import Path

import pytest
from fakes.sft_plans import make_paths, make_plan

from loopai_trainer.backends.llamafactory_sft import launch as launches
from loopai_trainer.backends.llamafactory_sft.launch import build_launch, launch_problems
from loopai_trainer.rules import host_env, yaml_text
from loopai_trainer.rules import plan as plans

CASES = Path(__file__).parents[3] / "cases" / "config"


def build(run, inherited=None, **changes):
    plan = make_plan(run, **changes)
    return build_launch(plans.approve(plan.text.encode(), plan.sha256), make_paths(run), inherited or {})


def test_the_command_names_no_path_that_could_be_torn(tmp_path):
    run = tmp_path / "a run"
    launch = build(run)
    assert launch.main.argv == ("/env/bin/python", "/env/bin/llamafactory-cli", "train", "train.yaml")
    assert launch.main.cwd == str(run / "launch")
    assert launch.helpers == ()


def test_the_file_holds_the_native_keys_alone(tmp_path):
    plan = make_plan(tmp_path / "run")
    text = build(tmp_path / "run").files["train.yaml"]
    assert yaml_text.load(text, "train.yaml").values == plan.native
    assert "loopai" not in text


def test_the_environments_bin_is_first_on_path(tmp_path):
    env = build(tmp_path / "run", {"PATH": "/other/bin"}).main.env
    assert env["PATH"].split(os.pathsep)[0] == "/env/bin"
    assert "/other/bin" not in env["PATH"]


def test_what_reports_write_stays_in_the_run(tmp_path):
    run = tmp_path / "run"
    env = build(run, native={"report_to": ["wandb", "tensorboard"], "use_swanlab": True}).main.env
    assert env["WANDB_DIR"] == str(run / "metrics")
    assert env["TENSORBOARD_LOGGING_DIR"] == str(run / "metrics" / "tensorboard")
    assert env["SWANLAB_LOG_DIR"] == str(run / "metrics" / "swanlab")
    assert not {"WANDB_DIR", "TRACKIO_DIR"} & build(run).main.env.keys()


@pytest.mark.parametrize(
    "name",
    [
        "USE_V1", "ALLOW_EXTRA_ARGS", "FORCE_TORCHRUN", "NPROC_PER_NODE", "NNODES", "MASTER_PORT", "MASTER_ADDR", "RANK",
        "LOCAL_RANK", "WORLD_SIZE", "USE_MODELSCOPE_HUB", "USE_RAY", "USE_MCA", "USE_KT", "LLAMABOARD_ENABLED", "WANDB_PROJECT",
        "PYTHONPATH", "HF_TOKEN", "HF_ENDPOINT", "TRANSFORMERS_CACHE", "DISABLE_VERSION_CHECK", "RECORD_VRAM",
        "PYTORCH_CUDA_ALLOC_CONF", "LD_PRELOAD", "ACCELERATE_USE_FSDP", "CUDA_LAUNCH_BLOCKING", "OPTIM_TORCH",
    ],
)  # fmt: skip
def test_what_changes_an_approved_run_is_left_behind(tmp_path, name):
    assert name not in build(tmp_path / "run", {name: "1"}).main.env


@pytest.mark.parametrize(
    "name", ["LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "NCCL_IB_HCA", "OMP_NUM_THREADS"]
)
def test_what_describes_the_host_has_the_approved_value(tmp_path, name):
    launch = {"host_env": {name: "approved"}}
    assert build(tmp_path / "run", {name: "x"}, launch=launch).main.env[name] == "approved"
    assert name not in build(tmp_path / "other", {name: "x"}).main.env


def test_who_starts_it_passes(tmp_path):
    assert build(tmp_path / "run", {"USER": "me", "SHELL": "/bin/sh"}).main.env["USER"] == "me"


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "USER", "HF_HOME"])
def test_a_plan_cannot_pass_off_anything_as_the_hosts(tmp_path, name):
    assert build(tmp_path / "run", {}, launch={"host_env": {name: "x"}}).main.env.get(name) != "x"


def test_caches_home_and_temp_lie_inside_the_run(tmp_path):
    run = tmp_path / "run"
    env = build(run, {"HOME": "/home/someone", "TMPDIR": "/scratch", "HF_HOME": "/big/hf"}).main.env
    for name in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "MPLCONFIGDIR",
                 "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TMPDIR"):  # fmt: skip
        assert env[name].startswith(str(run / "launch"))
    assert (env["HF_HUB_OFFLINE"], env["TRANSFORMERS_OFFLINE"]) == ("1", "1")
    assert (env["PYTHONNOUSERSITE"], env["PYTHONUNBUFFERED"]) == ("1", "1")


def test_one_device_is_one_process(tmp_path):
    env = build(tmp_path / "run", {"CUDA_VISIBLE_DEVICES": "7"}).main.env
    assert env["CUDA_VISIBLE_DEVICES"] == "0"
    assert "FORCE_TORCHRUN" not in env


def test_several_devices_are_several_processes(tmp_path):
    env = build(tmp_path / "run", launch={"devices": "2,3", "nproc_per_node": 2}).main.env
    assert (env["CUDA_VISIBLE_DEVICES"], env["FORCE_TORCHRUN"], env["NPROC_PER_NODE"]) == ("2,3", "1", "2")


def test_deepspeed_runs_under_torchrun_on_one_device_too(tmp_path):
    env = build(tmp_path / "run", native={"deepspeed": "/x/ds.json"}).main.env
    assert (env["FORCE_TORCHRUN"], env["NPROC_PER_NODE"]) == ("1", "1")


def test_a_cpu_plan_hides_all_devices(tmp_path):
    env = build(tmp_path / "run", {"use_cpu": True}, template={"use_cpu": True}, launch={"devices": "0,1"}).main.env
    assert env["CUDA_VISIBLE_DEVICES"] == ""


def test_approved_additions_pass_and_owned_names_do_not(tmp_path):
    launch = {
        "env": {"NCCL_DEBUG": "INFO", "USE_V1": "1", "HF_HOME": "/x"},
        "pass_env": ["HF_TOKEN", "ABSENT", "PYTHONPATH"],
    }
    env = build(tmp_path / "run", {"HF_TOKEN": "secret", "PYTHONPATH": "/evil"}, launch=launch).main.env
    assert (env["NCCL_DEBUG"], env["HF_TOKEN"]) == ("INFO", "secret")
    assert env["HF_HOME"] != "/x"
    assert not {"USE_V1", "ABSENT", "PYTHONPATH"} & set(env)


def test_cfg_04a_a_fixed_port_that_is_taken_is_told_with_its_owner(tmp_path):
    wanted = dict(line.split("=") for line in (CASES / "CFG-04A" / "env.txt").read_text().split())
    assert wanted["FORCE_TORCHRUN"] == "1"
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        plan = make_plan(
            tmp_path / "run", launch={"nproc_per_node": 2, "devices": "0,1", "env": {"MASTER_PORT": str(port)}}
        )
        (problem,) = launch_problems(plan)
        assert (problem.code, problem.field) == ("NO_PORT", "loopai.launch.env.MASTER_PORT")
        assert f"port {port} is taken by process {os.getpid()}" == problem.message
    assert launch_problems(plan) == []


@pytest.mark.parametrize("value", ["http", "0", "70000"])
def test_a_port_that_is_none_is_told(tmp_path, value):
    plan = make_plan(tmp_path / "run", launch={"nproc_per_node": 2, "devices": "0,1", "env": {"MASTER_PORT": value}})
    assert [problem.code for problem in launch_problems(plan)] == ["NO_PORT"]


def test_without_a_fixed_port_or_torchrun_there_is_nothing_to_check(tmp_path):
    assert launch_problems(make_plan(tmp_path / "run", launch={"nproc_per_node": 2})) == []
    assert launch_problems(make_plan(tmp_path / "run", launch={"env": {"MASTER_PORT": "http"}})) == []


def test_owned_and_allowed_names_do_not_overlap():
    assert not launches.OWNED & {*host_env.PINNED, *host_env.LIVE}
    assert not [name for name in launches.OWNED if name.startswith(host_env.PINNED_STARTS)]


def test_nodes_of_a_plan(tmp_path):
    """Rank 0's; whoever starts another node sets its rank."""
    two = {"executor": "local", "nodes": 2, "nproc_per_node": 1, "env": {"MASTER_ADDR": "h", "MASTER_PORT": "29500"}}
    env = build(tmp_path / "run", launch=two).main.env
    assert {name: env[name] for name in ("FORCE_TORCHRUN", "NPROC_PER_NODE", "NNODES", "NODE_RANK")} == {
        "FORCE_TORCHRUN": "1",
        "NPROC_PER_NODE": "1",
        "NNODES": "2",
        "NODE_RANK": "0",
    }
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("h", "29500")
    assert not {"NNODES", "NODE_RANK"} & build(tmp_path / "run").main.env.keys()
