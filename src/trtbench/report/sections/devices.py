"""Which model on which device: medians side by side, items per second under a bound.

Runs here were mostly measured by others, elsewhere: a ratio between two devices says which is
faster, not which version, precision or clock made it so; what differs is listed beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trtbench.analysis.comparability import differences
from trtbench.analysis.summary import ColumnSummary, reported_s
from trtbench.core.properties import network_name, protocol_of
from trtbench.core.run import Run, gpu_of, precision_of
from trtbench.core.units import MISSING, common_unit, text_from_duration, text_from_number
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Section,
    Text,
    Time,
    column,
    section_of,
    table,
)
from trtbench.report.run_facts import headline_summary, joules_per_item, shortened, summary_of

ORDER = 77

MOST_COLUMNS = 8
"""More devices than this make a table wider than a page; other tables have all."""
MOST_DIFFERENCES = 5
BOUNDS_S = (*(m * 10.0**e for e in (-4, -3, -2, -1) for m in (1, 2, 5)), 1.0, 2.0, 5.0, 10.0)
MOST_BOUNDS = 8


def make(runs: Sequence[Run]) -> Section | None:
    """Compare devices where there are runs of at least two."""
    names = device_names(runs)
    points = [point for run in runs if (point := _point(run, names[run.id]))]
    devices = list(dict.fromkeys(point.device for point in points))
    if len(devices) < 2:
        return None
    blocks: list[Block] = [*device_blocks(runs, names), _summary(points)]
    if len(devices) > MOST_COLUMNS:
        note = f"The first {MOST_COLUMNS} of {len(devices)} devices have a column below."
        blocks.append(Text(note))
    blocks.append(_under_bounds(points, devices[:MOST_COLUMNS]))
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


def _device(run: Run) -> str:
    """Find the GPU of a run that used one, else the processor, else the machine."""
    environment, asked = run.record.environment, run.record.spec.device or ""
    printed = reported_s(run.record, "gpu", "mean") is not None
    on_gpu = run.times.gpu is not None or printed or asked.startswith("cuda")
    gpu = gpu_of(run.record) if on_gpu else None
    return gpu.name if gpu is not None else environment.cpu or environment.host


# ---- every model on every device


class _Ranked(NamedTuple):
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
    for run in runs:
        head, record = headline_summary(run), run.record
        if head is None or math.isnan(head.typical):
            continue
        # Engines of one network go by one name, precisions and batches apart.
        batch = f"batch {record.batch}" if record.batch else None
        model = " · ".join(filter(None, (network_name(record), precision_of(record), batch)))
        places = groups.setdefault(model, {})
        known = places.get(names[run.id])
        if known is None or head.typical < known[1].typical:
            places[names[run.id]] = (run, head)
    rows: list[_Ranked] = []
    for model, places in sorted(groups.items()):
        ordered = sorted(places.items(), key=lambda item: item[1][1].typical)
        best, fastest = ordered[0][1]
        if len(places) > 1:
            rows += [_Ranked(model, n, *one, best, fastest.typical) for n, one in ordered]
    if not rows:
        return
    unit = common_unit(row.head.typical for row in rows)

    def typical(row: _Ranked) -> Cell:
        mark = "" if row.head.typical_of == "median" else "mean, "
        reported = f" ({mark}reported)" if row.head.reported else ""
        text = text_from_duration(row.head.typical, unit=unit) + reported
        return Cell(row.head.typical, text, "good" if row.run is row.best else "plain")

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

    def version(row: _Ranked) -> str:
        return row.run.record.environment.versions.get("tensorrt", "")

    columns = [
        column("model"),
        column("device"),
        column("typical_s", "Median", typical, "right"),
        column("of_best", "Of the best", ratio, "right"),
        column("p99_s", get=lambda row: row.head.statistic("p99")),
        column("items_per_s", get=lambda row: summary_of(row.run).items_per_s),
        column("tensorrt", "TensorRT", version, rank=4),
        column("differs", "Differs from the best in", differing, fit="wrap", rank=1),
        column("id", get="run.id"),
    ]
    caption = (
        "Best first, across devices. A median that another tool printed, or a mean where it "
        "printed no median, is marked."
    )
    yield table("devices_ranked", rows, columns, caption=caption, unit=unit)


# ---- items per second, latency and energy


class _Point(NamedTuple):
    """One run as one point: what it is, where it was,, how fast and with what energy."""

    network: str
    precision: str
    device: str
    how: str
    latency_s: float
    items_per_s: float
    joules: float | None


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
        joules_per_item(run),
    )  # fmt: skip


def _summary(points: Sequence[_Point]) -> Block:
    groups: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        groups.setdefault((point.network, point.device), []).append(point)
    rows = [(max(each, key=lambda p: p.items_per_s), each) for each in groups.values()]

    def joules(row: tuple[_Point, list[_Point]]) -> float | None:
        return min((p.joules for p in row[1] if p.joules is not None), default=None)

    columns: list[Column] = [
        column("network", get=lambda row: row[0].network),
        column("device", get=lambda row: row[0].device),
        column("items_per_s", "Most items/s", lambda row: row[0].items_per_s, "number"),
        column("how", "With", lambda row: row[0].how),
        column("latency_s", "Its latency", lambda row: row[0].latency_s, "time"),
        column("best_latency_s", "Least latency", lambda x: min(p.latency_s for p in x[1]), "time"),
    ]
    caption = (
        "Latency is the 99th percentile, or the slowest seen where there are too few samples for "
        "it. "
    )
    if any(point.joules is not None for point in points):
        columns.append(column("joules_per_item", "J per item", joules, "number"))
        caption += "Joules are the least of all runs, from the device's own counter."
    else:
        caption += "No device here reported the energy it used."
    columns.append(column("runs", "Runs", lambda row: len(row[1]), "right"))
    unit = common_unit(point.latency_s for point in points)
    return table("devices", rows, columns, caption=caption, unit=unit)


def _under_bounds(points: Sequence[_Point], devices: Sequence[str]) -> Block:
    """List for each network, precision and bound, the most items per second of each device."""
    groups: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        groups.setdefault((point.network, point.precision), []).append(point)

    def bounds(mine: Sequence[_Point]) -> list[float]:
        """Round bounds from the first that anything meets to the first that everything does."""
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
            text = f"{text_from_number(found.items_per_s)} ({', '.join(words)})"
            return Cell(found.items_per_s, text)

        return cell

    columns = (
        column("network", get=0),
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
