"""What the rules say of a pair of runs, and what of its verdicts is only the clocks'."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from trtbench.analysis.comparability import CLOCK_TOLERANCE
from trtbench.analysis.findings import findings_from_evidence
from trtbench.analysis.findings.evidence import AccuracyFacts, Evidence, PairFacts
from trtbench.analysis.scores import less_is_better
from trtbench.analysis.turns import interference
from trtbench.analysis.verdict import confirm_in_cycles, kind_in_cycles
from trtbench.domain.comparison import Comparison, Verdict, VerdictKind
from trtbench.domain.result import Run, RunRecord, Score
from trtbench.store.known_scores import known_scores
from trtbench.store.store import Store


def with_findings(
    comparison: Comparison, baseline: Run, candidate: Run, accept: Collection[str]
) -> Comparison:
    """Have the rules look at the pair."""
    parts = interference(baseline, candidate)
    moved = dict(zip(("baseline", "candidate"), parts, strict=True)) if parts else {}
    how = baseline.record.conditions.get("interleaved")
    clocks = _clock(baseline.record), _clock(candidate.record)
    comparison, in_time, in_cycles = _by_clocks(comparison, clocks)
    pair = PairFacts(
        baseline=baseline.record,
        candidate=candidate.record,
        comparison=comparison,
        baseline_clock_hz=clocks[0],
        candidate_clock_hz=clocks[1],
        in_time=in_time,
        in_cycles=in_cycles,
        accept=tuple(accept),
        interference={side: 1 + part for side, part in moved.items()},
        one_process=how is not None and how.value == "one process",
        position_effects=position_effects(baseline, candidate),
    )
    return comparison.having(findings=findings_from_evidence(Evidence(pair=pair)))


def _clock(record: RunRecord) -> float | None:
    """Find the SM clock while it was measured: after bursts, else at the beginning and the end."""
    ends = [record.facts.get(f"sm_clock_{end}_hz") for end in ("before", "after")]
    bursts = [each.burst_clock_hz for each in record.launches if each.burst_clock_hz]
    known = bursts or [float(each) for each in ends if isinstance(each, (int, float)) and each]
    return sum(known) / len(known) if known else None


def _by_clocks(
    comparison: Comparison, clocks: tuple[float | None, float | None]
) -> tuple[Comparison, VerdictKind | None, VerdictKind | None]:
    """Withdraw a verdict on GPU time that is one on clocks; give it in time and in cycles."""
    one, other = clocks
    told = next((each for each in comparison.verdicts if each.metric == "gpu"), None)
    if not one or not other or told is None:
        return comparison, None, None
    seen = told.having(clock_ratio=other / one)
    comparison = _exchanged(comparison, told, seen)
    told = seen
    if abs(other / one - 1) <= CLOCK_TOLERANCE:
        return comparison, None, None
    judged = confirm_in_cycles(told, clock_ratio=other / one)
    if judged is told:
        return comparison, None, None
    in_cycles = kind_in_cycles(told, clock_ratio=other / one)
    return _exchanged(comparison, told, judged), told.kind, in_cycles


def _exchanged(comparison: Comparison, old: Verdict, new: Verdict) -> Comparison:
    verdicts = tuple(new if each is old else each for each in comparison.verdicts)
    return comparison.having(verdicts=verdicts)


def position_effects(baseline: Run, candidate: Run) -> tuple[float, ...]:
    """Compute per launch, ln of the time in second over first place of a pair, over both sides."""
    found = [_position_effect(run) for run in (baseline, candidate)]
    return tuple(sum(both) / 2 for both in zip(*found, strict=False))


def _position_effect(run: Run) -> list[float]:
    second, host, launch = run.times.stamps.get("second"), run.times.host, run.times.launch
    if second is None or host is None or launch is None:
        return []
    effects = []
    for number in np.unique(launch):
        logs, late = np.log(host[launch == number]), second[launch == number] > 0
        if late.any() and not late.all():
            effects.append(float(np.median(logs[late]) - np.median(logs[~late])))
    return effects


def further_findings(
    comparison: Comparison,
    sides: tuple[Run, Run],
    *,
    comparisons: int,
    store: Store,
    accept: Collection[str],
) -> Comparison:
    """Add what only shows beside the pair: other comparisons, and accuracies that were taken."""
    first, second = (run.record for run in sides)
    pair = PairFacts(
        baseline=first, candidate=second, comparisons=comparisons, accept=tuple(accept)
    )
    kept = (known_scores(run, store) for run in sides)
    known = [scores.by_metric() if scores else {} for scores in kept]
    found = [
        finding
        for accuracy in (accuracy_lost(*known) or [None])
        for finding in findings_from_evidence(Evidence(pair=pair, accuracy=accuracy))
        if finding not in comparison.findings
    ]
    unique = {(finding.code, finding.message): finding for finding in found}
    return comparison.having(findings=(*comparison.findings, *unique.values()))


def accuracy_lost(
    baseline: Mapping[str, Score], candidate: Mapping[str, Score]
) -> list[AccuracyFacts | None]:
    """Compare the scores that both sides have; the widths of two intervals add as squares do."""
    lost: list[AccuracyFacts | None] = []
    for metric, before in baseline.items():
        after = candidate.get(metric)
        if after is None or before.interval is None or after.interval is None:
            continue
        drop = before.value - after.value
        if less_is_better(metric):
            drop = -drop
        widths = [(each.interval.high - each.interval.low) / 2 for each in (before, after)
                  if each.interval]  # fmt: skip
        half = math.hypot(*widths)
        lost.append(AccuracyFacts(metric=metric, drop_low=drop - half, drop_high=drop + half))
    return lost
