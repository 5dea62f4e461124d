"""The program as a user runs it: a process of its own, JSON answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fakes.answers import checked

TRAINER = (sys.executable, "-P", "-m", "loopai_trainer")


class Called:
    """A finished call: `code`, the parsed envelope `answer` (None unless stdout is JSON), `out`, `err`."""

    def __init__(self, done: "subprocess.CompletedProcess[str]") -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        try:
            self.answer: Any = checked(json.loads(done.stdout))
        except ValueError:
            self.answer = None

    @property
    def data(self) -> Any:
        return self.answer["data"]

    @property
    def error(self) -> Any:
        return self.answer["error"]


def trainer(*words: "str | Path", json_answer: bool = True, timeout_s: float = 600, **environ: str) -> Called:
    """Run `trainer` with these words (and `--json`)."""
    argv = [*TRAINER, *map(str, words), *(["--json"] if json_answer else [])]
    env = {**os.environ, **environ}
    return Called(subprocess.run(argv, capture_output=True, text=True, env=env, timeout=timeout_s, check=False))


def start(*words: "str | Path", **environ: str) -> "subprocess.Popen[str]":
    """Start `trainer` in a session of its own and return the process."""
    argv = [*TRAINER, *map(str, words), "--json"]
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
        start_new_session=True,
    )
