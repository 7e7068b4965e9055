"""What batch size to choose: throughput and latency against it, where runs differ in batch."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Run
from trtbench.report.alike import AlikeKey, alike_key, names_of_keys
from trtbench.report.cells import duration_cell, number_cell
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Block, Cell, Figure, Heading, Section, Text, table_from_rows
from trtbench.report.headings import BATCH_HEADING, ID_HEADING, ITEMS_HEADING
from trtbench.report.labels import file_stem, network_name, precision_name, shortened
from trtbench.report.numbers import UnitScale, common_unit, unit_for_seconds
from trtbench.report.run_facts import headline_summary, headline_title, summary_of

ORDER = 70

MOST_CURVES = 8
MOST_FIGURES = 8
LABELLED_CURVES = 4
"""Words beside the points of more curves than this would cover one another."""

HEADINGS = (
    Heading(key="series", title="Series"),
    BATCH_HEADING,
    ITEMS_HEADING,
    Heading(key="median_s", title="Median latency", align="right"),
    Heading(key="median_per_item_s", title="Latency per item", align="right"),
    ID_HEADING,
)

Curve = tuple[str, str, list[Run]]
"""Name, role and runs of one series, by batch."""


def make(runs: Sequence[Run]) -> Section | None:
    """Draw items per second and latency against batch for each model measured at several."""
    series = _series(runs)
    if not series:
        return None
    names = names_of_keys(list(series))
    heads = [
        head for members in series.values() for run in members if (head := headline_summary(run))
    ]
    unit = common_unit(head.typical for head in heads)
    rows = [
        (name, *_cells(run, unit))
        for name, members in zip(names, series.values(), strict=True)
        for run in members
    ]
    table = table_from_rows("throughput", headings=HEADINGS, rows=rows)
    roles = [f"run:{runs.index(members[0])}" for members in series.values()]
    curves = list(zip(names, roles, series.values(), strict=True))
    blocks: list[Block] = [*_against_batch(curves), _against_latency(curves[:MOST_CURVES])]
    if len(series) > MOST_CURVES:
        note = f"Pictures show {MOST_CURVES} series at most; the table has all {len(series)}."
        blocks.insert(0, Text(text=note))
    return Section(id="throughput", title="Throughput", blocks=(*blocks, table))


def _series(runs: Sequence[Run]) -> dict[AlikeKey, list[Run]]:
    """Group runs that differ in batch only; a group of one batch size is no series."""
    groups: dict[AlikeKey, list[Run]] = {}
    for run in runs:
        if headline_summary(run) and summary_of(run).items_per_s and run.record.batch:
            groups.setdefault(_key(run), []).append(run)
    return {
        key: sorted(members, key=lambda run: run.record.items_per_query)
        for key, members in groups.items()
        if len({run.record.batch for run in members}) > 1
    }


def _key(run: Run) -> AlikeKey:
    """Name what a curve is of; engines of fixed batch are one file per batch of one network.

    Without a precision, only files tell.
    """
    network = network_name(run.record) if precision_name(run.record) else None
    return alike_key(run, ("batch",), machines=True, model=network)


def _cells(run: Run, unit: UnitScale) -> tuple[Cell | str | int | None, ...]:
    head, summary = headline_summary(run), summary_of(run)
    assert head is not None  # a series holds only runs that have one
    items = run.record.known_items
    per_item = head.typical / items if items else None
    return (
        run.record.batch,
        number_cell(summary.items_per_s),
        duration_cell(head.typical, bounds=head.median_interval, unit=unit),
        duration_cell(per_item, unit=unit),
        run.id,
    )


def _against_batch(curves: Sequence[Curve]) -> list[Figure]:
    """Draw one figure for each network, with a curve per runtime and precision."""
    networks: dict[str, list[Curve]] = {}
    for curve in curves:
        networks.setdefault(network_name(curve[2][0].record), []).append(curve)
    taken: set[str] = set()
    return [
        _network_figure(network, members[:MOST_CURVES], stem=file_stem(network, taken=taken))
        for network, members in list(networks.items())[:MOST_FIGURES]
    ]


def _network_figure(network: str, curves: Sequence[Curve], *, stem: str) -> Figure:
    lines = tuple(
        Line(
            name=name,
            role=role,
            x=tuple(float(run.record.items_per_query) for run in members),
            y=tuple(summary_of(run).items_per_s for run in members),
            style="both",
        )
        for name, role, members in curves
    )
    chart = Lines(
        x=Axis(title="Batch size", unit="items", scale="log2"),
        y=Axis(title="Throughput", unit="items/s", low=0),
        panels=(Panel(lines=lines),),
    )
    return Figure(
        id=f"inference_throughput_vs_batch_size_{stem}",
        title=f"Throughput against batch size: {shortened(network)}",
        chart=chart,
    )


def _against_latency(curves: Sequence[Curve]) -> Figure:
    runs = [run for _, _, members in curves for run in members]
    slowest = max(head.typical for run in runs if (head := headline_summary(run)))
    unit, scale = unit_for_seconds(slowest)
    few = len(curves) <= LABELLED_CURVES
    lines = tuple(
        Line(
            name=name,
            role=role,
            x=tuple(head.typical / scale for run in members if (head := headline_summary(run))),
            y=tuple(summary_of(run).items_per_s for run in members),
            texts=tuple(f"batch {run.record.batch}" for run in members) if few else (),
            style="both",
        )
        for name, role, members in curves
    )
    chart = Lines(
        x=Axis(title=f"{headline_title(runs)}, median", unit=unit, low=0),
        y=Axis(title="Throughput", unit="items/s", low=0),
        panels=(Panel(lines=lines),),
    )
    return Figure(
        id="throughput_vs_latency",
        title="Throughput against latency",
        chart=chart,
        caption="One point per batch size. The best batch lies where the curve bends to the right.",
    )
