"""Verdicts on stored runs that were measured apart, as good as machine drift allows.

Runs measured one after the other differ by what the machine did meanwhile: adjacent launches of
one model differed by 40 % at the 99th percentile on a shared virtual machine, and a correct
launch-level test on consecutive blocks called 11 % of equal pairs different. So the interval is
widened by a drift bound: from recorded history where there is some, else from the table below.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from trtbench.analysis.comparability import (
    DEVICE_KEYS,
    Difference,
    across_devices,
    blocking_reasons,
    differences,
)
from trtbench.analysis.distributions import t_quantile
from trtbench.analysis.reported import reported_columns, reported_rate, reported_s
from trtbench.analysis.robust import LEVEL
from trtbench.analysis.robust import difference as trimmed_difference
from trtbench.analysis.shared_metrics import metric_of_both
from trtbench.analysis.summary import COARSE, summary_from_run
from trtbench.analysis.verdict import MARGIN, Better, decide, incomparable, judge, ratio_interval
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Run, RunRecord
from trtbench.domain.spec import Value
from trtbench.units import text_from_fraction

CPU_DRIFT = 0.40
"""Adjacent launches on the CPU of a shared virtual machine, 99th percentile, measured."""
ENQUEUE_DRIFT = 0.30
"""GPU work launched call by call wanders by 10 to 30 % between runs."""
GRAPH_DRIFT = 0.01
"""Fresh processes with a CUDA graph repeat within 0.2 %; five times that for other days."""
FEWEST_IN_HISTORY = 5
"""Sessions that must be on record before their spread replaces the table."""


class Drift(Value, frozen=True, kw_only=True):
    """How far two runs of the same thing may lie apart because of the machine alone."""

    bound: float
    """Relative: 0.4 is 40 %."""
    source: str

    @property
    def log(self) -> float:
        return math.log1p(self.bound)


def drift_from_history(medians: Sequence[float]) -> Drift | None:
    """Bound the drift by the spread of medians of one thing in separate sessions."""
    if len(medians) < FEWEST_IN_HISTORY or min(medians) <= 0:
        return None
    logs = np.log(np.asarray(medians))
    t = t_quantile((1 + LEVEL) / 2, df=len(logs) - 1)
    bound = math.expm1(t * math.sqrt(2) * float(logs.std(ddof=1)))
    return Drift(bound=bound, source=f"{len(logs)} recorded sessions")


def drift_from_records(baseline: RunRecord, candidate: RunRecord, *, metric: str) -> Drift:
    """Choose the drift bound from how the runs were measured."""
    records = (baseline, candidate)
    if not all(record.environment.gpus for record in records):
        return Drift(bound=CPU_DRIFT, source="launches on a shared machine, no history")
    graphs = [record.conditions.get("cuda_graph") for record in records]
    if metric == "gpu" and all(graph is not None and graph.value is True for graph in graphs):
        return Drift(bound=GRAPH_DRIFT, source="CUDA graphs repeat within 0.2 %, no history")
    return Drift(bound=ENQUEUE_DRIFT, source="enqueued call by call, no history")


def compare_apart(
    baseline: Run,
    candidate: Run,
    *,
    drift: Drift | None = None,
    accept: Collection[str] = (),
    margin: float = MARGIN,
) -> Comparison:
    """Compare two stored runs: a verdict per metric both sides have, or why there is none."""
    found = differences(baseline.record, candidate.record, accept=accept)
    across = across_devices(baseline.record, candidate.record)
    if across is not None:
        found = tuple(each for each in found if each.key not in DEVICE_KEYS)
    verdicts: list[Verdict] = []
    for metric in _shared_metrics(baseline, candidate, found):
        reason = blocking_reasons(found, metric=metric) or too_coarse(metric, baseline, candidate)
        if reason is not None:
            verdicts.append(incomparable(metric, reason=reason))
            continue
        bound = _drift_of(metric, baseline, candidate, known=drift)
        statistic = _statistic(metric, baseline, candidate)
        sides = (
            _launch_values(baseline, metric, statistic),
            _launch_values(candidate, metric, statistic),
        )
        better: Better = "high" if metric == "throughput" else "low"
        verdict = verdict_apart(*sides, metric=metric, drift=bound, better=better, margin=margin)
        verdict = _as_printed(verdict, baseline, candidate, statistic)
        if across is not None and verdict.ratio is not None:
            reason = f"across devices, {across}; {verdict.reason}"
            verdict = verdict.having(reason=reason, across_devices=across)
        verdicts.append(verdict)
    return Comparison(
        baseline=baseline.id, candidate=candidate.id, design="apart", verdicts=tuple(verdicts)
    )


def _drift_of(metric: str, baseline: Run, candidate: Run, *, known: Drift | None) -> Drift:
    """Bound the drift of a metric by what its times are: equal data get equal verdicts."""
    runs = (baseline, candidate)
    others = [name for name in _shared_metrics(*runs, ()) if name not in (metric, "throughput")]
    names = [metric, *(name for name in others if _equal_times(metric, name, runs))]
    if known is not None and {*names} & {baseline.times.headline, "throughput"}:
        return known
    bounds = [drift_from_records(*(run.record for run in runs), metric=name) for name in names]
    return min(bounds, key=lambda each: each.bound)


def _equal_times(one: str, other: str, runs: Sequence[Run]) -> bool:
    """Say whether two columns tell the same, as latency and GPU time do without transfers."""
    ways = [_statistic(name, *runs) for name in (one, other)]
    values = [
        [_launch_values(run, name, way) for name, way in zip((one, other), ways, strict=True)]
        for run in runs
    ]
    return all(len(a) == len(b) > 0 and np.allclose(a, b, rtol=1e-6, atol=0.0) for a, b in values)


def verdict_apart(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    metric: str = "host",
    drift: Drift,
    better: Better = "low",
    margin: float = MARGIN,
) -> Verdict:
    """Judge two runs from one value per launch on each side, widened by the drift bound."""
    if not baseline or not candidate:
        return incomparable(metric, reason=f"{metric} was not measured on both sides")
    if min(*baseline, *candidate) <= 0:
        return incomparable(metric, reason=f"{metric} holds times that are not positive")
    logs = [np.log(np.asarray(side)).tolist() for side in (baseline, candidate)]
    estimate = trimmed_difference(*logs)
    meaning = (
        f"99 % over launches, widened by a drift of ±{100 * drift.bound:.1f} % ({drift.source})"
    )
    if estimate is not None:
        return judge(
            estimate,
            metric=metric,
            better=better,
            design="apart",
            margin=margin,
            widen=drift.log,
            meaning=meaning,
        )
    effect = float(np.median(logs[1]) - np.median(logs[0]))
    return _single(effect, metric, drift=drift, better=better, launches=min(map(len, logs)))


def _single(effect: float, metric: str, *, drift: Drift, better: Better, launches: int) -> Verdict:
    """Judge one launch a side: only what exceeds drift counts, and nothing is ever the same."""
    low, high = effect - drift.log, effect + drift.log
    kind, _ = decide(effect, low, high, better=better, margin=0.0)
    clear = kind in ("faster", "slower")
    change = text_from_fraction(math.expm1(effect), digits=1, signed=True)
    relation = "exceeds" if clear else "is within"
    said = f"{change} {relation} the drift of ±{100 * drift.bound:.1f} %"
    return Verdict(
        metric=metric,
        kind=kind if clear else "unclear",
        ratio=math.exp(effect),
        interval=ratio_interval(low, high, meaning=f"drift bound only: {drift.source}"),
        reason=f"one launch on a side; {said} ({drift.source})",
        launches=launches,
        launches_needed=None,
        design="apart",
    )


def too_coarse(metric: str, *runs: Run) -> str | None:
    """Refuse enqueue times that a file of rounded stamps gives in steps as long as themselves."""
    steps = [run.record.facts.get("enqueue_resolution_s") for run in runs]
    step = max((each for each in steps if isinstance(each, float)), default=None)
    if metric != "enqueue" or step is None:
        return None
    shortest = min((min(_launch_values(run, metric), default=0.0) for run in runs), default=0.0)
    if step <= COARSE * shortest:
        return None
    return f"enqueue times are known in steps of {step * 1e6:g} µs only"


def _statistic(metric: str, *runs: Run) -> str:
    """Compare by medians or, where a side printed means only, by the means of both."""
    printed = [run for run in runs if not len(run.times)]
    lacking = any(reported_s(run.record, metric) is None for run in printed)
    means = all(reported_s(run.record, metric, "mean") is not None for run in printed)
    return "mean" if lacking and means else "median"


def _as_printed(verdict: Verdict, baseline: Run, candidate: Run, statistic: str) -> Verdict:
    """Say it when a side has no samples, so that its number is one that another tool printed."""
    sides = (("baseline", baseline), ("candidate", candidate))
    printed = [side for side, run in sides if not len(run.times)]
    if not printed or verdict.ratio is None:
        return verdict
    reason = f"{verdict.reason}; {' and '.join(printed)} as printed, without samples"
    if statistic == "mean" and verdict.metric != "throughput":
        reason += "; means, since no median was printed"
    return verdict.having(reason=reason)


def _shared_metrics(baseline: Run, candidate: Run, found: Collection[Difference]) -> list[str]:
    """List what the sides can be judged by, the headline that both have first."""
    shared = [name for name in _columns(baseline) if name in _columns(candidate)]
    if not len(baseline.times) or not len(candidate.times):
        return [*(shared or [baseline.times.headline]), "throughput"]
    first = metric_of_both(baseline.times, candidate.times, found)
    headline = baseline.times.headline
    return list(dict.fromkeys((first, headline, *shared, "throughput")))


def _columns(run: Run) -> tuple[str, ...]:
    return tuple(run.times.durations()) if len(run.times) else reported_columns(run.record)


def _launch_values(run: Run, metric: str, statistic: str = "median") -> list[float]:
    if not len(run.times):
        return _printed_values(run, metric, statistic)
    if metric == "throughput":
        return _launch_rates(run)
    if metric not in run.times.durations():
        return []
    middle = np.mean if statistic == "mean" else np.median
    return [float(middle(part)) for part in run.times.by_launch(metric) if len(part)]


def _printed_values(run: Run, metric: str, statistic: str) -> list[float]:
    """Tell what another tool printed; it is one launch whatever it was made of."""
    if metric == "throughput":
        value = reported_rate(run.record)
    else:
        value = reported_s(run.record, metric, statistic)
    return [] if value is None else [value]


def _launch_rates(run: Run) -> list[float]:
    walls = [launch.wall_s for launch in run.record.launches]
    parts = run.times.by_launch(run.times.headline)
    if len(walls) == len(parts) and all(walls):
        return [len(part) / wall for part, wall in zip(parts, walls, strict=True) if wall]
    rate = summary_from_run(run).queries_per_s
    if rate is None:
        return []
    if run.times.host is None or len(parts) == 1:
        return [rate]
    return [len(part) / float(part.sum()) for part in run.times.by_launch("host")]
