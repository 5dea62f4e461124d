"""Picking the few lines of a training's output that a backend can learn something from, without decoding the rest.

A chatty training prints megabytes a second; searching bytes costs a hundredth of splitting and decoding them.
"""

from collections.abc import Collection, Mapping, Sequence


def marked_lines(block: bytes, marks: Collection[bytes]) -> list[bytes]:
    """The lines of `block` (whole lines, the last without its end) that hold one of `marks`, in order, each once."""
    starts: dict[int, int] = {}
    for mark in marks:
        at = block.find(mark)
        while at >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            starts[start] = end
            at = block.find(mark, end)
    return [block[start : starts[start]] for start in sorted(starts)]


def wanted_marks(marks: Mapping[str, Sequence[bytes]], kinds: Collection[str]) -> tuple[bytes, ...]:
    """The marks of these kinds of facts, each once."""
    return tuple({mark: None for kind in kinds for mark in marks.get(kind, ())})
