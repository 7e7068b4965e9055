"""Verdicts: faster, slower, same, unclear or incomparable, with interval and reason.

Each launch gives one effect (a log-ratio); over launches Yuen's trimmed t is used at 99 %. Effects
below 1 % do not count; "same" means that the whole interval lies within the margin, not that a
test found no difference. Tails are compared by a cluster bootstrap that draws launches instead of
samples, because samples of one launch are correlated.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis import distributions
from trtbench.analysis.comparability import Differences, blocking_reasons
from trtbench.analysis.summary import quantiles_of
from trtbench.core.results import Comparison, Design, Verdict
from trtbench.core.run import Interval, LaunchFacts, Run
from trtbench.core.samples import Column, IterationTimes
from trtbench.core.units import text_from_fraction

GPU = "gpu"
THRESHOLD = 0.01  # smaller effects are no difference (measured: 0 of 40 000 equal pairs were)
BURSTS_THRESHOLD = 0.005  # for GPU times of bursts: launches agree within 0.1 to 0.8 %
MARGIN = 0.02  # "same" means that the whole interval is within 2 %
WIDEST = math.log(1e6)  # limit of intervals: beyond a factor of a million nothing is known
WIDEST_SHOWN = math.log(100)  # a wider interval of an unclear verdict is not shown
# Designs that add launches while unclear: testing repeatedly needs a stricter level.
SEQUENTIAL: tuple[Design, ...] = ("duet", "launches", "bursts")
STRICT_LEVEL = 0.998
ALMOST_SURE = "99 % sure of a difference; 99.8 % is needed, because results are checked repeatedly"
MEANING = f"{100 * distributions.LEVEL:g} % for the ratio over fresh launches on this machine"
MAX_LAUNCHES = 1000  # if more are needed, the result counts as too noisy
REPEATS = 2000  # draws of the bootstrap
MIN_LAUNCHES = 5  # for a bootstrap over launches
MAX_SAMPLES = 2000  # per launch and side; more do not help, because launches differ more
SAME_BY_ORDER = 0.5  # effects by load order are used if they spread less than this share
ENQUEUE_BOUND = 0.9  # the GPU waits if enqueueing takes this share of a query's time

ColumnPair = tuple[Column, Column]  # times of baseline and candidate in one launch
Launches = Sequence[LaunchFacts]
Effects = Sequence[float]  # log-ratios


def verdict_from_effects(
    effects: Effects,
    *,
    metric: str = "host",
    design: Design = "duet",
    margin: float = MARGIN,
    alternatives: Sequence[distributions.Trimmed | None] = (),
) -> Verdict:
    """Return the verdict on a metric from one log-ratio per launch.

    The most precise estimate is used: ``alternatives`` are others from the same launches.
    """
    estimate = distributions.trimmed([effect for effect in effects if math.isfinite(effect)])
    if estimate is None:
        reason = "repeatability is unknown with one launch"
        ratio, count = math.exp(effects[0]) if effects else None, len(effects)
        unclear = Verdict(metric=metric, kind="unclear", reason=reason, design=design)
        return unclear.having(ratio=ratio, launches=count, launches_needed=MIN_LAUNCHES)
    ways = (estimate, *(each for each in alternatives if each is not None))
    best = min(ways, key=lambda way: way.half_width(STRICT_LEVEL))
    estimate = replace(best, count=estimate.count)
    return judge(estimate, metric=metric, design=design, margin=margin)


def judge(
    estimate: distributions.Trimmed,
    *,
    metric: str,
    design: Design = "duet",
    margin: float = MARGIN,
    widen: float = 0.0,
    meaning: str = MEANING,
) -> Verdict:
    """Return the verdict on an estimated log-ratio; ``widen`` is added to both ends."""
    low, high = estimate.interval()
    low, high = low - widen, high + widen
    kind, reason = decide(metric, estimate.mean, low, high, design=design, margin=margin)
    doubtful = design in SEQUENTIAL and abs(estimate.mean) <= estimate.half_width(STRICT_LEVEL)
    if kind in ("faster", "slower") and doubtful:
        kind, reason = "unclear", ALMOST_SURE
    needed: int | None = None
    interval: Interval | None = ratio_interval(low, high, meaning=meaning)
    if kind == "unclear":
        effect = abs(estimate.mean)
        differs = effect if math.expm1(effect) >= threshold_of(metric, design) else 0.0
        goal = max(differs, math.log1p(margin) - effect)
        # More launches do not reduce drift, and the margin may be too small.
        if not widen and goal > 0:
            is_strict = goal == differs and design in SEQUENTIAL
            level = STRICT_LEVEL if is_strict else distributions.LEVEL
            half, count = estimate.half_width(level), estimate.count
            needed = launches_to_reach(goal, half=half, count=count, level=level)
        if high - low > WIDEST_SHOWN:
            interval = None
            reason = f"{estimate.count} launches differ too much for an interval"
    return Verdict(
        metric=metric,
        kind=kind,
        ratio=math.exp(estimate.mean),
        interval=interval,
        reason=reason,
        launches=estimate.count,
        launches_needed=needed,
        p=estimate.p,
        design=design,
    )


def decide(
    metric: str, effect: float, low: float, high: float, *, design: Design, margin: float = MARGIN
) -> tuple[Literal["same", "faster", "slower", "unclear"], str]:
    """Return the kind of a verdict from a log-ratio and its interval, and the reason."""
    excludes_zero, threshold = low > 0 or high < 0, threshold_of(metric, design)
    if excludes_zero and abs(math.expm1(effect)) >= threshold:
        slower = (effect > 0) == (metric != "throughput")
        return ("slower" if slower else "faster"), "the interval excludes 0"
    if low > -math.log1p(margin) and high < math.log1p(margin):
        return "same", f"within ±{100 * margin:g} %"
    if excludes_zero:
        least = f"{100 * threshold:g} %"
        return "unclear", f"below the {least} that counts, but maybe beyond the margin"
    return "unclear", f"the interval includes 0 and is wider than ±{100 * margin:g} %"


def sentence(verdict: Verdict) -> str:
    """Return the change, its interval and the reason of a verdict in one sentence."""
    if verdict.ratio is None or verdict.interval is None:
        return verdict.reason
    ends = (verdict.interval.low, verdict.interval.high)
    low, high = (text_from_fraction(value - 1, signed=True) for value in ends)
    return f"{verdict.change} [{low}, {high}]: {verdict.reason}"


def ratio_interval(low: float, high: float, *, meaning: str) -> Interval:
    """Return the interval of a ratio from that of its logarithm."""
    low, high = (1 + math.expm1(min(max(end, -WIDEST), WIDEST)) for end in (low, high))
    return Interval(low=low, high=high, level=distributions.LEVEL, meaning=meaning)


def duet_comparison(
    pairs: Sequence[ColumnPair],
    *,
    baseline: str,
    candidate: str,
    metric: str = "host",
    design: Design = "duet",
    margin: float = MARGIN,
) -> Comparison:
    """Compare two sides measured in turn: median, tails and throughput."""
    effects = [pair_effect(a, b, design=design) for a, b in pairs]
    # Throughput is the number of queries over the sum of their times.
    rates = [math.log(float(np.mean(a)) / float(np.mean(b))) for a, b in pairs]
    judged = partial(verdict_from_effects, design=design, margin=margin)
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        design=design,
        verdicts=(
            judged(effects, metric=metric),
            judged(rates, metric="throughput"),
            *(tail_verdict(pairs, q, design=design, margin=margin) for q in (0.9, 0.99)),
        ),
        detectable=distributions.detectable_effect(effects),
        effects=tuple(effects),
    )


def tail_verdict(
    pairs: Sequence[ColumnPair], q: float, *, design: Design = "duet", margin: float = MARGIN
) -> Verdict:
    """Judge a high percentile by a cluster bootstrap; unclear with too few samples."""
    metric, count = f"p{100 * q:g}", len(pairs)
    sides = [*zip(*pairs, strict=True)]
    found = [quantiles_of(side, [q])[0] for side in sides] if count >= MIN_LAUNCHES else []
    lacking = [each.needed for each in found if each.value is None and each.needed is not None]
    if not found or lacking:
        launches, reason = MIN_LAUNCHES, f"tails need at least {MIN_LAUNCHES} launches"
        if lacking:
            samples = min(sum(map(len, side)) for side in sides)
            launches = math.ceil(count * max(lacking) / samples)
            reason = f"needs {max(lacking)} samples on each side, but has {samples}"
        unclear = Verdict(metric=metric, kind="unclear", reason=reason, design=design)
        return unclear.having(launches=count, launches_needed=launches)
    # Both sides of a launch are divided by the mean of their medians, which removes the machine's
    # drift but not the effect. By the baseline's alone, launches would spread the candidate only,
    # and its tail would look longer.
    size = min(MAX_SAMPLES, *(len(column) for pair in pairs for column in pair))
    levelled = np.empty((2, count, size))
    for k, pair in enumerate(pairs):
        level = math.sqrt(float(np.median(pair[0])) * float(np.median(pair[1])))
        for side, column in enumerate(pair):
            thinned = np.linspace(0, len(column) - 1, size).round().astype(np.int64)
            levelled[side, k] = column[thinned] / level

    def log_ratios(chosen: NDArray[np.int64]) -> Column:
        rows = (side[chosen].reshape(len(chosen), -1) for side in levelled)
        before, after = (np.log(np.quantile(row, q, axis=1, overwrite_input=True)) for row in rows)
        return np.asarray(after - before)

    draws = np.random.default_rng(0).integers(0, count, size=(REPEATS, count))
    step = max(1, 2_000_000 // levelled[0].size)
    drawn = [log_ratios(draws[begin : begin + step]) for begin in range(0, REPEATS, step)]
    # The percentile bootstrap is too narrow with few launches: Student's t widens it. If one launch
    # has the whole tail, it is narrower still, and the launches' own ratios show how they differ.
    error = float(np.concatenate(drawn).std(ddof=1)) * math.sqrt(count / (count - 1))
    before, after = np.log(np.quantile(levelled, q, axis=2))
    error = max(error, float((after - before).std(ddof=1)) / math.sqrt(count))
    ratio = float(log_ratios(np.arange(count, dtype=np.int64)[None])[0])
    rough = distributions.Trimmed(ratio, error, count - 1, count)
    return judge(rough, metric=metric, design=design, margin=margin)


def threshold_of(metric: str, design: Design) -> float:
    """Return the smallest change of a metric that counts as a difference."""
    return BURSTS_THRESHOLD if (metric, design) == (GPU, "bursts") else THRESHOLD


def in_cycles(verdict: Verdict) -> Verdict | None:
    """Return the verdict in clock cycles instead of seconds; ``None`` if clocks are unknown."""
    ratio, interval, clocks = verdict.ratio, verdict.interval, verdict.clock_ratio
    if clocks is None or ratio is None or interval is None:
        return None
    ratio, low, high = (value * clocks for value in (ratio, interval.low, interval.high))
    kind, _ = decide(verdict.metric, *map(math.log, (ratio, low, high)), design=verdict.design)
    # A 99 % interval does not show whether a difference meets the stricter level.
    doubted = verdict.kind == "unclear" and verdict.design in SEQUENTIAL
    return verdict.having(
        metric=f"{verdict.metric}, cycles",
        kind="unclear" if doubted and kind in ("faster", "slower") else kind,
        ratio=ratio,
        interval=interval.having(low=low, high=high),
        reason=f"in clock cycles: the candidate's clock was {clocks:.3f} of the baseline's",
    )


def confirm_in_cycles(verdict: Verdict) -> Verdict:
    """Make a verdict unclear if the difference disappears in clock cycles."""
    cycles = in_cycles(verdict)
    if verdict.kind not in ("faster", "slower") or not cycles or cycles.kind == verdict.kind:
        return verdict
    reason = f"{verdict.reason}; in clock cycles it is {cycles.kind}: the clocks differ"
    return verdict.having(kind="unclear", reason=reason, launches_needed=None)


def correct_for_many(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Apply Holm's correction for several candidates; other differences become unclear."""
    corrected, p = list(verdicts), 0.0
    chances = [1.0 if verdict.p is None else verdict.p for verdict in verdicts]
    for position, index in enumerate(np.argsort(np.asarray(chances), kind="stable").tolist()):
        p = max(p, min(1.0, (len(verdicts) - position) * chances[index]))
        verdict = verdicts[index].having(p=p)
        untested = verdict.kind not in ("faster", "slower") or verdict.across_devices is not None
        if not untested and p >= 1 - distributions.LEVEL:
            reason = f"{verdict.reason}; not significant among {len(verdicts)} comparisons"
            verdict = verdict.having(kind="unclear", reason=reason)
        corrected[index] = verdict
    return corrected


def launches_hint(needed: int | None) -> str:
    """Return how many launches would make an unclear verdict clear, as the end of a sentence."""
    if not needed:
        return ""
    if needed > MAX_LAUNCHES:
        return f"; too noisy: more than {MAX_LAUNCHES} launches would be needed"
    return f"; about {needed} launches would decide it"


def incomparable(metric: str, *, reason: str, design: Design = "apart") -> Verdict:
    return Verdict(metric=metric, kind="incomparable", reason=reason, design=design)


def pair_effect(baseline: Column, candidate: Column, *, design: Design = "duet") -> float:
    """Return one launch's log-ratio: the median over pairs in a duet, else of two medians."""
    if design == "duet":
        return float(np.median(np.log(candidate / baseline)))
    return math.log(float(np.median(candidate)) / float(np.median(baseline)))


def launches_to_reach(
    goal: float, *, half: float, count: int, level: float = distributions.LEVEL
) -> int:
    """Return the launches needed to shrink an interval's half width to the goal."""

    def factor(launches: int) -> float:
        df = max(1, launches - 2 * distributions.trimmed_count(launches) - 1)
        return distributions.t_quantile((1 + level) / 2, df=df) / math.sqrt(launches)

    more, farthest = count + 1, 10 * MAX_LAUNCHES
    while more < farthest and factor(more) * half / factor(count) >= goal:
        more = max(more + 1, math.ceil(more * 1.05))
    return min(more, farthest)


def shared_columns(baseline: IterationTimes, candidate: IterationTimes) -> list[str]:
    other = candidate.durations()
    return [name for name in baseline.durations() if name in other]


def metric_of_both(
    baseline: IterationTimes, candidate: IterationTimes, found: Differences = ()
) -> str:
    """Return the headline metric of a comparison: the common one, else GPU time."""
    refused = refused_headline(baseline, candidate, found, design="apart") is not None
    usable = GPU in shared_columns(baseline, candidate) and not blocking_reasons(found, metric=GPU)
    return GPU if refused and usable else baseline.headline


def refused_headline(
    baseline: IterationTimes, candidate: IterationTimes, found: Differences, *, design: Design
) -> Verdict | None:
    """Return why the headline cannot be compared, as a verdict; ``None`` if it can."""
    headline = baseline.headline
    reason = blocking_reasons(found, metric=headline)
    if candidate.headline != headline:
        other = candidate.headline
        reason = f"{headline} was not measured on both sides: the candidate has {other}"
    return incomparable(headline, reason=reason, design=design) if reason else None


def alone_effects(baseline: Launches, candidate: Launches) -> tuple[float, ...]:
    """Return ln(candidate / baseline) of the queries alone, per launch that has them."""
    effects = []
    for first, second in zip(baseline, candidate, strict=False):
        a, b = np.asarray(first.alone_s), np.asarray(second.alone_s)
        if len(a) and len(b):
            effects.append(pair_effect(a, b, design="duet" if len(a) == len(b) else "launches"))
    return tuple(effects)


def interference(baseline: Run, candidate: Run) -> tuple[float, float] | None:
    """Return how much slower each side was in turns than alone; ``None`` if not measured."""
    moved = []
    for run in (baseline, candidate):
        if run.record.duet is None or run.times.host is None:
            return None
        ratios = [
            float(np.median(part)) / facts.solo_median_s - 1
            for part, facts in zip(run.times.by_launch("host"), run.record.launches, strict=False)
            if facts.solo_median_s and len(part)
        ]
        if not ratios:
            return None
        moved.append(float(np.median(ratios)))
    return moved[0], moved[1]


def check_alone(comparison: Comparison, alone: Effects, *, margin: float = MARGIN) -> Comparison:
    """Make verdicts unclear that the queries alone contradict, and add the verdict on those."""
    verdicts = comparison.verdicts
    if not verdicts:
        return comparison
    held, by_itself = checked_alone(verdicts[0], alone, margin=margin)
    if held is not verdicts[0]:
        verdicts = tuple(_as_unclear(each, held.reason) for each in verdicts)
    return comparison.having(verdicts=verdicts, alone=by_itself)


def checked_alone(
    head: Verdict, alone: Effects, *, margin: float = MARGIN
) -> tuple[Verdict, Verdict | None]:
    """Return the verdict, unclear if the queries alone contradict it, and the verdict on those."""
    if not alone:
        return head, None
    by_itself = verdict_from_effects(alone, metric=head.metric, design=head.design, margin=margin)
    reason = contradiction(head, by_itself)
    return (head if reason is None else _as_unclear(head, reason)), by_itself


def contradiction(head: Verdict, alone: Verdict) -> str | None:
    """Return why two verdicts contradict each other; ``None`` if their intervals overlap."""
    if alone.kind in ("unclear", "incomparable", head.kind) or head.kind == "incomparable":
        return None
    if head.interval is None or alone.interval is None or alone.ratio is None or head.ratio is None:
        return None
    one, other = head.interval, alone.interval
    if one.low <= other.high and other.low <= one.high:
        return None
    ratios = (text_from_fraction(ratio - 1, signed=True) for ratio in (head.ratio, alone.ratio))
    return "{} in turns, but {} alone: taking turns changed what was measured".format(*ratios)


def _as_unclear(verdict: Verdict, reason: str) -> Verdict:
    if verdict.kind == "incomparable":
        return verdict
    return verdict.having(kind="unclear", interval=None, reason=reason, launches_needed=None)


def burst_effects(baseline: Launches, candidate: Launches) -> tuple[float, ...]:
    """Return the median ln(candidate / baseline) of the bursts, per launch that has them."""
    return tuple(
        pair_effect(np.asarray(a.burst_s), np.asarray(b.burst_s))
        for a, b in zip(baseline, candidate, strict=False)
        if a.burst_s and len(a.burst_s) == len(b.burst_s)
    )


def effects_by_load_order(baseline: Launches, candidate: Launches) -> tuple[float, ...]:
    """Return ln(candidate / baseline) of launches at the same position of the load order.

    The position of an engine in memory depends on the load order alone, so its effect cancels.
    Empty unless every launch has a counterpart.
    """
    sides = []
    for side in (baseline, candidate):
        placed = sorted(
            (each for each in side if each.burst_s),
            key=lambda each: -1 if each.load_order is None else each.load_order,
        )
        sides.append(([each.load_order for each in placed], _levels(placed)))
    (places, first), (others, second) = sides
    if places != others or None in places:
        return ()
    return tuple(after - before for before, after in zip(first, second, strict=True))


def burst_verdict(
    baseline: Launches, candidate: Launches, *, single_effects: Effects = (), margin: float = MARGIN
) -> Verdict | None:
    """Judge GPU time by bursts; ``None`` without bursts.

    ``single_effects`` are the effects on the GPU time of single queries: if these contradict the
    bursts, or the GPU waited for the host, the verdict is unclear.
    """
    effects = burst_effects(baseline, candidate)
    if not effects:
        return None
    judged = partial(verdict_from_effects, metric=GPU, design="bursts", margin=margin)
    placed = effects_by_load_order(baseline, candidate)
    if not placed or np.std(placed) > SAME_BY_ORDER * np.std(effects):
        placed = ()
    apart = distributions.difference(*map(_levels, (baseline, candidate)))
    verdict = judged(effects, alternatives=(apart, distributions.trimmed(placed)))
    for name, launches in (("baseline", baseline), ("candidate", candidate)):
        parts = [
            each.burst_enqueue_s / float(np.median(each.burst_s))
            for each in launches
            if each.burst_s and each.burst_enqueue_s
        ]
        if parts and float(np.median(parts)) >= ENQUEUE_BOUND:
            return _as_unclear(
                verdict,
                f"the GPU waited for the host: enqueueing takes {100 * np.median(parts):.0f} % of "
                f"a query of the {name}, so its GPU time is unknown",
            )
    single = judged(single_effects) if single_effects else None
    if single is None or contradiction(verdict, single) is None:
        return verdict
    ratios = (verdict.ratio or 1.0, single.ratio or 1.0)
    if abs(math.log(ratios[0] / ratios[1])) < BURSTS_THRESHOLD:
        return verdict
    one, other = (text_from_fraction(ratio - 1, signed=True) for ratio in ratios)
    reason = f"{one} in bursts, but {other} in single queries: it depends on the use"
    return _as_unclear(verdict, reason)


def _levels(launches: Launches) -> list[float]:
    """Return the logarithm of each launch's median burst time."""
    return [float(np.log(np.median(each.burst_s))) for each in launches if each.burst_s]
