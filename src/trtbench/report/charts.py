"""Charts as values, drawn by any renderer, and their one look: colours, fonts and sizes.

Does not know drawing libraries; a role (of a line, a bar, a mark) chooses its colour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from trtbench.core.spec import Value
from trtbench.core.units import Bounds

Scale = Literal["linear", "log", "log2", "tail", "time"]
"""``tail`` is for quantiles: as much room from 0.99 to 0.999 as from 0.9 to 0.99.

``time`` holds seconds since 1970 and shows dates."""

LineStyle = Literal["line", "dotted", "points", "both", "mark", "ring", "beyond"]
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


class Line(Value, frozen=True):
    """Points that belong together; ``role`` chooses the colour."""

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


class Lines(Value, frozen=True, tag="lines", tag_field="kind"):
    """Curves: ECDFs, time series, percentile curves, one quantity against another."""

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]


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


# ---- the look of every picture

# Okabe and Ito's palette, without its yellow, which is lost on white paper.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREY = "#6B7280"
INK = "#1F2933"
OTHER = "#B8C0CA"
PALE = "#E3E8EE"
PAPER = "#FFFFFF"

TOKENS = {
    "blue": (BLUE, "#4DA6DD"),
    "vermillion": (VERMILLION, "#F08A4B"),
    "green": (GREEN, "#2FC79A"),
    "purple": (PURPLE, "#E3A3C7"),
    "orange": (ORANGE, "#F2B84B"),
    "sky": (SKY, "#8CCBF0"),
    "grey": (GREY, "#9AA5B4"),
    "other": (OTHER, "#5B6675"),
    "ink": (INK, "#E8EDF3"),
    "pale": (PALE, "#2C3642"),
    "paper": (PAPER, "#12171D"),
}
"""Names of the colours with their shades on light and on dark ground."""

RUNS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY)
DASHES = ("solid", "dashed", "dotted", "dashdot")
SHAPES = ("circle", "square", "diamond", "triangle", "cross", "star")
"""When runs outnumber colours, dash patterns and shapes of marks change with every round."""

ROLES = {
    "host": INK,
    "latency": PURPLE,
    "enqueue": ORANGE,
    "h2d": SKY,
    "gpu": GREEN,
    "d2h": BLUE,
    "end_to_end": VERMILLION,
    "other": OTHER,
    "layer": GREEN,
    "total": GREY,
    "slower": VERMILLION,
    "faster": GREEN,
    "mark": GREY,
    "median": INK,
    "outlier": VERMILLION,
    "warm-up": ORANGE,
    "front": GREY,
    "note": SKY,
    "warning": ORANGE,
    "error": VERMILLION,
    "fp32": BLUE,
    "tf32": SKY,
    "fp16": GREEN,
    "bf16": PURPLE,
    "int8": ORANGE,
    "fp8": VERMILLION,
}
"""The same colour for the same thing, in every figure and every format."""

WIDTH_IN = 13.5
DPI = 110
FONT_PT = 14.0
"""On a page as wide as a text this is as large as 7 pt on paper: still read with ease."""
SMALL_PT = 12.0
TITLE_PT = 17.0

FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""In order of preference; those a machine lacks are passed over."""


def colour(role: str) -> str:
    """Write the colour of a role: a name of ``ROLES``, or ``run:3`` for the fourth run."""
    name, _, index = role.partition(":")
    if name == "run":
        return RUNS[int(index or 0) % len(RUNS)]
    return ROLES.get(name, GREY)


def token(role: str) -> str:
    """Write the name of a role's colour, for pages that are light or dark."""
    shade = colour(role)
    return next(name for name, (light, _) in TOKENS.items() if light == shade)


def dash(role: str) -> str:
    """Write the dash pattern that tells runs of one colour apart."""
    return DASHES[_round(role) % len(DASHES)]


def shape(role: str) -> str:
    """Name the shape of a mark that tells runs of one colour apart."""
    return SHAPES[_round(role) % len(SHAPES)]


def _round(role: str) -> int:
    """Count how often the colours were used up before a run had its own."""
    name, _, index = role.partition(":")
    return int(index or 0) // len(RUNS) if name == "run" else 0
