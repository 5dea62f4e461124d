from pathlib import Path

import pytest

from loopai_trainer.backends.llamafactory_sft.log import MARKS, OVERLAP_LINES, read_log

CASES = Path(__file__).parents[3] / "cases" / "llamafactory"
INFO = "[INFO|trainer.py:1470] 2026-11-29 16:47:18,966 >> "


def real_lines(case):
    return (CASES / case / "train.log").read_bytes().decode().split("\n")


@pytest.mark.parametrize("case", ["full", "lora_2_ranks"])
def test_a_real_log_tells_phases_examples_and_steps(case):
    facts = [(fact.kind, fact.value) for fact in read_log(real_lines(case))]
    assert facts[:7] == [
        ("phase", "loading_data"),
        ("phase", "tokenising"),
        ("phase", "loading_model"),
        ("phase", "training"),
        ("train_examples", 56),
        ("total_steps", 12),
        ("validation_examples", 8),
    ]
    assert set(facts[7:]) == {("validation_examples", 8)}


def test_a_run_that_failed_early_tells_how_far_it_came():
    assert [fact.value for fact in read_log(real_lines("missing_data_2_ranks"))] == ["loading_data"]


def test_batches_that_overlap_lose_no_count():
    lines = real_lines("full")
    whole = {(fact.kind, fact.value) for fact in read_log(lines)}
    seen, last = set(), []
    for line in lines:
        seen |= {(fact.kind, fact.value) for fact in read_log([*last, line])}
        last = [*last, line][-OVERLAP_LINES:]
    assert seen == whole


def test_thousands_have_separators():
    lines = [
        INFO + "***** Running training *****",
        INFO + "  Num examples = 1,234,567",
        INFO + "  Total optimization steps = 9,000",
    ]
    assert [(fact.kind, fact.value) for fact in read_log(lines)][1:] == [
        ("train_examples", 1234567),
        ("total_steps", 9000),
    ]


def test_rows_of_the_data_that_look_like_the_log_do_not_count():
    lines = [
        "training example:",
        "***** Running training *****",
        "  Num examples = 3",
        "Total optimization steps = 5",
        "> >> Num examples = 4",
    ]
    assert read_log(lines) == []


def test_a_count_without_its_heading_is_not_guessed():
    assert read_log([INFO + "  Num examples = 8"]) == []


def test_progress_bars_share_a_line():
    line = "Generating train split: 0\rConverting format of dataset: 5%\rRunning tokenizer on dataset: 0%\rRunning tokenizer on dataset: 9%\n"
    assert [fact.value for fact in read_log([line])] == ["loading_data", "tokenising"]


@pytest.mark.parametrize("case", ["full", "lora_2_ranks", "missing_data_2_ranks"])
@pytest.mark.parametrize("kind", sorted(MARKS))
def test_lines_without_a_mark_say_nothing_of_that_kind(case, kind):
    def facts(lines):
        return [fact.value for fact in read_log(lines) if fact.kind == kind]

    lines = real_lines(case)
    marked = [line for line in lines if any(mark.decode() in line for mark in MARKS[kind])]
    assert facts(marked) == facts(lines)
    assert len(marked) < len(lines) / 2
