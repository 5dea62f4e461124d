"""Batch sizes that work together, so that a hint names none which the next check refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

from loopai_trainer.backends.verl_grpo.effective import ACTOR, REF, ROLLOUT
from loopai_trainer.backends.verl_grpo.facts import Facts

_TRIED = 20_000
_SHOWN = 6
_BATCH, _MINI = "data.train_batch_size", "ppo_mini_batch_size"


class BatchSizes(NamedTuple):
    """What limits a batch of prompts and its mini-batches.

    `group`: replies to a prompt; `rows`: to train on; `micro`, `log_prob`: fixed micro-batches, empty if they are cut
    by tokens (then replies need not be dealt out evenly either).
    """

    batch: int
    mini: int
    group: int
    rows: int
    devices: int
    data_parallel: int
    even: bool
    micro: tuple[int, ...]
    log_prob: tuple[int, ...]

    def works(self, batch: int, mini: int) -> bool:
        """Whether all rules on these sizes hold, those on micro-batches too. Source: as in rules_batch."""
        share, mini_share = batch * self.group // self.data_parallel, mini * self.group // self.data_parallel
        return (
            self.fits(batch, mini)
            and not any(mini_share % size for size in self.micro)
            and not any(share % size for size in self.log_prob)
        )

    def fits(self, batch: int, mini: int) -> bool:
        """As `works`, whatever the micro-batches are: they have hints of their own."""
        if not 0 < mini <= batch or batch % mini or (self.rows and batch > self.rows):
            return False
        dealt_out = not self.even or batch * self.group % self.devices == 0
        return dealt_out and mini * self.group % self.data_parallel == 0


def sizes_of(facts: Facts, dynamic: bool, has_reference: bool) -> BatchSizes:
    """The sizes of a plan. `dynamic`: batches are cut by tokens; `has_reference`: there is a reference model."""
    steps, whole = facts.steps, facts.values.whole
    places = (ROLLOUT, REF) if has_reference else (ROLLOUT,)
    log_prob = [whole(f"{place}.log_prob_micro_batch_size_per_gpu") for place in places]
    micro = [whole(f"{ACTOR}.ppo_micro_batch_size_per_gpu")]
    return BatchSizes(
        steps.batch,
        steps.mini_batch,
        steps.group or 1,
        steps.rows,
        steps.devices,
        steps.data_parallel,
        not dynamic,
        () if dynamic else tuple(size for size in micro if size),
        () if dynamic else tuple(size for size in log_prob if size),
    )


def batch_hint(sizes: BatchSizes) -> str:
    """What to set the batch to, as long as the mini-batch stays."""
    return _said(_batches(sizes), ()) or _both(sizes)


def mini_hint(sizes: BatchSizes) -> str:
    """What to set the mini-batch to, as long as the batch stays."""
    return _said((), _minis(sizes)) or _both(sizes)


def either_hint(sizes: BatchSizes) -> str:
    """What to set the one or the other to."""
    return _said(_batches(sizes), _minis(sizes)) or _both(sizes)


def _said(batches: Iterable[int], minis: Iterable[int]) -> str:
    parts = []
    if batches:
        parts.append(f"{_BATCH} to {' or '.join(map(str, batches))}")
    if minis:
        shown = ", ".join(map(str, minis))
        parts.append(f"{_MINI} to {'one of ' if ',' in shown else ''}{shown}")
    return f"set {', or '.join(parts)}" if parts else ""


def _both(sizes: BatchSizes) -> str:
    found = _around(sizes, lambda works: lambda size: works(size, size), 1)
    named = " or ".join(map(str, found)) or str(sizes.devices)
    return f"set {_BATCH} and {_MINI} both to {named}"


def _batches(sizes: BatchSizes) -> list[int]:
    return _around(sizes, lambda works: lambda size: works(size, sizes.mini), max(1, sizes.mini))


def _minis(sizes: BatchSizes) -> list[int]:
    batch = sizes.batch
    parts = [size for size in range(1, min(batch, _TRIED) + 1) if batch % size == 0]
    for works in (sizes.works, sizes.fits):
        found = [size for size in parts if works(batch, size)]
        if found:
            return found[-_SHOWN:]
    return []


def _around(
    sizes: BatchSizes, made: Callable[[Callable[[int, int], bool]], Callable[[int], bool]], step: int
) -> list[int]:
    """The nearest sizes below and above the batch, or the rows, that work, multiples of `step`."""
    start = min(sizes.batch, sizes.rows) if sizes.rows else sizes.batch
    below = range(start // step * step, max(0, start - _TRIED * step), -step)
    above = range(start // step * step + step, start + _TRIED * step, step)
    for works in (made(sizes.works), made(sizes.fits)):
        found = chain(_first(below, works), _first(above, works))
        if named := list(found):
            return named
    return []


def _first(sizes: Iterable[int], works: Callable[[int], bool]) -> list[int]:
    size = next((size for size in sizes if works(size)), None)
    return [] if size is None else [size]
