"""What rest between queries costs: latency against the gap, with the clock beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.domain.ran import gap_of, protocol_of, streams_of
from trtbench.domain.result import Run
from trtbench.report.alike import name_of_key, series_over
from trtbench.report.cells import duration_cell, fraction_cell
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Block, Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.labels import file_stem, shortened
from trtbench.report.numbers import unit_for_seconds
from trtbench.report.run_facts import PHASES, summary_of
from trtbench.units import text_from_seconds

ORDER = 73
COLUMNS = ("host", "gpu")
MHZ = 1e6
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
    gap_unit, gap_scale = unit_for_seconds(max(found) or 1.0)
    x = tuple(gap / gap_scale for gap in found)
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
    panels = [Panel(lines=lines)]
    clocks = [_clock(runs) for runs in found.values()]
    if any(clock is not None for clock in clocks):
        y = tuple(None if clock is None else clock / MHZ for clock in clocks)
        line = Line(name="SM clock", role="run:2", x=x, y=y, style="both")
        panels.append(Panel(lines=(line,), y=Axis(title="SM clock", unit="MHz", low=0)))
    chart = Lines(
        x=Axis(title="Mean rest between queries", unit=gap_unit, low=0),
        y=Axis(title="Median", unit=unit, low=0),
        panels=tuple(panels),
    )
    title = f"Latency against rest: {shortened(name)}"
    return Figure(id=f"latency_vs_gap_{stem}", title=title, chart=chart)


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
