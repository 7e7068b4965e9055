"""``torch.cuda`` made of the processor: what is computed and captured is PyTorch's own.

A graph keeps the operators that were called while it was captured, and calls them again on the
same tensors, as CUDA's do: what Python decided then stays decided, and what asks for a value
(``item``) cannot be captured. Events tell the host's time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

L2_BYTES = 1 << 16
NOT_WHILE_CAPTURING = "CUDA error: operation not permitted when stream is capturing\nand more"


class Device:
    """What ``torch.device('cuda:0')`` gives, for whoever asks for its type only."""

    def __init__(self, name: str) -> None:
        self.type = name.partition(":")[0]


class Event:
    def __init__(self, *, enable_timing: bool, blocking: bool) -> None:
        assert enable_timing
        self.blocking, self.at = blocking, 0.0

    def record(self, stream: object) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        assert self.at, "nobody has recorded it"

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


class CUDAGraph:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def replay(self) -> None:
        for function, arguments, keywords, results in self.calls:
            again = function(*arguments, **keywords)
            for kept, new in zip(tree_leaves(results), tree_leaves(again), strict=True):
                if isinstance(kept, torch.Tensor) and kept is not new:
                    kept.copy_(new)


class _Capture(TorchDispatchMode):
    def __init__(self, graph: CUDAGraph) -> None:
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError(NOT_WHILE_CAPTURING)
        results = func(*args, **(kwargs or {}))
        self._graph.calls.append((func, args, kwargs or {}, results))
        return results


@contextlib.contextmanager
def capturing(graph: CUDAGraph, *, stream: object) -> Iterator[None]:
    with _Capture(graph):
        yield


class Torch(ModuleType):
    """PyTorch, with one GPU that is none."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.filled: list[int] = []
        self.device = Device
        self.cuda = SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 1, set_device=self._set_device,
            Stream=lambda device: object(), stream=lambda stream: contextlib.nullcontext(),
            set_stream=lambda stream: None, Event=Event, CUDAGraph=CUDAGraph, graph=capturing,
            get_device_name=lambda device: "Stand-in",
            get_device_properties=lambda device: SimpleNamespace(L2_cache_size=L2_BYTES),
        )  # fmt: skip

    def _set_device(self, device: Device) -> None:
        self.cuda.synchronize = lambda: None  # which waits for the current device only

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *size: Any, **how: Any) -> Any:
        if how.pop("device", None) is not None:
            self.filled.append(size[0])
        how.pop("pin_memory", None)
        return torch.empty(*size, **how)


def install() -> Torch:
    """Let tensors and modules be moved to the device that is none."""
    for kind in (torch.Tensor, torch.nn.Module):
        _take_device(kind)
    torch.Tensor.pin_memory = lambda self: self  # type: ignore[assignment,method-assign]
    return Torch()


def _take_device(kind: Any) -> None:
    real = kind.to

    def to(self: Any, *where: Any, **how: Any) -> Any:
        if not where or not isinstance(where[0], Device):
            return real(self, *where, **how)
        return self.clone() if isinstance(self, torch.Tensor) else self

    kind.to = to
