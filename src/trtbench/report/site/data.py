"""What the pages are given: a row for every run, series with their changes, and single runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.comparability import BLOCKING_CONDITIONS
from trtbench.analysis.history import Series
from trtbench.domain.ran import gap_of, graph_of, protocol_of, setting_of, streams_of, threads_of
from trtbench.domain.result import AnyRecord, Fact, FailedRun, Run, RunRecord, Scalar, gpu_of
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Figure
from trtbench.report.documents.history import figure_from_series
from trtbench.report.labels import model_name, network_name, precision_name
from trtbench.report.machine import facts_from_environment
from trtbench.report.numbers import unit_for_seconds
from trtbench.report.renderers.html import spec_from_figure
from trtbench.report.run_facts import PHASES, headline_column, summary_of
from trtbench.report.run_scores import readings_from_run

MOST_POINTS = 400
"""Of a series of samples: as many as a screen has room for."""
RANKS = tuple(k / 100 for k in range(101))
BLOCKING = ("shapes", "batch", "protocol", "gap", "rate", "machine", "GPU", *BLOCKING_CONDITIONS)
"""Differences that make a ratio meaningless, as ``analysis.comparability`` has them."""


def shared_figures() -> dict[str, dict[str, object]]:
    """Describe the charts of runs that meet only in a browser, which fills in their numbers.

    ``{unit}`` stands for a unit that suits the numbers.
    """
    time, share = Axis(title="Time", unit="{unit}"), Axis(title="Samples", unit="%")
    median, ratio = Axis(title="Median", unit="{unit}"), Axis(title="B over A", unit="%")
    zero = Line(name=None, role="mark", x=(1, 99), y=(0, 0), style="dotted")
    figures = (
        _curves("ranks", "Share of samples at or below", time, share, *_both("line")),
        _curves("shift", "B over A, percentile by percentile", Axis(title="Percentile"), ratio,
                _both("line")[1], zero),
        _curves("launches", "Median of every launch", Axis(title="Launch"), median,
                *_both("ring")),
    )  # fmt: skip
    return {each.id: {"title": each.title, "spec": spec_from_figure(each)} for each in figures}


def _both(style: Literal["line", "ring"]) -> tuple[Line, Line]:
    a, b = (Line(name=None, role=f"run:{k}", x=(), y=(), style=style) for k in (0, 1))
    return a, b


def _curves(id: str, title: str, x: Axis, y: Axis, *lines: Line) -> Figure:
    return Figure(id=id, title=title, chart=Lines(x=x, y=y, panels=(Panel(lines=lines),)))


def row_from_record(
    record: AnyRecord, *, median_s: float | None, items_per_s: float | None, reported: bool = False
) -> dict[str, object]:
    """Describe a run in a line of the list; short names, because there are thousands."""
    findings = record.findings if isinstance(record, RunRecord) else ()
    gpu = gpu_of(record)
    return {
        "id": record.id,
        "at": record.created,
        "network": network_name(record),
        "model": model_name(record),
        "runtime": record.spec.runtime,
        "precision": precision_name(record),
        "batch": record.known_items if isinstance(record, RunRecord) else record.spec.batch,
        "protocol": protocol_of(record),
        "machine": record.environment.host,
        "device": gpu.name if gpu else record.environment.cpu,
        "median": median_s,
        "reported": reported,
        "items": items_per_s,
        "tags": list(record.tags),
        "warnings": sum(each.severity != "note" for each in findings),
        "failed": record.reason if isinstance(record, FailedRun) else None,
    }


def series_data(series: Series, *, network: str) -> dict[str, object]:
    """Describe a series by the ids of its runs, its levels and its changes."""
    return {
        "network": network,
        "name": series.key.name,
        "runs": [point.run for point in series.points],
        "figure": spec_from_figure(figure_from_series(series, "series")),
        "changes": [
            {
                "index": change.at.index,
                "run": change.run,
                "at": change.created,
                "before": change.at.before,
                "after": change.at.after,
                "change": change.at.change,
                "confirmed": change.at.confirmed,
                "causes": [[cause.name, cause.before, cause.after] for cause in change.causes],
            }
            for change in series.changes
        ],
    }


def run_data(run: Run) -> dict[str, object]:
    """Describe one run for its own page and for comparisons."""
    record = run.record
    column = headline_column(run)
    summary = summary_of(run)
    return {
        **_common(record),
        "headline": PHASES.get(summary.headline, summary.headline),
        "reported": summary.reported,
        "columns": [_column(each) for each in summary.columns],
        "items": summary.items_per_s,
        "queries": summary.queries_per_s,
        "interval": [summary.interval.low, summary.interval.high] if summary.interval else None,
        "ranks": [float(q) for q in np.quantile(column, RANKS)] if len(column) else [],
        "samples": spec_from_figure(_samples(run)) if len(column) else None,
        "count": len(column),
        "launches": _launches(run),
        "scores": {
            name: [reading.value, reading.low, reading.high]
            for name, reading in readings_from_run(run).items()
        },
        "findings": [
            [each.severity, each.code, each.message, each.remedy] for each in record.findings
        ],
        "notes": list(record.notes),
        "basis": basis(record),
    }


def failed_data(record: FailedRun) -> dict[str, object]:
    """Describe a run that did not finish."""
    return {
        **_common(record),
        "failed": record.reason,
        "stage": record.stage,
        "log": list(record.log_tail),
    }


def basis(record: RunRecord) -> dict[str, object]:
    """Collect the conditions two runs must share for a ratio to mean something."""
    spec, where = record.spec, record.environment
    shapes = ", ".join(f"{'x'.join(map(str, each.shape))} {each.dtype}" for each in record.inputs)
    known = {name: fact.value for name, fact in record.conditions.items() if _is_known(fact)}
    return {
        "shapes": shapes or None,
        "batch": record.known_items,
        "protocol": protocol_of(record),
        "gap": gap_of(record) or None,
        "rate": spec.rate_hz,
        "machine": where.host,
        "GPU": gpu.name if (gpu := gpu_of(record)) else None,
        "precision": precision_name(record),
        "threads": threads_of(record),
        **known,
    }


def _is_known(fact: Fact) -> bool:
    return fact.source != "unknown" and fact.value is not None


def _common(record: AnyRecord) -> dict[str, object]:
    model = record.spec.model
    facts = facts_from_environment(record.environment)
    return {
        "id": record.id,
        "path": model.path,
        "sha256": model.sha256,
        "size": model.size_bytes,
        "tags": list(record.tags),
        "command": record.environment.command,
        "environment": facts,
        "options": _options(record),
    }


def _options(record: AnyRecord) -> dict[str, Scalar]:
    spec = record.spec
    length = spec.stop
    return {
        "warm-up": _words(spec.warmup.floor.seconds, spec.warmup.floor.iterations),
        "length": _words(length.seconds, length.iterations),
        "launches": spec.launches,
        "streams": streams_of(record),
        "CUDA graph": graph_of(record),
        "transfers": setting_of(record, "transfers"),
        "inputs": spec.inputs.source or f"random, seed {spec.inputs.seed}",
        **{f"option {key}": value for key, value in spec.options.items()},
    }


def _words(seconds: float | None, iterations: int | None) -> str | None:
    parts = [f"{seconds:g} s" if seconds else "", f"{iterations} iterations" if iterations else ""]
    return ", ".join(part for part in parts if part) or None


def _column(column: ColumnSummary) -> dict[str, object]:
    values: Mapping[str, float | None] = {
        "median": column.median,
        "mean": column.mean,
        "std": column.std,
        "min": column.min,
        "max": column.max,
        **{each.name: each.value for each in column.quantiles if each.q >= 0.9},
    }
    shown = {name: _finite(value) for name, value in values.items()}
    return {"name": PHASES.get(column.column, column.column), "n": column.count, **shown}


def _launches(run: Run) -> list[float]:
    headline = run.times.headline
    if headline not in run.times.durations():
        return []
    return [float(np.median(part)) for part in run.times.by_launch(headline) if len(part)]


def _samples(run: Run) -> Figure:
    column = headline_column(run)
    unit, scale = unit_for_seconds(float(np.median(column)))
    points = _thinned(column)
    line = Line(
        name=None,
        role="run:0",
        x=tuple(place for place, _ in points),
        y=tuple(value / scale for _, value in points),
        style="points",
    )
    title = f"{PHASES.get(run.times.headline, run.times.headline)} time"
    axes = Axis(title="Sample"), Axis(title=title, unit=unit)
    return _curves("samples", f"{title}, sample by sample", *axes, line)


def _thinned(column: NDArray[np.float64]) -> list[list[float]]:
    """Keep the least and the largest of every stretch: what stands out must not be lost."""
    if len(column) <= MOST_POINTS:
        return [[float(k), float(value)] for k, value in enumerate(column)]
    kept: list[list[float]] = []
    for part in np.array_split(np.arange(len(column)), MOST_POINTS // 2):
        ends: Sequence[int] = sorted((int(column[part].argmin()), int(column[part].argmax())))
        kept += [[float(part[k]), float(column[part[k]])] for k in dict.fromkeys(ends)]
    return kept


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
