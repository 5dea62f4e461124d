"""Curves as text: a plot for the terminal, at most 80 columns wide and without colour, and a one-line sparkline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

Points = Sequence[tuple[int, float]]
"""(step, value), by step."""

MAX_WIDTH = 80
_TICKS = 5
_MARKERS = ("braille", "o", "x", "+")
_ASCII_MARKERS = ("*", "o", "x", "+")
_LEGEND_MARKERS = {"braille": "⣿"}
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=*#"
# The frame that plotext draws, for terminals that cannot show it.
_FRAME_TO_ASCII = str.maketrans("┌┐└┘┤├┬┴┼─│", "+++++++++-|")


def draw(curves: Mapping[str, Points], *, width: int = MAX_WIDTH, height: int = 14, encoding: str = "utf-8") -> str:
    """The curves over their steps, with a legend line above; empty if no curve has a finite point.

    `width` and `height` in characters. An `encoding` that cannot show the frame gives plain ASCII.
    """
    finite = {name: _finite(points) for name, points in curves.items()}
    finite = {name: points for name, points in finite.items() if points}
    if not finite:
        return ""
    plain = not can_show("┌⣿▁", encoding)
    markers = _ASCII_MARKERS if plain else _MARKERS
    chosen = {name: markers[index % len(markers)] for index, name in enumerate(finite)}
    width = max(30, min(width, MAX_WIDTH))
    plot = _plot(finite, chosen, width, max(6, height))
    lines = [_legend(chosen, width), *plot.splitlines()]
    text = "\n".join(line.rstrip() for line in lines)
    return text.translate(_FRAME_TO_ASCII) if plain else text


def sparkline(values: Iterable[float], width: int = 40, encoding: str = "utf-8") -> str:
    """The values as one line of at most `width` bars; a non-finite value is a '!'."""
    told = list(values)
    bars = _BARS if can_show(_BARS, encoding) else _ASCII_BARS
    if len(told) > width:
        told = [told[(index * (len(told) - 1)) // max(1, width - 1)] for index in range(width)]
    finite = [value for value in told if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_bar(value, low, high, bars) for value in told)


def _bar(value: float, low: float, high: float, bars: str) -> str:
    if not math.isfinite(value):
        return "!"
    # Halved, so that the span of two huge values of opposite sign stays finite.
    span = high / 2 - low / 2
    share = (value / 2 - low / 2) / span if span > 0 else 0.0
    return bars[min(len(bars) - 1, int(share * len(bars)))]


def _plot(curves: Mapping[str, Points], markers: Mapping[str, str], width: int, height: int) -> str:
    # Imported here: it costs a quarter of a second, and most commands draw nothing.
    import plotext

    figure = plotext.figure  # the library has one figure for the whole process: cleared before and after
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    for name, points in curves.items():
        signal = figure.signal([step for step, _ in points], [value for _, value in points], marker=markers[name])
        if len(points) > 1:
            signal.lines()
        figure.draw(signal)
    steps = [step for points in curves.values() for step, _ in points]
    values = [value for points in curves.values() for _, value in points]
    _set_ticks(figure, "x", _whole_ticks(min(steps), max(steps)))
    _set_ticks(figure, "y", _value_ticks(min(values), max(values)))
    text: str = figure.build().string(True)
    figure.clear()
    return text


def _set_ticks(figure: object, axis: str, ticks: Mapping[float, str]) -> None:
    ruler = figure.ruler(axis)  # type: ignore[attr-defined] # plotext ships no types
    positions = list(ticks)
    margin = 0.5 if len(positions) == 1 else 0.0
    ruler.lim(positions[0] - margin, positions[-1] + margin)
    ruler.ticks(positions, list(ticks.values()))


def _whole_ticks(low: int, high: int) -> dict[float, str]:
    count = min(_TICKS, high - low)
    positions = sorted({low + (high - low) * index // count for index in range(count + 1)}) if count else [low]
    return {position: str(position) for position in positions}


def _value_ticks(low: float, high: float) -> dict[float, str]:
    if not low < high:
        return {low: f"{low:.4g}"}
    positions = [low + (high - low) * (index / (_TICKS - 1)) for index in range(_TICKS)]
    return {position: f"{position:.4g}" for position in positions}


def _legend(markers: Mapping[str, str], width: int) -> str:
    text = "   ".join(f"{_LEGEND_MARKERS.get(marker, marker)} {name}" for name, marker in markers.items())
    return f"{text}   (by step)"[:width]


def _finite(points: Points) -> list[tuple[int, float]]:
    # plotext adds and squares: beyond this its arithmetic overflows, and nobody could read the curve.
    return [(step, value) for step, value in points if math.isfinite(value) and abs(value) < 1e100]


def can_show(text: str, encoding: str) -> bool:
    """Whether a stream of that encoding can show the text."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
