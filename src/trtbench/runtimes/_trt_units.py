"""A context with its stream and buffers, and a query that finds its context changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.host.cuda import Call
from trtbench.runtimes._trt_tensors import Port

if TYPE_CHECKING:
    from tensorrt import IExecutionContext


@dataclass
class Buffer:
    """One tensor: its place on the device, and its page-locked place on the host."""

    port: Port
    shape: tuple[int, ...]
    device: int
    host: NDArray[np.uint8]


@dataclass
class Unit:
    """One context with its stream and buffers."""

    context: IExecutionContext
    stream: Any
    handle: int
    buffers: dict[str, Buffer] = field(default_factory=dict)
    launch: Call | None = None
    """Of the CUDA graph, once it is captured."""
    last: Call | None = None
    """Which of several queries set the context's shapes and addresses."""

    def enqueue(self) -> Callable[[], object]:
        return self.launch or partial(self.context.execute_async_v3, self.handle)


def changing_query(
    unit: Unit,
    shared: Unit,
    *,
    take_profile: Callable[[], None],
    shapes: Mapping[str, tuple[int, ...]],
    run: Callable[[], object],
) -> Call:
    """Make a query on a shared context: what another has changed is set again first.

    As a caller would: addresses and shapes are set after a change only, and that time is counted.
    """
    context = unit.context
    addresses = {
        name: each.host.ctypes.data if each.port.on_host else each.device
        for name, each in unit.buffers.items()
    }

    def query() -> None:
        if shared.last is not query:
            take_profile()
            for name, shape in shapes.items():
                context.set_input_shape(name, shape)
            for name, address in addresses.items():
                context.set_tensor_address(name, address)
            shared.last = query
        run()

    return query
