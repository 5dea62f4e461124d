import pyarrow
import pyarrow.parquet
import pytest
from fakes import verl_inside, verl_rehearsals

sample_rows = verl_inside.load("sample_rows")


def write(tmp_path, table):
    return str(verl_rehearsals.write_rows(tmp_path / "rows.parquet", table))


def many(number, source="a"):
    return verl_rehearsals.rows([str(value) for value in range(number)], source)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(sample_rows, "BATCH_ROWS", 7)


def test_a_scan_knows_sources_lengths_and_odd_ground_truths(tmp_path):
    table = many(20) + many(10, "b")
    table[3]["reward_model"]["ground_truth"] = "1,234"
    table[17]["reward_model"]["ground_truth"] = "７"
    table[18]["reward_model"]["ground_truth"] = " 5"
    table[19]["reward_model"]["ground_truth"] = "-5"
    table[25]["prompt"] = [{"role": "system", "content": "x" * 50}, {"role": "user", "content": "y" * 50}]
    found = sample_rows.scan(write(tmp_path, table))
    assert found.rows == 30
    assert found.firsts == {"a": [0, 1], "b": [20, 21]}
    assert found.odd == [3, 17, 18, 19]
    assert int(found.characters[25]) == 100
    assert int(found.characters[0]) == len("How many? (0)")


def test_ground_truths_and_contents_of_other_types_are_taken_as_they_are(tmp_path):
    table = verl_rehearsals.rows([1, 2, 3])
    for row in table:
        row["prompt"] = [{"role": "user", "content": [{"type": "text", "text": "q"}]}]
    found = sample_rows.scan(write(tmp_path, table))
    assert (found.rows, found.odd, list(found.characters)) == (3, [], [0, 0, 0])


def test_null_prompts_and_contents_count_nothing(tmp_path):
    table = many(3)
    table[1]["prompt"] = None
    table[2]["prompt"] = [{"role": "user", "content": None}, {"role": "user", "content": "xy"}]
    assert list(sample_rows.scan(write(tmp_path, table)).characters) == [13, 0, 2]


def test_the_most_telling_rows_come_first_and_the_choice_is_fixed(tmp_path):
    table = many(200) + many(100, "b")
    table[150]["reward_model"]["ground_truth"] = "1,5"
    table[222]["prompt"][0]["content"] = "x" * 999
    found = sample_rows.scan(write(tmp_path, table))
    chosen = sample_rows.to_try(found, 24, seed=42)
    assert chosen[:2] == [0, 200]
    assert {0, 299, 150, 222} <= set(chosen)
    assert len(chosen) == len(set(chosen)) == 24
    assert chosen == sample_rows.to_try(found, 24, seed=42)
    assert chosen != sample_rows.to_try(found, 24, seed=1)


def test_every_data_source_is_tried_however_many_there_are(tmp_path):
    table = [row for number in range(40) for row in many(2, f"s{number}")]
    chosen = sample_rows.to_try(sample_rows.scan(write(tmp_path, table)), 24, seed=42)
    assert {row // 2 for row in chosen} == set(range(40))


def test_few_rows_and_none(tmp_path):
    assert sorted(sample_rows.to_try(sample_rows.scan(write(tmp_path, many(2))), 24, 42)) == [0, 1]
    empty = pyarrow.Table.from_pylist(many(1)).slice(0, 0)
    pyarrow.parquet.write_table(empty, tmp_path / "empty.parquet")
    found = sample_rows.scan(str(tmp_path / "empty.parquet"))
    assert (found.rows, sample_rows.to_try(found, 24, 42)) == (0, [])


def test_what_is_measured(tmp_path):
    table = many(100)
    table[61]["prompt"][0]["content"] = "x" * 999
    found = sample_rows.scan(write(tmp_path, table))
    standing, longest = sample_rows.to_measure(found, None, 5)
    assert (list(standing), list(longest)) == (list(range(100)), [])
    standing, longest = sample_rows.to_measure(found, 10, 5)
    assert len(standing) == 10 and all(number * 10 <= row < number * 10 + 10 for number, row in enumerate(standing))
    assert 61 in {*standing, *longest}
    assert not set(standing) & set(longest)


def test_rows_are_read_by_their_number(tmp_path):
    path = write(tmp_path, many(30))
    found = dict(sample_rows.read(path, [29, 7, 7, 0]))
    assert [(row, found[row]["extra_info"]["index"]) for row in found] == [(0, 0), (7, 7), (29, 29)]
    assert found[7]["reward_model"]["ground_truth"] == "7"
    assert list(sample_rows.read(path, [])) == []
