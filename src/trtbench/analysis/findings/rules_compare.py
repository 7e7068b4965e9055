"""Rules on comparisons, which look at both sides: H06, H24, H25, H27, H28, H32 to H34, H43, H45."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis.comparability import DEVICE_KEYS, Difference, across_devices, differences
from trtbench.analysis.findings.evidence import Evidence
from trtbench.analysis.findings.rule import Hit, Limits, rounded, rule
from trtbench.analysis.robust import trimmed
from trtbench.domain.result import Severity
from trtbench.units import instant_from_text


def _differences(e: Evidence, code: str) -> Iterator[Difference]:
    if e.pair is None:
        return
    for each in differences(e.pair.baseline, e.pair.candidate, accept=e.pair.accept):
        if each.code == code:
            yield each


def _hits(e: Evidence, code: str, *, remedy: str) -> Iterator[Hit]:
    """Turn differences into findings: refused, accepted or merely unknown."""
    across = across_devices(e.pair.baseline, e.pair.candidate) if e.pair is not None else None
    for each in _differences(e, code):
        allowed = across is not None and each.blocking and each.key in DEVICE_KEYS
        grave: Severity = "warning" if allowed else "error"
        yield Hit(
            severity=grave if each.blocking else "note",
            message=f"compared across devices: {each.message}" if allowed else each.message,
            evidence={"baseline": each.baseline, "candidate": each.candidate},
            remedy=_ACROSS if allowed else remedy.format(key=each.key),
        )


_ACROSS = "read the ratio as one of two devices; to judge a change, measure both on one"


@rule(
    "H06",
    "clocks differ between the sides",
    severity="warning",
    when="median SM clocks more than {apart:.0%} apart, or the verdict changes when times are "
    "counted in cycles",
    source="nvbench-compare-robust",
    apart=0.01,
)
def clocks_differ(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a difference may be one of clocks."""
    if e.pair is None:
        return
    one, other = e.pair.baseline_clock_hz, e.pair.candidate_clock_hz
    if one and other and abs(other / one - 1) > at["apart"]:
        yield Hit(
            message=f"the SM clock was {one / 1e6:.0f} MHz on one side, {other / 1e6:.0f} MHz on "
            "the other",
            evidence={"baseline_mhz": rounded(one / 1e6), "candidate_mhz": rounded(other / 1e6)},
            remedy="lock the clock: sudo nvidia-smi -lgc MIN,MAX",
            concerns="gpu",
        )
    in_time, in_cycles = e.pair.in_time, e.pair.in_cycles
    if in_time is not None and in_cycles is not None and in_time != in_cycles:
        yield Hit(
            message=f"GPU time is {in_time} in seconds, {in_cycles} in cycles: a clock effect",
            evidence={"in_time": in_time, "in_cycles": in_cycles},
            remedy="lock the clock: sudo nvidia-smi -lgc MIN,MAX",
            concerns="gpu",
        )
    yield from _hits(e, "H06", remedy="lock the clocks alike on both sides")


@rule(
    "H24",
    "CUDA graph on one side only",
    severity="error",
    when="one side used a CUDA graph and the other did not, or a capture failed silently",
    source="trtexec: may be ignored if capture fails",
)
def graph_on_one_side(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when launches cost something on one side only."""
    yield from _hits(e, "H24", remedy="--cuda-graph on for both, or --accept {key}")
    asked = e.record is not None and e.record.spec.cuda_graph == "on"
    if asked and e.condition("cuda_graph") is False:
        yield Hit(
            message="a CUDA graph was asked for, and none was used: the capture failed",
            evidence={"asked": True, "used": False},
            remedy="see the log for what could not be captured",
            concerns="gpu",
        )


@rule(
    "H25",
    "shapes or protocol differ",
    severity="error",
    when="inputs, batch, protocol, transfers, streams or waiting differ between the sides",
    source="ArtTRT: dynamic engine 13.2 ms, static 5.5 ms",
)
def shapes_differ(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the sides did not do the same work."""
    yield from _hits(e, "H25", remedy="measure both alike, or --accept {key}")


@rule(
    "H27",
    "TF32 on one side only",
    severity="error",
    when="TF32 allowed on one side only (TensorRT on by default; PyTorch off for matmul, on for "
    "cuDNN)",
    source="TensorRT and PyTorch documentation",
)
def tf32_on_one_side(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when one side rounded more than the other."""
    yield from _hits(
        e, "H27", remedy="build with --precision fp32, which leaves TF32 out, or --accept tf32"
    )


@rule(
    "H28",
    "different machines or versions",
    severity="error",
    when="another host, CPU, GPU, power limit or ECC setting (refused; a warning where runs were "
    "imported, whose ratio is labelled as across devices); other versions (a note)",
    source="nvbench's device match",
)
def machines_differ(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the sides ran in different places."""
    yield from _hits(e, "H28", remedy="measure both here: trtbench compare A B")


@rule(
    "H32",
    "the sides disturb each other",
    severity="warning",
    when="taking turns moved one side {share:.0%} more than the other, or a side by {most:.0%}, "
    "against its time alone",
    source="measured: identical sessions 35 % apart",
    share=0.05,
    most=0.5,
)
def interference(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when taking turns changed what was measured."""
    if e.pair is None or not e.pair.interference:
        return
    moved = e.pair.interference
    ratios = [*moved.values()] if len(moved) > 1 else [1.0, *moved.values()]
    if max(ratios) / min(ratios) - 1 <= at["share"] and max(ratios) - 1 <= at["most"]:
        return
    alone = e.pair.comparison.alone if e.pair.comparison else None
    if alone is not None and alone.kind == "unclear":
        return  # times alone that say nothing cannot say that turns moved them
    told = "" if alone is None or alone.ratio is None else f"; alone it is {alone.ratio - 1:+.1%}"
    sides = " and ".join(f"the {side} by {ratio - 1:+.0%}" for side, ratio in moved.items())
    yield Hit(
        message=f"taking turns moved {sides}{told}",
        evidence={side: rounded(ratio) for side, ratio in moved.items()},
        remedy="the ratio holds for sides in turn; --mode launches has each alone",
    )


@rule(
    "H33",
    "the order matters",
    severity="warning",
    when="second place in a pair is slower or faster than first at {level:.0%}",
    source="duet design; none found where it was looked for",
    level=0.99,
)
def order_effect(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the place in a pair decides."""
    if e.pair is None:
        return
    estimate = trimmed(e.pair.position_effects)
    if estimate is None or estimate.df < 1 or estimate.p >= 1 - at["level"]:
        return
    yield Hit(
        message=f"second place in a pair costs {estimate.mean:+.2%}",
        evidence={"effect": rounded(estimate.mean), "p": rounded(estimate.p)},
        remedy="random order keeps it out of the ratio; --mode launches has no places at all",
    )


@rule(
    "H34",
    "many comparisons",
    severity="note",
    when="more than one candidate: probabilities are corrected by Holm's rule",
    source="multiplicity",
)
def many_comparisons(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when several candidates were compared at once."""
    if e.pair is not None and e.pair.comparisons > 1:
        yield Hit(
            message=f"{e.pair.comparisons} comparisons at once, corrected by Holm's rule",
            evidence={"comparisons": e.pair.comparisons},
            remedy="compare fewer candidates, or more launches",
        )


@rule(
    "H43",
    "faster and less accurate",
    severity="warning",
    when="the interval of the accuracy loss excludes zero",
    source="a speed-up at unequal accuracy is half a result",
)
def less_accurate(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a speed-up was paid for."""
    lost = e.accuracy
    if lost is not None and lost.drop_low > 0:
        yield Hit(
            message=f"the candidate loses {lost.drop_low:.3g} to {lost.drop_high:.3g} of "
            f"{lost.metric}: show it beside the speed-up",
            evidence={"drop_low": rounded(lost.drop_low), "drop_high": rounded(lost.drop_high)},
            remedy="compare at equal accuracy, or say both numbers",
            concerns="accuracy",
        )


@rule(
    "H45",
    "numbers age",
    severity="note",
    when="the sides were measured more than {days:.0f} days apart",
    source="consecutive launches cover 33 to 62 %, measured",
    days=7,
)
def aged(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a number from long ago is compared with one of today."""
    if e.pair is None:
        return
    before, after = (instant_from_text(r.created) for r in (e.pair.baseline, e.pair.candidate))
    days = None if before is None or after is None else abs(after - before) / 86400
    if days is not None and days > at["days"]:
        yield Hit(
            message=f"measured {days:.0f} days apart: machines change",
            evidence={"days": rounded(days)},
            remedy="measure both now: trtbench compare A B",
        )
