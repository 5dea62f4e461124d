import pytest

from loopai_trainer.backends.verl_grpo import reward_file

GOOD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


def found(tmp_path, text, name="compute_score", given=()):
    file = tmp_path / "r.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return reward_file.check(str(file), name, given)


def only(problems, code):
    assert [problem.code for problem in problems] == [code]
    assert problems[0].severity == "error"
    assert problems[0].hint
    return problems[0]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("def", "async def"),
        "def compute_score(**kwargs):\n    return 1.0\n",
        "def compute_score(solution_str, **kwargs):\n    return 1.0\n",
        "def compute_score(data_source, solution_str, ground_truth, extra_info, *, more=1): ...\n",
        "compute_score = lambda **kwargs: 1.0\n",
        "compute_score: object = print\n",
        "from math import sqrt as compute_score\n",
        "from verl.utils.reward_score.gsm8k import *\n",
        "class compute_score: ...\n",
        "@wrap\ndef compute_score(row): ...\n",
        f"try:\n    import x\nexcept ImportError:\n    {GOOD.splitlines()[0]} ...\n",
        f"if True:\n    {GOOD.splitlines()[0]} ...\n",
    ],
)
def test_what_verl_can_call(tmp_path, text):
    assert found(tmp_path, text) == []


def test_a_file_that_is_not_there_is_a_folder_or_is_too_large(tmp_path, monkeypatch):
    only(reward_file.check(str(tmp_path / "none.py"), "compute_score"), "REWARD_FILE_UNREADABLE")
    only(reward_file.check(str(tmp_path), "compute_score"), "REWARD_FILE_UNREADABLE")
    monkeypatch.setattr(reward_file, "MAX_BYTES", 10)
    only(found(tmp_path, GOOD), "REWARD_FILE_UNREADABLE")


@pytest.mark.parametrize("text", ["def f(:\n", b"x = '\xff'\n", b"\0", "(" * 5000])
def test_what_is_not_python(tmp_path, text):
    only(found(tmp_path, text), "REWARD_FILE_INVALID")


def test_a_syntax_error_has_its_line(tmp_path):
    assert only(found(tmp_path, "x = 1\ndef f(:\n"), "REWARD_FILE_INVALID").line == 2


def test_a_missing_function_and_the_nearest(tmp_path):
    problem = only(found(tmp_path, GOOD, "compute_scores"), "REWARD_FUNCTION_MISSING")
    assert problem.hint.endswith(":compute_score")
    assert only(found(tmp_path, "x = 1\n"), "REWARD_FUNCTION_MISSING").hint.endswith(":x")
    assert "define" in only(found(tmp_path, "import os\n"), "REWARD_FUNCTION_MISSING").hint
    assert "cannot be the name" in only(found(tmp_path, GOOD, "a-b"), "REWARD_FUNCTION_MISSING").message


def test_a_function_inside_another_is_none_of_the_module(tmp_path):
    only(found(tmp_path, "def f():\n    def compute_score(**kwargs): ...\n"), "REWARD_FUNCTION_MISSING")


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("model_output, ground_truth, timeout_score=0", "takes no argument data_source, solution_str, extra_info"),
        ("data_source, solution_str, ground_truth", "takes no argument extra_info"),
        ("data_source, solution_str, ground_truth, extra_info, judge", "needs judge"),
        ("data_source, solution_str, ground_truth, extra_info, *, judge", "needs judge"),
        ("solution_str, /, **kwargs", "needs solution_str"),
        ("*arguments", "takes no argument data_source, solution_str, ground_truth, extra_info"),
    ],
)
def test_a_signature_that_a_call_by_keyword_breaks(tmp_path, signature, said):
    problems = found(tmp_path, f"def compute_score({signature}): ...\n")
    assert {problem.code for problem in problems} == {"REWARD_SIGNATURE"}
    assert any(said in problem.message for problem in problems)


def test_keyword_arguments_of_the_settings_count(tmp_path):
    text = "def compute_score(data_source, solution_str, ground_truth, extra_info, judge): ...\n"
    assert found(tmp_path, text, given=("judge",)) == []
    only(found(tmp_path, GOOD, given=("judge",)), "REWARD_SIGNATURE")


def test_imports_that_the_copy_would_lose(tmp_path):
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "json.py").write_text("")
    text = "from . import a\nfrom ..b import c\nimport helper.x\nfrom package.y import z\nimport json, os\n" + GOOD
    problems = found(tmp_path, text)
    assert [(problem.code, problem.line) for problem in problems] == [
        ("REWARD_LOCAL_IMPORT", line) for line in (1, 2, 3, 4)
    ]
    assert "helper.py beside it" in problems[2].message
