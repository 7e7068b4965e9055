"""Runs PyTorch models in the worker's process, on a GPU or the CPU.

Layer times come from PyTorch's profiler, in separate queries: rows are modules without children,
and operators outside of such modules. On a GPU the times are those of the kernels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.core import errors
from trtbench.core.run import Fact, Scalar, name_from_types
from trtbench.core.samples import Arrays, LayerProfile
from trtbench.core.spec import ON_DEVICE, RunSpec, TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host.cuda import index_of
from trtbench.models import torch_models
from trtbench.models.inputs import is_not_index
from trtbench.models.torch_models import import_torch
from trtbench.runtimes import _session
from trtbench.runtimes._gpu_query import Lane, Pipeline, SerialQuery, burst_of_queries, is_close
from trtbench.runtimes._loop import SERIAL, bench_session, check_protocol

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload
    from torch.autograd.profiler_util import FunctionEvent
    from torch.cuda import CUDAGraph, Event
    from torch.nn import Module

Call = Callable[[], None]

FORMATS = ("torch",)
CHOSEN_FOR = {"torch": 1}
OPTIONS = {
    "compile": "default, reduce-overhead or max-autotune: torch.compile (default: eager)",
    "half": "on or off: weights and inputs in FP16, without autocast (default: off)",
    "tf32": "on or off (default: on with --precision tf32, else off)",
    "cudnn_benchmark": "on or off: let cuDNN try its algorithms (default: on)",
    "channels_last": "on or off: NHWC memory layout (default: off)",
    "imgsz": "side of a square image (default: as the model was trained)",
    "channels": "channels of that image (default: the model's own, else 3)",
    "waiting": "passive: idle threads of the pool sleep at once (default: the library's own way)",
    "dtypes": "types of the inputs, comma separated (default: float32)",
    "weights": "default, none (random values), or the file of a state dict",
    "seed": "of random weights (default: 0, as with export, so that both are the same model)",
    "factory": "package.module:function that makes the model of a state dict",
    "trust": "on: load a pickle, which may run any code (default: off)",
}
CONDITIONS = tuple(key for key in OPTIONS if key not in ("weights", "factory", "trust"))
TRAVELS = {"weights": "file", "factory": "code"}

MARK, WHOLE = "trtbench:", "trtbench:query"
_COMPILE = ("default", "reduce-overhead", "max-autotune")
_AUTOCAST = {"fp16": "float16", "bf16": "bfloat16"}
_PRECISIONS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "qint8": "int8", "quint8": "int8", "int8": "int8",
}  # fmt: skip
_COMPUTES = re.compile(r"conv|mm|matmul|linear|dot_product|attention|rnn|encoder_layer")
"""Operators that multiply; the types of the others follow from them."""
_PACKED = re.compile(r"_weight_int(4|8)pack|_int_mm|^quantized::")
"""Operators with low-bit kernels, whatever the types of their arguments."""


def available() -> str | None:
    return None if util.find_spec("torch") else "the package torch is not installed"


def fix() -> str | None:
    return torch_models.INSTALL


def device(spec: RunSpec) -> str:
    """Return the requested device, or the first GPU; a session without a GPU takes the CPU."""
    return spec.device or "cuda:0"


def load_library() -> None:
    import_torch()


def model_parts(model: str, options: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of weights and code, and the options, that define a module."""
    weights, factory = options.get("weights", "default"), options.get("factory")
    files = tuple(map(str, torch_models.factory_code(factory or "")[1]))
    made_with: tuple[str, ...] = (f"factory={factory}",) if factory else ()
    made_with += (f"code={code}",) if (code := torch_models.hub_code_sha256(model)) else ()
    if weights == "none" and torch_models.is_library_model(model):
        made_with += ("weights=none", f"seed={_number(options, 'seed', 0)}")
    return files if weights in ("default", "none") else (weights, *files), made_with


def bursts(spec: RunSpec) -> bool:
    """Return whether bursts time the GPU: without a graph they would time Python's enqueueing."""
    return device(spec) != "cpu" and spec.cuda_graph != "off"


def turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> _session.TurnSpec:
    """Return how a side is opened so that its idle threads do not disturb the other side.

    In one process all models share PyTorch's pool, and do not disturb each other. In another
    process the pool would keep spinning; OpenMP must be set to sleep before PyTorch is loaded.
    """
    if together or device(spec) != "cpu" or spec.threads == 1 or "waiting" in spec.options:
        return _session.TurnSpec(spec=spec)
    return _session.TurnSpec(spec=spec.having(options={**spec.options, "waiting": "passive"}))


def _needs_gpu(spec: RunSpec) -> bool:
    return spec.protocol in ON_DEVICE or spec.cuda_graph == "on" or not spec.transfers


def check(spec: RunSpec) -> None:
    errors.refuse_unknown_options("runtime torch", spec.options, OPTIONS)
    torch_models.refuse_weights_alone(Path(spec.model.path), spec.options.get("factory"))
    if spec.precision not in (None, "fp32", "tf32", *_AUTOCAST):
        message = f"PyTorch runs in fp32, tf32, fp16 or bf16, not {spec.precision}"
        raise errors.UsageError(message, fix="--precision fp16")
    if spec.protocol not in (*SERIAL, *ON_DEVICE) or spec.streams != 1:
        facts = {"protocol": spec.protocol, "streams": spec.streams}
        fix = f"--protocol {', '.join((*SERIAL, *ON_DEVICE))}"
        raise errors.UsageError("PyTorch is measured one query at a time", facts=facts, fix=fix)
    if device(spec) == "cpu":
        if _needs_gpu(spec):
            raise errors.UsageError(
                "the CPU has no transfers and no CUDA graph",
                fix="--protocol serve"
                if spec.protocol in ON_DEVICE
                else "leave out --cuda-graph and --no-transfers",
            )
        if spec.spin_wait:
            raise errors.UsageError("--spin-wait needs a GPU", fix="leave out --spin-wait")
        if spec.precision == "tf32" or spec.options.get("tf32") == "on":
            raise errors.UsageError("TF32 needs a GPU", fix="leave out tf32, or --precision bf16")
    check_protocol(spec)


@dataclass(frozen=True, kw_only=True)
class TorchSettings:
    compile: str | None
    half: bool
    autocast: str | None
    tf32: bool
    cudnn_benchmark: bool
    channels_last: bool

    @classmethod
    def of(cls, spec: RunSpec) -> TorchSettings:
        check(spec)
        mode = spec.options.get("compile")
        if mode is not None:
            errors.refuse_other_choice("compile", mode, _COMPILE)
        half = _switch(spec, "half")
        if half and spec.precision is not None:
            raise errors.UsageError(
                "--opt half converts the weights to FP16, --precision only casts during inference: "
                "they cannot be combined",
                fix="leave out --precision",
            )
        return cls(
            compile=mode,
            half=half,
            autocast=_AUTOCAST.get(spec.precision or ""),
            tf32=_switch(spec, "tf32", default=spec.precision == "tf32"),
            cudnn_benchmark=_switch(spec, "cudnn_benchmark", default=True),
            channels_last=_switch(spec, "channels_last"),
        )


def _switch(spec: RunSpec, key: str, *, default: bool = False) -> bool:
    value = spec.options.get(key, "on" if default else "off")
    errors.refuse_other_choice(key, value, ("on", "off"))
    return value == "on"


def _number(options: Mapping[str, str], key: str, default: int, *, least: int = 0) -> int:
    value = options.get(key, str(default))
    if not value.isdecimal() or int(value) < least:
        message = f"--opt {key} must be an integer of at least {least}, not {value!r}"
        raise errors.UsageError(message, fix=f"--opt {key}={max(least, default)}")
    return int(value)


def open_session(spec: RunSpec) -> CpuSession | CudaSession:
    settings = TorchSettings.of(spec)
    waiting = spec.options.get("waiting")
    if waiting is not None:
        errors.refuse_other_choice("waiting", waiting, ("passive",))
        os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    torch, wanted = import_torch(), device(spec)
    if wanted != "cpu":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if spec.device is None and not count and not _needs_gpu(spec):
            session = open_session(spec.having(device="cpu"))
            session.notes += ("PyTorch sees no GPU here: it ran on the CPU",)
            return session
        if index_of(wanted) >= count:
            raise errors.UnavailableError(
                f"PyTorch sees no device {wanted} here",
                facts={
                    "devices": ", ".join(f"cuda:{index}" for index in range(count)) or "none",
                    "torch": torch.__version__,
                    "built for CUDA": torch.version.cuda or "no",
                },
                fix="--device cuda:0" if count else "--device cpu",
            )
    torch.manual_seed(_number(spec.options, "seed", 0))
    loaded = torch_models.load_model(
        spec.model.path,
        weights=spec.options.get("weights", "default"),
        trust=_switch(spec, "trust"),
        factory=spec.options.get("factory"),
        folder=str(Path.cwd()),
    )
    inputs = inputs_of(loaded, spec)
    kind = CpuSession if wanted == "cpu" else CudaSession
    try:
        return kind(torch, loaded, spec, settings=settings, inputs=inputs)
    except (RuntimeError, TypeError, ValueError) as problem:  # for example of the model's .half()
        _session.raise_if_out_of_memory(problem)
        message = "PyTorch cannot prepare the model"
        raise errors.InputError(message, facts={"reason": errors.first_line(problem)}) from None


bench = partial(bench_session, open_session)


def inputs_of(loaded: torch_models.LoadedModel, spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Return the inputs with names, types and shapes: as the user gave them, else the model's.

    With ``--opt half``, floating-point inputs are FP16 too.
    """
    about_images = "imgsz" in spec.options or "channels" in spec.options
    if spec.shapes and about_images:
        message = "--opt imgsz and --opt channels cannot be combined with --shape"
        raise errors.UsageError(message, fix="leave out --opt imgsz and --opt channels")
    if spec.shapes:
        known = {tensor.name: tensor for tensor in loaded.inputs}
        tensors = []
        for name, shape in spec.shapes.items():
            own = known.get(name, TensorSpec(name=name, dtype="float32", shape=()))
            fixed = own.shape and not loaded.suggested  # the model accepts no other shape
            tensors.append(own if fixed else own.having(shape=shape))
    elif about_images:
        tensors = [_image(tensor, spec, loaded) for tensor in loaded.inputs]
    else:
        tensors = list(loaded.inputs)
        if any(not each.shape or None in each.shape[1:] for each in tensors):
            names = " ".join(f"--shape {tensor.name}:SIZExSIZE" for tensor in tensors)
            raise errors.UsageError("the shapes of the model's inputs are not known", fix=names)
    half = _switch(spec, "half")
    dtypes = [word for word in spec.options.get("dtypes", "").split(",") if word]
    for index, tensor in enumerate(tensors):
        dtype = dtypes[min(index, len(dtypes) - 1)] if dtypes else tensor.dtype
        tensors[index] = tensor.having(dtype="float16" if half and dtype == "float32" else dtype)
    return tuple(tensors)


def _image(tensor: TensorSpec, spec: RunSpec, loaded: torch_models.LoadedModel) -> TensorSpec:
    """Return an image input with its shape: as requested, else as the model was trained."""
    own = tensor.shape or ("batch", 3, None, None)
    if len(own) != 4:
        message = f"the input {tensor.name!r} is not an image: imgsz and channels do not apply"
        facts = {"shape": text_from_shape(tensor.shape)}
        raise errors.UsageError(message, facts=facts, fix=f"--shape {tensor.name}:...")
    front, channels, *sides = own
    if "channels" in spec.options:
        channels = _number(spec.options, "channels", 3, least=1)
    if "imgsz" in spec.options:
        sides = [_number(spec.options, "imgsz", 0, least=1)] * 2
    elif None in sides:
        raise errors.UsageError("--opt channels needs --opt imgsz too", fix="--opt imgsz=224")
    shape = (front, channels, *sides)
    differs = (isinstance(a, int) and a != b for a, b in zip(tensor.shape, shape, strict=False))
    if not loaded.suggested and any(differs):
        message = f"the model accepts only images of {'x'.join(map(str, own[1:]))}"
        fix = "leave out --opt imgsz and --opt channels"
        raise errors.UsageError(message, facts={"requested": text_from_shape(shape[1:])}, fix=fix)
    return tensor.having(shape=shape)


class TorchSession(_session.Session):
    """The base of sessions on both devices: the module with its settings, and calls of it."""

    def __init__(
        self,
        torch: ModuleType,
        loaded: torch_models.LoadedModel,
        spec: RunSpec,
        *,
        settings: TorchSettings,
        inputs: tuple[TensorSpec, ...],
    ) -> None:
        self._torch, self._spec, self._settings = torch, spec, settings
        self._device = torch.device(device(spec))
        if self._device.type != "cpu":  # what synchronize waits for
            torch.cuda.set_device(self._device)
        torch.set_grad_enabled(False)
        if spec.threads:
            torch.set_num_threads(spec.threads)
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
        torch.backends.cudnn.benchmark = settings.cudnn_benchmark
        module = loaded.module.to(self._device)
        if settings.half:
            module = module.half()
        if settings.channels_last:
            module = module.to(memory_format=torch.channels_last)
        if settings.compile is not None:
            module = torch.compile(module, mode=settings.compile)
        self._module: Module = module
        self._tensors: list[Tensor] = []
        self.inputs = inputs
        free = [t.name for t in inputs if t.dtype.startswith("int") and not is_not_index(t.name)]
        self.index_limits = torch_models.embedding_rows(loaded.module, free)
        self.outputs: tuple[TensorSpec, ...] = ()
        self.notes = loaded.notes
        self.evidence: dict[str, Scalar] = {}
        with suppress(AttributeError, RuntimeError):  # some kinds of models have no such methods
            held = [*loaded.module.parameters(), *loaded.module.buffers()]
            self.evidence = {
                "parameters": sum(int(each.numel()) for each in loaded.module.parameters()),
                "parameter_bytes": int(sum(each.numel() * each.element_size() for each in held)),
                "modules": sum(not list(each.children()) for each in loaded.module.modules()),
            }
        # The precision of the model itself: of its weights, else of its inputs.
        own = precisions_of(types_of_weights(loaded.module) or {each.dtype for each in inputs})
        precision = name_from_types(own) if own else None
        if settings.half:
            precision = "half"
        if settings.autocast is not None:
            precision = spec.precision
        found: dict[str, Scalar] = {
            "protocol": spec.protocol,
            "streams": 1,
            "tf32": settings.tf32,
            "precision": self._full_precision() if precision == "fp32" else precision,
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
        self.conditions = {key: Fact(value=value) for key, value in found.items()}
        # Modes of torch.compile that use their own CUDA graphs.
        if self._device.type == "cuda" and settings.compile in _COMPILE[1:]:
            self.conditions["cuda_graph"] = Fact(value=True, source="implied")

    def _full_precision(self) -> str:
        return "tf32" if self._settings.tf32 else "fp32"

    def _forward(self) -> Callable[[], object]:
        def call() -> object:
            return self._module(*self._tensors)

        if self._settings.autocast is None:
            return call
        dtype = getattr(self._torch, self._settings.autocast)
        kind, autocast = self._device.type, self._torch.autocast

        def forward() -> object:
            with autocast(kind, dtype=dtype):
                return call()

        return forward

    def _tensors_of(self, result: object) -> list[Tensor]:
        return [leaf for leaf in flattened(result) if isinstance(leaf, self._torch.Tensor)]

    def _first_outputs(self, result: object) -> list[Tensor]:
        """Return the tensors of a result, at any depth; sets outputs and counts graph breaks."""
        tensors = self._tensors_of(result)
        if not tensors:
            fix = "wrap it in a module that returns tensors"
            raise errors.InputError("the model returns no tensors", fix=fix)
        self.outputs = tuple(
            TensorSpec(name=f"output{index}", dtype=_dtype(tensor), shape=tuple(tensor.shape))
            for index, tensor in enumerate(tensors)
        )
        if self._settings.compile is not None:
            counters = self._torch._dynamo.utils.counters
            self.evidence["graph_breaks"] = int(sum(counters["graph_break"].values()))
            if not counters["stats"]["unique_graphs"] and "compile" in self.conditions:
                # torch.compile skips some kinds of models, and some settings.
                self.conditions["compile"] = Fact(value="eager")
                if "cuda_graph" in self.conditions:
                    self.conditions["cuda_graph"] = Fact(value=False)
                note = "torch.compile did not compile any part of the model: it ran uncompiled"
                self.notes = (*dict.fromkeys((*self.notes, note)),)
        return tensors

    def _from_numpy(self, array: NDArray[np.generic]) -> Tensor:
        tensor = self._torch.from_numpy(np.array(array))
        if self._settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=self._torch.channels_last)
        return tensor

    def observe(self) -> None:
        """Set the precision by the types of operators that multiply: a model may cast itself.

        Compiled models cannot be observed.
        """
        if self._settings.compile is not None:
            return
        from torch.utils._python_dispatch import TorchDispatchMode

        seen: set[str] = set()
        tensors_of = self._tensors_of

        class TypeObserver(TorchDispatchMode):  # type: ignore[misc]
            """Called with every operator, after autocast."""

            def __torch_dispatch__(
                self,
                func: OpOverload,
                types: object,
                args: tuple[object, ...] = (),
                kwargs: dict[str, object] | None = None,
            ) -> object:
                name = func._schema.name
                if packed := _PACKED.search(name):
                    seen.add(f"int{packed[1] or 8}")
                elif _COMPUTES.search(name):
                    seen.update(precisions_of(map(_dtype, tensors_of(args))))
                return func(*args, **(kwargs or {}))

        try:
            with TypeObserver():
                self._forward()()
        except Exception:  # some modules and operators cannot be observed
            return
        if not seen:
            return
        ran, half = name_from_types(frozenset(seen)), "half" if self._settings.half else "fp16"
        named = {"fp16": half, "fp32": self._full_precision()}
        self.conditions["precision"] = Fact(value=named.get(ran, ran))

    def profile_layers(self) -> LayerProfile:
        """Time modules with PyTorch's profiler."""
        torch, run, on_gpu = self._torch, self._forward(), self._device.type == "cuda"
        kinds, record = torch.profiler.ProfilerActivity, torch.profiler.record_function
        activities = [kinds.CPU, *([kinds.CUDA] if on_gpu else [])]
        for _ in range(_session.WARMUP):
            run()
        marks = _mark_modules(self._module, record)
        with marks, torch.profiler.profile(activities=activities) as profiler:
            for _ in range(_session.LEAST):  # a longer trace would only take more memory
                with record(WHOLE):
                    run()
                if on_gpu:
                    torch.cuda.synchronize()

        def row(event: FunctionEvent) -> _session.Row:
            time_us = event.device_time_total if on_gpu else event.cpu_time_total
            return str(event.name).removeprefix(MARK), float(time_us) * 1e-6

        wholes = sorted((each for each in profiler.events() if each.name == WHOLE), key=_start)
        return _session.profile_from_rows([[*map(row, _parts(whole))] for whole in wholes])


@contextmanager
def _mark_modules(
    module: Module, record: Callable[[str], AbstractContextManager[object]]
) -> Iterator[None]:
    """Mark the calls of modules without children; kinds without hooks are not marked."""
    open_marks: list[AbstractContextManager[object]] = []
    hooks = []

    def begin(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            mark = record(f"{MARK}{name}")
            mark.__enter__()
            open_marks.append(mark)

        return hook

    def end(*_: object) -> None:
        open_marks.pop().__exit__(None, None, None)

    try:
        for name, each in module.named_modules():
            if name and not list(each.children()):
                label = f"{name} ({type(each).__name__})"
                hooks.append(each.register_forward_pre_hook(begin(label)))
                hooks.append(each.register_forward_hook(end))
    except (AttributeError, RuntimeError):
        pass  # exported or compiled programs: only operators are listed
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _parts(whole: FunctionEvent) -> Iterator[FunctionEvent]:
    """Yield marked modules and operators; descends into others (TorchScript's ``forward``)."""
    for each in sorted(whole.cpu_children, key=_start):
        if each.name.startswith(MARK) or "::" in each.name or not each.cpu_children:
            yield each
        else:
            yield from _parts(each)


def _start(event: FunctionEvent) -> float:
    return float(event.time_range.start)


def flattened(result: object) -> list[Tensor]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for value in result for leaf in flattened(value)]
    return [result]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def as_numpy(tensor: Tensor) -> NDArray[np.generic]:
    tensor = tensor.detach().cpu()
    return np.array((tensor.float() if _dtype(tensor) == "bfloat16" else tensor).numpy())


def precisions_of(types: Iterable[str]) -> frozenset[str]:
    """Return the precisions of PyTorch's types, without integers and booleans."""
    return frozenset(_PRECISIONS[each] for each in types if each in _PRECISIONS)


def types_of_weights(module: Module) -> set[str]:
    """Return the types of a module's weights, including constants of a TorchScript graph."""
    try:
        found, parts = {_dtype(each) for each in module.parameters()}, list(module.modules())
    except (AttributeError, RuntimeError):
        return set()
    if any("quantized" in type(each).__module__.split(".") for each in parts):
        found.add("qint8")
    graph = getattr(module, "inlined_graph", None)
    if graph is not None:  # a script: frozen weights are constants of its graph
        if "quantized::" in str(graph):
            found.add("qint8")
        for node in () if found else graph.findAllNodes("prim::Constant"):
            if node.hasAttribute("value") and node.kindOf("value") == "t":
                found.add(_dtype(node.t("value")))
    return found


class CpuSession(TorchSession):
    def bind(self, arrays: Arrays) -> None:
        self._tensors = [self._from_numpy(arrays[tensor.name]) for tensor in self.inputs]

    def first(self) -> None:
        self._first_outputs(self._forward()())

    def step(self) -> Callable[[], object]:
        return self._forward()

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        tensors = self._first_outputs(self._forward()())
        return {o.name: as_numpy(t) for o, t in zip(self.outputs, tensors, strict=True)}


class CudaSession(TorchSession):
    """A module on a GPU, with pinned host buffers for inputs and outputs."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._stream = self._torch.cuda.Stream(self._device)
        self._hosts: list[Tensor] = []
        self._results: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._lane: Lane | None = None
        self._events: Any = _Events(self._torch, spin=self._spec.spin_wait)

    def bind(self, arrays: Arrays) -> None:
        self._hosts = [self._from_numpy(arrays[t.name]).pin_memory() for t in self.inputs]
        self._tensors = [host.to(self._device) for host in self._hosts]
        self._torch.cuda.synchronize()

    def first(self) -> None:
        """Run a whole query, and allocate the host buffers of its outputs."""
        with self._torch.cuda.stream(self._stream):
            self._copy_in()
            self._results = self._first_outputs(self._forward()())
            empty = partial(self._torch.empty, pin_memory=True)
            self._targets = [empty(t.shape, dtype=t.dtype) for t in self._results]
            self._copy_out()
        self._torch.cuda.synchronize()

    def observe(self) -> None:
        with self._torch.cuda.stream(self._stream):
            super().observe()
        self._torch.cuda.synchronize()

    def step(self) -> Callable[[], object]:
        """Return a call that runs a query on its own stream, with the same events as TensorRT's."""
        torch = self._torch
        ahead: tuple[Call, ...] = ()
        torch.cuda.set_stream(self._stream)
        enqueue = self._captured() if self._spec.cuda_graph != "off" else self._eager()
        if self._spec.protocol == "coldl2":
            # Flush the L2 cache by writing twice its size, on the stream in use.
            size = 2 * int(torch.cuda.get_device_properties(self._device).L2_cache_size)
            ahead = (torch.empty(size, dtype=torch.uint8, device=self._device).zero_,)
        self._lane = Lane(
            enqueue=enqueue,
            stream=self._stream,
            copies_in=lambda stream: (self._copy_in,),
            copies_out=lambda stream: (self._copy_out,),
            ahead=ahead,
        )
        if self._spec.protocol in ON_DEVICE:
            self.spans = Pipeline(self._events, [self._lane], transfers=False)
        else:
            self.spans = SerialQuery(self._events, self._lane, transfers=self._spec.transfers)
        return self.spans.step

    def burst(self, *, size: int, lead: int) -> _session.Burst | None:
        if self._lane is None:
            return None
        return burst_of_queries(self._events, self._lane, size=size, lead=lead)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        self.first()
        return {o.name: as_numpy(t) for o, t in zip(self.outputs, self._targets, strict=True)}

    def _copy_in(self) -> None:
        for tensor, host in zip(self._tensors, self._hosts, strict=True):
            tensor.copy_(host, non_blocking=True)

    def _copy_out(self) -> None:
        for target, result in zip(self._targets, self._results, strict=True):
            target.copy_(result, non_blocking=True)

    def _eager(self) -> Callable[[], object]:
        forward, tensor_type, tensors_of = self._forward(), self._torch.Tensor, self._tensors_of
        compiled = self._settings.compile is not None
        begin = self._torch.compiler.cudagraph_mark_step_begin if compiled else None

        def enqueue() -> object:
            if begin is not None:  # compiled graphs may then write to the same outputs again
                self._results = []
                begin()
            result = forward()
            self._results = [result] if isinstance(result, tensor_type) else tensors_of(result)
            return True

        return enqueue

    def _captured(self) -> Callable[[], object]:
        """Return a call that replays a CUDA graph; if capturing fails, one without a graph.

        The failure is noted, or raised if a graph was requested. The graph has fixed outputs.
        """
        torch, forward = self._torch, self._forward()
        graph = torch.cuda.CUDAGraph()
        facts: dict[str, str] = {}
        try:
            # Calls before a capture, to complete lazy initialisation and autotuning.
            for _ in range(3):
                forward()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=self._stream):
                result = forward()
        except RuntimeError as refusal:
            problem = "the work cannot be captured in a CUDA graph"
            facts = {"reason": errors.first_line(refusal)}
        else:
            self._results = self._tensors_of(result)
            if not self._replay_differs(graph, forward):
                self.conditions["cuda_graph"] = Fact(value=True)
                return graph.replay  # type: ignore[no-any-return]
            self.evidence["graph_outputs_differ"] = True
            problem = "the CUDA graph gives different results from the model without it"
        if self._spec.cuda_graph == "on":
            fix = "to measure without a graph: --cuda-graph auto"
            raise errors.InputError(problem, facts=facts, fix=fix)
        note = f"measured without a CUDA graph: {facts.get('reason', problem)}"
        self.notes = (*self.notes, note)
        self.conditions["cuda_graph_fell_back"] = Fact(value=True)
        return self._eager()

    def _replay_differs(self, graph: CUDAGraph, forward: Callable[[], object]) -> bool:
        """Return whether a replay on new inputs gives other outputs than a plain call."""
        torch = self._torch
        fresh = [each for each in self._tensors if each.is_floating_point()]
        kept = [each.clone() for each in fresh]
        for each in fresh:
            each.copy_(torch.rand_like(each))
        expected = [as_numpy(each) for each in self._tensors_of(forward())]
        graph.replay()
        torch.cuda.synchronize()
        found = [as_numpy(each) for each in self._results]
        differs = not all(map(is_close, expected, found))
        for each, before in zip(fresh, kept, strict=True):
            each.copy_(before)
        torch.cuda.synchronize()
        return differs


class _Events:
    """PyTorch's events, with the methods of ``Cuda`` that queries use."""

    def __init__(self, torch: ModuleType, *, spin: bool) -> None:
        self._torch, self._spin = torch, spin

    def event(self) -> Event:
        return self._torch.cuda.Event(enable_timing=True, blocking=not self._spin)

    def record(self, event: Event, stream: object) -> Call:
        return lambda: event.record(stream)

    def wait(self, event: Event) -> Call:
        return event.synchronize  # type: ignore[no-any-return]

    def span(self, begin: Event, end: Event) -> Callable[[], float]:
        return lambda: float(begin.elapsed_time(end)) * 1e-3
