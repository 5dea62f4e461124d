"""Agent Lightning's prompt optimisation with every version and its score on disk, and its calls counted."""

from __future__ import annotations

import os

from agl_records import is_number
from agl_told import Failed, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Prompts:
    """Notes each evaluation of a prompt as a step of the run.

    `held`: tasks of the whole validation data; only an evaluation on all of them, in which each rollout succeeded and
    gave a reward, can make a prompt the best. `planned`: evaluations that the search will make.
    """

    def __init__(self, records: Any, held: int, planned: int) -> None:
        self.records = records
        self.held = held
        self.planned = planned
        self.step = 0
        self.best: dict[str, Any] | None = None
        self.parents: dict[str, str] = {}

    def evaluated(self, version: str, prompt: Any, mode: str, tasks: int, results: Sequence[Any]) -> None:
        """Write one evaluation down: a metric row, a line of prompts.jsonl, and for validation its own folder."""
        self.step += 1
        rewards = [one["final_reward"] if is_number(one["final_reward"]) else None for one in results]
        good = [one["status"] == "succeeded" and is_number(one["final_reward"]) for one in results]
        sound = len(results) == tasks and all(good)
        score = sum(reward or 0.0 for reward in rewards) / tasks if tasks else 0.0
        entry = {
            "step": self.step,
            "version": version,
            "mode": mode,
            "template": prompt.template,
            "engine": prompt.engine,
            "score": score,
            "tasks": tasks,
            "rewards": rewards,
            "failed": tasks - sum(good),
            "whole": tasks == self.held and mode == "val",
        }
        self.records.line(os.path.join(self.records.results, "prompts.jsonl"), entry)
        name = "score" if mode == "train" else "val/score" if entry["whole"] else "val/batch_score"
        values = {name: score, "failed": entry["failed"], "tasks": tasks, "total_steps": max(self.planned, self.step)}
        if entry["whole"]:
            folder = os.path.join(self.records.results, f"prompt-{self.step}")
            self.records.whole(os.path.join(folder, "prompt.json"), entry)
            if sound and (self.best is None or score > self.best["score"]):
                self.best = entry
                self.records.whole(os.path.join(self.records.results, "best_prompt.json"), entry)
        self.records.metric(self.step, "train" if mode == "train" else "val", values)
        say(f"prompt {version} ({mode}, {tasks} tasks) has score {score:.4f}, {entry['failed']} failed")

    def finished(self) -> None:
        """The search came to its end: what it made is what was planned (an empty edit makes one evaluation less)."""
        self.records.metric(self.step, "summary", {"total_steps": self.step})


def planned_evaluations(algorithm: Mapping[str, Any]) -> int:
    """Evaluations of a whole search. Source: Agent Lightning 0.3.0, algorithm/apo/apo.py."""
    width, branch = int(algorithm.get("beam_width", 4)), int(algorithm.get("branch_factor", 4))
    beam, count = 1, int(bool(algorithm.get("run_initial_validation", True)))
    for _ in range(int(algorithm.get("beam_rounds", 3))):
        children = width * branch
        count += children + beam + children + 1
        beam = min(width, beam + children)
    return count


def recorded(base: Any, prompts: Prompts) -> Any:
    """A class like `base` (APO or a class of the user's that derives from it) that tells `prompts` each evaluation."""

    class Recorded(base):  # type: ignore[misc] # the base is only known inside the environment
        async def evaluate_prompt_on_batch(
            self, prompt: Any, resource_name: str, dataset: Any, mode: str, **named: Any
        ) -> Any:
            results, score = await super().evaluate_prompt_on_batch(prompt, resource_name, dataset, mode, **named)
            prompts.evaluated(prompt.version, prompt.prompt_template, mode, len(dataset), results)
            return results, score

    return Recorded


def client(llm: Mapping[str, Any], limits: Mapping[str, Any]) -> Any:
    """An OpenAI client for the optimiser whose calls are counted against limits.llm_calls."""
    from openai import AsyncOpenAI

    key = os.environ.get(str(llm.get("api_key_env") or "")) or "none"
    made = AsyncOpenAI(base_url=llm["base_url"], api_key=key, max_retries=int(llm.get("max_retries", 2)))
    completions = made.chat.completions
    create, most, count = completions.create, int(limits.get("llm_calls") or 0), 0

    async def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        if most and count >= most:
            raise Failed("LIMIT_REACHED", f"limits.llm_calls: the optimiser made {most} calls")
        count += 1
        return await create(*arguments, **named)

    completions.create = counted
    return made
