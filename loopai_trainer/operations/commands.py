"""The commands that answers tell people and agents to type next. Light: `run-prepared` prints one first of all."""

import shlex


def verb(*words: str) -> str:
    """Any other call, word by word."""
    return shlex.join(["trainer", *words])


def prepare(words: "list[str]") -> str:
    """Makes the YAML of what `words` (flags with their values) say, and of what environment and files say."""
    return shlex.join(["trainer", "prepare", *words])


def run_prepared(config_path: str, sha256: str) -> str:
    """Starts exactly the YAML with that hash, or re-attaches to it."""
    return shlex.join(["trainer", "run-prepared", config_path, "--sha256", sha256])


def inspect(config_path: str) -> str:
    """Shows and re-checks a prepared YAML."""
    return shlex.join(["trainer", "inspect", config_path])


def dev(config_path: str) -> str:
    """Tries a prepared YAML cheaply."""
    return shlex.join(["trainer", "dev", config_path])


def refresh(config_path: str) -> str:
    """Takes present inputs into an edited YAML."""
    return shlex.join(["trainer", "inspect", config_path, "--refresh"])


def approve(run_path: str) -> str:
    """The operator's own approval, at a terminal."""
    return shlex.join(["trainer", "approve", run_path])


def wait(run_path: str) -> str:
    """Waits for a run that goes on."""
    return shlex.join(["trainer", "wait", run_path])


def status(run_path: str) -> str:
    """Says where a run is."""
    return shlex.join(["trainer", "status", run_path])


def watch(run_path: str) -> str:
    """Shows a run live."""
    return shlex.join(["trainer", "watch", run_path])


def logs(run_path: str) -> str:
    """Shows what training printed."""
    return shlex.join(["trainer", "logs", run_path])


def export(run_path: str) -> str:
    """Makes a model folder of the chosen checkpoint."""
    return shlex.join(["trainer", "export", run_path])


def setup(backend: str) -> str:
    """Makes the pinned environment of a backend."""
    return shlex.join(["trainer", "setup", backend])
