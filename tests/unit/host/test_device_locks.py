import json
import os
import stat

import pytest

from loopai_trainer.errors import HostUnfit
from loopai_trainer.host import device_locks
from loopai_trainer.host.devices import lock_names
from loopai_trainer.records import Device

GPUS = (Device(0, "GPU-11aa-22", "a", 1), Device(1, "", "b", 1))


@pytest.fixture
def place(tmp_path):
    return device_locks.folder({device_locks.FOLDER_VARIABLE: str(tmp_path / "locks")})


def test_a_device_has_one_name_however_it_is_given():
    assert lock_names("0,1", GPUS) == ("GPU-11aa-22", "index-1")
    assert lock_names("GPU-11, MIG-7", GPUS) == ("GPU-11aa-22", "MIG-7")
    assert lock_names("", GPUS) == ()


def test_folder_and_files_are_for_all_users(place):
    (lock,) = device_locks.take(["GPU-1"], place)
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o1777
    assert stat.S_IMODE(os.fstat(lock.fd).st_mode) == 0o666
    device_locks.release([lock])


def test_a_held_device_is_told_with_its_holder_and_nothing_else_stays_held(place):
    (lock,) = device_locks.take(["GPU-2"], place)
    device_locks.name_holder(lock, {"version_id": "v1"})
    with pytest.raises(device_locks.Held) as refused:
        device_locks.take(["GPU-2", "GPU-1"], place)
    assert (refused.value.name, refused.value.holder) == ("GPU-2", {"version_id": "v1"})
    device_locks.release(device_locks.take(["GPU-1"], place))
    device_locks.release([lock])
    (again,) = device_locks.take(["GPU-2"], place)
    assert again.former == {"version_id": "v1"}
    device_locks.release([again])


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_holder_that_cannot_be_read_is_nobody(place, text):
    with open(os.path.join(place, "GPU-1.lock"), "w") as file:
        file.write(text)
    (lock,) = device_locks.take(["GPU-1"], place)
    assert lock.former == {}
    device_locks.release([lock])


def test_a_link_in_place_of_a_lock_is_not_followed(place, tmp_path):
    target = tmp_path / "somebody's file"
    target.write_text("kept")
    os.symlink(target, os.path.join(place, "GPU-1.lock"))
    with pytest.raises(HostUnfit) as refused:
        device_locks.take(["GPU-1"], place)
    assert refused.value.code == "LOCKS_UNRELIABLE"
    assert target.read_text() == "kept"


def test_a_fifo_in_place_of_a_lock_is_refused(place):
    os.mkfifo(os.path.join(place, "GPU-1.lock"))
    with pytest.raises(HostUnfit):
        device_locks.take(["GPU-1"], place)


def test_names_cannot_lead_out_of_the_folder(place):
    (lock,) = device_locks.take(["MIG-GPU-1/2/../../x"], place)
    assert os.listdir(place) == ["MIG-GPU-1_2_.._.._x.lock"]
    device_locks.release([lock])


def test_a_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "absent" / "locks"):
        with pytest.raises(HostUnfit) as refused:
            device_locks.folder({device_locks.FOLDER_VARIABLE: str(path)})
        assert refused.value.code == "LOCKS_UNRELIABLE"


def test_the_folder_does_not_depend_on_the_user(monkeypatch):
    made = []
    monkeypatch.setattr(os, "mkdir", lambda path: made.append(path))
    monkeypatch.setattr(os, "chmod", lambda path, mode: None)
    monkeypatch.setattr(os, "lstat", lambda path: os.stat("/"))
    for environ in ({}, {"TMPDIR": "/elsewhere", "XDG_RUNTIME_DIR": "/run/user/7"}):
        device_locks.folder(environ)
    assert made[0] == made[1]
    assert os.path.dirname(made[0]) in ("/run/lock", "/dev/shm", "/tmp")


def test_the_holder_is_json(place):
    (lock,) = device_locks.take(["GPU-1"], place)
    device_locks.name_holder(lock, {"run_dir": "/häuser"})
    with open(os.path.join(place, "GPU-1.lock"), encoding="ascii") as file:
        assert json.load(file) == {"run_dir": "/häuser"}
    device_locks.release([lock])
