"""The statistics of a run: what is shown, how sure it is, and what the interval means."""

from __future__ import annotations

import math

import numpy as np

from trtbench.analysis.column_summary import QUANTILES, ColumnSummary, Quantile, summarize_column
from trtbench.analysis.reported import reported_headline, reported_rate, reported_statistics
from trtbench.domain.ran import gap_of, protocol_of, streams_of
from trtbench.domain.result import Interval, Run, RunRecord
from trtbench.domain.samples import DURATIONS, Column, IterationTimes
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value

ONE_LAUNCH = "one launch: nothing is known about how well it repeats"


COARSE = 0.05
"""Enqueue times in steps of more than this part of themselves are no better than a guess."""


class Summary(ShortView, Value, frozen=True, kw_only=True):
    """The statistics of a run."""

    columns: tuple[ColumnSummary, ...]
    headline: str
    launches: int
    items_per_query: int | None
    """``None`` where its inputs leave that open."""
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
        """Find one column; one that was not measured is a ``KeyError``."""
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
    items_per_query: int | None = 1,
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
        items_per_s=_times_items(rate, items_per_query),
        interval=head.median_interval if head and launches > 1 else None,
        throughput_from=source,
    )


def summary_from_run(run: Run) -> Summary:
    """Collect every statistic of a run: of its samples or, without any, as they were printed.

    This is the one place that chooses between the two; ``reported`` says which it was.
    """
    if not len(run.times):
        printed = summary_from_reported(run.record)
        if printed is not None:
            return printed
    return _with_finer_enqueue(summary_from_samples(run), run.record)


def _with_finer_enqueue(summary: Summary, record: RunRecord) -> Summary:
    """Take the enqueue times that trtexec printed where its file has them in coarse steps."""
    column = next((each for each in summary.columns if each.column == "enqueue"), None)
    printed = reported_statistics(record, "enqueue")
    if column is None or "median" not in printed or coarse_step_s(record, column.median) is None:
        return summary
    finer = _reported_column("enqueue", printed, record)
    columns = tuple(finer if each is column else each for each in summary.columns)
    return summary.having(columns=columns)


def coarse_step_s(record: RunRecord, median_s: float) -> float | None:
    """Tell the steps of enqueue times where they are too long to read the times by."""
    step = record.facts.get("enqueue_resolution_s")
    known = isinstance(step, (int, float)) and step > COARSE * median_s
    return float(step) if known and isinstance(step, (int, float)) else None


def summary_from_samples(run: Run) -> Summary:
    """Compute every statistic of a run with the wall time and batch its record tells."""
    return summarize(
        run.times,
        items_per_query=run.record.known_items,
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
        items_per_query=record.known_items,
        queries_per_s=rate,
        items_per_s=_times_items(rate, record.known_items),
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
    return len(finite), median, _times_items(rate, run.record.known_items)


def _times_items(rate: float | None, items: int | None) -> float | None:
    return None if rate is None or items is None else rate * items


def _wall_s(run: Run) -> float | None:
    if protocol_of(run.record) == "coldl2":
        return None  # much of that time went into emptying the cache
    walls = [launch.wall_s for launch in run.record.launches]
    return sum(w for w in walls if w is not None) if walls and None not in walls else None


def _is_closed(run: Run) -> bool:
    alone = streams_of(run.record) == 1 and gap_of(run.record) == 0
    return alone and protocol_of(run.record) in ("serve", "gpu")


def throughput(
    times: IterationTimes, *, wall_s: float | None, closed_loop: bool
) -> tuple[float | None, str | None]:
    """Compute queries per second and what they were computed from; ``None`` when nothing tells."""
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
