"""A real Ray cluster of two nodes on loopback: jobs of the stand-in, from submission to every end."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from fakes.ray_cluster import RayCluster
from fakes.runs import PreparedRun, answer, kill, wait_for

from loopai_trainer.worker.observe import observe, read_exit

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="needs Ray beside the tests: pip install 'loopai-trainer[ray]'"
    ),
]

LONG_S = 600.0


def stand_in(cluster: RayCluster, root: Path, nodes: int = 1, version: str = "v1", **options) -> PreparedRun:
    launch = {"executor": "ray_jobs", "address": cluster.address, "interpreter": sys.executable}
    launch |= {"resources": {"CPU": 1}, "devices": "", "nodes": nodes, "nproc_per_node": 1, "env": {}, "pass_env": []}
    run = PreparedRun(root, version, loopai={"launch": launch}, **options)
    run.extra_env = cluster.environ
    return run


def step_3(run: PreparedRun) -> bool:
    return run.state().get("current_step") == 3


def test_a_job_from_submission_to_its_result(cluster, tmp_path):
    run = stand_in(cluster, tmp_path, nodes=2)
    code, document = answer(run.start(), LONG_S)
    assert (code, document["status"]) == (0, "completed"), document
    assert run.starts == 2  # one a node
    state = run.state()
    assert state["executor"]["handle"].startswith(f"{cluster.address} v1-")
    assert state["executor"]["locks_reach"] is True
    assert "steps 3" in Path(run.run.train_log).read_text()
    for rank in (0, 1):
        assert "steps 3" in Path(f"{run.run.node_log_stem}{rank}.log").read_text()
    # Asked from a second process, after the job has ended: the run directory alone says how.
    assert answer(run.call("status", run.run.path, "--json"))[1]["status"] == "completed"
    assert run.run_to_end()[0] == 0
    assert run.starts == 2


def test_attach_caller_killed_and_cancel(cluster, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = stand_in(cluster, tmp_path, nodes=2, version="v2", hold_file=str(hold), helper_s=600.0)
    first = run.start()
    wait_for(lambda: step_3(run), LONG_S)
    first.kill()
    first.communicate()
    second = run.start()  # attaches
    code, document = answer(run.call("status", run.run.path, "--json"))
    assert document["status"] == "running"
    code, document = answer(run.call("cancel", run.run.path, "--json"), LONG_S)
    assert (code, document["status"]) == (0, "cancelled")
    assert answer(second, LONG_S)[0] == 13
    assert run.living() == []
    assert run.starts == 2


@pytest.mark.parametrize("failing", ["0", "1"])
def test_the_first_failure_stops_all_nodes(cluster, tmp_path, failing):
    """The other node says nothing: it holds until it is stopped."""
    hold = tmp_path / "hold"
    hold.touch()
    options = {"stop_at": 2, "stop_node": failing, "exit_code": 3, "hold_file": str(hold), "helper_s": 600.0}
    run = stand_in(cluster, tmp_path, nodes=2, version=f"v3-{failing}", **options)
    code, document = answer(run.start(), LONG_S)
    assert (code, document["status"]) == (11, "failed")
    assert "stand-in failure" in json.dumps(document)
    assert run.living() == []


def test_a_killed_worker_leaves_an_orphan_that_is_ended_here(cluster, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = stand_in(cluster, tmp_path, version="v4", hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: step_3(run), LONG_S)
    kill(run.state()["worker"])
    code, document = answer(caller, LONG_S)
    assert (code, document["error"]["code"]) == (8, "ORPHANED_TRAINING")
    code, document = answer(run.call("recover", run.run.path, "--adopt", "--wait-timeout", "1", "--json"), LONG_S)
    assert code == 75
    hold.unlink()
    assert answer(run.call("wait", run.run.path, "--json"), LONG_S)[1]["status"] == "completed"


# In a process of its own, since Ray reads once, when it is loaded, whether and by which token it has to show who asks.
QUEUED = """
import functools, json, sys, time
from pathlib import Path
import yaml
from loopai_trainer.executors.ray_jobs import client
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker.attach import StartRequest, start_or_attach

address, path, sha256 = sys.argv[1:]
ray, run = client._client(address), RunDir(path)


def wait(condition):
    while not condition():
        time.sleep(0.2)


def unchecked():  # its check would wait as well
    text = Path(run.config).read_bytes()
    request = StartRequest(text, sha256, "task", "ray_jobs")
    request.launch, request.locks_reach = yaml.safe_load(text)["loopai"]["launch"], True
    return request


full = [ray.submit_job(entrypoint="sleep 600", entrypoint_num_cpus=6) for _ in range(2)]
wait(lambda: all(ray.get_job_status(one).name == "RUNNING" for one in full))
type(ray).submit_job = functools.partialmethod(type(ray).submit_job, entrypoint_num_cpus=1)
start_or_attach(run, sha256, unchecked)
job = json.loads(Path(run.run_state).read_text())["executor"]["handle"].split()[1]
print(job, flush=True)
input()
print(ray.get_job_status(job).name, flush=True)
for one in full:
    ray.stop_job(one)
wait(lambda: ray.get_job_status(job).is_terminal())
print("over", flush=True)
"""


def test_a_job_that_ray_has_not_begun_is_cancelled_and_starts_nothing_later(cluster, tmp_path):
    run = stand_in(cluster, tmp_path, version="v11")
    words = [sys.executable, "-c", QUEUED, cluster.address, run.run.path, run.sha256]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=run.env, **pipes) as asking:
        job = asking.stdout.readline().strip()
        assert job.startswith("v11-")
        code, document = answer(run.call("logs", run.run.path, "--json"), LONG_S)
        assert (code, job in document["data"]["source"]) == (0, True), document
        assert "Job has not started yet" in document["message"]
        code, document = answer(run.call("cancel", run.run.path, "--json"), LONG_S)
        assert (code, document["status"]) == (0, "cancelled"), document
        said, _ = asking.communicate("\n", timeout=LONG_S)
    assert said.split() == ["PENDING", "over"]  # Ray stops what it has not begun once it begins
    assert (run.starts, run.living(), run.result()["status"]) == (0, [], "cancelled")


def test_ray_job_stop_is_a_cancel(cluster, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = stand_in(cluster, tmp_path, version="v10", hold_file=str(hold), helper_s=600.0)
    caller = run.start()
    wait_for(lambda: step_3(run), LONG_S)
    job = run.state()["executor"]["handle"].split()[1]
    words = [cluster.ray, "job", "stop", "--no-wait", "--address", cluster.address, job]
    subprocess.run(words, env={**os.environ, **cluster.environ}, check=True, capture_output=True)
    code, document = answer(caller, LONG_S)
    assert (code, document["status"]) == (13, "cancelled"), document
    assert run.living() == []


def test_what_a_cluster_refuses_costs_no_approval(cluster, tmp_path):
    run = stand_in(cluster, tmp_path, nodes=3, version="v5")
    code, document = answer(run.start(), LONG_S)
    assert (code, document["error"]["code"]) == (9, "CLUSTER_TOO_SMALL"), document
    run = stand_in(cluster, tmp_path, version="v6")
    text = Path(run.run.config).read_text().replace(sys.executable, "/no/such/python")
    refused = PreparedRun(tmp_path, "v7", loopai={"launch": yaml.safe_load(text)["loopai"]["launch"]})
    refused.extra_env = cluster.environ
    code, document = answer(refused.start(), LONG_S)
    assert (code, document["error"]["code"]) == (9, "INTERPRETER_UNFIT"), document
    without = stand_in(cluster, tmp_path, version="v8")
    without.extra_env = {"RAY_AUTH_MODE": "disabled"}
    code, document = answer(without.start(), LONG_S)
    assert (code, document["error"]["code"]) == (9, "CLUSTER_REFUSED"), document
    assert [os.path.exists(one.run.approval) for one in (run, refused, without)] == [False] * 3


def test_a_head_that_is_killed_is_unknown_and_then_failed(verl_env, tmp_path):
    """Last of all: it costs the cluster."""
    cluster = RayCluster(f"{verl_env}/bin/ray")
    try:
        cluster.up()
        hold = tmp_path / "hold"
        hold.touch()
        run = stand_in(cluster, tmp_path, nodes=2, version="v9", hold_file=str(hold))
        caller = run.start()
        wait_for(lambda: step_3(run), LONG_S)
        seen: set[str] = set()
        cluster.kill_head()

        def ended() -> bool:
            seen.add(observe(run.run).verdict.status)
            return read_exit(run.run) is not None

        wait_for(ended, LONG_S)
        code, document = answer(caller, LONG_S)
        assert document["status"] == "failed", document
        assert code == 11
        assert "the cluster's head cannot be reached" in document["error"]["detail"]
        assert "completed" not in seen
        assert "unknown" in seen, seen
        assert run.living() == []
    finally:
        cluster.down()
