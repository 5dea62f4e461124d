"""What a cluster is asked before an approval is used up, and what is made of its answer."""

import json
import os
import sys
import types

import pytest
from fakes.runs import PreparedRun

from loopai_trainer import executors
from loopai_trainer.errors import HostUnfit, InputChanged
from loopai_trainer.host import locks
from loopai_trainer.operations import cluster_check, cluster_probe
from loopai_trainer.rules import plan as plans
from loopai_trainer.version import __version__

LAUNCH = {
    "executor": "ray_jobs",
    "address": "http://head:8265",
    "interpreter": "/py",
    "resources": {"CPU": 1},
    "devices": "",
    "nodes": 2,
    "nproc_per_node": 1,
    "env": {},
    "pass_env": [],
}


class Asked:
    """Answers with a log, and remembers the question."""

    def __init__(self, log):
        self.log = log

    def submit(self):
        raise AssertionError("the check submits nothing")

    def ask(self, argv, address, submission_id, environ, limit_s):
        self.argv, self.address, self.name = argv, address, submission_id
        return self.log


@pytest.fixture
def prepared(tmp_path):
    return PreparedRun(tmp_path, loopai={"launch": LAUNCH})


def plan_of(prepared):
    with open(prepared.run.config, "rb") as file:
        return plans.read(file.read(), prepared.run.config)


def answered(**values):
    answer = {"ok": True, "locks_reach": True, "nodes": [], "error": None, **values}
    return f"Ray says something\n{cluster_probe.MARK}{json.dumps(answer)}\nand more\n"


def check(prepared, monkeypatch, log):
    asked = Asked(log)
    monkeypatch.setattr(executors, "get", lambda name: asked)
    return cluster_check.check(prepared.run, plan_of(prepared), {}), asked


@pytest.mark.parametrize("reach", [True, False])
def test_the_question_and_a_good_answer(prepared, monkeypatch, reach):
    (found, not_asked), asked = check(prepared, monkeypatch, answered(locks_reach=reach))
    assert found is reach
    assert not_asked == []
    assert asked.argv[:3] == ["/py", "-P", "-c"]
    assert asked.argv[4:] == [prepared.run.path, "v1", prepared.run.task.path, prepared.sha256, __version__]
    assert asked.address == "http://head:8265"
    assert asked.name.startswith("v1-check-")


def test_what_is_refused_there_is_refused_here(prepared, monkeypatch):
    problem = {"severity": "error", "code": "INPUT_CHANGED", "where": "config", "message": "m", "line": None}
    error = {"type": "InputChanged", "code": "INPUT_CHANGED", "detail": "train changed", "hint": "h"}
    with pytest.raises(InputChanged, match="on the cluster: train changed") as raised:
        check(prepared, monkeypatch, answered(ok=False, error={**error, "problems": [problem]}))
    assert raised.value.exit_code == 6
    assert raised.value.problems[0].message == "m"


@pytest.mark.parametrize("kind", ["NoSuchError", "EXIT_OK", None])
def test_a_refusal_of_an_unknown_kind_is_one_all_the_same(prepared, monkeypatch, kind):
    with pytest.raises(HostUnfit):
        check(prepared, monkeypatch, answered(error={"type": kind, "code": "X", "detail": "d"}))


@pytest.mark.parametrize("log", ["", "sh: 1: /py: not found\n\n", f"{cluster_probe.MARK}{{", f"{cluster_probe.MARK}[]"])
def test_no_answer_is_an_unfit_interpreter(prepared, monkeypatch, log):
    with pytest.raises(HostUnfit, match="/py") as raised:
        check(prepared, monkeypatch, log)
    assert raised.value.code == "INTERPRETER_UNFIT"
    assert ("not found" in raised.value.message) is ("not found" in log)


def test_executors_of_this_host_are_not_asked(tmp_path):
    run = PreparedRun(tmp_path)
    assert cluster_check.check(run.run, plan_of(run), {}) == (True, [])


def test_nodes_that_were_not_asked_are_told(prepared, monkeypatch):
    (_, not_asked), _ = check(prepared, monkeypatch, answered(not_asked=["n7", "n8"]))
    assert not_asked == ["n7", "n8"]


class TestProbe:
    @pytest.fixture(autouse=True)
    def stand_in(self, monkeypatch):
        from fakes.backend import BACKEND

        monkeypatch.setattr(cluster_probe.backends, "get", lambda *_: BACKEND)
        monkeypatch.setattr(cluster_probe.inputs, "verify", lambda *_: None)
        monkeypatch.setattr(cluster_probe, "_nodes", lambda plan, run: (["a", "b"], ["c"]))

    def probe(self, prepared, capsys, version=__version__, sha256=None):
        words = [prepared.run.path, "v1", prepared.run.task.path, sha256 or prepared.sha256, version]
        assert cluster_probe.main(words) == 0
        return cluster_check.read_answer(capsys.readouterr().out, "/py")

    def test_a_good_plan(self, prepared, capsys):
        found = self.probe(prepared, capsys)
        assert found == {"ok": True, "locks_reach": False, "nodes": ["a", "b"], "not_asked": ["c"], "error": None}

    def test_a_lock_that_is_held_elsewhere_is_seen(self, prepared, capsys):
        fd = locks.try_exclusive(prepared.run.run_lock)
        try:
            assert self.probe(prepared, capsys)["locks_reach"] is True
        finally:
            os.close(fd)

    def test_another_version_of_this_program(self, prepared, capsys):
        error = self.probe(prepared, capsys, version="0.0.0")["error"]
        assert error["code"] == "CLUSTER_DIFFERS"
        assert sys.executable in error["hint"]

    def test_another_plan(self, prepared, capsys):
        assert self.probe(prepared, capsys, sha256="0" * 64)["error"]["type"] == "PlanChanged"


def test_what_a_node_sees(prepared, tmp_path, monkeypatch):
    from fakes.backend import BACKEND

    monkeypatch.setattr(cluster_probe.backends, "get", lambda *_: BACKEND)
    plan = plan_of(prepared)
    found = cluster_probe.seen(prepared.run.config, ("stand_in", "sft", sys.prefix))
    assert found == {**cluster_probe._expected(plan), "files": {}}
    assert found["the plan (sha256)"] == prepared.sha256
    assert found["loopai-trainer"] == __version__
    assert found["the backend"].endswith(f"0, packages and code {'0' * 64}")
    found = cluster_probe.seen(str(tmp_path / "none"), ("stand_in", "sft", str(tmp_path / "none")))
    assert found["the plan (sha256)"] == "(No such file or directory)"
    assert "no stand_in environment" in found["the backend"]
    assert "no stand_in environment" in found["the backend's interpreter"]


def test_a_node_with_other_bytes_at_a_path_is_told_from_one_with_the_same(tmp_path):
    data = tmp_path / "train.jsonl"
    looks = []
    for text in ("a" * 9, "b" * 9, "a" * 10, "a" * 9):
        data.write_text(text)
        looks.append(cluster_probe.looks_of([str(data)])[str(data)])
    assert looks[0] == looks[3]
    assert len(set(looks)) == 3
    data.unlink()
    assert cluster_probe.looks_of([str(data)])[str(data)] == "(No such file or directory)"


def test_a_node_is_asked_for_the_pinned_files_and_the_models(prepared):
    names = {os.path.basename(path) for path in cluster_probe._paths(plan_of(prepared))}
    assert names == {"train.jsonl", "config.json"}


class TestNodes:
    """All nodes that could take part are asked, some at a time."""

    @pytest.fixture(autouse=True)
    def known(self, monkeypatch):
        from fakes.backend import BACKEND

        monkeypatch.setattr(cluster_probe.backends, "get", lambda *_: BACKEND)

    @pytest.fixture
    def asked(self, prepared, monkeypatch):
        """Asks so many nodes, which see what this host sees, but for what `other` says of one; notes the order."""
        order = []

        def ask(count, other=()):
            def question(node, config, plan, paths):
                order.append(("asked", node["NodeID"]))
                found = cluster_probe.seen(config, ("stand_in", "sft", sys.prefix), paths)
                return {**found, **dict(other)} if node["NodeID"] == count - 1 else found

            def get(answer, timeout):
                order.append(("answered", timeout))
                if isinstance(answer, Exception):
                    raise answer
                return answer

            ray = types.ModuleType("ray")
            ray.get = get
            ray.exceptions = types.SimpleNamespace(RayError=OSError)
            monkeypatch.setitem(sys.modules, "ray", ray)
            monkeypatch.setattr(cluster_probe, "_question", question)
            nodes = [{"NodeID": n, "NodeManagerAddress": f"10.0.0.{n}"} for n in range(count)]
            plan = plan_of(prepared)
            looks = cluster_probe.looks_of(cluster_probe._paths(plan))
            return cluster_probe.ask_nodes(nodes, plan, prepared.run.config, looks)

        ask.order = order
        return ask

    def test_more_than_thirty_two_are_asked_and_never_all_at_once(self, asked):
        names, not_asked = asked(40)
        assert names == [f"10.0.0.{n}" for n in range(40)]
        assert not_asked == []
        waiting = most = 0
        for what, _ in asked.order:
            waiting += 1 if what == "asked" else -1
            most = max(most, waiting)
        assert most == 16

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"the backend": "llamafactory 0.1"}, "the backend\n  expected: "),
            ({"the backend's interpreter": "/else/python"}, "got:      /else/python"),
            ({"interpreter": "Python 3.9 at /py"}, "got:      Python 3.9 at /py"),
            ({"the plan (sha256)": "0"}, "the plan"),
            ({"files": {}}, "config.json"),
        ],
    )
    def test_the_last_of_many_that_sees_anything_else_is_refused(self, asked, other, said):
        with pytest.raises(HostUnfit, match=r"node 10\.0\.0\.39") as raised:
            asked(40, other)
        assert raised.value.code == "NODE_UNFIT"
        assert said in raised.value.message

    def test_what_there_was_no_time_for_is_told(self, asked, monkeypatch):
        now = [0.0]
        monkeypatch.setattr(cluster_probe.time, "monotonic", lambda: now.append(now[-1] + 150.0) or now[-1])
        names, not_asked = asked(40)
        assert [names[0], names[-1], len(names)] == ["10.0.0.0", "10.0.0.15", 16]
        assert not_asked == [f"10.0.0.{n}" for n in range(16, 40)]

    def test_fewer_than_training_takes_are_not_enough(self, asked, monkeypatch):
        now = [0.0]
        monkeypatch.setattr(cluster_probe.time, "monotonic", lambda: now.append(now[-1] + 300.0) or now[-1])
        with pytest.raises(HostUnfit, match="only 0 of 40") as raised:
            asked(40)
        assert raised.value.code == "CLUSTER_TIMEOUT"


def test_nodes_that_could_train():
    def node(name, alive=True, **resources):
        return {"NodeID": name, "Alive": alive, "Resources": resources}

    nodes = [node("c", CPU=8), node("b", CPU=8, GPU=1), node("a", CPU=8, GPU=4), node("d", alive=False, CPU=8, GPU=8)]
    bundle = {"CPU": 4.0, "GPU": 1.0}
    assert [one["NodeID"] for one in cluster_probe.fitting_nodes(nodes, bundle)] == ["a", "b"]
    assert [one["NodeID"] for one in cluster_probe.fitting_nodes(nodes, {"CPU": 4.0})] == ["a", "b", "c"]
    assert cluster_probe.fitting_nodes(nodes, {"moon": 1.0}) == []
