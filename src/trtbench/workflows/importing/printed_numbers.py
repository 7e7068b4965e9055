"""Numbers that another tool printed, kept as printed and named by column and statistic."""

from __future__ import annotations

from trtbench.domain.result import Scalar
from trtbench.formats.toolkit_files import StatisticsBlock, ToolkitSummary, TorchBenchmark
from trtbench.trtexec.reported import reported_from_log
from trtbench.workflows.importing.match import Draft

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
    for slot in ("summary", "report", "summary_csv"):
        if slot in draft.parts:
            return _from_toolkit(draft.parts[slot].value)
    return {}


def _from_torch(told: TorchBenchmark) -> dict[str, Scalar]:
    """Name the numbers of ``bench_pt_result.json``: host, h2d, gpu and d2h in milliseconds."""
    numbers: dict[str, Scalar] = {
        "throughput_qps": told.throughput_qps,
        "total_host_walltime_s": told.total_host_walltime_s,
    }
    for theirs, statistics in told.metrics.items():
        column = _TORCH_COLUMNS.get(theirs, theirs)
        for name, value in statistics.items():
            numbers[f"{column}_{name.removesuffix('_ms')}_ms"] = value
    return {name: value for name, value in numbers.items() if value is not None}


def _from_toolkit(told: ToolkitSummary) -> dict[str, Scalar]:
    """Name those of ``summary.json``; its throughput is batch over mean latency, not trtexec's."""
    numbers: dict[str, Scalar] = {
        "toolkit_throughput_qps": told.throughput_qps,
        "samples": told.samples,
    }
    for theirs, ours in _TOOLKIT_COLUMNS.items():
        block: StatisticsBlock | None = getattr(told, theirs)
        if block is None:
            continue
        for name in _STATISTICS:
            numbers[f"{ours}_{name}_ms"] = getattr(block, f"{name}_ms")
        for name, value in block.percentiles_ms.items():
            numbers[f"{ours}_{name.replace('_', '.')}_ms"] = value
    return {name: value for name, value in numbers.items() if value is not None}
