"""Picking the few lines of a training's output that a backend can learn something from, without decoding the rest.

A chatty training prints megabytes a second; searching bytes costs a hundredth of splitting and decoding them.
"""

from collections.abc import Collection, Mapping, Sequence


def marked_lines(block: bytes | bytearray, marks: Collection[bytes], size: int) -> list[bytes]:
    """The lines in the first `size` bytes of `block` (whole lines, the last without its end) that hold one of `marks`,
    in order, each once."""
    starts: dict[int, int] = {}
    for mark in marks:
        # One byte is found at memory speed, ten times as fast as several: a mark should begin with a rare one.
        first = block.find(mark[:1], 0, size)
        at = block.find(mark, first, size) if first >= 0 else -1
        while at >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at, size)
            end = size if end < 0 else end
            starts[start] = end
            at = block.find(mark, end, size)
    return [bytes(block[start : starts[start]]) for start in sorted(starts)]


def wanted_marks(marks: Mapping[str, Sequence[bytes]], kinds: Collection[str]) -> tuple[bytes, ...]:
    """The marks of these kinds of facts, each once."""
    return tuple({mark: None for kind in kinds for mark in marks.get(kind, ())})
