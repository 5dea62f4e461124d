import pytest
from fakes.llamafactory_env import make_environment, versions_of
from fakes.sft_plans import make_plan
from fakes.tokenizer_files import write_tokenizer

from loopai_trainer.backends.llamafactory_sft import lengths
from loopai_trainer.backends.llamafactory_sft.lengths import added_tokens, row_meter
from loopai_trainer.records import Row, RowLength, Turn

SYSTEM = len("<system\nBe brief.>\n")
AROUND = len("<user\n>\n<assistant\n")
END = len(">\n")


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_environment(tmp_path_factory.mktemp("env") / "env"))


def chat(*contents):
    roles = ("user", "assistant")
    return Row(tuple(Turn(roles[n % 2], text) for n, text in enumerate(contents)), "", "", 1)


@pytest.fixture
def meter(tmp_path, versions):
    def meter(**native):
        return row_meter(make_plan(tmp_path / "run", native=native), versions)

    return meter


def measured(meter, *rows, **native):
    found, problems = meter(**native)
    assert problems == []
    return found(rows)


def test_a_row_with_the_template_around_it(meter):
    whole = SYSTEM + AROUND + 1 + 2 + END
    assert measured(meter, chat("q", "ab")) == [RowLength(whole, whole)]


def test_what_is_lost_at_the_limit(meter):
    question, answer, turns = measured(
        meter, chat("q" * 100, "a"), chat("q", "a" * 400), chat(*["q" * 20, "a" * 20] * 5), cutoff_len=100
    )
    assert (question.kept, question.prompt_lost, question.answer_lost) == (100, SYSTEM + AROUND + 101 + END - 100, 0)
    assert answer.kept == 100 and answer.prompt_lost == 0 and answer.answer_lost == 402 - (100 - SYSTEM - AROUND - 1)
    assert turns.turns_lost == 3 and turns.kept == 100


def test_masked_history_gives_the_last_turn_the_room(meter):
    (row,) = measured(meter, chat("q" * 200, "a", "q", "a"), cutoff_len=30, mask_history=True)
    assert (row.kept, row.prompt_lost, row.turns_lost) == (
        30,
        SYSTEM + AROUND + 200 - (30 - AROUND - 1 - 1 - END - 1 - END),
        0,
    )


def test_an_efficient_end_token_counts_once(meter):
    (row,) = measured(meter, chat("q", "a", "q", "a"), template="chatglm3")
    # Two named tokens before, two around each question, a line end, and one at the end.
    assert row.tokens == 2 + 2 * (2 + 1 + 1 + 1) + 1


def test_tokens_that_the_template_lacks_are_added_as_training_adds_them(meter):
    (row,) = measured(meter, chat("q", "a"), template="llama3")
    heading = len("<|start_header_id|>") + len("<|end_header_id|>")
    assert row.tokens == heading + 4 + 2 + 1 + 1 + heading + 9 + 2 + 1 + 1
    (row,) = measured(
        meter, chat("q", "a"), template="llama3", add_special_tokens="<|start_header_id|>, <|end_header_id|>"
    )
    assert row.tokens == 2 + 4 + 2 + 1 + 1 + 2 + 9 + 2 + 1 + 1


def test_special_tokens_in_a_text_count_as_text_when_they_are_split(meter):
    (whole,) = measured(meter, chat("<|im_end|>", "a"))
    (split,) = measured(meter, chat("<|im_end|>", "a"), split_special_tokens=True)
    assert split.tokens > whole.tokens + 9


def test_batches_change_nothing(meter, monkeypatch):
    rows = [chat("q" * n, "a" * (50 - n)) for n in range(50)]
    before = measured(meter, *rows)
    monkeypatch.setattr(lengths, "BATCH_CHARACTERS", 200)
    assert measured(meter, *rows) == before
    assert measured(meter) == []


def test_estimates_are_marked(meter, monkeypatch):
    assert measured(meter, Row((Turn("user", "q"), Turn("function", "torn")), "", "", 1))[0].exact is False
    monkeypatch.setattr(lengths, "LONGEST_TEXT", 50)
    assert [row.exact for row in measured(meter, chat("q" * 60, "a"), chat("q", "a"))] == [False, False]


@pytest.mark.parametrize(
    ("native", "said"), [({"template": "odd"}, "not known here"), ({"template": "alien"}, "not known here")]
)
def test_a_template_that_cannot_be_followed_is_told(meter, native, said):
    found, (problem,) = meter(**native)
    assert found is None
    assert (problem.severity, problem.code) == ("warning", "LENGTHS_UNKNOWN")
    assert said in problem.message


def test_a_slow_tokenizer_alone_is_told(tmp_path, versions):
    plan = make_plan(tmp_path / "run")
    (tmp_path / "model" / "tokenizer.json").rename(tmp_path / "model" / "tokenizer.model")
    found, (problem,) = row_meter(plan, versions)
    assert found is None and problem.code == "LENGTHS_UNKNOWN" and "only a slow tokenizer" in problem.message


def test_no_templates_are_told(tmp_path, versions):
    plan = make_plan(tmp_path / "run")
    other = type(versions)("llamafactory", "9", "3", str(tmp_path), {}, "")
    assert "cannot be read" in row_meter(plan, other)[1][0].message


@pytest.mark.parametrize(
    "native", [{"cutoff_len": "4k"}, {"cutoff_len": 0}, {"cutoff_len": True}, {"template": "nowhere"}]
)
def test_what_other_checks_tell_is_not_told_twice(meter, native):
    assert meter(**native) == (None, [])


def test_added_tokens():
    assert added_tokens({"add_tokens": "a, b", "add_special_tokens": ["c", 1]}) == ["a", "b", "c", "1"]
    assert added_tokens({"add_tokens": 7}) == []


def test_the_helper_writes_what_is_expected(tmp_path):
    assert (write_tokenizer(tmp_path) / "tokenizer.json").stat().st_size > 0
