"""backends.verl_grpo.failures: the cause of recorded ends, and of forms that other hosts show."""

from pathlib import Path

import pytest

from loopai_trainer.backends.verl_grpo.failures import explain_failure

CASES = Path(__file__).parents[3] / "cases" / "verl"
RUNNER = "\x1b[36m(TaskRunnerV1 pid=12)\x1b[0m "
DRIVER = [
    "Error executing job with overrides: []",
    "Traceback (most recent call last):",
    '  File "/env/lib/python3.11/site-packages/verl/trainer/main_ppo.py", line 93, in run_ppo',
    "    ray.get(runner.run.remote(config))",
]


def recorded(name):
    with (CASES / name / "train.log").open(encoding="utf-8", errors="replace", newline="\n") as file:
        return file.read().split("\n")


def driver(*lines):
    return [*DRIVER, *lines]


@pytest.mark.parametrize(
    ("name", "cause", "advice"),
    [
        ("too_few_gpus", "ValueError: Total available GPUs 1.0 is less than total desired GPUs 2", "n_gpus_per_node"),
        ("no_whole_batch", "ZeroDivisionError: integer division or modulo by zero", "data.train_batch_size"),
        (
            "tensor_parallel_2_on_1",
            "rollout world_size: 1 is not divisible by infer_world_size: 2",
            "numbers of the plan",
        ),
        ("reward_gave_none", "rm_scores", "gave no score (None)"),
        ("all_prompts_failed", "the first with TypeError: cannot pickle 'coroutine' object", "reward function"),
    ],
)
def test_recorded_ends(name, cause, advice):
    found = explain_failure(recorded(name))
    assert cause in found[0]
    assert advice in found[1]


@pytest.mark.parametrize("lines", [recorded("two_ranks"), [], ["all is well"], [RUNNER + "Error rates are low"]])
def test_no_error_no_cause(lines):
    assert explain_failure(lines) is None


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("ModuleNotFoundError: No module named 'transfer_queue'", "verl[verl-core]"),
        ("ModuleNotFoundError: No module named 'cachetools'", "verl[verl-core]"),
        ("ModuleNotFoundError: No module named 'mathruler'", "verl[verl-core]"),
        ("ModuleNotFoundError: No module named 'vllm'", "install the missing package"),
        ("KeyError: 'rm_scores'", "gave no score"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu_memory_utilization"),
        ("ValueError: No available memory for the cache blocks.", "gpu_memory_utilization"),
        ("OSError: [Errno 28] No space left on device", "max_actor_ckpt_to_keep"),
        ("AssertionError: rollout world_size: 1 is not divisible by infer_world_size: 2", "numbers of the plan"),
        ("AssertionError: real_train_batch_size (30) must be divisible by minimal possible batch size (8)", "numbers of the plan"),
        ("RuntimeError: The server socket has failed to listen: Address already in use", "holds the port"),
        ("OSError: validate_socket_filename failed: AF_UNIX path length cannot exceed 107 bytes: /x", "short one"),
        ("omegaconf.errors.MissingMandatoryValue: Missing mandatory value: actor_rollout_ref.rollout.name", "key of the plan"),
        ("hydra.errors.ConfigCompositionException: Could not override 'x'.", "key of the plan"),
        ("hydra.errors.InstantiationException: Error in call to target 'X'", "key of the plan"),
        ("ValueError: batch_size should be a positive integer value, but got batch_size=0", "no validation row"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.parquet'", "prepare again"),
        ("OSError: We couldn't connect to 'https://hub' to load the files", "offline"),
        ("ValueError: something nobody has seen", "look at the training log"),
    ],
)  # fmt: skip
def test_the_drivers_last_error_is_the_cause(error, advice):
    wrapper = "ray.exceptions.RayTaskError(ValueError): ray::TaskRunnerV1.run() (pid=12, ip=192.0.2.2)"
    found = explain_failure(driver(wrapper, '  File "x.py", line 1, in f', error, RUNNER + "KeyError: 'later'"))
    assert found[0] == error
    assert advice in found[1]


class TestDeadWorkers:
    ended = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."

    def test_memory_of_the_host(self):
        said = (
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM): the node is running low on memory"
        )
        cause, advice = explain_failure([said, *driver(self.ended)])
        assert "running low on memory" in cause and "too little memory" in advice

    def test_its_own_last_words(self):
        said = "(WorkerDict pid=77, ip=10.0.0.1) torch.AcceleratorError: CUDA error: no kernel image is available"
        cause, advice = explain_failure([said, *driver(self.ended)])
        assert cause.startswith("WorkerDict: torch.AcceleratorError")
        assert "does not fit this GPU" in advice

    def test_without_a_word(self):
        cause, advice = explain_failure(driver(self.ended))
        assert "was killed" in cause and "kernel" in advice


def test_a_disk_that_only_the_raylet_sees():
    line = "(raylet) file_system_monitor: No space left on device"
    assert "max_actor_ckpt_to_keep" in explain_failure([line])[1]


def test_a_failed_prompt_is_no_cause_of_another_end():
    lines = [
        "(AgentLoopWorkerTQ pid=5) ERROR:2026-01-02 03:04:05,678:Error in _run_prompt for uid=1",
        "(AgentLoopWorkerTQ pid=5) RuntimeError: boom",
        *driver("OSError: [Errno 28] No space left on device"),
    ]
    assert explain_failure(lines)[0].startswith("OSError")
