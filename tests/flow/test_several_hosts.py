"""Several hosts without a cluster, played by calls on this one: rank 0 owns the run, further ranks take part."""

import os
import signal
from pathlib import Path

import pytest
from fakes.runs import answer, wait_for

from loopai_trainer.host import processes

pytestmark = pytest.mark.flow

LAUNCH = {"executor": "local", "devices": "", "nodes": 2, "nproc_per_node": 1, "env": {}, "pass_env": []}


@pytest.fixture
def pair(prepare, tmp_path):
    """A run for two hosts whose trainings wait at their ends for the file to go."""
    hold = tmp_path / "hold"
    hold.touch()

    def make(**options):
        return prepare(loopai={"launch": LAUNCH}, hold_file=str(hold), **options), hold

    return make


def rank(run, number, *words):
    return run.call("run-prepared", run.run.config, "--sha256", run.sha256, "--node-rank", number, "--json", *words)


def test_rank_0_owns_the_run_and_rank_1_ends_with_it(pair):
    run, hold = pair()
    second = rank(run, "1")
    first = rank(run, "0")
    log = Path(f"{run.run.node_log_stem}1.log")
    wait_for(lambda: log.exists() and "steps 3" in log.read_text())
    assert log.stat().st_mode & 0o777 == 0o600
    hold.unlink()
    for caller in (first, second):
        code, document = answer(caller)
        assert (code, document["status"]) == (0, "completed"), document
    assert run.starts == 2  # one a host


def test_a_cancelled_run_ends_the_other_ranks(pair):
    run, _ = pair(helper_s=300.0)
    first, second = rank(run, "0"), rank(run, "1")
    wait_for(lambda: run.starts == 2)
    wait_for(lambda: run.state().get("current_step") == 3)
    assert answer(run.call("cancel", run.run.path, "--json"))[0] == 0
    assert answer(first)[0] == 13
    assert answer(second)[0] == 13


def test_a_killed_rank_leaves_nothing_on_its_host(pair):
    run, hold = pair()
    first, second = rank(run, "0"), rank(run, "1")
    wait_for(lambda: run.starts == 2 and "training" in run.state())
    pids = [int(one) for one in Path(run.run.checkpoints, "starts.txt").read_text().split()]
    own = [one for one in pids if one != run.state()["training"]["pid"]]
    assert len(own) == 1
    second.kill()
    second.communicate()
    wait_for(lambda: processes.identify(own[0]) is None)
    hold.unlink()
    assert answer(first)[0] == 0


def test_ctrl_c_ends_this_hosts_share(pair):
    run, hold = pair()
    first, second = rank(run, "0"), rank(run, "1")
    wait_for(lambda: run.starts == 2)
    second.send_signal(signal.SIGINT)
    code, document = answer(second)
    assert code == 130
    assert "this host's ranks" in document["error"]["detail"]  # not that the run goes on
    hold.unlink()
    assert answer(first)[0] == 0


@pytest.mark.parametrize(("words", "code"), [((), "NODE_RANK"), (("--node-rank", "2"), "NODE_RANK")])
def test_a_plan_for_several_hosts_needs_a_rank_of_its_own(pair, words, code):
    run, _ = pair()
    exit_code, document = answer(run.call("run-prepared", run.run.config, "--sha256", run.sha256, "--json", *words))
    assert (exit_code, document["error"]["code"]) == (2, code)
    assert not os.path.exists(run.run.approval)


def test_a_rank_that_is_taken_is_refused(pair):
    run, hold = pair()
    first, second = rank(run, "0"), rank(run, "1")
    wait_for(lambda: run.starts == 2)
    code, document = answer(rank(run, "1"))
    assert (code, document["error"]["code"]) == (7, "LOCKED")
    hold.unlink()
    assert [answer(one)[0] for one in (first, second)] == [0, 0]
    assert run.starts == 2


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_plan_for_one_host_has_no_ranks(prepare, number):
    run = prepare()
    assert answer(rank(run, number))[1]["error"]["code"] == "NODE_RANK"
    assert run.starts == 0


def test_another_hash_is_refused_on_every_host(pair):
    run, _ = pair()
    caller = run.call("run-prepared", run.run.config, "--sha256", "0" * 64, "--node-rank", "1", "--json")
    assert answer(caller)[0] == 5


def test_rank_1_waits_for_the_owner_no_longer_than_it_is_told(pair):
    run, _ = pair()
    assert answer(rank(run, "1", "--wait-timeout", "0.2"))[0] == 75
    assert run.starts == 0


def test_there_is_no_taking_part_in_a_run_that_has_ended(pair):
    run, hold = pair()
    hold.unlink()
    assert answer(rank(run, "0"))[0] == 0
    code, document = answer(rank(run, "1"))
    assert (code, document["error"]["code"]) == (11, "RUN_ENDED")
