"""docs/tutorial.md, typed block by block with a stand-in for LLaMA-Factory; tests/real does the same with the real one."""

import pytest
from fakes.llamafactory_env import make_environment
from fakes.llamafactory_program import make_startable
from fakes.sft_plans import make_model_folder
from fakes.tutorial import INSTALLS, MAKES_MODEL, missing, steps, typed

pytestmark = pytest.mark.flow


def test_the_tutorial_shows_what_is_seen(tmp_path):
    env_dir = make_startable(make_environment(tmp_path / "env"))
    root = tmp_path / "checkout"
    root.mkdir()
    seen = typed(root, env_dir, model=make_model_folder(tmp_path / "model"))
    assert len(seen) == len(steps()) + 1
    for step, text, after in zip(steps(), seen, seen[1:], strict=False):
        assert after.startswith("0\n"), f"{step.commands}{text}"
        assert missing(step.shown, text) == [], text
    assert [path.name for path in sorted((root / "outputs").iterdir())] == ["second.txt", "tutorial", "tutorial-inputs"]


def test_what_is_replaced_stands_in_the_page():
    text = "".join(step.commands for step in steps())
    for line in (*INSTALLS, MAKES_MODEL):
        assert text.count(f"{line}\n") == 1
    assert text.count("ENV=$(trainer setup llamafactory --json | python3 -c ") == 1


def test_a_line_that_was_not_seen_is_found():
    assert missing(["a ... c", "next"], "x\na b c\nnext\n") == []
    assert missing(["a ... c"], "a b\n") == ["a ... c"]
    assert missing(["second", "first"], "first\nsecond\n") == ["first"]
