"""What the file system refuses is told by its cause; everything else is nobody's refusal."""

import os

import pytest

from loopai_trainer.operations import host_refusals


def test_a_deleted_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        os.path.abspath("x")
    refused = host_refusals.told(caught.value)
    assert (refused.code, refused.exit_code) == ("NO_WORKING_FOLDER", 2)
    os.chdir(tmp_path)
    assert host_refusals.told(caught.value) is None


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(IsADirectoryError) as caught:
        tmp_path.read_bytes()
    refused = host_refusals.told(caught.value)
    assert (refused.code, refused.exit_code) == ("FILE_UNUSABLE", 1)
    assert refused.message == f"{tmp_path}: Is a directory"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("odd"), ValueError("x")])
def test_what_names_no_file_is_nobodys_refusal(error):
    assert host_refusals.told(error) is None
