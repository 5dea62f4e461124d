"""All that a real LLaMA-Factory training reads is covered: `scripts/audit-reads` has an empty remainder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

AUDIT = Path(__file__).parents[2] / "scripts" / "audit_reads"


def test_every_file_that_training_reads_is_covered(tmp_path, lf_env):
    """By strace where there is one; else by a Python audit hook, which does not see what C++ and Rust open."""
    how = [] if shutil.which("strace") else ["--hook"]
    argv = [sys.executable, str(AUDIT), "--json", "--keep", str(tmp_path / "audit"), *how]
    environ = {**os.environ, "LOOPAI_TRAINER_LF_ENV": lf_env}
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["read"]["remainder"] == found["absent"]["remainder"] == []
    names = {Path(path).name.partition("-")[0] for path in found["read"]["approved"]}
    assert {"config.json", "tokenizer.json", "dataset_info.json", "train", "validation"} <= names
    assert len(found["read"]["environment"]) > 1000  # the trace saw the whole training, not only its beginning
