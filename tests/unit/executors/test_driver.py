"""The driver over stand-in actors: real commands below real guards, on one host."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from fakes.ray_nodes import RayNodes

from loopai_trainer.executors.ray_jobs import driver
from loopai_trainer.rules import cluster

SAY = "import os; print(os.environ['NODE_RANK'], os.environ['NNODES'], os.environ['MASTER_ADDR'], os.environ['HOME'])"
FAIL_1 = """
import os, sys, time
if os.environ["NODE_RANK"] == "1":
    sys.exit(7)
time.sleep(300)
"""
FAIL_SAYING = """
import os, sys, time
if os.environ["NODE_RANK"] == "%s":
    print("noise\\n" * 40_000 + "RuntimeError: the cause", file=sys.stderr)
    sys.exit(7)
time.sleep(300)
"""
SLEEP = "import time; print('up', flush=True); time.sleep(300)"


@pytest.fixture
def nodes(monkeypatch):
    made = RayNodes()
    made.install(monkeypatch)
    monkeypatch.setattr(driver, "_GRACE_S", 30.0)
    monkeypatch.setattr(driver, "_PAUSE_S", 0.02)
    yield made
    for actor in made.actors:
        actor.stop(0.0)


@pytest.fixture
def drive(nodes, tmp_path):
    def make(code, count=2, **bundle):
        spec = {"nodes": count, "bundle": bundle or {"CPU": 1.0}, "cwd": str(tmp_path)}
        spec |= {"logs": f"{tmp_path}/train-node-", "cache": f"{tmp_path}/cache", "tmp": "", "env": ["HOME", "PATH"]}
        env = {"PATH": os.environ["PATH"], "HOME": f"{tmp_path}/cache", "RAY_ADDRESS": "x", "PYTHONPATH": "/planted"}
        return driver.Driver(spec, [sys.executable, "-I", "-S", "-c", code], env)

    return make


def test_one_command_a_node(drive, nodes, tmp_path, capfdbinary):
    bundle = {"CPU": 4.0, "GPU": 2.0, "memory": 1e9, "rack": 1.0}
    assert drive(SAY, **bundle).run() == 0
    assert nodes.groups == [([bundle] * 2, "STRICT_SPREAD")]
    first, second = nodes.options
    assert {name: first[name] for name in ("num_cpus", "num_gpus", "memory", "resources")} == {
        "num_cpus": 4.0,
        "num_gpus": 2.0,
        "memory": 1e9,
        "resources": {"rack": 1.0},
    }
    assert [one["scheduling_strategy"]["placement_group_bundle_index"] for one in (first, second)] == [0, 1]
    said = f"0 2 127.0.0.1 {tmp_path}/cache\n"
    assert Path(tmp_path, "train-node-0.log").read_text() == said
    assert Path(tmp_path, "train-node-1.log").read_text() == f"1 2 127.0.0.1 {tmp_path}/cache/node-1\n"
    out = capfdbinary.readouterr().out.decode()
    assert said in out  # rank 0's output is the driver's own
    assert "cache/node-1" not in out


def test_nothing_of_the_clusters_own_environment_reaches_training(drive, tmp_path):
    one = drive("import os; print(sorted(os.environ))", count=1)
    assert one.run() == 0
    said = Path(tmp_path, "train-node-0.log").read_text()
    assert "PYTHONPATH" not in said
    assert "RAY_" not in said
    assert "MASTER_PORT" in said


def test_one_node_needs_no_spread(drive, nodes):
    assert drive("pass", count=1).run() == 0
    assert nodes.groups[0][1] == "PACK"


def test_the_first_failure_stops_all(drive, nodes, capsys):
    assert drive(FAIL_1).run() == 7
    assert [actor.poll() for actor in nodes.actors] == [128 + signal.SIGTERM, 7]
    assert "node 1 ended with exit status 7" in capsys.readouterr().out


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failed_nodes_last_words_are_in_trainings_output_once(drive, nodes, capsys, rank):
    assert drive(FAIL_SAYING % rank).run() == 7
    out = capsys.readouterr().out
    assert out.count("RuntimeError: the cause\n") == 1
    _, given, shown = out.partition("the last lines of node 1:\n")
    assert (given != "", len(shown) > 60_000) == (rank == 1, rank == 1)
    assert len(shown) < 70_000
    assert set(shown.splitlines()[:-2]) <= {"noise"}


def test_the_last_lines_of_a_log_are_whole_and_go_over_its_older_part(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_SHOWN_BYTES", 10)
    log, older = tmp_path / "log", tmp_path / "log.1"
    assert driver.last_bytes(str(log)) == b""
    log.write_bytes(b"ten bytes\n")
    assert driver.last_bytes(str(log)) == b"ten bytes\n"
    log.write_bytes(b"nope\nwhole\nl")
    assert driver.last_bytes(str(log)) == b"whole\nl"
    older.write_bytes(b"a long older part\nthen\n")
    log.write_bytes(b"now\n")
    assert driver.last_bytes(str(log)) == b"then\nnow\n"
    log.write_bytes(b"no end in it")
    assert driver.last_bytes(str(log)) == b" end in it"


def test_a_lost_node_stops_the_others(drive, nodes, capsys, monkeypatch):
    one = drive(SLEEP)

    def lose(_):
        nodes.lost.add(1)

    monkeypatch.setattr(driver.time, "sleep", lose)
    status = one.run()
    monkeypatch.undo()
    assert status == 1
    assert nodes.actors[0].poll() == 128 + signal.SIGTERM
    cause = cluster.failure(capsys.readouterr().out.splitlines())[0]
    assert cause == f"node 1 ({socket.gethostname()}, 127.0.0.1) is lost: the actor died"


def test_a_head_that_is_gone_is_told_from_a_lost_node(drive, nodes, capsys, monkeypatch):
    with socket.socket() as server:  # nobody listens at its port
        server.bind(("127.0.0.1", 0))
        head = f"127.0.0.1:{server.getsockname()[1]}"
        one = drive(SLEEP)
        one.head = head
        monkeypatch.setattr(driver.time, "sleep", lambda _: nodes.lost.add(1))
        status = one.run()
        monkeypatch.undo()
    assert status == 1
    said = capsys.readouterr().out.splitlines()
    cause, advice = cluster.failure(said)
    assert cause.startswith(f"the cluster's head cannot be reached from {socket.gethostname()} at {head} any more")
    assert advice


def test_a_head_that_is_gone_is_said_at_once_since_ray_may_end_the_driver_any_time(drive, nodes, capsys, monkeypatch):
    monkeypatch.setattr(driver, "head_answers", lambda address: nodes.unavailable == 0)
    one = drive("import time; time.sleep(0.3)")
    one._start(one._group())
    one._look_at_head()
    nodes.unavailable = 3
    monkeypatch.setattr(driver, "_HEAD_LOOK_S", 0.0)
    one._next_look_s = 0.0
    assert one._watch() == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "the cluster's head" in line]
    assert ["cannot be reached" in line for line in said] == [True, False]


def test_all_nodes_together_get_one_time_to_stop(drive, nodes, monkeypatch):
    one = drive(SLEEP, count=3)
    one._start(one._group())
    now = [0.0]
    nodes.timeouts.clear()
    with monkeypatch.context() as patched:  # whoever takes the nodes down afterwards waits by the real clock
        patched.setattr(driver.time, "monotonic", lambda: now.append(now[-1] + 40.0) or now[-1])
        one._stop()
    first, second, third = nodes.timeouts
    assert first > second >= third
    assert first - second >= min(40.0, first - driver._PAUSE_S)  # what the first one took is not given again


def test_a_head_that_comes_back_is_said_to(drive, capsys, monkeypatch):
    one = drive("pass")
    answers = iter((None, False, False, True))
    monkeypatch.setattr(driver, "head_answers", lambda address: next(answers))
    monkeypatch.setattr(driver, "_HEAD_LOOK_S", 0.0)
    said = []
    for _ in range(4):
        one._look_at_head()
        said.append(capsys.readouterr().out)
    assert [bool(text) for text in said] == [False, True, False, True]
    assert cluster.failure(said[1].splitlines())[0].startswith("the cluster's head cannot be reached")
    assert cluster.failure("".join(said).splitlines()) is None


def test_whether_a_head_answers():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert driver.head_answers(f"127.0.0.1:{port}") is True
    with socket.socket() as silent:  # bound, so that nobody else may listen there
        silent.bind(("127.0.0.1", 0))
        assert driver.head_answers(f"127.0.0.1:{silent.getsockname()[1]}") is False
    assert driver.head_answers("auto") is driver.head_answers("") is None


@pytest.mark.parametrize("limit_s", [60.0, 0.0])
def test_a_connection_that_breaks_for_a_moment_ends_no_training(drive, nodes, monkeypatch, limit_s):
    monkeypatch.setattr(driver, "_BREAK_S", limit_s)
    one = drive("import time; time.sleep(0.3)")
    group = one._group()
    one._start(group)
    nodes.unavailable = 5
    if limit_s:
        assert one._watch() == 0
        assert nodes.unavailable == 0
    else:
        with pytest.raises(driver.Lost, match=r"node 0 \(.*\) is lost"):
            one._watch()


def test_a_wish_to_stop_stops_all(drive, nodes):
    one = drive(SLEEP)
    one.asked = True
    assert one.run() == 143
    assert [actor.poll() for actor in nodes.actors] == [128 + signal.SIGTERM] * 2


def test_nodes_are_waited_for_until_somebody_asks_to_stop(drive, nodes, capsys):
    nodes.ready = [False, False, True]
    assert drive("pass").run() == 0
    assert "waiting for 2 nodes" in capsys.readouterr().out
    nodes.ready = [False]
    one = drive("pass")
    one.asked = True
    assert one.run() == 143
    assert len(nodes.actors) == 2  # of the first run


def test_a_cluster_that_cannot_be_joined(nodes, monkeypatch, capsys):
    nodes.join_error = ConnectionError("refused\nlong text")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert driver.main([json.dumps({"logs": "/none", "env": []}), "prog"]) == 1
    assert "cannot be joined: refused\n" in capsys.readouterr().out


def test_main_leaves_the_cluster_behind(nodes, monkeypatch, tmp_path):
    handlers = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.append(handler))
    spec = {"nodes": 1, "bundle": {"CPU": 1.0}, "cwd": str(tmp_path), "logs": f"{tmp_path}/n", "cache": "/c", "tmp": ""}
    spec["env"] = ["HOME", "PATH"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert driver.main([json.dumps(spec), sys.executable, "-c", "pass"]) == 0
    assert nodes.closed == 1
    assert len(handlers) == 2


def test_a_log_is_kept_within_bounds(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(driver, "_LOG_BYTES", 10)
    path = tmp_path / "log"
    echo = driver.Echo(str(path))
    echo.take()  # it is not there yet
    with open(path, "ab", buffering=0) as writer:
        writer.write(b"twelve bytes")
        echo.take()
        assert (tmp_path / "log.1").read_bytes() == b"twelve bytes"
        assert path.read_bytes() == b""
        writer.write(b"more")
        echo.take()
    assert capfdbinary.readouterr().out == b"twelve bytesmore"
    assert not driver.bound(str(tmp_path / "none"))
