"""Horizontal bars and boxes, named at their left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from trtbench.report import style
from trtbench.report.charts import Bars, Box, Boxes
from trtbench.report.labels import shortened_apart
from trtbench.report.numbers import text_from_number
from trtbench.report.renderers._axes import LEGEND_COLUMNS, dress, legend
from trtbench.report.renderers._glyphs import printable

NAME_LENGTH = 40
ROOM_FOR_LABELS = 1.5
LABELLED_BARS = 40
"""Beside more bars than this, numbers would be a wall of text."""
TABLE_LETTERS = 64
"""That fit side by side into the heads of a table."""


def draw_bars(canvas: Canvas, chart: Bars) -> None:
    """Draw bars from top to bottom, several groups stacked or side by side."""
    axes = canvas.subplots()
    places = np.arange(len(chart.categories), dtype=np.float64)
    _name_rows(axes, chart.categories)
    ends = _stack(axes, chart, places) if chart.stacked else _side_by_side(axes, chart, places)
    axes.set_ylabel(printable(chart.category_title))
    dress(axes, chart.value, which="x")
    known = ends[np.isfinite(ends)]
    longest = float(known.max()) if len(known) else 0.0
    axes.set_xlim(0, (longest or 1.0) * (ROOM_FOR_LABELS if chart.groups[0].labels else 1.12))
    axes.set_xlabel(printable(chart.value.label))
    if len(chart.groups) > 1:
        taken = min(NAME_LENGTH, max(len(name) for name in chart.categories))
        names = [group.name for group in chart.groups]
        legend(axes, names=names, columns=LEGEND_COLUMNS - taken)


def _stack(axes: Axes, chart: Bars, places: NDArray[np.float64]) -> NDArray[np.float64]:
    ends = np.array(chart.starts) if chart.starts else np.zeros(len(places))
    for group in chart.groups:
        values = np.array([value or 0.0 for value in group.values])
        colour, label = style.colour(group.role), printable(group.name)
        axes.barh(places, values, left=ends, height=0.74, color=colour, label=label)
        ends += values
    labels = chart.groups[0].labels or tuple(text_from_number(float(end)) for end in ends)
    _label(axes, places, ends, labels)
    return ends


def _side_by_side(axes: Axes, chart: Bars, places: NDArray[np.float64]) -> NDArray[np.float64]:
    height = 0.8 / len(chart.groups)
    longest = np.zeros(len(places))
    for number, group in enumerate(chart.groups):
        values = np.array([value or 0.0 for value in group.values])
        at = places - 0.4 + height * (number + 0.5)
        colour, label = style.colour(group.role), printable(group.name)
        axes.barh(at, values, height=height * 0.94, color=colour, label=label)
        if len(places) * len(chart.groups) <= LABELLED_BARS:
            _label(axes, at, values, [text_from_number(v) if v else "" for v in group.values])
        longest = np.maximum(longest, values)
    return longest


def _label(
    axes: Axes, places: NDArray[np.float64], ends: NDArray[np.float64], labels: Sequence[str]
) -> None:
    for place, end, words in zip(places, ends, labels, strict=True):
        axes.annotate(
            printable(words),
            (end, place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL_PT,
        )


def draw_boxes(canvas: Canvas, chart: Boxes) -> None:
    """Draw box plots from top to bottom."""
    axes = _room(canvas, chart) if chart.statistics else canvas.subplots()
    _draw_boxes(axes, chart.boxes)
    _name_rows(axes, [box.name for box in chart.boxes], below=[b.beyond for b in chart.boxes])
    axes.set_ylabel("Run")
    dress(axes, chart.value, which="x")
    low, high = axes.get_xlim()
    if chart.value.scale == "log":
        axes.set_xlim(low / 1.08, high * 1.08)
    else:
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axes.set_xlabel(printable(chart.value.label))


def _room(canvas: Canvas, chart: Boxes) -> Axes:
    """Divide the page between the boxes and the table of their statistics below."""
    heights = [len(chart.boxes) + 1.2, 0.5 * len(chart.statistics) + 1]
    axes: Axes
    axes, below = canvas.subplots(2, 1, height_ratios=heights)
    below.axis("off")
    length = TABLE_LETTERS // len(chart.boxes)
    names = shortened_apart([box.name for box in chart.boxes], length=length)
    table = below.table(
        cellText=[[printable(words) for words in row[1:]] for row in chart.statistics],
        rowLabels=[row[0] for row in chart.statistics],
        colLabels=[printable(name) for name in names],
        loc="center",
        cellLoc="right",
        colLoc="right",
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(style.SMALL_PT)
    for cell in table.get_celld().values():
        cell.set_edgecolor(style.PALE)
        cell.set_height(1 / (len(chart.statistics) + 1))
    return axes


def _draw_boxes(axes: Axes, boxes: Sequence[Box]) -> None:
    """Draw all boxes at once: one call for each part, not one for each box."""
    places = np.arange(len(boxes))
    colours = [style.colour(box.role) for box in boxes]
    low, q1, median, q3, high = np.array(
        [(box.low, box.q1, box.median, box.q3, box.high) for box in boxes]
    ).T
    for begin, end in ((low, q1), (q3, high)):
        axes.hlines(places, begin, end, colors=colours, linewidth=2)
    for end in (low, high):
        axes.vlines(end, places - 0.16, places + 0.16, colors=colours, linewidth=2)
    axes.barh(places, q3 - q1, left=q1, height=0.56, color=colours, alpha=0.55)
    axes.vlines(median, places - 0.28, places + 0.28, color=style.INK, linewidth=3)
    x = [value for box in boxes for value in box.outliers]
    y = np.repeat(places, [len(box.outliers) for box in boxes])
    edges = [colour for box, colour in zip(boxes, colours, strict=True) for _ in box.outliers]
    axes.scatter(x, y, s=26, facecolors="none", edgecolors=edges, linewidths=1.1)


def _name_rows(axes: Axes, names: Sequence[str], *, below: Sequence[str | None] = ()) -> None:
    """Name rows, and say in a second line what lies outside the drawn range."""
    shown = shortened_apart(names, length=NAME_LENGTH)
    if any(below):
        shown = [
            f"{name}\n{words} ▸" if words else name
            for name, words in zip(shown, below, strict=True)
        ]
    axes.set_yticks(
        np.arange(len(names)), [printable(words) for words in shown], fontsize=style.SMALL_PT
    )
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
