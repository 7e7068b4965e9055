"""PyTorch modules as sessions: called as a caller would, with events at TensorRT's boundaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import ON_DEVICE, RunSpec, TensorSpec
from trtbench.errors import InputError
from trtbench.models.torch_models import LoadedModel
from trtbench.runtimes._gpu_query import Lane, Pipeline, SerialQuery, burst_of_queries
from trtbench.runtimes._session import Arrays, Burst, Session, Spans
from trtbench.runtimes._torch_layers import profile_modules

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import CUDAGraph, Event
    from torch.nn import Module

Call = Callable[[], None]
MODES_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that launch CUDA graphs of their own."""
GRAPH_TOLERANCE = 1e-2
"""Of the largest output: kernels may be chosen anew, wrong inputs are off by far more."""
GRAPH_WARMUP = 3
"""Calls before a capture: lazy initialisation and autotuning must be over."""


@dataclass(frozen=True, kw_only=True)
class TorchSettings:
    """How a module is executed."""

    compile: str | None
    half: bool
    autocast: str | None
    tf32: bool
    cudnn_benchmark: bool
    channels_last: bool


class _TorchSession(Session):
    """What both devices share: the module in its settings, and a call of it."""

    def __init__(
        self,
        torch: ModuleType,
        loaded: LoadedModel,
        spec: RunSpec,
        *,
        settings: TorchSettings,
        inputs: tuple[TensorSpec, ...],
        device: str,
    ) -> None:
        self._torch, self._spec, self._settings = torch, spec, settings
        self._device = torch.device(device)
        self._set_switches()
        self._module = self._placed(loaded)
        self._tensors: list[Tensor] = []
        self.inputs = inputs
        self.outputs: tuple[TensorSpec, ...] = ()
        self.notes = loaded.notes
        self.evidence: dict[str, Scalar] = {**_structure(loaded.module)}
        self.conditions = self._conditions(loaded)

    def _set_switches(self) -> None:
        torch, settings = self._torch, self._settings
        torch.set_grad_enabled(False)
        if self._spec.threads:
            torch.set_num_threads(self._spec.threads)
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
        torch.backends.cudnn.benchmark = settings.cudnn_benchmark

    def _placed(self, loaded: LoadedModel) -> Module:
        module = loaded.module.to(self._device)
        if self._settings.half:
            module = module.half()
        if self._settings.channels_last:
            module = module.to(memory_format=self._torch.channels_last)
        if self._settings.compile is not None:
            module = self._torch.compile(module, mode=self._settings.compile)
        return module

    def _call(self) -> object:
        """One forward pass, as a caller writes it."""
        return self._module(*self._tensors)

    def _forward(self) -> Callable[[], object]:
        if self._settings.autocast is None:
            return self._call
        dtype = getattr(self._torch, self._settings.autocast)
        kind, autocast, call = self._device.type, self._torch.autocast, self._call

        def forward() -> object:
            with autocast(kind, dtype=dtype):
                return call()

        return forward

    def profile_layers(self) -> tuple[LayerProfile, float | None]:
        """Time modules with PyTorch's profiler; on a GPU also whole queries."""
        on_gpu = self._device.type == "cuda"
        return profile_modules(self._torch, self._module, self._forward(), on_gpu=on_gpu)

    def _first_outputs(self, result: object) -> list[Tensor]:
        """Name the tensors of a result, however deep they lie, and count graph breaks."""
        tensors = [t for t in flattened(result) if isinstance(t, self._torch.Tensor)]
        if not tensors:
            raise InputError("the model gives no tensors")
        self.outputs = tuple(
            TensorSpec(
                name=f"output{index}",
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
            )
            for index, tensor in enumerate(tensors)
        )
        if self._settings.compile is not None:
            counters = self._torch._dynamo.utils.counters["graph_break"]
            self.evidence["graph_breaks"] = int(sum(counters.values()))
        return tensors

    def _from_numpy(self, array: NDArray[np.generic]) -> Tensor:
        tensor = self._torch.from_numpy(np.array(array))
        if self._settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=self._torch.channels_last)
        return tensor

    def _conditions(self, loaded: LoadedModel) -> dict[str, Fact]:
        settings, spec = self._settings, self._spec
        cast = spec.precision if settings.autocast is not None else None
        precision = cast or ("half" if settings.half else None)
        found: dict[str, Scalar] = {
            "protocol": spec.protocol,
            "streams": 1,
            "tf32": settings.tf32,
            "precision": precision or ("tf32" if settings.tf32 else "fp32"),
            "autocast": settings.autocast is not None,
            "compile": settings.compile or "eager",
            "channels_last": settings.channels_last,
            "loaded_as": loaded.kind,
        }
        if "waiting" in spec.options:
            found["waiting"] = spec.options["waiting"]
        if self._device.type == "cpu":
            found["threads"] = int(self._torch.get_num_threads())
        if self._device.type == "cuda":
            found |= {
                "transfers": spec.transfers,
                "cuda_graph": False,
                "spin_wait": spec.spin_wait,
                "memory": "pinned",
                "cudnn_benchmark": settings.cudnn_benchmark,
                "device": self._torch.cuda.get_device_name(self._device),
            }
        facts = {key: Fact(value=value) for key, value in found.items()}
        if self._device.type == "cuda" and settings.compile in MODES_WITH_GRAPHS:
            facts["cuda_graph"] = Fact(value=True, source="implied")
        return facts


def _structure(module: Module) -> dict[str, Scalar]:
    """Count what a module is made of; some kinds tell nothing about their parts."""
    try:
        parameters, buffers = list(module.parameters()), list(module.buffers())
        leaves = sum(not list(each.children()) for each in module.modules())
    except (AttributeError, RuntimeError):
        return {}
    held = sum(each.numel() * each.element_size() for each in (*parameters, *buffers))
    return {
        "parameters": sum(int(each.numel()) for each in parameters),
        "parameter_bytes": int(held),
        "modules": leaves,
    }


class CpuSession(_TorchSession):
    """A module on the CPU."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords, device="cpu")

    def bind(self, arrays: Arrays) -> None:
        self._tensors = [self._from_numpy(arrays[tensor.name]) for tensor in self.inputs]

    def first(self) -> None:
        self._first_outputs(self._forward()())

    def step(self) -> Callable[[], object]:
        return self._forward()

    def query(self, arrays: Arrays, *, profile: int = 0) -> Callable[[], object]:
        tensors = [self._from_numpy(arrays[tensor.name]) for tensor in self.inputs]
        forward = self._forward()

        def query() -> object:
            self._tensors = tensors
            return forward()

        return query

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        tensors = self._first_outputs(self._forward()())
        return {o.name: as_numpy(t) for o, t in zip(self.outputs, tensors, strict=True)}


class CudaSession(_TorchSession):
    """A module on a GPU, with pinned host buffers on both sides."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        spec: RunSpec = arguments[2]
        super().__init__(*arguments, **keywords, device=spec.device or "cuda:0")
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

    def step(self) -> Callable[[], object]:
        """One query on a stream of its own, with events where TensorRT's queries have them."""
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
            reason = str(problem).strip().splitlines()[0]
            return self._uncaptured("the work cannot be captured in a CUDA graph", reason)
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


def flattened(result: object) -> list[Tensor]:
    """List the leaves of nested lists, tuples and dicts, in order."""
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in flattened(value)]
    if isinstance(result, (list, tuple)):
        return [leaf for value in result for leaf in flattened(value)]
    return [result]


def as_numpy(tensor: Tensor) -> NDArray[np.generic]:
    """Convert a tensor to what numpy can hold: bfloat16 becomes float32."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return np.array(tensor.numpy())
