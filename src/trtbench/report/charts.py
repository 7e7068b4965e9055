"""Charts as values that any renderer can draw, with their colours, fonts and sizes.

Does not know drawing libraries. The role of a line, a bar or a mark determines its colour.
"""

from collections.abc import Iterable
from typing import Any, Literal

from trtbench.core.samples import Interval
from trtbench.core.spec import Value

Scale = Literal["linear", "log", "log2", "tail", "time"]
"""``tail`` is for quantiles: 0.99 to 0.999 takes as much space as 0.9 to 0.99.

``time`` takes seconds since 1970 and shows dates."""

LineStyle = Literal["line", "dotted", "points", "both", "mark", "beyond"]
TAIL_TICKS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)  # quantiles with a tick on a `tail` axis


class Axis(Value, frozen=True):
    """An axis of a figure; limits that are ``None`` follow the data."""

    title: str
    unit: str | None = None
    scale: Scale = "linear"
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


class Mark(Value, frozen=True):
    """A labelled straight line across a panel."""

    at: float
    text: str
    axis: Literal["x", "y"] = "x"
    role: str = "mark"


class Line(Value, frozen=True):
    """One line or set of points; ``role`` determines the colour."""

    name: str | None  # the name in the legend; `None` leaves it out of the legend
    role: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    style: LineStyle = "line"  # `beyond` draws points outside the range as triangles at its edge
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()  # limits of the interval of each y; empty if unknown
    texts: tuple[str, ...] = ()  # a label for each point


class Panel(Value, frozen=True):
    """One set of axes; the panels of a figure share the quantities on their axes."""

    title: str | None = None
    low: float | None = None
    high: float | None = None  # limits of the y axis of this panel; by default those of the figure
    y: Axis | None = None  # the y axis of this panel, if its quantity differs from the figure's
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()


class Lines(Value, frozen=True, tag="lines", tag_field="kind"):
    """A line chart, such as a time series or a percentile curve."""

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]


class Bins(Value, frozen=True):
    """Counts of one group, one for each bin."""

    name: str
    role: str
    counts: tuple[int, ...]
    marks: tuple[Mark, ...] = ()
    beyond: str | None = None  # text on the values outside the drawn range


class Histogram(Value, frozen=True, tag="histogram", tag_field="kind"):
    """A histogram; all groups share the bin edges."""

    x: Axis
    y: Axis
    edges: tuple[float, ...]
    groups: tuple[Bins, ...]


class BarGroup(Value, frozen=True):
    """Bars of one colour, one for every category."""

    name: str
    role: str
    values: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


class Bars(Value, frozen=True, tag="bars", tag_field="kind"):
    """Horizontal bars from top to bottom; several groups are stacked or side by side."""

    value: Axis
    category_title: str
    categories: tuple[str, ...]  # labels, not keys: they may repeat
    groups: tuple[BarGroup, ...]
    stacked: bool = True


class Box(Value, frozen=True):
    """Quartiles and whiskers of a distribution, and outliers beyond the whiskers."""

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
    return Lines(x, y, (Panel(lines=tuple(lines), marks=tuple(marks)),))


def line(
    name: str | None,
    role: str,
    x: Iterable[float],
    y: Iterable[float | None],
    style: LineStyle = "line",
    *,
    scale: float = 1.0,
    ends: Iterable[Interval | None] = (),
    texts: Iterable[str] = (),
) -> Line:
    """Return a line; ``y`` and the intervals in ``ends`` are divided by ``scale``."""
    found = list(ends)
    low = divided((None if each is None else each.low for each in found), scale)
    high = divided((None if each is None else each.high for each in found), scale)
    return Line(name, role, _as_tuple(x), divided(y, scale), style, low, high, texts=tuple(texts))


def bar_group(
    name: str, role: str, values: Iterable[float | None], scale: float, labels: Iterable[str] = ()
) -> BarGroup:
    """Return bars of one colour; values are divided by ``scale``."""
    return BarGroup(name, role, divided(values, scale), tuple(labels))


def divided(values: Iterable[float | None], scale: float) -> tuple[float | None, ...]:
    return tuple(None if each is None else each / scale for each in _as_tuple(values))


def _as_tuple(values: Any) -> Any:
    return tuple(values.tolist() if hasattr(values, "tolist") else values)


# ---- colours, fonts and sizes

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
"""Colours for light and for dark background.

The palette of Okabe and Ito, without yellow, which is hard to see on white."""
GREY, INK, OTHER, PALE, PAPER = (TOKENS[n][0] for n in ("grey", "ink", "other", "pale", "paper"))
RUNS = tuple(light for light, _ in TOKENS.values())[:7]
LINE_STYLES = (("solid", "o"), ("dashed", "s"), ("dotted", "D"), ("dashdot", "^"))
"""Line styles and markers that tell apart runs of the same colour."""
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
"""Colours by role, the same in every figure and format."""

WIDTH_IN = 13.5
DPI = 110
FONT_PT = 14.0  # corresponds to 7 pt when the figure is printed at the width of a text column
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
"""In order of preference; fonts that are not installed are skipped."""


def colour(role: str) -> str:
    """Return the colour of a role: a key of ``ROLES``, or ``run:3`` for the fourth run."""
    name, _, index = role.partition(":")
    if name == "run":
        return RUNS[int(index or 0) % len(RUNS)]
    return ROLES.get(name, GREY)


def line_style_and_marker(role: str) -> tuple[str, str]:
    """Return the line style and the marker that tell apart runs of the same colour."""
    name, _, index = role.partition(":")
    used_up = int(index or 0) // len(RUNS) if name == "run" else 0
    return LINE_STYLES[used_up % len(LINE_STYLES)]
