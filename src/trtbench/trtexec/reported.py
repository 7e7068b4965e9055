"""The numbers of a log under the names that records use, as they were printed."""

from __future__ import annotations

from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec
from trtbench.trtexec.log import Binding, LogRun

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
"""The log's names of types that numpy calls otherwise."""

WARNED = "trtexec_warned."
"""Beginning of the facts that hold its warnings; the rest is what kind each is."""

CONCERNING = frozenset(
    [
        "aux-streams",
        "clocks-not-locked",
        "d2h-bound",
        "device-mismatch",
        "enqueue-bound",
        "graph-capture-failed",
        "h2d-bound",
        "library-mismatch",
        "no-calibrator",
        "shape-assumed",
        "streams-overlap",
        "throttled",
        "unstable",
        "weak-typing",
        "weights-converted",
    ]
)
"""Warnings that say something about what a number means."""

UNKNOWN_DTYPE = "unknown"
"""Up to TensorRT 10.14 the log does not say which type a binding has."""


def reported_from_log(run: LogRun) -> dict[str, Scalar]:
    """Make what the performance summary printed: rates, totals, and each row in milliseconds."""
    summary = run.summary
    if summary is None:
        return {}
    found: dict[str, Scalar] = {
        "throughput_qps": summary.throughput_qps,
        "total_host_walltime_s": summary.wall_s,
        "total_gpu_compute_time_s": summary.gpu_total_s,
    }
    for label, metric in summary.metrics.items():
        name = label.lower().replace(" ", "_").replace("-", "_")
        for statistic in ("min", "max", "mean", "median"):
            found[f"{name}_{statistic}_ms"] = getattr(metric, f"{statistic}_ms")
        for percent, value in metric.percentiles_ms.items():
            found[f"{name}_p{percent.rstrip('%')}_ms"] = value
    return {name: value for name, value in found.items() if value is not None}


def warnings_from_log(run: LogRun) -> dict[str, Scalar]:
    """Make the warnings that concern the numbers, with their meaning, as facts of the record."""
    found: dict[str, Scalar] = {}
    for message in run.messages:
        if message.code in CONCERNING and message.meaning is not None:
            text = f"{message.meaning}; trtexec: {message.text.lstrip('* ').rstrip('.')}"
            found.setdefault(f"{WARNED}{message.code}", text)
    return found


def tensors_from_log(run: LogRun, *, outputs: bool) -> tuple[TensorSpec, ...]:
    """Make the inputs or the outputs with the shapes that were run."""
    return tuple(_tensor(each) for each in run.bindings if each.output == outputs)


def _tensor(binding: Binding) -> TensorSpec:
    dtype = (binding.dtype or UNKNOWN_DTYPE).lower()
    return TensorSpec(name=binding.name, dtype=_DTYPES.get(dtype, dtype), shape=binding.shape)
