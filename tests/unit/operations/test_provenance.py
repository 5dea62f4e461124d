import json

import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.errors import InputChanged
from loopai_trainer.operations import provenance
from loopai_trainer.operations.run_prepared import run_prepared
from loopai_trainer.rules import yaml_text

COMMIT, OTHER = "a" * 40, "b" * 40


def make_checkout(folder, commit=COMMIT):
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    (folder / ".git" / "HEAD").write_text(commit + "\n")
    return folder


def editable_environment(tmp_path):
    """LLaMA-Factory run from a checkout."""
    env, checkout = make_environment(tmp_path / "env"), make_checkout(tmp_path / "checkout")
    site = env / "lib/python3.11/site-packages"
    (checkout / "src").mkdir()
    (site / "llamafactory").rename(checkout / "src" / "llamafactory")
    record = site / "llamafactory-0.9.5.dist-info" / "direct_url.json"
    record.write_text(json.dumps({"url": f"file://{checkout}", "dir_info": {"editable": True}}))
    return env, checkout


def test_an_ordinary_install_says_nothing(tmp_path):
    versions = versions_of(make_environment(make_checkout(tmp_path) / "env"))  # an environment inside of a checkout
    assert provenance.entry(versions) == {}
    assert provenance.remarks(versions, "") == []


def test_a_backend_that_is_run_from_a_checkout(tmp_path):
    env, checkout = editable_environment(tmp_path)
    found = provenance.entry(versions_of(env))
    assert found["editable"] == {"llamafactory": str(checkout)}
    assert (found["checkout"]["path"], found["checkout"]["commit"]) == (str(checkout), COMMIT)
    assert provenance.remarks(versions_of(env), str(checkout)) == []


def test_a_checkout_that_is_only_named_is_shown_and_told_of(tmp_path):
    versions, checkout = versions_of(make_environment(tmp_path / "env")), make_checkout(tmp_path / "checkout")
    assert provenance.entry(versions, str(checkout))["checkout"]["commit"] == COMMIT
    (problem,) = provenance.remarks(versions, str(checkout))
    assert (problem.severity, problem.code) == ("warning", "CHECKOUT_NOT_USED")


def test_another_commit_is_a_change(tmp_path):
    checkout = make_checkout(tmp_path / "checkout")
    pinned = {"checkout": {"path": str(checkout), "commit": COMMIT, "dirty": False}}
    assert provenance.changes(pinned) == []
    make_checkout(checkout, OTHER)
    assert provenance.changes(pinned) == [(f"commit of {checkout}", COMMIT, OTHER)]
    (checkout / ".git" / "HEAD").unlink()
    assert provenance.changes(pinned) == [(f"commit of {checkout}", COMMIT, "none")]
    assert provenance.changes({}) == []


def test_the_yaml_holds_the_hosts_variables_and_where_code_comes_from(place):
    place.environ.update(NCCL_DEBUG="INFO", LD_LIBRARY_PATH="/opt/lib", PYTHONPATH="/evil", HF_TOKEN="")
    make_checkout(place.root / "checkout")
    data = place.prepare(llamafactory_dir=str(place.root / "checkout")).data
    block = yaml_text.load(data["config_yaml"], "x.yaml", "config").values["loopai"]
    assert block["launch"]["host_env"] == {"LD_LIBRARY_PATH": "/opt/lib", "NCCL_DEBUG": "INFO"}
    assert block["backend"]["checkout"]["commit"] == COMMIT
    codes = [(warning["code"], warning["field"]) for warning in data["warnings"]]
    assert ("RED_FLAG", "loopai.launch.host_env") in codes
    assert ("CHECKOUT_NOT_USED", None) in codes


def test_another_commit_of_the_checkout_is_refused_at_the_start(place):
    make_checkout(place.root / "checkout")
    data = place.prepare(llamafactory_dir=str(place.root / "checkout")).data
    make_checkout(place.root / "checkout", OTHER)
    with pytest.raises(InputChanged) as error:
        run_prepared(data["config_path"], data["config_sha256"], place.environ)
    assert [problem.code for problem in error.value.problems] == ["ENVIRONMENT_CHANGED"]
    assert COMMIT in error.value.message and OTHER in error.value.message
