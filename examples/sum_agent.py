"""Agents for Agent Lightning: one that is right by itself, one that is only right if its prompt says how.

    trainer prepare --framework agentlightning --stage dev --dataset sums.jsonl \\
        --set agent.file=examples/sum_agent.py --set agent.name=Adder
    trainer prepare --framework agentlightning --stage apo --dataset sums.jsonl --template TEMPLATE \\
        --set agent.file=examples/sum_agent.py --set agent.name=prompted

A task is {"question": "2 + 3", "answer": 5}. `prompted` asks the model AGENT_MODEL at the plan's own endpoint
(llm.base_url, which the launcher gives as OPENAI_BASE_URL).
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

import agentlightning as agl

AGENT_MODEL = "fake-agent"


class Adder(agl.LitAgent[dict[str, Any]]):
    """Adds by itself; a task with `fail` raises, one with `wait_s` takes its time: what a broken agent does."""

    def rollout(self, task: dict[str, Any], resources: agl.NamedResources, rollout: agl.Rollout) -> float:
        """1 for a right sum, 0 for a wrong one."""
        agl.emit_message(f"asked: {task['question']}")
        time.sleep(float(task.get("wait_s", 0)))
        if task.get("fail"):
            raise RuntimeError(f"no answer to {task['question']}")
        first, _, second = task["question"].partition("+")
        return 1.0 if int(first) + int(second) == task["answer"] else 0.0


@agl.prompt_rollout
def prompted(task: dict[str, Any], prompt_template: agl.PromptTemplate) -> float:
    """Asks a model with the prompt that is being improved; 1 for a right reply."""
    prompt = prompt_template.format(question=task["question"])
    reply = _ask(prompt)
    agl.emit_message(f"{prompt} -> {reply}")
    return 1.0 if reply.strip() == str(task["answer"]) else 0.0


def _ask(prompt: str) -> str:
    url = os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions"
    body = json.dumps({"model": AGENT_MODEL, "messages": [{"role": "user", "content": prompt}]}).encode()
    key = os.environ.get("OPENAI_API_KEY", "none")
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])
