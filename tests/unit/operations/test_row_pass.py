"""The pass over a file: what it may change for its own sake, and puts right again."""

import gc

import pytest
from fakes.row_backend import prepare

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
