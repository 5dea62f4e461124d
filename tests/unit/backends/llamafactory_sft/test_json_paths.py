import json

import pytest

from loopai_trainer.backends.llamafactory_sft.json_paths import json_path_problems

RUN = "/out/run"

ZERO_3 = {
    "train_batch_size": "auto",
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95]}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}},
    "communication_data_type": "fp32",
}


def judge(content, tmp_path, key="deepspeed", *, as_file=True):
    value = content
    if as_file:
        value = str(tmp_path / "config.json")
        (tmp_path / "config.json").write_text(json.dumps(content))
    return [(problem.code, problem.field) for problem in json_path_problems({key: value}, RUN)]


@pytest.mark.parametrize("as_file", [True, False])
def test_an_ordinary_configuration_passes(tmp_path, as_file):
    assert judge(ZERO_3, tmp_path, as_file=as_file) == []


@pytest.mark.parametrize("as_file", [True, False])
@pytest.mark.parametrize("key", ["deepspeed", "fsdp_config", "accelerator_config"])
@pytest.mark.parametrize(
    "content",
    [
        {"checkpoint": {"load_universal_checkpoint": "/models/other"}},
        {"data_efficiency": {"data_sampling": {"index_to_sample_path": "indexes"}}},
        {"tensor_parallel": {"injection_policy": {"x": "/opt/code.py"}}},
        {"a": [{"b": ["../x"]}]},
        {"future_file": "x.json"},
    ],
)
def test_what_would_be_read_unchecked_is_refused(tmp_path, content, key, as_file):
    assert judge(content, tmp_path, key, as_file=as_file) == [("UNCOVERED_INPUT", key)]


@pytest.mark.parametrize("name", ["tensorboard", "csv_monitor"])
@pytest.mark.parametrize(
    ("path", "codes"), [("/logs", ["OUTPUT_ELSEWHERE"]), ("../..", ["OUTPUT_ELSEWHERE"]), ("logs", [])]
)
def test_monitors_write_into_the_run(tmp_path, name, path, codes):
    found = judge({name: {"enabled": True, "output_path": path}}, tmp_path)
    assert [code for code, _ in found] == codes


def test_a_file_that_is_none_is_somebody_elses_finding(tmp_path):
    assert list(json_path_problems({"deepspeed": str(tmp_path / "none.json")}, RUN)) == []
    assert list(json_path_problems({"deepspeed": None, "fsdp_config": ""}, RUN)) == []
