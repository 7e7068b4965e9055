"""The rules that check results, each a function that takes the evidence."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from trtbench.analysis.comparability import across_devices, differences
from trtbench.analysis.distributions import trimmed
from trtbench.analysis.findings.evidence import (
    Batches,
    Evidence,
    Hit,
    Limits,
    PairFacts,
    known,
    rule,
)
from trtbench.analysis.history import segment
from trtbench.analysis.summary import modes, value_step
from trtbench.core import properties
from trtbench.core.results import Unreadable
from trtbench.core.run import RunRecord, Scalar, gpu_number, known_value, precision_of, types_of
from trtbench.core.safety import mask_values
from trtbench.core.units import instant_from_text, text_from_seconds
from trtbench.layers.join import count_layer_types


@rule("H01", "faster than the hardware allows", "error", flops=1.0, bytes=1.05)
def faster_than_light(e: Evidence, at: Limits) -> Iterator[Hit]:
    """FLOP/s above {flops:.0%} of the device's peak, or weights read at more than {bytes:.0%} of
    its bandwidth (weights larger than L2).
    Source: roofline; ArtTRT implied 1000 TFLOP/s. Means: the clock did not cover all of the work;
    the number is not a time of this model."""
    column = "gpu" if e.median("gpu") else e.summary.headline
    time_s, (flops_per_s, bytes_per_s) = e.median(column), e.peaks()
    weights = e.fact("weight_bytes") or 0
    cache = (e.gpu.l2_bytes if e.gpu else None) or 0
    for name, limit, work, peak in (
        ("arithmetic rate", "flops", e.fact("flops"), flops_per_s),
        ("memory bandwidth", "bytes", weights if weights > cache else None, bytes_per_s),
    ):
        if time_s and work and peak and work / time_s / peak > at[limit]:
            share = work / time_s / peak
            needs = f"the {column} time would need {share:.1f} times the peak {name}"
            remedy = "synchronise before the clock stops; --protocol serve does"
            yield Hit(f"{needs}: a timing error", {"share_of_peak": share}, remedy, column)


@rule("H02", "missing synchronisation", "error", "host",
      identity=0.98, slack_us=2, flat=0.05, batches=8, peak=0.5)  # fmt: skip
def missing_sync(e: Evidence | Batches, at: Limits) -> Iterator[Hit]:
    """median host time below {identity:.0%} of median GPU time, or, one query at a time, more
    than {slack_us:.0f} µs below the sum of copies and GPU work; a warning when latency stays
    within {flat:.0%} over {batches:.0f} times the batch at more than {peak:.0%} of the peak.
    Source: TensorRT issue 3493; ArtTRT's 6 ms at every batch. Means: work was still running when
    the clock stopped; the number is too small."""
    remedy = "wait for the stream before reading the clock: --protocol serve"
    if isinstance(e, Batches):
        (least, first_s, flops), (most, last_s, _) = e.points[0], e.points[-1]
        share = flops * most / max(1, least) / last_s / e.peak if flops and e.peak else 0.0
        flat = abs(last_s / first_s - 1) <= at["flat"] and most >= at["batches"] * least
        if flat and share > at["peak"]:
            message = f"batch {most} takes as long as batch {least}"
            message += ": probably only the launch was timed"
            yield Hit(message, {"batch": most, "share_of_peak": share}, remedy, severity="warning")
        return
    host, gpu = e.median("host"), e.median("gpu")
    if host is None or gpu is None:
        return
    spans = e.device_s(gpu)
    overlaps = properties.protocol_of(e.record) == "serve" and host < spans - at["slack_us"] * 1e-6
    if overlaps or host < at["identity"] * gpu:
        message = "the host clock stopped before the GPU had finished"
        yield Hit(message, {"host_ms": host * 1e3, "device_ms": spans * 1e3}, remedy)


@rule("H03", "outputs wrong or not computed", "error")
def outputs_wrong(e: Evidence, at: Limits) -> Iterator[Hit]:
    """a non-finite output (by one more query after the measurement; not with trtexec), or equal
    outputs for two different inputs; a warning when a CUDA graph, replayed on new inputs, gave
    other outputs than the model and was not used.
    Source: a wrong result has no speed. Means: the time of a wrong result says nothing about the
    model."""
    if e.recorded("outputs_finite") is False:
        message = "the outputs hold NaN or infinity: the time of a wrong result means nothing"
        remedy = "--data FILE, or trtbench check REFERENCE MODEL"
        yield Hit(message, {"outputs_finite": False}, remedy)
    if e.recorded("outputs_vary") is False:
        yield Hit(
            "two different inputs gave identical outputs: either nothing was computed, or "
            "the network's output is constant (for example, it underflows to zero in FP16)",
            {"outputs_vary": False},
            "trtbench check MODEL ENGINE shows which; replace random weights by trained ones, or "
            "use --precision fp32",
        )
    if e.recorded("graph_outputs_differ"):
        yield Hit(
            "a CUDA graph, replayed on new inputs, gives other outputs than the model: it was "
            "measured without one, and must not be served with one",
            {"graph_outputs_differ": True},
            "serve it without a CUDA graph; plug-ins and loops that read values on the host "
            "cannot be captured",
            severity="warning",
        )


@rule(
    "H12",
    "too close to the clock's resolution",
    "warning",
    "host",
    floor=100,
    equal=0.05,
    quantum=0.005,
    share=0.05,
)
def timer_floor(e: Evidence, at: Limits) -> Iterator[Hit]:
    """median below {floor:.0f} times the timer's floor, or more than {equal:.0%} equal values in
    steps above {quantum:.1%} of the median (columns above {share:.0%} of the headline).
    Source: pyperf; CUDA events 0.5 µs; trtexec's float32. Means: the clock's own error is a visible
    part of the number."""
    host = e.median("host")
    floor = max(known(launch.timer_floor_s for launch in e.record.launches), default=0.0)
    if host is not None and host < at["floor"] * floor:
        message = f"one query lasts only {host / floor:.0f} times the clock's own cost"
        evidence = {"median_us": host * 1e6, "floor_us": floor * 1e6}
        yield Hit(message, evidence, "measure a larger batch, where the model takes one")
    least = at["share"] * (e.median(e.summary.headline) or 0.0)
    for name, column in e.times.durations().items():
        (step, equal), median = value_step(column), e.median(name) or 0.0
        if step and equal > at["equal"] and step > at["quantum"] * median and median > least:
            message = f"{name} is measured in steps of {step * 1e6:.2g} µs"
            message += f", {step / median:.1%} of its median"
            remedy = "use --protocol gpu with more --iterations"
            yield Hit(message, {"step_us": step * 1e6, "equal_share": equal}, remedy, name)


@rule("H20", "bound by the host", "warning", "gpu", enqueue=0.8, rest=0.2)
def host_bound(e: Evidence, at: Limits) -> Iterator[Hit]:
    """median enqueue above {enqueue:.0%} of median GPU time, or more than {rest:.0%} of host time
    outside copies and GPU work; not where the GPU computes 97 % of the time. Source: trtexec 0.8.
    Means: the GPU waits for the host: the number depends on the CPU and the launching program."""
    gpu, enqueue, host = e.median("gpu"), e.median("enqueue"), e.median("host")
    tried = any(e.condition(name) is True for name in ("cuda_graph", "cuda_graph_fell_back"))
    remedy = "fewer, larger layers or a larger batch" if tried else "--cuda-graph on"
    if e.always_busy:
        return
    if gpu and enqueue is not None and enqueue > at["enqueue"] * gpu:
        message = f"launching takes {enqueue / gpu:.0%} of the GPU time: the GPU may wait"
        yield Hit(message, {"enqueue_ms": enqueue * 1e3, "gpu_ms": gpu * 1e3}, remedy)
    elif gpu and host and (rest := 1 - e.device_s(gpu) / host) > at["rest"]:
        message = f"{rest:.0%} of the host time is neither copy nor GPU work"
        evidence = {"host_ms": host * 1e3, "spans_ms": e.device_s(gpu) * 1e3}
        yield Hit(message, evidence, f"{remedy}; --spin-wait", "host")


@rule("H21", "bound by transfers", "warning", "h2d", share=0.3)
def transfer_bound(e: Evidence, at: Limits) -> Iterator[Hit]:
    """a copy takes at least as long as the GPU work; a note above {share:.0%} of host time, or
    with pageable memory.
    Source: trtexec. Means: copies, not the network, decide the latency."""
    gpu, host = e.median("gpu"), e.median("host") or e.median("latency")
    copies = {name: copy for name in ("h2d", "d2h") if (copy := e.median(name)) is not None}
    for name, copy in copies.items():
        if gpu and (copy >= gpu or (host and copy > at["share"] * host)):
            part = f"is {copy / (host or copy):.0%} of the whole"
            message = f"{name} {part if copy < gpu else 'takes as long as the GPU work'}"
            evidence = {f"{name}_ms": copy * 1e3, "gpu_ms": gpu * 1e3}
            remedy = "keep data on the device, or copy less"
            if e.recorded("executes_engine"):  # others cannot overlap copies
                remedy += ", or --protocol pipeline to overlap copies"
            yield Hit(message, evidence, remedy, name, severity=None if copy >= gpu else "note")
    if copies and e.condition("memory") == "pageable":
        message = "copies come from pageable memory, which is slower and blocks the caller"
        yield Hit(message, {"memory": "pageable"}, "use pinned buffers", severity="note")


@rule("H22", "layers do not add up", "note", "layers", note=0.05, warning=0.15)
def layer_sum(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the sum of layer times differs from GPU time by more than {note:.0%}; a warning above
    {warning:.0%}; not where layers are timed by their kernels, whose gaps are listed.
    Source: TensorRT IProfiler. Means: times of layers and the time of the whole run were taken
    under different conditions."""
    gpu = e.median("gpu")
    total = sum(layer.typical_s for layer in e.layers.layers) if e.layers else 0.0
    off = total / gpu - 1 if gpu and total else 0.0
    if gpu and abs(off) > at["note"] and e.recorded("kernel_busy_s") is None:
        why = "profiling runs layers one by one" if off > 0 else "gaps and reformats are not listed"
        message = f"layers sum to {off:+.0%} of the GPU time: {why}"
        evidence = {"layers_ms": total * 1e3, "gpu_ms": gpu * 1e3}
        remedy = "read layer times as shares, not as milliseconds of the real run"
        severe = abs(off) > at["warning"]
        yield Hit(message, evidence, remedy, severity="warning" if severe else None)


@rule("H13", "too few samples", "note", launches=5)
def too_few(e: Evidence | PairFacts, at: Limits) -> Iterator[Hit]:
    """a percentile needs more effective samples than there are (its cell stays empty); a warning
    with two or more but fewer than {launches:.0f} launches, or launches of a comparison.
    Source: order statistics; Student's t. Means: a percentile, or an interval over launches, would
    be mostly chance."""
    count, concerns = 0, None
    if isinstance(e, PairFacts):
        if e.comparison is not None and e.comparison.design != "apart":
            count = len(e.comparison.effects)
    elif head := e.summary.head:
        tails = (0.9, 0.95, 0.99, 0.999)
        missing = [each for each in head.quantiles if each.value is None and each.q in tails]
        if missing:
            needed = {quantile.name: quantile.needed for quantile in missing}
            lacking = f"{head.count} samples, as correlated as these, are too few"
            remedy = f"--iterations {missing[-1].needed}"
            yield Hit(f"{', '.join(needed)} not shown: {lacking}", needed, remedy, missing[0].name)
        if e.summary.launches > 1:
            count, concerns = e.summary.launches, e.summary.headline
    if 0 < count < at["launches"]:
        message = f"{count} launches give only a rough interval"
        remedy = f"--launches {at['launches']:.0f}"
        yield Hit(message, {"launches": count}, remedy, concerns, severity="warning")


@rule("H14", "one launch only", "warning")
def one_launch(e: Evidence, at: Limits) -> Iterator[Hit]:
    """all samples come from a single process.
    Source: 97 to 99 % of the variance lies between launches, measured. Means: another launch can
    have another level, and nothing here shows by how much."""
    if e.summary.columns and e.summary.launches == 1:
        message = "one launch: another one may differ by more than any interval within it"
        yield Hit(message, {"launches": 1, "samples": e.summary.columns[0].count}, "--launches 5")


@rule("H15", "not stationary", "warning", change=0.01, thirds=0.02)
def not_stationary(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the level changes by more than {change:.0%} within the measured part, the last third differs
    from the first by more than {thirds:.0%}, or warm-up ended at its cap. Source: Barrett et al.
    2017. Means: the median depends on when the measurement began and how long it took."""
    column = e.summary.headline
    capped = sum(launch.steady is False for launch in e.record.launches)
    if capped:
        message = f"warm-up of {capped} launches ended without being steady"
        remedy = "--warmup 10s --duration 10s, or find what else runs on the machine"
        yield Hit(message, {"unsteady_warmups": capped}, remedy, column)
    for column, parts in e.parts.items():
        every = map(segment, parts)
        moved = [s for s in every if s.kind != "flat" and s.largest_change > at["change"]]
        drifts = [0.0]
        for part in parts:
            third = len(part) // 3
            if third >= 20 and (first := float(np.median(part[:third]))) > 0:
                drifts.append(float(np.median(part[-third:])) / first - 1)
        drift = max(drifts, key=abs)
        if not moved and abs(drift) <= at["thirds"]:
            continue
        change = max((segment.largest_change for segment in moved), default=0.0)
        kinds = ", ".join(sorted({segment.kind for segment in moved})) or "drift"
        found = f"{max(change, abs(drift)):.1%} in {max(len(moved), 1)} of {len(parts)} launches"
        message = f"times changed while measuring ({kinds}): by {found}"
        remedy = "--warmup 5s, a quiet machine, or trtbench compare for a ratio"
        evidence = {"largest_change": change, "last_third_vs_first": drift}
        yield Hit(message, evidence, remedy, column)


@rule("H17", "two modes", "warning", separation=4, minor=0.05, gap=0.01)
def bimodal(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Otsu's split between p0.5 and p98 has Ashman's D above {separation:.0f}, at least
    {minor:.0%} in the smaller group, and a gap above {gap:.0%} of the median.
    Source: calibrated: no false alarm on five unimodal families. Means: the median describes one of
    two states, and which one can change from run to run."""
    for column, parts in e.parts.items():
        distinct = [x for x in map(modes, parts) if x and x.separation > at["separation"]]
        found = [x for x in distinct if x.minor_share >= at["minor"] and x.gap > at["gap"]]
        if not found:
            continue
        clearest = max(found, key=lambda split: split.separation)
        low, high, share = clearest.low, clearest.high, clearest.minor_share
        message = f"two kinds of iterations: {text_from_seconds(low)} and {text_from_seconds(high)}"
        message += f" ({share * 100:.0f} % in the rarer)"
        evidence = {"low_ms": low * 1e3, "high_ms": high * 1e3, "minor_share": share}
        remedy = "report both modes, not the mean; look for changes of clock or another process"
        yield Hit(message, evidence, remedy, column)


@rule("H18", "heavy tail", "note", "p99", p99=1.5, max=5)
def heavy_tail(e: Evidence, at: Limits) -> Iterator[Hit]:
    """p99 above {p99} times the median, or the maximum above {max:.0f} times. Source: pyperf ±50 %.
    Means: a few queries are much slower; a service with a deadline meets them."""
    head = e.summary.head
    if head is None:
        return
    far = (head.quantile(0.99).value or 0) > at["p99"] * head.median
    if head.median > 0 and (far or head.max > at["max"] * head.median):
        column, largest = e.times.durations()[head.column], head.max / head.median
        slowest = np.argsort(-column, kind="stable")[:5]
        shown = ", ".join(f"#{i} {column[i] / head.median:.1f}×" for i in slowest)
        message = f"heavy tail: the slowest query took {largest:.1f} times the median"
        remedy = "look for the cause: garbage collection, throttling, another process"
        yield Hit(message, {"max_over_median": largest, "worst": shown}, remedy)


@rule("H19", "samples are not independent", "note", tau=10)
def autocorrelated(e: Evidence, at: Limits) -> Iterator[Hit]:
    """a correlation time above {tau:.0f} samples.
    Source: 16 to 21 is usual on a shared machine, measured. Means: neighbouring samples repeat one
    another: intervals rest on fewer samples than were taken."""
    head = e.summary.head
    if head and head.effective and head.count / head.effective > at["tau"]:
        message = f"{head.count} samples are worth {head.effective:.0f} independent ones"
        evidence = {"tau": head.count / head.effective, "effective": head.effective}
        remedy = "more launches instead of more iterations: --launches 5"
        yield Hit(message, evidence, remedy, head.column)


@rule("H41", "still loading or compiling", "warning", "gpu", first=5, times=1.5)
def still_loading(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the first {first:.0f} measured iterations take more than {times} times the median; or
    TensorRT-RTX without a runtime cache.
    Source: CUDA lazy loading; TensorRT-RTX background compilation. Means: the number includes work
    that happens once, not with every query."""
    first, ratios = int(at["first"]), [0.0]
    for part in e.parts.get(e.times.headline, ()):
        if len(part) >= 10 * first and (median := float(np.median(part))) > 0:
            ratios.append(float(np.min(part[:first])) / median)
    if max(ratios) > at["times"]:
        took = f"the first measured iterations took {max(ratios):.1f} times the median"
        evidence = {"first_over_median": max(ratios)}
        remedy = "--warmup 5s" + ("; CUDA_MODULE_LOADING=EAGER" if e.times.gpu is not None else "")
        yield Hit(f"{took}: something was still loading", evidence, remedy, e.times.headline)
    if e.condition("specialization") == "lazy":
        message = "TensorRT-RTX compiles kernels in the background: times step down in mid-run"
        remedy = "--opt specialization=eager, which compiles before the first query"
        yield Hit(message, {"specialization": "lazy"}, remedy)


@rule("H26", "precision not what the label says", "warning", "gpu", share=0.5)
def precision_label(e: Evidence, at: Limits) -> Iterator[Hit]:
    """fewer than {share:.0%} of the layers run in the precision of the label, no layer runs in the
    one that the model's record file names, or ONNX Runtime computes in none of the file's types; a
    note if only the record file names a precision.
    Source: TensorRT 11 is strongly typed. Means: the number belongs to another precision than the
    name of the model says."""
    label = precision_of(e.record) or e.record.spec.precision
    if (claimed := e.recorded("claimed_precision")) is not None:
        ran = precision_of(e.record)
        message = f"recorded as {claimed}, but no layer computes in it: {ran}"
        evidence = {"claimed": claimed, "ran": ran}
        yield Hit(message, evidence, "build or convert it again, or delete its record file")
    if label is None:
        return
    if (computed := e.recorded("computes_in")) is not None:
        message = f"the file holds {label}, but nothing was computed in it: {computed}"
        remedy = "use another processor or runtime; trtbench inspect MODEL shows its types"
        yield Hit(message, {"held": label, "ran": computed}, remedy, "host")
    fact = e.record.conditions.get("precision")
    if fact is not None and fact.source == "recorded":
        message = f"{label} is only what the engine's record file says; it was not verified"
        remedy = "trtbench build records the types of layers; trtbench profile ENGINE shows them"
        yield Hit(message, {"claimed": label}, remedy, severity="note")
    types = count_layer_types(e.graph) if e.graph else Counter()
    # Precision labels that several computing types satisfy.
    full = ("fp32", "tf32")
    wanted = {"best": (), "tf32": full, "fp32": full}.get(label, tuple(types_of(label)))
    share = sum(types[name] for name in wanted) / max(1, sum(types.values()))
    if types and wanted and share < at["share"]:
        shown = ", ".join(f"{count} {name}" for name, count in types.most_common())
        message = f"labelled {label}, but only {share:.0%} of the layers run in it"
        remedy = "build from a typed ONNX, or rename it; trtbench inspect ENGINE shows layers"
        yield Hit(message, {"layers": shown, "share": share}, remedy)


@rule("H29", "part of the model ran elsewhere", "warning", "host")
def fallback(e: Evidence, at: Limits) -> Iterator[Hit]:
    """nodes not on the requested device, or graph breaks in PyTorch.
    Source: ONNX Runtime. Means: the number includes parts on another device, and the copies between
    the two."""
    nodes, breaks = e.fact("fallback_nodes"), e.fact("graph_breaks")
    if nodes:
        message = f"{nodes:.0f} nodes ran on the CPU instead of the requested device"
        message += f": {names}" if (names := e.recorded("fallback_names")) else ""
        remedy = "replace them in the model, or accept the copies they cost"
        yield Hit(message, {"fallback_nodes": nodes}, remedy)
    if breaks:
        message = f"the compiled model has {breaks:.0f} graph breaks: parts ran eagerly"
        yield Hit(message, {"graph_breaks": breaks}, "TORCH_LOGS=graph_breaks shows where")


@rule("H30", "unrealistic input", "note")
def input_data(e: Evidence, at: Limits) -> Iterator[Hit]:
    """random or constant input, the same buffer every time.
    Source: power and sparsity depend on data. Means: power, sparsity and branches depend on the
    values; other inputs can be slower or faster."""
    if e.record.provenance != "measured":
        return
    constant = e.recorded("inputs_constant")
    files = {"load_inputs", "loadInputs"} & properties.options_of(e.record).keys()
    read = e.record.spec.inputs.source or files
    if constant or not read:
        what = "constant" if constant else "random"
        message = f"{what} input, the same every time: real data may differ in power"
        yield Hit(message, {"input": what}, "--data data.npz")


@rule("H36", "latency not under load", "note", "p99", late=0.01)
def not_under_load(e: Evidence, at: Limits) -> Iterator[Hit]:
    """closed-loop latency; in an open loop a warning when more than {late:.0%} of requests were
    dispatched late.
    Source: wrk2; perf_analyzer 1 %. Means: in a service, queries wait for one another; a closed
    loop shows the lower limit, and late requests show a sender that was held up."""
    late = e.fact("late_share") or 0.0
    if e.fact("offered_hz") is not None and late > at["late"]:
        message = f"{late:.1%} of the requests were sent late, which adds to their latency"
        remedy = "keep a core free for the sender: fewer --threads, no other work"
        yield Hit(message, {"late_share": late}, remedy, "host", severity="warning")
    protocol = properties.protocol_of(e.record)
    if protocol in ("serve", "pipeline", "gpu") and e.fact("offered_hz") is None:
        message = "each query waited for the one before: queueing in a busy service adds latency"
        yield Hit(message, {"protocol": protocol}, "--protocol server --rate 100/s")


@rule("H37", "overloaded", "error", "host", achieved=0.95)
def overloaded(e: Evidence, at: Limits) -> Iterator[Hit]:
    """queue time grows or, with too few queries to see that, less than {achieved:.0%} of the
    offered rate was achieved.
    Source: open-loop queueing. Means: requests arrive faster than they are served, so latency grows
    as long as it is measured."""
    offered, achieved = e.fact("offered_hz"), e.fact("achieved_hz")
    if not offered or achieved is None:
        return
    grows = e.recorded("queue_grows")
    if grows or (grows is None and achieved / offered < at["achieved"]):
        message = f"overloaded: {achieved / offered:.1%} of the offered rate was served"
        evidence = {"offered_hz": offered, "achieved_hz": achieved}
        bearable = float(f"{0.8 * achieved:.2g}")
        yield Hit(f"{message}; latency has no meaning", evidence, f"--rate {bearable:.15g}/s")


@rule("H38", "energy window too short or in doubt", "warning", "energy", updates=100, apart=0.05)
def energy_window(e: Evidence, at: Limits) -> Iterator[Hit]:
    """window below {updates:.0f} counter updates, counter and integrated power more than
    {apart:.0%} apart, or a sensor that only samples part of the time.
    Source: arXiv 2312.02741. Means: the energy per query can be wrong by as much as the window or
    the sensor is."""
    window_s, update_s = e.fact("energy_window_s"), e.fact("energy_update_s")
    counter_j, integral_j = e.fact("energy_counter_j"), e.fact("energy_integral_j")
    if window_s is None:
        return
    why = []
    if update_s and window_s < at["updates"] * update_s:
        why.append(f"the window holds {window_s / update_s:.0f} counter updates")
    apart = abs(integral_j - counter_j) / counter_j if counter_j and integral_j is not None else 0
    if apart > at["apart"]:
        why.append(f"counter and power samples are {apart:.0%} apart")
    if e.recorded("energy_part_time_sensor"):
        why.append("the sensor only samples part of the time")
    if why:
        message = f"energy is uncertain: {'; '.join(why)}"
        remedy = f"--duration {max(10.0, at['updates'] * (update_s or 0.1)):.0f}s"
        yield Hit(message, {"window_s": window_s, "update_s": update_s}, remedy)


@rule("H44", "imported numbers", "warning", step=0.05)
def imported(e: Evidence, at: Limits) -> Iterator[Hit]:
    """an imported run without its version or effective flags, or with enqueue times in steps
    above {step:.0%}.
    Source: trtexec's source: float32 milliseconds since start. Means: conditions that change the
    number are unknown, so it may not be comparable."""
    if e.record.provenance != "imported":
        return
    unknown = sorted(key for key, fact in e.record.conditions.items() if known_value(fact) is None)
    versions = e.record.environment.versions
    if unknown or not any("tensorrt" in name.lower() for name in versions):
        missing = ", ".join([*([] if versions else ["TensorRT version"]), *unknown])
        remedy = "import the build log of the engine too; it may contain them"
        if not versions:
            remedy = "import the log too: trtbench import times.json trtexec.log"
        named = missing or "the version"
        yield Hit(f"imported without a record of {named}", {"unknown": missing}, remedy)
    median, column = e.median("enqueue"), e.times.enqueue
    step = value_step(column)[0] if column is not None else None
    if step and median and step > at["step"] * median:
        message = f"enqueue times come from rounded time stamps, in steps of {step / median:.0%}"
        evidence = {"step_us": step * 1e6, "median_us": median * 1e6}
        yield Hit(message, evidence, "use them only as an order of magnitude", "enqueue")


@rule("H47", "warning from trtexec", "warning")
def tool_warned(e: Evidence, at: Limits) -> Iterator[Hit]:
    """trtexec printed a warning about the numbers themselves (unstable times, bound by the host
    or by copies, a graph that was not captured, lowered clocks); a note on how the engine was made;
    no word on the host where the GPU computes 97 % of the time.
    Source: trtexec's own report. Means: the tool that measured doubts its own number."""
    for key, value in e.record.facts.items():
        kind = key.removeprefix(_WARNED)
        if kind == key or not isinstance(value, str) or (kind == "enqueue-bound" and e.always_busy):
            continue
        meaning, _, said = value.partition("; trtexec: ")
        message = f"trtexec warned: {meaning}"
        evidence = {"kind": kind, "said": said}
        remedy = _WARNING_REMEDIES.get(kind, "read its log around this line")
        yield Hit(message, evidence, remedy, severity="note" if kind in _ON_THE_ENGINE else None)


_WARNED = "trtexec_warned."
_ON_THE_ENGINE = ("weak-typing", "weights-converted", "no-calibrator", "library-mismatch")
_WARNING_REMEDIES = {
    "unstable": "lock the clocks, stop other work on the GPU, and measure longer",
    "clocks-not-locked": "lock the clocks: sudo nvidia-smi -lgc MIN,MAX",
    "enqueue-bound": "measure with a CUDA graph: --useCudaGraph",
    "h2d-bound": "leave copies out (--noDataTransfers) if they are not meant to count",
    "d2h-bound": "leave copies out (--noDataTransfers) if they are not meant to count",
    "graph-capture-failed": "the times are those without a CUDA graph",
    "throttled": "let it cool, raise its power limit, or lock lower clocks",
    "streams-overlap": "read the throughput, not the latency",
    "weak-typing": "put the types into the model before TensorRT 11",
}


def contradictions(record: RunRecord) -> list[tuple[str, str, str | None]]:
    """List settings that differ from what ran: name, request, and what ran if it is known."""
    spec = record.spec
    checked = [each.name for each in properties.PROPERTIES if each.checked]
    passed_on = {word.partition("=")[0] for word in spec.extra_args}  # to a program, by the user
    ran = {tensor.name: "x".join(map(str, tensor.shape)) for tensor in record.inputs}
    found: list[tuple[str, Scalar, Scalar]] = [
        ("batch", spec.batch, record.batch),
        ("precision", spec.precision, precision_of(record)),
    ]
    for name, shape in spec.shapes.items() if record.inputs else ():
        found.append((f"shape of {name}", "x".join(map(str, shape)), ran.get(name)))
    for key in checked:
        value: Scalar = getattr(spec, key)
        if key == "protocol" and not spec.transfers and value in ("pipeline", "gpu"):
            value = None  # without transfers both are the same but for the CUDA graph
        if key == "cuda_graph":  # a failed capture has a rule of its own
            value = False if value == "off" else None
        if passed_on.isdisjoint(properties.SETTING_FLAGS.get(key, ())):
            found.append((key, value, known_value(record.conditions.get(key))))
    options = mask_values(spec.options)
    found += [(key, value, properties.options_of(record)[key]) for key, value in options.items()]
    silent = checked if record.provenance == "measured" else [*checked, "batch", "precision"]
    return [
        (what, str(asked), None if value is None else str(value))
        for what, asked, value in found
        if asked is not None and asked != value and not (value is None and what in silent)
    ]


@rule("H46", "ran differently than requested", "warning")
def asked_and_ran(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the batch, precision, shapes, protocol, streams, threads, transfers or spinning that ran
    differ from what was requested, or are unknown; labels show what ran.
    Source: what the session or the program reports. Means: the number answers another question than
    the one that was asked."""
    for what, asked, ran in contradictions(e.record):
        reason = f"{ran} ran" if ran is not None else "what ran is unknown"
        message = f"{what} {asked} was requested, but {reason}"
        remedy = {
            "batch": "leave --batch out, or build or export with a dynamic batch",
            "precision": "trtbench build MODEL.onnx --precision, and measure that engine",
        }.get(what, f"leave the {what} out, or use another runtime")
        yield Hit(message, {"asked": asked, "ran": ran}, remedy)


@rule("H48", "images prepared differently for calibration", "error")
def prepared_alike(
    model: str, calibrated: Mapping[str, Scalar], judged: Mapping[str, Scalar], at: Limits
) -> Iterator[Hit]:
    """images for calibration were scaled, cropped or normalised differently than those for the
    evaluation.
    Source: calibrated with other normalisation, INT8 reached 43 % top-1 instead of 70 %. Means: the
    ranges of the quantized model fit other inputs than it gets; its scores are too low."""
    other = [key for key in {**calibrated, **judged} if calibrated.get(key) != judged.get(key)]
    # A value that one side did not record may be the same; so may another task's preparation.
    if not {*calibrated} & {*judged} & {*other} - {"task"}:
        return
    before, now = (
        ", ".join(f"{key} {side.get(key, 'none')}" for key in other)
        for side in (calibrated, judged)
    )
    message = f"{model} was calibrated with differently prepared images: {before}; here: {now}"
    remedy = "quantize or build again with the --task and the flags of this evaluation"
    yield Hit(message, {"calibrated": before, "judged": now}, remedy, model)


@rule("H49", "engine of a builder that crashed", "warning")
def crashed_builder(end: str, at: Limits) -> Iterator[Hit]:
    """trtexec built and saved the engine, printed PASSED, and crashed while it exited; a new
    process loads and runs the engine.
    Source: trtexec 8.6.0 with a timing cache on an H200: SIGSEGV after PASSED. Means: the engine
    works, but its builder has a bug that may damage another."""
    message = f"trtexec {end} after it had printed PASSED"
    message += "; the engine loads and runs in a new process, so it was kept"
    yield Hit(message, {"builder": end}, "--no-timing-cache, or another version of TensorRT")


@rule("H50", "scores without some items", "warning")
def items_left_out(
    model: str, unreadable: Sequence[Unreadable], items: int, at: Limits
) -> Iterator[Hit]:
    """files of a data set could not be read; the scores are those of the rest.
    Source: Pillow's own error on each file. Means: they are scores of a smaller data set."""
    if unreadable:
        count, first = len(unreadable), unreadable[0]
        message = f"{count} of {items} items could not be read and are not in the scores"
        message += f": {first.name} ({first.reason})"
        remedy = "repair them, or remove them from the folder"
        yield Hit(message, {"unreadable": count, "items": items}, remedy, model)


@rule("H51", "set by the environment", "warning")
def set_by_environment(e: Evidence, at: Limits) -> Iterator[Hit]:
    """an environment variable changes what is computed or measured
    (NVIDIA_TF32_OVERRIDE, CUDA_LAUNCH_BLOCKING, ORT_TENSORRT_*, ...); a note if it only sets
    threads or memory.
    Source: the documentation of CUDA, cuDNN, oneDNN, OpenMP, ONNX Runtime and PyTorch. Means:
    another shell, with other variables, measures another number."""
    facts = properties.variables_of(e.record)
    known = [(x, f"{name}={facts[name]}") for name in facts if (x := properties.variable_of(name))]
    for decides in (True, False):
        found = [(each, text) for each, text in known if each.changes_results is decides]
        if found:
            effects = "; ".join(f"{text} ({each.effect})" for each, text in found)
            message = f"the environment sets {effects}"
            evidence = {"variables": " ".join(text for _, text in found)}
            remedy = "unset them, or set them in production too"
            yield Hit(message, evidence, remedy, severity=None if decides else "note")


LOCK = "lock the clock: sudo nvidia-smi -lgc MIN,MAX (and -rgc afterwards)"
LIMITING_REASONS = 0xE8  # HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, power brake 0x80


@rule("H04", "limited by power or heat", "warning", "gpu", warning=0.01, error=0.10)
def limited(e: Evidence, at: Limits) -> Iterator[Hit]:
    """limit counters grew for more than {warning:.0%} of the time (error above {error:.0%}), or a
    slowdown reason was seen.
    Source: NVML violation counters. Means: the GPU ran slower than it can; cooler or less loaded it
    is faster."""
    shares: dict[str, float] = {}
    for launch in e.record.launches:
        # `low_utilization` and `sync_boost` also grow on an idle GPU.
        for name in ("power", "thermal", "board", "reliability", "power_brake"):
            if launch.wall_s and name in launch.violations_s:
                share = launch.violations_s[name] / launch.wall_s
                shares[name] = max(share, shares.get(name, 0.0))
    worst, share = max(shares.items(), key=lambda item: item[1], default=("", 0.0))
    seen = [s for s in e.telemetry if (s.event_reasons or 0) & LIMITING_REASONS]
    if share > at["warning"]:
        message = f"the GPU was limited by {worst.replace('_', ' ')} for {share:.0%} of the time"
        evidence = {f"{name}_share": share for name, share in shares.items()}
        remedy = "cool it, raise the power limit, or lock a lower clock: nvidia-smi -lgc MIN,MAX"
        yield Hit(message, evidence, remedy, severity="error" if share > at["error"] else None)
    elif seen:
        message = f"the GPU reported a slowdown in {len(seen)} of {len(e.telemetry)} samples"
        remedy = "cool it or check the power supply: nvidia-smi -q -d PERFORMANCE"
        yield Hit(message, {"reasons": hex(seen[0].event_reasons or 0), "looks": len(seen)}, remedy)


@rule("H05", "the clock changed", "note", "gpu", note=0.02, warning=0.05, least=0.75)
def clock_drift(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the SM clock changed by more than {note:.0%} of its median with telemetry (warning above
    {warning:.0%}), or fell by more than {warning:.0%} while a launch was timed (warning); an
    error below {least:.0%} of the default clock.
    Source: nvbench 75 %; depth-anything-win 5 %. Means: the number mixes several clocks."""
    drop, longer = e.fact("sm_clock_drop") or 0.0, f"{LOCK}, or warm up longer: --warmup 5s"
    if drop > at["warning"]:
        message = f"the SM clock fell by {drop:.0%} while the times were taken"
        yield Hit(message, {"drop": drop}, longer, severity="warning")
    clocks = known(sample.sm_clock_hz for sample in e.telemetry)
    if len(clocks) < 2:
        return
    median, spread = float(np.median(clocks)), max(clocks) - min(clocks)
    default = e.gpu.sm_clock_default_hz if e.gpu else None
    if default and median < at["least"] * default:
        message = f"the SM clock was {median / 1e6:.0f} MHz, {median / default:.0%} of default"
        evidence = {"clock_mhz": median / 1e6, "default_mhz": default / 1e6}
        remedy = "wait until the GPU has cooled down and measure again"
        yield Hit(message, evidence, remedy, severity="error")
    elif spread > at["note"] * median:
        message = f"the SM clock changed by {spread / median:.0%} while measuring"
        evidence = {"min_mhz": min(clocks) / 1e6, "max_mhz": max(clocks) / 1e6}
        severe = spread > at["warning"] * median
        yield Hit(message, evidence, longer, severity="warning" if severe else None)


@rule("H07", "clocks not locked", "note", "gpu", cov=0.025)
def clocks_unlocked(e: Evidence, at: Limits) -> Iterator[Hit]:
    """clocks are not locked and the CoV of GPU time exceeds {cov:.1%}.
    Source: trtexec 2.5 %. Means: part of the spread is the GPU's clock, not the network."""
    cov = next((each.cov for each in e.summary.columns if each.column == "gpu"), 0.0)
    if e.gpu is not None and e.gpu.clocks_locked is False and cov > at["cov"]:
        yield Hit(f"GPU times spread by {cov:.1%} and the clock is not locked", {"cov": cov}, LOCK)


@rule("H08", "the GPU is shared", "warning", "gpu", util=0.05)
def gpu_shared(e: Evidence, at: Limits) -> Iterator[Hit]:
    """other processes on the GPU, more than {util:.0%} utilisation before the start, or MIG, MPS
    or a display.
    Source: NVML; TensorRT issue 2289. Means: work of others is in the number."""
    mine = f"gpu{gpu_number(e.record)}"
    others, before = e.fact(f"{mine}_processes"), e.fact(f"{mine}_utilisation") or 0.0
    why = [name for name in ("display", "mig", "mps") if e.recorded(f"{mine}_{name}")]
    if others:
        why.append(f"{others:.0f} other processes")
    if before > at["util"]:
        why.append(f"{before:.0%} busy before the start")
    used = e.median("gpu") is not None or bool(e.telemetry)
    if why and used and e.record.environment.gpus:
        message = f"the GPU is shared: {', '.join(why)}"
        remedy = "stop the others (nvidia-smi shows them) or choose another: --device cuda:1"
        yield Hit(message, {"processes": others, "utilisation_before": before}, remedy)


@rule("H09", "the CPU is contended", "warning", "host", switches=10, steal=0.01, pressure=0.05)
def cpu_contended(e: Evidence, at: Limits) -> Iterator[Hit]:
    """more than {switches:.0f} involuntary context switches per second, steal above {steal:.0%},
    load above cores - 1, CPU pressure above {pressure:.0%}, or a container's CPU quota
    stopped the process.
    Source: /proc/stat, getrusage, /proc/pressure, cpu.stat. Means: waiting for other processes is
    in the number: it is longer and varies more than alone."""
    machine = e.record.environment
    cores = machine.cpu_cores or math.inf
    rates = (
        launch.involuntary_switches / launch.wall_s
        for launch in e.record.launches
        if launch.involuntary_switches is not None and launch.wall_s
    )
    seen = {
        "switches_per_s": max(rates, default=None),
        "steal": e.fact("cpu_steal_fraction"),
        "pressure": e.fact("pressure_fraction"),
        "load": machine.load_before[0] if machine.load_before else None,
        "throttled_s": e.fact("throttled_s"),
    }
    evidence = {key: value for key, value in seen.items() if value is not None}
    limits = {
        "switches_per_s": (at["switches"], "{:.0f} involuntary context switches per second"),
        "steal": (at["steal"], "{:.1%} of CPU time stolen by the hypervisor"),
        "load": (cores - 1, f"load {{:.1f}} on {cores} cores before the run"),
        "pressure": (at["pressure"], "tasks waited for a CPU {:.0%} of the time"),
        "throttled_s": (0.0, "the container's CPU quota stopped the process for {:.2g} s"),
    }
    why = [
        words.format(evidence[key])
        for key, (limit, words) in limits.items()
        if evidence.get(key, -math.inf) > limit
    ]
    if why:
        remedy = "stop other work or raise the quota; trtbench compare affects both sides equally"
        yield Hit(f"the CPU was contended: {'; '.join(why)}", evidence, remedy)


@rule("H10", "CPU speed not fixed", "note", "host")
def cpu_frequency(e: Evidence, at: Limits) -> Iterator[Hit]:
    """the governor is not 'performance', turbo is on, cores share SMT siblings, the frequency is
    unknown, or the machine is virtual.
    Source: pyperf system; launch CV of 18 % on a shared virtual machine. Means: the same work can
    take longer or shorter as the CPU changes its clock."""
    if e.record.provenance != "measured":
        return
    machine = e.record.environment
    governor = f"governor {machine.cpu_governor}" if machine.cpu_governor else None
    found = {
        governor or "no frequency information": machine.cpu_governor != "performance",
        "turbo on": e.recorded("turbo"),
        "hyper-threads shared": e.recorded("smt"),
        "virtual machine": machine.virtual_machine,
    }
    if why := [words for words, holds in found.items() if holds]:
        message = f"the CPU may change its speed: {', '.join(why)}"
        remedy = "sudo cpupower frequency-set -g performance; or compare ratios, not times"
        yield Hit(message, {"governor": machine.cpu_governor, "turbo": e.recorded("turbo")}, remedy)


@rule("H31", "thread settings", "warning", "host")
def threads(e: Evidence | PairFacts, at: Limits) -> Iterator[Hit]:
    """more threads than physical cores, two spinning pools in one process, or different thread
    counts on the two sides.
    Source: a false difference of 35 %, measured. Means: threads wait for one another, which costs
    time that the network does not need."""
    if isinstance(e, Evidence):
        cores, count = e.record.environment.cpu_physical_cores, e.record.spec.threads or 0
        if cores and count > cores:
            message = f"{count} threads on {cores} physical cores"
            yield Hit(message, {"threads": count, "physical_cores": cores}, f"--threads {cores}")
        return
    # Spinning threads wait without sleeping; a single thread has no pool.
    spinning = [
        known_value(side.conditions.get("spinning")) == "on" and side.spec.threads != 1
        for side in e.sides
    ]
    if e.one_process and all(spinning):
        message = "two spinning thread pools share one process"
        remedy = "--opt spinning=off, or --threads 1, which needs no pool"
        yield Hit(message, {"spinning": "on", "one_process": True}, remedy)
    one, other = counts = [side.spec.threads for side in e.sides]
    alike = e.baseline.spec.runtime == e.candidate.spec.runtime
    if one != other and (alike or None not in counts):
        shown = " against ".join("the default" if each is None else str(each) for each in counts)
        message = f"the sides use different thread counts: {shown}"
        yield Hit(message, {"baseline": one, "candidate": other}, "give both the same --threads")


def _hits(e: PairFacts, code: str, *, remedy: str) -> Iterator[Hit]:
    """Turn the differences of one code into findings."""
    two_devices = across_devices(*e.sides) is not None
    for each in differences(*e.sides, accept=e.accept):
        if each.code != code:
            continue
        evidence = {"baseline": each.baseline, "candidate": each.candidate}
        if two_devices and each.blocking and each.of_device:
            message = f"compared across devices: {each.message}"
            advice = "the ratio is between two devices; to judge a change, measure both on one"
            yield Hit(message, evidence, advice, severity="warning")
        else:
            advice, grave = remedy.format(key=each.key), each.blocking
            yield Hit(each.message, evidence, advice, severity="error" if grave else "note")


@rule("H06", "clocks differ between the sides", "warning", "gpu", apart=0.01)
def clocks_differ(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """median SM clocks more than {apart:.0%} apart, or the verdict changes when times are counted
    in cycles.
    Source: nvbench-compare-robust. Means: at least part of the difference is one of clocks."""
    one, other = e.baseline_clock_hz, e.candidate_clock_hz
    if one and other and abs(other / one - 1) > at["apart"]:
        first, second = one / 1e6, other / 1e6
        message = f"the SM clock was {first:.0f} MHz on one side, {second:.0f} MHz on the other"
        yield Hit(message, {"baseline_mhz": first, "candidate_mhz": second}, LOCK)
    if e.in_time != e.in_cycles:
        message = f"GPU time is {e.in_time} in seconds, {e.in_cycles} in cycles: a clock effect"
        yield Hit(message, {"in_time": e.in_time, "in_cycles": e.in_cycles}, LOCK)
    yield from _hits(e, "H06", remedy="lock the same clocks on both sides")


@rule("H24", "CUDA graph on one side only", "error")
def graph_on_one_side(e: Evidence | PairFacts, at: Limits) -> Iterator[Hit]:
    """one side used a CUDA graph and the other did not, or a capture failed silently.
    Source: trtexec: may be ignored if capture fails. Means: the difference includes launching
    kernels one by one, on one side only."""
    if isinstance(e, PairFacts):
        facts = [side.conditions.get("cuda_graph_fell_back") for side in e.sides]
        fell = any(fact is not None and fact.value is True for fact in facts)
        remedy = f"--cuda-graph {'off' if fell else 'on'} for both, or --accept {{key}}"
        yield from _hits(e, "H24", remedy=remedy)
    elif e.record.spec.cuda_graph == "on" and e.condition("cuda_graph") is False:
        message = "a CUDA graph was requested, and none was used: the capture failed"
        evidence = {"requested": True, "used": False}
        yield Hit(message, evidence, "see the log for what could not be captured", "gpu")


@rule("H25", "shapes or protocol differ", "error")
def shapes_differ(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """inputs, batch, protocol, transfers, streams or waiting differ between the sides.
    Source: ArtTRT: dynamic engine 13.2 ms, static 5.5 ms. Means: the sides did different work."""
    yield from _hits(e, "H25", remedy="measure both under the same conditions, or --accept {key}")


@rule("H27", "TF32 on one side only", "error")
def tf32_on_one_side(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """TF32 allowed on one side only (TensorRT on by default; PyTorch off for matmul, on for
    cuDNN).
    Source: TensorRT and PyTorch documentation. Means: one side computes with fewer bits."""
    remedy = "build with --precision fp32, which leaves TF32 out; for ONNX Runtime "
    remedy += "--opt cuda.use_tf32=0, or NVIDIA_TF32_OVERRIDE=0 for all; or --accept tf32"
    yield from _hits(e, "H27", remedy=remedy)


@rule("H28", "different machines or versions", "error")
def machines_differ(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """different host, CPU, GPU, power limit or ECC setting (refused; a warning for imported runs,
    whose ratio is labelled as across devices); different versions (a note).
    Source: nvbench's device match. Means: the machine may make the difference, not the model."""
    yield from _hits(e, "H28", remedy="measure both here: trtbench compare A B")


@rule("H32", "the sides disturb each other", "warning", share=0.05, most=0.5)
def interference(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """taking turns slowed one side {share:.0%} more than the other, or a side by {most:.0%},
    compared with its time alone.
    Source: measured: identical sessions 35 % apart. Means: the ratio holds while both sides are
    loaded, and may be another for each alone."""
    moved = e.interference
    ratios = [*moved.values()] if len(moved) > 1 else [1.0, *moved.values()]
    alone = e.comparison.alone if e.comparison else None
    if alone is not None and alone.kind == "unclear":
        return  # unclear times alone cannot show an effect of taking turns
    if max(ratios) > (1 + at["share"]) * min(ratios) or max(ratios) - 1 > at["most"]:
        by_itself = f"; alone it is {alone.ratio - 1:+.1%}" if alone and alone.ratio else ""
        sides = " and ".join(f"the {side} by {ratio - 1:+.0%}" for side, ratio in moved.items())
        remedy = "the ratio is valid for sides in turn; --mode launches measures each alone"
        yield Hit(f"taking turns changed the time of {sides}{by_itself}", moved, remedy)


@rule("H33", "the order matters", "warning", level=0.99)
def order_effect(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """running second in a pair changes the time, significant at {level:.0%}.
    Source: duet design; not found in tests. Means: each query changes the machine for the next."""
    estimate = trimmed(e.position_effects)
    if estimate is not None and estimate.df >= 1 and estimate.p < 1 - at["level"]:
        message = f"running second in a pair changes the time by {estimate.mean:+.2%}"
        evidence = {"effect": estimate.mean, "p": estimate.p}
        yield Hit(message, evidence, "random order cancels it; --mode launches has no pairs")


@rule("H34", "many comparisons", "note")
def many_comparisons(count: int, at: Limits) -> Iterator[Hit]:
    """more than one candidate: probabilities are corrected by Holm's rule.
    Source: multiplicity. Means: of many comparisons, some differ by chance."""
    if count > 1:
        message = f"{count} comparisons at once, corrected by Holm's rule"
        yield Hit(message, {"comparisons": count}, "compare fewer candidates, or more launches")


@rule("H43", "faster and less accurate", "warning", "accuracy")
def less_accurate(metric: str, low: float, high: float, at: Limits) -> Iterator[Hit]:
    """the interval of the accuracy loss excludes zero.
    Source: a speed-up at unequal accuracy is half a result. Means: speed costs accuracy here."""
    if low > 0:
        message = f"the candidate loses {low:.3g} to {high:.3g} of {metric}"
        message += ": report it with the speed-up"
        remedy = "compare at equal accuracy, or report both numbers"
        yield Hit(message, {"drop_low": low, "drop_high": high}, remedy)


@rule("H45", "measured on different days", "note", days=7)
def aged(e: PairFacts, at: Limits) -> Iterator[Hit]:
    """the sides were measured more than {days:.0f} days apart.
    Source: consecutive launches cover 33 to 62 %, measured. Means: what changed on the machine in
    between looks like a difference of the models."""
    times = known(instant_from_text(record.created) for record in e.sides)
    days = (max(times) - min(times)) / 86400 if len(times) == 2 else 0.0
    if days > at["days"]:
        message = f"measured {days:.0f} days apart: machines change"
        yield Hit(message, {"days": days}, "measure both now: trtbench compare A B")
