"""Prompt optimisation with real Agent Lightning 0.3.0 against an endpoint on the loopback."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.agent_runs import EAGER, EXAMPLES, AgentWorkshop, Ended
from fakes.prompt_endpoint import GOOD, PromptEndpoint

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, agl_env: str) -> AgentWorkshop:
    return AgentWorkshop(tmp_path_factory.mktemp("agl"), agl_env)


SEED = "Question: {question}"
SEARCH = {
    "algorithm": {
        "name": "apo",
        "beam_width": 1,
        "branch_factor": 1,
        "beam_rounds": 1,
        "gradient_batch_size": 2,
        "val_batch_size": 4,
    },
    "resources": {"prompt_template": {"template": SEED, "engine": "f-string"}},
    "strategy": {"name": "client_server", "n_runners": 1},
    "runner": EAGER,
    "adapter": "messages",
    "val_size": 0.5,
}


def loud_agent(workshop: AgentWorkshop) -> Path:
    """The example, which tells everybody its key."""
    path, quiet = workshop.root / "loud_agent.py", 'agl.emit_message(f"{prompt} -> {reply}")'
    text = (EXAMPLES / "sum_agent.py").read_text()
    assert quiet in text
    loud = 'print("my key is", os.environ["OPENAI_API_KEY"])\n    agl.emit_message(os.environ["OPENAI_API_KEY"])'
    path.write_text(text.replace(quiet, loud))
    return path


def search(workshop: AgentWorkshop, version: str, endpoint: PromptEndpoint, count: int = 4, **more: Any) -> Ended:
    llm = {
        "base_url": endpoint.url,
        "gradient_model": "fake-gradient",
        "apply_edit_model": "fake-edit",
        "max_retries": 0,
    }
    keys = {**SEARCH, "llm": llm, "agent": {"file": str(loud_agent(workshop)), "name": "prompted"}, **more}
    environ = dict(workshop.environ)
    workshop.environ["OPENAI_API_KEY"] = "key-of-the-test"
    try:
        return workshop.whole(version, "apo", workshop.tasks(version, count), **keys)
    finally:
        workshop.environ = environ


@pytest.fixture(scope="module")
def searched(workshop: AgentWorkshop):
    with PromptEndpoint() as endpoint:
        return search(workshop, "search", endpoint), endpoint


class TestSearch:
    def test_the_prompt_is_improved_from_nothing_to_all(self, searched):
        one, _ = searched
        assert one.ended.code == 0, one.ended.out
        assert one.ended.data["best_metric"] == {"name": "val/score", "mode": "max", "value": 1.0, "step": 4}
        scores = [row["values"]["val/score"] for row in one.rows() if "val/score" in row["values"]]
        assert scores[0] == 0.0 and max(scores) == 1.0

    def test_the_result_is_a_prompt_and_no_model(self, searched):
        one, _ = searched
        data = one.ended.data
        assert data["update_model_path"] is None
        best = json.loads(Path(data["result"]["artefact_path"]).read_text())
        assert (best["template"], best["score"], best["failed"]) == (GOOD, 1.0, 0)
        chosen = json.loads((Path(data["best_checkpoint"]["path"]) / "prompt.json").read_text())
        assert chosen["template"] == GOOD

    def test_every_version_and_its_score_was_written_as_it_came(self, searched):
        one, _ = searched
        lines = (one.folder / "checkpoints" / "prompts.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        assert [entry["step"] for entry in entries] == list(range(1, len(entries) + 1))
        assert {entry["version"] for entry in entries} == {"v0", "v1"}
        assert entries[0]["template"] == SEED

    def test_the_key_came_by_its_name_alone(self, searched):
        one, endpoint = searched
        assert endpoint.keys == {"Bearer key-of-the-test"}
        for path in one.folder.rglob("*"):
            if path.is_file():
                assert b"key-of-the-test" not in path.read_bytes(), path
        assert "my key is [redacted]" in (one.folder / "train.log").read_text()
        assert "[redacted]" in json.dumps(one.stored("spans"))

    def test_nothing_of_it_is_left(self, searched):
        one, _ = searched
        assert one.survivors() == []


def test_a_failed_optimiser_call_keeps_what_was_measured(workshop):
    with PromptEndpoint() as endpoint:
        endpoint.down_for = {"fake-gradient"}
        one = search(workshop, "no-optimiser", endpoint)
    assert (one.ended.code, one.ended.data["status"]) == (11, "failed"), one.ended.out
    assert "InternalServerError" in one.ended.error["detail"]
    best = json.loads((one.folder / "checkpoints" / "best_prompt.json").read_text())
    assert (best["template"], best["score"]) == (SEED, 0.0)


def test_a_search_stops_at_its_limit_of_calls(workshop):
    with PromptEndpoint() as endpoint:
        limits = {"rollout_s": 60, "wall_s": 600, "llm_calls": 1}
        one = search(workshop, "calls", endpoint, limits=limits)
    assert one.ended.code == 11, one.ended.out
    assert "LIMIT_REACHED: limits.llm_calls" in one.ended.error["detail"]
    assert endpoint.asked["fake-gradient"] + endpoint.asked["fake-edit"] == 1
