"""The CPU smoke plug-in: its files, and the names under which the launch, the draft and verl know it."""

import ast
from pathlib import Path

import pytest
from fakes.verl_runs import verl_plan

from loopai_trainer.backends.verl_grpo import coverage, draft, launch
from loopai_trainer.records import LaunchPaths

FOLDER = Path(launch.__file__).parent / "inside" / "cpu_smoke"


def constants(name):
    """Module-level `NAME = value` of a plug-in file, which cannot be imported without verl."""
    nodes = [node for node in ast.parse((FOLDER / name).read_text()).body if isinstance(node, ast.Assign)]
    return {
        target.id: node.value.value
        for node in nodes
        if isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_the_files_that_are_copied_are_all_of_it():
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(coverage.CPU_SMOKE_FILES)


def test_the_rollout_has_one_name():
    assert constants("loopai_cpu_platform.py")["ROLLOUT"] == draft.CPU_ROLLOUT
    text = (FOLDER / "loopai_cpu_platform.py").read_text()
    assert '"loopai_cpu_rollout.Adapter"' in text and "loopai_cpu_rollout.Replica" in text


def test_the_launch_loads_what_is_copied():
    paths = LaunchPaths(*["/r"] * 6, inputs="/r/inputs")
    env = launch.environment(verl_plan({"trainer": {"device": "cpu", "n_gpus_per_node": 1}}), paths, {})
    assert env["VERL_USE_EXTERNAL_MODULES"] + ".py" in coverage.CPU_SMOKE_FILES
    assert env["PYTHONPATH"] == "/r/inputs"


@pytest.mark.parametrize("name", coverage.CPU_SMOKE_FILES)
def test_nothing_of_ours_is_needed_in_verls_environment(name):
    tree = ast.parse((FOLDER / name).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not [module for module in imported if module.startswith("loopai_trainer")]
