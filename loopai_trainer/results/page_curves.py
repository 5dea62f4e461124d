"""Curves that can be hovered and zoomed: which panels a page has, and their drawing with Bokeh, if it is installed."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from loopai_trainer.records import MetricKind, MetricRow
from loopai_trainer.results.page_frame import CURVES, Drawing
from loopai_trainer.results.points import thin
from loopai_trainer.rules.series import columns

_log = logging.getLogger(__name__)

# Title -> (kind, key or glob) of its lines.
_GROUPS: tuple[tuple[str, tuple[tuple[MetricKind, str], ...]], ...] = (
    ("Loss", (("train", "loss"), ("eval", "eval_loss"), ("eval", "eval_*_loss"))),
    ("Reward", (("train", "critic/score/mean"), ("train", "critic/rewards/mean"))),
    ("Validation score", (("val", "val-core/*/mean@*"),)),
    ("Policy loss", (("train", "actor/loss"), ("train", "actor/pg_loss"))),
    ("Entropy", (("train", "actor/entropy"), ("train", "actor/entropy_loss"))),
    ("Response length, tokens", (("train", "response_length/mean"),)),
    ("Learning rate", (("train", "learning_rate"), ("train", "lr"), ("train", "actor/lr"))),
    ("Gradient norm", (("train", "grad_norm"), ("train", "actor/grad_norm"))),
)
_LINES = 8
_COLOURS = ("#2f7fd6", "#e0632f", "#2a9d6f", "#a066d3", "#c9932c", "#d9538f", "#3aa6b9", "#8b8f3a")
"""Told apart, and read, on a light and on a dark ground."""
_DASHES = ("solid", "dashed", "dotdash")
_FEW_POINTS = 30
_DECADES = 2.5
_NAME_LENGTH = 60
_NAMES_IN_A_ROW = 24
"""Characters that fit side by side on a phone."""
_LEGEND_ROW_PX = 23


class Line(NamedTuple):
    """One curve; `colour` and `dash` count from 0 (a solid line) and begin again where there are no more."""

    name: str
    points: Sequence[tuple[int, float]]
    colour: int = 0
    dash: int = 0


class Panel(NamedTuple):
    """Curves that share a scale."""

    title: str
    lines: tuple[Line, ...]


def panels(rows: Iterable[MetricRow]) -> tuple[Panel, ...]:
    """The panels that these rows have finite points for, in reading order."""
    table = columns(rows)
    found = []
    for title, wanted in _GROUPS:
        names = {
            (kind, name): values
            for kind, pattern in wanted
            for name, values in sorted(table[kind].items())
            if fnmatchcase(name, pattern)
        }
        lines = tuple(
            Line(name, thin(sorted(values.items())), colour=index)
            for index, ((_, name), values) in enumerate(names.items())
        )
        if lines:
            found.append(Panel(title, lines[:_LINES]))
    return tuple(found)


def together(runs: Sequence[tuple[str, Sequence[Panel]]]) -> tuple[Panel, ...]:
    """The panels of several (name, panels), each with the lines of all: one colour a run, one dash a metric."""
    titles = dict.fromkeys(panel.title for _, one in runs for panel in one)
    merged = []
    for title in titles:
        lines: list[Line] = []
        for colour, (name, one) in enumerate(runs):
            told = [line for panel in one if panel.title == title for line in panel.lines]
            lines += [Line(f"{name}: {line.name}", line.points, colour, dash) for dash, line in enumerate(told)]
        merged.append(Panel(title, tuple(lines)))
    return tuple(merged)


def drawing(found: Sequence[Panel], marks: Sequence[int] = ()) -> Drawing | None:
    """The panels for a page; `marks`: steps to be marked. None where Bokeh is missing or does not work."""
    if not found:
        return None
    try:
        return _drawn(found, marks)
    except ImportError:
        return None
    except (AttributeError, TypeError, ValueError, OSError, RuntimeError) as fault:
        # Another release than the tested one: a page without curves that move is better than none.
        _log.warning("Bokeh could not draw the curves: %s", fault)
        return None


def _drawn(found: Sequence[Panel], marks: Sequence[int]) -> Drawing:
    from bokeh.embed import json_item
    from bokeh.layouts import column
    from bokeh.resources import Resources

    figures: list[Any] = []
    for index, panel in enumerate(found):
        figures.append(
            _figure(panel, marks, figures[0].x_range if figures else None, with_axis=index == len(found) - 1)
        )
    item: dict[str, Any] = {**json_item(column(figures, sizing_mode="stretch_width")), "target_id": CURVES}
    library = "".join(Resources(mode="inline", components=["bokeh"], minified=True).js_raw[:1])
    return Drawing(library.replace("</script", "<\\/script"), item)


def _figure(panel: Panel, marks: Sequence[int], x_range: Any, *, with_axis: bool) -> Any:
    from bokeh.models import HoverTool
    from bokeh.plotting import figure

    log = _spans_decades(panel)
    plot = figure(
        title=panel.title + (" (logarithmic)" if log else ""),
        height=270,
        sizing_mode="stretch_width",
        tools="box_zoom,pan,wheel_zoom,reset",
        active_drag="box_zoom",
        active_scroll=None,
        toolbar_location="above",
        y_axis_type="log" if log else "linear",
        background_fill_color=None,
        border_fill_color=None,
        **({"x_range": x_range} if x_range is not None else {}),
    )
    renderers = []
    for line in panel.lines:
        renderers += _line(plot, line)
    plot.add_tools(HoverTool(renderers=renderers, tooltips=[("", "@name"), ("step", "@step"), ("value", "@shown")]))
    _mark(plot, marks)
    _set_axes(plot, log=log, with_axis=with_axis)
    return plot


def _line(plot: Any, line: Line) -> list[Any]:
    from bokeh.models import ColumnDataSource

    # Told apart by position in the legend too: a very long name would push the curve out of a narrow page.
    name = line.name if len(line.name) <= _NAME_LENGTH else line.name[: _NAME_LENGTH - 3] + "..."
    steps, values = [step for step, _ in line.points], [value for _, value in line.points]
    source = ColumnDataSource(
        {"step": steps, "value": values, "shown": [f"{value:.6g}" for value in values], "name": [name] * len(steps)}
    )
    colour, dash = _COLOURS[line.colour % len(_COLOURS)], _DASHES[line.dash % len(_DASHES)]
    kept = {"source": source, "color": colour, "legend_label": name}
    drawn = [plot.line("step", "value", line_width=2, line_dash=dash, **kept)]
    if len(steps) <= _FEW_POINTS:
        drawn.append(plot.scatter("step", "value", size=6, **kept))
    return drawn


def _mark(plot: Any, marks: Sequence[int]) -> None:
    from bokeh.models.annotations import Span

    for step in marks:
        plot.add_layout(Span(location=step, dimension="height", line_dash="dashed", line_width=1))


def _set_axes(plot: Any, *, log: bool, with_axis: bool) -> None:
    from bokeh.models import NumeralTickFormatter

    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.xaxis.ticker.min_interval = 1
    plot.xaxis.axis_label = "step" if with_axis else None
    plot.title.text_font_size = "14px"
    plot.xaxis.major_label_text_font_size = plot.yaxis.major_label_text_font_size = "12px"
    plot.toolbar.logo = None
    plot.toolbar.autohide = False
    legend = plot.legend[0]
    plot.legend.click_policy = "hide"
    plot.legend.label_text_font_size = "12px"
    plot.legend.location = "left"
    plot.legend.padding = 0
    plot.legend.margin = 2
    # Below the curve, so that it never lies on it.
    plot.center.remove(legend)
    plot.add_layout(legend, "below")
    side_by_side = sum(len(item.label.value) for item in legend.items) <= _NAMES_IN_A_ROW
    plot.legend.orientation = "horizontal" if side_by_side else "vertical"
    plot.height += 0 if side_by_side else _LEGEND_ROW_PX * len(legend.items)


def _spans_decades(panel: Panel) -> bool:
    values = [value for line in panel.lines for _, value in line.points]
    return min(values) > 0 and math.log10(max(values)) - math.log10(min(values)) > _DECADES
