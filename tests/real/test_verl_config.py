"""The installed verl composes what this project writes, finds what its own checks find, and misses what ours do not."""

import json
import os
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from fakes.grpo_plans import HOST, REMOVED, make_data, make_paths, make_plan, make_settings

from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo import compose, coverage
from loopai_trainer.backends.verl_grpo.check import check
from loopai_trainer.backends.verl_grpo.effective import SEEN_DEFAULTS, Effective
from loopai_trainer.backends.verl_grpo.template import template_problems
from loopai_trainer.backends.verl_grpo.tree import MISSING, read_tree
from loopai_trainer.files import templates
from loopai_trainer.host import asking, environments
from loopai_trainer.rules import dotted

pytestmark = pytest.mark.real

ACTOR, MODEL, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.model", "actor_rollout_ref.rollout"
NAMES = [template.name for template in templates.list_templates("grpo") if template.name.startswith("verl_")]


@pytest.fixture(scope="module")
def environment(verl_env):
    return environments.resolve(verl_env, "verl", dict(os.environ))


@pytest.fixture(scope="module")
def versions(environment):
    return backends.get("verl", "grpo").probe(environment)


def composed(native, environment, run):
    return compose.resolved(asking.ask(compose.resolve(native, environment, make_paths(run))))


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_template_composes_without_problems(name, environment, versions, tmp_path):
    plan = make_plan(tmp_path / "run", name, data=make_data(tmp_path / "run", 512))
    assert template_problems(plan.native, {}, versions) == []
    found = composed(plan.native, environment, tmp_path / "run")
    assert found.problems == ()
    values = yaml.safe_load(found.text)
    for key, value in dotted.leaves(plan.native):
        assert dotted.get(values, key) == value, key
    assert "${" not in found.text
    # What fails here is missing software alone: neither vLLM, SGLang nor flash-attn is in this environment.
    missing = {"ROLLOUT_ENGINE_MISSING", "FLASH_ATTN_MISSING"}
    assert {p.code for p in check(plan, versions, HOST) if p.severity == "error"} <= missing


def test_the_text_is_the_same_every_time_and_follows_the_keys(environment, tmp_path):
    plan = make_plan(tmp_path / "run")
    first = composed(plan.native, environment, tmp_path / "run")
    assert composed(plan.native, environment, tmp_path / "run") == first
    other = make_plan(tmp_path / "run", changes={f"{ACTOR}.optim.lr": 2.0e-6})
    assert composed(other.native, environment, tmp_path / "run").text != first.text


def test_the_generated_file_is_the_tree_that_hydra_composes(environment, versions, tmp_path):
    """Keys, defaults and interpolations, as rules see them: the rules compute with what verl computes with."""
    found = yaml.safe_load(composed({}, environment, tmp_path).text)
    tree = read_tree(versions.package_dir)
    # Two mappings of the rollout are another place's, by an interpolation; a plan sets that other place.
    aliases = (f"{ROLLOUT}.mtp.", f"{ROLLOUT}.qat.")
    leaves = [(key, value) for key, value in dotted.leaves(found) if not key.startswith(aliases)]
    assert [key for key, _ in leaves if key not in tree.kinds] == []
    values = Effective({}, tree.values)
    differing = [key for key, value in leaves if values.get(key) != value and value != MISSING]
    # A text with an interpolation inside it is followed by Hydra alone; a draft sets the only one that there is.
    assert [key for key in differing if dotted.get(found, key) != {}] == ["trainer.default_local_dir"]


def test_the_defaults_that_a_view_shows_are_verl_s(versions):
    tree = read_tree(versions.package_dir)
    values = Effective({}, tree.values)
    assert [key for key, value in dotted.leaves(SEEN_DEFAULTS) if values.get(key) != value] == []


def test_every_text_key_of_the_tree_is_classified(versions):
    tree = read_tree(versions.package_dir)
    unclassified = [
        key
        for key, kind in tree.kinds.items()
        if (not kind.names or "str" in kind.names)
        and not key.endswith("_target_")
        and not coverage.is_classified(key)
        and not key.startswith(("reward_model.", "sandbox_fusion."))  # of the 0.8 line: refused by name
    ]
    # Numbers and lists of numbers without an annotation; a text there is refused.
    assert sorted(unclassified) == [
        f"{ROLLOUT}.disaggregation.bootstrap_port",
        f"{ROLLOUT}.disaggregation.decode_tensor_model_parallel_size",
        "global_profiler.steps",
    ]


def test_every_key_of_the_tree_that_names_a_file_is_pinned_or_refused(versions):
    """By its name, whatever the tables call it: a path outside of the run is let through under none of them."""
    named = re.compile(r"path|file|_dir$|_lib$|url|checkpoint$", re.IGNORECASE)
    tree = read_tree(versions.package_dir)
    texts = [key for key, kind in tree.kinds.items() if not kind.names or "str" in kind.names]
    keys = [key for key in texts if named.search(key.rpartition(".")[2])]
    assert len(keys) > 40
    let_through = []
    for key in keys:
        native: dict[str, object] = {}
        dotted.put(native, key, "/elsewhere/some.file")
        if not list(coverage.coverage_problems(native, "/run")):
            let_through.append(key)
    pinned = {*coverage.FILE_KEYS, *(key for key in keys if any(fnmatchcase(key, one) for one in coverage.COVERED))}
    assert set(let_through) <= pinned, sorted(set(let_through) - pinned)


def test_what_hydra_cannot_take_comes_back_as_problems(environment, tmp_path):
    native = {"data": {"train_batch_size": 4, "max_prompt_lenght": 3}, "trainer": 3, "zzz": {"a": 1}}
    found = composed(native, environment, tmp_path)
    assert {(p.code, p.field) for p in found.problems} >= {
        ("UNKNOWN_KEY", "data.max_prompt_lenght"),
        ("UNKNOWN_KEY", "zzz"),
    }
    hints = {p.field: p.hint for p in found.problems}
    assert hints["data.max_prompt_lenght"] == "did you mean data.max_prompt_length?"


VALIDATE = """\
import importlib.util, json, sys, warnings
warnings.simplefilter("ignore")
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
spec = importlib.util.spec_from_file_location("compose", sys.argv[1])
compose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compose)
said = {}
for name, native in json.load(sys.stdin).items():
    config, _ = compose.compose(native)
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
        said[name] = None
    except BaseException as error:
        said[name] = repr(error)[:300]
print("ANSWER" + json.dumps(said))
"""

MISSED = {
    "rollout missing": ({f"{ROLLOUT}.name": REMOVED}, "ROLLOUT_MISSING"),
    "rollout hf": ({f"{ROLLOUT}.name": "hf"}, "ROLLOUT_UNKNOWN"),
    "rollout nonsense": ({f"{ROLLOUT}.name": "nonsense"}, "ROLLOUT_UNKNOWN"),
    "mode sync": ({f"{ROLLOUT}.mode": "sync"}, "VALUE_OUT_OF_RANGE"),
    "batch no multiple of mini": ({"data.train_batch_size": 10}, "MINI_BATCH_NOT_DIVISIBLE"),
    "mini over the gpus": (
        {"data.train_batch_size": 10, f"{ACTOR}.ppo_mini_batch_size": 5, f"{ROLLOUT}.n": 3},
        "MINI_BATCH_NOT_DIVISIBLE",
    ),
    "micro": ({f"{ACTOR}.ppo_micro_batch_size_per_gpu": 3}, "MICRO_BATCH_NOT_DIVISIBLE"),
    "tensor parallel above the gpus": ({f"{ROLLOUT}.tensor_model_parallel_size": 4}, "TENSOR_PARALLEL_DEVICES"),
    "tensor parallel 3": ({f"{ROLLOUT}.tensor_model_parallel_size": 3}, "TENSOR_PARALLEL_DEVICES"),
    "n 0": ({f"{ROLLOUT}.n": 0}, "VALUE_OUT_OF_RANGE"),
    "n 1": ({f"{ROLLOUT}.n": 1}, "GROUP_OF_ONE"),
    "temperature 0": ({f"{ROLLOUT}.temperature": 0}, "VALUE_OUT_OF_RANGE"),
    "estimator foo": ({"algorithm.adv_estimator": "foo"}, "VALUE_OUT_OF_RANGE"),
    "sequence parallel 3": ({f"{ACTOR}.ulysses_sequence_parallel_size": 3}, "SEQUENCE_PARALLEL"),
    "strategy foo": ({f"{ACTOR}.strategy": "foo"}, "VALUE_OUT_OF_RANGE"),
    "resume mode foo": ({"trainer.resume_mode": "foo"}, "VALUE_OUT_OF_RANGE"),
    "logger foo": ({"trainer.logger": ["foo"]}, "LOGGER"),
    "save contents foo": ({f"{ACTOR}.checkpoint.save_contents": ["foo"]}, "VALUE_OUT_OF_RANGE"),
    "missing parquet": ({"data.train_files": "/nowhere.parquet"}, "INPUT_MISMATCH"),
    "missing model": ({f"{MODEL}.path": "/nowhere"}, "INPUT_MISMATCH"),
    "lr text": ({f"{ACTOR}.optim.lr": "abc"}, "WRONG_TYPE"),
    "entropy text": ({f"{ACTOR}.entropy_coeff": "foo"}, "WRONG_TYPE"),
    "memory 1.5": ({f"{ROLLOUT}.gpu_memory_utilization": 1.5}, "VALUE_OUT_OF_RANGE"),
    "few batched tokens": ({f"{ROLLOUT}.max_num_batched_tokens": 16}, "BATCHED_TOKENS"),
    "legacy reward": ({"custom_reward_function": {"path": "/r.py", "name": "f"}}, "OTHER_VERSION_KEY"),
    "legacy manager": ({"reward_model": {"reward_manager": "dapo"}}, "OTHER_VERSION_KEY"),
    "manager prime": ({"reward.reward_manager.name": "prime"}, "REWARD_MANAGER_UNKNOWN"),
    "too few rows": ({"data.train_batch_size": 128}, "TOO_FEW_ROWS"),
}
"""Name -> (an edit of a sound plan, what we say of it)."""


def test_what_verl_s_own_validation_misses_is_found_here(environment, versions, tmp_path):
    """Source: facts on verl, section 1.4: the same list, run against the installed version."""
    run = tmp_path / "run"
    natives = {}
    for name, (edit, code) in MISSED.items():
        plan = make_plan(run, native=edit, settings=make_settings())
        found = [p.code for p in (*check(plan, versions, HOST), *template_problems(plan.native, {}, versions))]
        assert code in found, (name, found)
        natives[name] = plan.native
    said = ask_verl(environment, natives)
    missed = {name for name, error in said.items() if error is None}
    assert missed == set(MISSED), {name: said[name] for name in set(MISSED) - missed}


def ask_verl(environment, natives):
    """Name -> what verl's own validate_config says of the composed keys; None where it finds nothing."""
    script = os.path.join(os.path.dirname(compose.__file__), "inside", "compose.py")
    answer = subprocess.run(
        [environment.python, "-c", VALIDATE, script],
        input=json.dumps(natives),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    line = next(line for line in answer.stdout.splitlines() if line.startswith("ANSWER"))
    return json.loads(line.removeprefix("ANSWER"))


def test_the_smoke_of_the_pinned_environment_runs(environment):
    spec = backends.get("verl", "grpo").environment_spec()
    answer = subprocess.run(
        [environment.python, "-c", spec.smoke], capture_output=True, text=True, timeout=600, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]


def test_the_installed_versions_are_the_pinned_ones(versions):
    spec = backends.get("verl", "grpo").environment_spec()
    pins = dict(line.split("==") for line in spec.constraints.splitlines() if not line.startswith("#"))
    assert versions.version == pins["verl"]
    for name in ("ray", "transformers", "omegaconf"):
        assert versions.distributions[name] == pins[name]
    assert Path(versions.package_dir).is_dir()
