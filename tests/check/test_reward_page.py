"""docs/rewards.md and the table of presets say the same."""

import re
from pathlib import Path

from loopai_trainer.backends.verl_grpo import rehearsal
from loopai_trainer.backends.verl_grpo.keys import MANAGERS
from loopai_trainer.rules.reward_presets import PRESETS, ROUTES, SCORERS

PAGE = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text()


def test_what_each_preset_calls():
    written = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert written == [(name, preset.calls, preset.returns) for name, preset in PRESETS.items()]


def test_every_preset_has_its_scores():
    section = PAGE.partition("## How they score")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(PRESETS)


def test_sources_that_run_code_are_all_named():
    sources = [source for source, scorer in ROUTES.items() if SCORERS[scorer].runs_code]
    assert all(f"`{source}`" in PAGE for source in sources)


def test_the_limits_and_managers_are_those_of_the_program():
    assert "A call has a minute, the reward five" in PAGE
    assert rehearsal.LIMIT_S > 60 + 180 + 300
    for names in MANAGERS.values():
        assert ", ".join(names) in PAGE


def test_every_finding_stands_in_the_page():
    inside = Path(rehearsal.__file__).parent / "inside"
    told = set()
    for name in ("reward_probe.py", "prompt_lengths.py", "rehearse.py"):
        told |= set(re.findall(r'"((?:REWARD|PROMPTS?|ROWS|VERL|PACKAGE)_[A-Z_]+)"', (inside / name).read_text()))
    assert len(told) > 15
    assert {code for code in told if code not in PAGE} == set()
