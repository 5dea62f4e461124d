"""An agent that follows SKILL.md word by word: it types the lines of its blocks into a shell, and knows nothing else.

What it fills in for their names (CONFIG_PATH, HASH, VERSION ...) comes from the fields that SKILL.md says they are.
Training is a stand-in's (fakes.llamafactory_program, fakes.verl_program), which may be held at its end.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.answers import checked
from fakes.llamafactory_env import make_environment
from fakes.llamafactory_program import TEMPLATE, make_startable
from fakes.sft_plans import make_model_folder
from fakes.skill import REFERENCES, SKILL, blocks, section
from fakes.verl_program import make_startable_verl
from fakes.verl_rehearsals import rows as prompts
from fakes.verl_rehearsals import write_rows as write_prompts
from fakes.verl_runs import save_base_model
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import observe, read_started

_HELD = """
import time
with open({starts!r}, "a") as file:
    file.write("started\\n")
while os.path.exists({hold!r}):
    time.sleep(0.02)
"""
_NAMES = re.compile(r"\b(CONFIG_PATH|HASH|VERSION|DATA|MODEL_DIR|SENTENCE|TEMPLATE)\b")
LIMIT_S = 120.0
MODEL = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}


class Session:
    """A project folder with data, model, template and environment, and a shell in it that has `trainer` on its PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hold = root / "hold"
        self.starts_file = root / "starts"
        (root / "bin").mkdir()
        (root / "bin" / "trainer").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m loopai_trainer "$@"\n'
        )
        (root / "bin" / "trainer").chmod(0o755)
        self.names: dict[str, str] = {"MODEL_DIR": "model", "SENTENCE": "answer questions"}
        self.env: dict[str, str] = {
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "HOME": str(root),
            **self.furnish(),
            **{f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "DATA", "CONFIG")},
        }
        self.document: dict[str, Any] = {}
        self.history: list[str] = []

    def furnish(self) -> dict[str, str]:
        """Data, model, template and environment of LLaMA-Factory; the variables that name what the user has set up."""
        env = make_startable(make_environment(self.root / "env"))
        program = env / "bin" / "llamafactory-cli"
        program.write_text(program.read_text() + _HELD.format(starts=str(self.starts_file), hold=str(self.hold)))
        self.model = make_model_folder(self.root / "model")
        self.rows_file = self.root / "data.jsonl"
        self.write_rows([{"instruction": f"question {n}", "output": f"answer {n}"} for n in range(8)])
        (self.root / "template.yaml").write_text(TEMPLATE)
        self.names.update(DATA="data.jsonl", TEMPLATE="template.yaml")
        return {"LLAMAFACTORY_ENV_PATH": str(env)}

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        self.rows_file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def line_of(self, step: str, replaced: Mapping[str, str] | None = None) -> str:
        """The one line of that step of SKILL.md, filled in; `replaced`: words that this session has other ones for."""
        (line,) = blocks(section((SKILL / "SKILL.md").read_text(), f"### {step}"))
        return self.fill(line, replaced)

    def fill(self, line: str, replaced: Mapping[str, str] | None = None) -> str:
        """The line with its names and those words replaced, each of which has to stand in it."""
        for old, new in (replaced or {}).items():
            assert old in line, f"{old!r} does not stand in {line!r}"
            line = line.replace(old, new)
        return _NAMES.sub(lambda found: self.names[found[1]], line)

    def step(self, step: str, replaced: Mapping[str, str] | None = None) -> int:
        """Type the line of that step; the exit code. `document` is its answer."""
        return self.type(self.line_of(step, replaced))

    def type(self, line: str) -> int:
        """Type a line into the shell of the agent."""
        return self.answer(self.start(line))

    def start(self, line: str) -> "subprocess.Popen[bytes]":
        """Begin to type a line: the shell runs in a session of its own, as an agent's does."""
        self.history.append(line.strip())
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(["bash", "-c", line], cwd=self.root, env=self.env, start_new_session=True, **pipes)

    def answer(self, shell: "subprocess.Popen[bytes]") -> int:
        """The exit code of what was typed; takes over what its answer says of names."""
        out, err = shell.communicate(timeout=LIMIT_S)
        try:
            self.document = checked(json.loads(out))
        except ValueError:
            raise AssertionError(f"exit {shell.returncode}, no JSON: {out!r} {err.decode()}") from None
        data = self.document["data"] or {}
        for name, field in (("CONFIG_PATH", "config_path"), ("VERSION", "trainer_version_id")):
            if data.get(field):
                self.names[name] = data[field]
        if "config_yaml" in data:
            self.names["HASH"] = data["config_sha256"]
        return shell.returncode

    @property
    def data(self) -> dict[str, Any]:
        return self.document["data"]

    @property
    def error(self) -> dict[str, Any]:
        return self.document["error"]

    @property
    def config(self) -> Path:
        return Path(self.names["CONFIG_PATH"])

    @property
    def run(self) -> RunDir:
        return TaskDir(str(self.root / "outputs"), "default").run(self.names["VERSION"])

    @property
    def starts(self) -> int:
        """How many trainings there were."""
        return len(self.starts_file.read_text().split()) if self.starts_file.exists() else 0

    def state(self) -> dict[str, Any]:
        return observe(self.run).state

    def leave(self) -> list[Any]:
        """Let a held training end, and give what is left of this session after a while."""
        self.hold.unlink(missing_ok=True)
        if "VERSION" not in self.names:
            return []
        until = time.monotonic() + 60.0
        while (left := self._living()) and time.monotonic() < until:
            time.sleep(0.02)
        return left

    def _living(self) -> list[Any]:
        own = [self.state().get("worker"), read_started(self.run).get("keeper")]
        marked = processes.marked(self.run.version_id, self.run.path)
        return [one for one in own if processes.alive(one)] + list(marked)


class GrpoSession(Session):
    """The same for GRPO: verl's own Parquet, a small model, and an environment with a verl that is played."""

    def furnish(self) -> dict[str, str]:
        """Data, model and environment of verl, under the names of references/grpo.md."""
        env = make_startable_verl(self.root / "env", self.hold, self.starts_file)
        self.model = save_base_model(self.root / "model", **MODEL)
        write_prompts(self.root / "train.parquet", prompts([str(n) for n in range(40)]))
        write_prompts(self.root / "validation.parquet", prompts([str(n) for n in range(100, 104)], content="And this?"))
        self.names.update(DATA="train.parquet", TEMPLATE="verl_grpo_cpu_smoke")
        return {"VERL_ENV_PATH": str(env)}


def reference_line(name: str, heading: str, number: int = 0) -> str:
    """A line of a block of a reference, as it stands there."""
    return blocks(section((REFERENCES / f"{name}.md").read_text(), heading))[number]
