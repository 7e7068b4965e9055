"""Times of single layers by TensorRT's own profiler, in a pass of its own."""

from __future__ import annotations

import time
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from trtbench.domain.samples import LayerProfile
from trtbench.errors import TrtbenchError
from trtbench.host.cuda import Cuda
from trtbench.runtimes._layer_times import (
    ENOUGH_S,
    LEAST,
    MOST,
    WARMUP,
    Row,
    profile_from_rows,
)

if TYPE_CHECKING:
    from tensorrt import IExecutionContext, IProfiler


def profile_context(
    trt: ModuleType, context: IExecutionContext, cuda: Cuda, *, stream: object, handle: int
) -> tuple[LayerProfile, float]:
    """Run with the profiler attached; gives layer times and the median GPU time meanwhile."""
    heard: list[Row] = []
    context.profiler = make_profiler(trt, heard)
    context.enqueue_emits_profile = False
    begin, end = cuda.event(), cuda.event()
    mark, stop, wait = cuda.record(begin, stream), cuda.record(end, stream), cuda.wait(end)
    span = cuda.span(begin, end)
    run = partial(context.execute_async_v3, handle)
    rows: list[list[Row]] = []
    spans: list[float] = []
    until = time.monotonic() + ENOUGH_S
    for number in range(WARMUP + MOST):
        heard.clear()
        mark()
        if run() is False:
            raise TrtbenchError("the engine could not be run with the profiler attached")
        stop()
        wait()
        context.report_to_profiler()
        if number < WARMUP:
            continue
        rows.append(list(heard))
        spans.append(span())
        if len(rows) >= LEAST and time.monotonic() >= until:
            break
    return profile_from_rows(rows), float(np.median(spans))


def make_profiler(trt: Any, heard: list[Row]) -> IProfiler:
    """Make a profiler of this module's class that keeps what it is told."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            heard.append((layer_name, ms * 1e-3))

    return Profiler()
