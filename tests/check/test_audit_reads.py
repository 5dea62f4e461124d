"""The audit itself: what it takes for a read, whose reads it counts, and that it finds what is covered by nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

AUDIT = Path(__file__).parents[2] / "scripts" / "audit_reads"
sys.path.insert(0, str(AUDIT))
import classes  # noqa: E402 - the audit is a program beside the package
import traces  # noqa: E402 - as above

LINES = {
    'openat(AT_FDCWD</run/launch>, "train.yaml", O_RDONLY|O_CLOEXEC) = 3</run/launch/train.yaml>': (
        "/run/launch/train.yaml",
        False,
    ),
    'open("/etc/hosts", O_RDONLY) = 3</etc/hosts>': ("/etc/hosts", False),
    'openat(AT_FDCWD</a>, "gone", O_RDWR|O_CREAT, 0600) = 4</a/gone>(deleted)': ("/a/gone", False),
    'execve("/env/bin/python", ["/env/bin/python", "x"], 0x1 /* 9 vars */) = 0': ("/env/bin/python", False),
    'openat(AT_FDCWD</run/launch>, "libcuda.so.1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)': (
        "/run/launch/libcuda.so.1",
        True,
    ),
    'openat(7</a/b>, "../x y", O_RDONLY) = -1 ENOENT (No such file or directory)': ("/a/x y", True),
    'openat(AT_FDCWD</a>, "\\346\\225\\260.txt", O_RDONLY) = 3</a/\\346\\225\\260.txt>': ("/a/数.txt", False),
}
NO_READS = (
    'openat(AT_FDCWD</a>, "x", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</a/x>',
    'openat(AT_FDCWD</a>, ".", O_RDONLY|O_NONBLOCK|O_DIRECTORY) = 3</a>',
    'openat(AT_FDCWD</a>, "x", O_RDONLY|O_PATH) = 3</a/x>',
    'openat(AT_FDCWD</a>, "x", O_RDONLY) = -1 EACCES (Permission denied)',
    'execve("/a/b", ["b"], 0x1 /* 9 vars */) = -1 ENOENT (No such file or directory)',
    "+++ exited with 0 +++",
)


def read(tmp_path, main_pid=1, **files):
    for name, lines in files.items():
        (tmp_path / f"trace.{name[1:]}").write_text("".join(f"{line}\n" for line in lines))
    return [tuple(one) for one in traces.from_strace(tmp_path / "trace", main_pid)]


@pytest.mark.parametrize("line", LINES)
def test_a_read_is_known(tmp_path, line):
    assert read(tmp_path, p1=[line]) == [LINES[line]]


@pytest.mark.parametrize("line", NO_READS)
def test_what_reads_nothing_is_left_out(tmp_path, line):
    assert read(tmp_path, p1=[line]) == []


def test_training_and_all_that_came_from_it_are_counted_and_nobody_else(tmp_path):
    opened = 'open("/{0}", O_RDONLY) = 3</{0}>'.format
    found = read(
        tmp_path,
        main_pid=10,
        p9=["clone(child_stack=NULL, flags=SIGCHLD) = 10", opened("worker")],
        p10=["clone3({flags=CLONE_VM|CLONE_THREAD} => {parent_tid=[11]}, 88) = 11", "vfork() = 12", opened("main")],
        p11=[opened("thread")],
        p12=["clone(child_stack=NULL, flags=SIGCHLD) = 13"],
        p13=[opened("grandchild")],
    )
    assert {path for path, _ in found} == {"/main", "/thread", "/grandchild"}


@pytest.fixture
def run(tmp_path):
    """A run's records, with everything that the classes are made from."""
    folder = tmp_path / "run"
    for name in ("configs", "launch", "prepared_data"):
        (folder / name).mkdir(parents=True)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {tmp_path}/base/bin\n")
    (folder / "configs" / "v1.yaml").touch()
    inputs = {
        "train": {"path": str(folder / "prepared_data" / "train.parquet")},
        "model": {"path": str(tmp_path / "model")},
        "files": [{"path": str(folder / "inputs" / "ds.json")}],
    }
    backend = {"environment": str(tmp_path / "env"), "editable": {"x": str(tmp_path / "checkout")}}
    (folder / "training_config.yaml").write_text(yaml.dump({"loopai": {"inputs": inputs, "backend": backend}}))
    (folder / "run_state.json").write_text(json.dumps({"tmp_dir": str(tmp_path / "short")}))
    return folder


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("run/prepared_data/train.parquet", "approved"),
        ("run/inputs/ds.json", "approved"),
        ("run/configs/v1.yaml", "approved"),
        ("model/sub/model.safetensors", "approved"),
        ("run/launch/cache/x.arrow", "own"),
        ("run/checkpoints/checkpoint-1/x", "own"),
        ("run/inputs/__pycache__/x.pyc", "own"),
        ("short/x", "own"),
        ("env/lib/x.py", "environment"),
        ("base/lib/python3.11/os.py", "environment"),
        ("checkout/src/x.py", "environment"),
        ("run/prepared_data/other.parquet", "remainder"),
        ("run/training_config.yaml", "remainder"),
        ("run/inputs/other.json", "remainder"),
        ("models/x", "remainder"),
        ("home/.config/x", "remainder"),
    ],
)
def test_classes(tmp_path, run, path, expected):
    assert classes.class_of(str(tmp_path / path), classes.places_of(run)) == expected


@pytest.mark.parametrize("path", ["/usr/lib/x.so", "/etc/hosts", "/proc/self/maps", "/dev/null"])
def test_the_system(run, path):
    assert classes.class_of(path, classes.places_of(run)) == "system"


def test_a_link_is_what_it_leads_to(tmp_path, run):
    (run / "prepared_data" / "train.parquet").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    (run / "launch" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").touch()
    assert classes.class_of(str(run / "launch" / "out"), classes.places_of(run)) == "remainder"


def pid_of(folder, code):
    """Whose trace begins with the exec of that code: pids that are given out anew need not rise."""
    firsts = {path: path.read_text().partition("\n")[0] for path in folder.glob("trace.*")}
    (found,) = [path for path, first in firsts.items() if first.startswith("execve(") and json.dumps(code) in first]
    return int(found.suffix[1:])


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed (Debian package strace)")
def test_a_real_trace_finds_a_file_that_nothing_covers(tmp_path, run):
    hidden = tmp_path / "hidden.json"
    hidden.write_text("{}")
    child = f"open({str(hidden)!r}).close()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {child!r}])"
    prefix = tmp_path / "trace"
    subprocess.run([*traces.STRACE, "-o", str(prefix), sys.executable, "-I", "-S", "-c", code], check=True)
    main_pid = pid_of(tmp_path, code)
    opened = {one.path for one in traces.from_strace(prefix, main_pid) if not one.absent}
    assert str(hidden) in classes.sorted_out(opened, classes.places_of(run))["remainder"]


def test_the_hook_notes_what_python_opens(tmp_path):
    hidden, log = tmp_path / "hidden.json", tmp_path / "log"
    hidden.write_text("{}")
    (tmp_path / "sitecustomize.py").write_text(traces.HOOK.format(log=str(log)))
    code = "open('hidden.json').close(); open('new', 'w').close()\ntry: open('none')\nexcept OSError: pass"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=env)
    found = list(traces.from_hook(log))
    assert traces.Opened(str(hidden), False) in found
    assert traces.Opened(str(tmp_path / "none"), True) in found
    assert str(tmp_path / "new") not in [one.path for one in found]
