"""Where the time of a query goes: copies, the device, and what the host adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.domain.result import Run
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import UnitScale, common_unit, text_from_duration, unit_for_seconds
from trtbench.report.run_facts import PHASES, overlapping, summary_of

ORDER = 50

STACKED = ("h2d", "gpu", "d2h")
SHOWN = ("host", "enqueue", "h2d", "gpu", "d2h")
MOST_BARS = 24
MEANS = "Means, because only means add up."

HEADINGS = (
    RUN_HEADING,
    *(Heading(key=f"{name}_median_s", title=PHASES[name], align="right") for name in SHOWN),
)


def make(runs: Sequence[Run]) -> Section | None:
    """Stack the phases of every run that saw more than one; others have nothing to divide."""
    pairs = [
        (label, run)
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        if len(_means(run)) > 1
    ]
    if not pairs:
        return None
    unit = common_unit(column.typical for _, run in pairs for column in summary_of(run).columns)
    rows = [[Cell(value=label), *_medians(run, unit)] for label, run in pairs]
    caption = "Medians. Enqueue is host time and overlaps with the device's work."
    table = table_from_rows("phases", headings=HEADINGS, rows=rows, caption=caption)
    return Section(id="phases", title="Phases", blocks=(_figure(pairs), table))


def _means(run: Run) -> dict[str, float]:
    durations = run.times.durations()
    means = {
        column.column: column.mean
        for column in summary_of(run).columns
        if column.reported and column.column in SHOWN and np.isfinite(column.mean)
    } or {
        name: float(np.nanmean(column))
        for name, column in durations.items()
        if name in (*STACKED, "host", "enqueue") and np.isfinite(column).any()
    }
    return means if "gpu" in means else {}


def _medians(run: Run, unit: UnitScale) -> list[Cell]:
    known = {
        column.column: column
        for column in summary_of(run).columns
        if column.count or column.reported
    }
    cells = []
    for name in SHOWN:
        column = known.get(name)
        text = None
        if column:
            text = text_from_duration(column.typical, bounds=column.median_interval, unit=unit)
        cells.append(Cell(value=column.typical if column else None, text=text))
    return cells


def _figure(pairs: Sequence[tuple[str, Run]]) -> Figure:
    caption = " ".join(filter(None, (MEANS, _overlap([run for _, run in pairs]))))
    if len(pairs) > MOST_BARS:
        caption += f" The first {MOST_BARS} of {len(pairs)} runs."
        pairs = pairs[:MOST_BARS]
    means = [_means(run) for _, run in pairs]
    longest = max(max(each.get("host", 0.0), _spans(each)) for each in means)
    unit, scale = unit_for_seconds(longest)
    groups = [
        BarGroup(
            name=PHASES[name],
            role=name,
            values=tuple(_scaled(each.get(name), scale) for each in means),
        )
        for name in STACKED
        if any(name in each for each in means)
    ]
    rest = tuple(_scaled(_rest(each), scale) for each in means)
    if any(value is not None for value in rest):
        groups.append(BarGroup(name="rest of host", role="other", values=rest))
    chart = Bars(
        value=Axis(title="Mean time per query", unit=unit, low=0),
        category_title="Run",
        categories=tuple(label for label, _ in pairs),
        groups=tuple(groups),
    )
    return Figure(id="phases", title="Where the time of a query goes", chart=chart, caption=caption)


def _overlap(runs: Sequence[Run]) -> str | None:
    """Say which bars are no share of the time that passed."""
    if not any(overlapping(run) for run in runs):
        return None
    return "With several streams queries overlap: bars are longer than the time between answers."


def _rest(means: dict[str, float]) -> float | None:
    if "host" not in means:
        return None
    return max(0.0, means["host"] - _spans(means))


def _spans(means: dict[str, float]) -> float:
    return sum(means.get(name, 0.0) for name in STACKED)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale
