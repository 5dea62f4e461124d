"""The parts of the driver that need no Agent Lightning: records, prompts with scores, limits, guards."""

import asyncio
import hashlib
import json
import subprocess
import sys
import types
from collections.abc import Sized
from pathlib import Path

import pytest

from loopai_trainer.backends import agentlightning
from loopai_trainer.rules import secrets

INSIDE = Path(agentlightning.__file__).parent / "inside"


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


def strictly(text):
    """The value of JSON as the standard has it."""

    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def test_what_is_not_finite_is_null(records):
    nan, inf = float("nan"), float("inf")
    records.stored("rollouts", {"reward": nan, "spans": [{"value": -inf}], "pair": (1.5, inf), 3: "three"})
    path = Path(records.results, "best_prompt.json")
    records.whole(str(path), {"score": nan, "rewards": [0.5, nan]})
    (line,) = Path(records.store, "rollouts.jsonl").read_text().splitlines()
    assert strictly(line) == {"reward": None, "spans": [{"value": None}], "pair": [1.5, None], "3": "three"}
    assert strictly(path.read_text()) == {"score": None, "rewards": [0.5, None]}


def test_a_reward_that_is_not_finite_makes_no_prompt_the_best(inside, records):
    prompts = inside("agl_prompts").Prompts(records, 2, 9)
    prompt = types.SimpleNamespace(template="a", engine="f-string")
    prompts.evaluated("v0", prompt, "val", 2, [result(1.0), result(float("nan"))])
    assert not Path(records.results, "best_prompt.json").exists()
    (entry,) = map(strictly, Path(records.results, "prompts.jsonl").read_text().splitlines())
    assert (entry["rewards"], entry["failed"], entry["score"]) == ([1.0, None], 1, 0.5)


SECRET = 'sk-"no"\n-of-the-test'


class TestSecrets:
    @pytest.fixture
    def hidden(self, inside, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("HF_TOKEN", "short")
        # The test's own streams are no files.
        module = inside("agl_hidden")
        monkeypatch.setattr(module, "_hiding", lambda stream: stream)
        module.hide(["OPENAI_API_KEY", "HF_TOKEN", "NOT_SET"])
        return module

    def test_what_is_written_down_holds_no_value_of_them(self, hidden, records):
        records.stored("spans", {"body": f"the key is {SECRET}!", SECRET: 1, "short": "short"})
        records.whole(str(Path(records.results, "best_prompt.json")), {"template": SECRET})
        (line,) = lines(Path(records.store, "spans.jsonl"))
        assert line == {"body": "the key is [redacted]!", "[redacted]": 1, "short": "short"}
        assert json.loads(Path(records.results, "best_prompt.json").read_text()) == {"template": "[redacted]"}

    def test_what_is_printed_holds_none_either_also_in_a_fork(self, tmp_path):
        told = (
            "import sys, os\n"
            f"sys.path.insert(0, {str(INSIDE)!r})\n"
            "from agl_hidden import hide\n"
            "hide(['OPENAI_API_KEY'])\n"
            "print('out', os.environ['OPENAI_API_KEY'])\n"
            "print('err', os.environ['OPENAI_API_KEY'], file=sys.stderr)\n"
            "child = os.fork()\n"
            "if not child:\n    print('child', os.environ['OPENAI_API_KEY']); os._exit(0)\n"
            "os.waitpid(child, 0)\n"
            "raise ValueError(os.environ['OPENAI_API_KEY'])\n"
        )
        env = {"OPENAI_API_KEY": "sk-printed-by-the-agent"}
        done = subprocess.run([sys.executable, "-I", "-c", told], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == ["out [redacted]", "child [redacted]"]
        assert done.stderr.splitlines()[0] == "err [redacted]"
        assert done.stderr.splitlines()[-1] == "ValueError: [redacted]"

    def test_what_hides_is_as_elsewhere(self, hidden):
        assert (hidden.SHOWN, hidden.MIN_LENGTH) == (secrets.SHOWN, secrets.MIN_LENGTH)


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
    parts.pin({str(path): hashlib.sha256(path.read_bytes()).hexdigest()})
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


def test_a_port_is_held_until_its_server_listens_and_for_nobody_else(inside):
    import socket

    port = inside("agl_told").held_port("127.0.0.1")
    with socket.socket() as another, pytest.raises(OSError, match="in use"):
        another.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port), timeout=60.0):
        pass  # create_server sets SO_REUSEADDR, as asyncio's servers do


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
