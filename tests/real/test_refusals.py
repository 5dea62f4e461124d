"""What was not approved does not run: with a real plan, nothing is started (no training, so it is quick)."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from fakes.cli import trainer

pytestmark = pytest.mark.real


@pytest.fixture
def prepared(workshop, request):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    found = workshop.prepare(name)
    assert found.code == 0, found.out + found.err
    return found


def nothing_started(prepared):
    folder = Path(prepared.data["run_dir"])
    return not any(
        (folder / name).exists() for name in ("approval.json", "launch", "run_state.json", "worker.log", "checkpoints")
    )


def flip(path, at=-20):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    stat = path.stat()
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_one_byte_of_the_yaml(prepared, workshop):
    config = Path(prepared.data["config_path"])
    config.write_bytes(config.read_bytes().replace(b"seed: 42", b"seed: 43"))
    refused = workshop.run(prepared)
    assert refused.code == 5
    assert refused.error["code"] == "CONFIG_HASH_MISMATCH"
    assert "seed: 43" in refused.error["changed"]["config_yaml"]
    assert "-seed: 42\n+seed: 43" in refused.error["changed"]["diff"]
    shown = trainer(
        "run-prepared", config, "--sha256", prepared.data["config_sha256"], json_answer=False, **workshop.environ
    )
    assert "+seed: 43" in shown.err
    assert refused.error["next_command"].startswith("trainer inspect ")
    assert nothing_started(prepared)


@pytest.mark.parametrize("where", ["train", "validation", "dataset_info"])
@pytest.mark.parametrize("more", [(), ("--verify-all",)])
def test_one_byte_of_an_input(prepared, workshop, where, more):
    folder = Path(prepared.data["run_dir"]) / "prepared_data"
    flip(next(folder.glob(f"{where}*")))
    refused = workshop.run(prepared, *more)
    assert refused.code == 6
    assert refused.error["code"] == "INPUT_CHANGED"
    assert where in refused.error["detail"]
    assert "expected:" in refused.error["detail"]
    assert nothing_started(prepared)


def test_a_changed_model_file(prepared, workshop):
    tokenizer = workshop.model / "tokenizer_config.json"
    before = tokenizer.read_bytes()
    try:
        tokenizer.write_bytes(before + b"\n")
        refused = workshop.run(prepared)
    finally:
        tokenizer.write_bytes(before)
    assert (refused.code, refused.error["code"]) == (6, "INPUT_CHANGED")
    assert nothing_started(prepared)


@pytest.mark.parametrize("spoil", [str.upper, lambda h: h[:8], lambda h: "0" * 64, lambda h: h[:-1]])
def test_a_hash_that_is_not_the_whole_hash(prepared, workshop, spoil):
    wrong = spoil(prepared.data["config_sha256"])
    refused = trainer("run-prepared", prepared.data["config_path"], "--sha256", wrong, **workshop.environ)
    assert refused.code == 5
    assert refused.error["expected"] == wrong
    assert nothing_started(prepared)


def test_another_version_than_the_callers(prepared, workshop):
    assert workshop.run(prepared, "--version-id", "other").code == 5
    assert nothing_started(prepared)


def test_an_expired_approval_until_it_is_inspected_again(prepared, workshop):
    plan = Path(prepared.data["run_dir"]) / "plan.json"
    noted = json.loads(plan.read_text())
    noted["prepared_at"] -= 25 * 3600
    plan.write_text(json.dumps(noted))
    refused = workshop.run(prepared)
    assert (refused.code, refused.error["code"]) == (4, "APPROVAL_EXPIRED")
    assert nothing_started(prepared)
    assert trainer("inspect", prepared.data["config_path"], **workshop.environ).code == 0
    assert json.loads(plan.read_text())["inspected_at"] > noted["prepared_at"]


def test_an_edit_that_nobody_inspected_though_its_hash_is_right(prepared, workshop):
    config = Path(prepared.data["config_path"])
    config.write_bytes(config.read_bytes().replace(b"do_train: true", b"do_train: false"))
    sha256 = hashlib.sha256(config.read_bytes()).hexdigest()
    refused = trainer("run-prepared", config, "--sha256", sha256, **workshop.environ)
    assert (refused.code, refused.error["code"]) == (4, "NOT_INSPECTED")
    assert refused.error["next_command"] == f"trainer inspect {config}"
    assert nothing_started(prepared)


def test_a_run_directory_that_was_copied(prepared, workshop, tmp_path):
    copied = tmp_path / Path(prepared.data["run_dir"]).name
    shutil.copytree(prepared.data["run_dir"], copied)
    config = copied / "training_config.yaml"
    refused = trainer("run-prepared", config, "--sha256", prepared.data["config_sha256"], **workshop.environ)
    assert (refused.code, refused.error["code"]) == (3, "WRONG_RUN_DIRECTORY")
    assert trainer("inspect", config, **workshop.environ).code == 3
    assert not (copied / "launch").exists()
    assert nothing_started(prepared)


def test_the_same_run_directory_through_a_symbolic_link_is_the_same_one(prepared, workshop, tmp_path):
    link = tmp_path / "outputs"
    link.symlink_to(workshop.output)
    config = link / "real" / "trainer" / prepared.data["trainer_version_id"] / "training_config.yaml"
    assert trainer("inspect", config, **workshop.environ).code == 0


def test_checkpoints_of_another_run_in_the_output_folder(prepared, workshop):
    checkpoint = Path(prepared.data["run_dir"]) / "checkpoints" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    refused = workshop.run(prepared)
    assert (refused.code, refused.error["code"]) == (3, "OUTPUT_NOT_FRESH")
    assert not (checkpoint.parent.parent / "launch").exists()


def test_symbolic_links(prepared, workshop, tmp_path):
    link = tmp_path / "training_config.yaml"
    link.symlink_to(prepared.data["config_path"])
    refused = trainer("run-prepared", link, "--sha256", prepared.data["config_sha256"], **workshop.environ)
    assert (refused.code, refused.error["code"]) == (4, "APPROVAL_INVALID")
    assert nothing_started(prepared)


def test_a_device_that_is_not_there(workshop):
    found = workshop.prepare("no-device", "--set", "use_cpu=false", "--devices", "0")
    assert found.code == 0, found.out
    assert "NO_DEVICE" in [warning["code"] for warning in found.data["warnings"]]
    refused = workshop.run(found)
    assert (refused.code, refused.error["code"]) == (9, "NO_DEVICE")
    assert nothing_started(found)


def test_the_same_inputs_settings_and_version_give_the_same_bytes(workshop):
    first = workshop.prepare("twice")
    config = Path(first.data["config_path"])
    text, names = config.read_bytes(), sorted(p.name for p in (config.parent / "prepared_data").iterdir())
    second = workshop.prepare("twice")
    assert second.data["config_sha256"] == first.data["config_sha256"]
    assert config.read_bytes() == text
    assert sorted(p.name for p in (config.parent / "prepared_data").iterdir()) == names


def test_an_edit_is_inspected_and_gets_its_own_hash(prepared, workshop):
    config = Path(prepared.data["config_path"])
    config.write_text(config.read_text().replace("learning_rate: 0.003", "learning_rate: 0.002"))
    inspected = trainer("inspect", config, **workshop.environ)
    assert inspected.code == 0
    assert inspected.data["config_sha256"] != prepared.data["config_sha256"]
    assert inspected.data["summary"]["learning_rate"] == 0.002
    assert workshop.run(prepared).code == 5


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("learning_rate: 0.003", "learning_rte: 0.003", "UNKNOWN_KEY"),
        ("learning_rate: 0.003", "learning_rate: '1e-4'", "WRONG_TYPE"),
        ("seed: 42", "seed: 42\nseed: 43", "DUPLICATE_KEY"),
        ("  format: 1", "  format: 2", "RESERVED_BLOCK"),
        ("dataset: train", "dataset: other", None),
        ("model_name_or_path: ", "model_name_or_path: /elsewhere", None),
    ],
)
def test_an_edit_that_breaks_the_plan_is_refused_by_inspect(prepared, workshop, old, new, code):
    config = Path(prepared.data["config_path"])
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))
    refused = trainer("inspect", config, **workshop.environ)
    assert refused.code == 3, refused.out
    if code:
        assert code in [problem["code"] for problem in refused.error["problems"]]
