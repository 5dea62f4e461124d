import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from loopai_trainer.errors import DataError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.task_data import prepare_task_data
from loopai_trainer.records import Settings


@pytest.fixture
def run(tmp_path):
    return RunDir(str(tmp_path / "out" / "t" / "trainer" / "v1"))


def settings(**values):
    base = {"bad_rows": "reject", "split_seed": 42, "allow_overlap": False, **values}
    return Settings(base, dict.fromkeys(base, "--dataset"))


def tasks(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(split):
    return [json.loads(line) for line in Path(split.snapshot.path).read_text().splitlines()]


def test_tasks_are_taken_as_they_stand(run, tmp_path):
    rows = [{"question": "1 + 1?", "answer": {"value": 2, "unit": None}}, {"question": "七?", "tags": ["a"]}]
    report = prepare_task_data(settings(train_input_dataset_path=tasks(tmp_path / "a.jsonl", rows)), run, None, None)
    train = report.split("train")
    assert read(train) == rows
    assert (train.counts.input, train.counts.usable, train.snapshot.rows) == (2, 2, 2)
    assert Path(train.snapshot.path).stat().st_mode & 0o777 == 0o444
    assert train.snapshot.sha256[:16] in train.snapshot.path
    assert "Accepted." in Path(run.data_report).read_text()
    again = prepare_task_data(settings(train_input_dataset_path=str(tmp_path / "a.jsonl")), run, None, None)
    assert again.split("train").snapshot == train.snapshot


def test_a_list_and_parquet_are_read_too(run, tmp_path):
    rows = [{"n": 1}, {"n": 2}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"n": 3}]), tmp_path / "b.parquet")
    told = []
    values = settings(
        train_input_dataset_path=str(tmp_path / "a.json"), train_input_eval_dataset_path=str(tmp_path / "b.parquet")
    )
    report = prepare_task_data(values, run, None, lambda done, total: told.append((done, total)))
    assert [read(report.split(name)) for name in ("train", "validation")] == [rows, [{"n": 3}]]


def test_a_share_is_held_out_in_the_same_way_each_time(run, tmp_path):
    path = tasks(tmp_path / "a.jsonl", [{"n": n} for n in range(10)])
    report = prepare_task_data(settings(train_input_dataset_path=path), run, 0.3, None)
    held = read(report.split("validation"))
    assert (len(held), len(read(report.split("train")))) == (3, 7)
    assert read(prepare_task_data(settings(train_input_dataset_path=path), run, 0.3, None).split("validation")) == held
    other = prepare_task_data(settings(train_input_dataset_path=path, split_seed=1), run, 0.3, None)
    assert read(other.split("validation")) != held
    assert sorted(one.name for one in Path(run.prepared_data).iterdir()) == sorted(
        Path(split.snapshot.path).name for split in other.splits
    )


def test_repeats_of_a_task_stay_on_one_side(run, tmp_path):
    path = tasks(tmp_path / "a.jsonl", [{"n": 0}] * 6)
    with pytest.raises(DataError, match="same prompt") as caught:
        prepare_task_data(settings(train_input_dataset_path=path), run, 0.5, None)
    assert caught.value.problems[0].code == "SPLIT_IMPOSSIBLE"


BAD = '{"n": 1}\n[1, 2]\n{}\n{"n": NaN}\n{"torn\n{"n": 2}\n'


def test_rows_that_are_no_tasks_stop_it_with_their_lines(run, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(BAD)
    with pytest.raises(DataError) as caught:
        prepare_task_data(settings(train_input_dataset_path=str(path)), run, None, None)
    errors = [problem.line for problem in caught.value.problems if problem.severity == "error"]
    assert errors == [2, 3, 4, 5]
    assert caught.value.details["counts"]["train"] == {"input": 6, "usable": 2, "rejected": 4}
    assert not list(Path(run.prepared_data).glob("train-*"))


def test_rows_that_are_no_tasks_are_left_out_on_request(run, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(BAD)
    report = prepare_task_data(settings(train_input_dataset_path=str(path), bad_rows="skip"), run, None, None)
    assert read(report.split("train")) == [{"n": 1}, {"n": 2}]
    rejected = [json.loads(line) for line in Path(report.rejected_path).read_text().splitlines()]
    assert [one["line"] for one in rejected] == [2, 3, 4, 5]
    assert {problem.severity for problem in report.problems} == {"warning"}


def test_parquet_values_that_json_has_no_form_for_are_told_by_row(run, tmp_path):
    import datetime

    table = pyarrow.Table.from_pylist([{"at": datetime.date(2026, 1, 1)}])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError) as caught:
        prepare_task_data(settings(train_input_dataset_path=str(tmp_path / "a.parquet")), run, None, None)
    problem = caught.value.problems[0]
    assert (problem.code, problem.row, problem.line) == ("TASK_NOT_JSON", 0, None)


@pytest.mark.parametrize("content", ["", "[]\n[]\n"])
def test_a_file_without_tasks_is_refused(run, tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        prepare_task_data(settings(train_input_dataset_path=str(path)), run, None, None)
    assert "NO_USABLE_ROWS" in [problem.code for problem in caught.value.problems]


def test_a_file_that_is_not_there_is_refused(run, tmp_path):
    with pytest.raises(DataError) as caught:
        prepare_task_data(settings(train_input_dataset_path=str(tmp_path / "none.jsonl")), run, None, None)
    assert caught.value.problems[0].code == "FILE_NOT_FOUND"


@pytest.mark.parametrize("allowed", [False, True])
def test_tasks_on_both_sides_are_told(run, tmp_path, allowed):
    values = settings(
        train_input_dataset_path=tasks(tmp_path / "a.jsonl", [{"n": 1}, {"n": 2}]),
        train_input_eval_dataset_path=tasks(tmp_path / "b.jsonl", [{"n": 2}]),
        allow_overlap=allowed,
    )
    if allowed:
        assert prepare_task_data(values, run, None, None).problem_counts == {"OVERLAP": 1}
        return
    with pytest.raises(DataError) as caught:
        prepare_task_data(values, run, None, None)
    assert caught.value.problems[0].code == "OVERLAP"


def test_more_tasks_than_any_run_could_make_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("loopai_trainer.operations.task_data.MOST_TASKS", 2)
    path = tasks(tmp_path / "a.jsonl", [{"n": n} for n in range(4)])
    with pytest.raises(DataError) as caught:
        prepare_task_data(settings(train_input_dataset_path=path), run, None, None)
    assert caught.value.problems[0].code == "TOO_MANY_TASKS"
