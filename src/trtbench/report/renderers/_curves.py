"""Histograms and lines: one panel, or several one below the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from trtbench.report import style
from trtbench.report.charts import Histogram, Line, Lines, Panel, Span
from trtbench.report.labels import shortened
from trtbench.report.renderers._axes import draw_marks, dress, legend, panel_title, positions
from trtbench.report.renderers._glyphs import printable

TITLE_LENGTH = 60
NAME_LENGTH = 60
SHAPES = dict(zip(style.SHAPES, "osD^P*", strict=True))
LEAST_AREA, MOST_AREA = 60.0, 620.0
"""Of a mark, in square points."""


def draw_histogram(canvas: Canvas, chart: Histogram) -> None:
    """Draw one panel per group above a common axis."""
    panels = _panels(canvas, len(chart.groups), sharey=False)
    several = len(chart.groups) > 1
    for axes, group in zip(panels, chart.groups, strict=True):
        colour = style.colour(group.role)
        axes.stairs(group.counts, chart.edges, fill=True, color=colour, alpha=0.85, zorder=2)
        dress(axes, chart.x, which="x")
        dress(axes, chart.y, which="y")
        axes.set_ylim(0, max(1, *group.counts) * (1.45 if several else 1.25))
        axes.grid(axis="x", visible=False)
        axes.set_ylabel(printable(chart.y.label))
        draw_marks(axes, group.marks)
        length = TITLE_LENGTH * 2 // 3 if group.beyond else TITLE_LENGTH
        panel_title(axes, shortened(group.name, length=length), colour=colour)
        if group.beyond:
            words = printable(f"{group.beyond} ▸")
            outlier = style.colour("outlier")
            axes.set_title(words, loc="right", fontsize=style.SMALL_PT, color=outlier, pad=5, y=1.0)
    panels[-1].set_xlabel(printable(chart.x.label))


def draw_lines(canvas: Canvas, chart: Lines) -> None:
    """Draw the panels of a line chart above a common axis."""
    own = any(panel.low is not None for panel in chart.panels)
    panels = _panels(canvas, len(chart.panels), sharey=not own, sharex=chart.shared_x)
    several = len(chart.panels) > 1
    for axes, panel in zip(panels, chart.panels, strict=True):
        _draw_panel(axes, panel, chart)
        if not several:
            axes.set_ylabel(printable(chart.y.label))
        title, colour = _title(panel) if several else (None, style.INK)
        panel_title(axes, title, colour=colour)
    names = [shortened(n.name, length=NAME_LENGTH) for n in chart.panels[0].lines if n.name]
    if not several or any(panel.y for panel in chart.panels):
        legend(panels[0], names=names, above=several)
    else:
        # A label beside each panel would be longer than the panel is high.
        canvas.supylabel(printable(chart.y.label), fontsize=style.FONT_PT)
    panels[-1].set_xlabel(printable(chart.x.label))


def _title(panel: Panel) -> tuple[str, str]:
    """Name a panel by its quantity, or by its run in that run's colour."""
    if panel.y:
        return panel.y.label, style.INK
    colour = style.colour(panel.lines[0].role) if panel.lines else style.INK
    return shortened(panel.title or "", length=TITLE_LENGTH), colour


def _panels(canvas: Canvas, count: int, *, sharey: bool, sharex: bool = True) -> list[Axes]:
    grid = canvas.subplots(count, 1, sharex=sharex, sharey=sharey, squeeze=False)
    return list(grid[:, 0])


def _draw_panel(axes: Axes, panel: Panel, chart: Lines) -> None:
    for line in panel.lines:
        _draw_line(axes, line, chart)
    xs = [x for line in panel.lines for x in line.x]
    ys = [y for line in panel.lines for y in line.y if y is not None]
    dress(axes, chart.x, which="x", values=xs)
    dress(axes, chart.y, which="y", values=ys)
    low = chart.y.low if panel.low is None else panel.low
    high = chart.y.high if panel.high is None else panel.high
    if low is not None and high is not None and chart.y.scale == "linear":
        # Points on the edge of the range are cut in half without a little room.
        room = 0.04 * (high - low)
        axes.set_ylim(low - room, high + room)
    for span in panel.spans:
        _shade(axes, span)
    draw_marks(axes, panel.marks)


def _draw_line(axes: Axes, line: Line, chart: Lines) -> None:
    x, y = positions(line.x, chart.x), positions(line.y, chart.y)
    colour = style.colour(line.role)
    name = printable(shortened(line.name, length=NAME_LENGTH)) if line.name else None
    common: dict[str, Any] = {"color": colour, "label": name or "_nolegend_"}
    _draw_ends(axes, line, x, colour)
    for place, words in enumerate(line.texts):
        axes.annotate(
            printable(words),
            (x[place], y[place]),
            xytext=(9, -15),
            textcoords="offset points",
            fontsize=style.SMALL_PT,
            color=style.GREY,
        )
    if line.sizes:
        areas = [LEAST_AREA + MOST_AREA * size for size in line.sizes]
        mark = SHAPES[style.shape(line.role)]
        axes.scatter(
            x, y, s=areas, alpha=0.8, zorder=4, color=colour, marker=mark, edgecolors=style.PAPER
        )
        # In the legend all marks are of one size, or they would cover the names.
        axes.plot([], [], mark, ms=8, **common)
    elif line.style == "points":
        size = 5.0 if len(x) < 400 else 3.2
        axes.plot(x, y, "o", ms=size, alpha=0.45, mew=0, zorder=2, **common)
    elif line.style == "ring":
        axes.plot(x, y, "o", ms=7, mfc="none", mew=1.6, zorder=3, **common)
    elif line.style == "beyond":
        axes.plot(x, y, "^", ms=8, mew=0, zorder=4, clip_on=False, **common)
    elif line.style == "steps":
        x, y = np.r_[x[:1], x], np.r_[0.0, y]
        dashes = style.dash(line.role)
        axes.plot(x, y, drawstyle="steps-post", linestyle=dashes, zorder=3, **common)
    elif line.style == "dotted":
        axes.plot(x, y, linestyle=(0, (1, 1.6)), alpha=0.8, zorder=3, **common)
    else:
        marker = "o" if line.style == "both" else None
        dashes = style.dash(line.role)
        axes.plot(x, y, linestyle=dashes, marker=marker, ms=9, zorder=3, **common)


def _draw_ends(axes: Axes, line: Line, x: NDArray[np.float64], colour: str) -> None:
    for at, low, high in zip(x, line.low, line.high, strict=False):
        if low is not None and high is not None:
            axes.vlines(at, low, high, color=colour, linewidth=1.6, zorder=2)


def _shade(axes: Axes, span: Span) -> None:
    colour = style.colour(span.role)
    axes.axvspan(span.low, span.high, color=colour, alpha=0.18, zorder=1)
    axes.annotate(
        printable(span.text),
        (span.low, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(6, 0),
        textcoords="offset points",
        fontsize=style.SMALL_PT,
        color=style.INK,
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        zorder=5,
    )
