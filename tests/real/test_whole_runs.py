"""From prepare to the chosen checkpoint with real LLaMA-Factory: full, LoRA (and its merged model), and two ranks."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from fakes.cli import trainer

from loopai_trainer.files import exported_model, safetensors

pytestmark = pytest.mark.real

RUNS = ("full_run", "lora_run", "ranks_run")


@pytest.fixture(params=RUNS)
def run(request):
    return request.getfixturevalue(request.param)


def events(run):
    return [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]


def test_it_completes_and_says_why_it_chose(run):
    assert run.ended.code == 0, run.ended.out + run.ended.err
    data = run.ended.data
    assert data["status"] == "completed"
    assert data["current_step"] == data["total_steps"] > 0
    assert data["best_checkpoint"]["exact"] is True
    assert data["best_metric"]["name"] == "eval_loss"
    assert data["result"]["reason"].startswith(f"{data['best_checkpoint']['name']} was chosen: lowest eval_loss")


def test_the_best_checkpoint_has_the_lowest_eval_loss_of_those_kept(run):
    state = json.loads((run.folder / "checkpoints" / "trainer_state.json").read_text())
    evaluations = {row["step"]: row["eval_loss"] for row in state["log_history"] if "eval_loss" in row}
    kept = [checkpoint["step"] for checkpoint in run.ended.data["checkpoints"] if checkpoint["complete"]]
    assert run.ended.data["best_checkpoint"]["step"] == min(kept, key=evaluations.get)
    assert run.ended.data["best_metric"]["value"] == pytest.approx(min(evaluations.values()))


def test_llamafactory_trains_on_exactly_the_approved_rows(run):
    log = (run.folder / "train.log").read_text()
    said = [int(number) for number in re.findall(r"Num examples = ([\d,]+)", log)]
    counts = run.prepared.data["counts"]
    assert said[0] == counts["train"]["usable"] == 112
    assert set(said[1:]) == {counts["validation"]["usable"]} == {16}
    state = json.loads((run.folder / "run_state.json").read_text())
    assert (state["train_examples"], state["validation_examples"]) == (112, 16)


def test_what_it_leaves_behind(run):
    expected = (
        "training_report.md",
        "report.html",
        "loss.png",
        "worker_result.json",
        "metrics/metrics.jsonl",
        "metrics/metrics.json",
    )
    for name in (*expected, "approval.json", "train.log", "launch/started", "launch/exit.json"):
        assert (run.folder / name).stat().st_size > 0, name
    assert not (run.folder / "launch" / "cache").exists()
    assert not (run.folder / "launch" / "tmp").exists()
    approved = run.folder / "configs" / f"{run.prepared.data['trainer_version_id']}.yaml"
    assert approved.read_bytes() == (run.folder / "training_config.yaml").read_bytes()
    result = json.loads((run.folder / "worker_result.json").read_text())
    assert result["best_checkpoint"] == run.ended.data["best_checkpoint"]


def test_progress_was_told_phase_by_phase(run):
    nodes = [event["node"] for event in events(run)]
    first = {node: nodes.index(node) for node in nodes}
    assert list(first) == sorted(first, key=first.get)
    assert {"starting", "loading_data", "tokenising", "training", "finalizing", "completed"} <= set(first)
    assert first["loading_data"] < first["tokenising"] < first["training"] < first["finalizing"]
    numbers = [event["seq"] for event in events(run)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_same_call_again_gives_the_stored_result_and_starts_nothing(run, workshop):
    before = (run.folder / "launch" / "started").read_bytes()
    again = workshop.run(run.prepared)
    assert (again.code, again.answer) == (0, run.ended.answer)
    assert (run.folder / "launch" / "started").read_bytes() == before


def test_the_inherited_environment_does_not_reach_training(run):
    request = json.loads((run.folder / "launch" / "request.json").read_text())
    text = json.dumps(request)
    assert "PYTHONPATH" not in request.get("environment", request.get("env", {}))
    assert "LOOPAI_TRAINER_LF_ENV" not in text


def test_a_full_run_gives_a_model_folder(full_run):
    path = full_run.ended.data["update_model_path"]
    assert path == full_run.ended.data["best_checkpoint"]["path"]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        p.name for p in (full_run.folder / "checkpoints").iterdir()
    }
    assert full_run.ended.data["total_steps"] == 12


def test_a_run_directory_elsewhere_belongs_to_its_task_all_the_same(lora_run, workshop):
    assert lora_run.folder.name == "a place of its own"
    approvals = (workshop.output / "real" / "approvals.jsonl").read_text()
    assert "lora" in [json.loads(line)["version_id"] for line in approvals.splitlines()]
    assert trainer("status", "lora", **workshop.environ).data["run_dir"] == str(lora_run.folder)


def test_a_lora_run_gives_an_adapter_and_says_so(lora_run):
    path = lora_run.ended.data["best_checkpoint"]["path"]
    assert lora_run.ended.data["update_model_path"] == path
    assert any("adapter" in warning for warning in lora_run.ended.data["result"]["warnings"])
    summary = lora_run.prepared.data["summary"]
    assert {"lora_rank", "lora_alpha", "lora_dropout", "lora_target"} <= set(summary)


def test_two_ranks_double_the_batch_and_both_end(ranks_run):
    assert ranks_run.prepared.data["summary"]["world_size"] == 2
    assert ranks_run.prepared.data["summary"]["effective_batch"] == 16
    names = {
        p.name for p in (ranks_run.folder / "checkpoints" / ranks_run.ended.data["best_checkpoint"]["name"]).iterdir()
    }
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= names


def test_the_read_only_commands_agree_with_the_result(full_run, workshop):
    folder = full_run.folder
    status = trainer("status", folder, **workshop.environ)
    assert status.data["best_checkpoint"] == full_run.ended.data["best_checkpoint"]
    analysis = trainer("analyze", folder, **workshop.environ)
    assert analysis.data["best_checkpoint"] == full_run.ended.data["best_checkpoint"]
    bare = trainer("analyze", folder / "checkpoints", **workshop.environ)
    assert bare.data["best_checkpoint"]["name"] == full_run.ended.data["best_checkpoint"]["name"]
    waited = trainer("wait", folder, **workshop.environ)
    assert (waited.code, waited.data) == (0, full_run.ended.data)
    listed = trainer("list", "--output-dir", workshop.output, **workshop.environ)
    assert "full" in [item["trainer_version_id"] for item in listed.data["runs"]]
    lines = trainer("logs", folder, "--tail", "5", **workshop.environ).data["lines"]
    assert len(lines) == 5
    found = trainer("events", folder, "--since", "2", **workshop.environ).data
    assert found["events"][0]["seq"] == 3
    assert found["next_seq"] == found["events"][-1]["seq"]


def test_a_version_that_ran_is_never_prepared_again(full_run, workshop):
    before = (full_run.folder / "training_config.yaml").read_bytes()
    refused = workshop.prepare("full")
    assert (refused.code, refused.error["code"]) == (7, "VERSION_IN_USE")
    assert (full_run.folder / "training_config.yaml").read_bytes() == before


COMPARE = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
base, merged = (AutoModelForCausalLM.from_pretrained(path, dtype="auto") for path in sys.argv[1:])
old, new = base.state_dict(), merged.state_dict()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
text = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False)
out = merged.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=3, do_sample=False)
print(json.dumps({
    "same_names": sorted(old) == sorted(new),
    "changed": sorted(name for name in old if not torch.equal(old[name], new[name])),
    "dtypes": sorted({str(one.dtype) for one in new.values()}),
    "new_tokens": int(out.shape[1]),
}))
"""


def test_an_adapter_is_merged_on_request(workshop, lora_run):
    """Last of all: what it exports becomes part of the run's stored result."""
    version = lora_run.folder
    assert lora_run.ended.code == 0, lora_run.ended.out + lora_run.ended.err
    before = lora_run.ended.data["update_model_path"]
    called = trainer("export", version, "--json", **workshop.environ)
    assert called.code == 0, called.out + called.err
    data = called.data
    assert data["path"] == str(version / "exports" / os.path.basename(before))
    assert (data["source"], data["verified"], data["checks"]) == (before, True, [])
    assert f"adapter_name_or_path: {before}" in Path(data["config_path"]).read_text()
    answer = trainer("status", version, "--json", **workshop.environ).data
    assert answer["update_model_path"] == data["path"]
    assert not any("adapter" in warning for warning in answer["result"]["warnings"])
    python = f"{workshop.lf_env}/bin/python"
    told = subprocess.run(
        [python, "-c", COMPARE, str(workshop.model), data["path"]], check=True, capture_output=True, text=True
    )
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["same_names"]
    assert any("q_proj" in name for name in found["changed"]) and not any("norm" in name for name in found["changed"])
    base = exported_model.weight_files(str(workshop.model))
    formats = {tensor.dtype for name in base for tensor in safetensors.read_header(str(workshop.model / name))}
    assert (formats, found["dtypes"]) == ({"F32"}, ["torch.float32"])
    again = trainer("export", version, "--json", **workshop.environ)
    assert again.data["path"] == data["path"]
    assert os.stat(data["path"]).st_mtime_ns == os.stat(again.data["path"]).st_mtime_ns
