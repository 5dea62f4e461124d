"""The rehearsal of rewards and prompts with the real verl, and the table of presets that docs/rewards.md prints."""

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from fakes import verl_inside, verl_rehearsals
from fakes.verl_rehearsals import rows, write_rows

from loopai_trainer.backends.verl_grpo import rehearsal
from loopai_trainer.errors import ConfigError
from loopai_trainer.host import asking
from loopai_trainer.records import Rehearsal, Versions
from loopai_trainer.rules.reward_presets import ANSWER, PRESETS, ROUTES, SCORERS

pytestmark = pytest.mark.real

CASES = Path(__file__).parents[1] / "cases" / "grpo"
PAGE = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text()
VERSIONS = Versions("verl", "0.9.1", "3.11", "", {}, "")


class Rehearsals:
    """Rehearses plans in the real environment."""

    def __init__(self, root: Path, verl_env: str) -> None:
        self.root = root
        self.python = f"{verl_env}/bin/python"
        self.hidden = ""
        """A module that cannot be imported, as if its package were not installed."""

    def data(self, train, validation=None) -> dict[str, Path]:
        return {
            "train": write_rows(self.root / "train.parquet", train),
            "validation": write_rows(self.root / "validation.parquet", validation or rows()[:2]),
        }

    def __call__(self, files: dict[str, Path], settings=None, **more) -> Rehearsal:
        plan, paths = verl_rehearsals.make_plan(
            self.root / "run", **files, settings=settings or {}, python=self.python, **more
        )
        question = rehearsal.rehearse(plan, VERSIONS, paths)
        if self.hidden:
            command = question.command
            hiding = f"import sys, runpy; sys.modules[{self.hidden!r}] = None; runpy.run_path({command.argv[-1]!r}, run_name='__main__')"
            argv = (*command.argv[:-1], "-c", hiding)
            question = dataclasses.replace(question, command=dataclasses.replace(command, argv=argv))
        return rehearsal.rehearsed(plan, asking.ask(question))

    def custom(self, source: str, name: str = "", files: dict[str, Path] | None = None, **more) -> Rehearsal:
        file = self.root / "custom.py"
        file.write_text(source)
        named = {"verl_reward_function_path": f"{file}:{name}" if name else str(file)}
        return self(files or self.data(rows()), {**named, **more.pop("settings", {})}, **more)


@pytest.fixture
def rehearse(tmp_path, verl_env) -> Rehearsals:
    return Rehearsals(tmp_path, verl_env)


def case(name: str) -> dict[str, Path]:
    return {"train": CASES / name / "train.parquet", "validation": CASES / name / "val.parquet"}


def codes(found: Rehearsal) -> list[tuple[str, str, str]]:
    return [(problem.severity, problem.code, problem.where) for problem in found.problems]


def test_a_good_plan_has_no_problem_and_says_what_was_tried(rehearse):
    mixed = rows() + rows(("42", "43"), "aime24") + rows(("\\frac{1}{2}", "x^2"), "HuggingFaceH4/MATH-500")
    found = rehearse(rehearse.data(mixed))
    assert found.problems == ()
    assert found.summary["scores_seen"] == "right 1; wrong -1 to 0; empty -1 to 0; marker-free -1 to 0; very long 1"
    assert found.summary["reward_tried"] == "10 train rows, 2 validation rows"
    assert "longest" in found.summary["train_prompts"]


def test_case_grpo_02a(rehearse):
    found = rehearse(case("GRPO-02A"))
    assert codes(found) == [("error", "REWARD_USELESS", "train")]
    (problem,) = found.problems
    assert problem.row == 0
    assert problem.path == str(CASES / "GRPO-02A" / "train.parquet")
    assert "right reply '#### 72' scores 0, a wrong one 0" in problem.message
    assert "type int" in problem.message
    assert problem.hint == "store reward_model.ground_truth as text"


def test_case_grpo_05b(rehearse):
    found = rehearse(case("GRPO-05B"), {"verl_reward_function_path": str(CASES / "GRPO-05B" / "reward.py")})
    assert codes(found) == [
        ("error", "REWARD_TYPE", "train"),
        ("error", "REWARD_NOT_FINITE", "train"),
        ("error", "REWARD_KEYS", "train"),
    ]
    for problem, said in zip(found.problems, ("a tuple", "nan", "acc (number), bonus (number)"), strict=True):
        assert said in problem.message
        assert problem.row == 0
        assert "reply" in problem.message


def test_ground_truths_that_gsm8k_can_never_match(rehearse):
    files = rehearse.data(rows(("7", "1,234", "７２", "−5")), rows((["7"], ["8"])))
    found = rehearse(files, {"verl_reward_preset": "gsm8k_exact"})
    assert {(code, where) for _, code, where in codes(found)} == {
        ("REWARD_USELESS", "train"), ("REWARD_USELESS", "validation"),
    }  # fmt: skip
    said = " ".join(problem.message for problem in found.problems)
    assert all(cause in said for cause in ("comma between digits", "not 0 to 9", "Unicode minus", "a list"))


def test_verls_validation_missing_packages_and_long_prompts(rehearse):
    files = rehearse.data(rows(content="x" * 200), rows(("1", "2")))
    more = {"actor_rollout_ref.rollout.name": "vllm", "data.train_batch_size": 1, "data.filter_overlong_prompts": True}
    found = rehearse(files, more=more)
    problems = {problem.code: problem for problem in found.problems}
    assert problems.keys() == {"PACKAGE_MISSING", "VERL_REFUSES", "PROMPTS_DROPPED", "ROWS_TOO_FEW"}
    assert problems["PACKAGE_MISSING"].hint.endswith("pip install vllm")
    assert "train_batch_size" in problems["VERL_REFUSES"].message
    assert "0 of 6 rows are left" in problems["ROWS_TOO_FEW"].message


def test_a_reward_that_kills_the_rehearsal_is_named(rehearse):
    source = "import os\n\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    os.kill(os.getppid(), 9)\n"
    with pytest.raises(ConfigError, match="killed by SIGKILL while the reward function compute_score of /") as refused:
        rehearse.custom(source)
    assert refused.value.code == "REWARD_KILLS"


def test_an_async_custom_function_gets_its_keyword_arguments(rehearse):
    source = """
import asyncio

async def judge(data_source, solution_str, ground_truth, extra_info=None, weight=0.0, deep=None):
    await asyncio.sleep(0)
    hit = float(f"<answer>{ground_truth}</answer>" in solution_str)
    return {"score": hit * weight, "acc": hit, "note": deep["word"]}
"""
    kwargs = {"verl_reward_kwargs": '{"weight": 3.0, "deep": {"word": "x"}}'}
    found = rehearse.custom(source, "judge", settings=kwargs)
    assert found.problems == ()
    assert found.summary["scores_seen"] == "right 3; wrong 0; empty 0; marker-free 0; very long 3"


def test_keys_of_the_other_line_are_read_by_nobody(rehearse):
    found = rehearse(rehearse.data(rows()), family="0.8")
    assert codes(found) == [("error", "REWARD_LOAD", "train")]
    assert "does not read the key" in found.problems[0].message


TABLE = """
import json, sys
sys.path.insert(0, {inside!r})
import loopai_reward
from verl.utils import reward_score

LONG = "and so on " * 100_000
asked = json.load(sys.stdin)
answers = {{}}
for preset, (source, right, wrong, truth) in asked["presets"].items():
    number = int(truth) if truth.isdigit() else 42
    long = LONG[: 1_000_000 - len(right) - 1] + chr(10) + right
    replies = {{"right": (right, truth), "wrong": (wrong, truth), "empty": ("", truth), "None": (None, truth),
               "bare": (truth, truth), "integer": (right, number), "million": (long, truth)}}
    for name, (reply, given) in replies.items():
        try:
            scored = loopai_reward.compute_score(source, reply, given, preset=preset)
            answers[preset + "/" + name] = scored["score"] if isinstance(scored, dict) else scored
            if isinstance(scored, dict):
                answers[preset + "/keys"] = sorted(scored)
        except Exception as error:
            answers[preset + "/" + name] = type(error).__name__

# Which scorer does the installed router take? Each is replaced by one that says its name.
import importlib
for name in set(asked["routes"].values()):
    module = importlib.import_module("verl.utils.reward_score." + name)
    module.compute_score = lambda *a, name=name, **k: {{"score": name}}
answers["routes"] = {{source: reward_score.default_compute_score(source, "", "")["score"] for source in asked["routes"]}}
for source in asked["unknown"]:
    try:
        reward_score.default_compute_score(source, "", "")
    except NotImplementedError:
        answers.setdefault("unknown", []).append(source)
json.dump(answers, open(asked["out"], "w"))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory, verl_env):
    """What the real scorers answer through our router, asked once."""
    presets = {}
    for name, preset in PRESETS.items():
        form = SCORERS[preset.scorer or "gsm8k"].forms[0]
        truth, other = ("42", "43")
        presets[name] = ["openai/gsm8k", form.replace(ANSWER, truth), form.replace(ANSWER, other), truth]
    out = tmp_path_factory.mktemp("table") / "answers.json"
    routes = {**ROUTES, "aime24": "math_dapo", "aime": "math_dapo"}
    unknown = ["gsm8k", "DAPO", "Openai/gsm8k", "geometry3k", " aime", ""]
    asked = {"presets": presets, "routes": routes, "unknown": unknown, "out": str(out)}
    subprocess.run(
        [f"{verl_env}/bin/python", "-I", "-c", TABLE.format(inside=str(verl_inside.FOLDER))],
        input=json.dumps(asked), text=True, capture_output=True, check=True, cwd=out.parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(out.parent)},
    )  # fmt: skip
    return {**json.loads(out.read_text()), "expected routes": routes, "expected unknown": unknown}


def written() -> dict[str, str]:
    """preset/reply -> cell of the table in docs/rewards.md."""
    section = PAGE.partition("## How they score")[2]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    names = lines[0][1:]
    return {
        f"{line[0].split('`')[1]}/{name}": cell
        for line in lines[1:]
        if "`" in line[0]
        for name, cell in zip(names, line[1:], strict=True)
    }


@pytest.mark.parametrize("cell", sorted(written()))
def test_the_table_of_the_page_is_what_verl_does(answers, cell):
    found = answers[cell]
    if cell.startswith("geometry/") and found == "ModuleNotFoundError":
        return  # without mathruler: told by name, see below
    assert written()[cell] == (found if isinstance(found, str) else f"{found:g}")


def test_geometry_without_mathruler_is_told_by_name(rehearse):
    rehearse.hidden = "mathruler"
    found = rehearse(rehearse.data(rows()), {"verl_reward_preset": "geometry"})
    assert codes(found) == [("error", "PACKAGE_MISSING", "train")]
    assert found.problems[0].hint.endswith("pip install mathruler")


def test_dicts_have_the_keys_of_the_table(answers):
    assert answers["auto/keys"] == ["acc", "score"]
    assert answers["math_dapo/keys"] == ["acc", "pred", "score"]
    assert {key for key in answers if key.endswith("/keys")} == {"auto/keys", "math_dapo/keys"}


def test_the_routes_are_those_of_the_installed_verl(answers):
    assert answers["routes"] == answers["expected routes"]
    assert answers["unknown"] == answers["expected unknown"]
