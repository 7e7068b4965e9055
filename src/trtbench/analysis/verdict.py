"""Verdicts: faster, slower, same, unclear or incomparable, with what they rest on.

The launch is the unit: per launch one effect, over launches Yuen's trimmed t at 99 %. An effect
counts from 1 % on; "same" means that the whole interval lies within the margin, never that a
test found nothing. Tails are compared by a cluster bootstrap: launches are drawn, not samples,
because samples of one launch share its fate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.comparability import Difference, blocking_reasons
from trtbench.analysis.distributions import (
    LEVEL,
    Trimmed,
    detectable_effect,
    difference,
    t_quantile,
    trimmed,
    trimmed_count,
)
from trtbench.analysis.summary import quantiles_of, rank
from trtbench.core.results import Comparison, Design, Verdict, VerdictKind
from trtbench.core.run import Interval, LaunchFacts, Run
from trtbench.core.samples import Column, IterationTimes
from trtbench.core.units import text_from_fraction

GPU = "gpu"
GATE = 0.01  # smaller effects are no difference (measured: 0 of 40 000 equal pairs were)
BURSTS_GATE = 0.005  # the same for GPU times of bursts: launches agree within 0.1 to 0.8 %
MARGIN = 0.02  # the same means: within 2 %, interval and all
WIDEST = math.log(1e6)  # an interval that reaches a millionfold shows that nothing is known
WORTHLESS = math.log(100)  # a wider interval that decides nothing is not shown
LOOKED_AT: tuple[Design, ...] = ("duet", "launches", "bursts")
SURE = 0.998  # of differences, where launches are added while unclear: each look is a chance
NEARLY = "99 % sure of a difference; 99.8 % is needed, because results are checked repeatedly"
MEANING = f"{100 * LEVEL:g} % for the ratio over fresh launches on this machine"
WORTH_WHILE = 1000  # launches beyond which an answer is not worth waiting for
REPEATS = 2000  # of the bootstrap
FEWEST_LAUNCHES = 5  # with fewer launches there are too few ways to draw them
MOST_SAMPLES = 2000  # per launch and side; more do not help, because launches are what differs
REPEATED = 0.5  # places repeat where effects by place lie this much nearer than by launch
BOUND = 0.9  # enqueueing that takes so much of a query's time keeps the GPU waiting

ColumnPair = tuple[Column, Column]  # times of baseline and candidate in one launch


def verdict_from_effects(
    effects: Sequence[float],
    *,
    metric: str = "host",
    design: Design = "duet",
    gate: float = GATE,
    margin: float = MARGIN,
    otherwise: Sequence[Trimmed | None] = (),
) -> Verdict:
    """Judge a metric from one log-ratio per launch.

    ``otherwise`` is the same difference of the same launches, put side by side in other ways: the
    one with which it is known best holds.
    """
    estimate = trimmed([effect for effect in effects if math.isfinite(effect)])
    if estimate is None:
        reason = "one launch says nothing about repeatability"
        ratio, count = math.exp(effects[0]) if effects else None, len(effects)
        unclear = Verdict(metric=metric, kind="unclear", reason=reason, design=design)
        return unclear.having(ratio=ratio, launches=count, launches_needed=FEWEST_LAUNCHES)
    ways = (estimate, *(each for each in otherwise if each is not None))
    best = min(ways, key=lambda way: way.half_width(SURE))
    estimate = replace(best, count=estimate.count)
    return judge(estimate, metric=metric, design=design, gate=gate, margin=margin)


def judge(
    estimate: Trimmed,
    *,
    metric: str,
    design: Design = "duet",
    gate: float = GATE,
    margin: float = MARGIN,
    widen: float = 0.0,
    meaning: str = MEANING,
) -> Verdict:
    """Turn an estimated log-ratio into a verdict; ``widen`` is added to both ends."""
    low, high = estimate.interval()
    low, high = low - widen, high + widen
    kind, reason = decide(metric, estimate.mean, low, high, gate=gate, margin=margin)
    sure = design not in LOOKED_AT or abs(estimate.mean) > estimate.half_width(SURE)
    if kind in ("faster", "slower") and not sure:
        kind, reason = "unclear", NEARLY
    needed: int | None = None
    interval: Interval | None = ratio_interval(low, high, meaning=meaning)
    if kind == "unclear":
        effect = abs(estimate.mean)
        differs = effect if math.expm1(effect) >= gate else 0.0
        goal = max(differs, math.log1p(margin) - effect)
        # Drift does not shrink with more launches, and a margin may be too fine.
        if not widen and goal > 0:
            level = SURE if goal == differs and design in LOOKED_AT else LEVEL
            half, count = estimate.half_width(level), estimate.count
            needed = launches_to_reach(goal, half=half, count=count, level=level)
        if high - low > WORTHLESS:
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
    metric: str,
    effect: float,
    low: float,
    high: float,
    *,
    gate: float = GATE,
    margin: float = MARGIN,
) -> tuple[Literal["same", "faster", "slower", "unclear"], str]:
    """Decide from a log-ratio and its interval; the second value says why."""
    excludes_zero = low > 0 or high < 0
    if excludes_zero and abs(math.expm1(effect)) >= gate:
        slower = (effect > 0) == (metric != "throughput")
        return ("slower" if slower else "faster"), "the interval excludes 0"
    if low > -math.log1p(margin) and high < math.log1p(margin):
        return "same", f"within ±{100 * margin:g} %"
    if excludes_zero:
        return "unclear", f"below the {100 * gate:g} % that counts, but maybe beyond the margin"
    return "unclear", f"the interval includes 0 and is wider than ±{100 * margin:g} %"


def sentence(verdict: Verdict) -> str:
    """Reason of a verdict, after the change and its interval where they are known."""
    if verdict.ratio is None or verdict.interval is None:
        return verdict.reason
    values = (verdict.ratio, verdict.interval.low, verdict.interval.high)
    change, low, high = (text_from_fraction(value - 1, signed=True) for value in values)
    return f"{change} [{low}, {high}]: {verdict.reason}"


def ratio_interval(low: float, high: float, *, meaning: str) -> Interval:
    """Compute the interval of a ratio from that of its logarithm."""
    low, high = (1 + math.expm1(min(max(end, -WIDEST), WIDEST)) for end in (low, high))
    return Interval(low=low, high=high, level=LEVEL, meaning=meaning)


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
    # Of throughput: queries over the sum of their times.
    rates = [math.log(float(np.mean(a)) / float(np.mean(b))) for a, b in pairs]
    judged = partial(verdict_from_effects, design=design, margin=margin)
    verdicts = (
        judged(effects, metric=metric),
        judged(rates, metric="throughput"),
        *(tail_verdict(pairs, q, design=design, margin=margin) for q in (0.9, 0.99)),
    )
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        design=design,
        verdicts=verdicts,
        detectable=detectable_effect(effects),
        effects=tuple(effects),
    )


def tail_verdict(
    pairs: Sequence[ColumnPair], q: float, *, design: Design = "duet", margin: float = MARGIN
) -> Verdict:
    """Judge a high percentile by a cluster bootstrap over launches, with samples enough."""
    metric, count = f"p{100 * q:g}", len(pairs)
    sides = [*zip(*pairs, strict=True)]
    found = [quantiles_of(side, [q])[0] for side in sides] if count >= FEWEST_LAUNCHES else []
    lacking = [each.needed for each in found if each.value is None and each.needed is not None]
    if not found or lacking:
        launches, reason = FEWEST_LAUNCHES, f"tails need at least {FEWEST_LAUNCHES} launches"
        if lacking:
            samples = min(sum(map(len, side)) for side in sides)
            launches = math.ceil(count * max(lacking) / samples)
            reason = f"needs n={max(lacking)} on each side, and {samples} were taken"
        unclear = Verdict(metric=metric, kind="unclear", reason=reason, design=design)
        return unclear.having(launches=count, launches_needed=launches)
    # Each launch is divided by its baseline's median, which takes the machine's drift out and
    # leaves the effect in.
    size = min(MOST_SAMPLES, *(len(column) for pair in pairs for column in pair))
    levelled = np.empty((2, count, size))
    for k, pair in enumerate(pairs):
        for side, column in enumerate(pair):
            thinned = np.linspace(0, len(column) - 1, size).round().astype(np.int64)
            levelled[side, k] = column[thinned] / float(np.median(pair[0]))
    place = rank(count * size, q) - 1

    def log_ratios(chosen: NDArray[np.int64]) -> Column:
        rows = (side[chosen].reshape(len(chosen), -1) for side in levelled)
        before, after = (np.log(np.partition(row, place, axis=1)[:, place]) for row in rows)
        return np.asarray(after - before)

    draws = np.random.default_rng(0).integers(0, count, size=(REPEATS, count))
    step = max(1, 2_000_000 // levelled[0].size)
    drawn = [log_ratios(draws[begin : begin + step]) for begin in range(0, REPEATS, step)]
    # The percentile bootstrap is too narrow for few launches: Student's t widens it.
    error = float(np.concatenate(drawn).std(ddof=1)) * math.sqrt(count / (count - 1))
    ratio = float(log_ratios(np.arange(count, dtype=np.int64)[None])[0])
    rough = Trimmed(ratio, error, count - 1, count)
    return judge(rough, metric=metric, design=design, margin=margin)


def gate_of(verdict: Verdict) -> float:
    """Find the least change that a verdict calls a difference."""
    return BURSTS_GATE if (verdict.metric, verdict.design) == ("gpu", "bursts") else GATE


def kind_in_cycles(verdict: Verdict, *, clock_ratio: float) -> VerdictKind | None:
    """Judge again with times counted in cycles of a clock, the candidate's over the baseline's."""
    if verdict.ratio is None or verdict.interval is None:
        return None
    values = (verdict.ratio, verdict.interval.low, verdict.interval.high)
    effect, low, high = (math.log(value) + math.log(clock_ratio) for value in values)
    kind = decide(verdict.metric, effect, low, high, gate=gate_of(verdict))[0]
    # An interval of 99 % does not show whether a difference is as sure as many looks demand.
    doubted = verdict.kind == "unclear" and verdict.design in LOOKED_AT
    return "unclear" if doubted and kind in ("faster", "slower") else kind


def in_cycles(verdict: Verdict) -> Verdict | None:
    """The same verdict for clock cycles instead of seconds; ``None`` where clocks are unknown."""
    ratio, interval, clocks = verdict.ratio, verdict.interval, verdict.clock_ratio
    if clocks is None or ratio is None or interval is None:
        return None
    return verdict.having(
        metric=f"{verdict.metric}, cycles",
        kind=kind_in_cycles(verdict, clock_ratio=clocks) or verdict.kind,
        ratio=ratio * clocks,
        interval=interval.having(low=interval.low * clocks, high=interval.high * clocks),
        reason=f"counted in cycles: the candidate's clock was {clocks:.3f} of the baseline's",
    )


def confirm_in_cycles(verdict: Verdict, *, clock_ratio: float) -> Verdict:
    """Withdraw a verdict that vanishes when times are counted in clock cycles."""
    kind = kind_in_cycles(verdict, clock_ratio=clock_ratio)
    if verdict.kind not in ("faster", "slower") or kind in (None, verdict.kind):
        return verdict
    reason = f"{verdict.reason}; counted in clock cycles it is {kind}: a clock effect"
    return verdict.having(kind="unclear", reason=reason, launches_needed=None)


def correct_for_many(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Withdraw differences that do not survive Holm's correction for many candidates."""
    corrected, p = list(verdicts), 0.0
    chances = [1.0 if verdict.p is None else verdict.p for verdict in verdicts]
    for position, index in enumerate(np.argsort(np.asarray(chances), kind="stable").tolist()):
        p = max(p, min(1.0, (len(verdicts) - position) * chances[index]))
        verdict = verdicts[index].having(p=p)
        untested = verdict.kind not in ("faster", "slower") or verdict.across_devices is not None
        if not untested and p >= 1 - LEVEL:
            reason = f"{verdict.reason}; not after correction for {len(verdicts)} comparisons"
            verdict = verdict.having(kind="unclear", reason=reason)
        corrected[index] = verdict
    return corrected


def would_tell(needed: int | None) -> str:
    """How many launches would make an unclear answer clear, where that is worth doing."""
    if not needed:
        return ""
    if needed > WORTH_WHILE:
        return f"; more than {WORTH_WHILE} launches would be needed: too noisy to tell"
    return f"; about {needed} launches would tell"


def incomparable(metric: str, *, reason: str, design: Design = "apart") -> Verdict:
    """Refuse a ratio, with the reason."""
    return Verdict(metric=metric, kind="incomparable", reason=reason, design=design)


def pair_effect(baseline: Column, candidate: Column, *, design: Design = "duet") -> float:
    """Compute one launch's log-ratio: the median of pairs where rows pair, else of two medians."""
    if design == "duet":
        return float(np.median(np.log(candidate / baseline)))
    return math.log(float(np.median(candidate)) / float(np.median(baseline)))


def launches_to_reach(goal: float, *, half: float, count: int, level: float = LEVEL) -> int:
    """Count the launches with which an interval of this half width would shrink to the goal."""

    def factor(launches: int) -> float:
        df = max(1, launches - 2 * trimmed_count(launches) - 1)
        return t_quantile((1 + level) / 2, df=df) / math.sqrt(launches)

    more, farthest = count + 1, 10 * WORTH_WHILE
    while more < farthest and factor(more) * half / factor(count) >= goal:
        more = max(more + 1, math.ceil(more * 1.05))
    return min(more, farthest)


def shared_columns(baseline: IterationTimes, candidate: IterationTimes) -> list[str]:
    """List the times that both sides have, in the order of the first."""
    other = candidate.durations()
    return [name for name in baseline.durations() if name in other]


def metric_of_both(
    baseline: IterationTimes, candidate: IterationTimes, found: Collection[Difference] = ()
) -> str:
    """Choose what the sides are judged by: the headline they share, else GPU time."""
    refused = refused_headline(baseline, candidate, found, design="apart") is not None
    usable = GPU in shared_columns(baseline, candidate) and not blocking_reasons(found, metric=GPU)
    return GPU if refused and usable else baseline.headline


def refused_headline(
    baseline: IterationTimes,
    candidate: IterationTimes,
    found: Collection[Difference],
    *,
    design: Design,
) -> Verdict | None:
    """Refuse to judge the sides by what their callers see; ``None`` when that is possible."""
    headline = baseline.headline
    reason = blocking_reasons(found, metric=headline)
    if candidate.headline != headline:
        other = candidate.headline
        reason = f"{headline} was not measured on both sides: the candidate has {other}"
    return incomparable(headline, reason=reason, design=design) if reason else None


def alone_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute ln(candidate / baseline) of the times alone, one per launch that has them."""
    effects = []
    for first, second in zip(baseline, candidate, strict=False):
        a, b = np.asarray(first.alone_s), np.asarray(second.alone_s)
        if len(a) and len(b):
            effects.append(pair_effect(a, b, design="duet" if len(a) == len(b) else "launches"))
    return tuple(effects)


def interference(baseline: Run, candidate: Run) -> tuple[float, float] | None:
    """How much slower each side was in turns than alone; ``None`` where that was not measured."""
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


def hold_to_alone(
    comparison: Comparison, alone: Sequence[float], *, margin: float = MARGIN
) -> Comparison:
    """Withdraw what the times alone contradict, and keep their own verdict beside it."""
    verdicts = comparison.verdicts
    if not verdicts:
        return comparison
    held, by_itself = held_to_alone(verdicts[0], alone, margin=margin)
    if held is not verdicts[0]:
        verdicts = tuple(_withdrawn(each, held.reason) for each in verdicts)
    return comparison.having(verdicts=verdicts, alone=by_itself)


def held_to_alone(
    head: Verdict, alone: Sequence[float], *, margin: float = MARGIN
) -> tuple[Verdict, Verdict | None]:
    """Judge the times alone as those in turns were; gives the verdict that is left, and theirs."""
    if not alone:
        return head, None
    by_itself = verdict_from_effects(alone, metric=head.metric, design=head.design, margin=margin)
    reason = denial(head, by_itself)
    return (head if reason is None else _withdrawn(head, reason)), by_itself


def denial(head: Verdict, alone: Verdict) -> str | None:
    """Why a verdict in turns does not hold alone: another verdict, beyond both intervals."""
    if alone.kind in ("unclear", "incomparable", head.kind) or head.kind == "incomparable":
        return None
    if head.interval is None or alone.interval is None or alone.ratio is None or head.ratio is None:
        return None
    one, other = head.interval, alone.interval
    if one.low <= other.high and other.low <= one.high:
        return None
    ratios = (text_from_fraction(ratio - 1, signed=True) for ratio in (head.ratio, alone.ratio))
    return "{} in turns, but {} alone: taking turns changed what was measured".format(*ratios)


def _withdrawn(verdict: Verdict, reason: str) -> Verdict:
    if verdict.kind == "incomparable":
        return verdict
    return verdict.having(kind="unclear", interval=None, reason=reason, launches_needed=None)


def burst_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute the median ln(candidate / baseline) over the bursts of each launch that has them."""
    return tuple(
        pair_effect(np.asarray(a.burst_s), np.asarray(b.burst_s))
        for a, b in zip(baseline, candidate, strict=False)
        if a.burst_s and len(a.burst_s) == len(b.burst_s)
    )


def placed_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute ln(candidate / baseline) of launches that loaded at the same place of the order.

    Where an engine comes to lie in memory depends on that alone, and what it costs is in neither
    side's favour then. Empty unless every launch has its counterpart.
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
    baseline: Sequence[LaunchFacts],
    candidate: Sequence[LaunchFacts],
    *,
    singly: Sequence[float] = (),
    margin: float = MARGIN,
) -> Verdict | None:
    """Judge GPU time by bursts; ``None`` where there were none.

    ``singly`` are the effects on the GPU time of single queries: where these contradict the
    bursts, or the GPU waited for the host, the verdict is unclear.
    """
    effects = burst_effects(baseline, candidate)
    if not effects:
        return None
    judged = partial(
        verdict_from_effects, metric="gpu", design="bursts", gate=BURSTS_GATE, margin=margin
    )
    placed = placed_effects(baseline, candidate)
    if not placed or np.std(placed) > REPEATED * np.std(effects):
        placed = ()
    apart = difference(*map(_levels, (baseline, candidate)))
    verdict = judged(effects, otherwise=(apart, trimmed(placed)))
    for name, launches in (("baseline", baseline), ("candidate", candidate)):
        parts = [
            each.burst_enqueue_s / float(np.median(each.burst_s))
            for each in launches
            if each.burst_s and each.burst_enqueue_s
        ]
        if parts and float(np.median(parts)) >= BOUND:
            return _withdrawn(
                verdict,
                f"the GPU waited for the host: enqueueing takes {100 * np.median(parts):.0f} % of "
                f"a query of the {name}, and its GPU time is not known",
            )
    single = judged(singly) if singly else None
    if single is None or denial(verdict, single) is None:
        return verdict
    ratios = (verdict.ratio or 1.0, single.ratio or 1.0)
    if abs(math.log(ratios[0] / ratios[1])) < BURSTS_GATE:
        return verdict
    one, other = (text_from_fraction(ratio - 1, signed=True) for ratio in ratios)
    reason = f"{one} in bursts, but {other} in single queries: it depends on how it is used"
    return _withdrawn(verdict, reason)


def _levels(launches: Sequence[LaunchFacts]) -> list[float]:
    """Logarithm of each launch's time, in which a clock is that drifts from launch to launch."""
    return [float(np.log(np.median(each.burst_s))) for each in launches if each.burst_s]
