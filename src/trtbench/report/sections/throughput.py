"""What batch size to choose: throughput and latency against it, where runs differ in batch."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Run
from trtbench.report.document import (
    Axis,
    Block,
    Cell,
    Figure,
    Heading,
    Line,
    Lines,
    Panel,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.facts import headline_summary, headline_title, summary_of
from trtbench.report.labels import model_name, precision_name
from trtbench.report.numbers import (
    Unit,
    common_unit,
    text_from_duration,
    text_from_number,
    unit_for_seconds,
)

ORDER = 70

MOST_CURVES = 8

HEADINGS = (
    Heading(key="series", title="Series"),
    Heading(key="batch", title="Batch", align="right"),
    Heading(key="items_per_s", title="Items/s", align="right"),
    Heading(key="median_s", title="Median latency", align="right"),
    Heading(key="median_per_item_s", title="Latency per item", align="right"),
    Heading(key="id", title="Run"),
)

Key = tuple[str, ...]


def make(runs: Sequence[Run]) -> Section | None:
    """Draw items per second and latency against batch for each model measured at several."""
    series = _series(runs)
    if not series:
        return None
    names = _names(list(series))
    heads = [
        head for members in series.values() for run in members if (head := headline_summary(run))
    ]
    unit = common_unit(head.median for head in heads)
    rows = [
        (name, *_cells(run, unit))
        for name, members in zip(names, series.values(), strict=True)
        for run in members
    ]
    table = table_from_rows("throughput", headings=HEADINGS, rows=rows)
    drawn = dict(list(series.items())[:MOST_CURVES])
    roles = [f"run:{runs.index(members[0])}" for members in drawn.values()]
    blocks: tuple[Block, ...] = (
        _against_batch(names[:MOST_CURVES], roles, drawn),
        _against_latency(names[:MOST_CURVES], roles, drawn),
    )
    if len(series) > MOST_CURVES:
        note = f"Pictures show the first {MOST_CURVES} of {len(series)} series, the table all."
        blocks = (Text(text=note), *blocks)
    return Section(id="throughput", title="Throughput", blocks=(*blocks, table))


def _series(runs: Sequence[Run]) -> dict[Key, list[Run]]:
    """Group runs that differ in batch only; a group of one batch size is no series."""
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        if headline_summary(run) and summary_of(run).items_per_s and run.record.spec.batch:
            groups.setdefault(_key(run), []).append(run)
    return {
        key: sorted(members, key=lambda run: run.record.items_per_query)
        for key, members in groups.items()
        if len({run.record.spec.batch for run in members}) > 1
    }


def _key(run: Run) -> Key:
    spec = run.record.spec
    return (
        model_name(run.record),
        spec.runtime,
        precision_name(run.record) or "",
        spec.protocol,
        f"{spec.threads} threads" if spec.threads else "",
        "CUDA graph" if spec.cuda_graph == "on" else "",
        run.record.environment.host,
    )


def _names(keys: list[Key]) -> list[str]:
    differing = [len(set(parts)) > 1 for parts in zip(*keys, strict=True)]
    names = [" · ".join(p for p, d in zip(key, differing, strict=True) if d and p) for key in keys]
    return [name or key[0] for name, key in zip(names, keys, strict=True)]


def _cells(run: Run, unit: Unit) -> tuple[Cell | str | int | None, ...]:
    head, summary = headline_summary(run), summary_of(run)
    assert head is not None  # a series holds only runs that have one
    per_item = head.median / summary.items_per_query
    return (
        run.record.spec.batch,
        Cell(value=summary.items_per_s, text=text_from_number(summary.items_per_s)),
        Cell(
            value=head.median,
            text=text_from_duration(head.median, bounds=head.median_interval, unit=unit),
        ),
        Cell(value=per_item, text=text_from_duration(per_item, unit=unit)),
        run.id,
    )


def _against_batch(names: list[str], roles: list[str], series: dict[Key, list[Run]]) -> Figure:
    lines = tuple(
        Line(
            name=name,
            role=role,
            x=tuple(float(run.record.items_per_query) for run in members),
            y=tuple(summary_of(run).items_per_s for run in members),
            style="both",
        )
        for name, role, members in zip(names, roles, series.values(), strict=True)
    )
    chart = Lines(
        x=Axis(title="Batch size", unit="items", scale="log2"),
        y=Axis(title="Throughput", unit="items/s", low=0),
        panels=(Panel(lines=lines),),
    )
    return Figure(id="throughput_vs_batch", title="Throughput against batch size", chart=chart)


def _against_latency(names: list[str], roles: list[str], series: dict[Key, list[Run]]) -> Figure:
    runs = [run for members in series.values() for run in members]
    slowest = max(head.median for run in runs if (head := headline_summary(run)))
    unit, scale = unit_for_seconds(slowest)
    lines = []
    for name, role, members in zip(names, roles, series.values(), strict=True):
        heads = [head for run in members if (head := headline_summary(run))]
        lines.append(
            Line(
                name=name,
                role=role,
                x=tuple(head.median / scale for head in heads),
                y=tuple(summary_of(run).items_per_s for run in members),
                style="both",
            )
        )
    chart = Lines(
        x=Axis(title=f"{headline_title(runs)}, median", unit=unit, low=0),
        y=Axis(title="Throughput", unit="items/s", low=0),
        panels=(Panel(lines=tuple(lines)),),
    )
    return Figure(
        id="throughput_vs_latency",
        title="Throughput against latency",
        chart=chart,
        caption="One point per batch size, the smallest on the left.",
    )
