"""loss.png: drawn with matplotlib where it is installed, else the picture that LLaMA-Factory itself has drawn."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir

if TYPE_CHECKING:
    from loopai_trainer.results.analysis import Analysis

OWN_PICTURE = "training_loss.png"
"""What LLaMA-Factory 0.9.5 writes into its output folder with `plot_loss: true`."""

_PNG_START = b"\x89PNG\r\n\x1a\n"
_LARGEST_TAKEN_OVER_BYTES = 20 * 1024 * 1024
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def save(run: RunDir, analysis: Analysis, curves: Mapping[str, Sequence[tuple[int, float]]], title: str) -> str:
    """Write the run's picture. Returns what it is: 'drawn', 'taken over from LLaMA-Factory', or why there is none."""
    drawn = _drawn(analysis, curves, title) if any(curves.values()) else None
    if drawn is not None:
        atomic.write_bytes(run.picture, drawn)
        return "drawn"
    own = _own_picture(run)
    if own is not None:
        atomic.write_bytes(run.picture, own)
        return "taken over from LLaMA-Factory"
    if not any(curves.values()):
        return "none: training logged no curve"
    return "none: install matplotlib (pip install 'loopai-trainer[plot]') for a picture"


def draw(analysis: Analysis, curves: Mapping[str, Sequence[tuple[int, float]]], title: str) -> bytes:
    """A PNG of the curves by step, the chosen checkpoint marked. Needs no display; touches no global state.

    Raises ImportError without matplotlib.
    """
    # Figure and Agg directly: pyplot would choose a display backend and keep the figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    for (name, points), colour in zip(curves.items(), _COLOURS, strict=False):
        marker = "o" if len(points) <= 60 else None
        steps, values = [step for step, _ in points], [value for _, value in points]
        axes.plot(steps, values, color=colour, linewidth=1.4, marker=marker, markersize=3.5, label=name)
    _mark(axes, analysis)
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if _spans_decades(curves):
        axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _drawn(analysis: Analysis, curves: Mapping[str, Sequence[tuple[int, float]]], title: str) -> bytes | None:
    """The picture; None where matplotlib is not installed, or does not load (a numpy that does not fit it)."""
    try:
        return draw(analysis, curves, title)
    except ImportError:
        return None


def _mark(axes: Any, analysis: Analysis) -> None:
    chosen, metric = analysis.selection.checkpoint, analysis.selection.metric
    if chosen is not None:
        axes.axvline(chosen.step, color="#555555", linestyle="--", linewidth=1, label=f"chosen: {chosen.name}")
    if metric is not None:
        label = f"best {metric.name}: {metric.value:.4g}"
        axes.plot([metric.step], [metric.value], "*", color="#ff7f0e", markersize=12, label=label, zorder=5)


def _spans_decades(curves: Mapping[str, Sequence[tuple[int, float]]]) -> bool:
    values = [value for points in curves.values() for _, value in points]
    return min(values) > 0 and math.log10(max(values)) - math.log10(min(values)) > 2.5


def _own_picture(run: RunDir) -> bytes | None:
    try:
        with open(os.path.join(run.checkpoints, OWN_PICTURE), "rb") as file:
            data = file.read(_LARGEST_TAKEN_OVER_BYTES + 1)
    except OSError:
        return None
    return data if data.startswith(_PNG_START) and len(data) <= _LARGEST_TAKEN_OVER_BYTES else None
