"""The statistics of one column: percentiles by rank, shown where enough independent samples are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trtbench.analysis.distributions import interval_ranks, samples_needed, t_quantile
from trtbench.analysis.effective import effective_samples, effective_samples_at
from trtbench.domain.result import Interval
from trtbench.domain.samples import Column
from trtbench.domain.spec import Value

QUANTILES = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999)


LEVEL = 0.95


LEAST_EFFECTIVE = 30
"""With fewer effective samples no interval within a launch is given at all."""


WITHIN_LAUNCH = "95 % for this launch only, effective samples counted; another launch may differ"


OVER_LAUNCHES = "95 % for launches like these, on this machine in this period"


class Quantile(Value, frozen=True, kw_only=True):
    """One percentile by nearest rank, or how many samples it would take to know it."""

    q: float
    value: float | None
    """``None`` when the effective samples do not suffice for an interval."""
    interval: Interval | None
    needed: int | None
    """Samples needed, at this correlation, before the percentile is shown."""
    effective: float | None = None
    """Independent samples for this percentile: exceedances in clusters count less."""

    @property
    def name(self) -> str:
        """Write ``p99`` or ``p99.9``."""
        return f"p{100 * self.q:g}"


class ColumnSummary(Value, frozen=True, kw_only=True):
    """The statistics of one column; durations in seconds."""

    column: str
    count: int
    effective: float
    """Independent samples the column is worth."""
    min: float
    max: float
    median: float
    mean: float
    std: float
    """Of the sample (n - 1); not a number for a single sample."""
    mad: float
    """Median distance from the median, not scaled."""
    cov: float
    """std / mean."""
    quantiles: tuple[Quantile, ...]
    median_interval: Interval | None
    """Over launches when there are several, else within the launch."""
    reported: bool = False
    """Another tool printed these numbers and no samples are at hand; what it left out is nan."""

    @property
    def typical(self) -> float:
        """The median or, where another tool printed no more than that, the mean."""
        return self.mean if math.isnan(self.median) else self.median

    @property
    def typical_of(self) -> str:
        """Which statistic :attr:`typical` is."""
        return "mean" if math.isnan(self.median) else "median"

    def statistic(self, name: str) -> float | None:
        """Take a statistic by name (``median``, ``mean``, ``p99``), ``None`` when nobody knows."""
        value: float | None
        if name.startswith("p") and name[1:].replace(".", "", 1).isdecimal():
            value = next((each.value for each in self.quantiles if each.name == name), None)
        else:
            value = getattr(self, name)
        return None if value is None or math.isnan(value) else value

    def quantile(self, q: float) -> Quantile:
        """Find the percentile that was asked for; one that was not computed is a ``KeyError``."""
        for each in self.quantiles:
            if math.isclose(each.q, q):
                return each
        raise KeyError(q)


def summarize_column(name: str, launches: Sequence[Column]) -> ColumnSummary:
    """Compute the statistics of one column, given launch by launch."""
    parts, ordered = _parts(launches)
    if not len(ordered):
        return _empty(name)
    mean = float(ordered.mean())
    std = float(ordered.std(ddof=1)) if len(ordered) > 1 else math.nan
    median = _middle(ordered)
    return ColumnSummary(
        column=name,
        count=len(ordered),
        effective=sum(part.effective for part in parts),
        min=float(ordered[0]),
        max=float(ordered[-1]),
        median=median,
        mean=mean,
        std=std,
        mad=_middle(np.sort(np.abs(ordered - median))),
        cov=std / mean if mean else math.nan,
        quantiles=_supported([_quantile(q, ordered, parts) for q in QUANTILES]),
        median_interval=_interval(0.5, parts, effective=_effective_at(0.5, parts)),
    )


def quantiles_of(launches: Sequence[Column], wanted: Sequence[float]) -> tuple[Quantile, ...]:
    """Compute the percentiles asked for; one is known here where a table of the run shows it."""
    parts, ordered = _parts(launches)
    every = sorted({*QUANTILES, *wanted})
    if not len(ordered):
        return _unknown(wanted)
    found = {each.q: each for each in _supported([_quantile(q, ordered, parts) for q in every])}
    return tuple(found[q] for q in wanted)


def _parts(launches: Sequence[Column]) -> tuple[list[_Part], Column]:
    """Sort each launch, and all samples together."""
    parts = [_Part(column[np.isfinite(column)]) for column in launches]
    if len(parts) == 1:
        return parts, parts[0].ordered
    return parts, np.sort(np.concatenate([part.ordered for part in parts]))


class _Part:
    """One launch: its samples in order of time and of size."""

    def __init__(self, column: Column) -> None:
        order = np.argsort(column)
        self.column = column
        self.ordered: Column = column[order]
        self.effective = effective_samples(column, order=order).count

    def at(self, q: float) -> float:
        """Compute the median as usual, and every other quantile by nearest rank."""
        if q == 0.5:
            return _middle(self.ordered)
        return float(self.ordered[rank(len(self.ordered), q) - 1])


def nearest_rank(sorted_or_raw: Column, q: float) -> float:
    """Take the smallest observed value that at least a share ``q`` of the samples do not exceed."""
    column = np.asarray(sorted_or_raw, dtype=np.float64)
    index = rank(len(column), q) - 1
    if np.all(column[1:] >= column[:-1]):
        return float(column[index])
    return float(np.partition(column, index)[index])


def rank(n: int, q: float) -> int:
    """Compute the nearest rank, from 1, of a quantile among n samples."""
    # 0.07 * 100 is 7.000000000000001 in floating point, and the rank is 7.
    return min(n, max(1, math.ceil(round(q * n, 9))))


def launch_interval(values: Sequence[float]) -> Interval | None:
    """Compute the t-interval on the logarithms of one value per launch; ``None`` below two."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(np.asarray(values))
    k = len(logs)
    half = t_quantile((1 + LEVEL) / 2, df=k - 1) * float(logs.std(ddof=1)) / math.sqrt(k)
    middle = float(logs.mean())
    return Interval(
        low=_exp(middle - half), high=_exp(middle + half), level=LEVEL, meaning=OVER_LAUNCHES
    )


def _quantile(q: float, ordered: Column, parts: Sequence[_Part]) -> Quantile:
    needed = samples_needed(q)
    effective = _effective_at(q, parts)
    total = sum(effective)
    if total < needed:
        return Quantile(
            q=q,
            value=None,
            interval=None,
            needed=math.ceil(needed * len(ordered) / total),
            effective=total,
        )
    return Quantile(
        q=q,
        value=float(ordered[rank(len(ordered), q) - 1]),
        interval=_interval(q, parts, effective=effective),
        needed=None,
        effective=total,
    )


def _supported(quantiles: Sequence[Quantile]) -> tuple[Quantile, ...]:
    """Show no percentile beyond one that cannot be shown: a tail needs more samples, not fewer.

    Exceedances of a far percentile may look scattered only because there are so few of them.
    """
    found = {each.q: each for each in quantiles}
    above = sorted(q for q in found if q >= 0.5)
    below = sorted((q for q in found if q <= 0.5), reverse=True)
    for inner, outer in (*pairwise(above), *pairwise(below)):
        near, far = found[inner], found[outer]
        if near.value is None and near.needed is not None:
            needed = max(near.needed, far.needed or 0)
            found[outer] = far.having(value=None, interval=None, needed=needed)
    return tuple(found[each.q] for each in quantiles)


def _effective_at(q: float, parts: Sequence[_Part]) -> list[float]:
    # Without enough samples even if independent, clusters need not be looked for.
    total = sum(len(part.column) for part in parts)
    if total < samples_needed(q):
        return [float(len(part.column)) for part in parts]
    return [
        effective_samples_at(part.column, part.at(q)) if len(part.column) else 0.0 for part in parts
    ]


def _interval(q: float, parts: Sequence[_Part], *, effective: Sequence[float]) -> Interval | None:
    if len(parts) == 1:
        if effective[0] < LEAST_EFFECTIVE:
            return None
        return order_interval(parts[0].ordered, q, effective=effective[0])
    if any(not len(part.column) for part in parts):
        return None
    if q != 0.5 and min(effective) < samples_needed(q):
        return None
    return launch_interval([part.at(q) for part in parts])


def order_interval(
    ordered: Column, q: float, *, effective: float, meaning: str = WITHIN_LAUNCH
) -> Interval | None:
    """Enclose a quantile between two order statistics, counting effective samples."""
    worth = math.floor(effective)
    ranks = interval_ranks(worth, q) if worth else None
    if ranks is None:
        return None
    n = len(ordered)
    low = math.floor((ranks[0] - 1) * n / worth)
    high = min(n, math.ceil(ranks[1] * n / worth)) - 1
    return Interval(
        low=float(ordered[low]), high=float(ordered[high]), level=LEVEL, meaning=meaning
    )


def _middle(ordered: Column) -> float:
    half = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[half])
    return float((ordered[half - 1] + ordered[half]) / 2)


def _exp(value: float) -> float:
    # Beyond this a ratio says only that nothing is known, and infinity has no JSON form.
    return math.exp(min(value, 690.0))


def _unknown(wanted: Sequence[float]) -> tuple[Quantile, ...]:
    return tuple(Quantile(q=q, value=None, interval=None, needed=samples_needed(q)) for q in wanted)


def _empty(name: str) -> ColumnSummary:
    quantiles, none = _unknown(QUANTILES), math.nan
    return ColumnSummary(
        column=name, count=0, effective=0.0, min=none, max=none, median=none, mean=none,
        std=none, mad=none, cov=none, quantiles=quantiles, median_interval=None,
    )  # fmt: skip
