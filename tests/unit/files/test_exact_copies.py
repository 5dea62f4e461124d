"""Copies, byte for byte."""

import errno
import os

import pytest

from loopai_trainer.files import exact_copies


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(os.urandom(3 << 20))
    return path


def test_a_copy_has_the_same_bytes_and_is_a_file_of_its_own(tmp_path, source):
    target = tmp_path / "target"
    exact_copies.copy_exactly(str(source), str(target))
    before = source.read_bytes()
    assert target.read_bytes() == before
    with open(source, "r+b") as file:
        file.write(b"changed")
    assert target.read_bytes() == before
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EOPNOTSUPP])
def test_a_file_system_that_can_do_nothing_is_read_and_written(tmp_path, source, monkeypatch, number):
    def cannot(*arguments):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "copy_file_range", cannot)
    monkeypatch.setattr(exact_copies.fcntl, "ioctl", cannot)
    exact_copies.copy_exactly(str(source), str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_a_full_disk_is_not_passed_over(tmp_path, source, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(exact_copies.fcntl, "ioctl", full)
    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OSError, match="full"):
        exact_copies.copy_exactly(str(source), str(tmp_path / "target"))


def test_an_existing_target_is_left_alone(tmp_path, source):
    (tmp_path / "target").write_text("mine")
    with pytest.raises(FileExistsError):
        exact_copies.copy_exactly(str(source), str(tmp_path / "target"))
    assert (tmp_path / "target").read_text() == "mine"
