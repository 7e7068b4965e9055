"""Scores and checks as runs carry them, whoever took them.

``run.extra["scores"]`` maps a metric to a number, or to a mapping (or value) with ``value`` and
optionally ``low``, ``high`` (or an ``interval`` with both) and ``count``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trtbench.analysis.scores import is_share
from trtbench.domain.result import Run
from trtbench.report.numbers import Ends, text_from_number


@dataclass(frozen=True)
class Reading:
    """One score as it was handed over."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None

    @property
    def bounds(self) -> Ends | None:
        if self.low is None or self.high is None:
            return None
        return Ends(self.low, self.high)

    @property
    def text(self) -> str:
        return self.text_of(self.value)

    def text_of(self, value: float) -> str:
        """Write the score or an end of its interval; parts of a whole are read in per cent."""
        if not is_share(self.metric):
            return text_from_number(value, bounds=self.bounds)
        return f"{value if abs(self.value) > 1 else 100 * value:.2f} %"


def readings_from_run(run: Run) -> dict[str, Reading]:
    """Read a run's scores; what is not a number is passed over."""
    scores = run.extra.get("scores")
    if not isinstance(scores, Mapping):
        return {}
    found = {str(metric): _reading(str(metric), score) for metric, score in scores.items()}
    return {metric: reading for metric, reading in found.items() if reading}


def _reading(metric: str, score: object) -> Reading | None:
    if isinstance(score, (int, float)):
        return Reading(metric, float(score)) if math.isfinite(score) else None
    parts = {name: _number(_get(score, name)) for name in ("value", "low", "high", "count")}
    interval = _get(score, "interval")
    for name in ("low", "high"):
        if parts[name] is None and interval is not None:
            parts[name] = _number(_get(interval, name))
    if parts["value"] is None:
        return None
    count = None if parts["count"] is None else int(parts["count"])
    return Reading(metric, parts["value"], parts["low"], parts["high"], count)


def _get(source: object, name: str) -> object:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
