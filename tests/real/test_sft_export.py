"""A real LoRA run's adapter, merged by LLaMA-Factory's own export: it loads alone, and is not its base."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes.cli import trainer

from loopai_trainer.files import exported_model, safetensors

pytestmark = pytest.mark.real

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


def test_an_adapter_is_merged_on_request(workshop, merged_run):
    version = merged_run.folder
    assert merged_run.ended.code == 0, merged_run.ended.out + merged_run.ended.err
    before = merged_run.ended.data["update_model_path"]
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
