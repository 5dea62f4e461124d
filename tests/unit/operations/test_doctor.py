"""operations.doctor: every check passes where all is well, and each is shown to fail."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import nvml
from fakes.answers import checked
from fakes.llamafactory_env import make_environment

from loopai_trainer.errors import HostUnfit
from loopai_trainer.host import device_locks, environments, limits, processes
from loopai_trainer.operations import doctor
from loopai_trainer.operations.doctor import Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    environ = {
        f"LOOPAI_TRAINER_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("STATE", "CACHE", "DATA", "CONFIG")
    }
    environ["LOOPAI_TRAINER_DEVICE_LOCK_DIR"] = str(tmp_path / "gpu-locks")
    monkeypatch.setattr("loopai_trainer.files.policy_files.SYSTEM", str(tmp_path / "etc" / "policy.yaml"))
    monkeypatch.setattr("loopai_trainer.files.policy_files._account_home", lambda: "")
    (tmp_path / "out").mkdir()
    return Place(environ, str(tmp_path / "out"), nvml=str(tmp_path / "no driver"))


def bad(check, words):
    assert not check.ok
    assert words in check.detail
    assert check.hint
    return check.hint


def good(check):
    assert check.ok, check
    assert check.hint == ""
    return check.detail


@pytest.fixture
def locked_away(tmp_path):
    """A folder that nobody may write into: for root, a file in its place."""
    path = tmp_path / "locked"
    if os.getuid() == 0:
        path.write_text("")
    else:
        path.mkdir(mode=0o500)
    return str(path)


class TestProgram:
    def test_well(self):
        assert "loopai-trainer " in good(doctor.program())

    def test_an_old_interpreter(self):
        assert "Python 3.11" in bad(doctor.program((3, 10, 2)), "Python 3.10.2")

    def test_a_missing_package(self, tmp_path, monkeypatch):
        folder = tmp_path / "odd-1.dist-info"
        folder.mkdir()
        needs = ("surely-not-there[x]>=2", "pyarrow", "not-either ; extra == 'dev'")
        (folder / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: odd\nVersion: 1\n" + "".join(f"Requires-Dist: {n}\n" for n in needs)
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        hint = bad(doctor.program(distribution="odd"), "packages are missing: surely-not-there")
        assert hint == f"{sys.executable} -m pip install surely-not-there"

    def test_a_program_that_is_not_installed(self):
        bad(doctor.program(distribution="no-such-distribution"), "no-such-distribution")


class TestFolders:
    def test_well(self, place):
        good(doctor.user_folders(place))
        good(doctor.output(place))
        assert sorted(os.listdir(place.output_dir)) == []

    def test_a_user_folder_that_cannot_be_written(self, place, locked_away):
        place.environ["LOOPAI_TRAINER_CACHE_DIR"] = locked_away
        assert "LOOPAI_TRAINER_CACHE_DIR" in bad(doctor.user_folders(place), "cache: ")

    def test_an_output_folder_that_cannot_be_written(self, place, locked_away):
        assert "--output-dir" in bad(doctor.output(place._replace(output_dir=locked_away)), "cannot be written")

    def test_an_output_folder_that_is_not_there_yet(self, place):
        deep = os.path.join(place.output_dir, "not", "yet")
        good(doctor.output(place._replace(output_dir=deep)))
        assert not os.path.exists(os.path.join(place.output_dir, "not"))

    def test_a_full_disk(self, place):
        good(doctor.free_space(place, 0))
        assert "make room" in bad(doctor.free_space(place, 10**18), "GB free at")


class TestPolicy:
    def test_none(self, place):
        assert good(doctor.policy_file(place)) == "approval_require: hash (no policy file)"

    def test_a_policy_is_told(self, place):
        path = Path(place.environ["LOOPAI_TRAINER_CONFIG_DIR"], "policy.yaml")
        path.parent.mkdir()
        path.write_text("approval_require: terminal\n")
        assert good(doctor.policy_file(place)) == f"approval_require: terminal ({path})"

    @pytest.mark.parametrize("text", ["approval_require: never\n", "\x80"])
    def test_one_that_cannot_be_relied_on(self, place, text):
        path = Path(place.environ["LOOPAI_TRAINER_CONFIG_DIR"], "policy.yaml")
        path.parent.mkdir()
        path.write_bytes(text.encode("latin-1"))
        bad(doctor.policy_file(place), str(path))


class TestLocks:
    def test_well(self, place):
        good(doctor.file_locks(place))
        assert os.listdir(place.output_dir) == []

    def test_locks_that_do_not_hold(self, place):
        bad(doctor.file_locks(place, lambda path: os.open(path, os.O_CREAT | os.O_RDWR)), "locks do not hold in")

    def test_a_file_system_without_locks(self, place):
        def refuse(path):
            raise HostUnfit("no locks here", code="LOCKS_UNRELIABLE", hint="use a local disk")

        assert bad(doctor.file_locks(place, refuse), "no locks here") == "use a local disk"

    def test_a_folder_that_cannot_be_written(self, place, locked_away):
        bad(doctor.file_locks(place._replace(output_dir=locked_away)), locked_away)

    def test_the_locks_of_gpus(self, place):
        assert good(doctor.gpu_locks(place)) == place.environ["LOOPAI_TRAINER_DEVICE_LOCK_DIR"]

    def test_the_locks_of_gpus_while_another_doctor_looks(self, place):
        held = device_locks.take(["doctor"], device_locks.folder(place.environ))
        try:
            good(doctor.gpu_locks(place))
        finally:
            device_locks.release(held)

    def test_no_folder_for_the_locks_of_gpus(self, place, tmp_path):
        (tmp_path / "gpu-locks").write_text("")
        assert "LOOPAI_TRAINER_DEVICE_LOCK_DIR" in bad(doctor.gpu_locks(place), "GPUs cannot be locked")


class TestEnvironments:
    def test_none_at_all(self, place):
        (check,) = doctor.backend_environments(place)
        assert "trainer setup llamafactory" in bad(check, "no backend environment")

    def test_one_that_was_named(self, place, tmp_path):
        env = make_environment(tmp_path / "env")
        (check,) = doctor.backend_environments(place._replace(environment=str(env)))
        assert check.name == "llamafactory environment"
        assert good(check).startswith("llamafactory 0.9.5, Python 3.11.7, torch ")

    def test_one_that_setup_made(self, place, tmp_path):
        from loopai_trainer import backends

        spec = backends.get("llamafactory", "sft").environment_spec()
        root = make_environment(Path(environments.environments_dir(place.environ)) / "llamafactory-1")
        (root / ".complete").write_text(json.dumps({"spec_sha256": environments.spec_sha256(spec)}))
        (check,) = doctor.backend_environments(place)
        assert str(root) in good(check)

    def test_a_broken_one(self, place, tmp_path):
        env = make_environment(tmp_path / "env")
        package = next(env.rglob("llamafactory/__init__.py")).parent
        unreadable = package / "odd.py"
        unreadable.symlink_to(unreadable)
        found = {check.name: check for check in doctor.backend_environments(place._replace(environment=str(env)))}
        bad(found["llamafactory environment"], "odd.py")
        bad(found["environments"], "no backend environment")


class TestGpus:
    def test_none(self, place):
        assert "driver" in bad(doctor.gpus(place), "no GPU")

    @pytest.fixture
    def driver(self, place, tmp_path):
        return place._replace(nvml=os.path.join(nvml.library_folder(tmp_path), "libnvidia-ml.so.1"))

    def test_some(self, driver):
        assert good(doctor.gpus(driver)) == "driver 570.1: 0 Fake GPU 86 GB, 1 Fake GPU 86 GB"

    def test_a_variable_that_names_none_of_them(self, driver):
        driver.environ["CUDA_VISIBLE_DEVICES"] = "7"
        bad(doctor.gpus(driver), "CUDA_VISIBLE_DEVICES='7'")


class TestHost:
    def test_ports(self):
        good(doctor.ports_open())

        def refused():
            raise PermissionError(1, "Operation not permitted")

        bad(doctor.ports_open(refused), "Operation not permitted")

    def test_shared_memory(self, place, tmp_path):
        good(doctor.shared_memory(place._replace(shared_memory=str(tmp_path)), 1))
        assert "--shm-size" in bad(doctor.shared_memory(place, 10**18), "/dev/shm: ")
        bad(doctor.shared_memory(place._replace(shared_memory=str(tmp_path / "none"))), "there is none")

    @pytest.mark.parametrize(
        ("soft", "hard", "hint"),
        [
            (1024, -1, "ulimit -n 4096"),
            (256, 1024, "ulimit -n 1024, and have the hard limit raised to 4096 (limits.conf)"),
            (-1, -1, ""),
            (4096, 4096, ""),
        ],
    )
    def test_open_files(self, monkeypatch, soft, hard, hint):
        monkeypatch.setattr(limits, "open_files", lambda: (soft, hard))
        check = doctor.open_files()
        assert (check.ok, check.hint) == (not hint, hint)

    def test_a_sandbox(self, place):
        good(doctor.sandboxed(place))
        place.environ["CODEX_SANDBOX"] = "1"
        bad(doctor.sandboxed(place), "CODEX_SANDBOX is set")

    def test_ray(self):
        good(doctor.ray(list))
        bad(doctor.ray(lambda: [(7, "somebody")]), "pid 7 of somebody")


def test_the_answer_of_a_host_that_lacks_something(place, monkeypatch):
    monkeypatch.setattr(
        doctor, "run", lambda place: [doctor.Check("a", True, "x"), doctor.Check("b", False, "y", "do z")]
    )
    answer = doctor.doctor(place.environ, output_dir=place.output_dir)
    assert (answer.exit_code, answer.ok, answer.error.code, answer.error.hint) == (9, False, "HOST_UNFIT", "do z")
    assert answer.message == "1 of 2 checks found something: b"
    assert answer.data["checks"][1] == {"name": "b", "ok": False, "detail": "y", "hint": "do z"}
    checked(answer.envelope())


def test_the_answer_of_a_host_that_is_well(place, monkeypatch):
    monkeypatch.setattr(doctor, "run", lambda place: [doctor.Check("a", True, "x")])
    answer = doctor.doctor(place.environ)
    assert (answer.exit_code, answer.ok, answer.message) == (0, True, "all 1 checks are well")


def test_all_checks_are_run_and_nothing_is_left_behind(place):
    names = [check.name for check in doctor.run(place)]
    assert len(names) == len(set(names)) >= 14
    assert os.listdir(place.output_dir) == []


def test_ray_is_found_by_its_programs_and_that_of_a_run_is_none(monkeypatch):
    class Process:
        def __init__(self, pid, name):
            self.info = {"pid": pid, "name": name, "username": None}

    monkeypatch.setattr(
        "psutil.process_iter", lambda fields: [Process(1, "init"), Process(7, "raylet"), Process(8, "gcs_server")]
    )
    monkeypatch.setattr(limits, "_of_a_run", lambda pid: False)
    assert limits.ray_processes() == [(7, "?"), (8, "?")]
    monkeypatch.setattr(limits, "_of_a_run", lambda pid: pid == 7)
    assert limits.ray_processes() == [(8, "?")]


def test_a_runs_process_is_known_by_its_mark():
    wait = [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"]
    for env, is_known in (({processes.MARK: "v1:1:x"}, True), ({}, False)):
        with subprocess.Popen(wait, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()  # until then its environment may not be in place
            assert limits._of_a_run(child.pid) is is_known
            child.stdin.write(b"\n")
            child.stdin.close()
    assert limits._of_a_run(2**30) is False


def test_a_listener_takes_a_port_that_was_free():
    from loopai_trainer.host import ports

    port = ports.free()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        assert ports.is_taken(port)
