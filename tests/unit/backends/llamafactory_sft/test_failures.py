from pathlib import Path

import pytest

from loopai_trainer.backends.llamafactory_sft.failures import explain_failure

CASES = Path(__file__).parents[3] / "cases" / "llamafactory"


def test_the_first_ranks_error_and_not_the_launchers():
    lines = (CASES / "missing_data_2_ranks" / "train.log").read_text().split("\n")
    assert lines[-2].startswith("subprocess.CalledProcessError")
    assert explain_failure(lines) == (
        "rank 0: ValueError: File /run/prepared_data/train.parquet not found.",
        "a file is gone that training reads: prepare again",
    )


def test_a_run_that_went_well_shows_no_failure():
    assert explain_failure((CASES / "full" / "train.log").read_text().split("\n")) is None
    assert explain_failure([]) is None


def test_a_rank_that_only_lost_its_peers_is_not_the_cause():
    lines = [
        "[rank1]: torch.distributed.DistBackendError: NCCL communicator was aborted",
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ]
    cause, advice = explain_failure(lines)
    assert cause == "rank 0: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert advice.startswith("lower per_device_train_batch_size")
    assert explain_failure(lines[:1])[1].startswith("the GPUs could not talk")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", "lower per_device_train_batch_size"),
        ("OSError: [Errno 28] No space left on device", "free disk space"),
        ("RuntimeError: The server socket has failed to listen: EADDRINUSE", "another job holds the port"),
        ("ModuleNotFoundError: No module named 'deepspeed'", "install the missing package"),
        (
            "importlib.metadata.PackageNotFoundError: The 'deepspeed>=0.10' distribution was not found",
            "install the missing",
        ),
        ("ValueError: Your setup doesn't support bf16/gpu.", "set bf16: false"),
        ("RuntimeError: Cannot find valid samples, check `data/README.md`.", "no row was usable"),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: header too large",
            "a weight file is damaged",
        ),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "check who owns"),
        ("KeyError: 'instruction'", "look at the training log"),
        ("KeyboardInterrupt", "look at the training log"),
    ],
)
def test_single_process_errors_get_their_advice(line, advice):
    cause, said = explain_failure(
        ["Traceback (most recent call last):", '  File "x.py", line 1, in f', line, "", "{'loss': '1.0'}"]
    )
    assert cause == line and said.startswith(advice)


def test_the_last_exception_counts_not_one_that_was_handled():
    lines = [
        "ImportError: no flash_attn",
        "During handling of the above exception, another exception occurred:",
        "ValueError: bad",
    ]
    assert explain_failure(lines)[0] == "ValueError: bad"


def test_causes_without_an_exception_line():
    assert (
        explain_failure(["write failed: No space left on device", "bye"])[0] == "write failed: No space left on device"
    )


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("  exitcode  : -9 (pid: 12345)", "a training process was killed by SIGKILL"),
        ("Signal 15 (SIGTERM) received by PID 7", "a training process was killed by SIGTERM"),
        ("died with <Signals.SIGSEGV: 11>", "a training process was killed by SIGSEGV"),
    ],
)
def test_a_killed_process_is_told(line, cause):
    assert explain_failure(["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", line])[0] == cause
