import json

import pytest

from loopai_trainer import errors
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.records import Problem


def test_the_envelope_of_a_success():
    assert json.loads(Answer("list", {"count": 0, "runs": []}, message="none").json_text()) == {
        "schema": "loopai-trainer/1", "command": "list", "ok": True, "status": "completed", "message": "none",
        "data": {"count": 0, "runs": []}, "error": None,
    }  # fmt: skip


def test_the_envelope_of_a_refusal():
    problem = Problem("error", "OUTPUT_EMPTY", "train", "empty", "fill it", path="/d.jsonl", line=3, field="output")
    error = errors.DataError("bad", hint="look", problems=[problem], details={"counts": {"train": 1}})
    answer = failure("prepare", error)
    assert (answer.exit_code, answer.ok) == (3, False)
    assert answer.envelope()["error"] == {
        "type": "DataError", "code": "DATA_INVALID", "detail": "bad", "recoverable": True, "hint": "look",
        "next_command": "", "counts": {"train": 1},
        "problems": [{
            "severity": "error", "code": "OUTPUT_EMPTY", "where": "train", "path": "/d.jsonl", "line": 3, "row": None,
            "field": "output", "message": "empty", "hint": "fill it", "origin": None,
        }],
    }  # fmt: skip


def test_json_is_strict():
    with pytest.raises(ValueError, match="JSON"):
        Answer("x", {"value": float("nan")}).json_text()


def test_exit_codes_and_codes_are_pinned():
    tree = {
        kind.__name__: (kind.exit_code, kind.code)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TrainerError)
    }
    assert tree == {
        "TrainerError": (1, "UNEXPECTED"),
        "UsageError": (2, "USAGE"),
        "NotFound": (2, "NOT_FOUND"),
        "ValidationError": (3, "VALIDATION_FAILED"),
        "SettingsError": (3, "SETTINGS_INVALID"),
        "DataError": (3, "DATA_INVALID"),
        "ConfigError": (3, "CONFIG_INVALID"),
        "TaskStoreError": (3, "TASK_STORE_UNUSABLE"),
        "DevFailed": (1, "DEV_FAILED"),
        "NotShown": (3, "NOT_SHOWN"),
        "ApprovalError": (4, "APPROVAL_MISSING"),
        "PlanChanged": (5, "CONFIG_HASH_MISMATCH"),
        "InputChanged": (6, "INPUT_CHANGED"),
        "Busy": (7, "VERSION_IN_USE"),
        "Orphaned": (8, "ORPHANED_TRAINING"),
        "HostUnfit": (9, "HOST_UNFIT"),
        "TrainingFailed": (11, "TRAINING_FAILED"),
        "ExportFailed": (12, "EXPORT_FAILED"),
        "Cancelled": (13, "CANCELLED"),
        "BackendMissing": (69, "BACKEND_MISSING"),
        "Interrupted": (130, "INTERRUPTED"),
        "StillRunning": (75, "STILL_RUNNING"),
    }


def test_a_name_of_bytes_that_are_no_utf8_still_makes_json_that_can_be_printed():
    text = Answer("list", {"path": "na\udcffme"}).json_text()
    assert json.loads(text.encode("utf-8"))["data"]["path"] == "na\udcffme"
