"""Data adapters that other packages offer."""

import importlib.metadata
import json
import sys

import pytest
from fakes.prompt_sources import prepare, rows_of, write_lines

from loopai_trainer.errors import SettingsError
from loopai_trainer.files.run_dir import RunDir

MODULE = """
def ours(record):
    if "skip" in record:
        return None
    if record["task"] == "odd":
        return ["no object"]
    asked = record.pop("task")
    return {"question": asked, "answer": f"#### {record['solution'][asked]}"}


NUMBER = 7
"""


@pytest.fixture
def offers(tmp_path, monkeypatch):
    """Makes an installed package offer data adapters."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "their_adapters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    points = [
        importlib.metadata.EntryPoint(name, value, "loopai_trainer.data_adapters")
        for name, value in (
            ("theirs", "their_adapters:ours"),
            ("number", "their_adapters:NUMBER"),
            ("gone", "no_such_module_there:ours"),
        )
    ]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group: points if group == "loopai_trainer.data_adapters" else []
    )
    yield
    sys.modules.pop("their_adapters", None)


def record(number):
    return {"task": f"What is {number}?", "solution": {f"What is {number}?": str(number)}}


def test_records_are_read_by_an_adapter_that_a_package_offers(tmp_path, offers):
    train = write_lines(tmp_path / "a.jsonl", [record(number) for number in range(20)])
    report = prepare(tmp_path / "run", train, verl_data_adapter="theirs", verl_data_source="own")
    rows = [*rows_of(report), *rows_of(report, "validation")]
    assert {row["prompt"][0]["content"]: row["reward_model"]["ground_truth"] for row in rows} == {
        f"What is {number}?": str(number) for number in range(20)
    }
    manifest = json.loads((tmp_path / "run" / "prepared_data" / "dataset_manifest.json").read_text())
    assert manifest["requested_adapter"] == "theirs"


def test_what_it_makes_nothing_of_is_told_and_kept(tmp_path, offers):
    bad = [
        {"task": "x", "skip": 1, "solution": {}},
        {"task": "odd", "solution": {}},
        {"task": "unknown", "solution": {}},
        7,
    ]
    train = write_lines(tmp_path / "a.jsonl", [record(1), *bad, record(2), record(3)])
    report = prepare(tmp_path / "run", train, verl_data_adapter="theirs", bad_rows="drop")
    found = {problem.line: (problem.code, problem.message) for problem in report.problems if problem.line}
    assert found[2] == ("ADAPTER_REFUSED", "the data adapter makes nothing of this record")
    assert found[3] == ("ADAPTER_FAILED", "the data adapter gave a list, not an object")
    assert found[4] == ("ADAPTER_FAILED", "the data adapter raised KeyError: 'unknown'")
    assert found[5][0] == "ROW_NOT_OBJECT"
    with open(RunDir(str(tmp_path / "run")).rejected_rows) as file:
        kept = [json.loads(line) for line in file]
    assert [one["line"] for one in kept] == [2, 3, 4, 5]
    # As the source has it, whatever the adapter did to it.
    assert kept[2]["row"] == '{"task": "unknown", "solution": {}}'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobodys", "there is no data adapter 'nobodys'"),
        ("number", "is a number, not a function"),
        ("gone", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_name_that_gives_no_function_is_refused(tmp_path, offers, name, said):
    train = write_lines(tmp_path / "a.jsonl", [record(1), record(2)])
    with pytest.raises(SettingsError, match=said) as caught:
        prepare(tmp_path / "run", train, verl_data_adapter=name)
    assert caught.value.problems[0].field == "verl_data_adapter"
    assert caught.value.hint
    if name == "nobodys":
        assert caught.value.hint.endswith("auto, native, messages, alpaca, qa, gone, number, theirs")
