"""Layers of engines: the slowest, their kinds and precisions, two engines compared, and why.

For the output of ``trtbench profile`` and ``diff`` and for reports.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import Literal

from msgspec.structs import asdict

from trtbench.core.run import Run
from trtbench.core.units import (
    MISSING,
    common_unit,
    counted,
    shortened,
    text_from_bytes,
    text_from_change,
    text_from_count,
    text_from_difference,
    text_from_duration,
    text_from_share,
    unit_for_seconds,
)
from trtbench.layers import diff as engine_diff
from trtbench.layers import table as tables
from trtbench.layers.cost import peak_of, with_rates
from trtbench.layers.diff import Change, EngineDiff, Lineup, Reconciliation, Why
from trtbench.layers.join import join_layers
from trtbench.layers.table import EngineFacts, Group, Layer, LayerTable, groups_of
from trtbench.report import document as doc
from trtbench.report.charts import ROLES, Axis, Bars, bar_group
from trtbench.report.run_facts import labelled, title_of_key, value_text

ORDER = 60

TOP = 30
MOST_DRAWN = 6  # runs whose slowest layers are drawn one by one
LayerChart = Literal["time", "memory", "mnk"]
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")

CAUSE_COLUMNS = ("code", "title", "explains_s", "share", "layers", "nodes", "evidence")
MIN_CAUSE_SHARE = 0.01  # minimum share of the difference for a cause to be shown


def make(runs: Sequence[Run]) -> doc.Section | None:
    """Show the slowest layers of each profiled run, layer kinds, and all layers as details."""
    return doc.optional_section("layers", "Layers", _run_blocks(runs))


def _run_blocks(runs: Sequence[Run]) -> Iterator[doc.Block]:
    found = []
    for number, (label, run) in enumerate(labelled(runs), 1):
        if (run.layers and run.layers.layers) or (run.graph is not None and run.graph.detailed):
            facts = tables.facts_from_run(run)
            peak = peak_of(facts.gpu, sm_count=facts.sm_count)
            rated = with_rates(join_layers(run.layers, run.graph), peak, energy_j=facts.energy_j)
            found.append((number, label, facts, rated))
    timed = [each for each in found if each[3].timed]
    drawn = [number for number, *_ in timed[:MOST_DRAWN]]
    if len(timed) > 1:
        _, names, known, every = zip(*timed, strict=True)
        lined = engine_diff.line_up(every, known, "kind")
        figure = lineup_figure(lined, names, by="kind", id="layers_by_kind")
        words = f"Below, the slowest layers of the first {MOST_DRAWN} runs are drawn."
        yield figure.having(caption=words if len(timed) > MOST_DRAWN else None)
        short = tuple(shortened(name, length=24) for name in names)
        yield lineup_table(lined.having(names=short), id="layers_by_kind")
    for number, label, facts, rated in found:
        # A single run needs no name and no number.
        name, suffix = ("", "") if len(runs) == 1 else (label, f"_{number}")
        of = f": {shortened(name)}" if name else ""
        if rated.timed:
            count = text_from_count(rated.count) if rated.count else "an unknown number of"
            slowed = "Profiling slows inference down, so the sum is larger than the latency, and "
            slowed = slowed if facts.kernel_busy_s is None else "By kernels, without a profiler: "
            yield doc.Text(
                f"{f'{name}: ' if name else ''}{text_from_count(len(rated.layers))} layers, "
                f"times of {count} inferences, measured in a separate pass. "
                f"{slowed}layers that run in parallel count twice."
            )
            title = f"The slowest layers{of}"
            one = layers_figure(rated, id=f"per_layer_time{suffix}", title=title)
            yield from [one] if one and number in drawn else []
        if rated.detailed and (len(timed) < 2 or not rated.timed):
            yield _group_table(groups_of(rated, "kind"), by="kind", id=f"layer_kinds{suffix}")
        if rated.timed:
            ordered = sorted(rated.layers, key=lambda layer: -layer.seconds)
            every_layer = _layer_table(ordered, rated, id=f"layers{suffix}")
            yield doc.Details(f"All {text_from_count(len(ordered))} layers{of}", (every_layer,))


def layers_figure(
    table: LayerTable,
    shown: Sequence[Layer] | None = None,
    *,
    chart: LayerChart = "time",
    id: str = "per_layer_time",
    title: str = "The slowest layers",
) -> doc.Figure | None:
    """Return a bar chart of layers, by default the slowest; ``None`` if their values are unknown.

    ``memory`` shows the bytes of tensors and of weights, ``mnk`` the sizes of products and
    convolutions. The caption has the sums over all layers.
    """
    if shown is None:
        shown = sorted(table.layers, key=lambda layer: -layer.seconds)[:TOP]
    needed = {"time": "time_s", "memory": "traffic_bytes", "mnk": "m"}[chart]
    shown = [layer for layer in shown if getattr(layer, needed) is not None]
    if not shown:
        return None
    count = text_from_count(len(table.layers))
    if chart == "mnk":
        title = "M, N and K of products and convolutions"
        sizes = [[getattr(layer, name) or 0 for layer in shown] for name in "mnk"]
        axis = Axis("Size", scale="log", low=0.8, high=3.0 * max(map(max, sizes)))
        named = zip("MNK", ("run:0", "run:1", "run:2"), sizes, strict=True)
        groups = [bar_group(*x, scale=1, labels=map(text_from_count, x[2])) for x in named]
        caption = "M: positions or rows of the output; N: its maps or columns; K: weights of each."
    elif chart == "memory":
        axis = Axis("Inputs, outputs and weights", "MiB", low=0)
        title = "Memory footprint of layers"
        weights = [layer.weight_bytes or 0 for layer in shown]
        tensors = [(x.traffic_bytes or 0) - y for x, y in zip(shown, weights, strict=True)]
        kinds = ("inputs and outputs", "gpu", tensors), ("weights", "enqueue", weights)
        groups = [bar_group(*each, scale=2**20) for each in kinds]
        both = ("traffic_bytes", "weight_bytes")
        sums = (text_from_bytes(sum(getattr(x, name) or 0 for x in table.layers)) for name in both)
        caption = "All {} layers: {}, of which {} are weights.".format(count, *sums)
    else:
        seconds, total = [layer.seconds for layer in shown], table.total_s or 0.0
        if seconds != sorted(seconds, reverse=True):
            title = "Times of layers"
        unit, scale = unit_for_seconds(max(seconds))
        times = (text_from_duration(each, unit=(unit, scale)) for each in seconds)
        parts = (text_from_share(layer.share) for layer in shown)
        labels = (f"{time} ({part})" for time, part in zip(times, parts, strict=True))
        axis = Axis(f"{table.statistic.capitalize()} time per inference", unit, low=0)
        groups = [bar_group("layer", "layer", seconds, scale=scale, labels=labels)]
        caption = f"Sum over all {count} layers: {text_from_duration(total)}."
        if rest := len(table.layers) - len(shown):
            left = text_from_share((total - sum(seconds)) / total if total else None)
            caption += f" The {text_from_count(rest)} not shown take {left}."
    names = tuple(tables.layer_labels([layer.name for layer in shown]))
    bars = Bars(axis, "Layer", names, tuple(groups), stacked=chart != "mnk")
    return doc.Figure(id, title, bars, caption)


def document_from_layers(
    label: str,
    layers: LayerTable,
    shown: Sequence[Layer],
    *,
    facts: EngineFacts,
    groups: Sequence[Group] = (),
    by: str | None = None,
    keys: Sequence[str] = (),
    notes: Sequence[str] = (),
    created: str = "",
) -> doc.Document:
    """Show layers, or groups of them, with what is to be said of the engine.

    ``keys`` are the columns of the table, where others than the usual ones are asked for.
    """
    truth, suspects = tables.summarize_precision(layers), tables.lint(layers, asked=facts.asked)
    sums, remarks = engine_diff.reconcile(layers, facts), [*notes, *layers.notes]
    if facts.counters is not None:
        why = f"hardware counters cannot be read ({facts.counters})"
        remarks.append(f"rooflines are of estimated bytes: {why}")
    rows: dict[str, object]
    if by is None:
        found = engine_diff.rows_from_layers(shown, keys)
        first, rows = _layer_table(shown, layers), {"layers": found}
        if keys:
            lines = [tuple(row.values()) for row in found]
            columns = doc.plain_columns(keys, lines, value_text, title_of_key)
            first = doc.table("layers", lines, columns, caption=first.caption)
    else:
        first = _group_table(groups, by=by)
        rows = {"groups": engine_diff.rows_from_groups(groups, by=by)}
    sections = (
        doc.optional_section(first.id, "", [first]),
        doc.optional_section("precision", "By precision", _precision_blocks(truth)),
        doc.optional_section("lint", "Suspicious layers", _suspect_blocks(suspects)),
        doc.optional_section("sums", "Breakdown", _sums_blocks(layers, sums) if sums else ()),
        doc.optional_section("notes", "", doc.note_lines(dict.fromkeys(remarks))),
    )
    version = f"TensorRT {facts.tensorrt}" if facts.tensorrt else None
    parts = [label, f"{len(layers.layers)} layers", layers.gpu or facts.gpu, version]
    return doc.Document(
        title=" · ".join(part for part in parts if part),
        created=created,
        sections=tuple(each for each in sections if each),
        data={
            "engine": label,
            "count": layers.count,
            "sum_s": layers.total_s,
            "gpu": layers.gpu,
            "facts": facts,
            "precision": truth,
            "lint": suspects,
            "reconciliation": sums,
            "notes": remarks,
            **rows,
        },
    )


def _group_table(groups: Sequence[Group], *, by: str, id: str = "groups") -> doc.Table:
    def gigaflop(group: Group) -> doc.Cell:
        return doc.Cell(group.flops, MISSING if group.flops is None else f"{group.flops / 1e9:.3g}")

    columns = (
        doc.column("group", "Group", "name", fit="shorten"),
        doc.column("layers", "Layers", kind=".4g"),
        doc.column("time_s", "Time", "seconds", "time"),
        doc.column("each_s", "Each", lambda x: x.seconds and x.seconds / x.layers, "time", rank=1),
        doc.column("share", "Share", kind="share"),
        doc.column("precisions", "Computes in", rank=2),
        doc.column("flops", "GFLOP", gigaflop, "right", rank=3),
        doc.column("traffic_bytes", "Moves", kind="bytes", rank=4),
    )
    unit = common_unit(group.seconds or 0.0 for group in groups)
    return doc.table(id, groups, columns, caption=f"by {by}", unit=unit)


def _layer_table(shown: Sequence[Layer], layers: LayerTable, *, id: str = "layers") -> doc.Table:
    unit = common_unit(layer.seconds for layer in shown)
    sums = accumulate(layer.share or 0.0 for layer in shown)
    pairs = zip(shown, sums, strict=True)
    so_far = {each.index: None if each.share is None else part for each, part in pairs}
    by_median = layers.statistic == "median"

    def types(layer: Layer) -> str | None:
        known = (layer.precision_in, layer.format_in), (layer.precision_out, layer.format_out)
        words = [":".join(filter(None, each)) for each in known]
        return " to ".join(each or "?" for each in words) if any(words) else None

    def sizes(layer: Layer) -> str | None:
        return None if layer.m is None else f"{layer.m} x {layer.n} x {layer.k}"

    def computes(layer: Layer) -> doc.Cell:
        other = f"({layer.role})" if layer.role != "compute" else MISSING
        return doc.Cell(layer.precision, layer.precision or other)

    def min_to_max(layer: Layer) -> doc.Cell:
        ends = [text_from_duration(each, unit=unit) for each in (layer.min_s, layer.max_s)]
        return doc.Cell(None, MISSING if MISSING in ends else " to ".join(ends))

    def energy(layer: Layer) -> doc.Cell:
        joules = layer.energy_j
        return doc.Cell(joules, MISSING if joules is None else f"{joules * 1e3:.3g} mJ")

    columns = [
        doc.column("index", "#", kind="right", rank=6),
        doc.column("name", "Layer", fit="shorten"),
        doc.column("kind", "Kind", rank=3, fit="shorten"),
        doc.column("precision", "Computes", computes, rank=1),
        doc.column("types", "In, out", types, rank=5),
        doc.column("shape_out", "Output", rank=7),
        doc.column("median_s", "Median", kind="time", rank=0 if by_median else 8),
        doc.column("average_s", "Average", "time_s", "time", rank=8 if by_median else 0),
        doc.column("spread", "Min to max", min_to_max, "right", rank=10),
        doc.column("share", "Share", kind="share"),
        doc.column("so_far", "Cumulative", lambda x: so_far[x.index], "share", rank=4),
        doc.column("roofline_share", "% of roofline", "roofline", "share", rank=2),
        doc.column("bound", "Bound", rank=9),
    ]
    attributes = (
        doc.column("kernel", "Kernel", rank=11),
        doc.column("stride", "Stride", rank=12),
        doc.column("groups", "Groups", kind="right", rank=12),
        doc.column("sizes", "M x N x K", sizes, "right", rank=11),
        doc.column("weight_bytes", "Weights", kind="bytes", rank=13),
        doc.column("origin", "Origin", rank=13),
    )
    columns += [each for each in attributes if any(each[1](layer) for layer in shown)]
    if any(layer.dram_bytes is not None for layer in shown):
        columns.insert(-2, doc.column("dram_bytes", "DRAM", kind="bytes", rank=2))
        columns.insert(-2, doc.column("sm_active", "SM active", kind="share", rank=2))
    if any(layer.energy_j for layer in shown):
        columns.append(doc.column("energy_j", "Energy*", energy, "right", rank=2))
    of = f" of {len(layers.layers)}" if len(layers.layers) > len(shown) else ""
    count = text_from_count(layers.count) if layers.count else "an unknown number of"
    of_all = "one inference" if layers.count == 1 else f"{count} inferences"
    total = text_from_duration(layers.total_s)
    times = f"{layers.statistic}s of {of_all}, {total} in sum" if layers.timed else "not timed"
    caption = f"{len(shown)}{of} layers; {times}"
    if any(layer.dram_bytes is not None for layer in shown):
        caption += "; DRAM bytes and SM activity measured by hardware counters"
    if used := math.fsum(layer.energy_j or 0.0 for layer in layers.layers):
        caption += f"\n* estimate: {used * 1e3:.3g} mJ per batch above idle, by share of the time"
    return doc.table(id, shown, columns, caption=caption, unit=unit)


def _precision_blocks(truth: tables.PrecisionSummary) -> Iterator[doc.Block]:
    pairs: list[tuple[str, doc.Cell]] = []
    flops = sum(each.flops or 0 for each in truth.types)
    took = f"{text_from_share(truth.uncounted)} of time" if truth.uncounted else ""
    where = took or counted(truth.unknown, "layer")
    of = f"known FLOPs (unknown in {where})" if truth.unknown else "FLOPs"
    for each in truth.types:
        words = [counted(int(each.layers), "layer")]
        words += [f"{text_from_share(each.share)} of time"] if each.share is not None else []
        words += [f"{text_from_share(each.flops / flops)} of {of}"] if each.flops else []
        pairs.append((each.name, doc.Cell(each.share, ", ".join(words))))
    for change in truth.conversions:
        took = f", {text_from_duration(change.seconds)}" if change.seconds is not None else ""
        share = f" ({text_from_share(change.share)} of time)" if change.share is not None else ""
        text = f"{counted(int(change.layers), 'layer')}{took}{share}"
        pairs.append((change.name, doc.Cell(change.seconds, text)))
    if pairs:
        yield doc.key_values("precision", pairs)


def _suspect_blocks(suspects: Sequence[tables.Suspect]) -> Iterator[doc.Block]:
    columns = (
        doc.column("name", "Layer", fit="shorten"),
        doc.column("seconds", "Time", kind="time"),
        doc.column("what", "What", fit="wrap"),
        doc.column("remedy", "Try", fit="wrap", rank=1),
    )
    more = len(suspects) - 5
    caption = f"{more} more, faster ones: --json lists all" if more > 0 else None
    if suspects:
        yield doc.table("lint", suspects[:5], columns, caption=caption)


def _sums_blocks(layers: LayerTable, sums: Reconciliation) -> Iterator[doc.Block]:
    """Show how the layer times add up to the GPU time, or to host time."""
    if sums.gpu_s is None and not sums.parts:
        whole = "the time of a query without it was not measured"
        if sums.host_s is not None:
            whole = f"without it a query takes {text_from_duration(sums.host_s)} (host, median)"
        total = text_from_duration(sums.layers_s)
        yield doc.Text(f"layers sum to {total} with the profiler on; {whole}")
        return
    rows = [
        ("sum of the layers", sums.layers_s, f"{len(layers.layers)} layers, {layers.statistic}s"),
        *((f"{'−+'[x.seconds < 0]} {x.name}", abs(x.seconds), x.because) for x in sums.parts),
        ("GPU time", sums.gpu_s, "median of an inference without the profiler")
        if sums.gpu_s is not None
        else ("host time", sums.host_s, "median of a query without the profiler"),
    ]
    columns = (
        doc.column("part", "", 0),
        doc.column("seconds_s", "Time", lambda row: doc.Time(row[1]), "right"),
        doc.column("because", "Because", 2, fit="wrap"),
    )
    yield doc.table("sums", rows, columns)


# ---- two engines or more


def document_from_lineup(
    lined: Lineup, labels: Sequence[str], *, top: int | None, notes: Sequence[str]
) -> doc.Document:
    """Show layers of several engines, or groups of them, with a column of times for each."""
    pairs = [
        (name, doc.Cell(total_s, f"{text_from_duration(total_s)} in layers, {label}"))
        for name, label, total_s in zip(lined.names, labels, lined.sums_s, strict=True)
    ]
    shown = lined.having(rows=lined.rows[:top])
    left = len(lined.rows) - len(shown.rows)
    caption = f"{left} faster ones are not shown" if left else None
    sections = (
        doc.optional_section("totals", "", [doc.key_values("totals", pairs)]),
        doc.optional_section("engines", "", [lineup_table(shown, caption=caption)]),
        doc.optional_section("notes", "", doc.note_lines(notes)),
    )
    times = lined.what or "one has no profile: layers are aligned, but not timed"
    return doc.Document(
        title=f"{len(labels)} engines ({times})",
        sections=tuple(each for each in sections if each),
        data={
            "engines": dict(zip(lined.names, labels, strict=True)),
            "whole": lined.what,
            "sums_s": dict(zip(lined.names, lined.sums_s, strict=True)),
            "rows": engine_diff.rows_from_lineup(shown),
            "notes": list(notes),
        },
    )


def lineup_table(lined: Lineup, *, id: str = "engines", caption: str | None = None) -> doc.Table:
    columns = [doc.column("name", "", 0, fit="shorten")]
    for place, name in enumerate(lined.names, 1):
        columns.append(doc.column(f"{name}_s", name, place, "time"))
    lines = [(name, *seconds) for name, seconds in lined.rows]
    unit = common_unit(each or 0.0 for _, seconds in lined.rows for each in seconds)
    return doc.table(id, lines, columns, caption=caption, unit=unit)


def lineup_figure(
    lined: Lineup, labels: Sequence[str], *, by: str, id: str = "engines"
) -> doc.Figure:
    """Return a bar for each engine, stacked by groups of layers; the smallest are together."""
    parts = [(name, [each or 0.0 for each in seconds]) for name, seconds in lined.rows]
    if len(parts) > 7:
        rest = [math.fsum(each) for each in zip(*(x for _, x in parts[6:]), strict=True)]
        parts[6:] = [(f"{len(parts) - 6} others", rest)]
    unit, scale = unit_for_seconds(max(each or 0.0 for each in lined.sums_s))
    groups = tuple(
        bar_group(name, name if name in ROLES else f"run:{place}", seconds, scale=scale)
        for place, (name, seconds) in enumerate(parts)
    )
    paths = [label.split("/") for label in labels]
    common = sum(1 for _ in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False)))
    names = tuple(shortened("/".join(x[common:] or x[-1:]), length=40) for x in paths)
    bars = Bars(Axis("Time per inference in layers", unit, low=0), "Engine", names, groups)
    return doc.Figure(id, f"Layers of {len(labels)} engines by {by}", bars)


def document_from_diff(
    diff: EngineDiff, labels: Sequence[str], *, top: int | None, notes: Sequence[str] = ()
) -> doc.Document:
    pairs = _side_pairs(diff, ("A", "B"))
    if diff.delta_s is not None and diff.a_s:
        change = text_from_change(diff.delta_s / diff.a_s, digits=1)
        words = f"{text_from_difference(diff.delta_s)} in layers ({change})"
        pairs.append(("difference", doc.Cell(diff.delta_s, words)))
    blocks: list[doc.Block] = [doc.key_values("totals", pairs)]
    alone = []
    for side in ("a", "b"):
        if found := [each for each in diff.only_in(side) if each.a_s or each.b_s]:
            seconds = text_from_duration(sum(each.a_s + each.b_s for each in found))
            alone.append(f"only in {side.upper()}: {counted(len(found), 'layer')}, {seconds}")
    blocks += [doc.Text("; ".join(alone))] if alone else []
    sections = (
        doc.optional_section("totals", "", [*_unknown_text(diff), *blocks]),
        doc.optional_section("changes", "", [_changes_table(diff, top=top)]),
        doc.optional_section("notes", "", doc.note_lines(notes)),
    )
    return doc.Document(
        title=diff.sentence(*labels),
        sections=tuple(each for each in sections if each),
        data={
            "a": labels[0],
            "b": labels[1],
            **{x: getattr(diff, x) for x in ("a_s", "b_s", "whole", "delta_s")},
            "changes": engine_diff.rows_from_diff(diff)[:top],
            "notes": list(notes),
        },
    )


def _side_pairs(diff: EngineDiff, names: tuple[str, str]) -> list[tuple[str, doc.Cell]]:
    pairs = []
    for name, seconds, outside in zip(names, (diff.a_s, diff.b_s), diff.outside_s, strict=True):
        more = f", {text_from_difference(outside)} outside of them (gaps less overlaps)"
        words = f"{text_from_duration(seconds)} in layers{more if outside else ''}"
        pairs.append((name, doc.Cell(seconds, words)))
    return pairs


def _unknown_text(diff: EngineDiff) -> Iterator[doc.Block]:
    """Say what cannot be known, and which files would tell."""
    if diff.lacks:
        what = "; ".join(dict.fromkeys(diff.lacks.values()))
        unseen = "So changes of type, memory limits and conversions of other names are not seen."
        yield doc.Text(f"{' and '.join(diff.lacks)}: {what}. {unseen}", "unclear")


def _changes_table(diff: EngineDiff, *, top: int | None) -> doc.Table:
    moved = [each for each in diff.changes if each.a_s or each.b_s or diff.delta_s is None]
    shown = moved[:top]
    unit = common_unit(max(each.a_s, each.b_s) for each in shown)

    def name(names: str | None, count: int) -> str:
        first = "–" if names is None else names.split("\n")[0]
        return first if count <= 1 else f"{first} (+{count - 1})"

    def name_a(each: Change) -> doc.Cell:
        alone = f"+ {name(each.name_b, len(each.b))}"
        return doc.Cell(each.name_a, name(each.name_a, len(each.a)) if each.a else alone)

    def name_b(each: Change) -> doc.Cell:
        return doc.Cell(each.name_b, name(each.name_b, len(each.b)))

    def delta(each: Change) -> doc.Cell:
        value = None if diff.delta_s is None else each.delta_s
        tone: doc.Tone = "plain" if not value else "bad" if value > 0 else "good"
        return doc.Cell(value, text_from_difference(value, unit=unit), tone)

    def types(each: Change) -> str | None:
        return " → ".join(dict.fromkeys(filter(None, (each.precision_a, each.precision_b)))) or None

    columns = (
        doc.column("name_a", "Layer of A, or + of B alone", name_a, fit="shorten"),
        doc.column("a_s", "A", lambda x: x.a_s if x.a and diff.a_s is not None else None, "time"),
        doc.column("name_b", "Layer of B", name_b, fit="shorten", rank=3),
        doc.column("b_s", "B", lambda x: x.b_s if x.b and diff.b_s is not None else None, "time"),
        doc.column("delta_s", "Change", delta, "right"),
        doc.column("types", "Types", types, rank=2),
        doc.column("changed", "Changed", lambda x: ", ".join(x.changed) or None, rank=4),
        doc.column("aligned_by", "By", lambda x: x.by if x.by != "none" else None, rank=5),
    )
    left = len(moved) - len(shown)
    caption = f"{left} layers that changed less are not shown" if left else None
    return doc.table("changes", shown, columns, caption=caption, unit=unit)


def document_from_why(
    found: Why, labels: Sequence[str], *, show_all: bool = False, notes: Sequence[str] = ()
) -> doc.Document:
    causes = list(found.causes)
    if not show_all:
        matter = (e for e in causes if e.seconds is None or (e.share or 0.0) >= MIN_CAUSE_SHARE)
        causes = list(matter)[:6]
    sections = [doc.optional_section("totals", "", _why_totals(found))]
    for number, cause in enumerate(causes, 1):
        title = f"{number}. {cause.title} (seen, not timed)"
        if cause.seconds is not None:
            share = f", explains {text_from_share(cause.share)}" if cause.share is not None else ""
            title = f"{number}. {cause.title}: {text_from_duration(cause.seconds)}{share}"
        blocks: list[doc.Block] = [doc.Text(f"  {line}") for line in cause.evidence]
        blocks += [doc.Text(f"  try: {cause.try_}")] if cause.try_ else []
        blocks += [doc.Code(cause.command)] if cause.command else []
        sections.append(doc.optional_section(f"cause_{number}", title, blocks))
    sections.append(doc.optional_section("notes", "", doc.note_lines(notes)))
    return doc.Document(
        title=found.diff.sentence(*labels),
        sections=tuple(each for each in sections if each),
        data={
            "baseline": labels[0],
            "candidate": labels[1],
            "whole": found.diff.whole,
            **{x: y for x, y in asdict(found).items() if x not in ("causes", "diff")},
            "causes": [
                {
                    **{name: getattr(each, name) for name in CAUSE_COLUMNS},
                    "cost_s": each.seconds,
                    "try": each.try_,
                    "command": each.command,
                }
                for each in found.causes
            ],
            "notes": list(notes),
        },
    )


def _why_totals(found: Why) -> Iterator[doc.Block]:
    missing = max(0.0, found.shortfall_s)
    yield from _unknown_text(found.diff)
    pairs = _side_pairs(found.diff, ("A (baseline)", "B"))
    was, now = found.computes
    if was and now and was != now:
        pairs.append(("computes in", doc.Cell(None, f"A {was}; B {now}")))
    if found.gain > 1:
        gained = f"were {found.gain:.2f} times as fast, like those that gained"
        words = f"{text_from_duration(found.expected_s)}, if all products and convolutions {gained}"
        pairs.append(("expected", doc.Cell(found.expected_s, words)))
    pairs.append(("to explain", doc.Cell(missing, text_from_duration(missing))))
    if found.gains_s:
        words = f"{text_from_duration(-found.gains_s)}, where it is better than expected"
        pairs.append(("gained elsewhere", doc.Cell(found.gains_s, words)))
    if found.unexplained_s > MIN_CAUSE_SHARE * missing:
        words = text_from_duration(found.unexplained_s)
        pairs.append(("unexplained", doc.Cell(found.unexplained_s, words)))
    yield doc.key_values("totals", pairs)
    if not found.diff.related:
        yield doc.Text("no cause can be named: hardly any layer has a counterpart", "unclear")
    elif not missing and not found.diff.lacks:
        gained = f", where the type is narrower {found.gain:.2f} times as fast"
        words = "nothing to explain: in sum, layers are not slower than in A"
        yield doc.Text(words + (gained if found.gain > 1 else ""), "good")
