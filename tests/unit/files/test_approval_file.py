import json
import os
from pathlib import Path

import pytest

from loopai_trainer.errors import ApprovalError
from loopai_trainer.files import approval_file
from loopai_trainer.files.run_dir import TaskDir
from loopai_trainer.rules import approval


def record(version_id="v1", **values):
    return approval.new_record(
        **{
            "task_id": "t",
            "version_id": version_id,
            "run_dir": f"/out/t/trainer/{version_id}",
            "round_number": 1,
            "config_sha256": "a" * 64,
            "prepared_at": 1.0,
            "approved_at": 1.0,
            "counted_from": 1.0,
            "boot": None,
            "approver": {},
            "approved_via": "hash",
            **values,
        }
    )


@pytest.fixture
def run(tmp_path):
    run = TaskDir(str(tmp_path), "t").run("v1")
    os.makedirs(run.path)
    return run


def refused(call):
    with pytest.raises(ApprovalError) as caught:
        call()
    assert (caught.value.code, caught.value.exit_code) == ("APPROVAL_INVALID", 4)
    return caught.value.message


def test_a_record_comes_back_as_it_was_written(run):
    assert approval_file.read(run) is None
    approval_file.write(run, record())
    assert approval_file.read(run) == record()
    assert os.stat(run.approval).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"schema": 1}'])
def test_a_damaged_record_is_refused(run, data):
    Path(run.approval).write_bytes(data)
    assert run.approval in refused(lambda: approval_file.read(run))


def test_every_single_byte_of_it_counts(run):
    approval_file.write(run, record())
    good = Path(run.approval).read_bytes()
    for index in range(0, len(good), 7):
        changed = good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :]
        try:
            same = json.loads(changed) == json.loads(good)  # white space
        except ValueError:
            same = False
        Path(run.approval).write_bytes(changed)
        if not same:
            refused(lambda: approval_file.read(run))


def test_no_link_is_followed_to_a_good_record(run, tmp_path):
    approval_file.write(run, record())
    os.rename(run.approval, tmp_path / "good.json")
    os.symlink(tmp_path / "good.json", run.approval)
    assert "symbolic link" in refused(lambda: approval_file.read(run))
    os.unlink(run.approval)
    os.symlink(tmp_path / "nowhere", run.approval)
    assert "symbolic link" in refused(lambda: approval_file.read(run))


def test_a_pipe_or_folder_keeps_nobody_waiting(run):
    os.mkfifo(run.approval)
    assert "not a plain file" in refused(lambda: approval_file.read(run))
    os.unlink(run.approval)
    os.mkdir(run.approval)
    refused(lambda: approval_file.read(run))


def test_the_history_keeps_its_order_and_passes_over_what_is_torn(run):
    assert approval_file.history(run.task) == []
    approval_file.append(run.task, record("v1"))
    with open(run.task.approvals, "a") as file:
        file.write('{"torn\n[]\n{}\n' + "[" * 100_000 + "\n")
    approval_file.append(run.task, record("v2"))
    forged = {**record("v3"), "round": 9}
    with open(run.task.approvals, "a") as file:
        file.write(json.dumps(forged) + "\n")
    assert [one["version_id"] for one in approval_file.history(run.task)] == ["v1", "v2"]


def test_a_training_is_remembered_beside_the_history(run):
    approval_file.note_training(run, 2.0)  # no record: nothing to remember
    assert not os.path.exists(run.task.approvals)
    given = record()
    approval_file.write(run, given)
    approval_file.append(run.task, given)
    assert not approval_file.is_used_up(run.task, given)
    approval_file.note_training(run, given["approved_at"] + 1.0)
    assert approval_file.is_used_up(run.task, given)
    assert approval_file.history(run.task) == [given]


def test_a_history_that_is_a_link_is_neither_read_nor_written(run, tmp_path):
    (tmp_path / "other").write_text("")
    os.symlink(tmp_path / "other", run.task.approvals)
    refused(lambda: approval_file.append(run.task, record()))
    refused(lambda: approval_file.history(run.task))
    assert (tmp_path / "other").read_text() == ""


def test_the_first_record_of_a_task_whose_run_lies_elsewhere(tmp_path):
    task = TaskDir(str(tmp_path / "out"), "t")
    approval_file.append(task, record())
    assert [one["version_id"] for one in approval_file.history(task)] == ["v1"]
