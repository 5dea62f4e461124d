"""--dataset-info FILE[:NAME]: which file and which entry; the whole way through prepare."""

import json
import os

import pytest
from fakes.row_backend import prepare

from loopai_trainer.errors import DataError
from loopai_trainer.files.snapshots import rows_at
from loopai_trainer.operations import dataset_info
from loopai_trainer.operations.guide import prefill
from loopai_trainer.records import Settings, Turn

ENTRY = {"file_name": "a.jsonl", "columns": {"prompt": "q", "response": "a"}}


@pytest.fixture
def registry(tmp_path):
    def registry(**entries):
        path = tmp_path / "dataset_info.json"
        path.write_text(json.dumps(entries, indent=1))
        return str(path)

    return registry


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def settings(info, dataset=None):
    values = {"train_input_dataset_info": info, "train_input_dataset_path": dataset}
    return Settings(values, dict.fromkeys(values, "--flag"))


def refused(info, dataset=None):
    with pytest.raises(DataError) as caught:
        dataset_info.complete(settings(info, dataset))
    return caught.value


def test_without_the_setting_there_is_no_registry():
    assert dataset_info.load(settings(None)) is None
    before = settings("", "d")
    assert dataset_info.complete(before) is before


@pytest.mark.parametrize("ending", ["", ":one"])
def test_the_entrys_file_is_the_dataset(tmp_path, registry, ending):
    path = registry(one=ENTRY)
    found = dataset_info.complete(settings(path + ending))
    assert found.text("train_input_dataset_path") == str(tmp_path / "a.jsonl")
    assert found.origin("train_input_dataset_path") == f"--flag {path}:one"


def test_a_folder_stands_for_the_registry_in_it(tmp_path, registry):
    registry(one=ENTRY, two={**ENTRY, "file_name": "/abs/b.json"})
    assert dataset_info.load(settings(f"{tmp_path}:two")).file == "/abs/b.json"
    assert dataset_info.load(settings(f"{tmp_path}:one")).entry.name == "one"


def test_a_colon_in_a_file_name_is_no_name(tmp_path):
    (tmp_path / "a:b.json").write_text(json.dumps({"one": ENTRY}))
    assert dataset_info.load(settings(str(tmp_path / "a:b.json"))).entry.name == "one"


def test_dataset_may_name_the_same_file_and_no_other(tmp_path, registry):
    path = registry(one=ENTRY)
    (tmp_path / "a.jsonl").write_text("")
    os.symlink(tmp_path / "a.jsonl", tmp_path / "link.jsonl")
    same = settings(path, str(tmp_path / "link.jsonl"))
    assert dataset_info.complete(same) is same
    error = refused(path, str(tmp_path / "b.jsonl"))
    assert error.problems[0].code == "DATASET_MISMATCH"
    assert f"  entry:   {tmp_path}/a.jsonl\n  dataset: {tmp_path}/b.jsonl (from --flag)" in error.message


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "2 entries (one, two)", "dataset_info.json:NAME"),
        (":tow", "no entry 'tow' (it has one, two)", "did you mean two?"),
        (":zzz", "no entry 'zzz'", "name one of its entries"),
        (":one,two", "are several entries", "join the files"),
    ],
)
def test_an_entry_that_is_not_told_is_refused(registry, name, message, hint):
    error = refused(registry(one=ENTRY, two=ENTRY) + name)
    assert [(p.code, p.where, p.origin) for p in error.problems] == [("DATASET_INFO_ENTRY", "settings", "--flag")]
    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"", "not JSON", 1),
        (b'{"a": {}\n "b": 1}', "not JSON", 2),
        (b"[1]", "a list", None),
        (b"{}", "no entries", None),
        (b"{\xff}", "not UTF-8 at byte 1", None),
        (b" " * ((16 << 20) + 1), "larger than 16 MiB", None),
        (None, "No such file", None),
    ],
)
def test_a_file_that_is_no_registry_is_refused(tmp_path, data, message, line):
    path = tmp_path / "dataset_info.json"
    if data is not None:
        path.write_bytes(data)
    error = refused(str(path))
    (problem,) = error.problems
    assert (problem.code, problem.line, problem.path) == ("DATASET_INFO_UNREADABLE", line, str(path))
    assert message in error.message
    assert error.hint


def test_an_entry_without_a_local_file_is_refused_with_all_that_is_wrong_with_it(registry):
    error = refused(registry(one={"hf_hub_url": "a/b", "split": "test", "format": "sharegpt"}))
    assert [p.field for p in error.problems] == ["one.format", "one.hf_hub_url", "one.split"]
    assert error.message.endswith("(and 2 more)")
    assert all(p.origin == "--flag" for p in error.problems)


def test_rows_are_mapped_and_an_evaluation_file_is_mapped_alike(tmp_path, registry):
    train = write_rows(tmp_path / "a.jsonl", {"q": "Q", "a": "A"})
    held = write_rows(tmp_path / "b.jsonl", {"q": "Q2", "a": "A"})
    report = prepare(tmp_path / "run", train, held, train_input_dataset_info=registry(one=ENTRY))
    assert [split.format for split in report.splits] == ["alpaca (dataset_info 'one')"] * 2
    assert rows_at(report.splits[1].snapshot.path, [0])[0].messages == (Turn("user", "Q2"), Turn("assistant", "A"))
    own = registry(one=ENTRY, other={"file_name": "b.jsonl", "columns": {"prompt": "a", "response": "q"}, "sha": 1})
    report = prepare(tmp_path / "run", train, held, train_input_dataset_info=own + ":one")
    assert rows_at(report.splits[1].snapshot.path, [0])[0].messages == (Turn("user", "A"), Turn("assistant", "Q2"))
    assert [(p.code, p.field) for p in report.problems] == [("DATASET_INFO_KEY", "other.sha")]


def test_findings_on_the_entry_are_told_once_and_with_those_on_the_rows(tmp_path, registry):
    train = write_rows(tmp_path / "a.jsonl", {"q": "Q", "a": "A"}, {"q": "Q", "a": ""})
    held = write_rows(tmp_path / "b.jsonl", {"q": "Q2", "a": None})
    info = registry(one={**ENTRY, "num_samples": 9})
    with pytest.raises(DataError) as caught:
        prepare(tmp_path / "run", train, held, train_input_dataset_info=info)
    assert [(p.code, p.where, p.line, p.field) for p in caught.value.problems[:3]] == [
        ("DATASET_INFO_UNSUPPORTED", "settings", 8, "one.num_samples"),
        ("OUTPUT_EMPTY", "train", 2, "a"),
        ("OUTPUT_NULL", "validation", 1, "a"),
    ]
    assert "max_samples" in caught.value.hint


def test_prepare_takes_the_dataset_from_the_entry(place):
    write_rows(place.root / "own.jsonl", *({"q": f"Q{n}", "a": "A"} for n in range(8)))
    info = place.root / "dataset_info.json"
    info.write_text(json.dumps({"mine": {**ENTRY, "file_name": "own.jsonl"}}))
    answer = place.prepare(train_input_dataset_path=None, train_input_dataset_info=f"{info}:mine")
    assert answer.data["counts"]["train"]["usable"] == 6
    assert "own.jsonl" in answer.data["config_yaml"]
    plan = json.loads((place.run / "plan.json").read_text())
    assert plan["settings"]["train_input_dataset_info"]["value"] == f"{info}:mine"
    guide = prefill(place.request(train_input_dataset_path=None, train_input_dataset_info=str(info)))
    assert guide["ready"] is True
