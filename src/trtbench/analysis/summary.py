"""Statistics of one run: effective samples, percentiles with intervals, modes, throughput.

Consecutive samples of one process are correlated: one disturbance affects many. Intervals that
treat them as independent are too narrow (measured: 0 to 13 % coverage instead of 95 %), so
effective samples are counted. For runs without samples, printed statistics are used.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import interval_ranks, lower_rank, samples_needed, t_quantile
from trtbench.core.properties import gap_of, protocol_of, streams_of
from trtbench.core.results import ShortView
from trtbench.core.run import Interval, Run, RunRecord
from trtbench.core.samples import DURATIONS, AnyArray, Column, IterationTimes
from trtbench.core.spec import Value

QUANTILES = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999)
SAMPLE_LEVEL = 0.95
MIN_EFFECTIVE = 30  # effective samples needed for an interval within a launch
WITHIN_LAUNCH = "95 % for this launch only, effective samples counted; another launch may differ"
OVER_LAUNCHES = "95 % for launches like these, on this machine in this period"
OVER_EXAMPLES = "95 % for other examples of the same kind (bootstrap over examples)"
ONE_LAUNCH = "unknown (1 launch; use --launches 5)"

RESAMPLES = 2000  # for the interval of a mean over examples
BLOCK = 1 << 16  # autocorrelation of longer series is computed block by block
FIRST_LAGS = 16
BATCHES = (20, 8)  # numbers of batches; their means show slow changes
MIN_BATCH_SIZE = 20
TAU_SPREAD = 12.0  # relative variance of a correlation time, times effective samples
BINS = 1 << 15  # longer series are summed into this many bins
RESOLUTION_S = 1e-10  # smaller differences are floating-point noise
COARSE = 0.05  # enqueue times in steps above this share of their median are too coarse


def effective_samples(column: Column, *, order: NDArray[np.integer] | None = None) -> float:
    """Count effective samples: n / tau, by Geyer's initial positive sequence on ranks."""
    n = len(column)
    order = np.argsort(column) if order is None else order
    ordered = column[order]
    if n < 4 or ordered[0] == ordered[-1]:
        return float(n)
    # Equal values get the mean of their ranks: clocks produce many, and ranked in order of time
    # they would look like a trend.
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sizes = np.diff(np.append(starts, n))
    ranks = np.empty(n)
    ranks[order] = np.repeat(starts + (sizes - 1) / 2.0, sizes)
    return n / max(1.0, _geyer_tau(ranks))


def effective_samples_at(column: Column, threshold: float) -> float:
    """Count effective samples for the share of samples below a threshold.

    A percentile is reliable if the samples above it do not come in clusters. A slow drift of the
    level does not affect rare, scattered outliers, so each percentile has its own count. Sums
    over bins keep it fast: the variance of a sum follows from that of its bins.
    """
    n = len(column)
    below = column <= threshold
    share = float(below.mean())
    if n < 4 or not 0 < share < 1:
        return float(n)
    width = max(1, n // BINS)
    bins = n // width
    sums = below[: bins * width].reshape(bins, width).sum(axis=1, dtype=np.float64)
    spread = float(sums.var())
    if spread == 0:
        return float(n)
    variance = share * (1 - share)
    tau = max(1.0, _geyer_tau(sums) * spread / (width * variance))
    for batches in BATCHES:  # the variance between long batches
        size = n // batches
        if size >= MIN_BATCH_SIZE:
            means = below[: batches * size].reshape(batches, size).mean(axis=1)
            tau = max(tau, size * float(means.var(ddof=1)) / variance)
    # With few effective samples the correlation time is uncertain: count fewer.
    return n / (tau * (1 + (1 - 1 / tau) * math.sqrt(TAU_SPREAD * tau / n)))


def _geyer_tau(series: Column) -> float:
    """Sum the autocorrelation up to the first pair of lags that is not positive."""
    for sums in _autocovariances(series - series.mean()):
        if sums[0] <= 0:
            return 0.0
        paired = (sums / sums[0])[: len(sums) // 2 * 2].reshape(-1, 2).sum(axis=1)
        ends = np.flatnonzero(paired <= 0)
        if len(ends):
            break
    return float(2.0 * paired[: int(ends[0]) if len(ends) else len(paired)].sum() - 1.0)


def _autocovariances(centred: Column) -> Iterator[Column]:
    """Yield sums of products by lag: the first few lags, then a block of them, then all."""
    n = len(centred)
    few = min(FIRST_LAGS, n)  # enough for most series, in a tenth of the time of an FFT
    # Not `@`, whose threads wait for one another longer than this takes.
    yield np.array([np.einsum("i,i", centred[: n - lag], centred[lag:]) for lag in range(few)])
    for block in sorted({min(BLOCK, n), n}):
        # An efficient length for the FFT: the smallest power of two times 1, 3 or 5.
        size = min(factor << (-(-2 * block // factor) - 1).bit_length() for factor in (1, 3, 5))
        power, pairs = np.zeros(size // 2 + 1), np.zeros(block)
        for begin in range(0, n, block):
            part = centred[begin : begin + block]
            power += np.square(np.abs(np.fft.rfft(part, size)))
            pairs[: len(part)] += np.arange(len(part), 0, -1)
        sums = np.fft.irfft(power, size)[:block]
        # Each lag has fewer pairs than n - lag, because pairs across blocks are left out.
        yield sums if block == n else sums / pairs * (n - np.arange(block))


def mean_interval(values: AnyArray) -> Interval | None:
    """Return the bootstrap interval of a mean; ``None`` with fewer than two examples."""
    numbers = np.asarray(values, np.float64)
    count = len(numbers)
    if count < 2:
        return None
    rng = np.random.default_rng(0)
    at_once = max(1, 2**22 // count)  # four million indices at a time
    sizes = (min(at_once, RESAMPLES - done) for done in range(0, RESAMPLES, at_once))
    means = [numbers[rng.integers(0, count, (size, count))].mean(axis=1) for size in sizes]
    return interval_from_draws(np.concatenate(means))


def statistic_intervals(
    statistics: Callable[[NDArray[np.int64]], Mapping[str, float]], *, examples: int, resamples: int
) -> dict[str, Interval]:
    """Return bootstrap intervals of several statistics of the same draws, if finite."""
    rng = np.random.default_rng(0)
    draws: dict[str, list[float]] = {}
    for _ in range(resamples if examples > 1 else 0):
        chosen = rng.integers(0, examples, examples)
        for name, value in statistics(np.bincount(chosen, minlength=examples)).items():
            if np.isfinite(value):
                draws.setdefault(name, []).append(value)
    return {n: interval_from_draws(np.array(own)) for n, own in draws.items() if len(own) > 1}


def interval_from_draws(draws: AnyArray) -> Interval:
    """Return the interval of the middle 95 % of the draws."""
    low, high = np.quantile(draws, ((1 - SAMPLE_LEVEL) / 2, (1 + SAMPLE_LEVEL) / 2))
    return _interval(float(low), float(high), OVER_EXAMPLES)


def _interval(low: float, high: float, meaning: str) -> Interval:
    return Interval(low=low, high=high, level=SAMPLE_LEVEL, meaning=meaning)


@dataclass(frozen=True)
class Modes:
    """A split of samples into two groups, and how far apart they are."""

    low: float
    high: float
    minor_share: float
    separation: float  # Ashman's D: above 2 the modes are distinct, above 4 clearly so
    gap: float  # from p90 of the lower to p10 of the upper group, relative to the median


def modes(column: Column) -> Modes | None:
    """Split samples into two groups by Otsu's method, without the extreme percentiles."""
    ordered = np.sort(np.asarray(column, dtype=np.float64))
    n = len(ordered)
    ordered = ordered[math.floor(0.005 * n) : math.ceil(0.98 * n)]
    n = len(ordered)
    if n < 20 or ordered[0] == ordered[-1]:
        return None
    sums = np.cumsum(ordered - ordered.mean())[:-1]
    sizes = np.arange(1, n)
    cut = int(np.argmax(sums**2 / (sizes * (n - sizes)))) + 1
    low, high = ordered[:cut], ordered[cut:]
    spread = math.hypot(float(low.std()), float(high.std()))
    distance = float(high.mean() - low.mean())
    return Modes(
        low=float(low.mean()),
        high=float(high.mean()),
        minor_share=min(cut, n - cut) / n,
        separation=math.sqrt(2) * distance / spread if spread > 0 else math.inf,
        gap=float(np.quantile(high, 0.1) - np.quantile(low, 0.9)) / float(np.median(ordered)),
    )


def value_step(column: Column) -> tuple[float | None, float]:
    """Return the smallest step between values, and the share of the most frequent value."""
    if len(column) < 20:
        return None, 0.0
    values, counts = np.unique(np.round(column / RESOLUTION_S), return_counts=True)
    equal = float(counts.max()) / len(column)
    if len(values) < 2 or len(values) > len(column) / 2:
        return None, equal
    return float(np.diff(values).min()) * RESOLUTION_S, equal


class Quantile(Value, frozen=True, kw_only=True):
    """One percentile, interpolated between samples, or the number of samples it needs."""

    q: float
    value: float | None = None  # ``None`` if there are too few effective samples
    interval: Interval | None = None
    needed: int | None = None  # samples needed, at this correlation, if there are too few
    effective: float | None = None  # number of effective samples

    @property
    def name(self) -> str:
        """``p99`` or ``p99.9``."""
        return f"p{100 * self.q:g}"


class ColumnSummary(Value, frozen=True, kw_only=True):
    """The statistics of one column; durations in seconds."""

    column: str
    count: int
    effective: float = 0.0
    min: float
    max: float
    median: float
    mean: float
    std: float  # of the population (n), as numpy.std; not a number for a single sample
    mad: float = math.nan  # median absolute deviation, not scaled
    cov: float
    quantiles: tuple[Quantile, ...]
    median_interval: Interval | None  # over launches if there are several, else within the launch
    reported: bool = False  # printed by another tool, without samples; unknown values are NaN

    @property
    def typical(self) -> float:
        """The median, or the mean if no median was printed."""
        return self.mean if math.isnan(self.median) else self.median

    @property
    def typical_of(self) -> str:
        """The name of the statistic in :attr:`typical`."""
        return "mean" if math.isnan(self.median) else "median"

    @property
    def supported(self) -> tuple[float, float]:
        """The lowest and highest percentile with enough effective samples; 1 and 0 if none has."""
        known = [each.q for each in self.quantiles if each.value is not None]
        return min(known, default=1.0), max(known, default=0.0)

    def statistic(self, name: str) -> float | None:
        """Return a statistic by name (``median``, ``mean``, ``p99``); ``None`` if unknown."""
        value: float | None
        if name.startswith("p") and name[1:].replace(".", "", 1).isdecimal():
            value = next((each.value for each in self.quantiles if each.name == name), None)
        else:
            value = getattr(self, name)
        return None if value is None or math.isnan(value) else value

    def quantile(self, q: float) -> Quantile:
        """Return a percentile; raises ``KeyError`` if it was not computed."""
        return {round(each.q, 9): each for each in self.quantiles}[round(q, 9)]


class _Launch:
    """The samples of one launch, in order of time and sorted."""

    def __init__(self, column: Column) -> None:
        self.column = column[np.isfinite(column)]
        order = np.argsort(self.column)
        self.ordered: Column = self.column[order]
        self.effective = effective_samples(self.column, order=order)

    def at(self, q: float) -> float:
        return _interpolated(self.ordered, q)


def summarize_column(name: str, launches: Sequence[Column]) -> ColumnSummary:
    """Return the statistics of one column; ``launches`` are its samples by launch."""
    parts = [_Launch(column) for column in launches]
    ordered = _pooled(parts)
    count, some = len(ordered), len(ordered) > 0
    mean, median = (float(ordered.mean()), _interpolated(ordered)) if some else (math.nan, math.nan)
    std = float(ordered.std()) if count > 1 else math.nan
    return ColumnSummary(
        column=name,
        count=count,
        effective=sum((part.effective for part in parts), 0.0),
        min=float(ordered[0]) if some else math.nan,
        max=float(ordered[-1]) if some else math.nan,
        median=median,
        mean=mean,
        std=std,
        mad=_interpolated(np.sort(np.abs(ordered - median))) if some else math.nan,
        cov=std / mean if mean else math.nan,
        quantiles=_quantiles(QUANTILES, ordered, parts),
        median_interval=_quantile_interval(0.5, parts, _effective_at(0.5, parts)) if some else None,
    )


def quantiles_of(launches: Sequence[Column], wanted: Sequence[float]) -> tuple[Quantile, ...]:
    """Return the requested percentiles, with the same rules as in the table of a run."""
    parts = [_Launch(column) for column in launches]
    found = {x.q: x for x in _quantiles(sorted({*QUANTILES, *wanted}), _pooled(parts), parts)}
    return tuple(found[q] for q in wanted)


def doubtful_quantile(launches: Sequence[Column], q: float) -> tuple[float, float | None]:
    """Return a percentile of too few samples as it is in them, and what it is at least (95 %)."""
    parts = [part for part in map(_Launch, launches) if len(part.column)]
    ordered = _pooled(parts)
    worth = math.floor(sum(effective_samples_at(part.column, part.at(q)) for part in parts))
    low = lower_rank(worth, q) if worth else 0
    least = float(ordered[math.floor((low - 1) * len(ordered) / worth)]) if low else None
    return _interpolated(ordered, q), least


def _pooled(parts: Sequence[_Launch]) -> Column:
    if len(parts) == 1:
        return parts[0].ordered
    return np.sort(np.concatenate([part.ordered for part in parts]))


def _quantiles(
    wanted: Iterable[float], ordered: Column, parts: Sequence[_Launch]
) -> tuple[Quantile, ...]:
    """Return percentiles; if one needs more samples, those farther out are not shown either.

    Samples beyond a far percentile may only look independent because they are so few.
    """
    found: dict[float, Quantile] = {}
    for q in wanted:
        needed, effective = samples_needed(q), _effective_at(q, parts)
        total = sum(effective)
        if not len(ordered):
            found[q] = Quantile(q=q, needed=needed)
        elif total < needed:
            lacking = math.ceil(needed * len(ordered) / total)
            found[q] = Quantile(q=q, needed=lacking, effective=total)
        else:
            value = _interpolated(ordered, q)
            interval = _quantile_interval(q, parts, effective)
            found[q] = Quantile(q=q, value=value, interval=interval, effective=total)
    above = sorted(q for q in found if q >= 0.5)
    below = sorted((q for q in found if q <= 0.5), reverse=True)
    for inner, outer in (*pairwise(above), *pairwise(below)):
        near, far = found[inner], found[outer]
        if near.needed is not None and len(ordered):
            needed = max(near.needed, far.needed or 0)
            found[outer] = far.having(value=None, interval=None, needed=needed)
    return tuple(found.values())


def _effective_at(q: float, parts: Sequence[_Launch]) -> list[float]:
    # With too few samples even if independent, their correlation does not matter.
    if sum(len(part.column) for part in parts) < samples_needed(q):
        return [float(len(part.column)) for part in parts]
    return [effective_samples_at(x.column, x.at(q)) if len(x.column) else 0.0 for x in parts]


def _quantile_interval(
    q: float, parts: Sequence[_Launch], effective: Sequence[float]
) -> Interval | None:
    if len(parts) == 1:
        enough = effective[0] >= MIN_EFFECTIVE
        return order_interval(parts[0].ordered, q, effective=effective[0]) if enough else None
    values = [part.at(q) for part in parts if len(part.column)]
    lacking = q != 0.5 and min(effective) < samples_needed(q)
    if len(values) < len(parts) or lacking or min(values) <= 0:
        return None
    # Student's t on the logarithms of one value per launch.
    logs, k = np.log(np.asarray(values)), len(values)
    half = t_quantile((1 + SAMPLE_LEVEL) / 2, df=k - 1) * float(logs.std(ddof=1)) / math.sqrt(k)
    middle = float(logs.mean())
    # Limited to e^690, because JSON cannot hold infinity.
    low, high = (math.exp(min(end, 690.0)) for end in (middle - half, middle + half))
    return _interval(low, high, OVER_LAUNCHES)


def order_interval(
    ordered: Column, q: float, *, effective: float, meaning: str = WITHIN_LAUNCH
) -> Interval | None:
    """Return the interval of a quantile between two order statistics, by effective samples."""
    worth = math.floor(effective)
    ranks = interval_ranks(worth, q) if worth else None
    if ranks is None:
        return None
    n = len(ordered)
    low = math.floor((ranks[0] - 1) * n / worth)
    high = min(n, math.ceil(ranks[1] * n / worth)) - 1
    return _interval(float(ordered[low]), float(ordered[high]), meaning)


def _interpolated(ordered: Column, q: float = 0.5) -> float:
    """Return a quantile of sorted samples, as ``numpy.quantile`` does."""
    part, low = math.modf(q * (len(ordered) - 1))
    below, above = (float(each) for each in ordered[int(low) :][:2][[0, -1]])
    if part < 0.5:
        return below + (above - below) * part
    return above - (above - below) * (1 - part)


SUMMARY_PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 97, 99, 99.5, 99.9, 100)
"""Percentiles in the trtexec evaluation toolkit's summary.json."""
COMPARED_STATISTICS = ("min", "max", "mean", "median", "p90", "p95", "p99")
"""Statistics in the toolkit's PyTorch benchmark and comparison."""


def summary_block(found: ColumnSummary, column_s: Column) -> dict[str, Any]:
    """Return one block of the trtexec evaluation toolkit's summary.json, in milliseconds."""
    names = {f"p{percent:g}".replace(".", "_"): percent for percent in SUMMARY_PERCENTILES}
    percentiles = np.percentile(column_s * 1e3, SUMMARY_PERCENTILES).tolist()
    known = {name: found.statistic(name) for name in ("min", "max", "mean", "std", "median")}
    low, high = found.supported
    beyond = (n for n, p in names.items() if 0 < p < 100 and not low <= round(p / 100, 4) <= high)
    return {
        "count": found.count,
        **{f"{name}_ms": None if each is None else each * 1e3 for name, each in known.items()},
        "percentiles_ms": dict(zip(names, percentiles, strict=True)),
        "too_few_samples": tuple(beyond),
    }


def torch_benchmark_metrics(column_s: Column) -> dict[str, float]:
    """Return one row of the toolkit's PyTorch benchmark in milliseconds."""
    ms = np.asarray(column_s, dtype=np.float64) * 1e3
    values = (ms.min(), ms.max(), ms.mean(), np.median(ms), *np.percentile(ms, (90, 95, 99)))
    return dict(zip(COMPARED_STATISTICS, map(float, values), strict=True))


class Reported(NamedTuple):
    """One printed statistic of one column."""

    column: str
    statistic: str
    seconds: float


PRINTED = {
    "enqueue": "enqueue_time",
    "h2d": "h2d_latency",
    "gpu": "gpu_compute_time",
    "d2h": "d2h_latency",
    "end_to_end": "end_to_end_host_latency",
}
"""What trtexec calls a column, where it has another name."""
_COLUMNS = {printed: column for column, printed in PRINTED.items()}
_WHOLE = tuple(column for column in DURATIONS if column not in ("enqueue", "h2d", "d2h"))
"""Columns that time a whole query, or all of its computing: a part of it is no headline."""


def _reported_columns(record: RunRecord) -> dict[str, dict[str, float]]:
    """Return the printed statistics of all columns in seconds, by column and name."""
    found: dict[str, dict[str, float]] = {}
    for key, value in record.reported.items():
        if key.endswith("_ms") and isinstance(value, (int, float)):
            printed, _, name = key[: -len("_ms")].rpartition("_")
            found.setdefault(_COLUMNS.get(printed, printed), {})[name] = value / 1e3
    return found


def reported_statistics(record: RunRecord, column: str) -> dict[str, float]:
    """Return the printed statistics of a column in seconds, by name."""
    return _reported_columns(record).get(column, {})


def reported_headline(record: RunRecord) -> Reported | None:
    """Return the printed headline statistic of a run; TensorRT 5 and 6 only print means."""
    every = _reported_columns(record)
    printed = {column: every.get(column, {}) for column in _WHOLE}
    # Without medians, the column with the most statistics is the headline.
    by_size = sorted(_WHOLE, key=lambda column: -len(printed[column]))
    ways = [*(("median", column) for column in _WHOLE), *(("mean", each) for each in by_size)]
    return next((Reported(c, s, printed[c][s]) for s, c in ways if s in printed[c]), None)


def reported_rate(record: RunRecord) -> float | None:
    """Return the printed throughput in queries per second."""
    items = record.facts.get("items_per_s")
    if isinstance(items, (int, float)):
        return float(items) / record.items_per_query
    value = record.reported.get("throughput_qps")
    return float(value) if isinstance(value, (int, float)) else None


class Summary(ShortView, Value, frozen=True, kw_only=True):
    """The statistics of a run."""

    columns: tuple[ColumnSummary, ...]
    headline: str
    launches: int
    items_per_query: int | None
    queries_per_s: float | None
    items_per_s: float | None
    interval: Interval | None = None
    """Interval of the headline's median over launches; ``None`` with one launch."""
    throughput_from: str | None = None
    """Source of the throughput: wall time, host times or device time stamps."""
    reported: bool = False

    @property
    def head(self) -> ColumnSummary | None:
        """The headline column of the run; ``None`` if nothing is known."""
        found = (each for each in self.columns if each.column == self.headline)
        return next((each for each in found if each.count or each.reported), None)

    def column(self, name: str) -> ColumnSummary:
        """Return one column; raises ``KeyError`` if it was not measured."""
        return {each.column: each for each in self.columns}[name]

    @property
    def repeatability(self) -> str:
        """The meaning of the interval, or that it is unknown."""
        return self.interval.meaning if self.interval else ONE_LAUNCH


def summarize(
    times: IterationTimes,
    *,
    items_per_query: int | None = 1,
    wall_s: float | None = None,
    closed_loop: bool = True,
) -> Summary:
    """Compute all statistics of a run.

    ``wall_s`` is the wall time of all measured queries; without it, the throughput of a closed
    loop with one stream is computed from the host times.
    """
    names = times.durations() if len(times) else ()
    columns = tuple(summarize_column(name, times.by_launch(name)) for name in names)
    launches = 1 if times.launch is None else max(1, len(np.unique(times.launch)))
    rate, source = throughput(times, wall_s=wall_s, closed_loop=closed_loop)
    return Summary(
        columns=columns,
        headline=times.headline,
        launches=launches,
        items_per_query=items_per_query,
        queries_per_s=rate,
        items_per_s=_times_items(rate, items_per_query),
        interval=columns[0].median_interval if columns and launches > 1 else None,
        throughput_from=source,
    )


def summary_from_run(run: Run) -> Summary:
    """Return all statistics of a run: from its samples, else as printed."""
    record, head = run.record, None if len(run.times) else reported_headline(run.record)
    rate = reported_rate(record)
    if not len(run.times) and (head is not None or rate is not None):
        found = _reported_columns(record)
        return Summary(
            columns=tuple(_reported_column(n, found[n], record) for n in DURATIONS if n in found),
            headline=head.column if head else "latency",
            launches=1,
            items_per_query=record.known_items,
            queries_per_s=rate,
            items_per_s=_times_items(rate, record.known_items),
            throughput_from=None if rate is None else "as printed",
            reported=True,
        )
    summary, finer = summary_from_samples(run), reported_statistics(record, "enqueue")
    if "median" not in finer:
        return summary
    columns = list(summary.columns)
    for place, each in enumerate(columns):
        if each.column == "enqueue" and coarse_step_s(record, each.median) is not None:
            columns[place] = _reported_column("enqueue", finer, record)
    return summary.having(columns=tuple(columns))


def coarse_step_s(record: RunRecord, median_s: float) -> float | None:
    """Return the step of enqueue times if it is too coarse for their median, else ``None``."""
    step = record.facts.get("enqueue_resolution_s")
    coarse = isinstance(step, (int, float)) and step > COARSE * median_s
    return float(step or 0.0) if coarse else None


def summary_from_samples(run: Run) -> Summary:
    """Compute all statistics of a run's samples, with the wall time and batch of its record."""
    wall_s, closed = _span(run)
    items = run.record.known_items
    return summarize(run.times, items_per_query=items, wall_s=wall_s, closed_loop=closed)


def _reported_column(name: str, values: dict[str, float], record: RunRecord) -> ColumnSummary:
    printed = {**values, "p50": values.get("p50", values.get("median", math.nan))}
    printed = {key: value for key, value in printed.items() if not math.isnan(value)}
    count = record.reported.get("queries")
    named = {key: values.get(key, math.nan) for key in ("min", "max", "median", "mean", "std")}
    return ColumnSummary(
        column=name,
        count=int(count) if isinstance(count, (int, float)) else 0,
        **named,
        cov=named["std"] / named["mean"] if named["mean"] else math.nan,
        quantiles=tuple(Quantile(q=q, value=printed.get(f"p{100 * q:g}")) for q in QUANTILES),
        median_interval=None,
        reported=True,
    )


def headline_from_run(run: Run) -> tuple[int, float, float | None]:
    """Return what lists show of a run: samples, median, and items per second."""
    column: Column = getattr(run.times, run.times.headline)
    finite = column[np.isfinite(column)]
    median = float(np.median(finite)) if len(finite) else math.nan
    wall_s, closed = _span(run)
    rate, _ = throughput(run.times, wall_s=wall_s, closed_loop=closed)
    return len(finite), median, _times_items(rate, run.record.known_items)


def _times_items(rate: float | None, items: int | None) -> float | None:
    return None if rate is None or items is None else rate * items


def _span(run: Run) -> tuple[float | None, bool]:
    """Return the wall time of all queries, and whether they ran one after the other."""
    protocol, walls = protocol_of(run.record), [each.wall_s for each in run.record.launches]
    # With a cold cache, the wall time includes clearing it.
    known = walls and None not in walls and protocol != "coldl2"
    alone = streams_of(run.record) == 1 and gap_of(run.record) == 0
    return sum(w or 0.0 for w in walls) if known else None, alone and protocol in ("serve", "gpu")


def throughput(
    times: IterationTimes, *, wall_s: float | None, closed_loop: bool
) -> tuple[float | None, str | None]:
    """Return queries per second and the source of the time; ``None`` if it is unknown."""
    begin, end = times.stamps.get("start_h2d"), times.stamps.get("end_d2h")
    span, source = 0.0, "device stamps"
    if wall_s:
        span, source = wall_s, "wall time"
    elif times.host is not None and closed_loop:
        span, source = float(times.host.sum()), "sum of host times"
    elif begin is not None and end is not None:
        launch = np.zeros(len(times), int) if times.launch is None else times.launch
        here = (launch == k for k in np.unique(launch))
        span = float(sum(end[rows].max() - begin[rows].min() for rows in here))
    return (len(times) / span, source) if len(times) and span > 0 else (None, None)
