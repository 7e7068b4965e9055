"""What the runtimes ``tensorrt`` and ``tensorrt-rtx`` share: their options, a session, layer times.

The session uses the part of TensorRT's API that 8.6 to 11 and TensorRT-RTX have in common. Before
it is timed, its outputs are checked, and those of its CUDA graph are compared with a plain run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import util
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import (
    InputError,
    ParseError,
    TrtbenchError,
    UnavailableError,
    UsageError,
    refuse_other_choice,
    refuse_unknown_options,
)
from trtbench.core.run import Fact, Scalar
from trtbench.core.samples import Arrays, LayerProfile
from trtbench.core.spec import RunSpec, TensorSpec
from trtbench.host.cuda import (
    Call,
    CaptureError,
    Cuda,
    CudaError,
    cuda_problem,
    index_of,
    open_cuda,
    runtime_module,
    schedule_flags,
)
from trtbench.host.early_context import variables
from trtbench.host.tensorrt import (
    INSTALL,
    TITLES,
    Flavour,
    activation_bytes,
    load,
    make_output_room,
)
from trtbench.layers.join import denied_by, types_of_layers
from trtbench.models.identity import index_limits, precision_of_engine
from trtbench.models.inputs import random_inputs
from trtbench.runtimes._gpu_query import Lane, MemoryMeter, Pipeline, SerialQuery, burst_of_queries
from trtbench.runtimes._loop import check_protocol
from trtbench.runtimes._session import (
    ENOUGH_S,
    LEAST,
    MOST,
    WARMUP,
    Burst,
    Row,
    Session,
    Spans,
    profile_from_rows,
)
from trtbench.runtimes._trt_engine import (
    Buffer,
    Engine,
    Port,
    Unit,
    array_from_bytes,
    backwards,
    bytes_of,
    check_range,
    ints,
    judged,
    load_engine,
    new_context,
    same,
    with_shapes_of,
)
from trtbench.trtexec.exports import graph_from_json

if TYPE_CHECKING:
    from tensorrt import IRuntimeConfig

Outputs = dict[str, NDArray[np.generic]]

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
        self.evidence: dict[str, Scalar] = {"activation_bytes": activation_bytes(engine.engine)}
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
        if engine.flavour == "tensorrt_rtx":  # when kernels for the shapes are made
            found["specialization"] = spec.options.get("specialization", "eager")
        self.conditions = {key: Fact(value=value) for key, value in found.items()}
        self.spans: Spans | None = None
        self._marks: tuple[Call, Call, Callable[[], float]] | None = None

    def bind(self, arrays: Arrays) -> None:
        """Take inputs: set shapes, place buffers, and copy the inputs once."""
        for unit in self._units:
            self._bind(unit, arrays)
        buffers = self._units[0].buffers
        self.outputs = tuple(
            TensorSpec(name=port.name, dtype=port.dtype, shape=buffers[port.name].shape)
            for port in self.engine.outputs
        )
        if "io_bytes" not in self.evidence:
            self._compare_precision()
        self.evidence["io_bytes"] = sum(each.host.nbytes for each in buffers.values())
        self._memory.mark("memory_buffers_bytes", parts=len(self._units))

    def _compare_precision(self) -> None:
        """Compare the precision in the record beside an engine with the types of its layers.

        Nothing is known where there is no record, and where the inspector reports no types, which
        depends on how the engine was built.
        """
        label = precision_of_engine(self._spec.model)
        if label is None:
            return
        try:
            types = types_of_layers(graph_from_json(self.describe(), where="the inspector"))
        except ParseError:
            return
        ran = denied_by(label, types)
        if ran is not None:
            self.conditions["precision"] = Fact(value=ran, source="implied")
            self.evidence["claimed_precision"] = label
        elif types:
            self.conditions["precision"] = Fact(value=label)

    def first(self) -> None:
        """Run the first query of every context, without a graph."""
        for unit in self._units:
            self._run(unit, unit.plain())

    def step(self) -> Callable[[], object]:
        """Make the queries of the protocol; a graph is captured and checked now."""
        self._check_outputs()
        self._memory.mark("memory_modules_bytes")
        self.evidence |= self._memory.facts
        transfers = self._spec.transfers
        lanes = [self._lane(unit) for unit in self._units]
        depth = DEPTH.get(self._spec.protocol, 1)
        query: SerialQuery | Pipeline
        if depth * len(lanes) == 1:
            query = SerialQuery(self._cuda, lanes[0], transfers=transfers)
        else:
            query = Pipeline(self._cuda, lanes, transfers=transfers, depth=depth)
        self.spans = query
        return query.step

    def burst(self, *, size: int, lead: int) -> Burst:
        """Make queries back to back on the inputs that are there, without copies."""
        lane = self._lane(self._units[0])
        return burst_of_queries(self._cuda, lane, size=size, lead=lead)

    def fetch(self) -> Outputs:
        """Run once and give the outputs by name."""
        unit = self._units[0]
        self._run(unit, unit.enqueue())
        return self._outputs(unit)

    def fetch_with_span(self) -> tuple[Outputs, float]:
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
        """Time single layers with TensorRT's profiler; beside them the median GPU time."""
        if self.spans is not None:
            self.spans.drain()
        trt, cuda, unit = self.engine.trt, self._cuda, self._units[0]
        heard: list[Row] = []

        class Profiler(trt.IProfiler):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                trt.IProfiler.__init__(self)

            def report_layer_time(self, layer_name: str, ms: float) -> None:
                heard.append((layer_name, ms * 1e-3))

        context = unit.context
        context.profiler = Profiler()
        context.enqueue_emits_profile = False
        begin, end = cuda.event(), cuda.event()
        mark, stop = cuda.record(begin, unit.stream), cuda.record(end, unit.stream)
        wait, span, run = cuda.wait(end), cuda.span(begin, end), unit.plain()
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

    def describe(self) -> str:
        """Return what the inspector reports about every layer, as trtexec exports it."""
        inspector = self.engine.engine.create_engine_inspector()
        inspector.execution_context = self._units[0].context
        return str(inspector.get_engine_information(self.engine.trt.LayerInformationFormat.JSON))

    def close(self) -> None:
        """Free contexts first, then what they used."""
        if self.spans is not None:
            with suppress(TrtbenchError):  # the failure that led here is the one to report
                self.spans.drain()
        self.spans = None
        self._units.clear()
        self._cuda.close()

    def _unit(self, config: IRuntimeConfig | None) -> Unit:
        stream = self._cuda.stream()
        handle = int(stream)
        context = new_context(self.engine, self._cuda, config=config)
        profile = self.engine.profile
        taken = InputError(
            "the engine lets only one context use its optimization profile, and each of the "
            f"{self._spec.streams} streams needs one",
            facts={"profile": profile},
            fix="--streams 1; or build the engine with trtbench, which lets profiles be shared",
        )
        if profile and context.set_optimization_profile_async(profile, handle) is False:
            said = f"the optimization profile {profile} cannot be used"
            raise taken if self._units else self._failure(said)
        moves = any(port.moves for port in self.engine.inputs)
        if context.active_optimization_profile < 0 and moves:
            raise taken
        self._cuda.synchronize(stream)
        return Unit(context=context, stream=stream, handle=handle)

    def _bind(self, unit: Unit, arrays: Arrays) -> None:
        engine = self.engine
        for port in engine.inputs:
            shape = tuple(arrays[port.name].shape)
            check_range(port, shape, profile=engine.profile)
            if port.moves and unit.context.set_input_shape(port.name, shape) is False:
                raise self._failure(f"TensorRT refuses the shape of {port.name!r}")
        for port in engine.inputs:
            self._place(unit, port)
        for port in engine.inputs:
            host = unit.buffers[port.name].host
            host[:] = bytes_of(arrays[port.name], port, host.nbytes)
        missing = unit.context.infer_shapes()
        if missing:
            raise self._failure(f"TensorRT does not know the shapes of {', '.join(missing)}")
        for copy in self._copies_in(unit, unit.stream):
            copy()
        self._cuda.synchronize(unit.stream)
        for port in engine.outputs:
            self._place(unit, port)

    def _place(self, unit: Unit, port: Port) -> None:
        """Allocate the memory of a tensor; what was allocated for a larger one is used again."""
        shape = ints(unit.context.get_tensor_shape(port.name))
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
        if unit.context.set_tensor_address(port.name, known.address) is False:  # or None
            raise self._failure(f"TensorRT refuses the address of {port.name!r}")
        if known.room is None and not port.is_input and min(shape, default=0) < 0:
            trt, size = self.engine.trt, known.host.nbytes
            known.room = make_output_room(trt, address=known.address, size_bytes=size)
            if unit.context.set_output_allocator(port.name, known.room) is False:
                raise self._failure(f"TensorRT refuses the place of {port.name!r}")

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
            raise self._failure("TensorRT could not run the engine")
        for copy in self._copies_out(unit, unit.stream):
            copy()
        self._cuda.synchronize(unit.stream)

    def _outputs(self, unit: Unit) -> Outputs:
        found = {}
        for port in self.engine.outputs:
            buffer = unit.buffers[port.name]
            shape = buffer.room.shape if buffer.room is not None else None
            shape = shape or ints(unit.context.get_tensor_shape(port.name))
            found[port.name] = array_from_bytes(buffer.host, port, shape)
        return found

    def _check_outputs(self) -> None:
        """Run on other inputs too: outputs must be finite and differ, and a graph must agree.

        Afterwards the inputs are those measured again. An output whose shape depends on its data
        allows no graph: a replay reports no shapes, and TensorRT 8.6.0 lets such work be captured
        and then replays other results.
        """
        wanted, first = self._spec.cuda_graph != "off", self._units[0]
        changing = [name for name, each in first.buffers.items() if each.room is not None]
        measured = {name: each.host.copy() for name, each in first.buffers.items()}
        before = self._run_emptied(first, first.plain())
        for unit in self._units:
            self._put_fresh(unit)
        after = self._run_emptied(first, first.plain())
        names = [port.name for port in self.engine.inputs]
        changed = any((first.buffers[name].host != measured[name]).any() for name in names)
        self.evidence |= judged(before, after, changed=changed)
        problem: TrtbenchError | None = None
        if wanted and not changing:
            try:
                for unit in self._units:
                    unit.launch = self._cuda.capture(unit.stream, unit.plain())
                problem = self._difference(self._units[:1], after)
            except CaptureError as refusal:
                problem = refusal
        for unit in self._units:
            for name in names:
                unit.buffers[name].host[:] = measured[name]
        # On inputs that came after the capture: a graph may keep those it was made with.
        if wanted and not changing and problem is None:
            problem = self._difference(self._units, before)
        for unit in self._units:
            unit.launch = None if problem is not None else unit.launch
            self._run(unit, unit.enqueue())
        if wanted and changing:
            problem = InputError(
                "a CUDA graph does not report the shape of an output that depends on its data",
                facts={"outputs": ", ".join(changing)},
            )
        if problem is not None and self._spec.cuda_graph == "on":
            cause = self.engine.heard.cause()
            facts = {**problem.facts, **({"TensorRT": cause} if cause else {})}
            fix = "--cuda-graph auto, which measures without one"
            raise InputError(problem.message, facts=facts, fix=fix)
        if problem is not None:
            self.notes += (f"measured without a CUDA graph: {problem.message}",)
            self.conditions["cuda_graph_fell_back"] = Fact(value=True)
        self.conditions["cuda_graph"] = Fact(value=wanted and problem is None)

    def _difference(self, units: Sequence[Unit], expected: Outputs) -> InputError | None:
        """Replay graphs on the inputs that are there, and compare their outputs with a plain run's.

        Outputs count that differ by the graph alone; some engines never give the same twice.
        """
        wrong: set[str] = set()
        for unit in units:
            found = self._run_emptied(unit, unit.enqueue())
            differ = {name for name in expected if not same(expected[name], found[name])}
            again = self._run_emptied(unit, unit.plain()) if differ else {}
            unsteady = [name for name in again if name in differ]
            unsteady = [name for name in unsteady if not same(expected[name], again[name])]
            if unsteady and "outputs_repeat" not in self.evidence:
                self.evidence["outputs_repeat"] = False
                self.notes += (
                    f"{', '.join(unsteady)} came out otherwise in a second plain run on the same "
                    "inputs: whether the CUDA graph gives the same cannot be checked",
                )
            wrong |= differ.difference(unsteady)
        if not wrong:
            return None
        self.evidence["graph_outputs_differ"] = True
        return InputError(
            "the CUDA graph gives other results than the engine itself",
            facts={"outputs": ", ".join(sorted(wrong))},
            fix="--cuda-graph off",
        )

    def _run_emptied(self, unit: Unit, enqueue: Callable[[], object]) -> Outputs:
        """Run with outputs emptied before: what a run leaves unwritten is then alike."""
        for buffer in unit.buffers.values():
            if not buffer.port.is_input and not buffer.port.on_host:
                self._cuda.clear(buffer.device, buffer.host.nbytes, unit.stream)
        self._run(unit, enqueue)
        return self._outputs(unit)

    def _put_fresh(self, unit: Unit) -> None:
        """Fill in other inputs: drawn anew, or integers that were given, backwards.

        Given integers may be the only ones that the engine can bear.
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
            except (ValueError, TypeError):  # a type that cannot be drawn stays as it is
                continue
            buffer.host[:] = bytes_of(array, port, buffer.host.nbytes)

    def _failure(self, message: str) -> TrtbenchError:
        """Make an error with what TensorRT said about it."""
        cause = self.engine.heard.cause()
        return CudaError(message, facts={"reason": cause} if cause else {})


OPTIONS = {
    "plugins": "plugin libraries, comma separated",
    "verbose": "on or off: everything TensorRT has to say in the log (default: off)",
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
    return "install an NVIDIA driver, and pip install 'cuda-bindings==12.9.*'"


def device(spec: RunSpec) -> str:
    return spec.device or "cuda:0"


def bursts(spec: RunSpec) -> bool:
    return True


def early_context(spec: RunSpec) -> dict[str, str]:
    """Have CUDA's context made while the worker imports."""
    return variables(index_of(device(spec)), schedule_flags(spin=spec.spin_wait))


def load_library(flavour: Flavour) -> None:
    """Import TensorRT and the bindings of CUDA, and touch no device."""
    runtime_module()
    load(flavour)


def open_session(spec: RunSpec, *, flavour: Flavour) -> TrtSession:
    """Load an engine with the options of a run; CUDA is asked first, TensorRT may crash without."""
    check(spec, flavour=flavour)

    # Loading the library takes as long as making CUDA's context, and the two do not meet.
    def import_it() -> None:
        with suppress(Exception):  # loading the engine will meet it again, and put it in words
            load(flavour)

    meanwhile = Thread(target=import_it, daemon=True)
    meanwhile.start()
    try:
        cuda = open_cuda(spec.device, spin=spec.spin_wait)
    except UnavailableError:
        if util.find_spec(flavour) is None:  # what to install first comes first
            raise UnavailableError(
                f"{TITLES[flavour]} is not installed here", fix=INSTALL[flavour]
            ) from None
        raise
    meanwhile.join()
    try:
        memory = MemoryMeter(cuda)
        engine = load_engine(spec, cuda, flavour=flavour)
        memory.mark("memory_engine_bytes")
        return TrtSession(engine, cuda, spec, memory=memory, config=_config(engine, spec))
    except BaseException:
        cuda.close()
        raise


def check(spec: RunSpec, *, flavour: Flavour) -> None:
    """Refuse what TensorRT cannot do."""
    known = {**OPTIONS, **(RTX_OPTIONS if flavour == "tensorrt_rtx" else {})}
    refuse_unknown_options(f"runtime {spec.runtime}", spec.options, known)
    if spec.threads is not None:
        raise UsageError(
            f"{TITLES[flavour]} has no threads to set", fix="leave --threads out; --streams N"
        )
    check_protocol(spec)


def _config(engine: Engine, spec: RunSpec) -> IRuntimeConfig | None:
    """Have TensorRT-RTX make kernels for the shapes in use before it runs."""
    if engine.flavour != "tensorrt_rtx":
        return None
    strategies = getattr(engine.trt, "DynamicShapesKernelSpecializationStrategy", None)
    config = engine.engine.create_runtime_config()
    wanted = spec.options.get("specialization", "eager")
    refuse_other_choice("specialization", wanted, ("eager", "lazy", "none"))
    if strategies is not None and hasattr(config, _STRATEGY):
        setattr(config, _STRATEGY, getattr(strategies, wanted.upper()))
    return config
