"""docs/tutorial.md, typed block by block with real LLaMA-Factory and the tiny model that it makes."""

from pathlib import Path

import pytest
from fakes.tutorial import missing, steps, typed

pytestmark = pytest.mark.real


def test_the_tutorial_with_real_llamafactory(tmp_path, lf_env):
    seen = typed(tmp_path, Path(lf_env))
    for step, text, after in zip(steps(), seen, seen[1:], strict=False):
        assert after.startswith("0\n"), f"{step.commands}{text}"
        assert missing(step.shown, text) == [], text
    assert len(seen) == len(steps()) + 1
