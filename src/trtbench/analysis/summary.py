"""The statistics of a run: what is shown, how sure it is, and what the interval means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from trtbench.analysis.distributions import interval_ranks, samples_needed, t_quantile
from trtbench.analysis.effective import effective_samples, effective_samples_at
from trtbench.analysis.reported import reported_headline, reported_rate, reported_statistics
from trtbench.domain.result import Interval, Run, RunRecord
from trtbench.domain.samples import DURATIONS, Column, IterationTimes
from trtbench.domain.spec import Value

__all__ = [
    "QUANTILES",
    "ColumnSummary",
    "Interval",
    "Quantile",
    "Summary",
    "launch_interval",
    "nearest_rank",
    "summarize",
    "summary_from_reported",
    "summary_from_run",
    "summary_from_samples",
]

QUANTILES = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999)

LEVEL = 0.95
LEAST_EFFECTIVE = 30
"""With fewer effective samples no interval within a launch is given at all."""

WITHIN_LAUNCH = "95 % for this launch only, effective samples counted; another launch may differ"
OVER_LAUNCHES = "95 % for launches like these, on this machine in this period"
ONE_LAUNCH = "one launch: nothing is known about how well it repeats"


COARSE = 0.05
"""Enqueue times in steps of more than this part of themselves are no better than a guess."""


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
        if name.startswith("p") and name[1:].replace(".", "", 1).isdigit():
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


class Summary(Value, frozen=True, kw_only=True):
    """The statistics of a run."""

    columns: tuple[ColumnSummary, ...]
    headline: str
    launches: int
    items_per_query: int
    queries_per_s: float | None
    items_per_s: float | None
    interval: Interval | None
    """Over launches, of the headline's median; ``None`` with one launch."""
    throughput_from: str | None = None
    """What the throughput was computed from: wall time, host times, device stamps."""
    reported: bool = False
    """Another tool printed all of this; there are no samples."""

    @property
    def head(self) -> ColumnSummary | None:
        """Compute the column that stands for the run; ``None`` when nothing is known."""
        found = (each for each in self.columns if each.column == self.headline)
        return next((each for each in found if each.count or each.reported), None)

    def column(self, name: str) -> ColumnSummary:
        """Give one column; one that was not measured is a ``KeyError``."""
        for each in self.columns:
            if each.column == name:
                return each
        raise KeyError(name)

    @property
    def repeatability(self) -> str:
        """Say in words what is known about repeating the run."""
        return self.interval.meaning if self.interval else ONE_LAUNCH


def summarize(
    times: IterationTimes,
    *,
    items_per_query: int = 1,
    wall_s: float | None = None,
    closed_loop: bool = True,
) -> Summary:
    """Compute every statistic of a run.

    ``wall_s`` is the wall time of all measured queries; without it the throughput of a closed
    loop of one stream follows from the host times. ``closed_loop=False`` forbids that.
    """
    columns = tuple(
        summarize_column(name, times.by_launch(name)) for name in times.durations() if len(times)
    )
    launches = 1 if times.launch is None else max(1, len(np.unique(times.launch)))
    rate, source = throughput(times, wall_s=wall_s, closed_loop=closed_loop)
    head = columns[0] if columns else None
    return Summary(
        columns=columns,
        headline=times.headline,
        launches=launches,
        items_per_query=items_per_query,
        queries_per_s=rate,
        items_per_s=None if rate is None else rate * items_per_query,
        interval=head.median_interval if head and launches > 1 else None,
        throughput_from=source,
    )


def summary_from_run(run: Run) -> Summary:
    """Give every statistic of a run: of its samples or, without any, as they were printed.

    This is the one place that chooses between the two; ``reported`` says which it was.
    """
    if not len(run.times):
        printed = summary_from_reported(run.record)
        if printed is not None:
            return printed
    return _with_finer_enqueue(summary_from_samples(run), run.record)


def _with_finer_enqueue(summary: Summary, record: RunRecord) -> Summary:
    """Take the enqueue times that trtexec printed where its file has them in coarse steps."""
    step = record.facts.get("enqueue_resolution_s")
    column = next((each for each in summary.columns if each.column == "enqueue"), None)
    printed = reported_statistics(record, "enqueue")
    if column is None or not isinstance(step, (int, float)) or "median" not in printed:
        return summary
    if step <= COARSE * column.median:
        return summary
    finer = _reported_column("enqueue", printed, record)
    columns = tuple(finer if each is column else each for each in summary.columns)
    return msgspec.structs.replace(summary, columns=columns)


def summary_from_samples(run: Run) -> Summary:
    """Compute every statistic of a run with the wall time and batch its record tells."""
    return summarize(
        run.times,
        items_per_query=run.record.items_per_query,
        wall_s=_wall_s(run),
        closed_loop=_is_closed(run),
    )


def summary_from_reported(record: RunRecord) -> Summary | None:
    """Make the statistics another tool printed, as they were printed; ``None`` without any."""
    found = {name: reported_statistics(record, name) for name in DURATIONS}
    columns = tuple(
        _reported_column(name, values, record) for name, values in found.items() if values
    )
    rate, head = reported_rate(record), reported_headline(record)
    if head is None and rate is None:
        return None
    return Summary(
        columns=columns,
        headline=head.column if head else "latency",
        launches=1,
        items_per_query=record.items_per_query,
        queries_per_s=rate,
        items_per_s=None if rate is None else rate * record.items_per_query,
        interval=None,
        throughput_from=None if rate is None else "as printed",
        reported=True,
    )


def _reported_column(name: str, values: dict[str, float], record: RunRecord) -> ColumnSummary:
    printed = {**values, "p50": values.get("p50", values.get("median", math.nan))}
    quantiles = (
        Quantile(q=q, value=_known(printed.get(f"p{100 * q:g}")), interval=None, needed=None)
        for q in QUANTILES
    )
    count = record.reported.get("queries")
    named = {key: values.get(key, math.nan) for key in ("min", "max", "median", "mean", "std")}
    return ColumnSummary(
        column=name,
        count=int(count) if isinstance(count, (int, float)) else 0,
        effective=0.0,
        **named,
        mad=math.nan,
        cov=named["std"] / named["mean"] if named["mean"] else math.nan,
        quantiles=tuple(quantiles),
        median_interval=None,
        reported=True,
    )


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def headline_from_run(run: Run) -> tuple[int, float, float | None]:
    """Compute what a list shows of a run: samples, median, and items per second."""
    column: Column = getattr(run.times, run.times.headline)
    finite = column[np.isfinite(column)]
    median = float(np.median(finite)) if len(finite) else math.nan
    rate, _ = throughput(run.times, wall_s=_wall_s(run), closed_loop=_is_closed(run))
    return len(finite), median, None if rate is None else rate * run.record.items_per_query


def _wall_s(run: Run) -> float | None:
    if run.record.spec.protocol == "coldl2":
        return None  # much of that time went into emptying the cache
    walls = [launch.wall_s for launch in run.record.launches]
    return sum(w for w in walls if w is not None) if walls and None not in walls else None


def _is_closed(run: Run) -> bool:
    spec = run.record.spec
    return spec.protocol in ("serve", "gpu") and spec.streams == 1 and spec.gap_s == 0


def summarize_column(name: str, launches: Sequence[Column]) -> ColumnSummary:
    """Compute the statistics of one column, given launch by launch."""
    parts = [_Part(column[np.isfinite(column)]) for column in launches]
    ordered = parts[0].ordered
    if len(parts) > 1:
        ordered = np.sort(np.concatenate([part.ordered for part in parts]))
    if not len(ordered):
        return _empty(name)
    mean = float(ordered.mean())
    std = float(ordered.std(ddof=1)) if len(ordered) > 1 else math.nan
    median = _middle(ordered)
    quantiles = _supported([_quantile(q, ordered, parts) for q in QUANTILES])
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
        quantiles=quantiles,
        median_interval=_interval(0.5, parts, effective=_effective_at(0.5, parts)),
    )


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


def launch_interval(values: Sequence[float], *, level: float = LEVEL) -> Interval | None:
    """Compute the t-interval on the logarithms of one value per launch; ``None`` below two."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(np.asarray(values))
    k = len(logs)
    half = t_quantile((1 + level) / 2, df=k - 1) * float(logs.std(ddof=1)) / math.sqrt(k)
    middle = float(logs.mean())
    return Interval(
        low=_exp(middle - half), high=_exp(middle + half), level=level, meaning=OVER_LAUNCHES
    )


def throughput(
    times: IterationTimes, *, wall_s: float | None, closed_loop: bool
) -> tuple[float | None, str | None]:
    """Give queries per second and what they were computed from; ``None`` when nothing tells."""
    count = len(times)
    if not count:
        return None, None
    if wall_s:
        return count / wall_s, "wall time"
    if times.host is not None and closed_loop:
        busy = float(times.host.sum())
        return (count / busy, "sum of host times") if busy > 0 else (None, None)
    span = _device_span(times)
    return (count / span, "device stamps") if span else (None, None)


def _device_span(times: IterationTimes) -> float | None:
    begin, end = times.stamps.get("start_h2d"), times.stamps.get("end_d2h")
    if begin is None or end is None:
        return None
    launch = np.zeros(len(times), int) if times.launch is None else times.launch
    spans = [end[launch == k].max() - begin[launch == k].min() for k in np.unique(launch)]
    total = float(sum(spans))
    return total if total > 0 else None


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
            found[outer] = msgspec.structs.replace(far, value=None, interval=None, needed=needed)
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


def _empty(name: str) -> ColumnSummary:
    quantiles = tuple(
        Quantile(q=q, value=None, interval=None, needed=samples_needed(q)) for q in QUANTILES
    )
    none = math.nan
    return ColumnSummary(
        column=name, count=0, effective=0.0, min=none, max=none, median=none, mean=none,
        std=none, mad=none, cov=none, quantiles=quantiles, median_interval=None,
    )  # fmt: skip
