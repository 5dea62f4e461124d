import json
import os
import sys

import pytest
from fakes.job_server import AuthenticationError, JobServer

from loopai_trainer.errors import HostUnfit, TrainingFailed
from loopai_trainer.executors import ray_jobs, submitting
from loopai_trainer.executors.ray_jobs import client, placing
from loopai_trainer.records import Command

LIMIT_S = 60.0

HANDLE = "http://head:8265 v1"
LAUNCH = {"address": "http://head:8265", "nodes": 2, "devices": "0,1", "resources": {"CPU": 3}}


@pytest.fixture
def server(monkeypatch):
    made = JobServer()
    made.install(monkeypatch)
    return made


@pytest.fixture
def executor():
    return ray_jobs.RayJobs()


def code(raised):
    return raised.value.code


def test_it_is_the_executor_of_that_name():
    assert submitting("ray_jobs") is ray_jobs.EXECUTOR
    assert submitting("local") is submitting("inline") is submitting(None) is None


def test_handles_tell_attempts_apart(executor):
    made = "01990000-0000-7000-8000-00000000abcd"
    assert executor.handle(LAUNCH, "/run", made, 1) == f"http://head:8265 {made}"
    assert executor.handle(LAUNCH, "/run", made, 3) == f"http://head:8265 {made}.3"


def test_ids_that_a_user_chose_twice_are_two_jobs(executor):
    here, there = (executor.handle(LAUNCH, folder, "v1", 1) for folder in ("/a/v1", "/b/v1"))
    assert here.startswith("http://head:8265 v1-")
    assert here != there
    assert here == executor.handle(LAUNCH, "/a/v1", "v1", 1)
    assert executor.handle(LAUNCH, "/a/v1", "v1", 2) == f"{here}.2"


def test_where_it_runs(executor):
    assert executor.where(HANDLE) == "job v1 of the Ray cluster at http://head:8265"


def test_a_submission(server, executor, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://another:8265")
    environ = {"LOOPAI_TRAINER_CACHE_DIR": "/cache", "HF_TOKEN": "hf_x", "PATH": "/bin"}
    executor.submit(["/py", "-c", "a b"], HANDLE, environ)
    job = server.jobs["v1"]
    assert job["entrypoint"] == "exec /py -c 'a b'"
    assert job["runtime_env"]["env_vars"] == {"LOOPAI_TRAINER_CACHE_DIR": "/cache", "RAY_JOB_STOP_WAIT_TIME_S": "90"}
    assert server.addresses == ["http://head:8265"]
    assert server.seen_overrides == []  # Ray's client would have taken it
    assert os.environ["RAY_ADDRESS"] == "http://another:8265"
    assert server.timeouts == {(5.0, 20.0)}


def test_a_second_submission_changes_nothing(server, executor):
    executor.submit(["/py"], HANDLE, {})
    executor.submit(["/other"], HANDLE, {})
    assert server.jobs["v1"]["entrypoint"] == "exec /py"


@pytest.mark.parametrize(
    ("status", "lives"),
    [("PENDING", True), ("RUNNING", True), ("STOPPED", False), ("SUCCEEDED", False), ("FAILED", False)],
)
def test_whether_a_job_lives(server, executor, status, lives):
    executor.submit(["/py"], HANDLE, {})
    server.jobs["v1"]["status"] = status
    assert executor.alive(HANDLE) is lives


def test_a_job_that_the_cluster_does_not_know_is_none(server, executor):
    assert executor.alive(HANDLE) is False


@pytest.mark.parametrize(
    "error", [ConnectionError("refused"), TimeoutError(), RuntimeError("status code 500"), AuthenticationError("token")]
)
def test_a_server_that_cannot_be_asked_leaves_it_unknown(server, executor, error, monkeypatch):
    monkeypatch.setattr(client, "_SLOW_S", LIMIT_S)  # however slow this host is, the head answered at once
    server.error = error
    assert executor.alive(HANDLE) is None
    assert "the Ray cluster at http://head:8265 " in executor.told(HANDLE)
    asked = len(server.addresses)
    executor.told(HANDLE)
    assert len(server.addresses) == asked  # nobody waits a second time for the reason
    server.error = None
    assert executor.alive("http://head:8265 v2") is False
    assert "does not know that job" in executor.told(HANDLE)


def test_a_head_that_let_a_request_time_out_is_not_waited_for_by_each_run_of_a_list(server, executor, monkeypatch):
    monkeypatch.setattr(client, "_SLOW_S", 0.0)
    server.error = TimeoutError()
    assert executor.alive(HANDLE) is None
    asked = len(server.addresses)
    assert executor.alive("http://head:8265 v2") is None
    assert len(server.addresses) == asked
    assert executor.alive("http://other:8265 v3") is None  # another head is asked
    assert len(server.addresses) == asked + 1
    monkeypatch.setattr(client, "_silent", {})  # as after a while
    server.error = None
    assert executor.alive("http://head:8265 v4") is False


def test_a_head_that_answers_slowly_is_left_alone_for_some_times_that_while(server, executor, monkeypatch):
    now = [100.0]

    def request(*_, **__):
        now[0] += 2.0
        raise TimeoutError

    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    server.error = TimeoutError()
    monkeypatch.setattr(type(server), "error", property(request, lambda *_: None), raising=False)
    assert executor.alive(HANDLE) is None
    asked = len(server.addresses)
    now[0] += 19.0
    assert executor.alive("http://head:8265 v2") is None
    assert len(server.addresses) == asked
    assert "cannot be reached" in executor.told(HANDLE)
    for refused in (lambda: executor.stop(HANDLE, 1.0), lambda: executor.log(HANDLE)):
        with pytest.raises(HostUnfit, match="a moment ago") as raised:
            refused()
        assert code(raised) == "CLUSTER_UNREACHABLE"
    assert len(server.addresses) == asked
    now[0] += 2.0
    assert executor.alive("http://head:8265 v3") is None
    assert len(server.addresses) == asked + 1


def test_a_request_gets_what_is_left_of_its_callers_time(server, executor, monkeypatch):
    monkeypatch.setattr(client.time, "monotonic", lambda: 100.0)
    executor.alive(HANDLE, 4.0)
    executor.alive("http://head:8265 v2", 9.0)
    executor.alive("http://head:8265 v3", -1.0)
    connecting, reading = (sorted(one[place] for one in server.timeouts) for place in (0, 1))
    assert connecting[0] == reading[0] == 1.0  # so much, whatever is left: else no good head would be heard
    assert all(limit <= 4.0 for limit in connecting[1:-1])
    assert connecting[-1] == 5.0
    assert reading[-1] == 9.0


def test_an_unknown_job_is_said_to_be_unknown(server, executor):
    assert "does not know that job" in executor.told(HANDLE)


def test_the_jobs_own_output(server, executor):
    executor.submit(["/py"], HANDLE, {})
    server.jobs["v1"]["log"] = "a\nb\n"
    assert executor.log(HANDLE) == "a\nb\n"
    assert "v1" in server.jobs
    server.error = ConnectionError("refused")
    with pytest.raises(HostUnfit):
        executor.log(HANDLE)


def test_a_check_that_its_caller_gives_up_is_stopped(server, executor, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ray_jobs.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        executor.ask(["/py"], "http://head:8265", "v1-check-1", {}, 60.0)
    assert server.jobs["v1-check-1"]["status"] == "STOPPED"


def test_a_head_that_refuses_at_once_is_asked_again(server, executor, monkeypatch):
    monkeypatch.setattr(client, "_SLOW_S", LIMIT_S)
    server.error = ConnectionError("refused")
    assert executor.alive(HANDLE) is None
    server.error = None
    assert executor.alive("http://head:8265 v2") is False


def test_an_answer_is_good_for_a_moment_and_a_submission_asks_anew(server, executor, monkeypatch):
    monkeypatch.setattr(ray_jobs, "_FRESH_S", LIMIT_S)
    assert executor.alive(HANDLE) is False
    server.jobs["v1"] = {"status": "RUNNING"}
    assert executor.alive(HANDLE) is False
    monkeypatch.setattr(ray_jobs, "_FRESH_S", 0.0)
    assert executor.alive(HANDLE) is True
    monkeypatch.setattr(ray_jobs, "_FRESH_S", 100.0)
    server.jobs.clear()
    assert executor.alive(HANDLE) is True
    executor.submit(["/py"], HANDLE, {})
    assert executor.alive(HANDLE) is True
    assert executor.alive("http://head:8265 v2") is False


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ConnectionError("refused"), "CLUSTER_UNREACHABLE"),
        (RuntimeError("Request failed with status code 500: no"), "CLUSTER_REFUSED"),
        (AuthenticationError("Authentication required: x\n\nlong text"), "CLUSTER_REFUSED"),
        (KeyError("ray_version"), "CLUSTER_REFUSED"),
        (ValueError("no JSON"), "CLUSTER_REFUSED"),
    ],
)
def test_what_a_submission_is_refused_with(server, executor, error, wanted):
    server.error = error
    with pytest.raises(HostUnfit) as raised:
        executor.submit(["/py"], HANDLE, {})
    assert code(raised) == wanted
    assert raised.value.hint
    assert "long text" not in raised.value.message


def test_without_ray_it_says_what_to_install(executor, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    monkeypatch.setitem(sys.modules, "ray.exceptions", None)
    monkeypatch.setattr(client, "_clients", {})
    with pytest.raises(HostUnfit, match="Ray is not installed") as raised:
        executor.submit(["/py"], HANDLE, {})
    assert code(raised) == "RAY_MISSING"
    assert executor.alive(HANDLE) is None


def test_stopping_and_what_is_told_of_an_end(server, executor):
    executor.submit(["/py"], HANDLE, {})
    executor.stop(HANDLE, 1.0)
    assert server.jobs["v1"]["status"] == "STOPPED"
    server.jobs["v1"]["message"] = "exit 127"
    assert executor.told(HANDLE) == "exit 127"
    with pytest.raises(HostUnfit):
        executor.stop("http://head:8265 v9", 1.0)


def test_a_short_job_is_waited_for(server, executor, monkeypatch):
    monkeypatch.setattr(ray_jobs, "_PAUSE_S", 0.0)
    looks = []

    def alive(address, name, limit_s):
        looks.append(name)
        server.jobs[name]["log"] = "said"
        return len(looks) < 3

    monkeypatch.setattr(client, "alive", alive)
    assert executor.ask(["/py"], "http://head:8265", "v1-check-1", {}, 60.0) == "said"
    assert looks == ["v1-check-1"] * 3
    assert server.jobs["v1-check-1"]["status"] == "PENDING"  # neither stopped nor deleted


def test_a_short_job_that_does_not_end_is_stopped(server, executor, monkeypatch):
    monkeypatch.setattr(ray_jobs, "_PAUSE_S", 0.0)
    with pytest.raises(HostUnfit) as raised:
        executor.ask(["/py"], "http://head:8265", "v1-check-1", {}, 0.0)
    assert code(raised) == "CLUSTER_TIMEOUT"
    assert server.jobs["v1-check-1"]["status"] == "STOPPED"


COMMAND = Command(("/env/bin/prog", "train"), "/run/launch", {"HOME": "/run/cache", "TMPDIR": "/tmp/x", "A": "1"})
PLACES = {"joins": "", "logs": "/run/train-node-", "cache": "/run/cache", "tmp": "/tmp/x"}
ENVIRON = {"RAY_ADDRESS": "10.0.0.1:6379", "HOME": "/nowhere", "RAY_OTHER": "x", "SECRET": "y"}


class TestPlace:
    def place(self, environ=ENVIRON, **places):
        return placing.place(COMMAND, LAUNCH, {**PLACES, **places}, environ)

    def test_a_command_is_run_once_a_node_by_the_driver(self):
        placed = self.place()
        assert placed.argv[:3] == (sys.executable, "-P", "-c")
        assert json.loads(placed.argv[4]) == {
            "nodes": 2,
            "bundle": {"CPU": 3.0, "GPU": 2.0},
            "cwd": "/run/launch",
            "env": ["A", "HOME", "TMPDIR"],
            "logs": "/run/train-node-",
            "cache": "/run/cache",
            "tmp": "/tmp/x",
        }
        assert placed.argv[5:] == ("/env/bin/prog", "train")
        assert placed.env == {**COMMAND.env, "RAY_ADDRESS": "10.0.0.1:6379"}

    def test_a_program_that_joins_gets_an_environment_for_its_workers(self):
        inherited = {"metadata": {"job_submission_id": "v1"}, "runtime_env": {"env_vars": {"X": "1"}}}
        environ = {**ENVIRON, "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(inherited)}
        placed = self.place(environ, joins="/env/bin/python")
        assert placed.argv == COMMAND.argv
        assert placed.env["RAY_ADDRESS"] == "10.0.0.1:6379"
        told = json.loads(placed.env["RAY_JOB_CONFIG_JSON_ENV_VAR"])
        env_vars = {"PYTHONPATH": "", "HOME": "/run/cache", "A": "1"}
        assert told["runtime_env"] == {"py_executable": "/env/bin/python", "env_vars": env_vars}
        assert told["metadata"] == {"job_submission_id": "v1"}

    def test_a_config_that_cannot_be_read_tells_nothing(self):
        environ = {**ENVIRON, "RAY_JOB_CONFIG_JSON_ENV_VAR": "{"}
        told = json.loads(self.place(environ, joins="/p").env["RAY_JOB_CONFIG_JSON_ENV_VAR"])
        assert told["metadata"] == {}

    def test_the_right_to_use_the_cluster_goes_along(self, tmp_path):
        token = tmp_path / ".ray" / "auth_token"
        token.parent.mkdir()
        token.write_text("t")
        environ = {**ENVIRON, "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
        assert self.place(environ).env["RAY_AUTH_TOKEN_PATH"] == str(token)
        assert self.place(environ).env["RAY_AUTH_MODE"] == "token"
        named = self.place({**environ, "RAY_AUTH_TOKEN_PATH": "/else"})
        assert named.env["RAY_AUTH_TOKEN_PATH"] == "/else"
        assert "RAY_AUTH_TOKEN_PATH" not in self.place({**environ, "RAY_AUTH_TOKEN": "t"}).env

    def test_outside_of_a_cluster_nothing_is_placed(self):
        with pytest.raises(TrainingFailed) as raised:
            self.place({})
        assert code(raised) == "NOT_ON_CLUSTER"
