"""Which model on which device: the most items per second under a bound, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtbench.domain.price import Price, price_of, under_of
from trtbench.domain.ran import protocol_of
from trtbench.domain.result import Run
from trtbench.report.cells import duration_cell, number_cell
from trtbench.report.device_table import device_blocks, device_names, priced_name
from trtbench.report.document import Block, Cell, Heading, Section, Text, table_from_rows
from trtbench.report.headings import NETWORK_HEADING
from trtbench.report.labels import network_name, precision_name
from trtbench.report.numbers import MISSING, common_unit, text_from_number
from trtbench.report.run_facts import headline_summary, summary_of
from trtbench.report.run_facts import joules_per_item as joules_per_item

ORDER = 77

BOUNDS_S = (*(m * 10.0**e for e in (-4, -3, -2, -1) for m in (1, 2, 5)), 1.0, 2.0, 5.0, 10.0)
MOST_BOUNDS = 8
MOST_DEVICES = 8
"""More columns than this are wider than a page; the first table lists all devices."""

HEADINGS = (
    NETWORK_HEADING,
    Heading(key="device", title="Device"),
    Heading(key="items_per_s", title="Most items/s", align="right"),
    Heading(key="how", title="With"),
    Heading(key="latency_s", title="Its latency", align="right"),
    Heading(key="best_latency_s", title="Least latency", align="right"),
    Heading(key="joules_per_item", title="J per item", align="right"),
    Heading(key="items_per_joule", title="Items per J", align="right"),
    Heading(key="cost_per_million", title="Cost per million", align="right"),
    Heading(key="runs", title="Runs", align="right"),
)


@dataclass(frozen=True)
class _Point:
    """One run as one point: what it is, where it was, how fast and at what cost."""

    network: str
    device: str
    how: str
    latency_s: float
    items_per_s: float
    joules: float | None
    precision: str = ""
    price: Price | None = None

    @property
    def cost(self) -> float | None:
        """What a million items cost, when the device does nothing else."""
        return self.price.per_hour / 3600 / self.items_per_s * 1e6 if self.price else None


def make(runs: Sequence[Run]) -> Section | None:
    """Compare devices where runs of at least two are at hand, or a price or bound is asked for."""
    names = device_names(runs)
    points = [point for run in runs if (point := _point(run, names[run.id]))]
    devices = list(dict.fromkeys(point.device for point in points))
    asked = under_of(runs) is not None or any(point.price for point in points)
    if len(devices) < (1 if asked else 2):
        return None
    blocks: list[Block] = [*device_blocks(runs, names), _summary(points)]
    shown = devices[:MOST_DEVICES]
    if len(devices) > MOST_DEVICES:
        note = f"The first {MOST_DEVICES} of {len(devices)} devices have a column below."
        blocks.append(Text(text=note))
    blocks.append(_under_bounds(points, shown, under_of(runs)))
    return Section(id="devices", title="Devices", blocks=tuple(blocks))


def _point(run: Run, device: str) -> _Point | None:
    head, summary = headline_summary(run), summary_of(run)
    if head is None:
        return None
    rate = summary.items_per_s
    items = run.record.known_items
    if rate is None and items and protocol_of(run.record) == "serve" and head.typical > 0:
        rate = items / head.typical  # one at a time, and nothing beside it
    if rate is None:
        return None
    tail = next((q.value for q in head.quantiles if q.q == 0.99 and q.value is not None), None)
    record = run.record
    batch = f"batch {items or 'unknown'}"
    parts = [record.spec.runtime, precision_name(record) or "", batch]
    return _Point(
        network=network_name(record),
        device=device,
        how=" ".join(part for part in parts if part),
        latency_s=tail if tail is not None else head.statistic("max") or head.typical,
        items_per_s=rate,
        joules=joules_per_item(run),
        precision=precision_name(record) or "",
        price=price_of(run, priced_name(run)),
    )


def _summary(points: Sequence[_Point]) -> Block:
    unit = common_unit(point.latency_s for point in points)
    priced = any(point.price for point in points)
    counted = any(point.joules is not None for point in points)
    left = {
        *(() if priced else ("cost_per_million",)),
        *(() if counted else ("joules_per_item", "items_per_joule")),
    }
    headings = tuple(each for each in HEADINGS if each.key not in left)
    rows: list[tuple[Cell | str | int, ...]] = []
    for network, device in dict.fromkeys((point.network, point.device) for point in points):
        mine = [p for p in points if (p.network, p.device) == (network, device)]
        best = max(mine, key=lambda point: point.items_per_s)
        least = min(point.latency_s for point in mine)
        cheapest = min((p.joules for p in mine if p.joules is not None), default=None)
        currency = best.price.currency if best.price else ""
        cost = f"{text_from_number(best.cost)} {currency}" if best.cost is not None else MISSING
        rows.append(
            (
                network,
                device,
                number_cell(best.items_per_s),
                best.how,
                duration_cell(best.latency_s, unit=unit),
                duration_cell(least, unit=unit),
                *(_energy(cheapest) if counted else ()),
                *([Cell(value=best.cost, text=cost)] if priced else []),
                len(mine),
            )
        )
    caption = (
        "Latency is the 99th percentile, or the slowest seen where there are too few samples for "
        "it. "
    ) + (
        "Joules are the least of all runs, from the device's own counter."
        if counted
        else "No device here told what energy it used."
    )
    if priced:
        caption += " A million items cost what the device costs while it does nothing else."
    return table_from_rows("devices", headings=headings, rows=rows, caption=caption)


def _energy(joules: float | None) -> tuple[Cell, Cell]:
    per_joule = 1 / joules if joules else None
    return (number_cell(joules), number_cell(per_joule))


def _under_bounds(points: Sequence[_Point], devices: Sequence[str], under_s: float | None) -> Block:
    """Find for each network, precision and bound, the most items per second of each device."""
    headings = (
        NETWORK_HEADING,
        Heading(key="precision", title="Precision"),
        Heading(key="bound_s", title="Latency under", align="right"),
        *(
            Heading(key=f"device_{number}", title=device, align="right")
            for number, device in enumerate(devices)
        ),
    )
    rows: list[tuple[Cell | str, ...]] = []
    for network, precision in dict.fromkeys((each.network, each.precision) for each in points):
        mine = [p for p in points if (p.network, p.precision) == (network, precision)]
        for bound in [under_s] if under_s is not None else _bounds(mine):
            cells = [_best(mine, device, bound) for device in devices]
            told = duration_cell(bound)
            rows.append((network, precision or MISSING, told, *cells))
    caption = (
        "Items per second of the fastest run whose latency, as above, is under the bound, and how "
        f"it ran; {MISSING} where none is."
    )
    return table_from_rows("devices_under", headings=headings, rows=rows, caption=caption)


def _bounds(points: Sequence[_Point]) -> list[float]:
    """Round bounds from the first that anything meets to the first that everything does."""
    least, most = min(p.latency_s for p in points), max(p.latency_s for p in points)
    met = [bound for bound in BOUNDS_S if bound >= least]
    needed = [bound for bound in met if bound < most]
    return [*needed, *met[len(needed) : len(needed) + 1]][:MOST_BOUNDS]


def _best(points: Sequence[_Point], device: str, bound_s: float) -> Cell:
    under = [p for p in points if p.device == device and p.latency_s <= bound_s]
    if not under:
        return Cell(text=MISSING)
    best = max(under, key=lambda point: point.items_per_s)
    told = [best.how]
    if best.joules is not None:
        told.append(f"{text_from_number(best.joules)} J")
    if best.cost is not None and best.price is not None:
        told.append(f"{text_from_number(best.cost)} {best.price.currency} per million")
    text = f"{text_from_number(best.items_per_s)} ({', '.join(told)})"
    return Cell(value=best.items_per_s, text=text)
