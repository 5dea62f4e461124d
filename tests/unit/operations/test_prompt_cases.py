"""Cases from the field (tests/cases/grpo): what a person met, and what the data's preparation says now."""

import subprocess
import sys

import pyarrow.parquet
import pytest
from fakes.prompt_sources import CASES, manifest, prepare, rejected, rows_of

from loopai_trainer.errors import DataError


def case(run, name, train="train.parquet", validation="val.parquet", **more):
    return prepare(run, CASES / name / train, CASES / name / validation, **more)


def refused(run, name, **more):
    with pytest.raises(DataError) as caught:
        case(run, name, **more)
    return caught.value


def found(problems):
    return [(p.code, p.where, p.row) for p in problems]


def test_grpo_01b_rows_without_ground_truth_are_left_out_and_told(tmp_path):
    report = case(tmp_path, "GRPO-01B")
    assert found(report.problems) == [("GROUND_TRUTH_MISSING", "train", 1), ("GROUND_TRUTH_MISSING", "train", 3)]
    assert report.split("train").counts.usable == 2
    assert [(row["source_row"], row["code"]) for row in rejected(tmp_path)] == [
        (1, "GROUND_TRUTH_MISSING"),
        (3, "GROUND_TRUTH_MISSING"),
    ]
    assert [row["reward_model"]["ground_truth"] for row in rows_of(report)] == ["72", "90"]
    source = pyarrow.parquet.read_table(CASES / "GRPO-01B" / "train.parquet")
    assert pyarrow.parquet.read_schema(report.split("train").snapshot.path).equals(source.schema)
    assert manifest(tmp_path)["status"] == "prepared"


def test_grpo_01b_is_refused_where_that_is_asked_for(tmp_path):
    error = refused(tmp_path, "GRPO-01B", bad_rows="reject")
    assert found(error.problems) == [("GROUND_TRUTH_MISSING", "train", 1), ("GROUND_TRUTH_MISSING", "train", 3)]
    assert not (tmp_path / "prepared_data" / "train.parquet").exists()


def test_grpo_02a_numbers_as_ground_truth_are_refused_with_a_way_out(tmp_path):
    error = refused(tmp_path, "GRPO-02A")
    assert found(error.problems)[:4] == [("GROUND_TRUTH_TYPE", "train", row) for row in range(4)]
    assert "compare text" in error.message
    assert "--data-adapter messages" in error.hint
    report = case(tmp_path, "GRPO-02A", verl_data_adapter="messages")
    assert [row["reward_model"]["ground_truth"] for row in rows_of(report)] == ["72", "27", "90", "20"]
    assert "4  numbers that became text" in (tmp_path / "data_check_report.txt").read_text()


@pytest.mark.parametrize("reward", [{"verl_reward_mode": "custom"}, {"verl_reward_preset": "prime_math"}])
def test_grpo_02a_is_fine_for_a_reward_that_takes_numbers(tmp_path, reward):
    report = case(tmp_path, "GRPO-02A", **reward)
    assert report.prompts.answer_kinds == {"int": 4, "str": 2}
    assert manifest(tmp_path)["status"] == "reused_native_parquet"


def test_grpo_03a_text_prompts_are_refused_and_converted_on_request(tmp_path):
    error = refused(tmp_path, "GRPO-03A")
    assert found(error.problems)[:4] == [("PROMPT_TYPE", "train", row) for row in range(4)]
    assert "list of {role, content}" in error.message
    assert "--data-adapter qa" in error.hint
    report = case(tmp_path, "GRPO-03A", verl_data_adapter="qa")
    first = rows_of(report)[0]
    assert first["prompt"] == [{"role": "user", "content": "A crate holds 9 bolts. How many bolts in 8 crates?"}]
    assert first["reward_model"] == {"style": "rule", "ground_truth": "72"}
    assert "texts that became a prompt of one user turn" in (tmp_path / "data_check_report.txt").read_text()


def test_grpo_04a_names_of_data_are_kept_for_the_reward_to_judge(tmp_path):
    report = case(tmp_path, "GRPO-04A")
    assert report.prompts.data_sources == {"gsm8k": 6}
    assert (tmp_path / "prepared_data" / "train.parquet").read_bytes() == (
        CASES / "GRPO-04A" / "train.parquet"
    ).read_bytes()


@pytest.mark.parametrize("name", ["GRPO-05B", "GRPO-06A", "GRPO-08B"])
def test_sound_data_are_reused_byte_for_byte(tmp_path, name):
    report = case(tmp_path, name)
    assert report.problems == ()
    for split, file in (("train", "train.parquet"), ("validation", "val.parquet")):
        snapshot = report.split(split).snapshot
        with open(snapshot.path, "rb") as copy:
            assert copy.read() == (CASES / name / file).read_bytes()
        assert (tmp_path / "prepared_data" / f"{split}.parquet").stat().st_mode & 0o777 == 0o444
    assert manifest(tmp_path)["status"] == "reused_native_parquet"


def test_grpo_07a_an_answer_in_the_prompt_is_refused(tmp_path):
    error = refused(tmp_path, "GRPO-07A")
    assert found(error.problems)[:4] == [("ANSWER_IN_PROMPT", "train", row) for row in range(4)]
    assert "#### 72" in error.problems[0].message


def test_grpo_08b_big_integers_stay_exact_when_rows_are_moved(tmp_path):
    report = prepare(tmp_path, CASES / "GRPO-08B" / "train.parquet")
    kept = rows_of(report) + rows_of(report, "validation")
    big = {row["extra_info"]["index"]: row["extra_info"]["big"] for row in kept}
    assert big == {index: 2**53 + index for index in range(4)}
    report = prepare(tmp_path, CASES / "GRPO-08B" / "train.parquet", verl_data_adapter="messages")
    kept = rows_of(report) + rows_of(report, "validation")
    assert {row["extra_info"]["index"]: row["extra_info"]["big"] for row in kept} == big
    assert kept[0]["extra_info"]["tests"] == [[1, 2], [3]]
    assert kept[0]["extra_info"]["meta"] == {"src": "unit", "w": [0.5, None]}


_MEASURED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from fakes.prompt_sources import prepare, rejected
report = prepare(Path(sys.argv[3]), sys.argv[2], sys.argv[4])
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
print(report.split("train").counts.usable, [row["source_row"] for row in rejected(Path(sys.argv[3]))], peak // 1024)
"""


def test_grpo_08b_one_null_in_a_large_file_is_found_in_little_memory(tmp_path):
    # 60 row groups, 245 MB; the file's size does not matter to the memory, and to the time only in proportion.
    big = tmp_path / "big.parquet"
    subprocess.run([sys.executable, CASES / "GRPO-08B" / "make_big.py", big, "60"], check=True)
    tests = CASES.parents[1]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, tests, big, tmp_path / "run", CASES / "GRPO-08B" / "val.parquet"],
        check=True,
        capture_output=True,
        text=True,
    )
    usable, rows, peak_mb = done.stdout.split()
    assert (usable, rows) == ("59999", "[59999]")
    assert int(peak_mb) < 300
