"""The pass over a file: what it may change for its own sake, and puts right again."""

import gc

import pytest
from fakes.row_backend import prepare

from loopai_trainer.files.row_lines import RowLines
from loopai_trainer.operations import row_pass


@pytest.mark.parametrize("before", [True, False])
def test_collection_is_as_it_was_after_a_pass_and_after_an_error(before):
    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ZeroDivisionError), row_pass.collection_paused():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize(("size", "evaluation", "seed"), [(None, False, None), (0.5, False, 7), (0.5, True, None)])
def test_prompts_are_seeded_only_for_a_split(tmp_path, monkeypatch, size, evaluation, seed):
    seeds = []
    real = row_pass.fingerprinter
    monkeypatch.setattr(row_pass, "fingerprinter", lambda seed: seeds.append(seed) or real(seed))
    for name in ("a", "b"):
        lines = [f'{{"instruction": "{name}{n}", "input": "", "output": "x"}}\n' for n in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    prepare(tmp_path / "run", tmp_path / "a.jsonl", tmp_path / "b.jsonl" if evaluation else None, size, seed=7)
    assert set(seeds) == {seed}


LINES = [
    '{"instruction": "q%d", "input": "", "output": "a"}',
    '{"instruction": "q%d", "input": "水", "output": "a <|im_end|>"}',
    '{"instruction": "q%d", "output": "a", "system": "s"}',
    '{"instruction": "q%d", "input": "", "output": ""}',
    "oops %d",
    '{"instruction": "same", "input": "", "output": "a", "id": %d}',
]


@pytest.mark.parametrize("kinds", [(0,), (0, 0, 1), (0, 2), (0,) * 19 + (3,), (0, 4), range(6), (0, 5)])
@pytest.mark.parametrize("size", [None, 0.5])
def test_lines_taken_as_a_whole_end_as_those_that_are_not(tmp_path, monkeypatch, kinds, size):
    monkeypatch.setattr(row_pass, "BLOCK_BYTES", 200)
    monkeypatch.setattr(row_pass, "_SAMPLE_ROWS", 1)
    monkeypatch.setattr("loopai_trainer.files.snapshots.GROUP_ROWS", 7)
    taken = []
    real = RowLines._read
    monkeypatch.setattr(RowLines, "_read", lambda lines, text: taken.append(real(lines, text)) or taken[-1])
    source = tmp_path / "a.jsonl"
    source.write_text("".join(LINES[kinds[n % len(kinds)]] % n + "\n" for n in range(90)), encoding="utf-8")
    together = prepare(tmp_path / "one", source, size=size, bad_rows="skip")
    assert any(taken) or kinds not in ((0,), (0, 5))
    monkeypatch.setattr(RowLines, "__call__", lambda lines, text: None)
    alone = prepare(tmp_path / "two", source, size=size, bad_rows="skip")
    assert [one.snapshot.sha256 for one in together.splits] == [one.snapshot.sha256 for one in alone.splits]
    assert [(one.counts, one.lengths) for one in together.splits] == [(one.counts, one.lengths) for one in alone.splits]
    assert together.problems == alone.problems
    assert together.problem_counts == alone.problem_counts


@pytest.mark.parametrize("kinds", [(0,), (0, 0, 1), (0, 2), (0, 0, 0, 3), (0, 4), range(6)])
def test_rows_judged_together_and_one_by_one_end_the_same(tmp_path, monkeypatch, kinds):
    monkeypatch.setattr("loopai_trainer.files.tables.json_lines._TOGETHER_BYTES", 200)
    source = tmp_path / "a.jsonl"
    source.write_text("".join(LINES[kinds[n % len(kinds)]] % n + "\n" for n in range(60)), encoding="utf-8")
    together = prepare(tmp_path / "one", source, bad_rows="skip")
    calls = []
    monkeypatch.setattr(row_pass, "plain_columns", lambda check, values: calls.append(len(values)))
    alone = prepare(tmp_path / "two", source, bad_rows="skip")
    assert sum(calls) == 60
    assert together.splits[0].snapshot.sha256 == alone.splits[0].snapshot.sha256
    assert together.splits[0].counts == alone.splits[0].counts
    assert together.splits[0].lengths == alone.splits[0].lengths
    assert together.problems == alone.problems
    assert together.problem_counts == alone.problem_counts
