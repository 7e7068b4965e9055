"""Which model on which device: medians side by side, items per second under a bound, and cost.

Runs here were mostly measured by others, elsewhere: a ratio between two devices says which is
faster, not which version, precision or clock made it so; what differs is listed beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from trtbench.analysis.comparability import differences
from trtbench.analysis.summary import ColumnSummary, reported_s
from trtbench.core.properties import PROPERTIES, network_name, protocol_of
from trtbench.core.results import Price, price_of, under_of
from trtbench.core.run import Run, gpu_of, precision_of
from trtbench.core.units import MISSING, common_unit, text_from_duration, text_from_number
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Section,
    Text,
    Time,
    Tone,
    column,
    section_of,
    table,
)
from trtbench.report.labels import shortened
from trtbench.report.run_facts import headline_summary, joules_per_item, summary_of

ORDER = 77

WORK = ("precision", "batch")
"""Properties that make runs of a network different work; others are listed as differences."""
MOST_COLUMNS = 8
"""More devices than this make a table wider than a page; other tables have all."""
MOST_DIFFERENCES = 5
BOUNDS_S = (*(m * 10.0**e for e in (-4, -3, -2, -1) for m in (1, 2, 5)), 1.0, 2.0, 5.0, 10.0)
MOST_BOUNDS = 8


def make(runs: Sequence[Run]) -> Section | None:
    """Compare devices where there are runs of at least two, or a price or bound is given."""
    names = device_names(runs)
    points = [point for run in runs if (point := _point(run, names[run.id]))]
    devices = list(dict.fromkeys(point.device for point in points))
    under_s = under_of(runs)
    asked = under_s is not None or any(point.price for point in points)
    if len(devices) < (1 if asked else 2):
        return None
    blocks: list[Block] = [*device_blocks(runs, names), _summary(points)]
    if len(devices) > MOST_COLUMNS:
        note = f"The first {MOST_COLUMNS} of {len(devices)} devices have a column below."
        blocks.append(Text(note))
    blocks.append(_under_bounds(points, devices[:MOST_COLUMNS], under_s))
    return section_of("devices", "Devices", blocks)


def device_names(runs: Sequence[Run]) -> dict[str, str]:
    """Name the device of each run; its machine is added where two have the same device.

    Where all have the same device, machines go by what their owners call them alone.
    """
    bare = {run.id: _device(run) for run in runs}
    alike = len(set(bare.values())) == 1 and all(run.record.environment.machine for run in runs)
    hosts: dict[str, set[str]] = {}
    for run in runs:
        hosts.setdefault(bare[run.id], set()).add(run.record.environment.label)
    names = {}
    for run in runs:
        name, machine = bare[run.id], run.record.environment.label
        if len(hosts[name]) > 1:
            name = machine if alike else f"{name} ({machine})"
        names[run.id] = name
    return names


def priced_name(run: Run) -> str:
    """Name the device of a run by all that a list of prices may call it."""
    return f"{_device(run)} ({run.record.environment.label})"


def _device(run: Run) -> str:
    """Find the GPU of a run that used one, else the processor, else the machine."""
    environment, asked = run.record.environment, run.record.spec.device or ""
    printed = reported_s(run.record, "gpu", "mean") is not None
    on_gpu = run.times.gpu is not None or printed or asked.startswith("cuda")
    gpu = gpu_of(run.record) if on_gpu else None
    return gpu.name if gpu is not None else environment.cpu or environment.host


# ---- every model on every device


@dataclass(frozen=True)
class _Ranked:
    """The fastest run of one model on one device, and that on the best device."""

    model: str
    device: str
    run: Run
    head: ColumnSummary
    best: Run
    best_s: float


def device_blocks(runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[Block]:
    """Compare the runs of each model by device; nothing where there is one device."""
    groups: dict[str, dict[str, tuple[Run, ColumnSummary]]] = {}
    work = [each for each in PROPERTIES if each.name in WORK]
    for run in runs:
        head = headline_summary(run)
        if head is None or math.isnan(head.typical):
            continue
        # Engines of one network go by one name, precisions and batches apart.
        parts = (network_name(run.record), *(each.text(run.record) for each in work))
        places = groups.setdefault(" · ".join(filter(None, parts)), {})
        known = places.get(names[run.id])
        if known is None or head.typical < known[1].typical:
            places[names[run.id]] = (run, head)
    rows: list[_Ranked] = []
    for model, places in sorted(groups.items()):
        if len(places) > 1:
            ordered = sorted(places.items(), key=lambda item: item[1][1].typical)
            best, fastest = ordered[0][1]
            rows += [_Ranked(model, n, *one, best, fastest.typical) for n, one in ordered]
    if not rows:
        return
    unit = common_unit(row.head.typical for row in rows)
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row.device, []).append(row.head.typical / row.best_s if row.best_s else 1)
    devices = sorted(ratios, key=lambda device: median(ratios[device]))

    def typical(row: _Ranked, tone: Tone = "plain") -> Cell:
        mark = "" if row.head.typical_of == "median" else "mean, "
        reported = f" ({mark}reported)" if row.head.reported else ""
        text = text_from_duration(row.head.typical, unit=unit) + reported
        return Cell(row.head.typical, text, tone)

    def on(device: str) -> Callable[[str], Cell]:
        def cell(model: str) -> Cell:
            row = next((e for e in rows if (e.model, e.device) == (model, device)), None)
            if row is None:
                return Cell(None, "")
            return typical(row, "good" if row.head.typical == row.best_s else "plain")

        return cell

    if len(devices) <= MOST_COLUMNS:
        columns = [
            column("model", get=str),
            *(
                column(f"device_{k}_s", shortened(name, length=32), on(name), "right")
                for k, name in enumerate(devices, start=1)
            ),
        ]
        yield table("model_by_device", dict.fromkeys(row.model for row in rows), columns)

    def ratio(row: _Ranked) -> Cell:
        value = row.head.typical / row.best_s if row.best_s else None
        return Cell(value, "" if value is None else f"{value:.2f}x")

    def differing(row: _Ranked) -> str:
        """Name the conditions that differ beside the device itself."""
        found = [
            f"{each.key.replace('_', ' ')}: {each.baseline} / {each.candidate}"
            for each in differences(row.best.record, row.run.record)
            if not each.of_machine and each.baseline != each.candidate
        ]
        left = len(found) - MOST_DIFFERENCES
        short = [shortened(each, length=60) for each in found[:MOST_DIFFERENCES]]
        return "; ".join(short) + (f"; and {left} more" if left > 0 else "")

    columns = [
        column("model"),
        column("device"),
        column("typical_s", "Median", typical, "right"),
        column("of_best", "Of the best", ratio, "right"),
        column("p99_s", get=lambda row: row.head.statistic("p99")),
        column("items_per_s", get=lambda row: summary_of(row.run).items_per_s),
        column(
            "tensorrt", "TensorRT",
            lambda row: row.run.record.environment.versions.get("tensorrt", ""), rank=4,
        ),
        column("differs", "Differs from the best in", differing, fit="wrap", rank=1),
        column("id", get="run.id"),
    ]  # fmt: skip
    caption = (
        "Best first, across devices. A median that another tool printed, or a mean where it "
        "printed no median, is marked."
    )
    yield table("devices_ranked", rows, columns, caption=caption, unit=unit)


# ---- items per second, latency, energy and cost


@dataclass(frozen=True)
class _Point:
    """One run as one point: what it is, where it was, how fast and at what cost."""

    network: str
    precision: str
    device: str
    how: str
    latency_s: float
    items_per_s: float
    joules: float | None
    price: Price | None = None

    @property
    def cost(self) -> float | None:
        """What a million items cost, when the device does nothing else."""
        return self.price.per_hour / 3600 / self.items_per_s * 1e6 if self.price else None

    @property
    def cost_text(self) -> str:
        currency = self.price.currency if self.price else ""
        return MISSING if self.cost is None else f"{text_from_number(self.cost)} {currency}"


def _point(run: Run, device: str) -> _Point | None:
    record, head, rate = run.record, headline_summary(run), summary_of(run).items_per_s
    items = record.known_items
    if head and rate is None and items and protocol_of(record) == "serve" and head.typical > 0:
        rate = items / head.typical  # one at a time, and nothing beside it
    if head is None or rate is None:
        return None
    tail = next((q.value for q in head.quantiles if q.q == 0.99 and q.value is not None), None)
    precision = precision_of(record) or ""
    parts = (record.spec.runtime, precision, f"batch {items or 'unknown'}")
    latency_s = tail if tail is not None else head.statistic("max") or head.typical
    return _Point(
        network_name(record), precision, device, " ".join(filter(None, parts)), latency_s, rate,
        joules_per_item(run), price_of(run, priced_name(run)),
    )  # fmt: skip


def _summary(points: Sequence[_Point]) -> Block:
    groups: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        groups.setdefault((point.network, point.device), []).append(point)

    def of_best(get: Callable[[_Point], Any]) -> Callable[[list[_Point]], Any]:
        return lambda row: get(max(row, key=lambda point: point.items_per_s))

    def joules(row: list[_Point]) -> float | None:
        return min((p.joules for p in row if p.joules is not None), default=None)

    def per_joule(row: list[_Point]) -> float | None:
        least = joules(row)
        return 1 / least if least else None

    columns: list[Column] = [
        column("network", get=lambda row: row[0].network),
        column("device", get=lambda row: row[0].device),
        column("items_per_s", "Most items/s", of_best(lambda p: p.items_per_s), "number"),
        column("how", "With", of_best(lambda p: p.how)),
        column("latency_s", "Its latency", of_best(lambda p: p.latency_s), "time"),
        column("best_latency_s", "Least latency", lambda x: min(p.latency_s for p in x), "time"),
    ]
    caption = (
        "Latency is the 99th percentile, or the slowest seen where there are too few samples for "
        "it. "
    )
    if any(point.joules is not None for point in points):
        columns.append(column("joules_per_item", "J per item", joules, "number"))
        columns.append(column("items_per_joule", "Items per J", per_joule, "number"))
        caption += "Joules are the least of all runs, from the device's own counter."
    else:
        caption += "No device here reported the energy it used."
    if any(point.price for point in points):
        cost = of_best(lambda p: Cell(p.cost, p.cost_text))
        columns.append(column("cost_per_million", "Cost per million", cost, "right"))
        caption += " A million items cost what the device costs while it does nothing else."
    columns.append(column("runs", "Runs", len, "right"))
    unit = common_unit(point.latency_s for point in points)
    return table("devices", groups.values(), columns, caption=caption, unit=unit)


def _under_bounds(points: Sequence[_Point], devices: Sequence[str], under_s: float | None) -> Block:
    """List for each network, precision and bound, the most items per second of each device."""
    groups: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        groups.setdefault((point.network, point.precision), []).append(point)

    def bounds(mine: Sequence[_Point]) -> list[float]:
        """Round bounds from the first that anything meets to the first that everything does."""
        if under_s is not None:
            return [under_s]
        least, most = min(p.latency_s for p in mine), max(p.latency_s for p in mine)
        met = [bound for bound in BOUNDS_S if bound >= least]
        needed = [bound for bound in met if bound < most]
        return [*needed, *met[len(needed) : len(needed) + 1]][:MOST_BOUNDS]

    rows = [(*key, bound, mine) for key, mine in groups.items() for bound in bounds(mine)]

    def best(device: str) -> Callable[[Any], Cell]:
        def cell(row: Any) -> Cell:
            under = [p for p in row[3] if p.device == device and p.latency_s <= row[2]]
            if not under:
                return Cell(None, MISSING)
            found = max(under, key=lambda point: point.items_per_s)
            words = [found.how]
            words += [f"{text_from_number(found.joules)} J"] if found.joules is not None else []
            words += [f"{found.cost_text} per million"] if found.cost is not None else []
            text = f"{text_from_number(found.items_per_s)} ({', '.join(words)})"
            return Cell(found.items_per_s, text)

        return cell

    columns = (
        column("network", get=lambda row: row[0]),
        column("precision", "Precision", lambda row: row[1] or MISSING),
        column("bound_s", "Latency under", lambda row: Time(row[2]), "right"),
        *(
            column(f"device_{number}", device, best(device), "right")
            for number, device in enumerate(devices)
        ),
    )
    caption = (
        "Items per second of the fastest run whose latency, as above, is under the bound, and how "
        f"it ran; {MISSING} where there is none."
    )
    return table("devices_under", rows, columns, caption=caption)
