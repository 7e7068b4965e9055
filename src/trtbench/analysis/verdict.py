"""Verdicts: faster, slower, same, unclear or incomparable, with what they rest on.

The launch is the unit: per launch one effect, over launches Yuen's trimmed t at 99 %. An effect
counts from 1 % on; "same" means that the whole interval lies within the margin, never that a
test found nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from trtbench.analysis.distributions import t_quantile
from trtbench.analysis.robust import LEVEL, Trimmed, detectable_effect, holm, trimmed, trimmed_count
from trtbench.analysis.tails import (
    FEWEST_LAUNCHES,
    ColumnPair,
    bootstrap_ratios,
    cliffs_delta,
    faster_share,
    samples_lacking,
    shift_function,
)
from trtbench.domain.comparison import Comparison, Design, Verdict, VerdictKind
from trtbench.domain.result import Interval
from trtbench.domain.samples import Column
from trtbench.units import text_from_fraction

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
NEARLY = "99 % sure of a difference, and 99.8 % is asked for where launches are looked at often"
MEANING = f"{100 * LEVEL:g} % for the ratio over fresh launches on this machine"
Better = Literal["low", "high"]


def launch_effect(baseline: Column, candidate: Column) -> float:
    """Compute the median of ln(candidate / baseline) over the pairs of one launch."""
    return float(np.median(np.log(np.asarray(candidate) / np.asarray(baseline))))


def throughput_effect(baseline: Column, candidate: Column) -> float:
    """Compute ln of the ratio of rates in one launch: queries over the sum of their times."""
    return math.log(float(np.mean(baseline)) / float(np.mean(candidate)))


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
        ratio = math.exp(effects[0]) if effects else None
        return Verdict(
            metric=metric,
            kind="unclear",
            ratio=ratio,
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
    if kind in ("faster", "slower") and design in LOOKED_AT and not _surely(estimate):
        kind, reason = "unclear", NEARLY
    needed, interval = None, None
    if kind == "unclear":
        strict = SURE if design in LOOKED_AT else LEVEL
        needed = _needed(estimate, gate=gate, margin=margin, widen=widen, levels=(LEVEL, strict))
    if kind == "unclear" and high - low > WORTHLESS:
        reason = f"{estimate.count} launches differ too much to tell an interval"
    else:
        interval = ratio_interval(low, high, meaning=meaning)
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


def _surely(estimate: Trimmed) -> bool:
    return abs(estimate.mean) > _half_width(estimate)


def _half_width(estimate: Trimmed) -> float:
    low, high = estimate.interval(level=SURE)
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
    """Decide from a log-ratio and its interval, and say why in words; the numbers stand beside."""
    excludes_zero = low > 0 or high < 0
    if excludes_zero and abs(math.expm1(effect)) >= gate:
        slower = (effect > 0) == (better == "low")
        return ("slower" if slower else "faster"), "the interval excludes no change"
    if low > -math.log1p(margin) and high < math.log1p(margin):
        return "same", f"within ±{100 * margin:g} %"
    if excludes_zero:
        return ("unclear", f"below the {100 * gate:g} % that counts, but maybe beyond the margin")
    return "unclear", f"the interval holds no change and more than ±{100 * margin:g} %"


def sentence(verdict: Verdict) -> str:
    """Say why, with the change and its interval before it where they are known."""
    if verdict.ratio is None or verdict.interval is None:
        return verdict.reason
    ends = (verdict.interval.low, verdict.interval.high)
    low, high = (text_from_fraction(end - 1, signed=True) for end in ends)
    change = text_from_fraction(verdict.ratio - 1, signed=True)
    return f"{change} [{low}, {high}]: {verdict.reason}"


def ratio_interval(low: float, high: float, *, meaning: str) -> Interval:
    """Compute the interval of a ratio from that of its logarithm."""
    return Interval(low=1 + _expm1(low), high=1 + _expm1(high), level=LEVEL, meaning=meaning)


def duet_comparison(
    pairs: Sequence[ColumnPair],
    *,
    baseline: str,
    candidate: str,
    metric: str = "host",
    design: Design = "duet",
    margin: float = MARGIN,
) -> Comparison:
    """Compare two sides measured in turn: median, tails, throughput and the whole shape."""
    effects = [pair_effect(a, b, design=design) for a, b in pairs]
    rates = [throughput_effect(a, b) for a, b in pairs]
    verdicts = [
        verdict_from_effects(effects, metric=metric, design=design, margin=margin),
        verdict_from_effects(
            rates, metric="throughput", better="high", design=design, margin=margin
        ),
        *(tail_verdict(pairs, q, design=design, margin=margin) for q in (0.9, 0.99)),
    ]
    paired = design == "duet" and all(len(a) == len(b) for a, b in pairs)
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        design=design,
        verdicts=tuple(verdicts),
        shift=shift_function(pairs),
        faster_share=faster_share(pairs) if paired else None,
        cliffs_delta=cliffs_delta(pairs) if paired else None,
        detectable=detectable_effect(effects),
        effects=tuple(effects),
    )


def tail_verdict(
    pairs: Sequence[ColumnPair], q: float, *, design: Design = "duet", margin: float = MARGIN
) -> Verdict:
    """Judge a high percentile by a cluster bootstrap over launches.

    One that a side has too few samples for gets no ratio: it would be one of two extremes.
    """
    metric = f"p{100 * q:g}"
    found = bootstrap_ratios(pairs, [q])
    needed = samples_lacking(pairs, [q]).get(q) if found is not None else None
    if found is None or needed is not None:
        launches, reason = FEWEST_LAUNCHES, f"tails need at least {FEWEST_LAUNCHES} launches"
        if needed is not None:
            samples = min(sum(map(len, side)) for side in zip(*pairs, strict=True))
            launches = math.ceil(len(pairs) * needed / samples)
            reason = f"needs n={needed} on each side, and {samples} were taken"
        return Verdict(
            metric=metric,
            kind="unclear",
            ratio=None,
            interval=None,
            reason=reason,
            launches=len(pairs),
            launches_needed=launches,
            design=design,
        )
    effect, drawn = float(found[0][0]), found[1][:, 0]
    spread = float(drawn.std(ddof=1))
    # The percentile bootstrap is too narrow for few launches: Student's t widens it.
    rough = Trimmed(effect, spread * math.sqrt(len(pairs) / (len(pairs) - 1)), len(pairs) - 1,
                    len(pairs))  # fmt: skip
    return judge(rough, metric=metric, design=design, margin=margin)


def gate_of(verdict: Verdict) -> float:
    """Find the least change that a verdict calls a difference."""
    return BURSTS_GATE if (verdict.metric, verdict.design) == ("gpu", "bursts") else GATE


def kind_in_cycles(verdict: Verdict, *, clock_ratio: float) -> VerdictKind | None:
    """Judge again with times counted in cycles of a clock, the candidate's over the baseline's."""
    if verdict.ratio is None or verdict.interval is None:
        return None
    shift = math.log(clock_ratio)
    ends = (math.log(end) + shift for end in (verdict.interval.low, verdict.interval.high))
    kind = decide(math.log(verdict.ratio) + shift, *ends, gate=gate_of(verdict))[0]
    # An interval of 99 % does not tell whether a difference is as sure as many looks demand.
    doubted = verdict.kind == "unclear" and verdict.design in LOOKED_AT
    return "unclear" if doubted and kind in ("faster", "slower") else kind


def in_cycles(verdict: Verdict) -> Verdict | None:
    """Say the same of clock cycles as of seconds; ``None`` where nobody saw the clocks."""
    ratio, interval, clocks = verdict.ratio, verdict.interval, verdict.clock_ratio
    if clocks is None or ratio is None or interval is None:
        return None
    low, high = interval.low * clocks, interval.high * clocks
    return verdict.having(
        metric=f"{verdict.metric}, cycles",
        kind=kind_in_cycles(verdict, clock_ratio=clocks) or verdict.kind,
        ratio=ratio * clocks,
        interval=interval.having(low=low, high=high),
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
        kept = verdict.kind not in ("faster", "slower") or p < 1 - LEVEL
        kept = kept or verdict.across_devices is not None  # no test was made that could be many
        if kept:
            corrected.append(verdict.having(p=p))
            continue
        reason = f"{verdict.reason}; not after correction for {len(verdicts)} comparisons"
        corrected.append(verdict.having(kind="unclear", reason=reason, p=p))
    return corrected


WORTH_WHILE = 1000
"""Launches beyond which nobody waits for an answer."""
_FARTHEST = 10 * WORTH_WHILE


def would_tell(needed: int | None) -> str:
    """Say how many launches would turn an unclear answer into one, where that is worth doing."""
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


def pair_effect(baseline: Column, candidate: Column, *, design: Design) -> float:
    """Compute one launch's log-ratio: of pairs where rows pair, else of the two medians."""
    if design == "duet":
        return launch_effect(baseline, candidate)
    return math.log(float(np.median(candidate)) / float(np.median(baseline)))


def launches_to_reach(goal: float, *, half: float, count: int, level: float = LEVEL) -> int:
    """Count the launches with which an interval that is so wide with ``count`` would be narrower.

    The spread stays what it is; what shrinks is the error, and with few launches Student's factor.
    """
    spread = half / _t_factor(count, level) * math.sqrt(count)
    more = count + 1
    while more < _FARTHEST:
        if _t_factor(more, level) * spread / math.sqrt(more) < goal:
            return more
        more = max(more + 1, math.ceil(more * 1.05))
    return _FARTHEST


def _t_factor(count: int, level: float) -> float:
    return t_quantile((1 + level) / 2, df=max(1, count - 2 * trimmed_count(count) - 1))


def _needed(
    estimate: Trimmed, *, gate: float, margin: float, widen: float, levels: tuple[float, float]
) -> int | None:
    """Count launches that would decide, if the effect is what it seems: the same, or a difference.

    Both have a level of their own.

    ``None`` where no number would: drift does not shrink, and a margin may be too fine.
    """
    effect = abs(estimate.mean)
    differs = effect if math.expm1(effect) >= gate else 0.0
    goal = max(differs, math.log1p(margin) - effect)
    if widen or goal <= 0:
        return None
    level = levels[goal == differs]
    low, high = estimate.interval(level=level)
    return launches_to_reach(goal, half=(high - low) / 2, count=estimate.count, level=level)


def _expm1(value: float) -> float:
    return math.expm1(min(max(value, -WIDEST), WIDEST))
