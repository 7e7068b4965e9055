"""Charts as values: described once, as data, and drawn by any renderer.

Does not know drawing libraries; a role chooses a colour (see ``style``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from trtbench.core.spec import Value
from trtbench.core.units import Bounds

Scale = Literal["linear", "log", "log2", "tail", "time"]
"""``tail`` is for quantiles: as much room from 0.99 to 0.999 as from 0.9 to 0.99.

``time`` holds seconds since 1970 and shows dates."""

LineStyle = Literal["line", "dotted", "steps", "points", "both", "ring", "beyond"]
TAILS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""Quantiles that a ``tail`` axis names."""


class Axis(Value, frozen=True):
    """An axis of a figure; a range that is ``None`` follows the data."""

    title: str
    unit: str | None = None
    scale: Scale = "linear"
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


class Mark(Value, frozen=True):
    """A straight line across a panel, with a word beside it."""

    at: float
    text: str
    axis: Literal["x", "y"] = "x"
    role: str = "mark"


class Span(Value, frozen=True):
    """A shaded stretch of the x axis."""

    low: float
    high: float
    text: str
    role: str = "warm-up"


class Line(Value, frozen=True):
    """Points that belong together; ``role`` chooses the colour (see ``style``)."""

    name: str | None
    """As the legend shows it; ``None`` keeps it out of the legend."""
    role: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    style: LineStyle = "line"
    """``beyond`` marks points that lie outside the drawn range, at its edge."""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    """Ends of an interval around each y; empty where none is known."""
    sizes: tuple[float, ...] = ()
    """Areas of the marks, relative to the largest of the panel."""
    texts: tuple[str, ...] = ()
    """A word beside each point."""


class Panel(Value, frozen=True):
    """One set of axes of a figure; the panels of a figure share their axes' meaning."""

    title: str | None = None
    low: float | None = None
    high: float | None = None
    """Range of the y axis of this panel alone; by default the figure's."""
    y: Axis | None = None
    """Where the panel shows another quantity than the figure's axis names."""
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()


class Lines(Value, frozen=True, tag="lines", tag_field="kind"):
    """Curves: ECDFs, time series, percentile curves, one quantity against another."""

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    shared_x: bool = True
    """False where panels differ so much in length that one axis would squeeze some of them."""


class Bins(Value, frozen=True):
    """Counts of one group, one for each pair of neighbouring edges."""

    name: str
    role: str
    counts: tuple[int, ...]
    marks: tuple[Mark, ...] = ()
    beyond: str | None = None
    """What lies outside the drawn range, in words."""


class Histogram(Value, frozen=True, tag="histogram", tag_field="kind"):
    """How often values fall between edges that all groups share."""

    x: Axis
    y: Axis
    edges: tuple[float, ...]
    groups: tuple[Bins, ...]


class BarGroup(Value, frozen=True):
    """One colour of bars, a value for every category."""

    name: str
    role: str
    values: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


class Bars(Value, frozen=True, tag="bars", tag_field="kind"):
    """Horizontal bars, from top to bottom; several groups are stacked, or stand side by side."""

    value: Axis
    category_title: str
    categories: tuple[str, ...]
    """Labels, not keys: they may repeat."""
    groups: tuple[BarGroup, ...]
    stacked: bool = True
    starts: tuple[float, ...] = ()
    """Where each bar begins, for a waterfall; empty: at zero."""


class Box(Value, frozen=True):
    """Five numbers of a distribution, and single values outside the whiskers."""

    name: str
    role: str
    low: float
    q1: float
    median: float
    q3: float
    high: float
    outliers: tuple[float, ...] = ()
    beyond: str | None = None


class Boxes(Value, frozen=True, tag="boxes", tag_field="kind"):
    """Box plots side by side on one axis."""

    value: Axis
    boxes: tuple[Box, ...]
    statistics: tuple[tuple[str, ...], ...] = ()
    """Rows that a picture shows below the boxes: a name, and a text for every box."""


Chart = Lines | Histogram | Bars | Boxes


def curves(x: Axis, y: Axis, lines: Iterable[Line], *, marks: Iterable[Mark] = ()) -> Lines:
    """Describe lines that share one panel."""
    return Lines(x, y, (Panel(lines=tuple(lines), marks=tuple(marks)),))


def line(
    name: str | None,
    role: str,
    x: Iterable[float],
    y: Iterable[float | None],
    style: LineStyle = "line",
    *,
    scale: float = 1.0,
    ends: Iterable[Bounds | None] = (),
    texts: Iterable[str] = (),
) -> Line:
    """Describe a line; ``y`` and the ends of its intervals are divided by the scale."""
    found = list(ends)
    low = (None if each is None else each.low for each in found)
    high = (None if each is None else each.high for each in found)
    return Line(
        name, role, tuple(_listed(x)), scaled(y, scale), style, scaled(low, scale),
        scaled(high, scale), texts=tuple(texts),
    )  # fmt: skip


def bar_group(
    name: str,
    role: str,
    values: Iterable[float | None],
    *,
    scale: float = 1.0,
    labels: Iterable[str] = (),
) -> BarGroup:
    """Describe bars of one colour; values are divided by the scale."""
    return BarGroup(name, role, scaled(values, scale), tuple(labels))


def scaled(values: Iterable[float | None], scale: float) -> tuple[float | None, ...]:
    """Divide what is known by a scale."""
    return tuple(None if each is None else each / scale for each in _listed(values))


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values
