import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "make_bilingual_data.py"


def make(path, *arguments):
    subprocess.run([sys.executable, str(SCRIPT), str(path), *arguments], check=True, capture_output=True)
    return path.read_text(encoding="utf-8")


def test_rows_are_the_same_every_time_and_none_repeats(tmp_path):
    first, second = make(tmp_path / "a.json"), make(tmp_path / "b.json")
    rows = json.loads(first)
    assert first == second and len(rows) == 128
    assert all(set(row) == {"instruction", "input", "output"} and row["output"] for row in rows)
    assert len({(row["instruction"], row["input"]) for row in rows}) == 128


def test_both_languages_are_there(tmp_path):
    rows = json.loads(make(tmp_path / "a.json", "--rows", "60"))
    chinese = [row for row in rows if not row["instruction"].isascii()]
    assert len(chinese) == 30


@pytest.mark.parametrize("rows", [1, 200])
def test_lines_for_jsonl(tmp_path, rows):
    lines = make(tmp_path / "sub" / "a.jsonl", "--rows", str(rows)).splitlines()
    assert len([json.loads(line) for line in lines]) == rows
