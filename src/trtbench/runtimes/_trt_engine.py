"""Load an engine file, or say why it cannot be loaded; its inputs and outputs.

Types that numpy does not have are handled as raw bytes: ``trt.nptype`` knows none of them.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsInt

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError, reading
from trtbench.core.run import Scalar
from trtbench.core.spec import RunSpec, ShapeProfile, TensorSpec, Value
from trtbench.core.units import text_from_shape
from trtbench.host.cuda import Call, Cuda, no_memory
from trtbench.host.tensorrt import (
    TITLES,
    TYPES,
    Flavour,
    Heard,
    OutputRoom,
    activation_bytes,
    load,
    make_logger,
    version_numbers,
)
from trtbench.trtexec.version import HEADER_BYTES, PlanHeader, plan_from_bytes

if TYPE_CHECKING:
    from tensorrt import ICudaEngine, IExecutionContext, ILogger, IRuntimeConfig, Runtime

CLOSE = 1e-2
"""Largest difference, of the largest value, between a graph and a plain run.

Engines may add in another order from run to run; a graph that does not compute differs by far more.
"""
_NO_MEMORY = re.compile(r"out of memory|OutOfMemory|Requested amount of GPU memory", re.I)
_OTHER_GPU = re.compile(r"incompatible device|compute capability|different (GPU|device)", re.I)
_OTHER_VERSION = re.compile(r"Version tag|not compatible with this version|library version", re.I)
_NO_PLUGIN = re.compile(r"find plugin|PluginCreator not found|plugin not found", re.I)
_STDERR = Path("/dev/stderr")


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


def ints(dims: Iterable[SupportsInt]) -> tuple[int, ...]:
    """Turn TensorRT's dimensions into numbers."""
    return tuple(int(dim) for dim in dims)


def ports_of(engine: ICudaEngine, trt: ModuleType, *, profile: int) -> tuple[Port, ...]:
    """List the inputs and outputs of an engine, in its order."""
    ports = []
    for name in [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]:
        kind = engine.get_tensor_dtype(name)
        known = TYPES.get(str(kind).rsplit(".", 1)[-1])
        if known is None:
            raise InputError(f"the tensor {name!r} has an unknown type", facts={"type": kind})
        port = Port(
            name=name,
            is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            dtype=known[0],
            bits=known[1],
            shape=ints(engine.get_tensor_shape(name)),
            on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
            packed_dim=_index(engine.get_tensor_vectorized_dim(name)),
            packed=max(1, int(engine.get_tensor_components_per_element(name))),
        )
        if port.is_input and not port.on_host and port.moves:
            least, best, most = map(ints, engine.get_tensor_profile_shape(name, profile))
            port = port.having(range=ShapeProfile(min=least, opt=best, max=most))
        ports.append(port)
    return tuple(ports)


def _index(dim: SupportsInt) -> int | None:
    return int(dim) if int(dim) >= 0 else None


def check_range(port: Port, shape: tuple[int, ...], *, profile: int) -> None:
    """Refuse a shape that the profile does not allow, with the range that it does."""
    allowed = port.range
    if allowed is None:
        return
    limits = enumerate(zip(allowed.min, shape, allowed.max, strict=True))
    outside = [str(index) for index, (low, dim, high) in limits if not low <= dim <= high]
    if outside:
        least, most, best = map(text_from_shape, (allowed.min, allowed.max, allowed.opt))
        raise InputError(
            f"the shape of {port.name!r} is outside of what the engine was built for",
            facts={
                "given": text_from_shape(shape),
                "allowed": f"{least} to {most}, best {best}",
                "dimension": ", ".join(outside),
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
    return raw if port.bits < 8 else raw.reshape(-1, port.bits // 8)[::-1].reshape(-1)


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
        values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = raw.view(np.dtype(port.dtype))
    return np.array(values[: math.prod(shape)]).reshape(shape)


def same(expected: NDArray[np.generic], found: NDArray[np.generic]) -> bool:
    """Whether two runs of one engine on the same inputs gave the same."""
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
    """Return whether outputs are finite and, where inputs changed, whether they vary."""
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

    @property
    def address(self) -> int:
        return self.host.ctypes.data if self.port.on_host else self.device


@dataclass
class Unit:
    """One context with its stream and buffers."""

    context: IExecutionContext
    stream: Any
    handle: int
    buffers: dict[str, Buffer] = field(default_factory=dict)
    launch: Call | None = None
    """Of the CUDA graph, once it is captured."""

    def plain(self) -> Callable[[], object]:
        return partial(self.context.execute_async_v3, self.handle)

    def enqueue(self) -> Callable[[], object]:
        return self.launch or self.plain()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A loaded engine with what has to live as long as it does."""

    trt: ModuleType
    flavour: Flavour
    version: str
    engine: ICudaEngine
    runtime: Runtime
    logger: ILogger
    heard: Heard
    ports: tuple[Port, ...]
    profile: int

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.is_input)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if not port.is_input)


def load_engine(spec: RunSpec, cuda: Cuda, *, flavour: Flavour) -> Engine:
    """Load an engine; its header is checked first."""
    path = Path(spec.model.path)
    trt, abilities = load(flavour)
    with reading(path):
        data = path.read_bytes()
    header = plan_from_bytes(data[:HEADER_BYTES], where=str(path))
    _check_header(header, path, len(data), flavour=flavour, here=abilities.version)
    heard = Heard()
    # The log of the worker; a socket in its place cannot be opened.
    log = Path(os.devnull) if _STDERR.is_socket() else _STDERR
    verbose = spec.options.get("verbose") == "on"
    logger = make_logger(trt, path=log, heard=heard, verbose=verbose)
    # Engines may name plugins: TensorRT's own, and the user's.
    initialise = getattr(trt, "init_libnvinfer_plugins", None)
    if initialise is not None:
        initialise(logger, "")
    for library in filter(None, map(str.strip, spec.options.get("plugins", "").split(","))):
        try:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            raise InputError(
                f"the plugin library {library} cannot be loaded", facts={"reason": problem}
            ) from None
    runtime = trt.Runtime(logger)
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise _refused(path, header, cuda, heard, flavour=flavour, here=abilities.version)
    _check_profile(engine, spec.profile_index)
    return Engine(
        trt=trt,
        flavour=flavour,
        version=abilities.version,
        engine=engine,
        runtime=runtime,
        logger=logger,
        heard=heard,
        ports=ports_of(engine, trt, profile=spec.profile_index),
        profile=spec.profile_index,
    )


def with_shapes_of(engine: Engine, context: IExecutionContext) -> Engine:
    """Take fixed shapes from a context, which knows them where the engine does not."""
    ports = []
    for port in engine.ports:
        if port.is_input and not port.moves:
            shape = ints(context.get_tensor_shape(port.name))
            port = port.having(shape=shape) if min(shape, default=0) > 0 else port
        ports.append(port)
    return replace(engine, ports=tuple(ports))


def new_context(
    engine: Engine, cuda: Cuda, *, config: IRuntimeConfig | None = None
) -> IExecutionContext:
    """Make one execution context, when its memory is there."""
    needed = activation_bytes(engine.engine)
    free, total = cuda.memory()
    if needed is not None and needed > free:
        raise no_memory(needed, free=free, total=total)
    make = engine.engine.create_execution_context
    context = make() if config is None else make(config)
    if context is None:
        cause = engine.heard.cause() or "TensorRT does not say"
        if _NO_MEMORY.search(cause):
            raise no_memory(needed or 0, free=free, total=total)
        raise UnavailableError(
            "no execution context can be made for the engine", facts={"reason": cause}
        )
    return context


def _check_profile(engine: ICudaEngine, index: int) -> None:
    count = int(engine.num_optimization_profiles)
    if index >= max(1, count):
        raise UsageError(
            f"the engine has no optimization profile {index}",
            facts={"profiles": f"0 to {count - 1}" if count > 1 else "0"},
            fix=f"--profile-index {max(0, count - 1)}",
        )


def _check_header(
    header: PlanHeader, path: Path, size: int, *, flavour: Flavour, here: str
) -> None:
    """Refuse what the header alone shows to be impossible."""
    if header.flavour != flavour:
        raise InputError(
            f"{path.name} is an engine of {TITLES[header.flavour]}, not of {TITLES[flavour]}",
            fix=f"-r {header.flavour.replace('_', '-')}",
        )
    if header.plan_bytes is not None and header.plan_bytes > size:
        raise InputError(
            f"{path.name} is cut short",
            facts={"bytes": size, "stated in its header": header.plan_bytes},
            fix="copy or build it again",
        )
    if header.version and version_numbers(header.version)[0] != version_numbers(here)[0]:
        raise _other_version(path, header, flavour=flavour, here=here)


def _other_version(
    path: Path, header: PlanHeader, *, flavour: Flavour, here: str, reason: str | None = None
) -> InputError:
    built = ".".join((header.version or "unknown").split(".")[:3])
    facts = {"engine": path.name, "built by": header.version or "unknown", "here": here}
    if reason:
        facts["reason"] = reason
    return InputError(
        f"the engine was built by {TITLES[flavour]} {built}, and {here} is installed here",
        facts=facts,
        fix="build it here: trtbench build MODEL.onnx, or --python PATH of an interpreter with "
        f"{TITLES[flavour]} {built}",
    )


def _refused(
    path: Path, header: PlanHeader, cuda: Cuda, heard: Heard, *, flavour: Flavour, here: str
) -> TrtbenchError:
    """Return why an engine was not loaded, by the first error of TensorRT."""
    cause = heard.cause() or "TensorRT does not say"
    if _NO_MEMORY.search(cause):
        free, total = cuda.memory()
        return no_memory(path.stat().st_size, free=free, total=total)
    if _OTHER_GPU.search(cause):
        device = cuda.facts()
        gpu = f"{device.name}, compute capability {device.compute_capability}"
        return InputError(
            "the engine was built for another GPU",
            facts={"engine": path.name, "here": gpu, "reason": cause},
            fix="build it on this GPU: trtbench build MODEL.onnx",
        )
    if _NO_PLUGIN.search(cause):
        return InputError(
            f"{path.name} needs a plugin that is not loaded",
            facts={"reason": cause},
            fix="--opt plugins=LIBRARY.so that has it",
        )
    numbers = version_numbers(header.version)[:3] if header.version else None
    if _OTHER_VERSION.search(cause) or (numbers and numbers != version_numbers(here)[:3]):
        return _other_version(path, header, flavour=flavour, here=here, reason=cause)
    return InputError(
        f"{path.name} is damaged or cut short",
        facts={"bytes": path.stat().st_size, "reason": cause},
        fix="copy or build it again",
    )
