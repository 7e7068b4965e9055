"""The inputs and outputs of an engine: names, types, sizes, and the shapes it was built for.

Types that numpy does not have travel as raw bytes: ``trt.nptype`` knows none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.result import Scalar
from trtbench.domain.spec import ShapeProfile, TensorSpec, Value
from trtbench.errors import InputError
from trtbench.host.cuda import Call
from trtbench.host.tensorrt_listen import OutputRoom
from trtbench.units import text_from_shape

if TYPE_CHECKING:
    from tensorrt import DataType, Dims, ICudaEngine, IExecutionContext


TYPES = {
    "FLOAT": ("float32", 32),
    "HALF": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "INT8": ("int8", 8),
    "UINT8": ("uint8", 8),
    "INT32": ("int32", 32),
    "INT64": ("int64", 64),
    "BOOL": ("bool", 8),
    "FP8": ("float8_e4m3fn", 8),
    "E8M0": ("float8_e8m0fnu", 8),
    "INT4": ("int4", 4),
    "FP4": ("float4_e2m1fn", 4),
}
"""TensorRT's name of a type: ours, and its bits."""


CLOSE = 1e-2
"""Largest difference, of the largest value, between a graph and a plain run.

Engines may add in another order from run to run; a graph that does not compute differs by far more.
"""


class Port(Value, frozen=True, kw_only=True):
    """One input or output of an engine."""

    name: str
    is_input: bool
    dtype: str
    bits: int
    shape: tuple[int, ...]
    """-1 is a dimension that may change."""
    on_host: bool = False
    """A shape tensor: TensorRT reads its values on the host."""
    packed_dim: int | None = None
    """Dimension that the layout fills up to a multiple of ``packed``."""
    packed: int = 1
    range: ShapeProfile | None = None
    """What the optimization profile in use allows; for inputs that may change."""

    @property
    def moves(self) -> bool:
        """Whether its shape may change."""
        return any(dim < 0 for dim in self.shape)

    @property
    def spec(self) -> TensorSpec:
        shape = tuple(None if dim < 0 else dim for dim in self.shape)
        return TensorSpec(name=self.name, dtype=self.dtype, shape=shape)

    def size_bytes(self, shape: tuple[int, ...]) -> int:
        """Count bytes of a tensor of this shape in the layout of the engine; one at least."""
        dims = list(shape)
        if self.packed_dim is not None and self.packed > 1:
            dims[self.packed_dim] = -(-dims[self.packed_dim] // self.packed) * self.packed
        return max(1, -(-math.prod(dims) * self.bits // 8))


def ports_of(engine: ICudaEngine, trt: ModuleType, *, profile: int) -> tuple[Port, ...]:
    """List the inputs and outputs of an engine, in its order."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return tuple(_port(engine, trt, name, profile) for name in names)


def _port(engine: ICudaEngine, trt: ModuleType, name: str, profile: int) -> Port:
    dtype, bits = _type_of(engine.get_tensor_dtype(name), name)
    shape = tuple(int(dim) for dim in engine.get_tensor_shape(name))
    is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
    on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
    packed_dim = int(engine.get_tensor_vectorized_dim(name))
    moves = is_input and not on_host and any(dim < 0 for dim in shape)
    return Port(
        name=name,
        is_input=is_input,
        dtype=dtype,
        bits=bits,
        shape=shape,
        on_host=on_host,
        packed_dim=packed_dim if packed_dim >= 0 else None,
        packed=max(1, int(engine.get_tensor_components_per_element(name))),
        range=_range(engine.get_tensor_profile_shape(name, profile)) if moves else None,
    )


def _type_of(dtype: DataType, name: str) -> tuple[str, int]:
    known = TYPES.get(str(dtype).rsplit(".", 1)[-1])
    if known is None:
        raise InputError(f"the tensor {name!r} has a type that is not known", facts={"type": dtype})
    return known


def _range(shapes: Sequence[Dims]) -> ShapeProfile:
    low, opt, high = (tuple(int(dim) for dim in shape) for shape in shapes)
    return ShapeProfile(min=low, opt=opt, max=high)


def check_range(port: Port, shape: tuple[int, ...], *, profile: int) -> None:
    """Refuse a shape that the profile does not allow, with the range that it does."""
    allowed = port.range
    if allowed is None:
        return
    outside = [
        index
        for index, (low, dim, high) in enumerate(zip(allowed.min, shape, allowed.max, strict=True))
        if not low <= dim <= high
    ]
    if outside:
        least, most, best = map(text_from_shape, (allowed.min, allowed.max, allowed.opt))
        raise InputError(
            f"the shape of {port.name!r} is outside of what the engine was built for",
            facts={
                "given": text_from_shape(shape),
                "allowed": f"{least} to {most}, best {best}",
                "dimension": ", ".join(str(index) for index in outside),
                "profile": profile,
            },
            fix=f"--shape {port.name}:{best}",
        )


def bytes_of(array: NDArray[np.generic], port: Port, size: int) -> NDArray[np.uint8]:
    """Lay an array out as the engine takes it; only plain layouts can be filled from one."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if raw.nbytes != size and port.packed == 1:
        raise InputError(
            f"the input {port.name!r} has the wrong size",
            facts={"bytes": raw.nbytes, "expected": size},
        )
    filled = np.zeros(size, np.uint8)
    filled[: min(size, raw.nbytes)] = raw[:size]
    return filled


def backwards(raw: NDArray[np.uint8], port: Port) -> NDArray[np.uint8]:
    """Put a tensor's elements in the opposite order; those of half a byte stay as they are."""
    if port.bits < 8:
        return raw
    return raw.reshape(-1, port.bits // 8)[::-1].reshape(-1)


def array_from_bytes(
    raw: NDArray[np.uint8], port: Port, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """Make an output as numpy can hold it: bfloat16 becomes float32, smaller types stay bytes.

    Where its shape depends on the data, all there is room for, in one row.
    """
    if min(shape, default=0) < 0:
        shape = (raw.nbytes * 8 // port.bits,)
    if port.packed > 1 or port.bits < 8 or port.dtype.startswith("float8"):
        return np.array(raw)
    if port.dtype == "bfloat16":
        wide = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return np.array(wide[: math.prod(shape)]).reshape(shape)
    values = raw.view(np.dtype(port.dtype))
    return np.array(values[: math.prod(shape)]).reshape(shape)


def same(expected: NDArray[np.generic], found: NDArray[np.generic]) -> bool:
    """Tell whether two runs of one engine on the same inputs gave the same."""
    if expected.shape != found.shape:
        return False
    if expected.tobytes() == found.tobytes():
        return True
    if expected.dtype.kind != "f":
        return False
    a, b = expected.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    return bool(np.abs(a - b).max(initial=0.0) <= CLOSE * max(np.abs(a).max(initial=0.0), 1e-30))


def judged(
    before: dict[str, NDArray[np.generic]],
    after: dict[str, NDArray[np.generic]],
    *,
    changed: bool = True,
) -> dict[str, Scalar]:
    """Tell what two runs tell about the outputs: with inputs that changed, whether they follow."""
    floating = [name for name, array in before.items() if array.dtype.kind == "f" and array.size]
    if not floating:
        return {}
    finite = all(bool(np.isfinite(before[name]).all()) for name in floating)
    varies = any(before[name].tobytes() != after[name].tobytes() for name in floating)
    return {"outputs_finite": finite, **({"outputs_vary": varies} if changed else {})}


@dataclass
class Buffer:
    """One tensor: its place on the device, and its page-locked place on the host."""

    port: Port
    shape: tuple[int, ...]
    device: int
    host: NDArray[np.uint8]
    room: OutputRoom | None = None
    """Where the shape depends on the data: knows that of the last query."""


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
            for name, each in unit.buffers.items():
                if each.room is not None:
                    context.set_output_allocator(name, each.room)
            shared.last = query
        run()

    return query
