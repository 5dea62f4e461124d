import copy

import pytest
from fakes.plans import LOOPAI, small_plan

from loopai_trainer.rules import plan_flags


def flags(**loopai):
    problems = plan_flags.red_flags(small_plan(**loopai))
    assert all((problem.severity, problem.code) == ("warning", "RED_FLAG") for problem in problems)
    return [problem.field for problem in problems]


def backend(**more):
    return {"backend": {**LOOPAI["backend"], **more}}


def test_an_ordinary_plan_has_none():
    assert flags() == []


def test_weights_that_were_not_read():
    inputs = copy.deepcopy(LOOPAI["inputs"])
    inputs["model"]["hash_weights"] = "stat"
    assert flags(inputs=inputs) == ["loopai.inputs.model.hash_weights"]


@pytest.mark.parametrize(("dirty", "words"), [(True, "differs"), (None, "git did not say")])
def test_a_checkout_that_is_not_its_commit(dirty, words):
    block = backend(checkout={"path": "/src/lf", "commit": "a" * 40, "dirty": dirty})
    assert flags(**block) == ["loopai.backend.checkout"]
    assert words in plan_flags.red_flags(small_plan(**block))[0].message


def test_a_clean_checkout_is_no_flag():
    assert flags(**backend(checkout={"path": "/src/lf", "commit": "a" * 40, "dirty": False})) == []


def test_code_from_elsewhere():
    assert flags(**backend(editable={"transformers": "/src/t"})) == ["loopai.backend.editable"]
    assert flags(**backend(system_packages=True)) == ["loopai.backend.system_packages"]


def test_libraries_from_elsewhere():
    launch = {**LOOPAI["launch"], "host_env": {"LANG": "C", "LD_LIBRARY_PATH": "/opt/lib", "NCCL_NET_PLUGIN": "ofi"}}
    assert flags(launch=launch) == ["loopai.launch.host_env", "loopai.launch.host_env"]


def test_a_cluster_whose_own_environment_no_digest_covers():
    launch = {**LOOPAI["launch"], "executor": "ray_jobs", "address": "http://head:8265"}
    assert flags(launch=launch) == ["loopai.launch.address"]
    assert "http://head:8265" in plan_flags.red_flags(small_plan(launch=launch))[0].message
