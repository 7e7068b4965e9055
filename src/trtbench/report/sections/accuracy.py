"""Whether the fast answer is still the right one, where runs carry scores.

``run.extra["scores"]`` maps a metric to a number, or to a mapping (or value) with ``value`` and
optionally ``low``, ``high`` and ``count``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtbench.domain.result import Run
from trtbench.report.document import Cell, Heading, Section, table_from_rows
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import MISSING, text_from_count, text_from_number

ORDER = 80

HEADINGS = (
    Heading(key="run", title="Run"),
    Heading(key="metric", title="Metric"),
    Heading(key="value", title="Value", align="right"),
    Heading(key="low", title="Low", align="right"),
    Heading(key="high", title="High", align="right"),
    Heading(key="count", title="Examples", align="right"),
)


@dataclass(frozen=True)
class Reading:
    """One score as it was handed over."""

    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None


@dataclass(frozen=True)
class _Range:
    low: float
    high: float


def make(runs: Sequence[Run]) -> Section | None:
    """List every score of every run with its interval."""
    rows = [
        (label, metric, *_cells(reading))
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        for metric, reading in readings_from_run(run).items()
    ]
    if not rows:
        return None
    caption = "Low and high enclose the score with the confidence the evaluation states."
    table = table_from_rows("accuracy", headings=HEADINGS, rows=rows, caption=caption)
    return Section(id="accuracy", title="Accuracy", blocks=(table,))


def readings_from_run(run: Run) -> dict[str, Reading]:
    """Read a run's scores; what is not a number is passed over."""
    scores = run.extra.get("scores")
    if not isinstance(scores, Mapping):
        return {}
    found = {str(metric): _reading(score) for metric, score in scores.items()}
    return {metric: reading for metric, reading in found.items() if reading}


def _reading(score: object) -> Reading | None:
    if isinstance(score, (int, float)):
        return Reading(float(score)) if math.isfinite(score) else None
    parts = {name: _number(_get(score, name)) for name in ("value", "low", "high", "count")}
    interval = _get(score, "interval")
    for name in ("low", "high"):
        if parts[name] is None and interval is not None:
            parts[name] = _number(_get(interval, name))
    if parts["value"] is None:
        return None
    count = None if parts["count"] is None else int(parts["count"])
    return Reading(parts["value"], parts["low"], parts["high"], count)


def _get(source: object, name: str) -> object:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _cells(reading: Reading) -> tuple[Cell, Cell, Cell, Cell]:
    bounds = None
    if reading.low is not None and reading.high is not None:
        bounds = _Range(reading.low, reading.high)
    ends = [
        Cell(value=end, text=MISSING if end is None else text_from_number(end, bounds=bounds))
        for end in (reading.low, reading.high)
    ]
    return (
        Cell(value=reading.value, text=text_from_number(reading.value, bounds=bounds)),
        ends[0],
        ends[1],
        Cell(value=reading.count, text=text_from_count(reading.count)),
    )
