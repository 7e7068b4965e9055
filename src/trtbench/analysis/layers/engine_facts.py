"""What a run tells beside its layers: the whole in which they ran."""

from __future__ import annotations

from statistics import fmean, median

import numpy as np

from trtbench.analysis.reported import reported_s
from trtbench.domain.result import Run, gpu_of, precision_of
from trtbench.domain.spec import Value


class EngineFacts(Value, frozen=True, kw_only=True):
    """Medians of one inference and the conditions they were taken under, where known."""

    host_s: float | None = None
    latency_s: float | None = None
    gpu_s: float | None = None
    enqueue_s: float | None = None
    h2d_s: float | None = None
    d2h_s: float | None = None
    jitter: float | None = None
    """Spread of GPU time (of the headline without it): standard deviation over mean."""
    profiled_gpu_s: float | None = None
    sm_clock_hz: float | None = None
    """Mean while measuring; read before the run where nobody looked meanwhile."""
    gpu: str | None = None
    sm_count: int | None = None
    batch: int | None = None
    asked: str | None = None
    """Precision that the build was told or allowed to use."""
    cuda_graph: bool | None = None
    tensorrt: str | None = None

    @property
    def transfers_s(self) -> float | None:
        """Both copies together; ``None`` when neither was seen."""
        if self.h2d_s is None and self.d2h_s is None:
            return None
        return (self.h2d_s or 0.0) + (self.d2h_s or 0.0)


def facts_from_run(run: Run) -> EngineFacts:
    """Gather medians and conditions of a run; printed numbers stand in for samples."""
    record, gpu = run.record, gpu_of(run.record)
    profiled = [each.profiled_gpu_s for each in record.launches if each.profiled_gpu_s is not None]
    graph = record.conditions.get("cuda_graph")
    return EngineFacts(
        host_s=_median(run, "host"),
        latency_s=_median(run, "latency"),
        gpu_s=_median(run, "gpu"),
        enqueue_s=_median(run, "enqueue"),
        h2d_s=_median(run, "h2d"),
        d2h_s=_median(run, "d2h"),
        jitter=_jitter(run),
        profiled_gpu_s=median(profiled) if profiled else None,
        sm_clock_hz=_clock(run),
        gpu=gpu.name if gpu else None,
        sm_count=gpu.sm_count if gpu else None,
        batch=record.batch,
        asked=precision_of(record),
        cuda_graph=graph.value if graph and isinstance(graph.value, bool) else None,
        tensorrt=record.environment.versions.get("tensorrt"),
    )


def _median(run: Run, name: str) -> float | None:
    column = run.times.durations().get(name)
    if column is not None and len(column):
        return float(np.median(column))
    return reported_s(run.record, name)


def _jitter(run: Run) -> float | None:
    columns = run.times.durations()
    column = columns.get("gpu", columns.get(run.times.headline))
    if column is None or len(column) < 2 or not float(column.mean()):
        return None
    return float(column.std() / column.mean())


def _clock(run: Run) -> float | None:
    seen = [look.sm_clock_hz for look in run.telemetry if look.sm_clock_hz]
    if seen:
        return fmean(seen)
    gpu = gpu_of(run.record)
    return gpu.sm_clock_hz if gpu and gpu.clocks_locked else None
