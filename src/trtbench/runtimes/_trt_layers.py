"""What TensorRT tells of single layers: their times, in a pass of its own, and their types."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.layers.computing import denied_by, types_of_layers
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import ModelRef
from trtbench.errors import ParseError, TrtbenchError
from trtbench.host.cuda import Cuda
from trtbench.models.sidecar import precision_of_engine
from trtbench.runtimes._layer_times import ENOUGH_S, LEAST, MOST, WARMUP, Row, profile_from_rows
from trtbench.trtexec.layers import graph_from_json

if TYPE_CHECKING:
    from tensorrt import IExecutionContext, IProfiler


def precision_seen(
    model: ModelRef, describe: Callable[[], str]
) -> tuple[dict[str, Fact], dict[str, Scalar]]:
    """Hold the precision that a record beside an engine names to the types of its layers.

    Gives the condition and the evidence for it; nothing where no record names one, and where the
    inspector tells no types, which depends on how the engine was built.
    """
    label = precision_of_engine(model)
    try:
        graph = graph_from_json(describe(), where="the inspector") if label is not None else None
    except ParseError:
        return {}, {}
    types = types_of_layers(graph)
    ran = denied_by(label, types)
    if ran is not None:
        return {"precision": Fact(value=ran, source="implied")}, {"claimed_precision": label}
    return ({"precision": Fact(value=label)} if types else {}), {}


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


def make_profiler(trt: ModuleType, heard: list[Row]) -> IProfiler:
    """Make a profiler of this module's class that keeps what it is told."""

    class Profiler(trt.IProfiler):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            heard.append((layer_name, ms * 1e-3))

    return Profiler()
