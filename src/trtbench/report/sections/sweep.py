"""Model by precision by batch in one table, as ArtTRT prints it, and all times as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trtbench.analysis.scores import is_share
from trtbench.domain.result import Run
from trtbench.report.cells import duration_cell, number_cell
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.headings import (
    BATCH_HEADING,
    ID_HEADING,
    ITEMS_HEADING,
    NETWORK_HEADING,
    PRECISION_HEADING,
    RUNTIME_HEADING,
    SIZE_HEADING,
    score_heading,
)
from trtbench.report.labels import (
    labels_from_runs,
    network_name,
    precision_name,
    protocol_name,
    shortened,
)
from trtbench.report.layer_kinds import PRECISIONS
from trtbench.report.numbers import (
    MISSING,
    UnitScale,
    common_unit,
    text_from_count,
    text_from_duration,
    unit_for_seconds,
)
from trtbench.report.run_facts import (
    headline_column,
    headline_summary,
    headline_title,
    summary_of,
    words_on_protocols,
)
from trtbench.report.run_scores import Reading, readings_from_run
from trtbench.units import text_from_bytes

ORDER = 75

MOST_BARS = 24
DENSE = 0.6
"""Of all pairs of network and kind; with fewer, groups of bars are mostly gaps."""
SAME = {"top-1": "top1", "prec@1": "top1", "top-5": "top5", "prec@5": "top5"}
"""What the two accuracies of classifiers are called by others who take them."""

HEADINGS = (
    NETWORK_HEADING,
    BATCH_HEADING,
    RUNTIME_HEADING,
    PRECISION_HEADING,
    Heading(key="protocol", title="Protocol"),
    Heading(key="latency_mean_s", title="Latency avg", align="right"),
    Heading(key="latency_max_s", title="Latency max", align="right"),
    ITEMS_HEADING,
    Heading(key="spread_s", title="95 % of samples", align="right"),
    SIZE_HEADING,
)
TAIL = (
    Heading(key="layers", title="Layers", align="right"),
    Heading(key="parameters", title="Parameters", align="right"),
    ID_HEADING,
)


def make(runs: Sequence[Run]) -> Section | None:
    """List runs by network, batch and precision, where at least two of these differ."""
    chosen = [run for run in runs if headline_summary(run)]
    batches = {run.record.batch for run in chosen}
    kinds = {(precision_name(run.record), run.record.spec.runtime) for run in chosen}
    networks = {network_name(run.record) for run in chosen}
    if sum(len(each) > 1 for each in (batches, kinds, networks)) < 2:
        return None
    ordered = sorted(chosen, key=_order)
    roles = {run.id: f"run:{index}" for index, run in enumerate(runs)}
    unit = common_unit(head.mean for run in ordered if (head := headline_summary(run)))
    caption = "95 % of samples: from the 2.5th to the 97.5th percentile of the latencies seen."
    scores = {run.id: _scores(run) for run in ordered}
    metrics = list(dict.fromkeys(name for found in scores.values() for name in found))
    table = table_from_rows(
        "sweep",
        headings=(*HEADINGS, *(score_heading(m, k) for k, m in enumerate(metrics)), *TAIL),
        rows=[
            (*_row(run, unit), *(_score(scores[run.id], m) for m in metrics), *_tail(run))
            for run in ordered
        ],
        caption=caption,
    )
    return Section(id="sweep", title="Sweep", blocks=(_bars(ordered, roles), table))


def _order(run: Run) -> tuple[str, int, str, int]:
    record = run.record
    kind = precision_name(record)
    rank = PRECISIONS.index(kind) if kind in PRECISIONS else len(PRECISIONS)
    return network_name(record), record.items_per_query, record.spec.runtime, rank


def _row(run: Run, unit: UnitScale) -> tuple[Cell | str | int | None, ...]:
    spec, head, summary = run.record.spec, headline_summary(run), summary_of(run)
    assert head is not None  # only runs that have one are listed
    spread = _spread(run, unit)
    size = spec.model.size_bytes or run.record.facts.get("parameter_bytes")
    return (
        network_name(run.record),
        run.record.batch,
        spec.runtime,
        precision_name(run.record),
        protocol_name(run.record),
        duration_cell(head.mean, unit=unit),
        duration_cell(head.max, unit=unit),
        number_cell(summary.items_per_s),
        spread,
        Cell(value=size, text=text_from_bytes(size if isinstance(size, int) else None)),
    )


def _tail(run: Run) -> tuple[Cell | str, ...]:
    """Count layers and parameters, of an engine by its inspector, of PyTorch by its modules."""
    facts, graph = run.record.facts, run.graph
    layers = len(graph.layers) if graph else facts.get("modules")
    weights = sum(each.weights_count or 0 for each in graph.layers) if graph else None
    parameters = weights or facts.get("parameters")
    text = text_from_count(parameters if isinstance(parameters, int) else None)
    return (Cell(value=layers), Cell(value=parameters, text=text), run.id)


def _spread(run: Run, unit: UnitScale) -> Cell:
    column = headline_column(run)
    if not len(column):
        return Cell(text=MISSING)
    low, high = (float(q) for q in np.quantile(column, (0.025, 0.975)))
    words = " to ".join(text_from_duration(end, unit=unit) for end in (low, high))
    return Cell(value=high - low, text=words)


def _scores(run: Run) -> dict[str, Reading]:
    found = {SAME.get(each.lower(), each): one for each, one in readings_from_run(run).items()}
    return {metric: replace(reading, metric=metric) for metric, reading in found.items()}


def _score(scores: dict[str, Reading], metric: str) -> Cell:
    reading = scores.get(metric)
    if reading is None:
        return Cell(text=MISSING)
    if not is_share(metric):
        return number_cell(reading.value)
    return Cell(value=reading.value, text=reading.text)


def _bars(runs: Sequence[Run], roles: dict[str, str]) -> Figure:
    """Draw mean times by network and batch, or a bar for each run where few of these meet."""
    heads = {run.id: head.mean for run in runs if (head := headline_summary(run))}
    unit, scale = unit_for_seconds(float(np.median(list(heads.values()))))
    means = {id: value / scale for id, value in heads.items()}
    rows = {(network_name(run.record), run.record.batch) for run in runs}
    kinds = {_kind(run, runs) for run in runs}
    cells = {(network_name(run.record), run.record.batch, _kind(run, runs)) for run in runs}
    dense = len(cells) == len(runs) and len(cells) >= DENSE * len(rows) * len(kinds)
    title, names, groups = (_grouped if dense else _single)(runs, roles, means)
    chart = Bars(
        value=Axis(title=f"{headline_title(runs)}, mean per batch", unit=unit, low=0),
        category_title=title,
        categories=tuple(names[:MOST_BARS]),
        groups=groups,
        stacked=False,
    )
    words = (
        f"The first {MOST_BARS} of {len(names)}." if len(names) > MOST_BARS else None,
        words_on_protocols(runs),
    )
    return Figure(
        id="inference_time_bar_all",
        title="Inference time of all",
        chart=chart,
        caption=" ".join(filter(None, words)) or None,
    )


def _grouped(
    runs: Sequence[Run], roles: dict[str, str], means: dict[str, float]
) -> tuple[str, list[str], tuple[BarGroup, ...]]:
    """Make a group of bars for each network and batch; a kind keeps its colour."""
    rows = list(dict.fromkeys((network_name(r.record), r.record.batch) for r in runs))
    kinds = {_kind(run, runs): roles[run.id] for run in reversed(runs)}
    at = {(network_name(r.record), r.record.batch, _kind(r, runs)): means.get(r.id) for r in runs}
    groups = tuple(
        BarGroup(
            name=kind, role=role, values=tuple(at.get((*row, kind)) for row in rows[:MOST_BARS])
        )
        for kind, role in reversed(kinds.items())
    )
    return "Network and batch", [_category(row) for row in rows], groups


def _single(
    runs: Sequence[Run], roles: dict[str, str], means: dict[str, float]
) -> tuple[str, list[str], tuple[BarGroup, ...]]:
    """Make a bar for each run, all of one colour."""
    values = tuple(means.get(run.id) for run in runs[:MOST_BARS])
    group = BarGroup(name="mean", role=roles[runs[0].id], values=values)
    return "Run", list(labels_from_runs(runs)), (group,)


def _kind(run: Run, runs: Sequence[Run]) -> str:
    several = len({each.record.spec.runtime for each in runs}) > 1
    precision = precision_name(run.record) or "as is"
    return f"{run.record.spec.runtime} {precision}" if several else precision


def _category(row: tuple[str, int | None]) -> str:
    name = shortened(row[0], length=28)
    return f"{name} · batch {row[1]}" if row[1] else name
