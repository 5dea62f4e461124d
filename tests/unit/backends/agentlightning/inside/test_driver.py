"""The parts of the driver that need no Agent Lightning: records, prompts with scores, limits, guards."""

import asyncio
import json
import sys
import types
from collections.abc import Sized
from pathlib import Path

import pytest

from loopai_trainer.backends import agentlightning
from loopai_trainer.rules import components

INSIDE = Path(agentlightning.__file__).parent / "inside"
NAMES = ("agl_told", "agl_records", "agl_prompts", "agl_parts", "agl_watch", "agl_main", "agl_one")


@pytest.fixture
def inside(monkeypatch):
    """Imports a module of the driver as it stands beside the others; nothing of it stays loaded."""
    monkeypatch.syspath_prepend(str(INSIDE))
    monkeypatch.setitem(sys.modules, "components", components)

    def load(name):
        return __import__(name)

    yield load
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def records(inside, tmp_path):
    paths = {
        "metrics": str(tmp_path / "metrics" / "m.jsonl"),
        "store": str(tmp_path / "checkpoints" / "store"),
        "results": str(tmp_path / "checkpoints"),
    }
    return inside("agl_records").Records(paths)


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_metric_row_holds_numbers_alone(records):
    records.metric(1, "train", {"reward": 1.0, "note": "x", "none": None, "nan": float("nan"), "ok": True})
    assert lines(records.metrics) == [{"step": 1, "kind": "train", "values": {"reward": 1.0}}]


def test_stored_values_may_be_anything(records):
    records.stored("spans", {"text": "七", "odd": object})
    assert lines(Path(records.store, "spans.jsonl"))[0]["text"] == "七"


def result(reward, status="succeeded"):
    return {"status": status, "final_reward": reward}


def test_every_evaluation_is_a_step_and_the_best_is_sound(inside, records):
    prompts = inside("agl_prompts").Prompts(records, 2, 9)
    first, second = (types.SimpleNamespace(template=text, engine="f-string") for text in ("a", "b"))
    prompts.evaluated("v0", first, "val", 2, [result(0.5), result(0.5)])
    prompts.evaluated("v0", first, "train", 1, [result(1.0)])
    prompts.evaluated("v1", second, "val", 1, [result(1.0)])  # a batch: no score of the whole
    prompts.evaluated("v1", second, "val", 2, [result(1.0), result(None, "failed")])  # distorted: not the best
    prompts.evaluated("v1", second, "val", 2, [result(1.0)])  # one never came
    best = json.loads(Path(records.results, "best_prompt.json").read_text())
    assert (best["version"], best["score"]) == ("v0", 0.5)
    prompts.evaluated("v1", second, "val", 2, [result(1.0), result(0.5)])
    prompts.finished()
    assert json.loads(Path(records.results, "best_prompt.json").read_text())["template"] == "b"
    entries = lines(Path(records.results, "prompts.jsonl"))
    assert [(one["step"], one["failed"], one["whole"]) for one in entries] == [
        *[(1, 0, True), (2, 0, False), (3, 0, False), (4, 1, True), (5, 1, True), (6, 0, True)]
    ]
    rows = lines(records.metrics)
    assert [row["kind"] for row in rows] == ["val", "train", "val", "val", "val", "val", "summary"]
    assert rows[0]["values"]["val/score"] == 0.5 and rows[2]["values"]["val/batch_score"] == 1.0
    assert rows[-1]["values"] == {"total_steps": 6}
    assert sorted(path.name for path in Path(records.results).glob("prompt-*")) == [
        *("prompt-1", "prompt-4", "prompt-5", "prompt-6")
    ]


@pytest.mark.parametrize(
    ("algorithm", "planned"),
    [
        ({"beam_width": 1, "branch_factor": 1, "beam_rounds": 1}, 5),
        ({"beam_width": 1, "branch_factor": 1, "beam_rounds": 1, "run_initial_validation": False}, 4),
        ({"beam_width": 2, "branch_factor": 2, "beam_rounds": 2}, 1 + (4 + 5 + 1) + (4 + 6 + 1)),
    ],
)
def test_a_search_knows_how_many_evaluations_it_makes(inside, algorithm, planned):
    assert inside("agl_prompts").planned_evaluations(algorithm) == planned


def test_an_adapter_that_finds_nothing_ends_nothing(inside):
    def adapt(spans):
        raise ValueError("No spans provided to create TraceTree.")

    adapter = inside("agl_watch").tolerant(types.SimpleNamespace(adapt=adapt))
    assert adapter.adapt([]) == []


class Store:
    """A store that keeps what it is asked."""

    def __init__(self):
        self.asked = []

    async def enqueue_rollout(self, **named):
        self.asked.append(named)


@pytest.fixture
def agent_lightning(monkeypatch):
    """The one type of Agent Lightning that limits need."""
    module = types.ModuleType("agentlightning.types")
    module.RolloutConfig = lambda **named: named
    monkeypatch.setitem(sys.modules, "agentlightning", types.ModuleType("agentlightning"))
    monkeypatch.setitem(sys.modules, "agentlightning.types", module)


def test_every_rollout_gets_a_limit_and_there_are_not_too_many(inside, agent_lightning):
    watching, told, store = inside("agl_watch"), inside("agl_told"), Store()
    limits = {"rollout_s": 7, "wall_s": 60, "rollouts": 2}
    watch = watching.Watch(limits, None, 0, rows=True, runners=0)
    watch._limit(store)
    asyncio.run(store.enqueue_rollout(input=1))
    asyncio.run(store.enqueue_rollout(input=2, config="own"))
    assert [one["config"] for one in store.asked] == [
        {"timeout_seconds": 7.0, "unresponsive_seconds": None, "max_attempts": 1},
        "own",
    ]
    with pytest.raises(told.Failed, match=r"limits\.rollouts") as caught:
        asyncio.run(store.enqueue_rollout(input=3))
    assert caught.value.code == "LIMIT_REACHED"


def test_a_runner_that_is_gone_is_missed(inside, monkeypatch):
    watching, told = inside("agl_watch"), inside("agl_told")
    watch = watching.Watch({"rollout_s": 7, "wall_s": 60}, None, 0, rows=True, runners=2)
    alive = [types.SimpleNamespace(name=f"runner-{number}") for number in range(2)]
    monkeypatch.setattr(watching.multiprocessing, "active_children", lambda: [*alive, types.SimpleNamespace(name="x")])
    watch._look_at_runners()
    alive.pop()
    with pytest.raises(told.Failed, match="1 of 2 runners ended early"):
        watch._look_at_runners()


def test_parts_come_from_files_and_say_what_is_missing(inside, tmp_path):
    parts = inside("agl_parts")
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def __init__(self, size=1):\n        self.size = size\n\n    def __len__(self):\n        return self.size\n"
    )
    made = parts.build({"tracer": {"file": str(path), "name": "Mine", "size": 3}}, "tracer", Sized)
    assert made.size == 3
    with pytest.raises(parts.PartError, match="has no 'Yours'"):
        parts.build({"tracer": {"file": str(path), "name": "Yours"}}, "tracer", Sized)
    with pytest.raises(parts.PartError, match="add 'name'"):
        parts.build({"tracer": {"file": str(path)}}, "tracer", Sized)
    with pytest.raises(parts.PartError, match="there is no tracer 'x'"):
        parts.build({"tracer": {"name": "x"}}, "tracer", Sized)
    assert parts.build({"llm_proxy": None}, "llm_proxy", Sized) is None
    tasks = tmp_path / "t.jsonl"
    tasks.write_text('{"n": 1}\n\n{"n": 2}\n')
    assert parts.tasks(str(tasks)) == [{"n": 1}, {"n": 2}]
    assert parts.tasks(None) is None


def test_a_place_that_is_never_told_is_given_up(inside, tmp_path, monkeypatch):
    one, told = inside("agl_one"), inside("agl_told")
    monkeypatch.setattr(one, "_WAIT_S", 0.1)
    with pytest.raises(told.Failed) as caught:
        one.told_place(str(tmp_path / "none"))
    assert caught.value.code == "STORE_LOST"


def test_the_place_of_the_server_is_told_to_its_owner_alone(inside, tmp_path):
    import socket

    one, path = inside("agl_one"), tmp_path / "place"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        one._tell(str(path), {"port": listener.getsockname()[1], "key": "k"})
        assert one.told_place(str(path))["key"] == "k"
    assert path.stat().st_mode & 0o777 == 0o600


def test_rollouts_that_nobody_could_count_before_are_all_that_were_made(inside, records):
    watching = inside("agl_watch")
    watch = watching.Watch({"rollout_s": 7, "wall_s": 60}, records, 0, rows=True, runners=0)
    watch.steps = 3
    watch.finished()
    assert lines(records.metrics) == [{"step": 3, "kind": "summary", "values": {"total_steps": 3}}]
    watching.Watch({"rollout_s": 7, "wall_s": 60}, records, 5, rows=True, runners=0).finished()
    assert len(lines(records.metrics)) == 1


class Waiting:
    """A store in which nothing happens."""

    async def query_rollouts(self):
        return []


@pytest.mark.parametrize("waits", [True, False])
def test_the_end_of_time_is_an_end_only_where_nothing_else_is_waited_for(inside, records, waits):
    watching, told = inside("agl_watch"), inside("agl_told")
    limits = {"rollout_s": 7, "wall_s": 0.001}
    watch = watching.Watch(limits, records, 0, rows=True, runners=0, waits=waits)
    watch.begun_s -= 1
    event = types.SimpleNamespace(was_set=False)
    event.set = lambda: setattr(event, "was_set", True)
    look = watch._look(Waiting(), types.SimpleNamespace(done=lambda: False), event)
    if waits:
        asyncio.run(look)
        assert event.was_set
        return
    with pytest.raises(told.Failed, match=r"limits\.wall_s"):
        asyncio.run(look)
