"""A worker that was submitted elsewhere: lock and bytes taken there, told apart from dead ones by the job server."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, answer, kill, wait_for

from loopai_trainer import executors
from loopai_trainer.host import locks
from loopai_trainer.worker.observe import observe, read_exit

pytestmark = pytest.mark.flow


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """To this process too, which looks at runs."""
    monkeypatch.setitem(executors._TABLE, "pretend_cluster", "fakes.pretend_cluster")


@pytest.fixture
def cluster(tmp_path):
    """The folder that is the cluster."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    return folder


@pytest.fixture
def submitted(prepare, cluster):
    """Prepared runs whose plan names that cluster."""

    def make(version_id="v1", **options):
        launch = {"executor": "pretend_cluster", "address": str(cluster), "interpreter": sys.executable}
        launch |= {"devices": "", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
        return prepare(version_id, loopai={"launch": launch}, **options)

    return make


@pytest.fixture
def held(submitted, tmp_path):
    """A run whose training waits at its end for the file to go."""
    hold = tmp_path / "hold"
    hold.touch()
    run = submitted(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    return run, caller, hold


def test_a_run_from_submission_to_its_result(submitted, cluster):
    run = submitted()
    code, document = answer(run.start())
    assert (code, document["status"]) == (0, "completed"), document
    state = run.state()
    assert state["executor"]["name"] == "pretend_cluster"
    assert state["executor"]["handle"] == f"{cluster} v1"
    assert state["executor"]["locks_reach"] is True
    assert state["executor"]["host"] == os.uname().nodename
    placed = json.loads(json.loads(Path(run.run.launch_request).read_text())["env"]["PLACED"])
    assert placed["joins"] == ""
    assert placed["logs"].endswith("/v1/train-node-")
    assert run.starts == 1


def test_a_changed_input_is_refused_before_the_approval_is_used(submitted):
    run = submitted()
    Path(run.run.path, "train.jsonl").write_text("{}\n")
    assert answer(run.start())[0] == 6
    assert not os.path.exists(run.run.approval)


def test_an_unreachable_cluster_starts_nothing(submitted, cluster):
    run = submitted()
    (cluster / "unreachable").touch()
    code, document = answer(run.start())
    assert (code, document["error"]["code"]) == (9, "CLUSTER_UNREACHABLE")
    assert not os.path.exists(run.run.approval)
    (cluster / "unreachable").unlink()
    assert run.run_to_end()[0] == 0


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_plan_for_a_cluster_has_no_ranks_by_hand(submitted, number):
    run = submitted()
    words = ("run-prepared", run.run.config, "--sha256", run.sha256, "--node-rank", number, "--json")
    code, document = answer(run.call(*words))
    assert (code, document["error"]["code"]) == (2, "NODE_RANK")
    assert not os.path.exists(run.run.approval)


def test_a_second_call_attaches_and_a_killed_caller_changes_nothing(held):
    run, caller, hold = held
    again = run.start()
    caller.kill()
    caller.communicate()
    hold.unlink()
    assert answer(again)[0] == 0
    assert run.starts == 1


def test_cancel(held):
    run, caller, _ = held
    code, document = answer(run.call("cancel", run.run.path, "--json"))
    assert (code, document["status"]) == (0, "cancelled")
    assert answer(caller)[0] == 13
    assert run.living() == []


def test_a_killed_worker_leaves_an_orphan_that_is_adopted_here(held):
    run, caller, hold = held
    first = run.state()["worker"]
    kill(first)
    code, document = answer(caller)
    assert (code, document["error"]["code"]) == (8, "ORPHANED_TRAINING")
    adopting = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: run.state()["worker"] != first)
    hold.unlink()
    assert answer(adopting)[1]["status"] == "completed"
    assert run.starts == 1


def test_a_head_that_is_gone_is_unknown_until_the_run_directory_says_more(held, cluster):
    run, caller, hold = held
    worker = run.state()["worker"]
    (cluster / "unreachable").touch()
    assert run.status == "running"  # its lock is seen
    kill(worker)
    wait_for(lambda: run.status == "unknown")
    code, document = answer(run.call("status", run.run.path, "--json"))
    assert (document["status"], document["data"]["error"]["code"]) == ("unknown", "CLUSTER_UNREACHABLE")
    assert observe(run.run).verdict.goes_on
    code, document = answer(run.call("wait", run.run.path, "--timeout", "0.3", "--json"))
    assert code == 75
    hold.unlink()
    wait_for(lambda: read_exit(run.run))
    # Training ended well, so the call that finishes it finds a completed run.
    assert answer(caller)[1]["status"] == "completed"


def test_a_job_that_ends_before_training_is_told_and_may_be_tried_again(submitted, cluster):
    run = submitted()
    (cluster / "refuses").touch()
    code, document = answer(run.start())
    assert (code, document["error"]["code"]) == (11, "JOB_FAILED"), document
    assert "says nothing" in document["error"]["detail"]
    assert run.status == "failed"
    (cluster / "refuses").unlink()
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed"), document
    assert run.state()["executor"]["handle"].endswith(" v1.2")
    assert sorted(one.name for one in cluster.glob("v1*.json")) == ["v1.2.json", "v1.json"]


def test_a_job_of_another_attempt_starts_nothing(submitted, cluster):
    """One that was held up while another one was submitted in its place."""
    run = submitted()
    assert run.run_to_end()[0] == 0
    from fakes.pretend_cluster import EXECUTOR

    code = "import sys; from loopai_trainer.worker.submitted import main; sys.exit(main(sys.argv[1:]))"
    words = (run.run.path, "v1", run.run.task.path, run.sha256, "pretend_cluster", f"{cluster} v1.7")
    said = EXECUTOR.ask([sys.executable, "-P", "-c", code, *words], str(cluster), "", run.env, LIMIT_S)
    assert "v1.7" in said and "names" in said
    assert run.starts == 1


@pytest.fixture
def waiting(submitted, cluster):
    """A run whose job waits on a full cluster, and its caller."""

    def make(*marks):
        for mark in ("full", *marks):
            (cluster / mark).touch()
        run = submitted()
        caller = run.start()
        wait_for(lambda: (cluster / "v1.json").exists() and not locks.held(run.run.run_lock))
        assert run.status == "queued"
        return run, caller

    return make


def begin(cluster):
    from fakes.pretend_cluster import EXECUTOR

    return EXECUTOR.begin(str(cluster), "v1"), (cluster / "v1.log").read_text()


def test_a_job_that_waits_is_cancelled_at_once_and_starts_nothing_later(waiting, cluster):
    run, caller = waiting()
    code, document = answer(run.call("cancel", run.run.path, "--timeout", "30", "--json"))
    assert (code, document["status"]) == (0, "cancelled"), document
    assert "before its worker began" in document["data"]["error"]["detail"]
    assert "it was stopped" in document["data"]["error"]["detail"]
    assert (cluster / "v1.stopped").exists()
    assert run.state()["cancel"]["requested_by"]
    assert run.result()["status"] == "cancelled"
    assert answer(caller)[0] == 13
    status, said = begin(cluster)
    assert (status, run.starts) == (1, 0)
    assert "the run is cancelled already, so nothing is started" in said
    assert answer(run.start())[0] == 13  # the same call starts nothing either
    assert run.result()["status"] == "cancelled"


def test_a_job_that_waits_is_cancelled_while_its_head_is_gone(waiting, cluster):
    run, caller = waiting()
    (cluster / "unreachable").touch()
    assert run.status == "unknown"
    code, document = answer(run.call("cancel", run.run.path, "--timeout", "30", "--json"))
    assert (code, document["status"]) == (0, "cancelled"), document
    assert "cannot be reached" in document["data"]["error"]["detail"]
    (cluster / "unreachable").unlink()
    assert answer(caller)[0] == 13
    assert begin(cluster)[0] == 1
    assert run.starts == 0


def test_where_locks_do_not_reach_a_job_that_waits_is_cancelled_once_it_is_gone(waiting, cluster):
    """A worker on another host could have begun: only the cluster knows."""
    run, caller = waiting("lockless")
    code, document = answer(run.call("cancel", run.run.path, "--timeout", "0.5", "--json"))
    assert (code, document["status"]) == (75, "queued"), document
    assert (cluster / "v1.stopped").exists()
    (cluster / "gives_up").touch()
    code, document = answer(run.call("cancel", run.run.path, "--timeout", "30", "--json"))
    assert (code, document["status"]) == (0, "cancelled"), document
    answer(caller)
    assert answer(run.start())[0] == 13
    assert run.starts == 0


def test_a_request_to_cancel_that_nobody_lived_to_fulfil_is_fulfilled_by_the_same_call(waiting, cluster):
    run, caller = waiting("lockless")
    assert answer(run.call("cancel", run.run.path, "--timeout", "0.5", "--json"))[0] == 75
    caller.kill()
    caller.communicate()
    (cluster / "v1.json").unlink()
    code, document = answer(run.start())
    assert (code, document["status"]) == (13, "cancelled"), document
    assert not (cluster / "v1.2.json").exists()


def test_a_time_limit_bounds_what_a_cluster_is_given_to_answer(waiting, cluster):
    run, caller = waiting()
    (cluster / "limits").unlink()
    assert answer(run.call("wait", run.run.path, "--timeout", "0.3", "--json"))[0] == 75
    limits = [float(line) for line in (cluster / "limits").read_text().split() if line != "None"]
    assert limits and max(limits) <= 0.3
    assert answer(run.call("cancel", run.run.path, "--json"))[0] == 0
    answer(caller)


def test_logs_are_the_jobs_own_while_the_run_has_none(waiting, cluster):
    run, caller = waiting()
    (cluster / "v1.log").write_text("waiting for a node\n")
    code, document = answer(run.call("logs", run.run.path, "--json"))
    assert (code, document["data"]["lines"]) == (0, ["waiting for a node"])
    assert document["data"]["source"] == f"{cluster} v1"
    assert document["data"]["path"] == run.run.train_log
    assert "has no lines yet; these are" in document["message"]
    assert "the pretended cluster says nothing" in document["message"]
    out, err = run.call("logs", run.run.path).communicate()
    assert out == b"waiting for a node\n"
    assert str(cluster).encode() in err
    (cluster / "unreachable").touch()
    code, document = answer(run.call("logs", run.run.path, "--json"))
    assert (code, document["data"]["lines"]) == (0, [])
    assert "cannot be reached" in document["message"]
    (cluster / "unreachable").unlink()
    following = run.call("logs", run.run.path, "-f")
    assert answer(run.call("cancel", run.run.path, "--json"))[0] == 0
    out = following.communicate(timeout=LIMIT_S)[0].decode().splitlines()
    assert out[1:] == ["waiting for a node"]
    assert f"are of {cluster} v1" in out[0]
    answer(caller)


def test_logs_of_a_run_that_has_its_own_ask_no_cluster(submitted, cluster):
    run = submitted()
    assert run.run_to_end()[0] == 0
    (cluster / "unreachable").touch()
    _, document = answer(run.call("logs", run.run.path, "--json"))
    assert document["data"]["source"] == run.run.train_log
    assert document["data"]["lines"]
    assert document["message"] == ""


def test_nodes_that_nobody_asked_are_told_at_the_start_and_in_the_result(submitted, cluster):
    (cluster / "hasty").touch()
    run = submitted()
    caller = run.call("run-prepared", run.run.config, "--sha256", run.sha256, "--json")
    out, err = caller.communicate(timeout=LIMIT_S)
    document = json.loads(out)
    text = "1 nodes of the cluster were not asked before the start"
    assert text in err.decode()
    assert any(text in one and one.endswith(": n40") for one in document["data"]["result"]["warnings"])


def test_sigterm_to_the_job_is_a_request_to_cancel(held):
    run, caller, _ = held
    kill(run.state()["worker"], signal.SIGTERM)
    assert answer(caller)[0] == 13
