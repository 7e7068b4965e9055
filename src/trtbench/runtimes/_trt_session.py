"""Engines and sessions for the runtimes ``tensorrt`` and ``tensorrt-rtx``.

The session uses the part of TensorRT's API that 8.6 to 11 and TensorRT-RTX have in common. Before
it is timed, its outputs are checked, and those of its CUDA graph are compared with a plain run.
Types that numpy does not have are handled as raw bytes, since ``trt.nptype`` does not know them.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import util
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsInt

import numpy as np
from numpy.typing import NDArray

from trtbench.core import errors
from trtbench.core.run import Fact, Scalar, name_from_types
from trtbench.core.samples import Arrays, LayerProfile
from trtbench.core.spec import RunSpec, ShapeProfile, TensorSpec, Value
from trtbench.core.units import text_from_shape
from trtbench.host.cuda import (
    SPIN,
    Call,
    CaptureError,
    Cuda,
    CudaError,
    cuda_fix,
    cuda_problem,
    index_of,
    no_memory,
    open_cuda,
    runtime_module,
)
from trtbench.host.cupti import Recorder
from trtbench.host.early_context import variables
from trtbench.host.tensorrt import (
    INSTALL,
    TITLES,
    TYPES,
    Flavour,
    LoggedErrors,
    OutputAllocator,
    activation_bytes,
    keep_until_exit,
    load,
    load_plugins,
    make_logger,
    make_output_allocator,
    version_numbers,
)
from trtbench.layers.join import computing_types, contradicting_types
from trtbench.models.identity import precision_of_engine
from trtbench.models.inputs import random_inputs
from trtbench.runtimes import _session
from trtbench.runtimes._gpu_query import Lane, Pipeline, SerialQuery, burst_of_queries, is_close
from trtbench.runtimes._kernels import profile_from_kernels
from trtbench.runtimes._loop import check_protocol
from trtbench.trtexec.exports import graph_from_json
from trtbench.trtexec.version import HEADER_BYTES, PlanHeader, plan_from_bytes, plan_from_file

if TYPE_CHECKING:
    from tensorrt import ICudaEngine, IExecutionContext, ILogger, IRuntimeConfig, Runtime

Outputs = dict[str, NDArray[np.generic]]

DEPTH = {"pipeline": 2, "gpu": 2, "coldl2": 2}
"""Queries in flight per context; one for protocols that wait for each query."""
_NO_MEMORY = re.compile(r"out of memory|OutOfMemory|Requested amount of GPU memory", re.I)
_OTHER_GPU = re.compile(r"incompatible device|compute capability|different (GPU|device)", re.I)
_OTHER_VERSION = re.compile(r"Version tag|not compatible with this version|library version", re.I)
_NO_PLUGIN = re.compile(r"find plugin|PluginCreator not found|plugin not found", re.I)
_HOST_CODE = re.compile(r"host.?code", re.I)
_STDERR = Path("/dev/stderr")


class Port(Value, frozen=True, kw_only=True):
    name: str
    is_input: bool
    dtype: str
    bits: int
    shape: tuple[int, ...]  # -1 is a dynamic dimension
    on_host: bool = False  # a shape tensor: TensorRT reads its values on the host
    packed_dim: int | None = None  # dimension that the layout pads to a multiple of `packed`
    packed: int = 1
    range: ShapeProfile | None = None
    """The shapes that the optimization profile in use allows, for dynamic inputs."""

    @property
    def is_dynamic(self) -> bool:
        return any(dim < 0 for dim in self.shape)

    @property
    def spec(self) -> TensorSpec:
        shape = tuple(None if dim < 0 else dim for dim in self.shape)
        usual: tuple[int, ...] = ()
        if self.range is not None:  # as optimized, but one item if that is allowed
            usual = (1, *self.range.opt[1:]) if self.range.min[0] <= 1 else self.range.opt
        return TensorSpec(name=self.name, dtype=self.dtype, shape=shape, usual=usual)

    def size_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the bytes of a tensor of this shape in the engine's layout."""
        dims = list(shape)
        if self.packed_dim is not None and self.packed > 1:
            dims[self.packed_dim] = -(-dims[self.packed_dim] // self.packed) * self.packed
        return -(-math.prod(dims) * self.bits // 8)


def ints(dims: Iterable[SupportsInt]) -> tuple[int, ...]:
    return tuple(int(dim) for dim in dims)


def ports_of(engine: ICudaEngine, trt: ModuleType, *, profile: int) -> tuple[Port, ...]:
    ports = []
    for name in [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]:
        kind = engine.get_tensor_dtype(name)
        known = TYPES.get(str(kind).rsplit(".", 1)[-1])
        if known is None:
            message = f"the tensor {name!r} has an unknown type"
            raise errors.InputError(message, facts={"type": kind})
        packed_dim = int(engine.get_tensor_vectorized_dim(name))
        port = Port(
            name=name, is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            dtype=known[0], bits=known[1], shape=ints(engine.get_tensor_shape(name)),
            on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
            packed_dim=packed_dim if packed_dim >= 0 else None,
            packed=max(1, int(engine.get_tensor_components_per_element(name))),
        )  # fmt: skip
        if port.is_input and not port.on_host and port.is_dynamic:
            least, best, most = map(ints, engine.get_tensor_profile_shape(name, profile))
            port = port.having(range=ShapeProfile(min=least, opt=best, max=most))
        ports.append(port)
    return tuple(ports)


def bytes_of(array: NDArray[np.generic], port: Port, size: int) -> NDArray[np.uint8]:
    """Return the bytes of an array for the engine; vectorized layouts are padded, not reordered."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if raw.nbytes != size and port.packed == 1:
        message = f"the input {port.name!r} has the wrong size"
        raise errors.InputError(message, facts={"bytes": raw.nbytes, "expected": size})
    filled = np.zeros(size, np.uint8)
    filled[: min(size, raw.nbytes)] = raw[:size]
    return filled


def array_from_bytes(
    raw: NDArray[np.uint8], port: Port, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """Return an output as a numpy array: bfloat16 becomes float32, smaller types stay bytes.

    If its shape is not known, the whole buffer is returned as one dimension.
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


def output_evidence(before: Outputs, after: Outputs, changed: bool = True) -> dict[str, Scalar]:
    """Return whether outputs are finite and, if the inputs changed, whether they vary."""
    finite = _session.are_finite(before)
    if finite is None:
        return {}
    floating = [name for name, array in before.items() if array.dtype.kind == "f"]
    varies = any(before[name].tobytes() != after[name].tobytes() for name in floating)
    return {"outputs_finite": finite, **({"outputs_vary": varies} if changed else {})}


@dataclass
class Buffer:
    """The memory of one tensor: on the device, and page-locked on the host."""

    port: Port
    shape: tuple[int, ...]
    device: int
    room: NDArray[np.uint8]  # the host's memory; a smaller shape uses the first part
    host: NDArray[np.uint8]
    allocator: OutputAllocator | None = None
    """Knows the shape of the last query, if the shape depends on the data."""

    @property
    def address(self) -> int:
        return self.room.ctypes.data if self.port.on_host else self.device


@dataclass
class Unit:
    context: IExecutionContext
    stream: Any
    handle: int
    buffers: dict[str, Buffer] = field(default_factory=dict)
    launch: Call | None = None  # launches the CUDA graph, once it is captured

    def plain(self) -> Callable[[], object]:
        return partial(self.context.execute_async_v3, self.handle)

    def enqueue(self) -> Callable[[], object]:
        return self.launch or self.plain()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A loaded engine, and the objects that must live as long as it does."""

    trt: ModuleType
    flavour: Flavour
    version: str
    engine: ICudaEngine
    runtime: Runtime
    logger: ILogger
    heard: LoggedErrors
    ports: tuple[Port, ...]

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.is_input)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if not port.is_input)


def load_engine(spec: RunSpec, cuda: Cuda, *, flavour: Flavour) -> Engine:
    path = Path(spec.model.path)
    trt, abilities = load(flavour)
    with errors.reading(path):
        data = path.read_bytes()
    header, here = plan_from_bytes(data[:HEADER_BYTES], where=str(path)), abilities.version
    if header.flavour != flavour:
        message = f"{path.name} is an engine of {TITLES[header.flavour]}, not of {TITLES[flavour]}"
        raise errors.InputError(message, fix=f"-r {header.flavour.replace('_', '-')}")
    if header.plan_bytes is not None and header.plan_bytes > len(data):
        message = f"{path.name} is cut short"
        facts = {"bytes": len(data), "stated in its header": header.plan_bytes}
        raise errors.InputError(message, facts=facts, fix="copy or build it again")
    if header.version and version_numbers(header.version)[0] != version_numbers(here)[0]:
        raise _other_version(path, header, flavour=flavour, here=here)
    heard = LoggedErrors()
    # The log of the worker, unless standard error is a socket, which cannot be opened.
    log = Path(os.devnull) if _STDERR.is_socket() else _STDERR
    logger = make_logger(trt, path=log, logged=heard, verbose=spec.options.get("verbose") == "on")
    keep_until_exit(logger)  # TensorRT goes on using the first one of a process
    # Engines may need plugins, of TensorRT or of the user.
    initialise = getattr(trt, "init_libnvinfer_plugins", None)
    if initialise is not None:
        initialise(logger, "")
    load_plugins(trt, filter(None, map(str.strip, spec.options.get("plugins", "").split(","))))
    runtime = trt.Runtime(logger)
    if spec.options.get("host_code") == "on":
        runtime.engine_host_code_allowed = True
    if core := spec.options.get("dla_core"):
        runtime.DLA_core = int(core)
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise _load_error(path, header, cuda, heard, flavour=flavour, here=here)
    profiles = max(1, int(engine.num_optimization_profiles))
    if spec.profile_index >= profiles:
        message = f"the engine has no optimization profile {spec.profile_index}"
        fix = f"--profile-index {profiles - 1}"
        raise errors.UsageError(message, facts={"profiles": f"0 to {profiles - 1}"}, fix=fix)
    return Engine(
        trt=trt, flavour=flavour, version=here, engine=engine, runtime=runtime, logger=logger,
        heard=heard, ports=ports_of(engine, trt, profile=spec.profile_index),
    )  # fmt: skip


def _other_version(
    path: Path, header: PlanHeader, *, flavour: Flavour, here: str, **reason: str
) -> errors.InputError:
    built = ".".join((header.version or "unknown").split(".")[:3])
    return errors.InputError(
        f"the engine was built by {TITLES[flavour]} {built}, but {here} is installed here",
        facts={
            "engine": path.name,
            "built by": header.version or "unknown",
            "here": here,
            **reason,
        },
        fix="build it here: trtbench build MODEL.onnx, or --python PATH of an interpreter with "
        f"{TITLES[flavour]} {built}",
    )


def _load_error(
    path: Path, header: PlanHeader, cuda: Cuda, heard: LoggedErrors, *, flavour: Flavour, here: str
) -> errors.TrtbenchError:
    """Return the error for an engine that cannot be loaded, from the first error of TensorRT."""
    cause = heard.cause() or "TensorRT gives none"
    if _NO_MEMORY.search(cause):
        free, total = cuda.memory()
        return no_memory(path.stat().st_size, free=free, total=total)
    if _OTHER_GPU.search(cause):
        device = cuda.facts()
        gpu = f"{device.name}, compute capability {device.compute_capability}"
        facts = {"engine": path.name, "here": gpu, "reason": cause}
        fix = "build it on this GPU: trtbench build MODEL.onnx"
        return errors.InputError("the engine was built for another GPU", facts=facts, fix=fix)
    if _HOST_CODE.search(cause):
        message = f"{path.name} is version-compatible: loading it runs code that it carries"
        fix = "--opt host_code=on, if you trust who built it"
        return errors.InputError(message, facts={"reason": cause}, fix=fix)
    if _NO_PLUGIN.search(cause):
        message = f"{path.name} needs a plugin that is not loaded"
        fix = "--opt plugins=LIBRARY.so with the library that has it"
        return errors.InputError(message, facts={"reason": cause}, fix=fix)
    numbers = version_numbers(header.version)[:3] if header.version else None
    if _OTHER_VERSION.search(cause) or (numbers and numbers != version_numbers(here)[:3]):
        return _other_version(path, header, flavour=flavour, here=here, reason=cause)
    message = f"{path.name} is damaged or cut short"
    fix, size = "copy or build it again", path.stat().st_size
    return errors.InputError(message, facts={"bytes": size, "reason": cause}, fix=fix)


class TrtSession(_session.Session):
    """An engine with its contexts, buffers and streams, all created before the loop."""

    def __init__(
        self, engine: Engine, cuda: Cuda, spec: RunSpec, config: IRuntimeConfig | None = None
    ) -> None:
        self.engine, self._cuda, self._spec = engine, cuda, spec
        self._units: list[Unit] = []
        for _ in range(spec.streams):
            self._units.append(self._create_unit(config))
        ports = list(engine.ports)
        for index, port in enumerate(ports):
            if port.is_input and not port.is_dynamic:  # only a context may know the shape
                shape = ints(self._units[0].context.get_tensor_shape(port.name))
                ports[index] = port.having(shape=shape) if min(shape, default=0) > 0 else port
        self.engine = engine = replace(engine, ports=tuple(ports))
        self.inputs = tuple(port.spec for port in engine.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(port.spec for port in engine.outputs)
        self.notes: tuple[str, ...] = ()
        self.versions = {engine.flavour: engine.version}
        self.evidence: dict[str, Scalar] = {}
        found: dict[str, Scalar] = {
            "transfers": spec.transfers,
            "cuda_graph": False,
            "cuda_graph_fell_back": False,
            "spin_wait": spec.spin_wait,
            "streams": spec.streams,
            "protocol": spec.protocol,
            "overlapping": DEPTH.get(spec.protocol, 1) * spec.streams > 1,
            "memory": "pinned",
            "profile_index": spec.profile_index,
            "device": cuda.facts().name,
        }
        if engine.flavour == "tensorrt_rtx":  # when kernels for the shapes are compiled
            found["specialization"] = spec.options.get("specialization", "eager")
        self.conditions = {key: Fact(value=value) for key, value in found.items()}
        self._marks: tuple[Call, Call, Callable[[], float]] | None = None
        self._layer_times: dict[str, Scalar] = {}  # how layers were timed

    def bind(self, arrays: Arrays) -> None:
        """Set shapes, allocate buffers, and copy the inputs once."""
        bound_before = bool(self._units[0].buffers)
        for unit in self._units:
            self._bind(unit, arrays)
        buffers = self._units[0].buffers
        self.outputs = tuple(
            TensorSpec(name=port.name, dtype=port.dtype, shape=buffers[port.name].shape)
            for port in self.engine.outputs
        )
        # Compare the precision in the engine's record with the types of its layers, if the engine
        # was built so that the inspector reports them. Without a record, they alone tell it.
        if bound_before:
            return
        label = precision_of_engine(self._spec.model)
        try:
            types = computing_types(graph_from_json(self.describe(), where="the inspector"))
        except errors.ParseError:
            return
        ran = contradicting_types(label, types)
        if types and (ran is not None or label is None):
            self.conditions["precision"] = Fact(value=name_from_types(types), source="implied")
            self.evidence |= {} if label is None else {"claimed_precision": label}
        elif types:
            self.conditions["precision"] = Fact(value=label)

    def first(self) -> None:
        """Run the first query of every context, without a graph."""
        for unit in self._units:
            self._run(unit, unit.plain())

    def step(self) -> Callable[[], object]:
        """Return a call that runs a query of the protocol; captures and checks a graph first."""
        self._check_outputs()
        transfers = self._spec.transfers
        lanes = [self._lane(unit) for unit in self._units]
        depth = DEPTH.get(self._spec.protocol, 1)
        if depth * len(lanes) == 1:
            self.spans = SerialQuery(self._cuda, lanes[0], transfers=transfers)
        else:
            self.spans = Pipeline(self._cuda, lanes, transfers=transfers, depth=depth)
        return self.spans.step

    def burst(self, *, size: int, lead: int) -> _session.Burst:
        """Return a call that runs queries back to back on the current inputs, without copies."""
        return burst_of_queries(self._cuda, self._lane(self._units[0]), size=size, lead=lead)

    def fetch(self) -> Outputs:
        return self.fetch_with_span()[0]

    def fetch_with_span(self) -> tuple[Outputs, float]:
        """Run once; returns the outputs, and the seconds on the GPU without copies."""
        unit, cuda = self._units[0], self._cuda
        if self._marks is None:
            begin, end = cuda.event(), cuda.event()
            records = cuda.record(begin, unit.stream), cuda.record(end, unit.stream)
            self._marks = (*records, cuda.span(begin, end))
        before, after, read = self._marks
        enqueue = unit.enqueue()

        def marked() -> object:
            before()
            done = enqueue()
            after()
            return done

        self._run(unit, marked)
        return self._outputs(unit), read()

    def profile_layers(self) -> LayerProfile:
        """Time layers by their kernels in undisturbed queries, else with TensorRT's profiler."""
        if self.spans is not None:
            self.spans.drain()
        trt, unit, reported = self.engine.trt, self._units[0], list[_session.Row]()

        class Profiler(trt.IProfiler):  # type: ignore[misc, name-defined]
            def report_layer_time(self, layer_name: str, ms: float) -> None:
                reported.append((layer_name, ms * 1e-3))

        profiler = Profiler()

        def queries() -> Iterator[None]:
            unit.context.profiler = profiler
            unit.context.enqueue_emits_profile = False
            return self._repeat(unit, unit.plain())

        def rows() -> list[_session.Row]:
            reported.clear()
            unit.context.report_to_profiler()
            return list(reported)

        try:
            return self._layers_by_kernels(queries, rows)
        except Exception as problem:  # a missing package or library, or a driver that refuses
            self._layer_times = {"layer_times": f"profiler: {errors.first_line(problem)}"}
        return _session.profile_from_rows([rows() for _ in queries()][_session.WARMUP :])

    def _layers_by_kernels(
        self, queries: Callable[[], Iterator[None]], rows: Callable[[], list[_session.Row]]
    ) -> LayerProfile:
        """Return the layers as CUPTI sees them; raises various exceptions where it cannot.

        ``queries`` runs them with TensorRT's profiler, and ``rows`` tells the layers of the last.
        """
        unit, recorder = self._units[0], Recorder()
        # A graph of its own: CUPTI does not know the nodes of graphs captured before it began.
        run = self._cuda.capture(unit.stream, unit.plain()) if unit.launch else unit.plain()
        for _ in range(_session.WARMUP):
            self._run(unit, run)
        work, _ = recorder.record(lambda: [*self._repeat(unit, run)])
        slow = queries()
        next(slow)  # the first query with a profiler may do more
        names = [name for name, _ in rows()]
        profiled, events = recorder.record(lambda: next(slow), events=True)
        profile, self._layer_times = profile_from_kernels(
            work, profiled, [call for call, _ in events], names, again=lambda: next(slow)
        )
        return profile

    def _repeat(self, unit: Unit, run: Callable[[], object]) -> Iterator[None]:
        """Run queries one by one until there are enough for a profile; yields after each."""
        until = time.monotonic() + _session.ENOUGH_S
        for number in range(1, _session.WARMUP + _session.MOST + 1):
            if run() is False:
                raise errors.TrtbenchError("the engine could not be run to time its layers")
            self._cuda.synchronize(unit.stream)
            yield
            if number >= _session.WARMUP + _session.LEAST and time.monotonic() >= until:
                return

    def observe_after(self) -> dict[str, Scalar]:
        return self._layer_times

    def describe(self) -> str:
        """Return the inspector's information about layers, in the format of trtexec's export."""
        inspector = self.engine.engine.create_engine_inspector()
        inspector.execution_context = self._units[0].context
        return str(inspector.get_engine_information(self.engine.trt.LayerInformationFormat.JSON))

    def close(self) -> None:
        """Free the contexts, then the memory that they used."""
        if self.spans is not None:
            with suppress(errors.TrtbenchError):  # an earlier error is the one to report
                self.spans.drain()
        self.spans = None
        self._units.clear()
        self._cuda.close()

    def close_at_exit(self) -> None:
        """Leave everything to the driver: libraries may crash as they are taken apart."""

    def _create_unit(self, config: IRuntimeConfig | None) -> Unit:
        """Create an execution context and its stream; raises if there is not enough memory."""
        stream = self._cuda.stream()
        handle, profile = int(stream), self._spec.profile_index
        make = self.engine.engine.create_execution_context
        context = make() if config is None else make(config)
        if context is None:
            cause = self.engine.heard.cause() or "TensorRT gives none"
            if _NO_MEMORY.search(cause):  # asked of TensorRT: Jetsons have more than they call free
                free, total = self._cuda.memory()
                raise no_memory(activation_bytes(self.engine.engine) or 0, free=free, total=total)
            message = "no execution context can be created for the engine"
            raise errors.UnavailableError(message, facts={"reason": cause})
        not_shared = errors.InputError(
            "only one context can use the engine's optimization profile, but each of the "
            f"{self._spec.streams} streams needs one",
            facts={"profile": profile},
            fix="--streams 1; or build the engine with trtbench, which allows sharing of profiles",
        )
        if profile and context.set_optimization_profile_async(profile, handle) is False:
            message = f"the optimization profile {profile} cannot be used"
            raise not_shared if self._units else self._failure(message)
        dynamic = any(port.is_dynamic for port in self.engine.inputs)
        if context.active_optimization_profile < 0 and dynamic:
            raise not_shared
        self._cuda.synchronize(stream)
        return Unit(context=context, stream=stream, handle=handle)

    def _bind(self, unit: Unit, arrays: Arrays) -> None:
        engine = self.engine
        for port in engine.inputs:
            shape, allowed = tuple(arrays[port.name].shape), port.range
            if allowed is not None and any(
                not low <= dim <= high
                for low, dim, high in zip(allowed.min, shape, allowed.max, strict=True)
            ):
                least, most, best = map(text_from_shape, (allowed.min, allowed.max, allowed.opt))
                raise errors.InputError(
                    f"the shape of {port.name!r} is outside the range of the engine",
                    facts={
                        "given": text_from_shape(shape),
                        "allowed": f"{least} to {most}, best {best}",
                        "profile": self._spec.profile_index,
                    },
                    fix=f"--shape {port.name}:{best}",
                )
            if port.is_dynamic and unit.context.set_input_shape(port.name, shape) is False:
                raise self._failure(f"TensorRT refuses the shape of {port.name!r}")
        for port in engine.inputs:
            self._allocate(unit, port)
            host = unit.buffers[port.name].host
            host[:] = bytes_of(arrays[port.name], port, host.nbytes)
        missing = unit.context.infer_shapes()
        if missing:
            raise self._failure(f"TensorRT does not know the shapes of {', '.join(missing)}")
        for copy in self._copies(unit, unit.stream):
            copy()
        self._cuda.synchronize(unit.stream)
        for port in engine.outputs:
            self._allocate(unit, port)

    def _allocate(self, unit: Unit, port: Port) -> None:
        """Allocate the memory of a tensor, or reuse the memory of a larger one."""
        shape = ints(unit.context.get_tensor_shape(port.name))
        if min(shape, default=0) >= 0:
            size = port.size_bytes(shape)
        else:  # the shape depends on the data: allocate the maximum
            size = max(1, int(unit.context.get_max_output_size(port.name)))
        known = unit.buffers.get(port.name)
        if known is None or known.room.nbytes < size:
            # At least doubled: what was outgrown is freed at the end only.
            most = max(size, 2 * known.room.nbytes if known else 1)
            device, room = self._cuda.malloc(most), self._cuda.pinned(most)
            known = Buffer(port=port, shape=shape, device=device, room=room, host=room[:size])
        elif known.shape != shape:
            known = replace(known, shape=shape, host=known.room[:size], allocator=None)
        if known is not unit.buffers.get(port.name):
            unit.launch = None  # a graph keeps the shapes and addresses it was captured with
        unit.buffers[port.name] = known
        if unit.context.set_tensor_address(port.name, known.address) is False:  # or None
            raise self._failure(f"TensorRT refuses the address of {port.name!r}")
        if known.allocator is None and not port.is_input and min(shape, default=0) < 0:
            trt, size = self.engine.trt, known.host.nbytes
            known.allocator = make_output_allocator(trt, address=known.address, size_bytes=size)
            if unit.context.set_output_allocator(port.name, known.allocator) is False:
                raise self._failure(f"TensorRT refuses the allocator of {port.name!r}")

    def _copies(self, unit: Unit, stream: object, *, out: bool = False) -> tuple[Call, ...]:
        ports = self.engine.outputs if out else self.engine.inputs
        moved = [unit.buffers[port.name] for port in ports if not port.on_host]
        return tuple(self._cuda.copy(each.device, each.host, stream, out=out) for each in moved)

    def _lane(self, unit: Unit) -> Lane:
        return Lane(
            enqueue=unit.enqueue(), stream=unit.stream, copies_in=partial(self._copies, unit),
            copies_out=partial(self._copies, unit, out=True),
            ahead=(self._cuda.flush(unit.stream),) if self._spec.protocol == "coldl2" else (),
        )  # fmt: skip

    def _run(self, unit: Unit, enqueue: Callable[[], object]) -> None:
        for copy in self._copies(unit, unit.stream):
            copy()
        if enqueue() is False:
            raise self._failure("TensorRT could not run the engine")
        for copy in self._copies(unit, unit.stream, out=True):
            copy()
        self._cuda.synchronize(unit.stream)

    def _outputs(self, unit: Unit) -> Outputs:
        found = {}
        for port in self.engine.outputs:
            buffer = unit.buffers[port.name]
            shape = buffer.allocator.shape if buffer.allocator is not None else None
            shape = shape or ints(unit.context.get_tensor_shape(port.name))
            found[port.name] = array_from_bytes(buffer.host, port, shape)
        return found

    def _check_outputs(self) -> None:
        """Run on other inputs too: check that outputs are finite and vary, and that a graph works.

        The measured inputs are restored afterwards. An output whose shape depends on the data
        allows no graph: a replay reports no shapes, and TensorRT 8.6.0 captures such work, but then
        replays wrong results.
        """
        wanted, first = self._spec.cuda_graph != "off", self._units[0]
        changing = [name for name, each in first.buffers.items() if each.allocator is not None]
        measured = {name: each.host.copy() for name, each in first.buffers.items()}
        before = self._run_cleared(first, first.plain())
        for unit in self._units:
            self._change_inputs(unit)
        after = self._run_cleared(first, first.plain())
        names = [port.name for port in self.engine.inputs]
        changed = any((first.buffers[name].host != measured[name]).any() for name in names)
        self.evidence |= output_evidence(before, after, changed=changed)
        problem: errors.TrtbenchError | None = None
        if wanted and not changing:
            try:
                for unit in self._units:
                    unit.launch = self._cuda.capture(unit.stream, unit.plain())
                problem = self._difference(self._units[:1], after)
            except CaptureError as refusal:  # whose traceback would keep this session in a cycle
                problem = refusal.with_traceback(None)
        for unit in self._units:
            for name in names:
                unit.buffers[name].host[:] = measured[name]
        # Also on inputs set after the capture: a graph may keep the ones it was captured with.
        if wanted and not changing and problem is None:
            problem = self._difference(self._units, before)
        for unit in self._units:
            unit.launch = None if problem is not None else unit.launch
            self._run(unit, unit.enqueue())
        if wanted and changing:
            problem = errors.InputError(
                "a CUDA graph does not support outputs whose shape depends on the data",
                facts={"outputs": ", ".join(changing)},
            )
        if problem is not None and self._spec.cuda_graph == "on":
            cause = self.engine.heard.cause()
            facts = {**problem.facts, **({"TensorRT": cause} if cause else {})}
            fix = "to measure without a graph: --cuda-graph auto"
            raise errors.InputError(problem.message, facts=facts, fix=fix)
        if problem is not None:
            self.notes += (f"measured without a CUDA graph: {problem.message}",)
            self.conditions["cuda_graph_fell_back"] = Fact(value=True)
        self.conditions["cuda_graph"] = Fact(value=wanted and problem is None)

    def _difference(self, units: Sequence[Unit], expected: Outputs) -> errors.InputError | None:
        """Return an error if graphs, on the current inputs, give other outputs than a plain run.

        Outputs that also differ between two plain runs do not count.
        """
        wrong: set[str] = set()
        for unit in units:
            found = self._run_cleared(unit, unit.enqueue())
            differ = {name for name in expected if not is_close(expected[name], found[name])}
            again = self._run_cleared(unit, unit.plain()) if differ else {}
            unsteady = [name for name in again if name in differ]
            unsteady = [name for name in unsteady if not is_close(expected[name], again[name])]
            if unsteady and "outputs_repeat" not in self.evidence:
                self.evidence["outputs_repeat"] = False
                self.notes += (
                    f"{', '.join(unsteady)} differed in a second plain run on the same inputs: the "
                    "outputs of the CUDA graph cannot be checked",
                )
            wrong |= differ.difference(unsteady)
        if not wrong:
            return None
        self.evidence["graph_outputs_differ"] = True
        message = "the CUDA graph gives different results from the engine without it"
        facts = {"outputs": ", ".join(sorted(wrong))}
        return errors.InputError(message, facts=facts, fix="--cuda-graph off")

    def _run_cleared(self, unit: Unit, enqueue: Callable[[], object]) -> Outputs:
        """Run with outputs set to zero first, so that unwritten parts are equal."""
        for buffer in unit.buffers.values():
            if not buffer.port.is_input and not buffer.port.on_host:
                size = buffer.host.nbytes
                self._cuda.call("cudaMemsetAsync", buffer.device, 0, size, unit.stream)
        self._run(unit, enqueue)
        return self._outputs(unit)

    def _change_inputs(self, unit: Unit) -> None:
        """Set other inputs: new random values, and integers in reverse order.

        Integers may be the only valid ones, such as indices of a table.
        """
        for port in self.engine.inputs:
            if port.on_host or port.packed > 1:
                continue
            buffer = unit.buffers[port.name]
            if "float" not in port.dtype:
                if port.bits >= 8:
                    elements = buffer.host.reshape(-1, port.bits // 8)
                    buffer.host[:] = elements[::-1].copy().reshape(-1)
                continue
            tensor = TensorSpec(name=port.name, dtype=port.dtype, shape=buffer.shape)
            try:
                # Seed of the inputs for checking a graph, which must differ from the measured ones.
                array = random_inputs((tensor,), seed=1_000_003)[port.name]
            except errors.InputError:  # no random values of this type: unchanged
                continue
            buffer.host[:] = bytes_of(array, port, buffer.host.nbytes)

    def _failure(self, message: str) -> errors.TrtbenchError:
        cause = self.engine.heard.cause()
        return CudaError(message, facts={"reason": cause} if cause else {})


OPTIONS = {
    "plugins": "plugin libraries, comma separated",
    "host_code": "on: run the code that a version-compatible engine carries (default: off)",
    "dla_core": "the DLA core to load the engine on (default: the first)",
    "verbose": "on or off: all messages of TensorRT in the log (default: off)",
}
TRAVELS = {"plugins": "files"}
RTX_OPTIONS = {
    "specialization": "eager, lazy or none: when kernels for the shapes are made (default: eager)"
}
_STRATEGY = "dynamic_shapes_kernel_specialization_strategy"


def available(flavour: Flavour) -> str | None:
    if util.find_spec(flavour) is None:
        return f"{TITLES[flavour]} is not installed"
    return cuda_problem()


def fix(flavour: Flavour) -> str | None:
    if util.find_spec(flavour) is None:
        return INSTALL[flavour]
    return cuda_fix()


def device(spec: RunSpec) -> str:
    return spec.device or "cuda:0"


def bursts(spec: RunSpec) -> bool:
    return True


def early_context(spec: RunSpec) -> dict[str, str]:
    return variables(index_of(device(spec)), SPIN if spec.spin_wait else 0)


def load_library(flavour: Flavour) -> None:
    runtime_module()
    load(flavour)


def _install(spec: RunSpec, flavour: Flavour) -> str:
    """Return how to install what loads an engine: the version that built it, if it is known."""
    fix, version = INSTALL[flavour], ""
    with suppress(errors.TrtbenchError):
        version = plan_from_file(Path(spec.model.path), where=spec.model.name).version or ""
    exact = f"'tensorrt=={'.'.join(version.split('.')[:3])}.*'"
    return fix.replace("tensorrt", exact, 1) if version and flavour == "tensorrt" else fix


def open_session(spec: RunSpec, *, flavour: Flavour) -> TrtSession:
    """Load an engine with the options of a run; opens CUDA first, TensorRT may crash without."""
    check(spec, flavour=flavour)

    # Importing TensorRT takes as long as creating the CUDA context, and is independent of it.
    def import_library() -> None:
        with suppress(Exception):  # loading the engine raises it again
            load(flavour)

    importer = Thread(target=import_library, daemon=True)
    importer.start()
    try:
        cuda = open_cuda(spec.device, spin=spec.spin_wait)
    except errors.UnavailableError:
        if util.find_spec(flavour) is None:  # report what must be installed first
            message = f"{TITLES[flavour]} is not installed here"
            raise errors.UnavailableError(message, fix=_install(spec, flavour)) from None
        raise
    importer.join()
    try:
        engine, config = load_engine(spec, cuda, flavour=flavour), None
        if flavour == "tensorrt_rtx":  # which can compile kernels for the shapes in use
            config = engine.engine.create_runtime_config()
            wanted = spec.options.get("specialization", "eager")
            errors.refuse_other_choice("specialization", wanted, ("eager", "lazy", "none"))
            strategies = getattr(engine.trt, "DynamicShapesKernelSpecializationStrategy", None)
            if strategies is not None and hasattr(config, _STRATEGY):
                setattr(config, _STRATEGY, getattr(strategies, wanted.upper()))
        return TrtSession(engine, cuda, spec, config=config)
    except BaseException:
        cuda.close()
        raise


def check(spec: RunSpec, *, flavour: Flavour) -> None:
    known = {**OPTIONS, **(RTX_OPTIONS if flavour == "tensorrt_rtx" else {})}
    errors.refuse_unknown_options(f"runtime {spec.runtime}", spec.options, known)
    for name, choices in (("host_code", ("on", "off")), ("dla_core", ("0", "1"))):
        errors.refuse_other_choice(name, spec.options.get(name, choices[0]), choices)
    if spec.threads is not None:
        message = f"{TITLES[flavour]} has no threads to set"
        raise errors.UsageError(message, fix="leave out --threads; see --streams")
    check_protocol(spec)
