from pathlib import Path

import pytest
from fakes.sft_plans import TEMPLATE, make_data, make_paths, make_plan

from loopai_trainer.backends.llamafactory_sft.draft import FIRST_KEYS, draft
from loopai_trainer.records import Model, Settings


def drafted(tmp_path, validation_rows=10, train_rows=90, settings=None, **template):
    base = {key: value for key, value in {**TEMPLATE, **template}.items() if value is not None}
    data = make_data(tmp_path / "run", train_rows, validation_rows)
    chosen = Settings({"CUDA_VISIBLE_DEVICES": "0", **(settings or {})}, {})
    return draft(chosen, data, base, Model("/models/m", "f" * 64), make_paths(tmp_path / "run"))


def test_inputs_are_ours_whatever_the_template_says(tmp_path):
    native = drafted(
        tmp_path, dataset="alpaca_demo", dataset_dir="data", val_size=0.1, output_dir="saves", model_name_or_path="x/y",
        do_train=False, stage="sft",
    )  # fmt: skip
    run = tmp_path / "run"
    assert native["model_name_or_path"] == "/models/m"
    assert (native["dataset"], native["eval_dataset"]) == ("train", "validation")
    assert native["dataset_dir"] == str(run / "prepared_data")
    assert native["output_dir"] == str(run / "checkpoints")
    assert native["do_train"] is True
    assert "val_size" not in native


def test_what_protects_a_run_is_set(tmp_path):
    native = drafted(tmp_path)
    assert native["logging_nan_inf_filter"] is False
    assert native["overwrite_output_dir"] is False
    assert native["report_to"] == "none"
    assert native["plot_loss"] is True
    assert native["disable_tqdm"] is True
    assert native["save_total_limit"] == 2
    assert native["seed"] == 42


def test_what_the_template_chose_stays(tmp_path):
    native = drafted(
        tmp_path, save_total_limit=5, learning_rate=3.0e-4, weight_decay=0.1, report_to="tensorboard", seed=7
    )
    assert native["save_total_limit"] == 5 and native["learning_rate"] == 3.0e-4
    assert native["weight_decay"] == 0.1 and native["report_to"] == "tensorboard" and native["seed"] == 7


def test_further_places_for_metrics_are_off_unless_asked(tmp_path):
    assert "use_swanlab" not in drafted(tmp_path) and "run_name" not in drafted(tmp_path)
    native = drafted(tmp_path, settings={"report_to": "wandb,trackio", "task_id": "demo", "trainer_version_id": "v1"})
    assert (native["report_to"], native["run_name"], native["project"]) == (["wandb", "trackio"], "v1", "demo")


@pytest.mark.parametrize(("online", "mode"), [(True, "cloud"), (False, "local")])
def test_swanlab_has_llamafactorys_own_keys(tmp_path, online, mode):
    asked = {"train_input_use_swanlab": True, "train_input_swanlab_project": "mine", "report_online": online}
    native = drafted(tmp_path, settings=asked)
    assert native["report_to"] == "none"
    assert [native[f"swanlab_{key}"] for key in ("project", "run_name", "mode", "logdir")] == [
        "mine", "run", mode, str(tmp_path / "run" / "metrics" / "swanlab"),
    ]  # fmt: skip
    assert native["use_swanlab"] is True


def test_every_lora_field_is_made_visible(tmp_path):
    native = drafted(tmp_path, finetuning_type="lora", lora_rank=16)
    assert [native[key] for key in ("lora_rank", "lora_alpha", "lora_dropout", "lora_target")] == [16, 32, 0.0, "all"]
    assert "lora_rank" not in drafted(tmp_path)


def test_evaluation_happens_where_checkpoints_are_saved(tmp_path):
    native = drafted(tmp_path)
    assert (native["eval_strategy"], native["eval_steps"], native["save_steps"]) == ("steps", 20, 20)
    native = drafted(tmp_path, save_strategy="epoch", save_steps=None)
    assert (native["eval_strategy"], native.get("eval_steps")) == ("epoch", None)
    native = drafted(tmp_path, eval_strategy=False)
    assert native["eval_strategy"] == "steps"


def test_without_validation_rows_nothing_is_evaluated(tmp_path):
    native = drafted(
        tmp_path, validation_rows=0, eval_strategy="steps", eval_steps=5, per_device_eval_batch_size=2, do_eval=True
    )
    assert native["eval_strategy"] == "no"
    assert not {"eval_steps", "eval_dataset", "per_device_eval_batch_size", "do_eval"} & set(native)


@pytest.mark.parametrize(
    ("template", "logging_steps"),
    [
        ({"max_steps": 8, "logging_steps": 500}, 1),
        ({"max_steps": 40, "logging_steps": 30}, 4),
        ({"max_steps": 40, "logging_steps": 20}, 20),
        ({"max_steps": 40}, 2),
        ({"max_steps": 4000}, 10),
        ({"max_steps": None, "num_train_epochs": 1.0}, 1),
        ({"max_steps": None, "packing": True}, 10),
    ],
)
def test_short_runs_log_too(tmp_path, template, logging_steps):
    assert drafted(tmp_path, **template)["logging_steps"] == logging_steps


@pytest.mark.parametrize(("max_steps", "save_steps"), [(40, 10), (4000, 500), (3, 1)])
def test_save_steps_fit_the_run_if_the_template_has_none(tmp_path, max_steps, save_steps):
    assert drafted(tmp_path, save_steps=None, max_steps=max_steps)["save_steps"] == save_steps


def test_more_devices_make_fewer_steps(tmp_path):
    few = {"max_steps": None, "num_train_epochs": 10.0, "save_steps": None, "gradient_accumulation_steps": 1}
    one = drafted(tmp_path, train_rows=96, **few)
    four = drafted(tmp_path, train_rows=96, settings={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, **few)
    assert (one["save_steps"], four["save_steps"]) == (120, 30)
    two = drafted(tmp_path, train_rows=96, settings={"nproc_per_node": 2}, use_cpu=True, **few)
    assert two["save_steps"] == 60
    odd = drafted(tmp_path, train_rows=96, settings={"CUDA_VISIBLE_DEVICES": "0-3"}, **few)
    assert odd["save_steps"] == 120


def test_known_keys_come_in_reading_order_and_others_after_them(tmp_path):
    keys = list(drafted(tmp_path, weight_decay=0.1, adam_beta1=0.9))
    known = [key for key in FIRST_KEYS if key in keys]
    assert keys[: len(known)] == known
    assert keys.index("weight_decay") < keys.index("adam_beta1")


def test_the_same_arguments_give_the_same_yaml(tmp_path):
    first, second = make_plan(tmp_path / "run"), make_plan(tmp_path / "run")
    assert (first.text, first.sha256) == (second.text, second.sha256)
    assert Path(first.native["dataset_dir"]).is_absolute()
