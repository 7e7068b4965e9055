"""What plotly figures share: colours by name, axes, marks, text that stands for itself."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from trtbench.report import style
from trtbench.report.charts import TAILS, Axis, Mark, Span
from trtbench.report.labels import shortened

Spec = dict[str, Any]

NAME_LENGTH = 48
DIGITS = 6
"""Significant digits of what is drawn: more than any screen shows."""
DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}


def ink(role: str, alpha: float | None = None) -> str:
    """Name a role's colour for the page to fill in."""
    return f"@{style.token(role)}" + (f"/{alpha:g}" if alpha is not None else "")


def words(text: str, *, length: int = NAME_LENGTH) -> str:
    """Make text stand for itself where plotly would read HTML in it."""
    return html.escape(shortened(text, length=length), quote=False)


def rounded(values: Iterable[float | None]) -> list[float | None] | list[str | None]:
    """Cut digits nobody sees; what is not a number becomes a gap."""
    return [
        float(f"{value:.{DIGITS}g}") if value is not None and math.isfinite(value) else None
        for value in values
    ]


def placed(values: Sequence[float | None], axis: Axis) -> list[float | None] | list[str | None]:
    """Place values on an axis; a quantile lies at the number of nines it has."""
    if axis.scale == "tail":
        return rounded(
            None if value is None else -math.log10(min(1.0, max(1e-9, 1 - value)))
            for value in values
        )
    if axis.scale == "time":
        return [None if value is None else _date(value) for value in values]
    return rounded(values)


def axis_spec(axis: Axis, *, values: Iterable[float | None] = (), padded: bool = False) -> Spec:
    """Describe one axis: label, scale, ticks and range."""
    spec: Spec = {"title": {"text": words(axis.label, length=80)}}
    if axis.scale == "tail":
        spec["tickvals"] = [-math.log10(1 - q) for q in TAILS]
        spec["ticktext"] = [f"{100 * q:.5g} %" for q in TAILS]
    elif axis.scale == "log2":
        known = sorted({value for value in values if value})
        spec |= {"type": "log", "tickvals": known, "ticktext": [f"{each:g}" for each in known]}
    elif axis.scale == "time":
        spec["type"] = "date"
    elif axis.scale == "log":
        spec |= {"type": "log", **_log_ticks(axis, values)}
    return spec | _range(axis, padded=padded)


def mark_shape(mark: Mark, *, x: str, y: str) -> Spec:
    """Draw a line across a panel."""
    colour = ink(mark.role)
    line = {"color": colour, "width": 1.5, "dash": "dash"}
    at = float(f"{mark.at:.{DIGITS}g}")
    if mark.axis == "y":
        return {"type": "line", "xref": f"{x} domain", "yref": y, "x0": 0, "x1": 1,
                "y0": at, "y1": at, "line": line}  # fmt: skip
    return {"type": "line", "xref": x, "yref": f"{y} domain", "x0": at, "x1": at,
            "y0": 0, "y1": 1, "line": line}  # fmt: skip


def mark_text(mark: Mark, *, x: str, y: str, row: int, axis: Axis) -> Spec:
    """Write a mark's words beside it, each in a row of its own; near the end, on the left."""
    font = {"color": ink(mark.role), "size": 12}
    if mark.axis == "y":
        return {"xref": f"{x} domain", "yref": y, "x": 0, "y": mark.at, "text": words(mark.text),
                "showarrow": False, "xanchor": "left", "yanchor": "bottom", "xshift": 4,
                "font": font}  # fmt: skip
    log = axis.scale == "log" and mark.at > 0
    at = math.log10(mark.at) if log else mark.at
    low, high = (_logged(end) if log else end for end in (axis.low, axis.high))
    late = low is not None and high is not None and at > low + 0.7 * (high - low)
    return {"xref": x, "yref": f"{y} domain", "x": at, "y": 0.98 - 0.16 * row, "text":
            words(mark.text), "showarrow": False, "xanchor": "right" if late else "left",
            "yanchor": "top", "xshift": -4 if late else 4,
            "font": font, "bgcolor": "@paper/0.75"}  # fmt: skip


def span_shape(span: Span, *, x: str, y: str) -> Spec:
    """Shade a stretch of the x axis."""
    return {"type": "rect", "xref": x, "yref": f"{y} domain", "x0": span.low, "x1": span.high,
            "y0": 0, "y1": 1, "line": {"width": 0}, "layer": "below",
            "fillcolor": ink(span.role, 0.18)}  # fmt: skip


def panel_title(text: str, *, y: str, colour: str, side: str = "left") -> Spec:
    """Name a panel above its edge."""
    at = 0 if side == "left" else 1
    return {"xref": "paper", "yref": f"{y} domain", "x": at, "y": 1, "yshift": 4, "text": text,
            "showarrow": False, "xanchor": side, "yanchor": "bottom",
            "font": {"color": colour, "size": 13}}  # fmt: skip


def domains(count: int, *, gap_px: float, height_px: float) -> list[tuple[float, float]]:
    """Divide the height between panels, the first on top."""
    gap = gap_px / height_px
    each = (1 - gap * (count - 1)) / count
    ends = [1 - (each + gap) * i for i in range(count)]
    return [(max(0.0, round(end - each, 6)), round(end, 6)) for end in ends]


def _logged(value: float | None) -> float | None:
    return math.log10(value) if value and value > 0 else None


def _log_ticks(axis: Axis, values: Iterable[float | None]) -> Spec:
    """Name round numbers in full; plotly would name all but powers of ten by one digit."""
    known = [each for each in (axis.low, axis.high, *values) if each and each > 0]
    if not known:
        return {}
    low, high = math.log10(min(known)), math.log10(max(known))
    steps: tuple[float, ...] = (1,)
    for decades, closer in ((3.0, (1, 2, 5)), (1.2, (1, 2, 3, 5)), (0.8, (1, 1.5, 2, 3, 5, 7))):
        if high - low < decades:
            steps = closer
    powers = range(math.floor(low) - 1, math.ceil(high) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return {"tickvals": ticks, "ticktext": [_plain(each) for each in ticks]}


def _plain(value: float) -> str:
    return f"{value:,.6g}".replace(",", " ") if value < 1e6 else f"{value:.3g}"


def _range(axis: Axis, *, padded: bool) -> Spec:
    low, high = axis.low, axis.high
    if low is None and high is None:
        return {}
    if low is None or high is None:
        return {"rangemode": "tozero"} if low == 0 else {}
    if axis.scale == "log" and low > 0:
        return {"range": [math.log10(low), math.log10(high)]}
    room = 0.04 * (high - low) if padded else 0.0
    return {"range": [low - room, high + room]}


def _date(seconds: float) -> str:
    when = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return when.strftime("%Y-%m-%d %H:%M:%S")
