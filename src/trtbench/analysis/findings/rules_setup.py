"""Rules on what was run and how: precision, data, load, energy, imports: H26, H29 to H44, H47."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trtbench.analysis.findings.evidence import Evidence
from trtbench.analysis.findings.rule import Hit, Limits, rounded, rule
from trtbench.analysis.layers.computing import layer_types
from trtbench.analysis.modes import quantum
from trtbench.domain.labels import types_of
from trtbench.domain.ran import gap_of, options_of, protocol_of
from trtbench.domain.result import precision_of

SHARED_TYPES = {"best": (), "tf32": ("fp32", "tf32"), "fp32": ("fp32", "tf32")}
"""Precisions that other executed types fulfil too; the rest stand for themselves."""


@rule(
    "H26",
    "precision not what the label says",
    severity="warning",
    when="fewer than {share:.0%} of the layers run in the precision of the label, or the record "
    "beside a model names one that nothing of it computes in, or ONNX Runtime computes in none of "
    "the types that a file holds; a note where only that record names one",
    source="TensorRT 11 is strongly typed",
    share=0.5,
)
def precision_label(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a model runs in another precision than its name or its record says."""
    if (claimed := e.text("claimed_precision")) is not None and e.record is not None:
        ran = precision_of(e.record)
        yield Hit(
            message=f"{claimed} by what is on record, but nothing of it computes in that: {ran}",
            evidence={"claimed": claimed, "ran": ran},
            remedy="build or convert it again, or remove the record beside it",
            concerns="gpu",
        )
    label = (precision_of(e.record) or e.record.spec.precision) if e.record else None
    if label is None:
        return
    if (ran := e.text("computes_in")) is not None:
        yield Hit(
            message=f"the file holds {label}, and nothing of it was computed in that: {ran}",
            evidence={"held": label, "ran": ran},
            remedy="another processor or runtime, or trtbench inspect for what keeps it from it",
            concerns="host",
        )
    fact = e.record.conditions.get("precision") if e.record else None
    if fact is not None and fact.source == "recorded":
        yield Hit(
            message=f"{label} is what the record beside the engine says; nothing that ran tells",
            evidence={"claimed": label},
            remedy="trtbench build tells the types of layers; trtbench profile ENGINE shows them",
            concerns="gpu",
            severity="note",
        )
    types = layer_types(e.graph) if e.graph else Counter()
    wanted = SHARED_TYPES.get(label, tuple(types_of(label)))
    if not types or not wanted:
        return
    share = sum(types[name] for name in wanted) / sum(types.values())
    if share < at["share"]:
        shown = ", ".join(f"{count} {name}" for name, count in types.most_common())
        yield Hit(
            message=f"labelled {label}, but only {share:.0%} of the layers run in it",
            evidence={"layers": shown, "share": rounded(share)},
            remedy="build from a typed ONNX, or rename it; trtbench inspect ENGINE shows layers",
            concerns="gpu",
        )


@rule(
    "H29",
    "part of the model ran elsewhere",
    severity="warning",
    when="nodes not on the device that was asked for, or graph breaks in PyTorch",
    source="ONNX Runtime",
)
def fallback(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the CPU did work that was meant for the GPU."""
    nodes, breaks = e.fact("fallback_nodes"), e.fact("graph_breaks")
    if nodes:
        names = e.text("fallback_names")
        yield Hit(
            message=f"{nodes:.0f} nodes ran on the CPU instead of the device asked for"
            + (f": {names}" if names else ""),
            evidence={"fallback_nodes": nodes},
            remedy="replace them in the model, or accept the copies they cost",
            concerns="host",
        )
    if breaks:
        yield Hit(
            message=f"the compiled model has {breaks:.0f} graph breaks: parts ran eagerly",
            evidence={"graph_breaks": breaks},
            remedy="TORCH_LOGS=graph_breaks shows where",
            concerns="host",
        )


@rule(
    "H30",
    "unrealistic input",
    severity="note",
    when="random or constant input, the same buffer every time",
    source="power and sparsity depend on data",
)
def input_data(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the model saw data it will never see."""
    if e.record is None or e.record.provenance != "measured":
        return
    constant = e.flag("inputs_constant")
    files = {"load_inputs", "loadInputs"} & options_of(e.record).keys()
    read = e.record.spec.inputs.source or files
    if constant or not read:
        what = "constant" if constant else "random"
        yield Hit(
            message=f"{what} input, the same every time: real data may differ in power",
            evidence={"input": what},
            remedy="--inputs data.npz",
        )


@rule(
    "H36",
    "latency not under load",
    severity="note",
    when="closed-loop latency; in an open loop a warning when more than {late:.0%} of requests "
    "were dispatched late",
    source="wrk2; perf_analyzer 1 %",
    late=0.01,
)
def not_under_load(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when queueing is not in the number."""
    if e.load is not None:
        if e.load.late_share > at["late"]:
            yield Hit(
                severity="warning",
                message=f"{e.load.late_share:.1%} of the requests were sent late by the sender "
                "itself, which counts in their latency",
                evidence={"late_share": rounded(e.load.late_share)},
                remedy="keep a core free for the sender: fewer --threads, no other work",
                concerns="host",
            )
        return
    if e.record is not None and protocol_of(e.record) in ("serve", "pipeline", "gpu"):
        yield Hit(
            message="queries came as fast as they were answered: what users of a busy service "
            "wait comes on top",
            evidence={"protocol": protocol_of(e.record)},
            remedy="--protocol server --rate 100/s",
            concerns="p99",
        )


@rule(
    "H37",
    "overloaded",
    severity="error",
    when="queue time grows; of too few queries to tell, below {achieved:.0%} of the offered rate "
    "was achieved",
    source="open-loop queueing",
    achieved=0.95,
)
def overloaded(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the queue grew: latency then depends on how long one waits."""
    if e.load is None or e.load.offered_hz <= 0:
        return
    share = e.load.achieved_hz / e.load.offered_hz
    grows = e.load.queue_grows
    if grows or (grows is None and share < at["achieved"]):
        yield Hit(
            message=f"overloaded: {share:.1%} of the offered rate was served; "
            "latency has no meaning",
            evidence={
                "offered_hz": rounded(e.load.offered_hz),
                "achieved_hz": rounded(e.load.achieved_hz),
            },
            remedy=f"--rate {0.8 * e.load.achieved_hz:.3g}/s",
            concerns="host",
        )


@rule(
    "H38",
    "energy window too short or in doubt",
    severity="warning",
    when="window below {updates:.0f} counter updates, counter and integrated power more than "
    "{apart:.0%} apart, or a sensor that looks part of the time",
    source="arXiv 2312.02741",
    updates=100,
    apart=0.05,
)
def energy_window(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when an energy figure is less sure than it looks."""
    energy = e.energy
    if energy is None:
        return
    why = []
    if energy.update_s and energy.window_s < at["updates"] * energy.update_s:
        why.append(f"the window holds {energy.window_s / energy.update_s:.0f} counter updates")
    if energy.counter_j and energy.integral_j is not None:
        apart = abs(energy.integral_j - energy.counter_j) / energy.counter_j
        if apart > at["apart"]:
            why.append(f"counter and power samples are {apart:.0%} apart")
    if energy.part_time_sensor:
        why.append("the sensor sees only part of the time")
    if why:
        least = at["updates"] * (energy.update_s or 0.1)
        yield Hit(
            message=f"energy is uncertain: {'; '.join(why)}",
            evidence={"window_s": rounded(energy.window_s), "update_s": energy.update_s},
            remedy=f"--duration {max(10.0, least):.0f}s",
            concerns="energy",
        )


@rule(
    "H39",
    "what a memory number counts",
    severity="note",
    when="telemetry tells the memory of the whole device",
    source="NVML counts per process and per device",
)
def memory_meaning(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a memory figure counts more than the engine."""
    if e.device_memory:
        yield Hit(
            message="the memory in the telemetry is that of the whole device, not of the engine",
            evidence={"scope": "device"},
            remedy="trtbench inspect ENGINE tells what the engine itself needs",
            concerns="memory",
        )


@rule(
    "H40",
    "warm caches only",
    severity="note",
    when="queries follow one another without a gap",
    source="9 to 23 % slower after an idle gap, measured",
)
def warm_caches(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when caches and clocks were kept warm throughout."""
    if e.record is None or e.record.provenance != "measured":
        return
    if gap_of(e.record) == 0 and protocol_of(e.record) in ("serve", "pipeline", "gpu"):
        yield Hit(
            message="back to back: caches and clocks are warm, a lone query would be slower",
            evidence={"gap_s": 0.0},
            remedy="--gap 2ms, --protocol first, or coldl2 on a GPU",
        )


@rule(
    "H44",
    "imported numbers",
    severity="warning",
    when="an imported run without its version or effective flags, longer than {duration:.0f} s "
    "(steps of its float32 clock exceed 1 µs), or with enqueue times in steps above {step:.0%}",
    source="trtexec's source: float32 milliseconds since start",
    duration=16,
    step=0.05,
)
def imported(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when an imported number lacks what it takes to compare it."""
    if e.record is None or e.record.provenance != "imported":
        return
    unknown = sorted(
        key
        for key, fact in e.record.conditions.items()
        if fact.source == "unknown" or fact.value is None
    )
    versions = e.record.environment.versions
    if unknown or not any("tensorrt" in name.lower() for name in versions):
        missing = [*(["TensorRT version"] if not versions else []), *unknown]
        yield Hit(
            message=f"imported, and nobody recorded {', '.join(missing) or 'the version'}",
            evidence={"unknown": ", ".join(missing)},
            remedy="the log of the engine's build may tell: import it beside this one"
            if versions
            else "import the log too: trtbench import times.json trtexec.log",
        )
    yield from _coarse_enqueue(e, at)
    duration = _duration(e)
    if duration is not None and duration > at["duration"]:
        yield Hit(
            message=f"trtexec ran for {duration:.0f} s: its time stamps have steps above 1 µs",
            evidence={"duration_s": rounded(duration)},
            remedy="use its durations, never differences of its stamps",
            concerns="enqueue",
        )


@rule(
    "H47",
    "the tool that measured warned",
    severity="warning",
    when="trtexec printed a warning about the numbers themselves (unstable times, bound by the "
    "host or by copies, a graph that was not captured, lowered clocks); a note on how the engine "
    "was made",
    source="trtexec's own report",
)
def tool_warned(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire for every warning of trtexec's that concerns the numbers."""
    facts = e.record.facts if e.record is not None else {}
    for key, value in facts.items():
        if not key.startswith(_WARNED) or not isinstance(value, str):
            continue
        kind = key[len(_WARNED) :]
        meaning, _, said = value.partition("; trtexec: ")
        yield Hit(
            message=f"trtexec warned: {meaning}",
            evidence={"kind": kind, "said": said},
            remedy=_WARNING_REMEDIES.get(kind, "read its log around this line"),
            severity="note" if kind in _ON_THE_ENGINE else None,
        )


_WARNED = "trtexec_warned."
_ON_THE_ENGINE = ("weak-typing", "weights-converted", "no-calibrator", "library-mismatch")
_WARNING_REMEDIES = {
    "unstable": "lock the clocks, give the GPU to nobody else, and measure longer",
    "clocks-not-locked": "lock the clocks: sudo nvidia-smi -lgc MIN,MAX",
    "enqueue-bound": "measure with a CUDA graph: --useCudaGraph",
    "h2d-bound": "leave copies out (--noDataTransfers), or count them in on purpose",
    "d2h-bound": "leave copies out (--noDataTransfers), or count them in on purpose",
    "graph-capture-failed": "read the numbers as those of plain launches",
    "throttled": "let it cool, raise its power limit, or lock lower clocks",
    "streams-overlap": "read the throughput, not the latency",
    "weak-typing": "put the types into the model before TensorRT 11",
}


def _coarse_enqueue(e: Evidence, at: Limits) -> Iterator[Hit]:
    column = e.times.enqueue if e.times is not None else None
    median = e.median("enqueue")
    if column is None or not median:
        return
    step, _ = quantum(column)
    if step and step > at["step"] * median:
        yield Hit(
            message=f"enqueue times come from printed stamps, in steps of {step / median:.0%}",
            evidence={"step_us": rounded(step * 1e6), "median_us": rounded(median * 1e6)},
            remedy="read no more than their order of magnitude",
            concerns="enqueue",
        )


def _duration(e: Evidence) -> float | None:
    if e.times is None or not len(e.times):
        return None
    stamps = [*e.times.stamps.values(), *([] if e.times.start is None else [e.times.start])]
    return max((float(column.max()) for column in stamps), default=None)
