"""Says in one sentence why training failed, from the last lines of its output.

In a distributed run the last lines are the launcher's own and say nothing; the first rank's error is the cause.
"""

import re
from collections.abc import Iterator, Sequence

_RANK = re.compile(r"^\[rank(\d+)\]:\s?(.*)")
_ERROR = re.compile(r"^((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)\b)(?::\s*(.*))?$")
_SIGNAL = re.compile(r"exitcode\s*:\s*-(\d+)|[Ss]ignal (\d+) \(SIG[A-Z]+\)|died with <Signals\.(SIG[A-Z]+)")
_LAUNCHER = re.compile(r"ChildFailedError|CalledProcessError|SignalException|RendezvousConnectionError")

ADVICE: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (
            r"out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
            "lower per_device_train_batch_size and raise gradient_accumulation_steps, lower cutoff_len, or use LoRA",
        ),
        (r"No space left on device", "free disk space, or keep fewer checkpoints with save_total_limit"),
        (r"address already in use|EADDRINUSE", "another job holds the port: leave MASTER_PORT out, or wait"),
        (
            r"ModuleNotFoundError|No module named|PackageNotFoundError|The '.*' distribution was not found",
            "install the missing package in the training environment, or run: trainer setup llamafactory",
        ),
        (r"doesn't support bf16|does not support .?pure_bf16", "set bf16: false, or train on a GPU that knows bf16"),
        (
            r"CUDA driver version is insufficient|no kernel image is available",
            "its torch does not fit this driver or GPU",
        ),
        (r"No CUDA GPUs are available|invalid device ordinal", "choose devices that the host has with --devices"),
        (r"NCCL|ProcessGroupNCCL", "the GPUs could not talk to each other; look at the NCCL lines of the training log"),
        (r"Cannot find valid samples", "no row was usable for this template; look at data_check_report.txt"),
        (r"does not recognize this architecture", "the installed transformers is too old for this model"),
        (r"SafetensorError|Error while deserializing header", "a weight file is damaged; download the model again"),
        (
            r"couldn't connect to|Couldn't reach|OfflineMode|LocalEntryNotFound",
            "training is offline: name local folders",
        ),
        (r"FileNotFoundError|ValueError: File .* not found", "a file is gone that training reads: prepare again"),
        (r"Permission denied", "check who owns the folders that training reads and writes"),
    )
)

_SIGNALS = {
    "9": "SIGKILL",
    "15": "SIGTERM",
    "11": "SIGSEGV",
    "6": "SIGABRT",
    "7": "SIGBUS",
    "1": "SIGHUP",
    "2": "SIGINT",
}


def explain_failure(log_tail: Sequence[str]) -> tuple[str, str] | None:
    """(cause, advice), or None if the lines show no error."""
    lines = [piece.rstrip() for line in log_tail for piece in line.split("\r")]
    cause = _rank_error(lines) or _single_error(lines) or _plain_words(lines)
    if cause:
        return cause, _advice(cause)
    return _killed(lines)


def _rank_error(lines: Sequence[str]) -> str | None:
    """The error of the rank that failed first: ranks that fail later only lost their peers."""
    ranked: list[tuple[str, str]] = []
    for line in lines:
        match = _RANK.match(line)
        if match and _ERROR.match(match.group(2)):
            ranked.append((match.group(1), match.group(2)))
    real = [
        pair
        for pair in ranked
        if not re.search(r"DistNetworkError|DistBackendError|Connection (?:closed|reset)", pair[1])
    ]
    chosen = (real or ranked)[:1]
    return f"rank {chosen[0][0]}: {chosen[0][1]}" if chosen else None


def _single_error(lines: Sequence[str]) -> str | None:
    """The last exception of a traceback that is not the launcher's own."""
    for line in reversed(lines):
        text = line.strip()
        if _ERROR.match(text) and not _LAUNCHER.search(text) and text == line:
            return text
    return None


def _plain_words(lines: Sequence[str]) -> str | None:
    """Causes that reach the log without an exception line."""
    for line in reversed(lines):
        if re.search(r"No space left on device|CUDA out of memory|Address already in use", line):
            return line.strip()
    return None


def _advice(cause: str) -> str:
    return next((advice for pattern, advice in ADVICE if pattern.search(cause)), "look at the training log")


def _killed(lines: Sequence[str]) -> tuple[str, str] | None:
    for number in _signal_numbers(lines):
        name = _SIGNALS.get(number, number)
        if name == "SIGKILL":
            return (
                "a training process was killed by SIGKILL",
                "the kernel may have run out of memory: lower the numbers of workers, or use a larger host",
            )
        return f"a training process was killed by {name}", "look at the training log"
    return None


def _signal_numbers(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        match = _SIGNAL.search(line)
        if match:
            yield next(group for group in match.groups() if group)
