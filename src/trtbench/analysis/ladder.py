"""Two numbers of the same model that differ, as a ladder: one condition changes at a time.

From what two runs state, each difference becomes a rung with what the facts allow to say: how much
it is where a side measured it, at most how much, or only that it is there. What no rung accounts
for is left as unexplained.
"""

from __future__ import annotations

import math
from typing import Literal

from trtbench.analysis.comparability import differences
from trtbench.core.properties import ladder_fields, property_named
from trtbench.core.run import Run
from trtbench.core.spec import ON_DEVICE, RunSpec, Value
from trtbench.core.units import text_from_fraction, text_from_seconds
from trtbench.layers.table import EngineFacts, facts_from_run

Certainty = Literal["measured", "at most", "by exclusion", "stated"]

COUNTS: tuple[Certainty, ...] = ("measured", "by exclusion")
"""Evidence that is good enough to be added up."""

SILENT = {"unknown", "None"}
"""Words of a side on which it is not known."""

COUNTED = {
    "host": "a caller's time, from before the call to after its end",
    "latency": "copies and computing on the device",
    "gpu": "computing on the device alone",
    "end_to_end": "from the start of the first copy to the end of the last, queueing included",
}
"""What each of the numbers counts that stand for a run."""

DEFAULTS_11 = (
    "TensorRT 11's trtexec leaves copies out, launches as a CUDA graph and spins while it waits; "
    "TensorRT 10's does none of that"
)


class Rung(Value, frozen=True, kw_only=True):
    """One difference, on the way from the first run to the other."""

    key: str
    title: str
    a: str
    b: str
    seconds: float | None
    """What it adds from the first to the other; ``None`` where it is not known."""
    evidence: Certainty
    because: str


class Ladder(Value, frozen=True, kw_only=True):
    """The way from one number to another."""

    metric_a: str
    metric_b: str
    a_s: float | None
    b_s: float | None
    rungs: tuple[Rung, ...]
    unexplained_s: float | None


def title_of_step(key: str) -> str:
    """What people call the property that a step changes."""
    known = property_named(key)
    return known.words if known else key.replace("_", " ")


def ladder_from_runs(a: Run, b: Run) -> Ladder:
    """List what differs between two runs and how much of their difference it is."""
    left, right = facts_from_run(a), facts_from_run(b)
    (metric_a, a_s), (metric_b, b_s) = headline_of(left), headline_of(right)
    rungs = []
    if metric_a != metric_b:  # a run that knows both shows the difference
        known = ((_of(each, metric_a), _of(each, metric_b)) for each in (left, right))
        both = next(((one, other) for one, other in known if one and other), None)
        counted = (f"{name}: {COUNTED.get(name, name)}" for name in (metric_a, metric_b))
        rungs.append(
            Rung(
                key="metric",
                title="what is counted",
                a=metric_a,
                b=metric_b,
                seconds=both[1] - both[0] if both else None,
                evidence="measured" if both else "stated",
                because="; ".join(counted),
            )
        )
    # Each difference once; what only says that a side is silent comes too, without size.
    seen = set()
    for each in differences(a.record, b.record):
        if each.key in seen or each.baseline == each.candidate:
            continue
        seen.add(each.key)
        seconds, evidence, because = _effect(each.key, left, right, counted=metric_a == metric_b)
        rungs.append(
            Rung(
                key=each.key,
                title=title_of_step(each.key),
                a=each.baseline,
                b=each.candidate,
                seconds=seconds,
                evidence=evidence,
                because=because or each.message,
            )
        )
    warmups = [run.record.spec.warmup for run in (a, b)]
    if warmups[0] != warmups[1]:
        words = [
            f"{x.floor.seconds or 0:g} s{' until steady' if x.until_steady else ''}"
            for x in warmups
        ]
        rungs.append(
            Rung(
                key="warmup",
                title="warm-up",
                a=words[0],
                b=words[1],
                seconds=None,
                evidence="stated",
                because="a GPU that was idle takes up to seconds to raise its clocks",
            )
        )
    total = None if a_s is None or b_s is None else b_s - a_s
    unsized = [x for x in rungs if x.seconds is None and not SILENT & {x.a, x.b}]
    if total is not None and len(unsized) == 1 and all(x.evidence != "at most" for x in rungs):
        left_s = total - math.fsum(each.seconds or 0.0 for each in rungs)
        because = f"{unsized[0].because}; no other difference is stated"
        sized = unsized[0].having(seconds=left_s, evidence="by exclusion", because=because)
        rungs[rungs.index(unsized[0])] = sized
    sure = math.fsum(each.seconds or 0.0 for each in rungs if each.evidence in COUNTS)
    return Ladder(
        metric_a=metric_a,
        metric_b=metric_b,
        a_s=a_s,
        b_s=b_s,
        rungs=tuple(rungs),
        unexplained_s=None if total is None else total - sure,
    )


def headline_of(facts: EngineFacts) -> tuple[str, float | None]:
    """Name the number that stands for a run, and give it."""
    for name in ("host", "latency", "gpu"):
        if (value := _of(facts, name)) is not None:
            return name, value
    return "host", None


def _of(facts: EngineFacts, name: str) -> float | None:
    value = getattr(facts, f"{name}_s", None)
    return value if isinstance(value, float) else None


def _effect(
    key: str, a: EngineFacts, b: EngineFacts, *, counted: bool
) -> tuple[float | None, Certainty, str]:
    """What the facts allow to say about one difference; ``counted`` where both count the same."""
    if key == "transfers":
        before, after = a.transfers_s or 0.0, b.transfers_s or 0.0
        words = f"copies take {text_from_seconds(max(before, after))} where they are made"
        if before != after and counted:
            return after - before, "measured", words
        holds = f"{words}; what is counted differs too, and holds them"
        return None, "stated", holds if before != after else ""
    if key == "clock" and a.sm_clock_hz and b.sm_clock_hz and a.gpu_s:
        seconds = a.gpu_s * (a.sm_clock_hz / b.sm_clock_hz - 1)
        return seconds, "at most", "if all of the GPU time goes with the clock"
    without = next((each for each in (a, b) if each.cuda_graph is False), None)
    if key == "cuda_graph" and without and without.enqueue_s and without.gpu_s:
        # Launching kernel by kernel shows where the host is slower than the GPU.
        share = without.enqueue_s / without.gpu_s
        hidden = "it hides behind computing" if share < 0.5 else "the GPU waits for it"
        return (
            None,
            "stated",
            (
                f"launching takes {text_from_seconds(without.enqueue_s)} without a graph, "
                f"{text_from_fraction(share, digits=0)} of the GPU time; {hidden}"
            ),
        )
    majors = {(each.tensorrt or "").split(".")[0] for each in (a, b)}
    if key == "versions" and majors in ({"10", "11"}, {"8", "11"}, {"9", "11"}):
        return None, "stated", DEFAULTS_11
    return None, "stated", ""


def steps_between(a: RunSpec, b: RunSpec) -> list[tuple[str, RunSpec]]:
    """Change one thing at a time from one run to another: what changes, and the run with it.

    A protocol that takes place on the device alone has neither copies nor single launches, so it
    is left first and entered last.
    """
    order = ladder_fields()
    if a.protocol in ON_DEVICE:
        order.remove("protocol")
        order.insert(0, "protocol")
    steps, spec = [], a
    for name in order:
        if getattr(spec, name) != getattr(b, name):
            spec = spec.having(**{name: getattr(b, name)})
            steps.append((name, spec))
    return steps
