"""The CPU smoke rollout, in verl's own interpreter: replies are sampled, and the same ones again by the same seed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loopai_trainer.backends.verl_grpo import launch

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = Path(launch.__file__).parent / "inside" / "cpu_smoke"
ASK = """
import asyncio, json, sys
from loopai_cpu_rollout import Server

async def replies(seed, order, temperature=1.0, updates=()):
    server = Server(sys.argv[1], 16, seed)
    for step in updates:
        await server.load(list(server.model.state_dict().items()), step)
    found = {}
    for prompt in order:
        reply = await server.generate("", list(prompt), {"temperature": temperature})
        found.setdefault(repr(prompt), []).append(reply.token_ids)
    return found

a, b = (65, 66, 67), (68, 69)
asked = {
    "once": (42, [a, a, b, b]),
    "again": (42, [a, a, b, b]),
    "other order": (42, [b, a, b, a]),
    "other seed": (43, [a, a, b, b]),
    "later step": (42, [a, a, b, b], 1.0, [1]),
    "same weights sent twice": (42, [a, a, b, b], 1.0, [1, 1]),
    "greedy": (42, [a, a, b, b], 0.0),
    "greedy by another seed": (43, [a, a, b, b], 0.0),
}
print(json.dumps({name: asyncio.run(replies(*what)) for name, what in asked.items()}))
"""


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory, verl_env: str) -> dict[str, Any]:
    model = tmp_path_factory.mktemp("rollout") / "model"
    python = f"{verl_env}/bin/python"
    subprocess.run([python, str(EXAMPLES / "make_tiny_model.py"), str(model)], check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(FOLDER), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([python, "-c", ASK, str(model)], check=True, capture_output=True, text=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def test_one_seed_gives_the_same_replies_again(replies):
    assert replies["once"] == replies["again"]


def test_the_order_of_the_calls_does_not_count(replies):
    assert replies["once"] == replies["other order"]


@pytest.mark.parametrize("other", ["other seed", "later step"])
def test_another_seed_or_step_gives_others(replies, other):
    assert all(replies["once"][prompt] != replies[other][prompt] for prompt in replies["once"])


def test_weights_that_are_sent_again_begin_anew(replies):
    assert replies["later step"] == replies["same weights sent twice"]


def test_one_prompt_asked_twice_gets_two_replies(replies):
    assert all(first != second for first, second in replies["once"].values())


def test_greedy_replies_are_no_matter_of_the_seed(replies):
    assert replies["greedy"] == replies["greedy by another seed"]
    assert all(first == second for first, second in replies["greedy"].values())
