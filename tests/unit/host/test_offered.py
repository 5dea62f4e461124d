import importlib.metadata

import pytest

from loopai_trainer.errors import ConfigError
from loopai_trainer.host import offered

POINTS = [
    importlib.metadata.EntryPoint("polite", "fakes.tokenizer_files:polite", offered.REWARDS),
    importlib.metadata.EntryPoint("brief", "no_such_package.rewards:brief", offered.REWARDS),
    importlib.metadata.EntryPoint("whole", "json", offered.REWARDS),
]


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: POINTS if group == offered.REWARDS else [])


def test_what_is_offered_is_found_by_its_name():
    assert offered.names(offered.REWARDS) == ["brief", "polite", "whole"]
    assert offered.find(offered.REWARDS, "polite").value.endswith(":polite")
    assert offered.find(offered.REWARDS, "rude") is None
    assert offered.names("loopai_trainer.backends") == []


def test_its_file_is_found_without_running_it():
    path, name = offered.source_of(POINTS[0])
    assert path.endswith("fakes/tokenizer_files.py") and name == "polite"


@pytest.mark.parametrize("point", POINTS[1:], ids=lambda point: point.name)
def test_what_is_no_name_in_a_file_is_refused(point):
    with pytest.raises(ConfigError, match="no name in a Python file"):
        offered.source_of(point)
