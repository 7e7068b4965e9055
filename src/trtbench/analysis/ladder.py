"""Two numbers of the same model that differ, as a ladder: one condition changes at a time.

From what two runs state, each difference becomes a rung with what the facts allow to say: how much
it is where a side measured it, at most how much, or only that it is there. What no rung accounts
for is left as unexplained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from trtbench.analysis.comparability import Difference, differences
from trtbench.analysis.layers.engine_facts import EngineFacts, facts_from_run
from trtbench.domain.result import Run
from trtbench.domain.spec import ON_DEVICE, RunSpec, Value
from trtbench.units import text_from_fraction, text_from_seconds

Certainty = Literal["measured", "at most", "by exclusion", "stated"]

COUNTS: tuple[Certainty, ...] = ("measured", "by exclusion")
"""Evidence that is good enough to be added up."""

SILENT = {"unknown", "not told", "None"}
"""Words of a side that does not tell."""

COUNTED = {
    "host": "a caller's time, from before the call to after its end",
    "latency": "copies and computing on the device",
    "gpu": "computing on the device alone",
    "end_to_end": "from the start of the first copy to the end of the last, queueing included",
}
"""What each of the numbers counts that stand for a run."""

FIELDS = (
    "batch", "transfers", "cuda_graph", "spin_wait", "streams", "protocol", "gap_s", "threads",
    "warmup", "lock_clocks", "runtime",
)  # fmt: skip
"""What is changed one after the other, in this order, where a ladder is measured."""

TITLES = {
    "metric": "what is counted", "transfers": "copies to and from the GPU",
    "cuda_graph": "CUDA graph", "spin_wait": "how the host waits", "streams": "streams",
    "protocol": "how queries follow one another", "clock": "clocks", "batch": "batch",
    "gap_s": "rests between queries", "threads": "threads", "warmup": "warm-up",
    "lock_clocks": "locked clocks", "runtime": "what runs the engine", "tf32": "TF32",
    "versions": "versions", "typing": "typing of the network", "precision": "precision",
    "inputs": "input shapes", "gpu_name": "the GPU", "host": "the machine",
}  # fmt: skip

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
    """What it adds from the first to the other; ``None`` where nobody can tell."""
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


def ladder_from_runs(a: Run, b: Run) -> Ladder:
    """List what differs between two runs and how much of their difference it is."""
    left, right = facts_from_run(a), facts_from_run(b)
    (metric_a, a_s), (metric_b, b_s) = headline_of(left), headline_of(right)
    rungs = [
        *_metric(metric_a, metric_b, left, right),
        *(_rung(each, left, right, counted=metric_a == metric_b) for each in _told(a, b)),
        *_warmups(a.record.spec, b.record.spec),
    ]
    total = None if a_s is None or b_s is None else b_s - a_s
    if total is not None:
        rungs = _by_exclusion(rungs, total)
    known = math.fsum(each.seconds or 0.0 for each in rungs if each.evidence in COUNTS)
    return Ladder(
        metric_a=metric_a,
        metric_b=metric_b,
        a_s=a_s,
        b_s=b_s,
        rungs=tuple(rungs),
        unexplained_s=None if total is None else total - known,
    )


def _by_exclusion(rungs: list[Rung], total: float) -> list[Rung]:
    """Tell what is left to the only difference of unknown size, and say that this is how."""
    unsized = [each for each in rungs if each.seconds is None and not SILENT & {each.a, each.b}]
    if len(unsized) != 1 or any(each.evidence == "at most" for each in rungs):
        return rungs
    left = total - math.fsum(each.seconds or 0.0 for each in rungs)
    because = f"{unsized[0].because}; no other difference is stated"
    sized = unsized[0].having(seconds=left, evidence="by exclusion", because=because)
    return [sized if each is unsized[0] else each for each in rungs]


def headline_of(facts: EngineFacts) -> tuple[str, float | None]:
    """Name the number that stands for a run, and give it."""
    for name, value in (("host", facts.host_s), ("latency", facts.latency_s), ("gpu", facts.gpu_s)):
        if value is not None:
            return name, value
    return "host", None


def _told(a: Run, b: Run) -> Iterator[Difference]:
    """List each difference once; what only says that a side is silent comes too, without size."""
    seen = set()
    for each in differences(a.record, b.record):
        if each.key not in seen and each.baseline != each.candidate:
            seen.add(each.key)
            yield each


def _metric(one: str, other: str, a: EngineFacts, b: EngineFacts) -> Iterator[Rung]:
    """Tell numbers that count different things; a run that knows both tells the difference."""
    if one == other:
        return
    both = next((each for each in (a, b) if _of(each, one) and _of(each, other)), None)
    seconds = None if both is None else (_of(both, other) or 0.0) - (_of(both, one) or 0.0)
    yield Rung(
        key="metric",
        title=TITLES["metric"],
        a=one,
        b=other,
        seconds=seconds,
        evidence="measured" if seconds is not None else "stated",
        because=f"{one}: {COUNTED.get(one, one)}; {other}: {COUNTED.get(other, other)}",
    )


def _of(facts: EngineFacts, name: str) -> float | None:
    value = getattr(facts, f"{name}_s", None)
    return value if isinstance(value, float) else None


def _rung(each: Difference, a: EngineFacts, b: EngineFacts, *, counted: bool) -> Rung:
    seconds, evidence, because = _effect(each.key, a, b, counted=counted)
    return Rung(
        key=each.key,
        title=TITLES.get(each.key, each.key.replace("_", " ")),
        a=each.baseline,
        b=each.candidate,
        seconds=seconds,
        evidence=evidence,
        because=because or each.message,
    )


def _effect(
    key: str, a: EngineFacts, b: EngineFacts, *, counted: bool
) -> tuple[float | None, Certainty, str]:
    """Say what the facts allow about one difference; ``counted`` where both count the same."""
    if key == "transfers":
        return _transfers(a, b, counted=counted)
    if key == "clock" and a.sm_clock_hz and b.sm_clock_hz and a.gpu_s:
        seconds = a.gpu_s * (a.sm_clock_hz / b.sm_clock_hz - 1)
        return seconds, "at most", "if all of the GPU time goes with the clock"
    if key == "cuda_graph":
        return _graph(a, b)
    if key == "versions" and _majors(a, b) in ({"10", "11"}, {"8", "11"}, {"9", "11"}):
        return None, "stated", DEFAULTS_11
    return None, "stated", ""


def _transfers(
    a: EngineFacts, b: EngineFacts, *, counted: bool
) -> tuple[float | None, Certainty, str]:
    spent = {"a": a.transfers_s or 0.0, "b": b.transfers_s or 0.0}
    seconds = spent["b"] - spent["a"]
    if not seconds:
        return None, "stated", ""
    words = f"copies take {text_from_seconds(max(spent.values()))} where they are made"
    if not counted:
        return None, "stated", f"{words}; what is counted differs too, and holds them"
    return seconds, "measured", words


def _graph(a: EngineFacts, b: EngineFacts) -> tuple[float | None, Certainty, str]:
    """Tell whether launching kernel by kernel can show: where the host is slower than the GPU."""
    plain = next((each for each in (a, b) if each.cuda_graph is False), None)
    if plain is None or not plain.enqueue_s or not plain.gpu_s:
        return None, "stated", ""
    share = plain.enqueue_s / plain.gpu_s
    words = (
        f"launching takes {text_from_seconds(plain.enqueue_s)} without a graph, "
        f"{text_from_fraction(share, digits=0)} of the GPU time"
    )
    hidden = "; it hides behind computing" if share < 0.5 else "; the GPU waits for it"
    return None, "stated", words + hidden


def _majors(a: EngineFacts, b: EngineFacts) -> set[str]:
    return {(each.tensorrt or "").split(".")[0] for each in (a, b)}


def _warmups(a: RunSpec, b: RunSpec) -> Iterator[Rung]:
    if a.warmup == b.warmup:
        return
    words = [
        f"{each.warmup.floor.seconds or 0:g} s{' until steady' if each.warmup.until_steady else ''}"
        for each in (a, b)
    ]
    yield Rung(
        key="warmup",
        title=TITLES["warmup"],
        a=words[0],
        b=words[1],
        seconds=None,
        evidence="stated",
        because="a GPU that was idle takes up to seconds to raise its clocks",
    )


def steps_between(a: RunSpec, b: RunSpec) -> list[tuple[str, RunSpec]]:
    """Change one thing at a time from one run to another: what changes, and the run with it.

    A protocol that takes place on the device alone has neither copies nor single launches, so it
    is left first and entered last.
    """
    order = list(FIELDS)
    if a.protocol in ON_DEVICE:
        order.remove("protocol")
        order.insert(0, "protocol")
    steps, spec = [], a
    for name in order:
        if getattr(spec, name) != getattr(b, name):
            spec = spec.having(**{name: getattr(b, name)})
            steps.append((name, spec))
    return steps
