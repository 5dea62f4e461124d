"""The rows that were left out, with their reasons."""

import json
import os
import stat
from pathlib import Path

from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.records import Problem


def test_each_row_stands_with_its_reason(tmp_path):
    deep = []
    for _ in range(3000):
        deep = [deep]
    values = [{"output": None}, b"\xffcut", {"x": float("nan")}, {"x": {1}}, {"s": "\ud800"}, deep]
    with RejectedRows(str(tmp_path / "rejected_rows.jsonl")) as rejected:
        for index, value in enumerate(values):
            rejected.add(
                Problem("warning", "OUTPUT_NULL", "train", "output is null", line=index + 1, field="output"), value
            )
        rejected.add(Problem("warning", "OUTPUT_NULL", "train", "output is null", row=0), {})
        path = rejected.finish()
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "where": "train",
        "line": 1,
        "code": "OUTPUT_NULL",
        "field": "output",
        "message": "output is null",
        "row": {"output": None},
    }
    assert lines[1]["row"] == "\ufffdcut"
    assert [line["row"] for line in lines[2:6]] == [{"x": None}, {"x": "{1}"}, {"s": "\ud800"}, None]
    assert lines[6]["row"] == {}
    assert lines[6]["source_row"] == 0
    assert "line" not in lines[6]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_no_row_no_file(tmp_path):
    with RejectedRows(str(tmp_path / "rejected_rows.jsonl")) as rejected:
        assert rejected.finish() is None
    assert os.listdir(tmp_path) == []
