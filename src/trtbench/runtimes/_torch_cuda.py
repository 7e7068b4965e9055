"""PyTorch modules on a GPU: events at TensorRT's boundaries, CUDA graphs, streams of their own."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Fact
from trtbench.domain.spec import ON_DEVICE
from trtbench.errors import InputError, first_line
from trtbench.runtimes._gpu_query import Lane, Pipeline, SerialQuery, burst_of_queries
from trtbench.runtimes._session import Burst, Spans
from trtbench.runtimes._torch_session import Call, TorchSession, as_numpy, flattened

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import CUDAGraph, Event


GRAPH_TOLERANCE = 1e-2
"""Of the largest output: kernels may be chosen anew, wrong inputs are off by far more."""


GRAPH_WARMUP = 3
"""Calls before a capture: lazy initialisation and autotuning must be over."""


class CudaSession(TorchSession):
    """A module on a GPU, with pinned host buffers on both sides."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._stream = self._torch.cuda.Stream(self._device)
        self._hosts: list[Tensor] = []
        self._results: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._graph: CUDAGraph | None = None
        self._lane: Lane | None = None
        self.spans: Spans | None = None

    def bind(self, arrays: Arrays) -> None:
        self._hosts = [self._from_numpy(arrays[t.name]).pin_memory() for t in self.inputs]
        self._tensors = [host.to(self._device) for host in self._hosts]
        self._torch.cuda.synchronize()

    def first(self) -> None:
        """Run a whole query, and make the places its outputs go to."""
        with self._torch.cuda.stream(self._stream):
            self._copy_in()
            self._results = self._first_outputs(self._forward()())
            self._targets = [
                self._torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in self._results
            ]
            self._copy_out()
        self._torch.cuda.synchronize()

    def look(self) -> None:
        with self._torch.cuda.stream(self._stream):
            super().look()
        self._torch.cuda.synchronize()

    def step(self) -> Callable[[], object]:
        """Make one query on a stream of its own, with events where TensorRT's queries have them."""
        self._torch.cuda.set_stream(self._stream)
        enqueue = self._captured() if self._spec.cuda_graph != "off" else self._eager()
        self._lane = lane = Lane(
            enqueue=enqueue,
            stream=self._stream,
            copies_in=lambda stream: (self._copy_in,),
            copies_out=lambda stream: (self._copy_out,),
            ahead=(self._flush(),) if self._spec.protocol == "coldl2" else (),
        )
        events: Any = _Events(self._torch, spin=self._spec.spin_wait)
        if self._spec.protocol in ON_DEVICE:
            pipeline = Pipeline(events, [lane], transfers=False)
            self.spans = pipeline
            return pipeline.step
        query = SerialQuery(events, lane, transfers=self._spec.transfers)
        self.spans = query
        return query.step

    def burst(self, *, size: int, lead: int) -> Burst | None:
        if self._lane is None:
            return None
        events: Any = _Events(self._torch, spin=self._spec.spin_wait)
        return burst_of_queries(events, self._lane, size=size, lead=lead)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        self.first()
        return {o.name: as_numpy(t) for o, t in zip(self.outputs, self._targets, strict=True)}

    def _flush(self) -> Call:
        """Empty the L2 cache: twice its size is written through it, on the stream in use."""
        told = self._torch.cuda.get_device_properties(self._device)
        size = 2 * int(told.L2_cache_size)
        room = self._torch.empty(size, dtype=self._torch.uint8, device=self._device)

        def flush() -> None:
            room.zero_()

        return flush

    def _copy_in(self) -> None:
        for tensor, host in zip(self._tensors, self._hosts, strict=True):
            tensor.copy_(host, non_blocking=True)

    def _copy_out(self) -> None:
        for target, result in zip(self._targets, self._results, strict=True):
            target.copy_(result, non_blocking=True)

    def _eager(self) -> Callable[[], object]:
        forward, tensor_type = self._forward(), self._torch.Tensor
        compiled = self._settings.compile is not None
        begin = self._torch.compiler.cudagraph_mark_step_begin if compiled else None

        def enqueue() -> object:
            if begin is not None:  # its graphs may write to the same outputs again
                self._results = []
                begin()
            result = forward()
            if isinstance(result, tensor_type):
                self._results = [result]
            else:
                self._results = [t for t in flattened(result) if isinstance(t, tensor_type)]
            return True

        return enqueue

    def _captured(self) -> Callable[[], object]:
        """Capture a call in a graph; its outputs stay where the graph writes them."""
        torch, forward = self._torch, self._forward()
        graph = torch.cuda.CUDAGraph()
        try:
            for _ in range(GRAPH_WARMUP):
                forward()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=self._stream):
                result = forward()
        except RuntimeError as problem:
            return self._uncaptured(
                "the work cannot be captured in a CUDA graph", first_line(problem)
            )
        self._results = [t for t in flattened(result) if isinstance(t, torch.Tensor)]
        if self._replay_differs(graph, forward):
            self.evidence["graph_outputs_differ"] = True
            return self._uncaptured("the CUDA graph gives other results than the model itself")
        self._graph = graph
        self.conditions["cuda_graph"] = Fact(value=True)
        return graph.replay  # type: ignore[no-any-return]

    def _uncaptured(self, message: str, reason: str | None = None) -> Callable[[], object]:
        """Go on without a graph, and say so; where one was demanded, that is an error."""
        if self._spec.cuda_graph == "on":
            raise InputError(
                message,
                facts={"reason": reason} if reason else {},
                fix="--cuda-graph auto, which measures without one",
            ) from None
        self.notes = (*self.notes, f"measured without a CUDA graph: {reason or message}")
        self.conditions["cuda_graph_fell_back"] = Fact(value=True)
        return self._eager()

    def _replay_differs(self, graph: CUDAGraph, forward: Callable[[], object]) -> bool:
        """Replay on other inputs than those captured with, and hold that to a plain call."""
        torch = self._torch
        fresh = [each for each in self._tensors if each.is_floating_point()]
        kept = [each.clone() for each in fresh]
        for each in fresh:
            each.copy_(torch.rand_like(each))
        plain = [t for t in flattened(forward()) if isinstance(t, torch.Tensor)]
        expected = [each.detach().float() for each in plain]
        graph.replay()
        torch.cuda.synchronize()
        differs = False
        for have, want in zip(self._results, expected, strict=True):
            sizes = want[want.isfinite()].abs()
            near = GRAPH_TOLERANCE * float(sizes.max()) if sizes.numel() else 0.0
            differs |= not torch.allclose(have.float(), want, rtol=0, atol=near, equal_nan=True)
        for each, before in zip(fresh, kept, strict=True):
            each.copy_(before)
        torch.cuda.synchronize()
        return differs


class _Events:
    """Events of PyTorch in the shape in which a query asks for them."""

    def __init__(self, torch: ModuleType, *, spin: bool) -> None:
        self._torch, self._spin = torch, spin

    def event(self) -> Event:
        return self._torch.cuda.Event(enable_timing=True, blocking=not self._spin)

    def record(self, event: Event, stream: object) -> Call:
        def record() -> None:
            event.record(stream)

        return record

    def wait(self, event: Event) -> Call:
        return event.synchronize  # type: ignore[no-any-return]

    def span(self, begin: Event, end: Event) -> Callable[[], float]:
        def read() -> float:
            return float(begin.elapsed_time(end)) * 1e-3

        return read
