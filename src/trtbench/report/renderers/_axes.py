"""What all charts share: labelled axes, scales, legends and marks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from trtbench.report import style
from trtbench.report.charts import TAILS, Axis, Mark
from trtbench.report.renderers._glyphs import printable
from trtbench.units import with_minus

LEGEND_COLUMNS = 90
"""Characters of legend text that fit side by side."""
HANDLE = 9
"""Characters as wide as the mark before a name and the gap behind it."""

DAY_S = 86_400.0
"""matplotlib counts time in days since 1970."""


def dress(axes: object, axis: Axis, *, which: str, values: Iterable[float] = ()) -> None:
    """Label one axis, set its scale, its ticks and its range."""
    side = getattr(axes, f"{which}axis")
    if axis.scale == "tail":
        _tail_ticks(side)
    elif axis.scale == "time":
        _date_ticks(side)
    elif axis.scale == "log2":
        getattr(axes, f"set_{which}scale")("log", base=2)
        side.set_major_locator(FixedLocator(sorted(set(values))))
        side.set_minor_locator(NullLocator())
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif axis.scale == "log":
        getattr(axes, f"set_{which}scale")("log")
        side.set_major_locator(LogLocator(subs=_log_steps(axis)))
        side.set_minor_locator(NullLocator())
        side.set_major_formatter(FuncFormatter(_plain))
    else:
        side.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10]))
        side.set_major_formatter(FuncFormatter(_plain))
    if axis.low is not None or axis.high is not None:
        # Setting limits, even to nothing, would stop panels that share an axis from widening it.
        getattr(axes, f"set_{which}lim")(axis.low, axis.high)


def positions(values: Iterable[float | None], axis: Axis) -> NDArray[np.float64]:
    """Place values on an axis; a quantile lies at the number of nines it has."""
    numbers = np.array([math.nan if value is None else value for value in values], dtype=float)
    if axis.scale == "tail":
        return np.asarray(-np.log10(np.clip(1 - numbers, 1e-9, 1)))
    return numbers / DAY_S if axis.scale == "time" else numbers


def legend(
    axes: Axes, *, names: list[str], columns: int = LEGEND_COLUMNS, above: bool = False
) -> None:
    """Put a legend above the axes (and above their title), in as many columns as names allow."""
    if not names:
        return
    longest = max(len(name) for name in names) + HANDLE
    in_a_row = sum(len(name) + HANDLE for name in names) <= columns
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.2 if above else 1.0),
        borderaxespad=0.2,
        ncols=len(names) if in_a_row else max(1, columns // longest),
        markerscale=1.2,
        handlelength=1.8,
        columnspacing=1.4,
    )


def draw_marks(axes: Axes, marks: Iterable[Mark]) -> None:
    """Draw marks with their words in rows of their own, so that words never meet."""
    row = 0
    for mark in marks:
        colour = style.colour(mark.role)
        if mark.axis == "y":
            _draw_level(axes, mark, colour)
            continue
        place = _fraction(axes, mark.at)
        if 0 <= place <= 1:
            axes.axvline(mark.at, color=colour, linewidth=1.6, linestyle=(0, (4, 2)), zorder=3)
        if not mark.text:
            continue
        right = place > 0.78
        axes.annotate(
            printable(f"{mark.text} ▸" if place > 1 else mark.text),
            (min(max(place, 0), 1), 0.97 - 0.15 * row),
            xycoords="axes fraction",
            xytext=(-6 if right else 6, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="top",
            fontsize=style.SMALL_PT,
            color=colour,
            bbox={"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
            zorder=5,
        )
        row += 1


def _draw_level(axes: Axes, mark: Mark, colour: str) -> None:
    """Draw a mark from left to right, with its words above its beginning."""
    axes.axhline(mark.at, color=colour, linewidth=1.6, linestyle=(0, (4, 2)), zorder=3)
    axes.annotate(
        printable(mark.text),
        (0.0, mark.at),
        xycoords=("axes fraction", "data"),
        xytext=(6, 3),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize=style.SMALL_PT,
        color=colour,
        zorder=5,
    )


def panel_title(axes: Axes, text: str | None, *, colour: str) -> None:
    """Name a panel above its left edge."""
    if text:
        axes.set_title(
            printable(text),
            loc="left",
            fontsize=style.SMALL_PT + 1,
            fontweight="bold",
            color=colour,
            pad=5,
            y=1.0,  # a fixed height spares matplotlib a search for one, a third of its time
        )


def _log_steps(axis: Axis) -> tuple[float, ...]:
    """Choose more marks within a decade when there is hardly more than one."""
    if axis.low and axis.high and axis.high / axis.low < 6:
        return (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    if axis.low and axis.high and axis.high / axis.low < 15:
        return (1.0, 2.0, 3.0, 5.0)
    return (1.0, 2.0, 5.0)


def _fraction(axes: Axes, at: float) -> float:
    """Tell where along the x axis a value lies, from 0 to 1 inside the drawn range."""
    point = axes.transScale.transform((at, axes.get_ylim()[0]))
    low, high = (axes.transScale.transform((x, axes.get_ylim()[0]))[0] for x in axes.get_xlim())
    return float((point[0] - low) / (high - low))


def _date_ticks(side: XAxis | YAxis) -> None:
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    side.set_major_locator(locator)
    side.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _tail_ticks(side: XAxis | YAxis) -> None:
    places = [-math.log10(1 - q) for q in TAILS]
    side.set_major_locator(FixedLocator(places))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(FuncFormatter(lambda place, _: f"{100 * (1 - 10**-place):.5g} %"))


def _plain(value: float, _: object) -> str:
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
    return with_minus(text.replace(",", " "))
