"""The layers of one engine: the slowest, what they have in common, what computes, what adds up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.layers.columns import rows_from_groups, rows_from_layers
from trtbench.analysis.layers.engine_facts import EngineFacts
from trtbench.analysis.layers.grouping import Group
from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.precision import PrecisionTruth
from trtbench.analysis.layers.reconcile import Reconciliation, hint_of
from trtbench.report.cells import bytes_cell, duration_cell, share_cell
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    table_from_rows,
)
from trtbench.report.numbers import UnitScale, common_unit, text_from_duration, text_from_share
from trtbench.units import counted

ISLANDS_SHOWN = 5
UNMET_SHOWN = 5

LAYER_HEADINGS = (
    Heading(key="index", title="#", align="right", rank=6),
    Heading(key="name", title="Layer", fit="shorten"),
    Heading(key="kind", title="Kind", rank=3, fit="shorten"),
    Heading(key="precision", title="Computes", rank=1),
    Heading(key="types", title="In, out", rank=5),
    Heading(key="shape_out", title="Output", rank=7),
    Heading(key="average_s", title="Average", align="right"),
    Heading(key="median_s", title="Median", align="right", rank=8),
    Heading(key="spread", title="Min to max", align="right", rank=10),
    Heading(key="share", title="Share", align="right"),
    Heading(key="so_far", title="So far", align="right", rank=4),
    Heading(key="roofline_share", title="Of roof", align="right", rank=2),
    Heading(key="bound", title="Bound", rank=9),
)
GROUP_HEADINGS = (
    Heading(key="group", title="Group", fit="shorten"),
    Heading(key="layers", title="Layers", align="right"),
    Heading(key="average_s", title="Time", align="right"),
    Heading(key="share", title="Share", align="right"),
    Heading(key="precisions", title="Computes in", rank=2),
    Heading(key="flops", title="GFLOP", align="right", rank=3),
    Heading(key="traffic_bytes", title="Moves", align="right", rank=4),
)


def document_from_layers(
    label: str,
    table: LayerTable,
    shown: Sequence[Layer],
    *,
    facts: EngineFacts,
    truth: PrecisionTruth,
    sums: Reconciliation | None,
    groups: Sequence[Group] = (),
    by: str | None = None,
    notes: Sequence[str] = (),
    created: str = "",
) -> Document:
    """Describe the layers of one engine, as a screen and as data."""
    sections = [Section(id="layers", title="", blocks=(_layer_table(shown, table),))]
    if by is not None:
        sections = [Section(id="groups", title="", blocks=(group_table(groups, by),))]
    sections += [
        Section(
            id="precision", title="What computes", blocks=tuple(precision_blocks(table, truth))
        ),
        *_sums_section(table, sums),
        *_notes_section((*notes, *table.notes)),
    ]
    data: dict[str, object] = {
        "engine": label,
        "count": table.count,
        "sum_s": table.total_s,
        "gpu": table.gpu,
        "facts": facts,
        "precision": truth,
        "reconciliation": sums,
        "notes": [*notes, *table.notes],
    }
    if by is not None:
        data["groups"] = rows_from_groups(groups, by=by)
    else:
        data["layers"] = rows_from_layers(shown)
    return Document(
        title=_title(label, table, facts),
        created=created,
        sections=tuple(each for each in sections if each.blocks),
        data=data,
    )


def _title(label: str, table: LayerTable, facts: EngineFacts) -> str:
    parts = [label, f"{len(table.layers)} layers", table.gpu or facts.gpu]
    parts.append(f"TensorRT {facts.tensorrt}" if facts.tensorrt else None)
    return " · ".join(part for part in parts if part)


def _layer_table(shown: Sequence[Layer], table: LayerTable) -> Table:
    unit = common_unit(layer.seconds for layer in shown)
    rows, so_far = [], 0.0
    for layer in shown:
        so_far += layer.share or 0.0
        rows.append(layer_cells(layer, unit, so_far=so_far if layer.share is not None else None))
    left = len(table.layers) - len(shown)
    more = f"{len(shown)} of {len(table.layers)} layers" if left else f"{len(shown)} layers"
    total = text_from_duration(table.total_s)
    inferences = "one inference" if table.count == 1 else f"{table.count or 'unknown'} inferences"
    times = f"of {total} in sum, averaged over {inferences}"
    caption = f"{more}, {times if table.timed else 'not timed'}"
    return table_from_rows("layers", headings=LAYER_HEADINGS, rows=rows, caption=caption)


def layer_cells(layer: Layer, unit: UnitScale, *, so_far: float | None) -> tuple[Cell, ...]:
    """Write one layer as the cells of a row."""
    types = " to ".join(each or "?" for each in (layer.precision_in, layer.precision_out))
    known = layer.precision_in or layer.precision_out
    return (
        Cell(value=layer.index),
        Cell(value=layer.name),
        Cell(value=layer.kind),
        Cell(value=layer.precision, text=layer.precision or _no_type(layer)),
        Cell(value=types if known else None),
        Cell(value=layer.shape_out),
        duration_cell(layer.time_s, unit=unit),
        duration_cell(layer.median_s, unit=unit),
        Cell(text=_spread(layer, unit)),
        share_cell(layer.share),
        share_cell(so_far),
        share_cell(layer.roofline),
        Cell(value=layer.bound),
    )


def _spread(layer: Layer, unit: UnitScale) -> str:
    """Write the range of a layer's times, where iterations were kept apart."""
    if layer.min_s is None or layer.max_s is None:
        return "–"
    ends = (text_from_duration(each, unit=unit) for each in (layer.min_s, layer.max_s))
    return " to ".join(ends)


def _no_type(layer: Layer) -> str:
    return f"({layer.role})" if layer.role != "compute" else "–"


def group_table(groups: Sequence[Group], by: str) -> Table:
    """Write groups as a table."""
    unit = common_unit(group.seconds or 0.0 for group in groups)
    rows = [
        (
            Cell(value=group.name),
            Cell(value=group.layers, text=f"{group.layers:.4g}"),
            duration_cell(group.seconds, unit=unit),
            share_cell(group.share),
            Cell(value=group.precisions),
            Cell(value=group.flops, text=_giga(group.flops)),
            bytes_cell(group.traffic_bytes),
        )
        for group in groups
    ]
    return table_from_rows("groups", headings=GROUP_HEADINGS, rows=rows, caption=f"by {by}")


def _giga(flops: int | None) -> str:
    return "–" if flops is None else f"{flops / 1e9:.3g}"


def precision_blocks(
    table: LayerTable, truth: PrecisionTruth, *, suffix: str = ""
) -> Iterator[Block]:
    """Write which types compute, what stayed wide, what conversions cost, and the islands."""
    pairs: list[tuple[str, Cell]] = []
    for each in truth.types:
        flops = f", {text_from_share(each.flops_share)} of FLOPs" if each.flops_share else ""
        time = f"{text_from_share(each.share)} of time" if each.share is not None else ""
        words = f"{counted(each.layers, 'layer')}{', ' if time else ''}{time}{flops}"
        pairs.append((each.precision, Cell(value=each.share, text=words)))
    for change in truth.conversions:
        took = f", {text_from_duration(change.seconds)}" if change.seconds is not None else ""
        share = f" ({text_from_share(change.share)} of time)" if change.share is not None else ""
        words = f"{counted(change.layers, 'layer')}{took}{share}"
        pairs.append((change.role, Cell(value=change.seconds, text=words)))
    if pairs:
        yield KeyValues(id=f"precision{suffix}", pairs=tuple(pairs))
    if truth.unmet:
        yield Text(text=_unmet_words(truth))
    yield from _island_blocks(table, truth, suffix)


def _unmet_words(truth: PrecisionTruth) -> str:
    first = truth.unmet[0]
    names = "; ".join(
        f"{each.name} ({each.got}, {text_from_duration(each.seconds)})"
        for each in truth.unmet[:UNMET_SHOWN]
    )
    more = len(truth.unmet) - UNMET_SHOWN
    tail = f"; and {more} more" if more > 0 else ""
    return (
        f"{len(truth.unmet)} layers do not compute in {first.asked.upper()}, asked for by "
        f"{first.because}: {names}{tail}"
    )


def _island_blocks(table: LayerTable, truth: PrecisionTruth, suffix: str) -> Iterator[Block]:
    if not truth.islands:
        return
    costly = sorted(truth.islands, key=lambda each: -(each.conversion_s or 0.0))[:ISLANDS_SHOWN]
    rows = [
        (
            Cell(value=len(each.layers)),
            Cell(value=table.layers[each.layers[0]].name),
            duration_cell(each.seconds),
            duration_cell(each.conversion_s),
            Cell(value=_names(each.before)),
            Cell(value=_names(each.after)),
        )
        for each in costly
    ]
    headings = (
        Heading(key="layers", title="Layers", align="right"),
        Heading(key="first", title="Quantized from", fit="shorten"),
        Heading(key="average_s", title="Time", align="right"),
        Heading(key="conversion_s", title="Borders", align="right"),
        Heading(key="before", title="Before it", fit="shorten", rank=2),
        Heading(key="after", title="Behind it", fit="shorten", rank=1),
    )
    count = len(truth.islands)
    caption = f"{counted(count, 'quantized island')}; borders are Q/DQ and casts"
    yield table_from_rows(f"islands{suffix}", headings=headings, rows=rows, caption=caption)


def _names(names: Sequence[str]) -> str | None:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else None


def _sums_section(table: LayerTable, sums: Reconciliation | None) -> list[Section]:
    if sums is None:
        return []
    return [Section(id="sums", title="What adds up", blocks=tuple(sums_blocks(table, sums)))]


def sums_blocks(table: LayerTable, sums: Reconciliation, *, suffix: str = "") -> Iterator[Block]:
    """Write how the layers add up to the GPU time."""
    if sums.gpu_s is None:
        whole = "how long a query takes without it was not measured"
        if sums.host_s is not None:
            whole = f"without it a query takes {text_from_duration(sums.host_s)} (host, median)"
        layers = text_from_duration(sums.layers_s)
        yield Text(text=f"layers sum to {layers} with the profiler on; {whole}")
        return
    rows = [
        ("sum of the layers", sums.layers_s, "", f"{len(table.layers)} layers, averages"),
        *((f"− {each.name}", each.seconds, each.evidence, each.because) for each in sums.parts),
        ("− unexplained", sums.unexplained_s, "", hint_of(sums, table) or ""),
        ("GPU time", sums.gpu_s, "", "median of an inference without the profiler"),
    ]
    headings = (
        Heading(key="part", title=""),
        Heading(key="seconds_s", title="Time", align="right"),
        Heading(key="evidence", title="Known", rank=1),
        Heading(key="because", title="Because", fit="wrap"),
    )
    cells = [
        (
            Cell(value=name),
            Cell(value=seconds, text=_signed(seconds)),
            Cell(value=known),
            Cell(value=why),
        )
        for name, seconds, known, why in rows
    ]
    yield table_from_rows(f"sums{suffix}", headings=headings, rows=cells)


def _signed(seconds: float | None) -> str:
    return "size not known" if seconds is None else text_from_duration(seconds)


def _notes_section(notes: Sequence[str]) -> list[Section]:
    words = tuple(Text(text=f"note: {each}") for each in dict.fromkeys(notes))
    return [Section(id="notes", title="", blocks=words)]
