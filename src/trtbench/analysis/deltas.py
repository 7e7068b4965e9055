"""Two runs side by side: the rows of the evaluation toolkit's comparison."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from trtbench.analysis.column_summary import QUANTILES, quantiles_of
from trtbench.analysis.comparability import Difference, blocking_reasons, differences
from trtbench.analysis.other_definitions import COMPARED_STATISTICS, torch_benchmark_metrics
from trtbench.analysis.reported import reported_statistics
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Run, precision_of
from trtbench.domain.samples import Column
from trtbench.domain.spec import Value

COMPARISON_COLUMNS = ("host", "h2d", "gpu", "d2h")
COMPARISON_HEADER = ("metric", "pt", "engine", "engine_minus_pt", "engine_over_pt_ratio", "note")
NEARLY_ZERO = 1e-12
"""A denominator below this gives no ratio."""


class CompareRow(Value, frozen=True, kw_only=True):
    """One row of the trtexec evaluation toolkit's comparison; times in milliseconds."""

    metric: str
    pt: float | str | None
    engine: float | str | None
    engine_minus_pt: float | None = None
    engine_over_pt_ratio: float | None = None
    note: str = ""
    """Why the ratio is no evidence: not the same measurement on both sides, or too few samples."""

    def cells(self) -> tuple[str, ...]:
        """Write the row as its CSV does: six decimals, unknown is empty."""
        values = (self.pt, self.engine, self.engine_minus_pt, self.engine_over_pt_ratio)
        return (self.metric, *(_cell(value) for value in values), self.note)


def difference_and_ratio(
    baseline: float | None, candidate: float | None
) -> tuple[float | None, float | None]:
    """Compute candidate - baseline and candidate / baseline."""
    if baseline is None or candidate is None:
        return None, None
    if math.isnan(baseline) or math.isnan(candidate):
        return None, None
    ratio = candidate / baseline if abs(baseline) > NEARLY_ZERO else None
    return candidate - baseline, ratio


def comparison_rows(pt: Run, engine: Run) -> tuple[CompareRow, ...]:
    """Make the rows of the trtexec evaluation toolkit's comparison, in its order.

    A ratio of what was measured under other conditions is marked.
    """
    found = differences(pt.record, engine.record)
    rate, host = blocking_reasons(found, metric="throughput"), _host_note(pt, engine, found)
    rows = [
        CompareRow(metric="dtype", pt=_dtype(pt), engine=_dtype(engine)),
        CompareRow(metric="tf32", pt=_tf32(pt), engine=_tf32(engine)),
        _row("throughput_qps", _rate(pt), _rate(engine), note=rate),
        _row("total_host_walltime_s", _walltime(pt), _walltime(engine), note=host),
    ]
    notes = {name: blocking_reasons(found, metric=name) for name in COMPARISON_COLUMNS}
    return (*rows, *_time_rows(pt, engine, {**notes, "host": host}))


def _host_note(pt: Run, engine: Run, found: Collection[Difference]) -> str | None:
    """Say why times that callers see do not compare: another protocol, or not a caller's time."""
    sides = ("latency" if run.times.host is None else "host time" for run in (pt, engine))
    first, second = sides
    other = f"{first} against {second}" if first != second else None
    return "; ".join(filter(None, (blocking_reasons(found, metric="host"), other))) or None


def _time_rows(pt: Run, engine: Run, notes: Mapping[str, str | None]) -> Iterator[CompareRow]:
    for column in COMPARISON_COLUMNS:
        before, after = _metrics(pt, column), _metrics(engine, column)
        lacking = {**_lacking(pt, column), **_lacking(engine, column)}
        for statistic in COMPARED_STATISTICS:
            values = before.get(statistic), after.get(statistic)
            note = "; ".join(filter(None, (notes[column], lacking.get(statistic))))
            yield _row(f"{column}_{statistic}", *values, note=note)


def _lacking(run: Run, column: str) -> dict[str, str]:
    """Name the percentiles that a run has too few samples for."""
    name = _column(run, column)
    launches = run.times.by_launch(name) if getattr(run.times, name) is not None else []
    known = quantiles_of(launches, [q for q in QUANTILES if q > 0.5]) if launches else ()
    return {q.name: f"{q.name} needs n={q.needed}" for q in known if q.value is None}


def _row(
    metric: str, pt: float | None, engine: float | None, *, note: str | None = None
) -> CompareRow:
    difference, ratio = difference_and_ratio(pt, engine)
    return CompareRow(
        metric=metric,
        pt=pt,
        engine=engine,
        engine_minus_pt=difference,
        engine_over_pt_ratio=ratio,
        note=note or "" if ratio is not None else "",
    )


def _column(run: Run, column: str) -> str:
    """Name the column of a row: trtexec has no host time, and the toolkit shows its latency."""
    return "latency" if column == "host" and run.times.host is None else column


def _metrics(run: Run, column: str) -> dict[str, float]:
    values: Column | None = getattr(run.times, _column(run, column))
    if values is not None and len(values):
        return torch_benchmark_metrics(values)
    printed = reported_statistics(run.record, column)
    if not printed and column == "host":
        printed = reported_statistics(run.record, "latency")
    return {name: value * 1e3 for name, value in printed.items()}


def _rate(run: Run) -> float | None:
    printed = run.record.reported.get("throughput_qps")
    if isinstance(printed, (int, float)):
        return float(printed)
    return summary_from_run(run).queries_per_s


def _walltime(run: Run) -> float | None:
    printed = run.record.reported.get("total_host_walltime_s")
    if isinstance(printed, (int, float)):
        return float(printed)
    return None if run.times.host is None else float(np.sum(run.times.host))


def _dtype(run: Run) -> str | None:
    return precision_of(run.record) or next((each.dtype for each in run.record.inputs), None)


def _tf32(run: Run) -> str:
    fact = run.record.conditions.get("tf32")
    if fact is None or fact.source == "unknown" or fact.value is None:
        return "Unknown"
    return "On" if fact.value is True or str(fact.value).lower() in ("on", "true", "1") else "Off"


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.6f}"
