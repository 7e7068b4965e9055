"""Layers by kind and precision: which sort of work the time goes to, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.layer import Layer, total_s
from trtbench.domain.samples import EngineGraph, LayerProfile
from trtbench.report.cells import duration_cell, share_cell
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import Block, Figure, Heading, table_from_rows
from trtbench.report.headings import PRECISION_HEADING
from trtbench.report.labels import shortened
from trtbench.report.numbers import unit_for_seconds

UNKNOWN = "unknown"
MOST_KINDS = 14
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")

HEADINGS = (
    Heading(key="kind", title="Kind"),
    PRECISION_HEADING,
    Heading(key="layers", title="Layers", align="right"),
    Heading(key="average_s", title="Time per inference", align="right"),
    Heading(key="share", title="Share", align="right"),
)


@dataclass(frozen=True)
class Share:
    """The layers of one kind and precision; seconds are ``None`` where nothing was timed."""

    kind: str
    precision: str
    layers: int
    seconds: float | None


def shares(profile: LayerProfile | None, graph: EngineGraph) -> list[Share]:
    """Add up layers by kind and precision, the most time (or the most layers) first."""
    table = join_layers(profile, graph)
    members: dict[tuple[str, str], list[Layer]] = {}
    for layer in table.layers:
        key = (layer.kind or UNKNOWN, layer.precision or layer.precision_out or UNKNOWN)
        members.setdefault(key, []).append(layer)
    found = [
        Share(*key, layers=len(layers), seconds=total_s(layers) if table.timed else None)
        for key, layers in members.items()
    ]
    return sorted(found, key=lambda each: (-(each.seconds or 0.0), -each.layers, each.kind))


@dataclass(frozen=True)
class BlockName:
    """How the blocks of one run among several are called; alone it needs no name."""

    label: str | None
    suffix: str

    def of(self, joint: str) -> str:
        """Write the run's name after a joint, or nothing."""
        return f"{joint}{shortened(self.label)}" if self.label else ""


def kind_blocks(found: Sequence[Share], name: BlockName, *, drawn: bool) -> list[Block]:
    """Show where the time goes by kind, and in which precision."""
    total = sum(each.seconds or 0.0 for each in found)
    layers = sum(each.layers for each in found)
    unit = unit_for_seconds(max((each.seconds or 0.0 for each in found), default=None))
    rows = [
        (
            each.kind,
            each.precision,
            each.layers,
            duration_cell(each.seconds, unit=unit),
            share_cell(each.seconds / total if each.seconds and total else None),
        )
        for each in found
    ]
    table = table_from_rows(f"layer_kinds{name.suffix}", headings=HEADINGS, rows=rows)
    if not drawn or not found:
        return [table]
    parts = {
        (each.kind, each.precision): (each.seconds or 0.0) / total
        if total
        else each.layers / layers
        for each in found
    }
    return [_figure(parts, name, timed=bool(total)), table]


def _figure(parts: dict[tuple[str, str], float], name: BlockName, *, timed: bool) -> Figure:
    totals: dict[str, float] = {}
    for (kind, _), part in parts.items():
        totals[kind] = totals.get(kind, 0.0) + part
    kinds = sorted(totals, key=lambda kind: -totals[kind])[:MOST_KINDS]
    seen = {precision for _, precision in parts}
    precisions = [each for each in PRECISIONS if each in seen]
    precisions += sorted(seen - set(precisions))
    groups = tuple(
        BarGroup(
            name=precision,
            role=precision if precision in PRECISIONS else "other",
            values=tuple(100 * parts.get((kind, precision), 0.0) for kind in kinds),
        )
        for precision in precisions
    )
    chart = Bars(
        value=Axis(title="Share of layer time" if timed else "Share of layers", unit="%", low=0),
        category_title="Kind of layer",
        categories=tuple(shortened(kind, length=40) for kind in kinds),
        groups=groups,
    )
    title = f"{'Time' if timed else 'Layers'} by kind and precision{name.of(': ')}"
    caption = "Precision is the type that computes; of a conversion, the one it gives out."
    return Figure(id=f"layer_kinds{name.suffix}", title=title, chart=chart, caption=caption)
