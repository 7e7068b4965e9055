"""Rules on whether the clock told the truth: H01 to H03, H12, H20 to H23."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trtbench.analysis.findings.evidence import Evidence, known
from trtbench.analysis.findings.rule import Hit, Limits, rounded, rule
from trtbench.analysis.modes import quantum
from trtbench.domain.ran import protocol_of


@rule(
    "H01",
    "faster than light",
    severity="error",
    when="FLOP/s above {flops:.0%} of the device's peak, or weights read at more than "
    "{bytes:.0%} of its bandwidth (weights larger than L2)",
    source="roofline; ArtTRT implied 1000 TFLOP/s",
    flops=1.0,
    bytes=1.05,
)
def faster_than_light(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the time implies more than the device can do."""
    column = "gpu" if e.median("gpu") else (e.summary.headline if e.summary else "host")
    time_s = e.median(column)
    if not time_s or not e.work or not e.peaks:
        return
    if e.work.flops and e.peaks.flops_per_s:
        share = e.work.flops / time_s / e.peaks.flops_per_s
        if share > at["flops"]:
            yield _light(f"{share:.1f} times the peak arithmetic rate", column, share)
    large = e.work.weight_bytes and e.work.weight_bytes > (e.peaks.l2_bytes or 0)
    if large and e.work.weight_bytes and e.peaks.bytes_per_s:
        share = e.work.weight_bytes / time_s / e.peaks.bytes_per_s
        if share > at["bytes"]:
            yield _light(f"{share:.1f} times the peak memory bandwidth", column, share)


def _light(what: str, column: str, share: float) -> Hit:
    return Hit(
        message=f"the {column} time would need {what}: it is a timing error",
        evidence={"share_of_peak": rounded(share)},
        remedy="synchronise before the clock stops; --protocol serve does",
        concerns=column,
    )


@rule(
    "H02",
    "missing synchronisation",
    severity="error",
    when="median host time below {identity:.0%} of median GPU time, or, one query at a time, more "
    "than {slack_us:.0f} µs below the sum of copies and GPU work; a warning when latency stays "
    "within {flat:.0%} over {batches:.0f} times the batch at more than {peak:.0%} of the peak",
    source="TensorRT issue 3493; ArtTRT's 6 ms at every batch",
    identity=0.98,
    slack_us=2,
    flat=0.05,
    batches=8,
    peak=0.5,
)
def missing_sync(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the host was done before the GPU was."""
    host, gpu = e.median("host"), e.median("gpu")
    spans = (gpu or 0.0) + sum(known([e.median("h2d"), e.median("d2h")]))
    serial = e.record is not None and protocol_of(e.record) == "serve"
    too_short = host is not None and gpu is not None and host < at["identity"] * gpu
    overlaps = host is not None and serial and host < spans - at["slack_us"] * 1e-6
    if host is not None and gpu is not None and (too_short or overlaps):
        yield Hit(
            message="the host clock stopped before the GPU had finished",
            evidence={"host_ms": rounded(host * 1e3), "device_ms": rounded(spans * 1e3)},
            remedy="wait for the stream before reading the clock: --protocol serve",
            concerns="host",
        )
    yield from _flat_over_batches(e, at)


def _flat_over_batches(e: Evidence, at: Limits) -> Iterator[Hit]:
    points = sorted(e.batches, key=lambda point: point.batch)
    flops, peak = (e.work.flops if e.work else None), (e.peaks.flops_per_s if e.peaks else None)
    if len(points) < 2 or not flops or not peak:
        return
    first, last = points[0], points[-1]
    share = flops * last.batch / max(1, first.batch) / last.latency_s / peak
    flat = abs(last.latency_s / first.latency_s - 1) <= at["flat"]
    if last.batch >= at["batches"] * first.batch and flat and share > at["peak"]:
        yield Hit(
            severity="warning",
            message=f"batch {last.batch} takes as long as batch {first.batch}: "
            "probably only the launch was timed",
            evidence={"batch": last.batch, "share_of_peak": rounded(share)},
            remedy="wait for the stream before reading the clock: --protocol serve",
            concerns="host",
        )


@rule(
    "H03",
    "outputs wrong or not computed",
    severity="error",
    when="a non-finite output, or equal outputs for two different inputs; a warning when a CUDA "
    "graph, replayed on new inputs, gave other outputs than the model and was left out",
    source="a wrong result has no speed",
)
def outputs_wrong(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the time belongs to a computation that went wrong."""
    if e.outputs is None:
        return
    if e.outputs.finite is False:
        yield Hit(
            message="the outputs hold NaN or infinity: the time of a wrong result means nothing",
            evidence={"outputs_finite": False},
            remedy="trtbench check MODEL ENGINE",
        )
    if e.outputs.varies is False:
        yield Hit(
            message="two different inputs gave bit-equal outputs: either nothing was computed, or "
            "the network gives a constant (outputs that underflow to zero in FP16 do)",
            evidence={"outputs_vary": False},
            remedy="trtbench check MODEL ENGINE tells which; with random weights, use real ones or "
            "--precision fp32",
        )
    if e.outputs.graph_differs:
        yield Hit(
            message="a CUDA graph of it, replayed on new inputs, gives other outputs than the "
            "model itself: it was measured without one, and must not be served with one",
            evidence={"graph_outputs_differ": True},
            remedy="serve it without a CUDA graph; plug-ins and loops that look at values on the "
            "host cannot be captured",
            severity="warning",
        )


@rule(
    "H12",
    "too close to the clock's resolution",
    severity="warning",
    when="median below {floor:.0f} times the timer's floor, or more than {equal:.0%} equal values "
    "in steps above {quantum:.1%} of the median (columns above {share:.0%} of the headline)",
    source="pyperf; CUDA events 0.5 µs; trtexec's float32",
    floor=100,
    equal=0.05,
    quantum=0.005,
    share=0.05,
)
def timer_floor(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the clock is too coarse for what it measures."""
    host = e.median("host")
    floors = known([launch.timer_floor_s for launch in e.launches])
    if host is not None and floors and host < at["floor"] * max(floors):
        yield Hit(
            message=f"one query lasts only {host / max(floors):.0f} times the clock's own cost",
            evidence={"median_us": rounded(host * 1e6), "floor_us": rounded(max(floors) * 1e6)},
            remedy="measure a larger --batch, so that one query lasts longer",
            concerns="host",
        )
    if e.times is None or e.summary is None:
        return
    least = at["share"] * (e.median(e.summary.headline) or 0.0)
    for name, column in e.times.durations().items():
        step, equal = quantum(column)
        median = e.median(name)
        if (
            median
            and median > least
            and step
            and equal > at["equal"]
            and step > at["quantum"] * median
        ):
            yield Hit(
                message=f"{name} moves in steps of {step * 1e6:.2g} µs, "
                f"{step / median:.1%} of its median",
                evidence={"step_us": rounded(step * 1e6), "equal_share": rounded(equal)},
                remedy="use --protocol gpu with more --iterations, or a larger --batch",
                concerns=name,
            )


@rule(
    "H20",
    "bound by the host",
    severity="warning",
    when="median enqueue above {enqueue:.0%} of median GPU time, or more than {rest:.0%} of host "
    "time outside copies and GPU work",
    source="trtexec 0.8",
    enqueue=0.8,
    rest=0.2,
)
def host_bound(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the CPU, not the GPU, decides the time."""
    gpu, enqueue, host = e.median("gpu"), e.median("enqueue"), e.median("host")
    graph = e.condition("cuda_graph") is True
    remedy = "fewer, larger layers or a larger --batch" if graph else "--cuda-graph on"
    if gpu and enqueue is not None and enqueue > at["enqueue"] * gpu:
        yield Hit(
            message=f"launching takes {enqueue / gpu:.0%} of the GPU time: the GPU may wait",
            evidence={"enqueue_ms": rounded(enqueue * 1e3), "gpu_ms": rounded(gpu * 1e3)},
            remedy=remedy,
            concerns="gpu",
        )
    elif gpu and host:
        spans = gpu + sum(known([e.median("h2d"), e.median("d2h")]))
        rest = (host - spans) / host
        if rest > at["rest"]:
            yield Hit(
                message=f"{rest:.0%} of the host time is neither copy nor GPU work",
                evidence={"host_ms": rounded(host * 1e3), "spans_ms": rounded(spans * 1e3)},
                remedy=f"{remedy}; --spin-wait",
                concerns="host",
            )


@rule(
    "H21",
    "bound by transfers",
    severity="warning",
    when="a copy takes at least as long as the GPU work; a note above {share:.0%} of host time, "
    "with pageable memory, or with a PCIe link below its best",
    source="trtexec; NVML",
    share=0.3,
)
def transfer_bound(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when copies decide the time."""
    gpu, host = e.median("gpu"), e.median("host") or e.median("latency")
    for name in ("h2d", "d2h"):
        copy = e.median(name)
        if copy is None or not gpu:
            continue
        if copy >= gpu:
            yield _copies(f"{name} takes as long as the GPU work", name, copy, gpu)
        elif host and copy > at["share"] * host:
            yield _copies(f"{name} is {copy / host:.0%} of the whole", name, copy, gpu, note=True)
    yield from _link(e)


def _copies(what: str, name: str, copy: float, gpu: float, *, note: bool = False) -> Hit:
    return Hit(
        severity="note" if note else None,
        message=what,
        evidence={f"{name}_ms": rounded(copy * 1e3), "gpu_ms": rounded(gpu * 1e3)},
        remedy="keep data on the device, copy less, or --protocol pipeline to overlap copies",
        concerns=name,
    )


def _link(e: Evidence) -> Iterator[Hit]:
    copies = any(e.median(name) is not None for name in ("h2d", "d2h"))
    if copies and e.condition("memory") == "pageable":
        yield Hit(
            severity="note",
            message="copies come from pageable memory, which is slower and blocks the caller",
            evidence={"memory": "pageable"},
            remedy="use pinned buffers",
            concerns="h2d",
        )
    gpu = e.gpu
    if not copies or gpu is None or not gpu.pcie_width or not gpu.pcie_width_max:
        return
    generation, best = gpu.pcie_gen or 1, gpu.pcie_gen_max or 1
    if gpu.pcie_width < gpu.pcie_width_max or generation < best:
        yield Hit(
            severity="note",
            message=f"the PCIe link runs at gen {generation} x{gpu.pcie_width}, "
            f"its best is gen {best} x{gpu.pcie_width_max}",
            evidence={"pcie_gen": generation, "pcie_width": gpu.pcie_width},
            remedy="check the slot and that the link was read under load",
            concerns="h2d",
        )


@rule(
    "H22",
    "layers do not add up",
    severity="note",
    when="the sum of layer times differs from GPU time by more than {note:.0%}; a warning above "
    "{warning:.0%}",
    source="TensorRT IProfiler",
    note=0.05,
    warning=0.15,
)
def layer_sum(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a layer table and the GPU time tell different stories."""
    gpu = e.median("gpu")
    if not gpu or e.layers is None or not e.layers.layers:
        return
    total = sum(layer.average_s for layer in e.layers.layers)
    off = total / gpu - 1
    if abs(off) <= at["note"]:
        return
    why = "profiling runs layers one by one" if off > 0 else "gaps and reformats are not listed"
    yield Hit(
        severity="warning" if abs(off) > at["warning"] else None,
        message=f"layers sum to {off:+.0%} of the GPU time: {why}",
        evidence={"layers_ms": rounded(total * 1e3), "gpu_ms": rounded(gpu * 1e3)},
        remedy="read layer times as shares, not as milliseconds of the real run",
        concerns="layers",
    )


@rule(
    "H23",
    "the profiler changed the run",
    severity="note",
    when="GPU time with the profiler attached differs by more than {share:.0%}",
    source="TensorRT IProfiler",
    share=0.05,
)
def profiler_effect(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when profiling changed what it looked at."""
    gpu = e.median("gpu")
    profiled = known([launch.profiled_gpu_s for launch in e.launches])
    if not gpu or not profiled:
        return
    off = float(np.median(profiled)) / gpu - 1
    if abs(off) > at["share"]:
        yield Hit(
            message=f"with the profiler attached the GPU time was {off:+.0%}",
            evidence={"gpu_ms": rounded(gpu * 1e3), "change": rounded(off)},
            remedy="keep profile and latency runs apart (the default)",
            concerns="layers",
        )
