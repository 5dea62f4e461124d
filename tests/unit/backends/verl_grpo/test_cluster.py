"""GRPO on a Ray cluster: the devices of all nodes, and what a running Ray may not be told."""

import pytest
from fakes.grpo_plans import errors

CLUSTER = {
    "executor": "ray_jobs",
    "address": "http://head:8265",
    "interpreter": "/opt/trainer/bin/python",
    "resources": {"CPU": 1},
}
TWO = {**CLUSTER, "nodes": 2, "devices": "0"}


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def of(run, launch, **native):
    return errors(run, launch=launch, native={"trainer.nnodes": launch["nodes"], **native})


def test_devices_of_all_nodes_together(run):
    keys = {"trainer.n_gpus_per_node": 1, "ray_kwargs.ray_init.num_cpus": None}
    assert of(run, TWO, **keys) == []
    assert of(run, {**TWO, "devices": "0,1"}, **keys) == ["DEVICES_DIFFER"]


def test_devices_that_this_host_does_not_have(run):
    """Which there are, the cluster says."""
    launch = {**CLUSTER, "nodes": 1, "devices": "7"}
    assert of(run, launch, **{"trainer.n_gpus_per_node": 1, "ray_kwargs.ray_init.num_cpus": None}) == []


def test_rules_of_divisibility_see_all_nodes(run):
    launch = {**TWO, "nodes": 3}
    found = of(run, launch, **{"trainer.n_gpus_per_node": 1, "ray_kwargs.ray_init.num_cpus": None})
    assert found, "a batch of 8 over three ranks"
    assert "DEVICES_DIFFER" not in found


@pytest.mark.parametrize("key", ["num_cpus", "num_gpus"])
def test_what_a_running_ray_is_not_told(run, key):
    told = {"trainer.n_gpus_per_node": 1, "ray_kwargs.ray_init.num_cpus": None, f"ray_kwargs.ray_init.{key}": 8}
    assert "RAY_RESOURCES" in of(run, TWO, **told)


def test_nodes_that_differ(run):
    assert "NODES" in errors(run, launch=TWO, native={"trainer.nnodes": 1, "trainer.n_gpus_per_node": 1})


def test_a_cluster_that_is_not_named(run):
    assert "ADDRESS_MISSING" in of(run, {**TWO, "address": ""})
