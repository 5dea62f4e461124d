import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopai_trainer.files import event_log

KEYS = [
    "schema_version",
    "seq",
    "attempt",
    "current",
    "node",
    "status",
    "progress",
    "message",
    "data",
    "context_id",
    "error",
    "version_id",
    "time",
    "elapsed_s",
]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "events.jsonl")


def append(path, **changed):
    values = {"version_id": "v1", "task_id": "task", "attempt": 1, "node": "training", "status": "running"}
    return event_log.append(path, **{**values, **changed})


def test_an_event_has_the_fields_of_a_stream_event(path):
    append(path, progress=0.5, data={"loss": 1.0}, message="m", error={"code": "X"}, elapsed_s=1.23456)
    (event,) = event_log.read(path)
    assert list(event) == KEYS
    assert event["time"].endswith("Z")
    assert (event["current"], event["context_id"], event["elapsed_s"]) == ("trainer", "task", 1.235)


def test_numbers_go_on_across_writers_and_attempts(path):
    assert [append(path), append(path, attempt=2), append(path)] == [1, 2, 3]
    assert [event["seq"] for event in event_log.read(path)] == [1, 2, 3]
    assert [event["seq"] for event in event_log.read(path, since_seq=2)] == [3]


def test_half_a_line_is_neither_read_nor_swallowed(path):
    append(path)
    with open(path, "a") as file:
        file.write('{"seq": 2, "mess')
    assert append(path) == 2
    assert [event["seq"] for event in event_log.read(path)] == [1, 2]


def test_foreign_lines_are_skipped(path):
    Path(path).write_text('[]\n{"seq": "x"}\nnull\n')
    assert event_log.read(path) == []
    assert append(path) == 1


def test_a_last_number_far_back_is_found(path):
    append(path)
    with open(path, "a") as file:
        file.write("x" * 200_000 + "\n")
    assert append(path) == 2


def test_following_goes_on_from_an_offset(path):
    assert event_log.read_from(path, 0) == ([], 0)
    append(path)
    first, offset = event_log.read_from(path, 0)
    with open(path, "a") as file:
        file.write('{"seq": 2')
    assert len(first) == 1
    assert event_log.read_from(path, offset) == ([], offset)
    with open(path, "a") as file:
        file.write("}\n")
    second, _ = event_log.read_from(path, offset)
    assert second == [{"seq": 2}]


def test_order_is_by_number_whatever_the_clock_did(path):
    lines = [
        {"seq": 1, "at": "2031-03-02T10:00:00+00:00", "progress": 0.1},
        {"seq": 3, "at": "2031-03-02T09:06:10+00:00", "progress": 0.3},
        {"seq": 2, "at": "2031-03-02T10:05:00+00:00", "progress": 0.2},
    ]
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [event["seq"] for event in event_log.read(path)] == [1, 2, 3]


def test_writers_at_once_never_share_a_number(path):
    code = (
        "import sys; from loopai_trainer.files import event_log\n"
        "for _ in range(50):\n"
        "    event_log.append(sys.argv[1], version_id='v', task_id='t', attempt=1, node='n', status='running')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, path]) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert [event["seq"] for event in event_log.read(path)] == list(range(1, 201))


def test_utc_text():
    assert event_log.utc_text(0.25) == "1970-01-01T00:00:00.250Z"
