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


ELASTIC = [
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "/env/lib/python3.11/site-packages/llamafactory/launcher.py FAILED",
    "------------------------------------------------------------",
    "Failures:",
    "  <NO_OTHER_FAILURES>",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-29_15:02:11",
    "  host      : node",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : {code} (pid: 4711)",
    "  error_file: <N/A>",
    "  traceback : {what}",
    "============================================================",
    "Traceback (most recent call last):",
    '  File "/env/bin/llamafactory-cli", line 7, in <module>',
    "subprocess.CalledProcessError: Command '['torchrun', '--nnodes', '1']' returned non-zero exit status 1.",
]
"""How torchrun 2.14 ends (facts on LLaMA-Factory 0.9.5): none of it says why."""


def elastic(code=1, what="To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"):
    return [line.format(code=code, what=what) for line in ELASTIC]


GLOO_LOST = (
    "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer [10.0.0.1]:5"
)
GLOO_LATE = (
    "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for"
    " recv operation to complete"
)
NCCL_LATE = (
    "[rank1]:[E1129 14:02:11.123 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800032 milliseconds before "
    "timing out."
)


@pytest.mark.parametrize(
    ("lines", "cause", "advice"),
    [
        pytest.param(
            ["[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", GLOO_LOST, *elastic()],
            "rank 1: torch.OutOfMemoryError",
            "lower per_device_train_batch_size",
            id="one rank's memory, its peers' complaints",
        ),
        pytest.param(
            [GLOO_LOST, *elastic(-9, "Signal 9 (SIGKILL) received by PID 4711")],
            "a training process was killed by SIGKILL",
            "the kernel may have run out of memory",
            id="a rank that the kernel killed",
        ),
        pytest.param(
            [
                NCCL_LATE,
                "terminate called after throwing an instance of 'c10::DistBackendError'",
                *elastic(-6, "Signal 6 (SIGABRT)"),
            ],
            "Watchdog caught collective operation timeout",
            "a rank waited for the others longer than ddp_timeout",
            id="NCCL's watchdog",
        ),
        pytest.param([GLOO_LATE, *elastic()], "rank 0: RuntimeError", "a rank waited", id="gloo's time limit"),
        pytest.param(
            ["torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined."],
            "Timed out after 1801 seconds",
            "a rank waited",
            id="a rank that never came",
        ),
        pytest.param(
            [
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
                "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
                *elastic()[-3:],
            ],
            "torch.distributed.DistNetworkError: The server socket",
            "another job holds the port",
            id="a port that is taken",
        ),
        pytest.param(
            ["[rank0]: OSError: [Errno 122] Disk quota exceeded", GLOO_LOST.replace("rank0", "rank1"), *elastic()],
            "rank 0: OSError",
            "free disk space",
            id="a quota",
        ),
        pytest.param(
            [
                "safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)"
            ],
            "safetensors_rust.SafetensorError",
            "free disk space",
            id="a disk that filled up in a checkpoint",
        ),
        pytest.param(
            ["RuntimeError: PytorchStreamWriter failed writing file data/7: file write failed"],
            "RuntimeError: PytorchStreamWriter",
            "free disk space",
            id="the same from torch.save",
        ),
        pytest.param(
            ["ImportError: FlashAttention2 has been toggled on, but the package flash_attn seems to be not installed."],
            "ImportError: FlashAttention2",
            "install the missing package",
            id="a package that transformers asks for",
        ),
        pytest.param(
            ["ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"],
            "ImportError: libcudart",
            "a library does not fit",
            id="a library that is not there",
        ),
        pytest.param(
            [
                "RuntimeError: DataLoader worker (pid 88) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."
            ],
            "RuntimeError: DataLoader worker",
            "/dev/shm is too small",
            id="shared memory",
        ),
        pytest.param(
            ["OSError: [Errno 12] Cannot allocate memory"], "OSError", "the host's memory is used up", id="host memory"
        ),
        pytest.param(
            ["[rank0]: RuntimeError: CUDA error: device-side assert triggered", *elastic(-6, "Signal 6 (SIGABRT)")],
            "rank 0: RuntimeError: CUDA error",
            "a GPU computed something invalid",
            id="an assert on the device",
        ),
        pytest.param(
            elastic(-11, "Signal 11 (SIGSEGV) received by PID 4711"),
            "a training process was killed by SIGSEGV",
            "look at the training log",
            id="nothing but a signal",
        ),
        pytest.param([GLOO_LOST, *elastic()], "rank 0: RuntimeError", "look at", id="nothing but a lost peer"),
    ],
)
def test_ends_as_they_look_in_real_logs(lines, cause, advice):
    found = explain_failure(["{'loss': '1.2'}", *lines])
    assert found is not None
    assert found[0].startswith(cause)
    assert found[1].startswith(advice)


def test_a_launcher_alone_explains_nothing():
    assert explain_failure(elastic()) is None
