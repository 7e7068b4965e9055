"""Rules on the samples themselves: enough, steady, of one kind: H13 to H19, H41."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.findings.evidence import Evidence, known
from trtbench.analysis.findings.rule import Hit, Limits, rounded, rule
from trtbench.analysis.modes import Modes, modes, worst
from trtbench.domain.samples import Column
from trtbench.units import text_from_seconds

TAILS = (0.9, 0.95, 0.99, 0.999)


@rule(
    "H13",
    "too few samples",
    severity="note",
    when="a percentile needs more effective samples than there are (its cell stays empty); a "
    "warning with two or more but fewer than {launches:.0f} launches, {pair:.0f} in a comparison",
    source="order statistics; Student's t",
    launches=5,
    pair=5,
)
def too_few(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a number that was asked for cannot be given."""
    if e.summary is not None and e.summary.columns:
        yield from _missing_percentiles(e.summary.column(e.summary.headline))
        if 1 < e.summary.launches < at["launches"]:
            yield _few_launches(e.summary.launches, at["launches"], concerns=e.summary.headline)
    comparison = e.pair.comparison if e.pair else None
    if comparison is not None and comparison.design != "apart":
        count = len(comparison.effects)
        if 0 < count < at["pair"]:
            yield _few_launches(count, at["pair"], concerns=None)


def _missing_percentiles(head: ColumnSummary) -> Iterator[Hit]:
    missing = [quantile for quantile in head.quantiles if quantile.value is None]
    missing = [quantile for quantile in missing if quantile.q in TAILS]
    if missing:
        names = ", ".join(quantile.name for quantile in missing)
        yield Hit(
            message=f"{names} not shown: {head.count} samples, as correlated as these, are too few",
            evidence={quantile.name: quantile.needed for quantile in missing},
            remedy=f"--iterations {missing[-1].needed}",
            concerns=missing[0].name,
        )


def _few_launches(count: int, wanted: float, *, concerns: str | None) -> Hit:
    return Hit(
        severity="warning",
        message=f"{count} launches give only a rough interval",
        evidence={"launches": count},
        remedy=f"--launches {wanted:.0f}",
        concerns=concerns,
    )


@rule(
    "H14",
    "one launch only",
    severity="warning",
    when="all samples come from a single process",
    source="97 to 99 % of the variance lies between launches, measured",
)
def one_launch(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when nothing is known about how well the number repeats."""
    if e.summary is not None and e.summary.columns and e.summary.launches == 1:
        yield Hit(
            message="one launch: another one may differ by more than any interval within it",
            evidence={"launches": 1, "samples": e.summary.columns[0].count},
            remedy="--launches 5",
            concerns=e.summary.headline,
        )


@rule(
    "H15",
    "not stationary",
    severity="warning",
    when="the level changes by more than {change:.0%} within the measured part, or the last third "
    "differs from the first by more than {thirds:.0%} (a note when sides were interleaved)",
    source="Barrett et al. 2017",
    change=0.01,
    thirds=0.02,
)
def not_stationary(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the times moved while they were measured."""
    if e.summary is None or e.times is None or not len(e.times):
        return
    column = e.summary.headline
    moved = [s for s in e.segments if s.kind != "flat" and s.largest_change > at["change"]]
    drifts = [_thirds(part) for part in e.times.by_launch(column)]
    drift = max(known(drifts), key=abs, default=0.0)
    if not moved and abs(drift) <= at["thirds"]:
        return
    change = max((segment.largest_change for segment in moved), default=0.0)
    kinds = ", ".join(sorted({segment.kind for segment in moved})) or "drift"
    yield Hit(
        severity="note" if e.interleaved else None,
        message=f"the level moved while measuring ({kinds}): "
        f"by {max(change, abs(drift)):.1%} in {max(len(moved), 1)} of {len(drifts)} launches",
        evidence={"largest_change": rounded(change), "last_third_vs_first": rounded(drift)},
        remedy="--warmup 5s, a quiet machine, or trtbench compare for a ratio",
        concerns=column,
    )


def _thirds(part: Column) -> float | None:
    third = len(part) // 3
    if third < 20:
        return None
    first = float(np.median(part[:third]))
    return float(np.median(part[-third:])) / first - 1 if first > 0 else None


@rule(
    "H16",
    "no steady state",
    severity="warning",
    when="the last change of level comes after half of the run, or warm-up ended at its cap",
    source="Barrett et al. 2017",
)
def no_steady_state(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when there is no steady part to speak of."""
    unsteady = sum(segment.kind == "no steady state" for segment in e.segments)
    capped = sum(launch.steady is False for launch in e.launches)
    if not unsteady and not capped:
        return
    why = []
    if unsteady:
        why.append(f"{unsteady} of {len(e.segments)} launches changed level in their second half")
    if capped:
        why.append(f"warm-up of {capped} launches ended without being steady")
    yield Hit(
        severity="note" if e.interleaved else None,
        message=f"no steady state: {'; '.join(why)}",
        evidence={"unsteady_launches": unsteady, "unsteady_warmups": capped},
        remedy="--warmup 10s --duration 10s, or find what else runs on the machine",
        concerns=e.summary.headline if e.summary else None,
    )


@rule(
    "H17",
    "two modes",
    severity="warning",
    when="Otsu's split between p0.5 and p98 has Ashman's D above {separation:.0f}, at least "
    "{minor:.0%} in the smaller group, and a gap above {gap:.0%} of the median",
    source="calibrated: no false alarm on five unimodal families",
    separation=4,
    minor=0.05,
    gap=0.01,
)
def bimodal(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when one number cannot stand for two kinds of iterations."""
    if e.times is None or not len(e.times):
        return
    column = e.times.headline
    found = [split for part in e.times.by_launch(column) if (split := _two_modes(part, at))]
    if not found:
        return
    clearest = max(found, key=lambda split: split.separation)
    yield Hit(
        message=f"two kinds of iterations: {text_from_seconds(clearest.low)} and "
        f"{text_from_seconds(clearest.high)} ({clearest.minor_share * 100:.0f} % in the rarer)",
        evidence={
            "low_ms": rounded(clearest.low * 1e3),
            "high_ms": rounded(clearest.high * 1e3),
            "minor_share": rounded(clearest.minor_share),
            "separation": rounded(min(clearest.separation, 1e6)),
            "launches": len(found),
        },
        remedy="read both modes, not the mean; look for clock steps or a neighbour",
        concerns=column,
    )


def _two_modes(part: Column, at: Limits) -> Modes | None:
    split = modes(part)
    if split is None or split.separation <= at["separation"]:
        return None
    return split if split.minor_share >= at["minor"] and split.gap > at["gap"] else None


@rule(
    "H18",
    "heavy tail",
    severity="note",
    when="p99 above {p99} times the median, or the maximum above {max:.0f} times",
    source="pyperf ±50 %",
    p99=1.5,
    max=5,
)
def heavy_tail(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a few samples are far slower, and say which."""
    if e.summary is None or e.times is None or not len(e.times):
        return
    head = e.summary.column(e.summary.headline)
    p99 = head.quantile(0.99).value
    heavy = (p99 or 0) > at["p99"] * head.median
    if head.median <= 0 or not (heavy or head.max > at["max"] * head.median):
        return
    column = e.times.durations()[head.column]
    slowest = worst(column)
    shown = ", ".join(f"#{i} {column[i] / head.median:.1f}×" for i in slowest)
    evidence: dict[str, float | int | str | bool | None] = {
        "max_over_median": rounded(head.max / head.median),
        "worst": shown,
    }
    if p99:
        evidence["p99_over_median"] = rounded(p99 / head.median)
    if e.times.start is not None:
        evidence["worst_at_s"] = ", ".join(f"{e.times.start[i]:.3f}" for i in slowest)
    yield Hit(
        message=f"heavy tail: the slowest query took {head.max / head.median:.1f} times the median",
        evidence=evidence,
        remedy="look at what happened then: garbage collection, throttling, another process",
        concerns="p99",
    )


@rule(
    "H19",
    "samples are not independent",
    severity="note",
    when="a correlation time above {tau:.0f} samples",
    source="16 to 21 is usual on a shared machine, measured",
    tau=10,
)
def autocorrelated(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when many samples tell little more than few."""
    if e.summary is None or not e.summary.columns:
        return
    head = e.summary.column(e.summary.headline)
    tau = head.count / head.effective if head.effective else 0.0
    if tau > at["tau"]:
        yield Hit(
            message=f"{head.count} samples are worth {head.effective:.0f} independent ones",
            evidence={"tau": rounded(tau), "effective": rounded(head.effective)},
            remedy="more launches instead of more iterations: --launches 5",
            concerns=head.column,
        )


@rule(
    "H41",
    "still loading or compiling",
    severity="warning",
    when="the first {first:.0f} measured iterations take more than {times} times the median; or "
    "TensorRT-RTX without a runtime cache",
    source="CUDA lazy loading; TensorRT-RTX background compilation",
    first=5,
    times=1.5,
)
def still_loading(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when warm-up left something undone."""
    late = _slow_starts(e, at) if e.times is not None and len(e.times) else []
    if late and e.times is not None:
        yield Hit(
            message=f"the first measured iterations took {max(late):.1f} times the median: "
            "something was still loading",
            evidence={"first_over_median": rounded(max(late)), "launches": len(late)},
            remedy="--warmup 5s; CUDA_MODULE_LOADING=EAGER",
            concerns=e.times.headline,
        )
    if e.condition("specialization") == "lazy":
        yield Hit(
            message="TensorRT-RTX compiles kernels in the background: times step down in mid-run",
            evidence={"specialization": "lazy"},
            remedy="--opt specialization=eager, which compiles before the first query",
            concerns="gpu",
        )


def _slow_starts(e: Evidence, at: Limits) -> list[float]:
    assert e.times is not None
    first = int(at["first"])
    ratios = [
        float(np.min(part[:first]) / np.median(part))
        for part in e.times.by_launch(e.times.headline)
        if len(part) >= 10 * first and np.median(part) > 0
    ]
    return [ratio for ratio in ratios if ratio > at["times"]]
