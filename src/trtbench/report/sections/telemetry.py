"""The GPU while it was measured: load, memory, clock, power, and the cost of changing shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from trtbench.core.properties import protocol_of
from trtbench.core.run import Run
from trtbench.core.samples import TelemetrySample
from trtbench.report.charts import Axis, Lines, Panel, line
from trtbench.report.document import (
    Block,
    Column,
    Figure,
    Section,
    column,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import (
    joules_per_item,
    memory_of,
    named,
    words_from_memory,
)

ORDER = 65

MOST_CURVES = 6
MOST_POINTS = 1200


class Quantity(NamedTuple):
    """One quantity that is sampled: where it is found, and how it is shown."""

    key: str
    title: str
    unit: str
    field: str
    factor: float = 1.0
    highest: float | None = None

    def values(self, samples: Sequence[TelemetrySample]) -> list[float | None]:
        found = (getattr(sample, self.field) for sample in samples)
        return [None if value is None else value * self.factor for value in found]


QUANTITIES = (
    Quantity("gpu_util_mean_percent", "GPU", "%", "gpu_util", 100, 100),
    Quantity("memory_util_mean_percent", "Memory controller", "%", "memory_util", 100, 100),
    Quantity("memory_used_mean_gib", "Memory used", "GiB", "memory_used_bytes", 2**-30),
    Quantity("sm_clock_mean_mhz", "SM clock", "MHz", "sm_clock_hz", 1e-6),
    Quantity("power_mean_w", "Power", "W", "power_w"),
    Quantity("temperature_mean_c", "Temperature", "°C", "temperature_c"),
)
FIGURES = (
    ("gpu_utilization", "The GPU while it was measured", QUANTITIES[:4]),
    ("gpu_power", "Power and temperature", QUANTITIES[4:]),
)


def make(runs: Sequence[Run]) -> list[Section]:
    """Show the samples of the GPU, and its memory."""
    memory = [
        (f"{label}, {name}" if len(runs) > 1 else name, text)
        for label, run in named(runs)
        for name, text in words_from_memory(memory_of(run))
    ]
    made = (
        section_of("telemetry", "Telemetry", _telemetry_blocks(runs)),
        section_of("memory", "GPU memory", [key_values("memory", memory)] if memory else ()),
    )
    return [section for section in made if section]


def _telemetry_blocks(runs: Sequence[Run]) -> Iterator[Block]:
    """Draw every quantity that was sampled over time, and list its mean."""
    seen = [(k, label, run) for k, (label, run) in enumerate(named(runs)) if run.telemetry]
    if not seen:
        return
    for id, title, quantities in FIGURES:
        panels = [panel for each in quantities if (panel := _panel(each, seen[:MOST_CURVES]))]
        if panels:
            x = Axis("Time since the first sample", "s")
            chart = Lines(x, panels[0].y or Axis(""), tuple(panels))
            outside = "Sampled from outside the measuring process."
            yield Figure(id, title, chart, f"{outside} Memory is that of the whole device.")

    def mean(quantity: Quantity) -> Column:
        def value(row: tuple[int, str, Run]) -> float | None:
            values = [each for each in quantity.values(row[2].telemetry) if each is not None]
            return fmean(values) if values else None

        return column(quantity.key, f"{quantity.title} ({quantity.unit})", value, "number")

    energy = column(
        "energy_per_item_j", "Energy per item (J)", lambda x: joules_per_item(x[2]), "number"
    )
    columns = (
        column("run", get=1),
        column("looks", "Samples", lambda row: len(row[2].telemetry), "right"),
        *map(mean, QUANTITIES),
        energy,
    )
    caption = "Means of the samples; energy from the device's own counter, or the sampled power."
    if any(protocol_of(run.record) == "coldl2" for *_, run in seen):
        caption += " With coldl2 it includes emptying the cache, which its times do not."
    yield table("telemetry", seen, columns, caption=caption)


def _panel(quantity: Quantity, seen: Sequence[tuple[int, str, Run]]) -> Panel | None:
    lines = []
    for index, label, run in seen:
        shown = run.telemetry[:: -(-len(run.telemetry) // MOST_POINTS)]
        values = quantity.values(shown)
        if any(value is not None for value in values):
            x = [each.at_s - shown[0].at_s for each in shown]
            lines.append(line(label, f"run:{index}", x, values))
    if not lines:
        return None
    top = max(value for each in lines for value in each.y if value is not None)
    # A range that is no wider than the noise makes the noise look like a step.
    high = quantity.highest or top * 1.08 or 1.0
    axis = Axis(quantity.title, quantity.unit)
    return Panel(quantity.title, 0.0, high, axis, tuple(lines))
