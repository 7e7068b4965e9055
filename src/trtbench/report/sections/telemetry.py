"""What the GPU did while it was measured: load, memory, clock, power and temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from trtbench.domain.ran import protocol_of
from trtbench.domain.result import Run
from trtbench.domain.samples import TelemetrySample
from trtbench.report.cells import number_cell
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Block, Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.run_facts import joules_per_item

ORDER = 65

MOST_CURVES = 6
MOST_POINTS = 1200
SUFFIXES = {"%": "percent", "GiB": "gib", "MHz": "mhz", "W": "w", "°C": "c"}
"""Units as the names of columns end."""


@dataclass(frozen=True)
class _Quantity:
    """One thing that is looked at: where it is found, and how it is shown."""

    key: str
    title: str
    unit: str
    read: Callable[[TelemetrySample], float | None]
    highest: float | None = None


def _part(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


UTILIZATION = (
    _Quantity("gpu_util", "GPU", "%", lambda s: _part(s.gpu_util, 100), 100),
    _Quantity("memory_util", "Memory controller", "%", lambda s: _part(s.memory_util, 100), 100),
    _Quantity("memory_used", "Memory used", "GiB", lambda s: _part(s.memory_used_bytes, 2**-30)),
    _Quantity("sm_clock", "SM clock", "MHz", lambda s: _part(s.sm_clock_hz, 1e-6)),
)
POWER = (
    _Quantity("power", "Power", "W", lambda s: s.power_w),
    _Quantity("temperature", "Temperature", "°C", lambda s: s.temperature_c),
)
FIGURES = (
    ("gpu_utilization", "The GPU while it was measured", UTILIZATION),
    ("gpu_power", "Power and temperature", POWER),
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw every quantity that was seen over time, and list what it was on average."""
    seen = [
        (index, label, run)
        for index, (label, run) in enumerate(zip(labels_from_runs(runs), runs, strict=True))
        if run.telemetry
    ]
    if not seen:
        return None
    figures = (
        _figure(id, title, quantities, seen[:MOST_CURVES]) for id, title, quantities in FIGURES
    )
    blocks: list[Block] = [figure for figure in figures if figure]
    return Section(id="telemetry", title="Telemetry", blocks=(*blocks, _table(seen)))


def _figure(
    id: str, title: str, quantities: Sequence[_Quantity], seen: Sequence[tuple[int, str, Run]]
) -> Figure | None:
    panels = [panel for each in quantities if (panel := _panel(each, seen))]
    if not panels:
        return None
    chart = Lines(
        x=Axis(title="Time since the first look", unit="s"),
        y=panels[0].y or Axis(title=""),
        panels=tuple(panels),
    )
    caption = "Looked at from outside the measuring process. Memory is that of the whole device."
    return Figure(id=id, title=title, chart=chart, caption=caption)


def _panel(quantity: _Quantity, seen: Sequence[tuple[int, str, Run]]) -> Panel | None:
    lines = []
    for index, label, run in seen:
        step = -(-len(run.telemetry) // MOST_POINTS)
        begin = run.telemetry[0].at_s
        points = [(each.at_s - begin, quantity.read(each)) for each in run.telemetry[::step]]
        if any(value is not None for _, value in points):
            x, y = zip(*points, strict=True)
            lines.append(Line(name=label, role=f"run:{index}", x=x, y=y))
    if not lines:
        return None
    top = max(value for line in lines for value in line.y if value is not None)
    # A range that is no wider than a wobble makes the wobble look like a cliff.
    high = quantity.highest or top * 1.08 or 1.0
    return Panel(
        title=quantity.title,
        low=0.0,
        high=high,
        y=Axis(title=quantity.title, unit=quantity.unit),
        lines=tuple(lines),
    )


def _table(seen: Sequence[tuple[int, str, Run]]) -> Block:
    quantities = [*UTILIZATION, *POWER]
    headings = (
        RUN_HEADING,
        Heading(key="looks", title="Looks", align="right"),
        *(
            Heading(
                key=f"{each.key}_mean_{SUFFIXES[each.unit]}",
                title=f"{each.title} ({each.unit})",
                align="right",
            )
            for each in quantities
        ),
        Heading(key="energy_per_item_j", title="Energy per item (J)", align="right"),
    )
    rows: list[tuple[Cell | str | int, ...]] = [
        (label, len(run.telemetry), *(_mean(each, run) for each in quantities), _energy(run))
        for _, label, run in seen
    ]
    caption = "Means over the looks; energy from the device's own counter, or the power seen."
    if any(protocol_of(run.record) == "coldl2" for _, _, run in seen):
        caption += " Of coldl2 it includes emptying the cache, which its times do not."
    return table_from_rows("telemetry", headings=headings, rows=rows, caption=caption)


def _mean(quantity: _Quantity, run: Run) -> Cell:
    values = [value for each in run.telemetry if (value := quantity.read(each)) is not None]
    if not values:
        return Cell()
    return number_cell(fmean(values))


def _energy(run: Run) -> Cell:
    return number_cell(joules_per_item(run))
