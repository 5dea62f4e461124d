import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.llamafactory_env import DISTRIBUTIONS, make_environment, versions_of
from fakes.safetensors_files import write_safetensors
from fakes.sft_plans import input_file, make_model_folder, make_plan

from loopai_trainer.backends.llamafactory_sft.check import check
from loopai_trainer.records import Device, Host, Versions
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import yaml_text

CASES = Path(__file__).parents[3] / "cases" / "config"
GPUS = tuple(Device(index, f"GPU-{index}", "test", 1 << 35) for index in range(4))
HOST = Host(GPUS, 8, 10**12)


def versions(**more):
    return Versions("llamafactory", "0.9.5", "3.11.7", "/env/llamafactory", {**DISTRIBUTIONS, **more}, "e" * 64)


def found(run, host=HOST, installed=None, **changes):
    return check(make_plan(run, **changes), versions(**(installed or {})), host)


def codes(run, **changes):
    return [problem.code for problem in found(run, **changes)]


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def case_keys(name):
    """The method's keys of a case's YAML; its inputs are replaced by ones that exist."""
    values = yaml_text.load((CASES / name / "train.yaml").read_text(), name).values
    ours = ("model_name_or_path", "dataset", "dataset_dir", "output_dir", "deepspeed")
    return {key: value for key, value in values.items() if key not in ours}


def test_a_sound_plan_has_no_problems(run):
    assert found(run) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stage", "pt"),
        ("do_train", False),
        ("model_name_or_path", "/other"),
        ("dataset", "train,demo"),
        ("eval_dataset", None),
    ],
)
def test_an_edit_that_leaves_the_checked_inputs_is_refused(run, key, value):
    problems = found(run, native={key: value})
    assert ("INPUT_MISMATCH", key) in [(p.code, p.field) for p in problems]


@pytest.mark.parametrize("folder", ["/data", "ONLINE", "REMOTE:someone/data"])
def test_a_registry_that_was_not_checked_is_refused(run, folder):
    assert "UNCOVERED_INPUT" in codes(run, native={"dataset_dir": folder})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("streaming", True), ("tokenized_path", "/tok"), ("adapter_name_or_path", "/adapter"),
        ("resume_from_checkpoint", "/old/checkpoint-9"), ("new_special_tokens_config", "/t.yaml"), ("push_to_hub", True),
        ("media_dir", "/m"),
    ],
)  # fmt: skip
def test_what_the_hash_does_not_cover_is_refused(run, key, value):
    problems = found(run, native={key: value})
    assert [(p.code, p.field) for p in problems] == [("UNCOVERED_INPUT", key)]


def test_a_file_that_is_not_a_pinned_copy_is_refused(run, tmp_path):
    other = input_file(tmp_path / "ds.json", b'{"zero_optimization": {"stage": 2}}')
    installed = {"deepspeed": "0.18"}
    assert codes(run, native={"deepspeed": other.path}, installed=installed) == ["UNCOVERED_INPUT"]
    assert codes(run, native={"deepspeed": other.path}, files=(other,), installed=installed) == []


def test_a_pinned_file_that_is_no_json_is_refused(run, tmp_path):
    bad = input_file(tmp_path / "fsdp.json", b"[1]")
    assert codes(run, native={"fsdp_config": bad.path}, files=(bad,)) == ["FILE_INVALID"]


def test_cfg_07a_an_output_folder_of_an_older_run_is_refused(run):
    shutil.copytree(CASES / "CFG-07A" / "out", run / "checkpoints")
    (problem,) = found(run)
    assert problem.code == "OUTPUT_NOT_FRESH"
    assert "checkpoint-100, checkpoint-200, trainer_log.jsonl" in problem.message


def test_another_output_folder_is_refused(run):
    assert codes(run, native={"output_dir": "./out"}) == ["OUTPUT_ELSEWHERE"]


def test_val_size_and_evaluation_without_data_are_refused(run):
    assert codes(run, native={"val_size": 0.1}) == ["VAL_SIZE"]
    assert codes(run, native={"eval_strategy": "steps"}, validation_rows=0) == ["NO_EVAL_DATA"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"validation_rows": 0}, "load_best_model_at_end"),
        ({"native": {"save_strategy": "epoch"}}, "save_strategy"),
        ({"native": {"eval_steps": 15}}, "save_steps"),
    ],
)
def test_the_best_model_needs_evaluations_where_it_is_saved(run, changes, field):
    problems = found(run, template={"load_best_model_at_end": True}, **changes)
    assert [(p.code, p.field) for p in problems] == [("BEST_NEEDS_EVAL", field)]


def test_a_keep_limit_that_can_delete_the_best_is_a_warning(run):
    (problem,) = found(run, template={"save_steps": 10})
    assert (problem.severity, problem.code) == ("warning", "BEST_MAY_BE_DELETED")
    assert "of 4 checkpoints the newest 2 are kept" in problem.message
    assert codes(run, template={"save_steps": 10, "load_best_model_at_end": True}) == []
    assert codes(run, template={"save_steps": 10, "save_total_limit": 4}) == []


def test_no_checkpoints_no_loss_lines_and_a_hidden_nan_are_told(run):
    assert codes(run, native={"save_strategy": "no"}) == ["NO_CHECKPOINTS"]
    assert codes(run, native={"logging_steps": 500}) == ["NO_LOSS_LINE"]
    assert codes(run, native={"logging_nan_inf_filter": None}) == ["NAN_FILTER"]


@pytest.mark.parametrize(
    ("launch", "native", "code"),
    [
        ({"env": {"USE_V1": "1"}}, {}, "ENV_NOT_ALLOWED"),
        ({"pass_env": ["PATH"]}, {}, "ENV_NOT_ALLOWED"),
        ({"devices": "0-3"}, {}, "DEVICES_INVALID"),
        ({"devices": "0,0"}, {}, "DEVICES_INVALID"),
        ({"devices": "0,9"}, {}, "DEVICE_NOT_FOUND"),
        ({"devices": ""}, {"bf16": True}, "BF16_ON_CPU"),
        ({}, {"use_cpu": True, "pure_bf16": True}, "BF16_ON_CPU"),
        ({}, {"use_cpu": True, "fp16": True}, "BF16_ON_CPU"),
        ({"nproc_per_node": 2, "devices": "0,1"}, {}, "BLANK_IN_PATH"),
    ],
)
def test_launch_rules(run, launch, native, code):
    spaced = Versions("llamafactory", "0.9.5", "3.11.7", "/my env/llamafactory", DISTRIBUTIONS, "e" * 64)
    plan = make_plan(run, native=native, launch=launch)
    assert [p.code for p in check(plan, spaced, HOST)] == [code]


def test_no_gpu_is_a_warning_and_none_for_a_cpu_plan(run):
    host = Host((), 8, 10**12)
    (problem,) = found(run, host=host)
    assert (problem.severity, problem.code) == ("warning", "NO_DEVICE")
    assert found(run, host=host, native={"use_cpu": True}) == []


def test_cfg_06a_one_misspelt_lora_target_is_refused_with_the_right_one(run):
    problems = found(run, template=case_keys("CFG-06A"))
    (problem,) = [p for p in problems if p.code == "LORA_TARGET_UNKNOWN"]
    assert problem.severity == "error" and problem.hint == "did you mean q_proj?"
    assert "'q_porj'" in problem.message and "k_proj" in problem.message


@pytest.mark.parametrize("target", ["q_proj,v_proj", ["q_proj", "up_proj"], "all", "self_attn.q_proj"])
def test_lora_targets_that_match_are_accepted(run, target):
    assert codes(run, template={"finetuning_type": "lora", "lora_target": target}) == []


@pytest.mark.parametrize(("tied", "expected"), [(True, []), (False, ["LORA_TARGET_UNKNOWN"])])
def test_the_head_of_a_model_with_tied_embeddings_is_a_module_though_no_file_holds_it(run, tmp_path, tied, expected):
    model = make_model_folder(tmp_path / "tied", {"tie_word_embeddings": tied})
    template = {"finetuning_type": "lora", "lora_target": "all", "additional_target": "embed_tokens,lm_head"}
    assert [problem.code for problem in found(run, template=template, model=model)] == expected


def test_a_lora_target_of_a_model_with_experts_is_a_warning(run, tmp_path):
    model = make_model_folder(tmp_path / "moe", {"num_experts": 8})
    (problem,) = found(run, template={"finetuning_type": "lora", "lora_target": "zzz"}, model=model)
    assert (problem.severity, problem.hint) == ("warning", "use one of the model's modules")


def test_cfg_08a_zero3_with_4_bit(run):
    zero3 = input_file(run / "inputs" / "ds_z3.json", (CASES / "CFG-08A" / "ds_z3.json").read_bytes())
    changes = {"template": {**case_keys("CFG-08A"), "deepspeed": zero3.path}, "files": (zero3,)}
    problems = found(run, **changes)
    assert [(p.severity, p.code) for p in problems] == [
        ("error", "ZERO3_NO_WEIGHTS"),
        ("error", "PACKAGE_MISSING"),
        ("error", "PACKAGE_MISSING"),
        ("warning", "QUANT_WITH_SHARDING"),
    ]
    assert {p.field for p in problems if p.code == "PACKAGE_MISSING"} == {"deepspeed", "quantization_bit"}


ZERO3 = {"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}}


@pytest.mark.parametrize(
    ("template", "config", "expected"),
    [
        ({"finetuning_type": "full", "quantization_bit": 4}, {}, ["QUANT_NEEDS_LORA"]),
        ({"finetuning_type": "lora", "quantization_bit": 8, "deepspeed": ZERO3}, {}, ["QUANT_WITH_SHARDING"]),
        (
            {"finetuning_type": "lora", "fsdp": "full_shard"},
            {"quantization_config": {"quant_method": "gptq"}},
            ["QUANT_WITH_SHARDING"],
        ),
        ({"finetuning_type": "lora", "deepspeed": ZERO3}, {"quantization_config": {"quant_method": "fp8"}}, []),
        ({"finetuning_type": "full"}, {"quantization_config": {"quant_method": "awq"}}, ["QUANT_NEEDS_LORA"]),
    ],
)
def test_quantisation_rules(run, tmp_path, template, config, expected):
    model = make_model_folder(tmp_path / "quantised", config)
    installed = {"bitsandbytes": "0.49", "deepspeed": "0.18"}
    assert codes(run, template=template, model=model, installed=installed) == expected


def test_more_processes_than_devices_are_refused(run):
    assert codes(run, launch={"devices": "0,1", "nproc_per_node": 3}) == ["PROCESSES_EXCEED_DEVICES"]
    assert codes(run, launch={"devices": "0,1", "nproc_per_node": 2}) == []
    assert codes(run, launch={"devices": "", "nproc_per_node": 3}, template={"use_cpu": True}) == []


@pytest.mark.parametrize("report_to", ["wandb", ["tensorboard"]])
def test_packages_that_the_keys_need_have_to_be_there(run, report_to):
    (problem,) = found(run, template={"report_to": report_to})
    assert (problem.code, problem.where, problem.field) == ("PACKAGE_MISSING", "environment", "report_to")


@pytest.mark.parametrize(
    ("native", "installed", "found_codes"),
    [
        ({"report_to": "all"}, {}, ["REPORT_TO"]),
        ({"report_to": ["trackio"]}, {"trackio": "1"}, []),
        ({"use_swanlab": True}, {}, ["PACKAGE_MISSING"]),
        ({"use_swanlab": True}, {"swanlab": "1"}, []),
        ({"use_swanlab": True, "swanlab_mode": "local"}, {"swanlab": "1"}, ["PACKAGE_MISSING"]),
        ({"use_swanlab": True, "swanlab_mode": "local"}, {"swanlab": "1", "swanboard": "1"}, []),
    ],
)
def test_where_metrics_go(run, native, installed, found_codes):
    assert [problem.code for problem in found(run, installed=installed, native=native)] == found_codes


def test_a_merge_that_cannot_be_made_is_refused_before_training(run):
    plan = make_plan(run, {"finetuning_type": "lora", "resize_vocab": True})
    plan = plans.render(plan.loopai, {**plan.result, "export_huggingface": True}, plan.native)
    assert [problem.code for problem in check(plan, versions(), HOST)] == ["EXPORT_VOCABULARY"]


def test_cfg_05b_a_pointer_file_and_no_tokenizer_are_both_found(run):
    problems = found(run, model=CASES / "CFG-05B" / "model", template=case_keys("CFG-05B"))
    assert [(p.severity, p.code) for p in problems] == [("error", "TOKENIZER_MISSING"), ("error", "MODEL_LFS_POINTER")]


def test_cfg_10a_not_enough_disk_is_refused_with_the_formula(run, tmp_path):
    model = make_model_folder(tmp_path / "seven-b")
    # 15.2 GB of bfloat16, a hole in the file.
    write_safetensors(model / "model.safetensors", {"model.embed_tokens.weight": ("BF16", (7_600_000, 1000))})
    keys = {key: value for key, value in case_keys("CFG-10A").items() if key not in ("num_train_epochs", "save_steps")}
    template = {**keys, "max_steps": 1000, "save_steps": 100}
    problems = found(run, host=Host(GPUS, 8, 40 * 10**9), template=template, model=model, validation_rows=0)
    (problem,) = problems
    assert (problem.severity, problem.code) == ("error", "DISK_SPACE")
    assert "the weights alone take 91 GB" in problem.message
    assert "(5 kept + 1 during a save) x (15.2 GB weights + 60.8 GB Adam moments)" in problem.message
    assert "about 471 GB of disk are needed, 40 GB are free" in problem.message


def test_errors_come_first(run):
    problems = found(run, host=Host((), 8, 10**12), native={"val_size": 0.1})
    assert [p.severity for p in problems] == ["error", "warning"]


def test_a_deepspeed_file_that_is_gone_is_told_once(run):
    gone = input_file(run / "inputs" / "deepspeed.json", json.dumps(ZERO3).encode())
    plan = make_plan(run, template={"deepspeed": gone.path}, files=(gone,))
    Path(gone.path).unlink()
    assert [p.code for p in check(plan, versions(deepspeed="0.18"), HOST)] == ["FILE_INVALID"]


def test_a_run_folder_that_cannot_be_written_is_refused(run, monkeypatch):
    import os

    plan = make_plan(run)
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(run))
    assert [p.code for p in check(plan, versions(), HOST)] == ["OUTPUT_NOT_WRITABLE"]


def test_a_template_that_does_not_fit_is_refused_and_may_be_allowed(run, tmp_path):
    held = versions_of(make_environment(tmp_path / "env"))
    plan = make_plan(run, native={"template": "llama3"})
    (problem,) = check(plan, held, HOST)
    assert (problem.severity, problem.code) == ("error", "TEMPLATE_MISMATCH")
    allowed = replace(
        plan, values={**plan.values, "loopai": {**plan.loopai, "checks": {"allow_template_mismatch": True}}}
    )
    assert [(p.severity, p.code) for p in check(allowed, held, HOST)] == [("warning", "TEMPLATE_MISMATCH")]


@pytest.mark.parametrize("launch", [{"nproc_per_node": 0}, {"nproc_per_node": -3}])
def test_no_process_at_all_is_refused(run, launch):
    assert codes(run, launch=launch) == ["PROCESSES_INVALID"]


def test_several_nodes_need_a_meeting_point_or_a_cluster(tmp_path):
    run = tmp_path / "run"
    assert codes(run, launch={"nodes": 2}) == ["NODES"]
    assert codes(run, launch={"nodes": 2, "env": {"MASTER_ADDR": "h", "MASTER_PORT": "29500"}}) == []
    ray = {"executor": "ray_jobs", "address": "http://h:8265", "interpreter": "/py", "resources": {"CPU": 1}}
    assert codes(run, launch={"nodes": 2, **ray}) == []
    assert codes(run, launch={"devices": "7", **ray}) == []  # which there are, the cluster says
    assert codes(run, launch={"nodes": 2, **ray, "address": ""}) == ["ADDRESS_MISSING"]


@pytest.mark.parametrize("nodes", [0, -1])
def test_numbers_of_nodes_that_are_none(run, nodes):
    assert codes(run, launch={"nodes": nodes}) == ["NODES"]


def test_an_executor_that_nobody_knows_is_refused(run):
    assert codes(run, launch={"executor": "moon"}) == ["EXECUTOR_UNKNOWN"]
    assert codes(run, launch={"executor": "inline"}) == []


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"selection_metric": "bleu"}, ["SELECTION_INVALID"]),
        ({"selection_mode": "max"}, ["SELECTION_INVALID"]),
        ({"selection_metric": ["loss"], "selection_mode": None}, ["SELECTION_INVALID"] * 2),
        ({"selection_metric": "loss"}, []),
    ],
)
def test_a_result_is_chosen_by_a_loss_and_the_lowest(run, result, expected):
    plan = make_plan(run)
    changed = replace(plan, values={**plan.values, "result": {**plan.result, **result}})
    assert [p.code for p in check(changed, versions(), HOST)] == expected


def test_eval_loss_needs_evaluation_data(run):
    plan = make_plan(run, validation_rows=0)
    changed = replace(plan, values={**plan.values, "result": {**plan.result, "selection_metric": "eval_loss"}})
    assert [p.code for p in check(changed, versions(), HOST)] == ["SELECTION_INVALID"]


@pytest.mark.parametrize("value", [0, -5, 10**400, float("inf"), float("nan"), "x", True])
@pytest.mark.parametrize("key", ["num_train_epochs", "per_device_train_batch_size", "save_steps", "logging_steps"])
def test_values_that_are_refused_elsewhere_do_not_break_the_check(run, key, value):
    plan = make_plan(run)
    check(replace(plan, values={**plan.values, key: value}), versions(), HOST)


@pytest.mark.parametrize(("name", "hint"), [("qwem", "did you mean qwen?"), ("zzz", "use one of default, qwen")])
def test_a_tool_format_that_llamafactory_does_not_have_is_refused(run, tmp_path, name, hint):
    held = versions_of(make_environment(tmp_path / "env"))
    (problem,) = check(make_plan(run, native={"tool_format": name}), held, HOST)
    assert problem.code == "TOOL_FORMAT_UNKNOWN" and problem.hint.startswith(hint)
    assert check(make_plan(run, native={"tool_format": "qwen"}), held, HOST) == []


@pytest.mark.parametrize(
    ("env", "pass_env", "code"),
    [
        ({"LD_PRELOAD": "/x.so"}, [], "ENV_NOT_ALLOWED"),
        ({"HF_TOKEN": "s3cret"}, [], "SECRET_IN_CONFIG"),
        ({"NCCL_DEBUG": ["a"]}, [], "ENV_NOT_ALLOWED"),
        ({}, ["PYTHONSTARTUP"], "ENV_NOT_ALLOWED"),
        ({}, [{"a": 1}], "ENV_NOT_ALLOWED"),
    ],
)
def test_variables_outside_the_allow_list_are_refused_and_no_secret_is_shown(run, env, pass_env, code):
    (problem,) = found(run, launch={"env": env, "pass_env": pass_env})
    assert problem.code == code and "s3cret" not in problem.message + problem.hint
