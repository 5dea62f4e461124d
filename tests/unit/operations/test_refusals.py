import pytest

from loopai_trainer.errors import ConfigError, ValidationError
from loopai_trainer.operations.review import refuse
from loopai_trainer.records import Problem


def test_a_refusal_of_the_template_still_tells_of_rows_that_were_left_out(place):
    place.write_rows([{"instruction": f"q{n}", "output": "a" if n != 2 else None} for n in range(8)])
    place.template.write_text("finetuning_type: full\ntemplate: qwen\nlearning_rte: 1.0e-4\n")
    with pytest.raises(ConfigError) as caught:
        place.prepare(bad_rows="skip")
    error = caught.value
    assert error.message.startswith(f"{place.template}: ")  # a fault with a place in it
    left_out = [(p.severity, p.where, p.line) for p in error.problems if p.where == "train"]
    assert left_out == [("warning", "train", 3)]
    assert error.details["counts"]["train"]["rejected"] == 1
    assert error.details["report_path"] == str(place.run / "data_check_report.txt")


def test_a_refusal_of_the_plan_leaves_repeats_to_the_report(place):
    rows = [{"instruction": "q", "output": "a"}] * 2 + [{"instruction": "b", "output": None}]
    place.write_rows(rows + [{"instruction": f"q{n}", "output": "a"} for n in range(8)])
    with pytest.raises(ValidationError) as caught:
        place.prepare(["save_steps=0"], bad_rows="skip")
    told = [(p.where, p.line) for p in caught.value.problems if p.severity == "warning" and p.where == "train"]
    assert told == [("train", 3)]
    assert "DUPLICATE_ROW" in caught.value.details["problem_counts"]


def test_only_a_fault_with_a_place_in_it_is_headed_by_the_template():
    anywhere = Problem("error", "TOO_FEW_ROWS", "config", "2 rows are fewer than 4", field="data.train_batch_size")
    placed = Problem("error", "UNKNOWN_KEY", "config", "no such key", line=3)
    elsewhere = Problem("error", "BAD", "train", "no number", path="/d.jsonl", line=3)
    assert refuse([anywhere], "/t.yaml").message == "2 rows are fewer than 4"
    assert refuse([placed, anywhere], "/t.yaml").message == "/t.yaml: no such key (and 1 more)"
    assert refuse([elsewhere], "/t.yaml").message == "no number"
