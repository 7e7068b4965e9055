"""Which layers the time goes to, averaged per inference."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.layers.difference import difference
from trtbench.analysis.layers.engine_facts import facts_from_run
from trtbench.analysis.layers.gpus import peak_of
from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.precision import precision_truth
from trtbench.analysis.layers.reconcile import reconcile
from trtbench.analysis.layers.roofline import with_rates
from trtbench.analysis.layers.why import why
from trtbench.domain.result import Run
from trtbench.domain.samples import LayerProfile, LayerTime
from trtbench.report.cells import duration_cell, share_cell
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import (
    Block,
    Cell,
    Details,
    Drawing,
    Figure,
    Heading,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.documents.engine_diff import changes_table, totals, waterfall
from trtbench.report.documents.layers import precision_blocks, sums_blocks
from trtbench.report.documents.why import causes_table
from trtbench.report.drawing.engine import svg_from_engine
from trtbench.report.drawing.engines import svg_from_diff
from trtbench.report.headings import MEDIAN_HEADING
from trtbench.report.labels import labels_from_runs, shortened
from trtbench.report.layer_kinds import BlockName, kind_blocks, shares
from trtbench.report.numbers import (
    UnitScale,
    text_from_count,
    text_from_duration,
    text_from_share,
    unit_for_seconds,
)

ORDER = 60

TOP = 30
MOST_FIGURES = 6
MOST_DRAWN = 1500
"""Layers of an engine that is drawn in a page; trtbench layers --draw draws larger ones."""

HEADINGS = (
    Heading(key="name", title="Layer"),
    Heading(key="average_s", title="Average", align="right"),
    MEDIAN_HEADING,
    Heading(key="share", title="Share", align="right"),
)
MOST_PAIRS = 3
"""Runs that are set against the first; a report of many runs has tables enough."""
MOST_DRAWN_PAIRS = 800


def make(runs: Sequence[Run]) -> Section | None:
    """Show the slowest layers of each profiled run, what kind they are, and all folded away."""
    named = [
        (number, label, run)
        for number, (label, run) in enumerate(zip(labels_from_runs(runs), runs, strict=True), 1)
        if (run.layers and run.layers.layers) or (run.graph and run.graph.detailed)
    ]
    blocks: list[Block] = []
    tables = [(label, run, join_layers(run.layers, run.graph)) for _, label, run in named]
    for place, (number, label, run) in enumerate(named):
        alone = len(runs) == 1
        name = BlockName(label=None if alone else label, suffix="" if alone else f"_{number}")
        blocks += _blocks(run, name, tables[place][2], drawn=place < MOST_FIGURES)
    blocks += diff_blocks(tables)
    return Section(id="layers", title="Layers", blocks=tuple(blocks)) if blocks else None


def _blocks(run: Run, name: BlockName, table: LayerTable, *, drawn: bool) -> list[Block]:
    blocks: list[Block] = []
    profile = run.layers if run.layers and run.layers.layers else None
    if profile:
        blocks.append(Text(text=_words(profile, name.label)))
        if drawn:
            title = f"The slowest layers{name.of(': ')}"
            blocks.append(layers_figure(profile, id=f"per_layer_time{name.suffix}", title=title))
    if run.graph and run.graph.detailed:
        blocks += kind_blocks(shares(profile, run.graph), name, drawn=drawn)
    if profile:
        blocks.append(_all_layers(profile, name))
    if drawn:
        blocks += _engine_blocks(run, name, table)
    return blocks


def _engine_blocks(run: Run, name: BlockName, table: LayerTable) -> list[Block]:
    """Say what computes and what adds up, and draw the engine, folded away."""
    facts = facts_from_run(run)
    rated = with_rates(table, peak_of(facts.gpu, sm_count=facts.sm_count))
    blocks: list[Block] = []
    if rated.detailed:
        truth = precision_truth(rated, asked=facts.asked)
        found = tuple(precision_blocks(rated, truth, suffix=name.suffix))
        blocks.append(Details(summary=f"What computes{name.of(': ')}", blocks=found))
    sums = reconcile(
        rated,
        facts.gpu_s,
        profiled_gpu_s=facts.profiled_gpu_s,
        cuda_graph=facts.cuda_graph,
        host_s=facts.host_s,
    )
    if sums is not None and sums.gpu_s is not None:
        added = tuple(sums_blocks(rated, sums, suffix=name.suffix))
        blocks.append(Details(summary=f"What adds up{name.of(': ')}", blocks=added))
    if rated.detailed and len(rated.layers) <= MOST_DRAWN:
        title = f"The engine{name.of(': ')}"
        key = name.suffix.lstrip("_")
        svg = svg_from_engine(rated, title=title, prefix=f"R{key}L", in_page=True)
        drawing = Drawing(id=f"engine{name.suffix}", title=title, svg=svg)
        blocks.append(Details(summary=f"Drawing of the engine{name.of(': ')}", blocks=(drawing,)))
    return blocks


def by_time(profile: LayerProfile) -> list[LayerTime]:
    """Order layers from the slowest on; layers that share a name stay apart."""
    return sorted(profile.layers, key=lambda layer: -layer.average_s)


def layers_figure(
    profile: LayerProfile, *, id: str = "per_layer_time", title: str = "The slowest layers"
) -> Figure:
    """Describe the bars of the slowest layers, the rest in one bar below them."""
    ordered = by_time(profile)
    top, rest = ordered[:TOP], ordered[TOP:]
    total = sum(layer.average_s for layer in ordered)
    unit, scale = unit_for_seconds(top[0].average_s)
    labels = tuple(_label(layer.average_s, total, unit=(unit, scale)) for layer in top)
    chart = Bars(
        value=Axis(title="Average time per inference", unit=unit, low=0),
        category_title="Layer",
        categories=tuple(shortened(layer.name, length=40) for layer in top),
        groups=(
            BarGroup(
                name="layer",
                role="layer",
                values=tuple(layer.average_s / scale for layer in top),
                labels=labels,
            ),
        ),
    )
    caption = f"Sum over all {text_from_count(len(ordered))} layers: {text_from_duration(total)}."
    if rest:
        share = sum(layer.average_s for layer in rest) / total if total else None
        caption += f" The {text_from_count(len(rest))} not shown take {text_from_share(share)}."
    return Figure(id=id, title=title, chart=chart, caption=caption)


def _label(average_s: float, total: float, *, unit: UnitScale) -> str:
    share = text_from_share(average_s / total if total else None)
    return f"{text_from_duration(average_s, unit=unit)} ({share})"


def _words(profile: LayerProfile, label: str | None) -> str:
    who = f"{label}: " if label else ""
    count = profile.count
    passes = (
        f"over {text_from_count(count)} inferences"
        if count
        else "over an unknown number of inferences"
    )
    return (
        f"{who}{text_from_count(len(profile.layers))} layers, averages per inference {passes}, "
        "measured in a pass of its own. Profiling slows inference down, so the sum is larger than "
        "the latency, and layers that run side by side count twice."
    )


def _all_layers(profile: LayerProfile, name: BlockName) -> Details:
    ordered = by_time(profile)
    total = sum(layer.average_s for layer in ordered)
    unit = unit_for_seconds(ordered[0].average_s)
    rows: list[tuple[Cell | str, ...]] = [
        (
            layer.name,
            duration_cell(layer.average_s, unit=unit),
            duration_cell(layer.median_s, unit=unit),
            share_cell(layer.average_s / total if total else None),
        )
        for layer in ordered
    ]
    table = table_from_rows(f"layers{name.suffix}", headings=HEADINGS, rows=rows)
    summary = f"All {text_from_count(len(rows))} layers{name.of(' of ')}"
    return Details(summary=summary, blocks=(table,))


def diff_blocks(named: Sequence[tuple[str, Run, LayerTable]]) -> list[Block]:
    """Set each profiled run against the first one, where both know their layers."""
    timed = [each for each in named if each[2].timed]
    blocks: list[Block] = []
    for number, other in enumerate(timed[1 : 1 + MOST_PAIRS], 2):
        blocks += _pair(timed[0], other, suffix="" if len(timed) == 2 else f"_{number}")
    return blocks


def _pair(
    one: tuple[str, Run, LayerTable], other: tuple[str, Run, LayerTable], *, suffix: str
) -> list[Block]:
    (label_a, run_a, a), (label_b, run_b, b) = one, other
    facts = facts_from_run(run_a), facts_from_run(run_b)
    diff = difference(a, b)
    if not any(each.by != "none" for each in diff.changes):
        return []  # another network: nothing stands beside anything
    labels = label_a, label_b
    found = why(a, b, baseline=facts[0], candidate=facts[1])
    figure = waterfall(diff, labels, id=f"layers_waterfall{suffix}")
    blocks: list[Block] = [
        Text(text=f"A is {label_a}, B is {label_b}. Layers are aligned by the ONNX nodes they came "
             "from, then by name, then by their place."),
        *totals(diff, (facts[0].gpu_s, facts[1].gpu_s)),
        *((figure,) if figure else ()),
    ]  # fmt: skip
    if found is not None and found.causes:
        blocks.append(causes_table(found, id=f"layers_why{suffix}"))
    blocks.append(
        Details(
            summary=f"All layers of {label_a} and {label_b} side by side",
            blocks=(changes_table(diff, top=None, id=f"layers_diff{suffix}"),),
        )
    )
    if len(diff.changes) <= MOST_DRAWN_PAIRS:
        svg = svg_from_diff(diff, a, b, labels=labels, in_page=True)
        title = f"{label_a} and {label_b}, layer beside layer"
        drawing = Drawing(id=f"layers_both{suffix}", title=title, svg=svg)
        blocks.append(Details(summary="Both engines in one drawing", blocks=(drawing,)))
    return blocks
