"""Numbers that another tool printed, kept as printed and named by column and statistic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtbench.domain.result import Scalar
from trtbench.trtexec.reported import reported_from_log
from trtbench.workflows.importing.match import Draft
from trtbench.workflows.importing.metadata import number

_TOOLKIT_COLUMNS = {
    "latency": "latency",
    "enqueue": "enqueue_time",
    "compute": "gpu_compute_time",
    "end_to_end": "end_to_end_host_latency",
}
_TORCH_COLUMNS = {
    "host": "host",
    "h2d": "h2d_latency",
    "gpu": "gpu_compute_time",
    "d2h": "d2h_latency",
}
"""Other tools' names for columns, and those that trtexec's printed rows go by."""
_STATISTICS = ("min", "max", "mean", "median")


def numbers_of(draft: Draft) -> dict[str, Scalar]:
    """Collect what was printed: ``latency_median_ms``, ``throughput_qps`` and so on."""
    log = draft.log
    if log is not None and log.summary is not None:
        numbers = reported_from_log(log)
        if log.queries is not None:
            numbers["queries"] = log.queries
        return numbers
    for slot in ("torch", "torch_csv"):
        if slot in draft.parts:
            return _from_torch(draft.parts[slot].value)
    for slot in ("summary", "report"):
        if slot in draft.parts:
            return _from_toolkit(draft.parts[slot].value)
    return {}


def _from_torch(document: Mapping[str, Any]) -> dict[str, Scalar]:
    """Read ``bench_pt_result.json``: host, h2d, gpu and d2h in milliseconds."""
    numbers = {
        name: number(document.get(name)) for name in ("throughput_qps", "total_host_walltime_s")
    }
    metrics = document.get("metrics")
    for theirs, found in metrics.items() if isinstance(metrics, Mapping) else ():
        column = _TORCH_COLUMNS.get(str(theirs), str(theirs))
        for name, value in found.items() if isinstance(found, Mapping) else ():
            numbers[f"{column}_{str(name).removesuffix('_ms')}_ms"] = number(value)
    return {name: value for name, value in numbers.items() if value is not None}


def _from_toolkit(document: Mapping[str, Any]) -> dict[str, Scalar]:
    """Read ``summary.json``; its throughput is batch over mean latency, not trtexec's."""
    numbers: dict[str, float | None] = {
        "toolkit_throughput_qps": number(document.get("throughput_qps")),
        "samples": number(document.get("samples")),
    }
    for theirs, ours in _TOOLKIT_COLUMNS.items():
        block = document.get(theirs)
        if not isinstance(block, Mapping):
            continue
        for name in _STATISTICS:
            numbers[f"{ours}_{name}_ms"] = number(block.get(f"{name}_ms"))
        tails = block.get("percentiles_ms")
        for name, value in tails.items() if isinstance(tails, Mapping) else ():
            numbers[f"{ours}_{str(name).replace('_', '.')}_ms"] = number(value)
    return {name: value for name, value in numbers.items() if value is not None}
