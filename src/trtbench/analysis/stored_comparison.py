"""Verdicts on stored runs that were measured apart, limited by the drift of the machine.

The machine changes between runs, so intervals are widened by a drift bound, from stored runs if
there are enough, else from the constants below. Also the evaluation toolkit's comparison, and
what explains the difference of two runs.
"""

import math
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from trtbench.analysis import comparability
from trtbench.analysis import summary as statistics
from trtbench.analysis import verdict as judging
from trtbench.analysis.distributions import LEVEL, t_quantile
from trtbench.analysis.distributions import difference as trimmed_difference
from trtbench.core.properties import property_named, protocol_of
from trtbench.core.results import Comparison, Verdict
from trtbench.core.run import Run, RunRecord, known_value, precision_of
from trtbench.core.samples import ASSUMED_DRIFT, DURATIONS, Column
from trtbench.core.spec import Value
from trtbench.core.units import text_from_fraction, text_from_seconds
from trtbench.layers.table import EngineFacts, facts_from_run

CPU_DRIFT = 0.40  # measured: p99 of adjacent launches on a shared virtual machine
ENQUEUE_DRIFT = 0.30  # GPU work launched kernel by kernel differs by 10 to 30 % between runs
GRAPH_DRIFT = 0.01  # CUDA graphs repeat within 0.2 %; five times that on other days
SINGLE_DRIFT = 0.06  # queries one by one take up to 5 % longer than back to back, on an H200
ONE_LAUNCH = "one launch on a side has no interval over launches"
MIN_SESSIONS = 5  # stored sessions needed before their spread replaces these constants

Sides = tuple[list[float], list[float]]  # one value per launch of both runs


class Drift(Value, frozen=True, kw_only=True):
    """How much two runs of the same model may differ because of the machine alone."""

    bound: float
    source: str
    measured: bool = False


def drift_from_history(medians: Sequence[float]) -> Drift | None:
    """Bound the drift by the spread of a model's medians in separate sessions."""
    if len(medians) < MIN_SESSIONS or min(medians) <= 0:
        return None
    logs = np.log(np.asarray(medians))
    t = t_quantile((1 + LEVEL) / 2, df=len(logs) - 1)
    bound = math.expm1(t * math.sqrt(2) * float(logs.std(ddof=1)))
    return Drift(bound=bound, source=f"{len(logs)} recorded sessions", measured=True)


def drift_from_records(baseline: RunRecord, candidate: RunRecord, *, metric: str) -> Drift:
    """Return the default drift bound for the way the runs were measured."""
    records = (baseline, candidate)
    if not all(record.environment.gpus for record in records):
        return Drift(bound=CPU_DRIFT, source="launches on a shared machine, no history")
    graphs = [known_value(record.conditions.get("cuda_graph")) for record in records]
    if metric != "gpu" or graphs != [True, True]:
        return Drift(bound=ENQUEUE_DRIFT, source="enqueued call by call, no history")
    if len({protocol_of(record).replace("pipeline", "gpu") for record in records}) > 1:
        return Drift(bound=SINGLE_DRIFT, source="other protocols, no history")
    return Drift(bound=GRAPH_DRIFT, source="CUDA graphs repeat within 0.2 %, no history")


def compare_apart(
    baseline: Run,
    candidate: Run,
    *,
    drift: Drift | None = None,
    accept: Collection[str] = (),
    margin: float = judging.MARGIN,
) -> Comparison:
    """Compare two stored runs: a verdict, or a reason for none, per metric that both have."""
    runs = (baseline, candidate)
    found = comparability.differences(baseline.record, candidate.record, accept=accept)
    across = comparability.across_devices(baseline.record, candidate.record)
    if across is not None:
        found = tuple(each for each in found if not each.of_device)
    named = zip(("baseline", "candidate"), runs, strict=True)
    printed = " and ".join(side for side, run in named if not len(run.times))
    verdicts: list[Verdict] = []
    values = {name: _values(name, runs) for name in _shared_metrics(baseline, candidate, found)}
    for metric, (statistic, sides) in values.items():
        reason = comparability.blocking_reasons(found, metric=metric)
        reason = reason or coarse_reason(metric, *runs)
        if reason is not None:
            verdicts.append(judging.incomparable(metric, reason=reason))
            continue
        # Metrics with equal times get the same bound.
        names = [n for n, (_, x) in values.items() if n == metric or _equal_times(n, sides, x)]
        bounds = [drift_from_records(*(run.record for run in runs), metric=n) for n in names]
        bound = min(bounds, key=lambda each: each.bound)
        if drift is not None and {*names} & {baseline.times.headline, "throughput"}:
            bound = drift
        verdict = _verdict_apart(metric, sides, bound, margin=margin)
        reason = verdict.reason
        if verdict.ratio is not None:
            if printed:
                reason += f"; {printed} as printed, without samples"
            if printed and statistic == "mean" and metric != "throughput":
                reason += "; by means, because no median was printed"
            if across is not None:
                reason = f"across devices, {across}; {reason}"
            verdict = verdict.having(reason=reason, across_devices=across)
        verdicts.append(verdict)
    return Comparison(
        baseline=baseline.id, candidate=candidate.id, design="apart", verdicts=tuple(verdicts)
    )


def _equal_times(name: str, own: Sides, other: Sides) -> bool:
    return name != "throughput" and all(
        len(a) == len(b) > 0 and np.allclose(a, b, rtol=1e-6, atol=0.0)
        for a, b in zip(own, other, strict=True)
    )


def _verdict_apart(metric: str, sides: Sides, drift: Drift, *, margin: float) -> Verdict:
    """Judge two runs by one value per launch; the interval is widened by the drift bound."""
    if not all(sides):
        return judging.incomparable(metric, reason=f"{metric} was not measured on both sides")
    if min(map(min, sides)) <= 0:
        return judging.incomparable(metric, reason=f"{metric} holds times that are not positive")
    logs = [np.log(np.asarray(side)).tolist() for side in sides]
    estimate, widen = trimmed_difference(*logs), math.log1p(drift.bound)
    percent = f"±{100 * drift.bound:.1f} %"
    if estimate is not None:
        bound = f"a drift of {percent}" if drift.measured else f"{ASSUMED_DRIFT} of {percent}"
        meaning = f"99 % over launches, widened by {bound} ({drift.source})"
        how = {"widen": widen, "margin": margin}
        return judging.judge(estimate, metric=metric, design="apart", meaning=meaning, **how)
    effect = float(np.median(logs[1]) - np.median(logs[0]))
    unclear = Verdict(metric=metric, kind="unclear", reason=ONE_LAUNCH, design="apart")
    unclear = unclear.having(ratio=math.exp(effect), launches=min(map(len, logs)))
    if not drift.measured:
        return unclear
    # One launch on a side: only effects larger than the drift count, and "same" is impossible.
    low, high = effect - widen, effect + widen
    kind, _ = judging.decide(metric, effect, low, high, design="apart", margin=0.0)
    clear = kind in ("faster", "slower")
    change = text_from_fraction(math.expm1(effect), digits=1, signed=True)
    said = f"{change} {'exceeds' if clear else 'is within'} the drift of {percent}"
    return unclear.having(
        kind=kind if clear else "unclear",
        interval=judging.ratio_interval(low, high, meaning=f"drift only: {drift.source}"),
        reason=f"one launch on a side; {said} ({drift.source})",
    )


def coarse_reason(metric: str, *runs: Run) -> str | None:
    """Return why enqueue times from rounded time stamps are too coarse, else ``None``."""
    if metric != "enqueue":
        return None
    shortest = min(min(_launch_values(run, metric, "median"), default=0.0) for run in runs)
    steps = [statistics.coarse_step_s(run.record, shortest) or 0.0 for run in runs]
    known = f"enqueue times are only known in steps of {max(steps) * 1e6:g} µs"
    return known if any(steps) else None


def _values(metric: str, runs: tuple[Run, Run]) -> tuple[str, Sides]:
    """Return the statistic and one value per launch of both runs: medians, else means."""
    printed = [statistics.reported_statistics(x.record, metric) for x in runs if not len(x.times)]
    lacking = any("median" not in each for each in printed)
    statistic = "mean" if lacking and all("mean" in each for each in printed) else "median"
    first, second = (_launch_values(run, metric, statistic) for run in runs)
    return statistic, (first, second)


def _launch_values(run: Run, metric: str, statistic: str) -> list[float]:
    rates = metric == "throughput"
    if not len(run.times):  # printed statistics count as one launch
        value = (
            statistics.reported_rate(run.record)
            if rates
            else statistics.reported_statistics(run.record, metric).get(statistic)
        )
        return [] if value is None else [value]
    if not rates:
        middle = np.mean if statistic == "mean" else np.median
        parts = run.times.by_launch(metric) if metric in run.times.durations() else []
        return [float(middle(part)) for part in parts if len(part)]
    walls = [launch.wall_s for launch in run.record.launches]
    parts = run.times.by_launch(run.times.headline)
    if len(walls) == len(parts) and all(walls):
        return [len(part) / wall for part, wall in zip(parts, walls, strict=True) if wall]
    rate = statistics.summary_from_run(run).queries_per_s
    if rate is None or run.times.host is None or len(parts) == 1:
        return [] if rate is None else [rate]
    return [len(part) / float(part.sum()) for part in run.times.by_launch("host")]


def _shared_metrics(baseline: Run, candidate: Run, found: comparability.Differences) -> list[str]:
    """List the metrics that both runs have, the headline first."""

    def columns(run: Run) -> list[str]:
        if len(run.times):
            return [*run.times.durations()]
        printed = {name: statistics.reported_statistics(run.record, name) for name in DURATIONS}
        return [name for name in DURATIONS if printed[name].keys() & {"median", "mean"}]

    second = columns(candidate)
    shared = [name for name in columns(baseline) if name in second]
    headline = baseline.times.headline
    if not len(baseline.times) or not len(candidate.times):
        return [*(shared or [headline]), "throughput"]
    leading = judging.metric_of_both(baseline.times, candidate.times, found)
    return list(dict.fromkeys((leading, headline, *shared, "throughput")))


COMPARISON_COLUMNS = ("host", "h2d", "gpu", "d2h")
COMPARISON_HEADER = ("metric", "pt", "engine", "engine_minus_pt", "engine_over_pt_ratio", "note")
NEARLY_ZERO = 1e-12  # no ratio is computed with a smaller denominator


class CompareRow(Value, frozen=True, kw_only=True):
    """One row of the trtexec evaluation toolkit's comparison; times in milliseconds."""

    metric: str
    pt: float | str | None
    engine: float | str | None
    engine_minus_pt: float | None = None
    engine_over_pt_ratio: float | None = None
    note: str = ""  # why the ratio is not valid: other conditions, or too few samples

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a CSV row: six decimals, unknown values are empty."""
        values = (self.pt, self.engine, self.engine_minus_pt, self.engine_over_pt_ratio)
        texts = (f"{each:.6f}" if isinstance(each, float) else each or "" for each in values)
        return (self.metric, *("" if text == "nan" else text for text in texts), self.note)


def comparison_rows(pt: Run, engine: Run) -> tuple[CompareRow, ...]:
    """Return the rows of the trtexec evaluation toolkit's comparison; notes mark invalid ratios."""
    runs = (pt, engine)
    found = comparability.differences(pt.record, engine.record)
    names = (*COMPARISON_COLUMNS, "throughput")
    notes = {name: comparability.blocking_reasons(found, metric=name) for name in names}
    first, second = ("latency" if run.times.host is None else "host time" for run in runs)
    if first != second:
        notes["host"] = "; ".join(filter(None, (notes["host"], f"{first} against {second}")))
    words, numbers = [], []
    for run in runs:
        inputs, tf32 = run.record.inputs, known_value(run.record.conditions.get("tf32"))
        known = run.record.conditions.get("precision")
        label = run.record.spec.precision  # that of a foreign engine is known from it alone
        if tf32 is None and (known is None or known.source != "implied"):
            tf32 = {"fp32": False, "tf32": True}.get(str(known_value(known) or label))
        on = "On" if str(tf32).lower() in ("on", "true", "1") else "Off"
        dtype = precision_of(run.record) or label or next((each.dtype for each in inputs), None)
        words.append((dtype, "Unknown" if tf32 is None else on))
        printed = run.record.reported
        rate, wall = (printed.get(name) for name in ("throughput_qps", "total_host_walltime_s"))
        if not isinstance(rate, (int, float)):
            rate = statistics.summary_from_run(run).queries_per_s
        if not isinstance(wall, (int, float)):
            host = None if run.times.host is None else run.times.by_launch("host")
            wall = None if not host else float(np.mean([part.sum() for part in host]))
        numbers.append([None if each is None else float(each) for each in (rate, wall)])
    (dtypes, tf32s), (rates, walls) = zip(*words, strict=True), zip(*numbers, strict=True)
    rows = [
        CompareRow(metric="dtype", pt=dtypes[0], engine=dtypes[1]),
        CompareRow(metric="tf32", pt=tf32s[0], engine=tf32s[1]),
        _row("throughput_qps", *rates, note=notes["throughput"]),
        _row("total_host_walltime_s", *walls, note=notes["host"]),
    ]
    for column in COMPARISON_COLUMNS:
        (before, few), (after, too_few) = (_metrics(run, column) for run in runs)
        lacking = {**few, **too_few}
        for statistic in statistics.COMPARED_STATISTICS:
            note = "; ".join(filter(None, (notes[column], lacking.get(statistic))))
            values = before.get(statistic), after.get(statistic)
            rows.append(_row(f"{column}_{statistic}", *values, note=note))
    return tuple(rows)


def _row(metric: str, pt: float | None, engine: float | None, *, note: str | None) -> CompareRow:
    row = CompareRow(metric=metric, pt=pt, engine=engine)
    if pt is None or engine is None or math.isnan(pt) or math.isnan(engine):
        return row
    row = row.having(engine_minus_pt=engine - pt)
    is_zero = abs(pt) <= NEARLY_ZERO
    return row if is_zero else row.having(engine_over_pt_ratio=engine / pt, note=note or "")


def _metrics(run: Run, column: str) -> tuple[dict[str, float], dict[str, str]]:
    """Return statistics in milliseconds, and notes for percentiles with too few samples."""
    # trtexec has no host time; the toolkit shows its latency instead.
    name = "latency" if column == "host" and run.times.host is None else column
    values: Column | None = getattr(run.times, name)
    if values is None or not len(values):
        printed = statistics.reported_statistics(run.record, column)
        if not printed and column == "host":
            printed = statistics.reported_statistics(run.record, "latency")
        return {statistic: value * 1e3 for statistic, value in printed.items()}, {}
    upper = [q for q in statistics.QUANTILES if q > 0.5]
    known = statistics.quantiles_of(run.times.by_launch(name), upper)
    lacking = {
        q.name: f"{q.name}: too few samples ({q.needed} needed)" for q in known if q.value is None
    }
    return statistics.torch_benchmark_metrics(values), lacking


Certainty = Literal["measured", "at most", "by exclusion", "stated"]

CERTAIN: tuple[Certainty, ...] = ("measured", "by exclusion")
"""Evidence that is reliable enough to be added up."""

UNKNOWN_TEXTS = {"unknown", "None"}  # texts of unknown values

COUNTED = {
    "host": "the caller's time, from before the call to after its end",
    "latency": "copies and computation on the device",
    "gpu": "computation on the device alone",
    "end_to_end": "from the start of the first copy to the end of the last, including queueing",
}  # what each metric includes


class Rung(Value, frozen=True):
    """One difference between two runs, and how much of their difference in time it explains."""

    key: str
    title: str
    a: str
    b: str
    seconds: float | None  # time it adds to the second run; ``None``: unknown
    evidence: Certainty
    because: str


class Ladder(Value, frozen=True, kw_only=True):
    """The differences that lead from the time of one run to that of another."""

    metric_a: str
    metric_b: str
    a_s: float | None
    b_s: float | None
    rungs: tuple[Rung, ...]
    unexplained_s: float | None


def ladder_from_runs(a: Run, b: Run) -> Ladder:
    """List the differences between two runs, and how much of the time each explains."""
    left, right = facts_from_run(a), facts_from_run(b)
    (metric_a, a_s), (metric_b, b_s) = headline_of(left), headline_of(right)
    rungs = []
    if metric_a != metric_b:  # a run that has both metrics shows their difference
        names = (f"{metric_a}_s", f"{metric_b}_s")
        known = (tuple(getattr(each, name) for name in names) for each in (left, right))
        both = next(((one, other) for one, other in known if one and other), None)
        evidence: Certainty = "measured" if both else "stated"
        seconds = both[1] - both[0] if both else None
        because = "; ".join(f"{name}: {COUNTED.get(name, name)}" for name in (metric_a, metric_b))
        rungs.append(
            Rung("metric", "what is counted", metric_a, metric_b, seconds, evidence, because)
        )
    # Each difference once; unknown values are listed without a time.
    seen = set()
    for each in comparability.differences(a.record, b.record):
        if each.key in seen or each.baseline == each.candidate:
            continue
        seen.add(each.key)
        declared = property_named(each.key)
        seconds, evidence, because = _effect(each.key, left, right, counted=metric_a == metric_b)
        title = declared.words if declared else each.key.replace("_", " ")
        sides = (each.baseline, each.candidate)
        rungs.append(Rung(each.key, title, *sides, seconds, evidence, because or each.message))
    warmups = [run.record.spec.warmup for run in (a, b)]
    if warmups[0] != warmups[1]:
        words = [f"{x.floor.seconds or 0:g} s{' until steady' * x.until_steady}" for x in warmups]
        because = "a GPU that was idle takes up to seconds to raise its clocks"
        rungs.append(Rung("warmup", "warm-up", words[0], words[1], None, "stated", because))
    total = None if a_s is None or b_s is None else b_s - a_s
    unsized = [x for x in rungs if x.seconds is None and not UNKNOWN_TEXTS & {x.a, x.b}]
    if total is not None and len(unsized) == 1 and all(x.evidence != "at most" for x in rungs):
        left_s = total - math.fsum(each.seconds or 0.0 for each in rungs)
        because = f"{unsized[0].because}; no other difference is stated"
        sized = unsized[0].having(seconds=left_s, evidence="by exclusion", because=because)
        rungs[rungs.index(unsized[0])] = sized
    sure = math.fsum(each.seconds or 0.0 for each in rungs if each.evidence in CERTAIN)
    return Ladder(
        metric_a=metric_a,
        metric_b=metric_b,
        a_s=a_s,
        b_s=b_s,
        rungs=tuple(rungs),
        unexplained_s=None if total is None else total - sure,
    )


def headline_of(facts: EngineFacts) -> tuple[str, float | None]:
    """Return the name and the value of a run's headline time."""
    known = {"host": facts.host_s, "latency": facts.latency_s, "gpu": facts.gpu_s}
    return next((pair for pair in known.items() if pair[1] is not None), ("host", None))


def _effect(
    key: str, a: EngineFacts, b: EngineFacts, *, counted: bool
) -> tuple[float | None, Certainty, str]:
    """Return time, evidence and reason of one difference; ``counted``: both have one metric."""
    if key == "transfers":
        before, after = ((each.h2d_s or 0.0) + (each.d2h_s or 0.0) for each in (a, b))
        words = f"copies take {text_from_seconds(max(before, after))} on the side that has them"
        if before != after and counted:
            return after - before, "measured", words
        included = f"{words}; they are included in the different metrics"
        return None, "stated", included if before != after else ""
    if key == "clock" and a.sm_clock_hz and b.sm_clock_hz and a.gpu_s:
        seconds = a.gpu_s * (a.sm_clock_hz / b.sm_clock_hz - 1)
        return seconds, "at most", "if all of the GPU time scales with the clock"
    without = next((each for each in (a, b) if each.cuda_graph is False), None)
    if key == "cuda_graph" and without and without.enqueue_s and without.gpu_s:
        # Launching kernel by kernel costs time if the host is slower than the GPU.
        words = f"launching takes {text_from_seconds(without.enqueue_s)} without a graph, "
        share = text_from_fraction(without.enqueue_s / without.gpu_s, digits=0)
        words += f"{share} of the GPU time; the GPU"
        if without.busy is not None:
            words += f" computes {text_from_fraction(without.busy, digits=1)} of the time"
        waits = {True: "waits", None: "may wait", False: "does not wait"}
        return None, "stated", f"{words}: it {waits[without.waits_for_launches]} for launches"
    majors = {(each.tensorrt or "").split(".")[0] for each in (a, b)}
    if key == "versions" and majors in ({"10", "11"}, {"8", "11"}, {"9", "11"}):
        words = "trtexec of TensorRT 11 leaves out copies, uses a CUDA graph and spin-waits by "
        return None, "stated", words + "default; earlier versions do not"
    return None, "stated", ""
