"""One run over time, as a panel: samples, running median, far-out samples, launches, warm-up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.steady import segment
from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.report.charts import Line, Mark, Panel, Span
from trtbench.report.sampling import View, fences, running_median, thin

MOST_RINGS = 80
LEAST_SEGMENTED = 50
"""Fewer samples than this show no change of level that could be told from noise."""


def panel_from_run(
    run: Run, *, title: str, role: str, scale: float, view: View, by_time: bool
) -> Panel:
    """Describe the headline column over time, in units of ``scale`` seconds."""
    column = run.times.durations()[run.times.headline]
    finite = np.isfinite(column)
    values = column[finite] / scale
    start = run.times.start
    x = start[finite] if by_time and start is not None else np.flatnonzero(finite).astype(float)
    middles, medians = running_median(values)
    lines = [
        *_points(values, x, view, role=role, name=title),
        Line(
            name="running median",
            role="median",
            x=_tuple(np.interp(middles, np.arange(len(x)), x)),
            y=_tuple(medians),
        ),
    ]
    launch = run.times.launch
    return Panel(
        title=title,
        low=view.low,
        high=view.high,
        lines=tuple(lines),
        marks=() if launch is None else _launch_marks(launch[finite], x),
        spans=_spans(values, x, several=launch is not None and len(np.unique(launch)) > 1),
    )


def _points(values: Column, x: Column, view: View, *, role: str, name: str) -> list[Line]:
    inside = (values >= view.low) & (values <= view.high)
    low, high = fences(values)
    far = (values < low) | (values > high)
    plain, ring, beyond = (
        np.flatnonzero(chosen) for chosen in (inside & ~far, inside & far, values > view.high)
    )
    shown = plain[thin(values[plain])]
    lines = [
        Line(name=name, role=role, x=_tuple(x[shown]), y=_tuple(values[shown]), style="points")
    ]
    if len(ring):
        ring = ring[thin(values[ring], most=MOST_RINGS)]
        lines.append(
            Line(
                name="far out",
                role="outlier",
                x=_tuple(x[ring]),
                y=_tuple(values[ring]),
                style="ring",
            )
        )
    if len(beyond):
        at = x[beyond[thin(values[beyond], most=MOST_RINGS)]]
        edge = _tuple(np.full(len(at), view.high))
        lines.append(
            Line(name="above the range", role="outlier", x=_tuple(at), y=edge, style="beyond")
        )
    return lines


def _launch_marks(launch: NDArray[np.int64], x: Column) -> tuple[Mark, ...]:
    borders = np.flatnonzero(np.diff(launch)) + 1
    return tuple(Mark(at=float(x[at]), text="") for at in borders)


def _spans(values: Column, x: Column, *, several: bool) -> tuple[Span, ...]:
    """Shade what comes before the steady part; over launches there is no one series to segment."""
    if several or len(values) < LEAST_SEGMENTED:
        return ()
    segmentation = segment(values)
    begin = segmentation.steady_from
    if segmentation.kind != "warm-up" or not 0 < begin < len(x):
        return ()
    return (Span(low=float(x[0]), high=float(x[begin]), text="still warming up"),)


def _tuple(values: Column) -> tuple[float, ...]:
    return tuple(values.tolist())
