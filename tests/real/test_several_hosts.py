"""Real LLaMA-Factory over two hosts without a cluster, both played by this one: torchrun's ranks meet over gloo."""

from pathlib import Path

import pytest
from fakes.cli import start
from fakes.ports import free_port

pytestmark = pytest.mark.real


def test_two_hosts_by_hand(workshop):
    meeting = ["--option", "master_addr=127.0.0.1", "--option", f"master_port={free_port()}"]
    prepared = workshop.prepare("hosts", "--nodes", "2", *meeting)
    assert prepared.code == 0, prepared.out + prepared.err
    assert prepared.data["summary"]["world_size"] == 2
    words = ["run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"], "--node-rank"]
    callers = [start(*words, rank, **workshop.environ) for rank in ("0", "1")]
    for caller in callers:
        out, err = caller.communicate(timeout=800)  # below pytest's own limit, which would show no output
        assert caller.returncode == 0, out + err
    folder = Path(prepared.data["run_dir"])
    assert "num nodes: 2, node rank: 0" in (folder / "train.log").read_text()
    assert "num nodes: 2, node rank: 1" in (folder / "train-node-1.log").read_text()
    assert (folder / "checkpoints" / "model.safetensors").exists()
