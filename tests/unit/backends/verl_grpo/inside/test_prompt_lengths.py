import pytest
from fakes import verl_inside

lengths = verl_inside.load("prompt_lengths")


def measured(sizes, maximum=10, standing=None, **more):
    rows = [
        (number, standing is None or number in standing, {"prompt": "x" * size, **more})
        for number, size in enumerate(sizes)
    ]
    return lengths.measure(str, lambda texts: list(map(len, texts)), len(sizes), rows, maximum, batch=3)


def told(found, share=0.05, where="train", **data):
    block = {"max_prompt_length": 10, "train_batch_size": 2, "filter_overlong_prompts": False, **data}
    return lengths.findings(where, "/p", found, block, share)


def test_short_prompts_tell_nothing():
    found = measured([1, 2, 10, 4])
    assert found == lengths.Measured(4, [1, 2, 4, 10], (10, 2), 0, [], 0)
    assert told(found) == []
    assert lengths.summary(found, 10) == "4 rows: p50 2, p99 4, longest 10 of 10 tokens; 0 too long"


@pytest.mark.parametrize(("share", "severity"), [(0.05, "error"), (0.25, "warning")])
def test_prompts_that_verl_would_cut(share, severity):
    (problem,) = told(measured([1, 11, 3, 4]), share)
    assert (problem["severity"], problem["code"], problem["row"], problem["path"]) == (severity, "PROMPTS_CUT", 1, "/p")
    assert (
        "1 of 4 rows (25.0%) are longer than data.max_prompt_length = 10 tokens, the longest 11" in problem["message"]
    )
    assert "cuts them on the left without a word" in problem["message"]
    assert problem["hint"].startswith("set data.max_prompt_length to 11")


def test_a_long_row_beside_the_sample_is_a_warning():
    (problem,) = told(measured([1, 2, 99], standing={0, 1}))
    assert (problem["severity"], problem["row"]) == ("warning", 2)
    assert "0 rows of a sample of 2, 3 in all" in problem["message"]


def test_the_first_of_the_longest_is_named():
    assert measured([5, 20, 20]).longest == (20, 1)


def test_dropped_prompts_are_counted_and_too_few_left_is_an_error():
    found = measured([1, 11, 12, 13])
    dropped, few = told(found, filter_overlong_prompts=True)
    assert (dropped["severity"], dropped["code"]) == ("warning", "PROMPTS_DROPPED")
    assert "3 of 4 rows (75.0%)" in dropped["message"] and "verl drops them" in dropped["message"]
    assert (few["severity"], few["code"]) == ("error", "ROWS_TOO_FEW")
    assert "1 of 4 rows are left" in few["message"] and "data.train_batch_size = 2" in few["message"]
    assert [p["code"] for p in told(found, where="validation", filter_overlong_prompts=True)] == ["PROMPTS_DROPPED"]
    (_, few) = told(measured([11, 12]), where="validation", filter_overlong_prompts=True)
    assert "0 of 2 rows" in few["message"]


def test_a_template_that_refuses_a_prompt_is_an_error_with_the_first_row():
    def render(prompt):
        if prompt == "bad":
            raise ValueError("roles must alternate")
        return prompt

    rows = [(number, True, {"prompt": text}) for number, text in enumerate(["good", "bad", "bad"])]
    found = lengths.measure(render, lambda texts: list(map(len, texts)), 3, rows, 10)
    (problem,) = told(found)
    assert (problem["severity"], problem["code"], problem["row"]) == ("error", "PROMPT_TEMPLATE", 1)
    assert "roles must alternate (2 of the rows measured)" in problem["message"]


def test_rows_with_pictures_are_not_measured():
    found = measured([99, 99], images=[b"x"])
    (problem,) = told(found)
    assert (problem["severity"], problem["code"]) == ("warning", "LENGTHS_UNKNOWN")
    assert lengths.summary(found, 10) == "not measured"
    assert [p["code"] for p in told(found, filter_overlong_prompts=True)] == ["LENGTHS_UNKNOWN"]
