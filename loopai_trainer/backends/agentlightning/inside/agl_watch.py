"""Watches the store while an algorithm runs: writes down every finished rollout, and ends what cannot go on.

Agent Lightning 0.3.0 keeps all of this in memory and waits for ever for a runner that is gone; its exit status is 0
with failed rollouts, too. So limits are set on each rollout, and the store is written to disk as it fills.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time

from agl_records import plain
from agl_told import Failed, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

_LOOK_S = 1.0
_ENDED = ("succeeded", "failed", "cancelled")
_GRACE_S = 30.0
"""What a store gets to notice by itself that a rollout is over time."""


class Watch:
    """`limits`: rollout_s, wall_s, rollouts (0: none). `planned`: rollouts that the algorithm will make, 0 if unknown.

    `rows`: whether each rollout is a step of the run's metrics. `runners`: processes that have to stay alive. `waits`:
    there is no algorithm, and the end of its time is the end that was wanted.
    """

    def __init__(
        self, limits: Mapping[str, Any], records: Any, planned: int, *, rows: bool, runners: int, waits: bool = False
    ) -> None:
        self.limits = limits
        self.records = records
        self.planned = planned
        self.rows = rows
        self.runners = runners
        self.waits = waits
        self.adapter: Any = None
        self.resources: dict[str, Any] = {}
        self.begun_s = time.monotonic()
        self.moved_s = self.begun_s
        self.steps = 0
        self._written: set[str] = set()
        self._resources: set[str] = set()
        self._asked = 0
        self._statuses: dict[str, str] = {}
        self._most_runners = 0

    def around(self, algorithm: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """The same algorithm, watched."""

        async def watched(store: Any, event: Any) -> None:
            self._limit(store)
            self._end_late()
            if await store.get_latest_resources() is None:
                # A runner that finds none passes its rollout over, which then waits for ever.
                await store.update_resources("initial", self.resources)
            task = asyncio.ensure_future(algorithm(store, event))
            try:
                while not task.done():
                    await asyncio.wait({task}, timeout=_LOOK_S)
                    await self._look(store, task, event)
                await task
            finally:
                if not task.done():
                    task.cancel()
                event.set()
                await self._write_last(store)

        return watched

    def _end_late(self) -> None:
        """An algorithm that blocks the event loop keeps this watch from looking: a thread ends it then."""

        def end() -> None:
            time.sleep(float(self.limits["wall_s"]) + _GRACE_S)
            say(f"error LIMIT_REACHED: limits.wall_s: {self.limits['wall_s']} s have passed")
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=end, daemon=True).start()

    def _limit(self, store: Any) -> None:
        """Give every rollout a time limit and one attempt, and count them."""
        from agentlightning.types import RolloutConfig

        limit_s = float(self.limits["rollout_s"])
        config = RolloutConfig(timeout_seconds=limit_s, unresponsive_seconds=None, max_attempts=1)
        enqueue = store.enqueue_rollout

        async def limited(*arguments: Any, **named: Any) -> Any:
            most = int(self.limits.get("rollouts") or 0)
            if most and self._asked >= most:
                raise Failed("LIMIT_REACHED", f"limits.rollouts: {most} rollouts were made")
            self._asked += 1
            if named.get("config") is None:
                named["config"] = config
            return await enqueue(*arguments, **named)

        store.enqueue_rollout = limited

    def finished(self) -> None:
        """The algorithm came to its end: what it made is what was planned, where nobody could know that before."""
        if self.rows and not self.planned:
            self.records.metric(self.steps, "summary", {"total_steps": self.steps})

    async def _look(self, store: Any, task: Any, event: Any) -> None:
        rollouts = await self._write_all(store)
        if task.done():
            return
        now_s = time.monotonic()
        if now_s - self.begun_s > float(self.limits["wall_s"]):
            if self.waits:
                event.set()
                return
            raise Failed("LIMIT_REACHED", f"limits.wall_s: {self.limits['wall_s']} s have passed")
        self._look_at_runners()
        open_ones = [one for one in rollouts if one.status not in _ENDED]
        if not open_ones:
            self.moved_s = now_s
        elif now_s - self.moved_s > float(self.limits["rollout_s"]) + _GRACE_S:
            stuck = ", ".join(f"{one.rollout_id} {one.status}" for one in open_ones[:3])
            raise Failed("ROLLOUT_TIMEOUT", f"no rollout has moved for {now_s - self.moved_s:.0f} s ({stuck})")
        elif any(one.status in ("preparing", "running") for one in open_ones):
            await self._end_overdue(store, open_ones)

    def _look_at_runners(self) -> None:
        alive = sum(child.name.startswith("runner-") for child in multiprocessing.active_children())
        self._most_runners = max(self._most_runners, alive)
        if self.runners and alive < self._most_runners:
            raise Failed("RUNNER_LOST", f"{self._most_runners - alive} of {self._most_runners} runners ended early")

    async def _end_overdue(self, store: Any, rollouts: list[Any]) -> None:
        """Mark what is over its time: the store looks by itself only when somebody asks it the right thing."""
        limit_s = float(self.limits["rollout_s"])
        for one in rollouts:
            attempt = await store.get_latest_attempt(one.rollout_id)
            if attempt is None or attempt.status not in ("preparing", "running"):
                continue
            if time.time() - attempt.start_time > limit_s + 1.0:
                say(f"rollout {one.rollout_id} is over its {limit_s:.0f} s")
                await store.update_attempt(one.rollout_id, attempt.attempt_id, status="timeout")

    async def _write_all(self, store: Any, *, whole: bool = False) -> list[Any]:
        """Write what has ended since the last look (`whole`: all that is left, too); gives all rollouts."""
        rollouts = list(await store.query_rollouts())
        for one in rollouts:
            if self._statuses.get(one.rollout_id) != one.status:
                self._statuses[one.rollout_id] = one.status
                self.moved_s = time.monotonic()
            if one.rollout_id not in self._written and (whole or one.status in _ENDED):
                self._written.add(one.rollout_id)
                await self._write(store, one)
        if whole:
            await self._write_rest(store)
        return rollouts

    async def _write_last(self, store: Any) -> None:
        from aiohttp import ClientError

        try:
            await self._write_all(store, whole=True)
        except (ClientError, OSError) as error:
            say(f"the store could not be read to its end: {type(error).__name__}: {error}")

    async def _write_rest(self, store: Any) -> None:
        for kind, query in (("resources", "query_resources"), ("workers", "query_workers")):
            ask = getattr(store, query, None)
            for one in await ask() if ask is not None else ():
                self.records.stored(kind, plain(one))

    async def _write(self, store: Any, rollout: Any) -> None:
        from agentlightning.emitter.reward import find_final_reward

        attempts = list(await store.query_attempts(rollout.rollout_id))
        spans = list(await store.query_spans(rollout.rollout_id))
        reward = find_final_reward(spans)
        triplets = self._triplets(spans)
        for attempt in attempts:
            self.records.stored("attempts", plain(attempt))
        for span in spans:
            self.records.stored("spans", plain(span))
        for triplet in triplets:
            self.records.stored("triplets", {"rollout_id": rollout.rollout_id, "triplet": plain(triplet)})
        found = {"reward": reward, "spans": len(spans), "triplets": len(triplets), "attempts": len(attempts)}
        self.records.stored("rollouts", {**plain(rollout), **found})
        words = " ".join(f"{name}={value}" for name, value in found.items())
        say(f"rollout {rollout.rollout_id} {rollout.status} {words}")
        if self.rows and rollout.status in _ENDED:
            self.steps += 1
            duration_s = (rollout.end_time or time.time()) - rollout.start_time
            values = {"reward": reward, "spans": len(spans), "triplets": len(triplets), "duration_s": duration_s}
            self.records.metric(self.steps, "train", {**values, **self._plan()})

    def _plan(self) -> dict[str, int]:
        return {"total_steps": self.planned} if self.planned else {}

    def _triplets(self, spans: list[Any]) -> list[Any]:
        try:
            found = self.adapter.adapt(spans) if self.adapter is not None and spans else []
        except ValueError:
            return []  # no span that a triplet can be made of: Agent Lightning's own Baseline dies of it
        return list(found) if isinstance(found, list | tuple) else [found]


def tolerant(adapter: Any) -> Any:
    """The adapter, with nothing for spans that it cannot read: its ValueError would end Baseline and hide the cause."""
    adapt = adapter.adapt

    def adapted(spans: Any) -> Any:
        try:
            return adapt(spans)
        except ValueError as error:
            say(f"nothing could be adapted: {error}")
            return []

    adapter.adapt = adapted
    return adapter
