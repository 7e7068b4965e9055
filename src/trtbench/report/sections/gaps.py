"""What rest between queries costs: latency against the gap, with the clock beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.domain.ran import gap_of, protocol_of, streams_of
from trtbench.domain.result import Run
from trtbench.report.alike import name_of_key, series_over
from trtbench.report.cells import duration_cell, fraction_cell
from trtbench.report.charts import Axis, Line, Lines, Mark, Panel
from trtbench.report.document import (
    Block,
    Cell,
    Figure,
    Heading,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.labels import file_stem, shortened
from trtbench.report.numbers import unit_for_seconds
from trtbench.report.run_facts import PHASES, summary_of
from trtbench.units import text_from_fraction, text_from_seconds

ORDER = 73
COLUMNS = ("host", "gpu")
MHZ = 1e6
WIDE, BEFORE = 10, 4
"""Rests that differ by more than the first are drawn by logarithm, none at all this far before."""
HEADINGS = (
    Heading(key="gap_s", title="Gap", align="right"),
    Heading(key="host_median_s", title="Host", align="right"),
    Heading(key="gpu_median_s", title="GPU", align="right"),
    Heading(key="change", title="Against the shortest", align="right", rank=1),
    Heading(key="sm_clock_hz", title="SM clock", align="right", rank=2),
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw medians against the mean rest for runs that differ in it alone."""
    blocks: list[Block] = []
    taken: set[str] = set()
    for key, found in series_over(runs, _gap, leave_out=("gap",)).items():
        name, stem = name_of_key(key), file_stem(key[0], taken=taken)
        blocks += [_figure(found, name, stem), _table(found, stem)]
        blocks += [Text(text=words)] if (words := _words(found)) else []
    return (
        Section(id="gaps", title="Rest between queries", blocks=tuple(blocks)) if blocks else None
    )


def _gap(run: Run) -> float | None:
    serial = protocol_of(run.record) == "serve" and streams_of(run.record) == 1
    timed = any(getattr(run.times, column) is not None for column in COLUMNS)
    return gap_of(run.record) if serial and timed else None


def _median(runs: Sequence[Run], column: str) -> float | None:
    values = [each.median for run in runs for each in summary_of(run).columns
              if each.column == column]  # fmt: skip
    return float(np.median(values)) if values else None


def _clock(runs: Sequence[Run]) -> float | None:
    seen = [run.record.facts.get("sm_clock_after_hz") for run in runs]
    known = [float(each) for each in seen if isinstance(each, (int, float))]
    return float(np.median(known)) if known else None


def _figure(found: dict[float, list[Run]], name: str, stem: str) -> Figure:
    medians = {each: [_median(runs, each) for runs in found.values()] for each in COLUMNS}
    known = [value for values in medians.values() for value in values if value is not None]
    unit, scale = unit_for_seconds(max(known))
    axis, x, marks = _rests(list(found))
    lines = tuple(
        Line(
            name=PHASES[column],
            role=f"run:{number}",
            x=x,
            y=tuple(None if value is None else value / scale for value in values),
            style="both",
        )
        for number, (column, values) in enumerate(medians.items())
        if any(value is not None for value in values)
    )
    times = Axis(title="Median", unit=unit, low=0)
    panels = [Panel(lines=lines, marks=marks, y=times, low=0)]
    clocks = [_clock(runs) for runs in found.values()]
    if any(clock is not None for clock in clocks):
        y = tuple(None if clock is None else clock / MHZ for clock in clocks)
        line = Line(name="SM clock", role="run:2", x=x, y=y, style="both")
        mhz = Axis(title="SM clock", unit="MHz", low=0)
        panels.append(Panel(lines=(line,), y=mhz, low=0))
    chart = Lines(x=axis, y=times, panels=tuple(panels))
    title = f"Latency against rest: {shortened(name)}"
    return Figure(id=f"latency_vs_gap_{stem}", title=title, chart=chart)


def _rests(gaps: Sequence[float]) -> tuple[Axis, tuple[float, ...], tuple[Mark, ...]]:
    """Place rests on an axis; those of several sizes by their logarithm, and none before all."""
    unit, scale = unit_for_seconds(max(gaps))
    some = [gap for gap in gaps if gap]
    title = "Mean rest between queries"
    if max(some) < WIDE * min(some):
        return Axis(title=title, unit=unit, low=0), tuple(gap / scale for gap in gaps), ()
    none = min(some) / BEFORE
    marks = (Mark(at=none / scale, text="no rest"),) if len(some) < len(gaps) else ()
    return (
        Axis(title=title, unit=unit, scale="log"),
        tuple(max(g, none) / scale for g in gaps),
        marks,
    )


def _table(found: dict[float, list[Run]], stem: str) -> Block:
    first = _median(next(iter(found.values())), "host")
    rows = []
    for gap, runs in found.items():
        host, gpu, clock = _median(runs, "host"), _median(runs, "gpu"), _clock(runs)
        change = host / first - 1 if host and first else None
        rows.append(
            [
                Cell(value=gap, text=text_from_seconds(gap, digits=3) if gap else "none"),
                duration_cell(host),
                duration_cell(gpu),
                fraction_cell(change, digits=1, signed=True),
                Cell(value=clock, text=f"{clock / MHZ:.0f} MHz" if clock else None),
            ]
        )
    return table_from_rows(f"gaps_{stem}", headings=HEADINGS, rows=rows)


def _words(found: dict[float, list[Run]]) -> str:
    """Say what the longest rest costs, by the host or, without it, by the GPU."""
    (least, first), *_, (most, last) = found.items()
    column = "host" if _median(first, "host") is not None else "gpu"
    before, after = _median(first, column), _median(last, column)
    if before is None or after is None:
        return ""
    times = " instead of ".join(text_from_seconds(each, digits=3) for each in (after, before))
    change = text_from_fraction(after / before - 1, digits=1, signed=True)
    rest = f"after one of {text_from_seconds(least, digits=3)}" if least else "back to back"
    words = f"After a rest of {text_from_seconds(most, digits=3)} a query takes {times} {rest}"
    clocks = [_clock(last), _clock(first)]
    mhz = [f"{clock / MHZ:.0f}" for clock in clocks if clock is not None]
    told = f"; the SM clock is {mhz[0]} instead of {mhz[1]} MHz" if len(mhz) == 2 else ""
    return f"{words} ({change}){told}."
