"""Runs of which only printed numbers are known, as bars: there are no samples to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trtbench.analysis.summary import ColumnSummary
from trtbench.domain.result import Run
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import Block, Figure
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import text_from_duration, unit_for_seconds
from trtbench.report.run_facts import REPORTED, headline_summary, headline_title

MOST_BARS = 40


def printed_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Draw what other tools printed of runs without samples; nothing where there is none."""
    pairs = [
        (label, run, head)
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        if (head := headline_summary(run)) is not None and head.reported
    ]
    if not pairs:
        return ()
    shown = sorted(pairs, key=lambda pair: pair[2].typical)[:MOST_BARS]
    heads = [head for *_, head in shown]
    unit, scale = unit_for_seconds(sorted(head.typical for head in heads)[len(heads) // 2])
    groups = (
        _group("median or mean", "run:0", heads, [head.typical for head in heads], scale),
        _group("p99", "run:1", heads, [head.statistic("p99") for head in heads], scale),
    )
    words = f" The fastest {MOST_BARS} of {len(pairs)}." if len(pairs) > MOST_BARS else ""
    chart = Bars(
        value=Axis(title=headline_title([run for _, run, _ in shown]), unit=unit, low=0),
        category_title="Run",
        categories=tuple(label for label, *_ in shown),
        groups=tuple(group for group in groups if any(v is not None for v in group.values)),
        stacked=False,
    )
    figure = Figure(
        id="latency_reported", title="Latency as reported", chart=chart, caption=REPORTED + words
    )
    return (figure,)


def _group(
    name: str,
    role: str,
    heads: Sequence[ColumnSummary],
    values: Sequence[float | None],
    scale: float,
) -> BarGroup:
    known = [None if v is None or math.isnan(v) else v for v in values]
    texts = tuple("" if v is None else text_from_duration(v) for v in known)
    scaled = tuple(None if v is None else v / scale for v in known)
    return BarGroup(name=name, role=role, values=scaled, labels=texts)
