"""run asks nobody, so it runs nothing unless the caller opts out, and never where a terminal is demanded."""

import os

import pytest

import loopai_trainer
from loopai_trainer.errors import ApprovalError
from loopai_trainer.operations import run as module
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.run import run


@pytest.fixture
def started(monkeypatch):
    """How run_prepared was called; nothing starts."""
    calls = []

    def stand_in(config_path, sha256, environ, **told):
        calls.append({"config_path": config_path, "sha256": sha256, **told})
        return Answer("run-prepared", {"run_dir": os.path.dirname(config_path)}, status="completed")

    monkeypatch.setattr(module, "run_prepared", stand_in)
    return calls


def test_refused_without_the_opt_out_before_anything_is_made(place, started):
    with pytest.raises(ApprovalError) as caught:
        run(place.request(), no_approval=False)
    assert caught.value.code == "APPROVAL_MISSING"
    assert "--no-approval" in caught.value.hint
    assert (started, (place.root / "outputs").exists()) == ([], False)


def test_refused_where_a_terminal_is_demanded(place, started):
    with pytest.raises(ApprovalError, match="approval_require"):
        run(place.request(approval_require="terminal"), no_approval=True)
    config = place.root / "config"
    config.mkdir()
    (config / "policy.yaml").write_text("approval_require: terminal\n")
    place.environ["LOOPAI_TRAINER_CONFIG_DIR"] = str(config)
    with pytest.raises(ApprovalError, match=r"policy\.yaml"):
        run(place.request(), no_approval=True)
    (config / "policy.yaml").write_text("approval_require: [\n")
    with pytest.raises(ApprovalError) as caught:
        run(place.request(), no_approval=True)
    assert caught.value.code == "POLICY_INVALID"
    assert (started, (place.root / "outputs").exists()) == ([], False)


def test_what_was_prepared_is_run_as_auto_and_it_is_said(place, started):
    said = []
    answer = run(place.request(), no_approval=True, wait_timeout_s=5.0, talk=said.append)
    assert (answer.command, answer.status) == ("run", "completed")
    (call,) = started
    assert call["config_path"] == str(place.run / "training_config.yaml")
    assert (call["approved_via"], call["wait_timeout_s"]) == ("auto", 5.0)
    assert said[0] == f"nobody approves this: {place.run}/training_config.yaml is run as it was generated"
    assert any(line.startswith("warning: ") for line in said[1:])


def test_the_api_opts_out_by_name_alone(place, started, monkeypatch):
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    settings = dict(place.request().keyword)
    refused = loopai_trainer.run(**settings)["trainer"]
    assert refused["trainer_last_error"]["code"] == "APPROVAL_MISSING"
    assert started == []
    done = loopai_trainer.run(**settings, no_approval=True)["trainer"]
    assert (done["trainer_last_error"], done["trainer_result"]["command"]) == (None, "run")
    assert len(started) == 1


@pytest.mark.parametrize("told", ["no", "false", 1, [False], None])
def test_only_true_opts_out(place, started, told):
    with pytest.raises(ApprovalError) as caught:
        run(place.request(), no_approval=told)
    assert caught.value.code == "APPROVAL_MISSING"
    assert started == []
