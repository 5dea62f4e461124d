"""Lines that are wider than the page, broken so that no part of one can pass for a line of its own.

A terminal breaks a long line without a word: a value that is padded to its width would then seem to be followed by
another key. What goes on stands behind a mark that no line of a YAML begins with.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

MARK = ">> "
_NARROWEST = 20
_TAB_COLUMNS = 8


def broken(text: Text, columns: int) -> list[list[Text]]:
    """For each line of `text` its pieces, of at most so many columns; the second and later ones begin with MARK."""
    return [list(_pieces(line, max(columns, _NARROWEST))) for line in text.split("\n")]


def _pieces(line: Text, columns: int) -> Iterator[Text]:
    line.expand_tabs(_TAB_COLUMNS)
    first, *rest = line.divide(_cuts(line.plain, columns))
    yield first
    for piece in rest:
        yield Text.assemble((MARK, "bold red"), piece)


def _cuts(line: str, columns: int) -> list[int]:
    """Where the pieces begin. What is not ASCII counts as two columns: terminals do not agree on how wide it is."""
    cuts, used = [], 0
    for at, character in enumerate(line):
        wide = 1 if character.isascii() else 2
        if used + wide > columns:
            cuts.append(at)
            used = len(MARK)
        used += wide
    return cuts
