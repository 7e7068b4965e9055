"""A session over the part of TensorRT's API that 8.6 to 11 and TensorRT-RTX share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.inputs import random_inputs
from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import RunSpec, TensorSpec
from trtbench.errors import InputError, TrtbenchError
from trtbench.host.cuda import Call, Cuda, CudaError
from trtbench.host.tensorrt_inspect import memory_facts
from trtbench.host.tensorrt_listen import make_output_room
from trtbench.models.index_limits import index_limits
from trtbench.runtimes._gpu_memory import MemoryMeter
from trtbench.runtimes._gpu_query import Lane, Pipeline, SerialQuery, burst_of_queries
from trtbench.runtimes._session import Burst, Session, Spans
from trtbench.runtimes._trt_check import GraphCheck
from trtbench.runtimes._trt_engine import Engine, new_context, with_profile, with_shapes_of
from trtbench.runtimes._trt_layers import precision_seen, profile_context
from trtbench.runtimes._trt_tensors import (
    Buffer,
    Port,
    Unit,
    array_from_bytes,
    backwards,
    bytes_of,
    changing_query,
    check_range,
)

if TYPE_CHECKING:
    from tensorrt import IRuntimeConfig

DEPTH = {"pipeline": 2, "gpu": 2, "coldl2": 2}
"""Queries in flight per context; one for the protocols that wait for each."""
FRESH_SEED = 1_000_003
"""Of the inputs that a graph is checked with: others than those measured."""


class TrtSession(Session):
    """An engine with its contexts, buffers and streams; everything is made before the loop."""

    has_profiles = True

    def __init__(
        self,
        engine: Engine,
        cuda: Cuda,
        spec: RunSpec,
        *,
        memory: MemoryMeter,
        config: IRuntimeConfig | None = None,
    ) -> None:
        self.engine, self._cuda, self._spec, self._memory = engine, cuda, spec, memory
        self._units: list[Unit] = []
        self._units.append(self._unit(config))
        self.engine = engine = with_shapes_of(engine, self._units[0].context)
        memory.mark("memory_context_bytes")
        for _ in range(spec.streams - 1):
            self._units.append(self._unit(config))
        memory.mark("memory_further_context_bytes", parts=spec.streams - 1)
        self.inputs = tuple(port.spec for port in engine.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(port.spec for port in engine.outputs)
        self.notes: tuple[str, ...] = ()
        self.versions = {engine.flavour: engine.version}
        self.evidence: dict[str, Scalar] = {
            **memory_facts(engine.engine),
            "module_loading": cuda.module_loading(),
        }
        self.conditions = self._conditions()
        self.spans: Spans | None = None
        self._marks: tuple[Call, Call, Callable[[], float]] | None = None

    def bind(self, arrays: Arrays) -> None:
        """Take inputs: set shapes, place buffers, and copy the inputs once."""
        for unit in self._units:
            self._bind(unit, arrays, self.engine)
        buffers = self._units[0].buffers
        self.outputs = tuple(
            TensorSpec(name=port.name, dtype=port.dtype, shape=buffers[port.name].shape)
            for port in self.engine.outputs
        )
        if "io_bytes" not in self.evidence:
            told, seen = precision_seen(self._spec.model, self.describe)
            self.conditions |= told
            self.evidence |= seen
        self.evidence["io_bytes"] = sum(each.host.nbytes for each in buffers.values())
        self._memory.mark("memory_buffers_bytes", parts=len(self._units))

    def query(self, arrays: Arrays, *, profile: int = 0) -> Call:
        """Make a query with buffers of its own on the first context; no graph outlives a change."""
        shared, engine = self._units[0], with_profile(self.engine, profile)
        unit = Unit(context=shared.context, stream=shared.stream, handle=shared.handle)
        self._take_profile(unit, profile)
        self._bind(unit, arrays, engine)
        shapes = {port.name: arrays[port.name].shape for port in engine.inputs if port.moves}
        lane = SerialQuery(self._cuda, self._lane(unit), transfers=self._spec.transfers)
        take = partial(self._take_profile, unit, profile)
        return changing_query(unit, shared, take_profile=take, shapes=shapes, run=lane.step)

    def first(self) -> None:
        """Run the first query of every context, without a graph."""
        for unit in self._units:
            self._run(unit, partial(unit.context.execute_async_v3, unit.handle))

    def step(self) -> Callable[[], object]:
        """Make the queries of the protocol; a graph is captured and checked now."""
        self._check_outputs()
        self._memory.mark("memory_modules_bytes")
        self.evidence |= self._memory.facts
        transfers = self._spec.transfers
        lanes = [self._lane(unit) for unit in self._units]
        depth = DEPTH.get(self._spec.protocol, 1)
        if depth * len(lanes) == 1:
            query = SerialQuery(self._cuda, lanes[0], transfers=transfers)
            self.spans = query
            return query.step
        pipeline = Pipeline(self._cuda, lanes, transfers=transfers, depth=depth)
        self.spans = pipeline
        return pipeline.step

    def burst(self, *, size: int, lead: int) -> Burst:
        """Make queries back to back on the inputs that are there, without copies."""
        lane = self._lane(self._units[0])
        return burst_of_queries(self._cuda, lane, size=size, lead=lead)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        """Run once and give the outputs by name."""
        unit = self._units[0]
        self._run(unit, unit.enqueue())
        return self._outputs(unit)

    def fetch_with_span(self) -> tuple[dict[str, NDArray[np.generic]], float]:
        """Run once and give the outputs, and the seconds the GPU computed, copies left out."""
        unit = self._units[0]
        if self._marks is None:
            begin, end = self._cuda.event(), self._cuda.event()
            self._marks = (
                self._cuda.record(begin, unit.stream),
                self._cuda.record(end, unit.stream),
                self._cuda.span(begin, end),
            )
        before, after, read = self._marks
        enqueue = unit.enqueue()

        def marked() -> object:
            before()
            done = enqueue()
            after()
            return done

        self._run(unit, marked)
        return self._outputs(unit), read()

    def profile_layers(self) -> tuple[LayerProfile, float]:
        """Time single layers with TensorRT's profiler; gives the GPU time beside it."""
        if self.spans is not None:
            self.spans.drain()
        unit = self._units[0]
        return profile_context(
            self.engine.trt, unit.context, self._cuda, stream=unit.stream, handle=unit.handle
        )

    def describe(self) -> str:
        """Tell what the inspector tells about every layer, as trtexec exports it."""
        inspector = self.engine.engine.create_engine_inspector()
        inspector.execution_context = self._units[0].context
        return str(inspector.get_engine_information(self.engine.trt.LayerInformationFormat.JSON))

    def close(self) -> None:
        """Free contexts first, then what they used."""
        if self.spans is not None:
            with suppress(TrtbenchError):  # the failure that led here is the one to tell
                self.spans.drain()
        self.spans = None
        self._units.clear()
        self._cuda.close()

    def _unit(self, config: IRuntimeConfig | None) -> Unit:
        stream = self._cuda.stream()
        handle = int(stream)
        context = new_context(self.engine, self._cuda, config=config)
        profile = self.engine.profile
        if profile and context.set_optimization_profile_async(profile, handle) is False:
            said = f"the optimization profile {profile} cannot be used"
            raise self._taken() if self._units else self._told(said)
        if context.active_optimization_profile < 0 and self._moves():
            raise self._taken()
        self._cuda.synchronize(stream)
        return Unit(context=context, stream=stream, handle=handle)

    def _moves(self) -> bool:
        return any(port.moves for port in self.engine.inputs)

    def _take_profile(self, unit: Unit, profile: int) -> None:
        """Make a profile the active one; shapes have to be set again afterwards."""
        if unit.context.active_optimization_profile == profile:
            return
        if unit.context.set_optimization_profile_async(profile, unit.handle) is False:
            raise self._told(f"the optimization profile {profile} cannot be used")

    def _bind(self, unit: Unit, arrays: Arrays, engine: Engine) -> None:
        self._set_shapes(unit, arrays, engine)
        for port in engine.inputs:
            self._place(unit, port)
        self._fill(unit, arrays)
        for port in engine.outputs:
            self._place(unit, port)

    def _taken(self) -> InputError:
        return InputError(
            "the engine lets only one context use its optimization profile, and each of the "
            f"{self._spec.streams} streams needs one",
            facts={"profile": self.engine.profile},
            fix="--streams 1; or build the engine with trtbench, which lets profiles be shared",
        )

    def _set_shapes(self, unit: Unit, arrays: Arrays, engine: Engine) -> None:
        for port in engine.inputs:
            shape = tuple(arrays[port.name].shape)
            check_range(port, shape, profile=engine.profile)
            if port.moves and unit.context.set_input_shape(port.name, shape) is False:
                raise self._told(f"TensorRT refuses the shape of {port.name!r}")

    def _place(self, unit: Unit, port: Port) -> None:
        """Allocate the memory of a tensor; what was allocated for a larger one is used again."""
        shape = tuple(int(dim) for dim in unit.context.get_tensor_shape(port.name))
        size = port.size_bytes(shape) if min(shape, default=0) >= 0 else 0
        if not size:  # the shape depends on the data: room for the largest
            size = max(1, int(unit.context.get_max_output_size(port.name)))
        known = unit.buffers.get(port.name)
        if known is None or known.host.nbytes < size:
            device = self._cuda.malloc(size)
            known = Buffer(port=port, shape=shape, device=device, host=self._cuda.pinned(size))
        elif known.shape != shape:
            known = Buffer(port=port, shape=shape, device=known.device, host=known.host[:size])
        if known is not unit.buffers.get(port.name):
            unit.launch = None  # a graph keeps the shapes and addresses it was captured with
        unit.buffers[port.name] = known
        address = known.host.ctypes.data if port.on_host else known.device
        if unit.context.set_tensor_address(port.name, address) is False:  # some versions: None
            raise self._told(f"TensorRT refuses the address of {port.name!r}")
        if known.room is None and not port.is_input and min(shape, default=0) < 0:
            trt, size = self.engine.trt, known.host.nbytes
            known.room = make_output_room(trt, address=address, size_bytes=size)
            if unit.context.set_output_allocator(port.name, known.room) is False:
                raise self._told(f"TensorRT refuses the place of {port.name!r}")

    def _fill(self, unit: Unit, arrays: Arrays) -> None:
        for port in self.engine.inputs:
            host = unit.buffers[port.name].host
            host[:] = bytes_of(arrays[port.name], port, host.nbytes)
        missing = unit.context.infer_shapes()
        if missing:
            raise self._told(f"TensorRT does not know the shapes of {', '.join(missing)}")
        for copy in self._copies_in(unit, unit.stream):
            copy()
        self._cuda.synchronize(unit.stream)

    def _copies_in(self, unit: Unit, stream: object) -> tuple[Call, ...]:
        moved = [unit.buffers[port.name] for port in self.engine.inputs if not port.on_host]
        return tuple(self._cuda.copy_in(each.device, each.host, stream) for each in moved)

    def _copies_out(self, unit: Unit, stream: object) -> tuple[Call, ...]:
        moved = [unit.buffers[port.name] for port in self.engine.outputs if not port.on_host]
        return tuple(self._cuda.copy_out(each.host, each.device, stream) for each in moved)

    def _lane(self, unit: Unit) -> Lane:
        return Lane(
            enqueue=unit.enqueue(),
            stream=unit.stream,
            copies_in=partial(self._copies_in, unit),
            copies_out=partial(self._copies_out, unit),
            ahead=(self._cuda.flush(unit.stream),) if self._spec.protocol == "coldl2" else (),
        )

    def _run(self, unit: Unit, enqueue: Callable[[], object]) -> None:
        """Run one whole query, outside of any measurement."""
        for copy in self._copies_in(unit, unit.stream):
            copy()
        if enqueue() is False:
            raise self._told("TensorRT could not run the engine")
        for copy in self._copies_out(unit, unit.stream):
            copy()
        self._cuda.synchronize(unit.stream)

    def _outputs(self, unit: Unit) -> dict[str, NDArray[np.generic]]:
        found = {}
        for port in self.engine.outputs:
            buffer = unit.buffers[port.name]
            told = buffer.room.shape if buffer.room is not None else None
            shape = told or tuple(int(dim) for dim in unit.context.get_tensor_shape(port.name))
            found[port.name] = array_from_bytes(buffer.host, port, shape)
        return found

    def _check_outputs(self) -> None:
        """Run on other inputs too: outputs must be finite, differ, and a graph must give the same.

        Inputs are those measured again afterwards.
        """
        check = GraphCheck(
            self._cuda, self._units, inputs=self.engine.inputs, run=self._run, outputs=self._outputs
        )
        wanted = self._spec.cuda_graph != "off"
        never = self._untold_shapes() if wanted else None
        problem = check.carry_out(self._put_fresh, graph=wanted and never is None) or never
        self.evidence |= check.evidence
        self.notes += check.notes
        if problem is not None:
            self._without_graph(problem)
        self.conditions["cuda_graph"] = Fact(value=wanted and problem is None)

    def _untold_shapes(self) -> InputError | None:
        """Say why there can be no graph: its replay tells no shapes, and some change by the data.

        TensorRT 8.6.0 lets such work be captured, and the replay gives other results.
        """
        changing = [name for name, each in self._units[0].buffers.items() if each.room is not None]
        if not changing:
            return None
        return InputError(
            "a CUDA graph cannot tell the shape of an output that depends on its data",
            facts={"outputs": ", ".join(changing)},
        )

    def _put_fresh(self, unit: Unit) -> None:
        """Fill in other inputs: drawn anew, or whole numbers that were given, backwards.

        Those that somebody gave may be the only ones that the engine can bear.
        """
        limits = index_limits(self._spec.model, self.inputs)
        for port in self.engine.inputs:
            if port.on_host or port.packed > 1:
                continue
            buffer = unit.buffers[port.name]
            if self._spec.inputs.source is not None and "float" not in port.dtype:
                buffer.host[:] = backwards(buffer.host, port)
                continue
            tensor = TensorSpec(name=port.name, dtype=port.dtype, shape=buffer.shape)
            try:
                array = random_inputs((tensor,), seed=FRESH_SEED, limits=limits)[port.name]
            except (ValueError, TypeError):  # a type nobody can draw stays as it is
                continue
            buffer.host[:] = bytes_of(array, port, buffer.host.nbytes)

    def _without_graph(self, problem: TrtbenchError) -> None:
        """Go on without a graph, and say so; where one was demanded, that is an error."""
        if self._spec.cuda_graph == "on":
            raise self._graph_error(problem) from None
        self.notes += (f"measured without a CUDA graph: {problem.message}",)
        self.conditions["cuda_graph_fell_back"] = Fact(value=True)

    def _graph_error(self, problem: TrtbenchError) -> InputError:
        told = self.engine.heard.cause()
        facts = {**problem.facts, **({"TensorRT": told} if told else {})}
        return InputError(
            problem.message, facts=facts, fix="--cuda-graph auto, which measures without one"
        )

    def _told(self, message: str) -> TrtbenchError:
        """Make an error with what TensorRT said about it."""
        cause = self.engine.heard.cause()
        return CudaError(message, facts={"reason": cause} if cause else {})

    def _conditions(self) -> dict[str, Fact]:
        spec = self._spec
        overlapping = DEPTH.get(spec.protocol, 1) * spec.streams > 1
        found: dict[str, Scalar] = {
            "transfers": spec.transfers,
            "cuda_graph": False,
            "cuda_graph_fell_back": False,
            "spin_wait": spec.spin_wait,
            "streams": spec.streams,
            "protocol": spec.protocol,
            "overlapping": overlapping,
            "memory": "pinned",
            "profile_index": spec.profile_index,
            "device": self._cuda.facts().name,
        }
        if self.engine.flavour == "tensorrt_rtx":  # when kernels for the shapes are made
            found["specialization"] = spec.options.get("specialization", "eager")
        return {key: Fact(value=value) for key, value in found.items()}
