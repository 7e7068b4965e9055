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
    low = scaled((None if each is None else each.low for each in found), scale)
    high = scaled((None if each is None else each.high for each in found), scale)
    return Line(name, role, _listed(x), scaled(y, scale), style, low, high, texts=tuple(texts))


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
    return tuple(values.tolist() if hasattr(values, "tolist") else values)


# ---- the look of every picture

TOKENS = {
    "blue": ("#0072B2", "#4DA6DD"),
    "vermillion": ("#D55E00", "#F08A4B"),
    "green": ("#009E73", "#2FC79A"),
    "purple": ("#CC79A7", "#E3A3C7"),
    "orange": ("#E69F00", "#F2B84B"),
    "sky": ("#56B4E9", "#8CCBF0"),
    "grey": ("#6B7280", "#9AA5B4"),
    "other": ("#B8C0CA", "#5B6675"),
    "ink": ("#1F2933", "#E8EDF3"),
    "pale": ("#E3E8EE", "#2C3642"),
    "paper": ("#FFFFFF", "#12171D"),
}
"""Colours with their shades on light and on dark ground.

Okabe and Ito's palette, without its yellow, which is lost on white paper."""
GREY, INK, OTHER, PALE, PAPER = (TOKENS[n][0] for n in ("grey", "ink", "other", "pale", "paper"))
RUNS = tuple(light for light, _ in TOKENS.values())[:7]
ROUNDS = (("solid", "o"), ("dashed", "s"), ("dotted", "D"), ("dashdot", "^"))
"""When runs outnumber colours, dash patterns and shapes of marks change with every round."""
ROLES = {
    role: TOKENS[name][0]
    for name, roles in {
        "ink": ("host", "median"),
        "purple": ("latency", "bf16"),
        "orange": ("enqueue", "warm-up", "warning", "int8"),
        "sky": ("h2d", "note", "tf32"),
        "green": ("gpu", "layer", "faster", "fp16"),
        "blue": ("d2h", "fp32"),
        "vermillion": ("end_to_end", "slower", "outlier", "error", "fp8"),
        "grey": ("total", "mark", "front"),
        "other": ("other",),
    }.items()
    for role in roles
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


def dash_and_shape(role: str) -> tuple[str, str]:
    """Give the dash pattern and the mark that distinguish runs of one colour."""
    name, _, index = role.partition(":")
    used_up = int(index or 0) // len(RUNS) if name == "run" else 0
    return ROUNDS[used_up % len(ROUNDS)]
