"""Latency against the rate of arrivals: table, figure and words, of a search or of stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.load import Decision, RatePoint
from trtbench.report.cells import duration_cell, fraction_cell, rate_cell
from trtbench.report.charts import Axis, Line, Lines, Mark, Panel
from trtbench.report.document import Cell, Figure, Heading, Table, Tone, table_from_rows
from trtbench.report.numbers import common_unit, unit_for_seconds

FAR = 3
"""Times the highest latency: a bound further up would leave no room for the curve."""
TONES: dict[Decision, Tone] = {"accepted": "good", "refused": "bad", "unclear": "unclear"}
MEDIAN = "p50"
"""By nearest rank, as all percentiles of a bound are."""
MEDIAN_HEADING = Heading(key="median_s", title="Median", align="right", rank=2)


def rate_table(
    points: Sequence[RatePoint], *, statistic: str, id: str = "rates", bounded: bool = True
) -> Table:
    """List every rate with its percentile and what was decided; of a bounded median no other."""
    medians = () if statistic == MEDIAN else (MEDIAN_HEADING,)
    unit = common_unit(each.percentile_s for each in points)
    headings = (
        Heading(key="rate_hz", title="Rate", align="right"),
        Heading(key="achieved_hz", title="Served", align="right", rank=3),
        *medians,
        Heading(key=f"{statistic}_s", title=statistic, align="right"),
        Heading(key="decision", title="Bound" if bounded else "Load"),
        Heading(key="windows", title="Windows", align="right", rank=4),
        Heading(key="samples", title="Queries", align="right", rank=5),
        Heading(key="late_share", title="Sent late", align="right", rank=6),
    )
    rows: list[tuple[Cell | int, ...]] = [
        (
            rate_cell(each.rate_hz),
            rate_cell(each.achieved_hz),
            *(duration_cell(each.median_s, unit=unit) for _ in medians),
            duration_cell(each.percentile_s, bounds=each.interval, unit=unit),
            Cell(
                value=each.decision, text=_words(each, bounded=bounded), tone=TONES[each.decision]
            ),
            len(each.windows),
            each.samples,
            fraction_cell(each.late_share, digits=1),
        )
        for each in points
    ]
    return table_from_rows(id, headings=headings, rows=rows)


def rate_figure(
    points: Sequence[RatePoint],
    *,
    statistic: str,
    marks: Sequence[tuple[float, str]] = (),
    limit_s: float | None = None,
    id: str = "latency_vs_rate",
    name: str = "",
) -> Figure:
    """Draw the percentile and the median against the rate; what was overloaded is left out."""
    borne = [each for each in points if not each.overloaded] or list(points)
    most_s = max(each.percentile_s for each in borne)
    unit, scale = unit_for_seconds(most_s)
    x = tuple(each.rate_hz for each in borne)
    ends = [each.interval for each in borne]
    lines = (
        Line(
            name=statistic, role="run:0", x=x, style="both",
            y=tuple(each.percentile_s / scale for each in borne),
            low=tuple(None if end is None else end.low / scale for end in ends),
            high=tuple(None if end is None else end.high / scale for end in ends),
        ),
        Line(
            name="median", role="run:1", x=x, style="both",
            y=tuple(each.median_s / scale for each in borne),
        ),
    )  # fmt: skip
    drawn = [Mark(at=at, text=text) for at, text in marks]
    if limit_s is not None and limit_s <= FAR * most_s:
        drawn.append(Mark(at=limit_s / scale, text="bound", axis="y"))
    chart = Lines(
        x=Axis(title="Rate of arrivals", unit="queries/s", low=0),
        y=Axis(title="Latency from when a query was due", unit=unit, low=0),
        panels=(Panel(lines=lines[: 1 if statistic == MEDIAN else 2], marks=tuple(drawn)),),
    )
    title = f"Latency against load: {name}" if name else "Latency against load"
    return Figure(id=id, title=title, chart=chart)


def _words(point: RatePoint, *, bounded: bool) -> str:
    if point.overloaded:
        return "overloaded"
    if not bounded:
        return "borne"
    return {"accepted": "kept", "refused": "broken", "unclear": "unclear"}[point.decision]
