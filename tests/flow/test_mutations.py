"""What was approved is what runs: whatever is changed after approval is refused, with its code, and nothing starts.

A whole plan for LLaMA-Factory (a stand-in environment, real snapshots, model, registry and DeepSpeed JSON) is mutated
thousands of times in this process and some dozen times through the program. Seeds are fixed; each mutation is undone.
"""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.prepared_sft import PreparedSft

from loopai_trainer import executors
from loopai_trainer.errors import TrainerError
from loopai_trainer.operations.run_prepared import run_prepared

pytestmark = pytest.mark.flow

IN_PROCESS, PARTS = 10_000, 4
"""So many in all; in parts, so that the suite's processes share them."""
THROUGH_THE_PROGRAM = 50

Undo = Callable[[], None]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedSft:
    return PreparedSft(tmp_path_factory.mktemp("mutations"))


class Target:
    """A file that the approval covers: exit code and error codes that answer a change of its content."""

    def __init__(self, path: Path, exit_code: int, codes: set[str]) -> None:
        self.path = path
        self.exit_code = exit_code
        self.codes = codes


def targets(prepared: PreparedSft) -> dict[str, list[Target]]:
    """What can be mutated, by kind. A damaged YAML that is not even the right hash is 5, whatever it became."""
    run = prepared.run
    site = prepared.env / "lib" / "python3.11" / "site-packages"
    changed, missing = "INPUT_CHANGED", "INPUT_MISSING"
    return {
        "yaml": [Target(Path(run.config), 5, {"CONFIG_HASH_MISMATCH"})],
        "snapshot": [Target(path, 6, {changed, missing}) for path in sorted(Path(run.prepared_data).glob("*.parquet"))],
        "registry": [Target(Path(run.prepared_data, "dataset_info.json"), 6, {changed, missing})],
        "copy": [Target(path, 6, {changed, missing}) for path in sorted(Path(run.inputs).iterdir())],
        "model": [Target(path, 6, {changed, missing}) for path in sorted(prepared.model.iterdir())],
        "code": [
            Target(prepared.env / "bin" / "llamafactory-cli", 6, {"ENVIRONMENT_CHANGED"}),
            *(Target(path, 6, {"ENVIRONMENT_CHANGED"}) for path in sorted((site / "llamafactory").rglob("*.py"))),
        ],
    }


# --- mutations: each changes one thing and gives back how to undo it -------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[None]:
    """Snapshots and copies are read-only; whoever changes them has the right to change that too."""
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o600)
    yield
    path.chmod(mode)


def rewritten(path: Path, change: Callable[[bytes], bytes], *, keep_mtime: bool) -> Undo:
    before, times = path.read_bytes(), path.stat()
    after = change(before)
    assert after != before
    with opened(path):
        path.write_bytes(after)
    if keep_mtime:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def undo() -> None:
        with opened(path):
            path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return undo


def flip(random_: random.Random, data: bytes) -> bytes:
    at = random_.randrange(len(data)) if data else 0
    return data[:at] + bytes((data[at] ^ (1 << random_.randrange(8)),)) + data[at + 1 :] if data else b"x"


def insert(random_: random.Random, data: bytes) -> bytes:
    at = random_.randrange(len(data) + 1)
    return data[:at] + random_.randbytes(random_.randint(1, 4)) + data[at:]


def cut(random_: random.Random, data: bytes) -> bytes:
    return data[: random_.randrange(len(data))] if data else b"x"


def swap_ends(random_: random.Random, data: bytes) -> bytes:
    """The same bytes, the same size, another order."""
    half = len(data) // 2
    turned = data[half:] + data[:half]
    return turned if turned != data else data + b"\n"


CONTENT = (flip, flip, flip, insert, cut, swap_ends)


def replaced(path: Path, random_: random.Random) -> Undo:
    """Another file under that name, by rename; mtime as before."""
    times, aside = path.stat(), path.with_name(path.name + ".aside")
    new = path.with_name(path.name + ".new")
    new.write_bytes(flip(random_, path.read_bytes()))
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.link(path, aside)
    os.replace(new, path)
    return lambda: os.replace(aside, path)


def renamed(path: Path, random_: random.Random) -> Undo:
    other = path.with_name(f"{path.name}.{random_.randrange(10**6)}")
    os.rename(path, other)
    return lambda: os.rename(other, path)


def linked(path: Path, random_: random.Random) -> Undo:
    """A symbolic link to a changed copy elsewhere."""
    other = path.parent.parent / f"elsewhere-{random_.randrange(10**6)}"
    other.write_bytes(flip(random_, path.read_bytes()))
    aside = path.with_name(path.name + ".aside")
    os.rename(path, aside)
    path.symlink_to(other)

    def undo() -> None:
        os.replace(aside, path)
        other.unlink()

    return undo


def mutate(random_: random.Random, target: Target) -> tuple[str, Undo]:
    """(what was done, how to undo it)."""
    kind = random_.randrange(10)
    if kind < 7:
        change, keep = random_.choice(CONTENT), random_.random() < 0.5
        undo = rewritten(target.path, lambda data: change(random_, data), keep_mtime=keep)
        return f"{change.__name__}{' with its mtime kept' if keep else ''}", undo
    how = (replaced, renamed, linked)[kind - 7]
    return how.__name__, how(target.path, random_)


# --- what has to hold ------------------------------------------------------------------------------------------------

STRUCTURE = {"replaced", "renamed", "linked"}
OF_THE_YAML = {"renamed": (2, {"NOT_FOUND"}), "linked": (4, {"APPROVAL_INVALID"})}
"""A YAML that is gone, or a link, is refused before its hash is looked at."""


def expected(kind: str, what: str, target: Target) -> tuple[int, set[str]]:
    if kind == "yaml" and what in OF_THE_YAML:
        return OF_THE_YAML[what]
    if kind == "code" and what in STRUCTURE:
        # Without its program the environment is none (69), which verify tells as a change of the environment.
        return 6, {"ENVIRONMENT_CHANGED"}
    return target.exit_code, target.codes


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(name: str) -> None:
        raise AssertionError("a worker would have been started")

    monkeypatch.setattr(executors, "get", started)


def refusal(prepared: PreparedSft) -> tuple[int, str, str]:
    """(exit code, code, message) of run-prepared in this process."""
    try:
        run_prepared(prepared.run.config, prepared.sha256, prepared.environ)
    except TrainerError as error:
        codes = {problem.code for problem in error.problems} or {error.code}
        return error.exit_code, min(codes), error.message
    raise AssertionError("it was not refused")


def untouched(prepared: PreparedSft) -> None:
    run = prepared.run
    for path in (run.approval, run.task.approvals, run.run_state, run.launch, run.result, run.worker_log):
        assert not os.path.exists(path), path


def test_a_sound_plan_would_start(prepared, nothing_starts):
    """Else all that follows would prove nothing."""
    with pytest.raises(AssertionError, match="would have been started"):
        run_prepared(prepared.run.config, prepared.sha256, prepared.environ)
    prepared.forget_use()
    untouched(prepared)


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_mutations_are_refused_with_the_right_code(prepared, nothing_starts, part):
    random_ = random.Random(20_261_129 + part)
    kinds = targets(prepared)
    # The YAML is judged first and cheapest; every kind gets its hundreds.
    weights = {"yaml": 58, "snapshot": 9, "registry": 8, "copy": 8, "model": 9, "code": 8}
    done = dict.fromkeys(kinds, 0)
    for _ in range(IN_PROCESS // PARTS):
        kind = random_.choices(list(weights), list(weights.values()))[0]
        target = random_.choice(kinds[kind])
        what, undo = mutate(random_, target)
        try:
            exit_code, code, message = refusal(prepared)
        finally:
            undo()
        wanted_exit, wanted = expected(kind, what, target)
        assert exit_code == wanted_exit and code in wanted, f"{target.path} {what}: {exit_code} {code} {message}"
        done[kind] += 1
    assert min(done.values()) > IN_PROCESS // PARTS // 20
    untouched(prepared)
    test_a_sound_plan_would_start(prepared, None)


def test_files_that_come_or_go_in_the_model_folder_are_refused(prepared, nothing_starts):
    for name in ("added.safetensors", "sub/tokenizer.json", "modeling_x.py", ".hidden", "adapter_config.json"):
        path = prepared.model / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        assert refusal(prepared)[:2] == (6, "INPUT_CHANGED"), name
        path.unlink()
        if path.parent != prepared.model:
            path.parent.rmdir()


def test_a_model_folder_that_became_a_link_to_another(prepared, nothing_starts):
    other, aside = prepared.model.with_name("other"), prepared.model.with_name("aside")
    shutil.copytree(prepared.model, other)
    (other / "config.json").write_text('{"model_type": "llama"}')
    os.rename(prepared.model, aside)
    prepared.model.symlink_to(other)
    try:
        assert refusal(prepared)[:2] == (6, "INPUT_CHANGED")
    finally:
        prepared.model.unlink()
        os.rename(aside, prepared.model)
        shutil.rmtree(other)


RECORD_FIELDS = ("version_id", "config_sha256", "expires_at", "approved_via", "consumed_at", "digest", "approver")


def test_mutations_of_the_record_are_refused(prepared, nothing_starts):
    """A record that was used for this hash; every byte of it counts, since it is sealed."""
    random_ = random.Random(7)
    record = prepared.used_record()
    path = Path(prepared.run.approval)
    for number in range(500):
        data = record
        if number % 2:
            change = random_.choice((flip, insert, cut))
            data = change(random_, record)
            same = _parsed(data) == json.loads(record)  # white space between values is no part of the record
        else:
            values = json.loads(record)
            name = random_.choice(RECORD_FIELDS)
            values[name] = random_.choice([None, "x", 1, [], {}, values["consumed_at"]])
            data, same = json.dumps(values).encode(), values == json.loads(record)
        if same:
            continue
        path.write_bytes(data)
        assert refusal(prepared)[:2] == (4, "APPROVAL_INVALID"), data
    path.unlink()
    path.symlink_to(prepared.root / "record.json")
    assert refusal(prepared)[:2] == (4, "APPROVAL_INVALID")
    path.unlink()
    os.mkfifo(path)
    assert refusal(prepared)[:2] == (4, "APPROVAL_INVALID")
    path.unlink()
    assert not os.path.exists(prepared.run.run_state)


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_a_record_of_another_plan_is_refused(prepared, nothing_starts):
    prepared.used_record(config_sha256="0" * 64)
    assert refusal(prepared)[:2] == (5, "CONFIG_HASH_MISMATCH")
    os.unlink(prepared.run.approval)


def test_fifty_mutations_through_the_program(prepared):
    random_ = random.Random(50)
    kinds = targets(prepared)
    names = [name for name in kinds for _ in range(-(-THROUGH_THE_PROGRAM // len(kinds)))][:THROUGH_THE_PROGRAM]
    for kind in names:
        target = random_.choice(kinds[kind])
        what, undo = mutate(random_, target)
        try:
            words = ("run-prepared", prepared.run.config, "--sha256", prepared.sha256, "--json")
            done = subprocess.run(
                [sys.executable, "-P", "-m", "loopai_trainer", *words],
                capture_output=True,
                env={**os.environ, **prepared.environ},
                check=False,
            )
        finally:
            undo()
        error = json.loads(done.stdout)["error"]
        codes = {problem["code"] for problem in error["problems"]} or {error["code"]}
        wanted_exit, wanted = expected(kind, what, target)
        assert done.returncode == wanted_exit and codes <= wanted, f"{target.path} {what}: {done.stdout.decode()}"
        assert b"Traceback" not in done.stderr
    untouched(prepared)
