"""Runs a real training under a trace and lists what it read; exit 0 if every file is covered, 1 if not, 2 if it failed.

Covered is what the approved YAML pins, what the run itself wrote, the backend's environment and the operating system.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import classes
import traces

ROOT = Path(__file__).resolve().parents[2]
TRAINER = (sys.executable, "-P", "-m", "loopai_trainer")


def main() -> int:
    """Parse, prepare if no run is named, trace, sort out, tell."""
    parser = argparse.ArgumentParser(prog="scripts/audit-reads", description=__doc__)
    parser.add_argument("config", nargs="?", help="a prepared YAML; left out: a tiny LLaMA-Factory run is made")
    parser.add_argument("sha256", nargs="?", help="its approved hash")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--hook", action="store_true", help="no strace: a Python audit hook (sees Python's opens alone)"
    )
    parser.add_argument("--keep", metavar="DIR", help="work there, and leave everything")
    asked = parser.parse_args()
    if bool(asked.config) != bool(asked.sha256) or (asked.config and asked.hook):
        parser.error("give CONFIG and SHA256 together, and --hook without them")
    if not asked.hook and not shutil.which("strace"):
        fail("strace is not installed (Debian package strace); --hook goes without it, and sees less")
    work = Path(asked.keep or tempfile.mkdtemp(prefix="audit-reads-")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        found = audit(work, asked.config, asked.sha256, hook=asked.hook)
    finally:
        if not asked.keep:
            shutil.rmtree(work, ignore_errors=True)
    say(json.dumps(found, indent=2) if asked.json else text_of(found))
    return 1 if found["read"]["remainder"] or found["absent"]["remainder"] else 0


def audit(work: Path, config: str | None, sha256: str | None, *, hook: bool) -> dict[str, Any]:
    """The lists of one run: files read, and names looked for in vain, each by class."""
    log = work / "opened.jsonl"
    if config is None or sha256 is None:
        env = backend_environment()
        make_inputs(work, env)
        config, sha256 = prepare_tiny(work, with_hook(env, work, log) if hook else env)
    command = [*TRAINER, "run-prepared", config, "--sha256", sha256, "--json"]
    prefix = work / "trace"
    traced = command if hook else [*traces.STRACE, "-o", str(prefix), *command]
    done = subprocess.run(traced, capture_output=True, text=True, env=environ(work), check=False)
    run = Path(config).resolve().parent
    if done.returncode != 0 or not (run / "launch" / "started").exists():
        fail(f"the run did not complete (exit {done.returncode}):\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    main_pid = json.loads((run / "launch" / "started").read_text())["training"]["pid"]
    opened = set(traces.from_hook(log) if hook else traces.from_strace(prefix, main_pid))
    places = classes.places_of(run)
    read = classes.sorted_out((one.path for one in opened if not one.absent), places)
    return {
        "how": "audit hook" if hook else "strace",
        "run": str(run),
        "read": read,
        "absent": classes.sorted_out((one.path for one in opened if one.absent), places),
        "approved_but_not_read": sorted(places.approved - {os.path.realpath(path) for path in read["approved"]}),
    }


def backend_environment() -> Path:
    """LOOPAI_TRAINER_LF_ENV, else the one that `trainer setup` makes."""
    named = os.environ.get("LOOPAI_TRAINER_LF_ENV")
    return Path(named or answer("setup", "llamafactory")["data"]["env_dir"]).resolve()


def make_inputs(work: Path, env: Path) -> None:
    """A tiny model and small data, without a network."""
    examples = ROOT / "examples"
    call(str(env / "bin" / "python"), str(examples / "make_tiny_model.py"), str(work / "model"))
    call(sys.executable, str(examples / "make_bilingual_data.py"), str(work / "data.jsonl"))


def prepare_tiny(work: Path, env: Path) -> tuple[str, str]:
    """(config, sha256) of a run of 12 steps on a CPU."""
    words = ["prepare", "--dataset", str(work / "data.jsonl"), "--model", str(work / "model"), "--env", str(env)]
    words += [
        "--template",
        "cpu_smoke_full",
        "--config-mode",
        "template",
        "--task-id",
        "audit",
        "--version-id",
        "audit",
    ]
    words += ["--task-description", "an audit", "--output-dir", str(work / "out")]
    data = answer(*words, env=environ(work))["data"]
    return data["config_path"], data["config_sha256"]


def with_hook(env: Path, work: Path, log: Path) -> Path:
    """An environment of links to `env`'s packages, with the audit hook in a sitecustomize.py of its own."""
    overlay = work / "env"
    for site in env.glob("lib/python*/site-packages"):
        own = overlay / site.relative_to(env)
        own.mkdir(parents=True)
        for entry in site.iterdir():
            (own / entry.name).symlink_to(entry)
        (own / "sitecustomize.py").unlink(missing_ok=True)
        (own / "sitecustomize.py").write_text(traces.HOOK.format(log=str(log)))
    (overlay / "bin").mkdir()
    for entry in (env / "bin").iterdir():
        (overlay / "bin" / entry.name).symlink_to(os.path.realpath(entry))
    shutil.copy(env / "pyvenv.cfg", overlay)
    return overlay


def environ(work: Path) -> dict[str, str]:
    """User folders of the audit's own: no cache of hashes and no index of somebody's runs is touched."""
    return {**os.environ, **{f"LOOPAI_TRAINER_{kind}_DIR": str(work / kind.lower()) for kind in ("STATE", "CACHE")}}


def answer(*words: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON answer of `trainer WORDS`."""
    found: dict[str, Any] = json.loads(call(*TRAINER, *words, "--json", env=env))
    return found


def call(*argv: str, env: dict[str, str] | None = None) -> str:
    """stdout of a program that has to succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def text_of(found: dict[str, Any]) -> str:
    """For people: numbers of each class, the approved inputs and the remainder by name."""
    lines = [f"{found['run']}, by {found['how']}"]
    for title, lists in (("files read", found["read"]), ("names looked for in vain", found["absent"])):
        lines.append(f"{title}: " + ", ".join(f"{name} {len(paths)}" for name, paths in lists.items()))
    lines += ["approved inputs that were read:", *(f"  {path}" for path in found["read"]["approved"])]
    lines += ["approved, but not read:", *(f"  {path}" for path in found["approved_but_not_read"])]
    remainder = [*found["read"]["remainder"], *(f"{path} (absent)" for path in found["absent"]["remainder"])]
    lines += ["covered by nothing:", *(f"  {path}" for path in remainder or ["nothing"])]
    return "\n".join(lines)


def say(text: str) -> None:
    """To stdout."""
    sys.stdout.write(text + "\n")


def fail(text: str) -> NoReturn:
    """Not a finding: the audit itself could not be made."""
    sys.stderr.write(f"audit-reads: {text}\n")
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
