"""Says in one sentence why training failed, from the last lines of its output.

In a distributed run the last lines are the launcher's own and say nothing; the first rank's error is the cause.
"""

import re
from collections.abc import Iterator, Sequence

_RANK = re.compile(r"^\[rank(\d+)\]:\s?(.*)")
_ERROR = re.compile(r"^((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)\b)(?::\s*(.*))?$")
_SIGNAL = re.compile(r"exitcode\s*:\s*-(\d+)|[Ss]ignal (\d+) \(SIG[A-Z]+\)|died with <Signals\.(SIG[A-Z]+)")
_LAUNCHER = re.compile(r"ChildFailedError|CalledProcessError|SignalException|RendezvousConnectionError")
_LOST_PEER = re.compile(
    r"DistNetworkError|DistBackendError|DistStoreError|Connection (?:closed|reset)|Broken pipe|recvValue failed"
    r"|gloo.*Timed out waiting|Timed out waiting \d+ms",
    re.IGNORECASE,
)
"""What a rank says whose peers are gone or silent: an effect, unless nothing else is there. A port that is taken, which
torch reports as DistNetworkError too, is a cause."""
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: .*|Timed out after \d+ seconds waiting for clients.*"
)
_WAITED = "a rank waited for the others longer than ddp_timeout: raise it for slow data, else find the rank that hung"

ADVICE: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (
            r"DataLoader worker .*killed by signal: Bus error|out of shared memory",
            "/dev/shm is too small: set dataloader_num_workers: 0, or give the container more shared memory",
        ),
        (
            r"Cannot allocate memory|can't allocate memory|\bMemoryError|DataLoader worker .*killed",
            "the host's memory is used up: lower the numbers of workers (preprocessing, data loader)",
        ),
        (
            r"out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
            "lower per_device_train_batch_size and raise gradient_accumulation_steps, lower cutoff_len, or use LoRA",
        ),
        (
            r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed",
            "free disk space, or keep fewer checkpoints with save_total_limit",
        ),
        (r"address already in use|EADDRINUSE", "another job holds the port: leave MASTER_PORT out, or wait"),
        (
            r"ModuleNotFoundError|No module named|PackageNotFoundError|The '.*' distribution was not found"
            r"|seems to be not installed|is required for a normal functioning",
            "install the missing package in the training environment, or run: trainer setup llamafactory",
        ),
        (r"doesn't support bf16|does not support .?pure_bf16", "set bf16: false, or train on a GPU that knows bf16"),
        (
            r"CUDA driver version is insufficient|no kernel image is available",
            "its torch does not fit this driver or GPU",
        ),
        (r"No CUDA GPUs are available|invalid device ordinal", "choose devices that the host has with --devices"),
        (
            r"cannot open shared object file|undefined symbol",
            "a library does not fit: run trainer setup llamafactory anew",
        ),
        (r"Timed out|timeout", _WAITED),
        (
            r"device-side assert|illegal memory access|ECC error|unspecified launch failure",
            "a GPU computed something invalid: look for token ids beyond the vocabulary, and at nvidia-smi",
        ),
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
    ranked = _rank_errors(lines)
    own = [error for error in ranked if not _is_effect(error)]
    single = _single_errors(lines)
    cause = (
        next(iter(own), None)
        or next((error for error in reversed(single) if not _is_effect(error)), None)
        or _plain_words(lines)
    )
    if cause:
        return cause, _advice(cause)
    killed = _killed(lines)  # a rank that the kernel killed leaves the others with nothing but lost peers
    if killed and killed[0].endswith("SIGKILL"):
        return killed
    cause = _collective_timeout(lines) or next(iter(ranked), None) or next(reversed(single), None)
    return (cause, _advice(cause)) if cause else killed


def _is_effect(error: str) -> bool:
    return _LOST_PEER.search(error) is not None and _PORT_TAKEN.search(error) is None


def _rank_errors(lines: Sequence[str]) -> list[str]:
    """The errors of ranks, in order: ranks that fail later only lost their peers."""
    found = []
    for line in lines:
        match = _RANK.match(line)
        if match and _ERROR.match(match.group(2)):
            found.append(f"rank {match.group(1)}: {match.group(2)}")
    return found


def _single_errors(lines: Sequence[str]) -> list[str]:
    """The last lines of tracebacks, in order, without the launcher's own."""
    return [line for line in lines if line == line.strip() and _ERROR.match(line) and not _LAUNCHER.search(line)]


def _collective_timeout(lines: Sequence[str]) -> str | None:
    """What NCCL's watchdog said before it aborted its process."""
    return next((found.group() for found in map(_TIMEOUT.search, lines) if found), None)


def _plain_words(lines: Sequence[str]) -> str | None:
    """Causes that reach the log without an exception line."""
    for line in reversed(lines):
        if re.search(r"No space left on device|CUDA out of memory|Address already in use|Disk quota exceeded", line):
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
