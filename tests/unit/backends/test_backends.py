import subprocess
import sys

import pytest

from loopai_trainer import backends
from loopai_trainer.contract import Backend
from loopai_trainer.errors import SettingsError


def test_the_table_gives_a_complete_backend():
    backend = backends.get("llamafactory", "sft")
    assert isinstance(backend, Backend)
    assert (backend.name, backend.package, backend.stages) == ("llamafactory", "llamafactory", ("sft",))
    assert ("llamafactory", "sft") in backends.names()


@pytest.mark.parametrize(
    ("framework", "stage"), [("llamafactory", "grpo"), ("llamafactory", ""), ("llamafactory", "SFT")]
)
def test_a_pair_that_does_not_go_together_is_refused_with_the_right_one(framework, stage):
    with pytest.raises(SettingsError) as caught:
        backends.get(framework, stage)
    assert caught.value.hint == "use --framework llamafactory --stage sft"


def test_an_unknown_framework_is_refused_with_the_known_pairs():
    with pytest.raises(SettingsError) as caught:
        backends.get("axolotl", "sft")
    assert "llamafactory/sft" in caught.value.hint


class Third:
    stages = ("apo", "dev")


class FakeEntryPoint:
    def __init__(self, name):
        self.name = name

    def load(self):
        return Third


@pytest.mark.parametrize("entry_point_name", ["third/apo", "third"])
def test_another_distribution_adds_a_backend_through_an_entry_point(monkeypatch, entry_point_name):
    def entry_points(*, group):
        assert group == backends.ENTRY_POINTS
        return [FakeEntryPoint(entry_point_name)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert backends.get("third", "apo") is Third
    assert ("third", "apo") in backends.names()
    with pytest.raises(SettingsError):
        backends.get("third", "sft")


def test_looking_up_a_bundled_backend_reads_no_entry_points(monkeypatch):
    def refuse(**_):
        raise AssertionError("entry points were read")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    assert backends.get("llamafactory", "sft").name == "llamafactory"


def test_the_worker_path_of_the_backend_loads_no_heavy_module():
    code = (
        "import sys\n"
        "from loopai_trainer import backends\n"
        "b = backends.get('llamafactory', 'sft')\n"
        "b.read_metrics([b'{}']); b.read_log(['x'])\n"
        "from loopai_trainer.backends.llamafactory_sft import launch, schedule\n"
        "print([m for m in ('pyarrow', 'ast', 'platformdirs', 'psutil', 'importlib.metadata', 'socket') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['ast']")  # dataclasses loads inspect, and inspect loads ast
