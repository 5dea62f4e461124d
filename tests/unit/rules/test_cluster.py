import pytest

from loopai_trainer.errors import ConfigError
from loopai_trainer.rules import cluster

BLOCK = {"executor": "local", "devices": "0,1", "nodes": 1, "nproc_per_node": 2, "env": {"LANG": "C"}, "pass_env": []}
RAY = {
    **BLOCK,
    "executor": "ray_jobs",
    "address": "http://head:8265",
    "interpreter": "/opt/trainer/bin/python",
    "resources": {"CPU": 4},
}


def codes(block):
    return [code for code, _, _, _ in cluster.faults(block)]


def test_a_plan_of_this_host_stays_as_it_is():
    assert cluster.placed(BLOCK, {"executor": "local", "nodes": None}, "/python") == BLOCK
    assert codes(BLOCK) == []
    assert not cluster.on_cluster(BLOCK)
    assert not cluster.by_hand(BLOCK)


def test_a_meeting_point_is_written_for_several_hosts_alone():
    said = {"master_addr": "10.0.0.1", "master_port": 29500}
    assert cluster.placed(BLOCK, said, "/python")["env"] == {"LANG": "C"}
    block = cluster.placed(BLOCK, {**said, "nodes": 2}, "/python")
    assert block["env"] == {"LANG": "C", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert cluster.by_hand(block)
    assert codes(block) == []


def test_a_plan_for_a_cluster():
    values = {"executor": "ray_jobs", "ray_address": "http://head:8265", "nodes": 2, "node_resources": '{"CPU": 4}'}
    block = cluster.placed(BLOCK, {**values, "master_addr": "10.0.0.1"}, "/opt/trainer/bin/python")
    assert block == {**RAY, "nodes": 2}
    assert list(block)[:4] == ["executor", "address", "interpreter", "resources"]
    assert codes(block) == []
    assert cluster.on_cluster(block)
    assert cluster.bundle(block) == {"CPU": 4.0, "GPU": 2.0}
    assert cluster.bundle({**block, "devices": ""}) == {"CPU": 4.0}
    named = cluster.placed(BLOCK, {**values, "ray_interpreter": "/other/python", "node_resources": None}, "/x")
    assert (named["interpreter"], named["resources"]) == ("/other/python", {"CPU": 1})


def test_resources_that_are_no_json():
    with pytest.raises(ConfigError, match="node_resources"):
        cluster.placed(BLOCK, {"executor": "ray_jobs", "node_resources": "{CPU: 4}"}, "/python")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"executor": "slurm"}, "EXECUTOR_UNKNOWN"),
        ({"nodes": 0}, "NODES"),
        ({"nodes": 4097}, "NODES"),
        ({"nodes": 2}, "NODES"),
        ({"executor": "inline", "nodes": 2, "env": {"MASTER_ADDR": "h"}}, "NODES"),
        ({"address": "http://head:8265"}, "EXECUTOR_KEYS"),
        ({"resources": {}}, "EXECUTOR_KEYS"),
    ],
)
def test_what_a_plan_of_this_host_may_not_say(change, code):
    assert codes({**BLOCK, **change}) == [code]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"address": ""}, "ADDRESS_MISSING"),
        ({"address": None}, "ADDRESS_MISSING"),
        ({"address": "head:8265"}, "ADDRESS_INVALID"),
        ({"address": "ray://head:10001"}, "ADDRESS_INVALID"),
        ({"address": "http://"}, "ADDRESS_INVALID"),
        ({"address": "http://head:8265 v2"}, "ADDRESS_INVALID"),
        ({"address": "http://user:secret@head:8265"}, "ADDRESS_INVALID"),
        ({"address": "http://head:8265?token=x"}, "ADDRESS_INVALID"),
        ({"address": "http://head:8265/#x"}, "ADDRESS_INVALID"),
        ({"interpreter": "python"}, "INTERPRETER_INVALID"),
        ({"interpreter": None}, "INTERPRETER_INVALID"),
        ({"resources": None}, "RESOURCES_INVALID"),
        ({"resources": {"CPU": 0}}, "RESOURCES_INVALID"),
        ({"resources": {"CPU": True}}, "RESOURCES_INVALID"),
        ({"resources": {"CPU": float("inf")}}, "RESOURCES_INVALID"),
        ({"resources": {"": 1}}, "RESOURCES_INVALID"),
        ({"resources": {"GPU": 1}}, "RESOURCES_INVALID"),
        ({"env": {"MASTER_PORT": "1"}}, "NODES"),
    ],
)
def test_what_a_plan_for_a_cluster_may_not_say(change, code):
    found = list(cluster.faults({**RAY, **change}))
    assert [one[0] for one in found] == [code]
    assert all(hint for _, _, hint, _ in found)
    assert "secret" not in str(found)


def test_nodes_that_were_not_asked_are_named():
    text = cluster.not_asked_text([f"n{number}" for number in range(22)])
    assert text.startswith("22 nodes of the cluster were not asked")
    assert text.endswith("n18, n19 and 2 more")
    assert cluster.not_asked_text(["a", "b"]).endswith(": a, b")


def test_what_the_driver_said_is_the_cause():
    gone, back = f"{cluster.DRIVER}{cluster.HEAD_GONE} from a", f"{cluster.DRIVER}{cluster.HEAD_BACK} from a"
    lost = f"{cluster.DRIVER}{cluster.FAILED}node 1 is lost: x"
    assert cluster.failure([]) is None
    assert cluster.failure(["RuntimeError: x", f"{cluster.DRIVER}node 0: a"]) is None
    assert cluster.failure(["x", gone, "ConnectionError: y"])[0] == f"{cluster.HEAD_GONE} from a"
    assert cluster.failure([gone, back, "RuntimeError: y"]) is None
    assert cluster.failure([gone, back, lost, gone])[0] == "node 1 is lost: x"
