"""Verdicts: faster, slower, same, unclear or incomparable, with what they rest on.

The launch is the unit: per launch one effect, over launches Yuen's trimmed t at 99 %. An effect
counts from 1 % on; "same" means that the whole interval lies within the margin, never that a
test found nothing. Tails are compared by a cluster bootstrap: launches are drawn, not samples,
because samples of one launch share its fate.

Sides that took turns also ran alone, and a verdict that the times alone contradict is withdrawn.
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
    holm,
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
GATE = 0.01
"""Effects below 1 % are not called a difference (measured: 0 of 40 000 equal pairs were)."""
BURSTS_GATE = 0.005
"""The same for GPU times of bursts: launches agree within 0.1 to 0.8 %."""
MARGIN = 0.02
"""The same means: within 2 %, interval and all."""
WIDEST = math.log(1e6)
"""An interval that reaches a millionfold says that nothing is known; more would be noise."""
WORTHLESS = math.log(100)
"""An interval that spans more than a hundredfold and decides nothing is not shown: a reader takes
its ends for numbers."""
LOOKED_AT: tuple[Design, ...] = ("duet", "launches", "bursts")
SURE = 0.998
"""A difference must be this sure where launches are added and looked at again while unclear: each
look is another chance to be wrong. What is the same needs no such care: its interval is narrow."""
NEARLY = "99 % sure of a difference; 99.8 % is needed, because results are checked repeatedly"
MEANING = f"{100 * LEVEL:g} % for the ratio over fresh launches on this machine"
WORTH_WHILE = 1000
"""Launches beyond which an answer is not worth waiting for."""
_FARTHEST = 10 * WORTH_WHILE

REPEATS = 2000

FEWEST_LAUNCHES = 5
"""With fewer launches there are too few ways to draw them."""
MOST_SAMPLES = 2000
"""Per launch and side; more do not help, because launches are what differs."""
REPEATED = 0.5
"""Effects by place count where they lie at most so much as far apart as those by launch: places
repeat then. Where they do not, each way of looking is another chance to be wrong."""
BOUND = 0.9
"""Enqueueing that takes so much of a query's time keeps the GPU waiting."""

Better = Literal["low", "high"]
ColumnPair = tuple[Column, Column]
"""Times of baseline and candidate in one launch."""


def bootstrap_ratios(
    pairs: Sequence[ColumnPair], quantiles: Sequence[float]
) -> tuple[Column, Column] | None:
    """Compute ln-ratios of quantiles, and the same for redrawn launches (repeats x quantiles).

    Each launch is divided by its baseline's median, which takes the machine's drift out and
    leaves the effect in.
    """
    if len(pairs) < FEWEST_LAUNCHES:
        return None
    size = min(MOST_SAMPLES, *(len(side) for pair in pairs for side in pair))
    levelled = np.empty((2, len(pairs), size))
    for k, pair in enumerate(pairs):
        for side, column in enumerate(pair):
            thinned = np.linspace(0, len(column) - 1, size).round().astype(np.int64)
            levelled[side, k] = column[thinned] / float(np.median(pair[0]))

    def log_ratios(chosen: NDArray[np.int64]) -> Column:
        rows = [side[chosen].reshape(len(chosen), -1) for side in levelled]
        ranks = [rank(rows[0].shape[1], q) - 1 for q in quantiles]
        before, after = (
            np.log(np.partition(side, sorted(set(ranks)), axis=1)[:, ranks]) for side in rows
        )
        return np.asarray(after - before)

    draws = np.random.default_rng(0).integers(0, len(pairs), size=(REPEATS, len(pairs)))
    step = max(1, 2_000_000 // levelled[0].size)
    drawn = [log_ratios(draws[begin : begin + step]) for begin in range(0, REPEATS, step)]
    return log_ratios(np.arange(len(pairs), dtype=np.int64)[None])[0], np.concatenate(drawn)


def samples_lacking(pairs: Sequence[ColumnPair], quantiles: Sequence[float]) -> dict[float, int]:
    """Quantiles that a side has too few samples for, each with how many it needs.

    What is not known of a side, its own table does not show, and no ratio may be made of.
    """
    lacking: dict[float, int] = {}
    for side in zip(*pairs, strict=True):
        for each in quantiles_of(side, quantiles):
            if each.value is None and each.needed is not None:
                lacking[each.q] = max(each.needed, lacking.get(each.q, 0))
    return lacking


def verdict_from_effects(
    effects: Sequence[float],
    *,
    metric: str = "host",
    better: Better = "low",
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
        return Verdict(
            metric=metric,
            kind="unclear",
            ratio=math.exp(effects[0]) if effects else None,
            interval=None,
            reason="one launch tells nothing about repeatability",
            launches=len(effects),
            launches_needed=FEWEST_LAUNCHES,
            design=design,
        )
    ways = (estimate, *(each for each in otherwise if each is not None))
    estimate = replace(min(ways, key=_half_width), count=estimate.count)
    return judge(estimate, metric=metric, better=better, design=design, gate=gate, margin=margin)


def judge(
    estimate: Trimmed,
    *,
    metric: str,
    better: Better = "low",
    design: Design = "duet",
    gate: float = GATE,
    margin: float = MARGIN,
    widen: float = 0.0,
    meaning: str = MEANING,
) -> Verdict:
    """Turn an estimated log-ratio into a verdict; ``widen`` is added to both ends."""
    low, high = estimate.interval()
    low, high = low - widen, high + widen
    kind, reason = decide(estimate.mean, low, high, better=better, gate=gate, margin=margin)
    sure = design not in LOOKED_AT or abs(estimate.mean) > _half_width(estimate)
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
            half = _half_width(estimate, level)
            needed = launches_to_reach(goal, half=half, count=estimate.count, level=level)
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


def _half_width(estimate: Trimmed, level: float = SURE) -> float:
    low, high = estimate.interval(level=level)
    return (high - low) / 2


def decide(
    effect: float,
    low: float,
    high: float,
    *,
    better: Better = "low",
    gate: float = GATE,
    margin: float = MARGIN,
) -> tuple[Literal["same", "faster", "slower", "unclear"], str]:
    """Decide from a log-ratio and its interval; the second value says why."""
    excludes_zero = low > 0 or high < 0
    if excludes_zero and abs(math.expm1(effect)) >= gate:
        slower = (effect > 0) == (better == "low")
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
        judged(rates, metric="throughput", better="high"),
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
    """Judge a high percentile by a cluster bootstrap over launches.

    One that a side has too few samples for gets no ratio: it would be one of two extremes.
    """
    metric, count = f"p{100 * q:g}", len(pairs)
    found = bootstrap_ratios(pairs, [q])
    needed = samples_lacking(pairs, [q]).get(q) if found is not None else None
    if found is not None and needed is None:
        # The percentile bootstrap is too narrow for few launches: Student's t widens it.
        error = float(found[1][:, 0].std(ddof=1)) * math.sqrt(count / (count - 1))
        rough = Trimmed(float(found[0][0]), error, count - 1, count)
        return judge(rough, metric=metric, design=design, margin=margin)
    launches, reason = FEWEST_LAUNCHES, f"tails need at least {FEWEST_LAUNCHES} launches"
    if needed is not None:
        samples = min(sum(map(len, side)) for side in zip(*pairs, strict=True))
        launches = math.ceil(count * needed / samples)
        reason = f"needs n={needed} on each side, and {samples} were taken"
    unclear = incomparable(metric, reason=reason, design=design)
    return unclear.having(kind="unclear", launches=count, launches_needed=launches)


def gate_of(verdict: Verdict) -> float:
    """Find the least change that a verdict calls a difference."""
    return BURSTS_GATE if (verdict.metric, verdict.design) == ("gpu", "bursts") else GATE


def kind_in_cycles(verdict: Verdict, *, clock_ratio: float) -> VerdictKind | None:
    """Judge again with times counted in cycles of a clock, the candidate's over the baseline's."""
    if verdict.ratio is None or verdict.interval is None:
        return None
    values = (verdict.ratio, verdict.interval.low, verdict.interval.high)
    effect, low, high = (math.log(value) + math.log(clock_ratio) for value in values)
    kind = decide(effect, low, high, gate=gate_of(verdict))[0]
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
    adjusted = holm([1.0 if verdict.p is None else verdict.p for verdict in verdicts])
    corrected = []
    for verdict, p in zip(verdicts, adjusted, strict=True):
        untested = verdict.kind not in ("faster", "slower") or verdict.across_devices is not None
        if untested or p < 1 - LEVEL:
            corrected.append(verdict.having(p=p))
        else:
            reason = f"{verdict.reason}; not after correction for {len(verdicts)} comparisons"
            corrected.append(verdict.having(kind="unclear", reason=reason, p=p))
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
    return Verdict(
        metric=metric,
        kind="incomparable",
        ratio=None,
        interval=None,
        reason=reason,
        launches=0,
        design=design,
    )


def pair_effect(baseline: Column, candidate: Column, *, design: Design = "duet") -> float:
    """Compute one launch's log-ratio: the median of pairs where rows pair, else of two medians."""
    if design == "duet":
        return float(np.median(np.log(np.asarray(candidate) / np.asarray(baseline))))
    return math.log(float(np.median(candidate)) / float(np.median(baseline)))


def launches_to_reach(goal: float, *, half: float, count: int, level: float = LEVEL) -> int:
    """Count the launches with which an interval that is so wide with ``count`` would be narrower.

    The spread stays what it is; what shrinks is the error, and with few launches Student's factor.
    """

    def factor(launches: int) -> float:
        df = max(1, launches - 2 * trimmed_count(launches) - 1)
        return t_quantile((1 + level) / 2, df=df) / math.sqrt(launches)

    more = count + 1
    while more < _FARTHEST:
        if factor(more) * half / factor(count) < goal:
            return more
        more = max(more + 1, math.ceil(more * 1.05))
    return _FARTHEST


def shared_columns(baseline: IterationTimes, candidate: IterationTimes) -> list[str]:
    """List the times that both sides have, in the order of the first."""
    other = candidate.durations()
    return [name for name in baseline.durations() if name in other]


def metric_of_both(
    baseline: IterationTimes, candidate: IterationTimes, found: Collection[Difference] = ()
) -> str:
    """Choose what the sides are judged by: the headline they share, else GPU time."""
    refused = _headline_reason(baseline, candidate, found) is not None
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
    reason = _headline_reason(baseline, candidate, found)
    return incomparable(baseline.headline, reason=reason, design=design) if reason else None


def _headline_reason(
    baseline: IterationTimes, candidate: IterationTimes, found: Collection[Difference]
) -> str | None:
    headline = baseline.headline
    if candidate.headline != headline:
        return f"{headline} was not measured on both sides: the candidate has {candidate.headline}"
    return blocking_reasons(found, metric=headline)


def alone_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute ln(candidate / baseline) of the times alone, one per launch that has them.

    Blocks that alternated are paired; else the medians are compared.
    """
    return tuple(
        pair_effect(
            np.asarray(a.alone_s),
            np.asarray(b.alone_s),
            design="duet" if len(a.alone_s) == len(b.alone_s) else "launches",
        )
        for a, b in zip(baseline, candidate, strict=False)
        if a.alone_s and b.alone_s
    )


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
    if not comparison.verdicts:
        return comparison
    head = comparison.verdicts[0]
    held, by_itself = held_to_alone(head, alone, margin=margin)
    verdicts = comparison.verdicts
    if held is not head:
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
    """Logarithm of each launch's time: processes place an engine in memory for themselves.

    A clock that drifts from launch to launch is in them, and not in the ratio of the two sides.
    """
    return [float(np.log(np.median(each.burst_s))) for each in launches if each.burst_s]
