"""A plan for a cluster: all of it stands in the YAML that is approved, and first of all as a red flag."""

import sys

import pytest

from loopai_trainer.errors import ConfigError, SettingsError
from loopai_trainer.rules import plan as plans

CLUSTER = {"executor": "ray_jobs", "ray_address": "http://head:8265", "nodes": 2, "node_resources": '{"CPU": 4}'}


def test_the_launch_block(place):
    data = place.prepare(**CLUSTER).data
    launch = plans.read(data["config_yaml"].encode(), "x").loopai["launch"]
    assert {name: launch[name] for name in ("executor", "address", "interpreter", "resources", "nodes")} == {
        "executor": "ray_jobs",
        "address": "http://head:8265",
        "interpreter": sys.executable,
        "resources": {"CPU": 4},
        "nodes": 2,
    }
    assert data["summary"]["world_size"] == 2 * launch["nproc_per_node"]
    assert data["warnings"][0]["code"] == "RED_FLAG"
    assert "http://head:8265" in data["warnings"][0]["message"]


def test_another_cluster_or_number_of_nodes_is_another_plan(place):
    first = place.prepare(**CLUSTER).data["config_sha256"]
    for change in ({"ray_address": "http://other:8265"}, {"nodes": 3}, {"node_resources": '{"CPU": 8}'}):
        assert place.prepare(**{**CLUSTER, **change}).data["config_sha256"] != first


@pytest.mark.parametrize(
    ("change", "code"),
    [({"ray_address": None}, "ADDRESS_MISSING"), ({"ray_address": "head:8265"}, "ADDRESS_INVALID")],
)
def test_what_is_refused(place, change, code):
    with pytest.raises(ConfigError) as refused:
        place.prepare(**{**CLUSTER, **change})
    assert [problem.code for problem in refused.value.problems] == [code]


def test_a_password_in_the_address_is_refused_before_it_is_written(place):
    with pytest.raises(SettingsError) as refused:
        place.prepare(**{**CLUSTER, "ray_address": "http://user:secret1234@head:8265"})
    assert "secret1234" not in str(refused.value)
    assert not (place.run / "plan.json").exists()


def test_executors_and_resources_that_are_none(place):
    with pytest.raises(SettingsError):
        place.prepare(**{**CLUSTER, "executor": "slurm"})
    with pytest.raises(ConfigError, match="node_resources"):
        place.prepare(**{**CLUSTER, "node_resources": "{CPU: 4}"})


def test_hosts_without_a_cluster(place):
    with pytest.raises(ConfigError) as refused:
        place.prepare(nodes=2)
    assert [problem.code for problem in refused.value.problems] == ["NODES"]
    data = place.prepare(nodes=2, master_addr="10.0.0.1", master_port=29500).data
    launch = plans.read(data["config_yaml"].encode(), "x").loopai["launch"]
    assert launch["env"] == {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert launch["nodes"] == 2
