"""PyTorch modules as sessions on the CPU, and what those on a GPU share with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.inputs import has_meaning
from trtbench.domain.arrays import Arrays
from trtbench.domain.labels import name_of
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import RunSpec, TensorSpec
from trtbench.errors import InputError
from trtbench.models.torch_models import LoadedModel, rows_of_tables
from trtbench.runtimes._session import Session
from trtbench.runtimes._torch_layers import profile_modules

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload
    from torch.nn import Module


Call = Callable[[], None]
MODES_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that launch CUDA graphs of their own."""


@dataclass(frozen=True, kw_only=True)
class TorchSettings:
    """How a module is executed."""

    compile: str | None
    half: bool
    autocast: str | None
    tf32: bool
    cudnn_benchmark: bool
    channels_last: bool


class TorchSession(Session):
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
        free = [t.name for t in inputs if t.dtype.startswith("int") and not has_meaning(t.name)]
        self.index_limits = rows_of_tables(loaded.module, free)
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
        """Make one forward pass, as a caller writes it."""
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
            raise InputError(
                "the model gives no tensors", fix="wrap it in a module that returns tensors"
            )
        self.outputs = tuple(
            TensorSpec(
                name=f"output{index}",
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
            )
            for index, tensor in enumerate(tensors)
        )
        if self._settings.compile is not None:
            counters = self._torch._dynamo.utils.counters
            self.evidence["graph_breaks"] = int(sum(counters["graph_break"].values()))
            if not counters["stats"]["unique_graphs"] and "compile" in self.conditions:
                self._not_compiled()
        return tensors

    def _not_compiled(self) -> None:
        """Say that the model ran as it is: some kinds, and some settings, are left alone."""
        self.conditions["compile"] = Fact(value="eager")
        if "cuda_graph" in self.conditions:
            self.conditions["cuda_graph"] = Fact(value=False)
        note = "torch.compile compiled nothing of the model: it ran as it is"
        self.notes = (*dict.fromkeys((*self.notes, note)),)

    def _from_numpy(self, array: NDArray[np.generic]) -> Tensor:
        tensor = self._torch.from_numpy(np.array(array))
        if self._settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=self._torch.channels_last)
        return tensor

    def _conditions(self, loaded: LoadedModel) -> dict[str, Fact]:
        settings, spec = self._settings, self._spec
        cast = spec.precision if settings.autocast is not None else None
        precision = cast or ("half" if settings.half else None) or self._own_precision(loaded)
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
        facts = {key: Fact(value=value) for key, value in found.items()}
        if self._device.type == "cuda" and settings.compile in MODES_WITH_GRAPHS:
            facts["cuda_graph"] = Fact(value=True, source="implied")
        return facts

    def _own_precision(self, loaded: LoadedModel) -> str | None:
        """Name the types a model computes in by itself: of its weights, else of its inputs."""
        types = types_of_weights(loaded.module) or {each.dtype for each in self.inputs}
        known = precisions_of(types)
        return name_of(known) if known else None

    def look(self) -> None:
        """Name the types that a query was seen to compute in: a model may cast by itself.

        What is compiled cannot be looked into.
        """
        seen = types_seen(self._torch, self._forward()) if self._settings.compile is None else None
        if not seen:
            return
        ran, half = name_of(seen), "half" if self._settings.half else "fp16"
        named = {"fp16": half, "fp32": self._full_precision()}
        self.conditions["precision"] = Fact(value=named.get(ran, ran))

    def _full_precision(self) -> str:
        return "tf32" if self._settings.tf32 else "fp32"


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


class CpuSession(TorchSession):
    """A module on the CPU."""

    free_shapes = True

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


_PRECISIONS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "qint8": "int8", "quint8": "int8", "int8": "int8",
}  # fmt: skip
_COMPUTES = re.compile(r"conv|mm|matmul|linear|dot_product|attention|rnn|encoder_layer")
"""Operators that multiply: what is between them goes along."""
_PACKED = re.compile(r"_weight_int(4|8)pack|_int_mm|^quantized::")
"""Operators with kernels for few bits, whatever the types of their arguments."""


def precisions_of(types: Iterable[str]) -> frozenset[str]:
    """Name PyTorch's types as precisions; whole numbers and truths are none."""
    return frozenset(_PRECISIONS[each] for each in types if each in _PRECISIONS)


def types_seen(torch: ModuleType, call: Callable[[], object]) -> frozenset[str]:
    """Run a query and name the precisions that operators multiply in; empty where none is seen."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: set[str] = set()

    class Look(TorchDispatchMode):  # type: ignore[misc]
        """Hears of every operator, after autocast has had its way."""

        def __torch_dispatch__(
            self,
            func: OpOverload,
            types: object,
            args: tuple[object, ...] = (),
            kwargs: dict[str, object] | None = None,
        ) -> object:
            seen.update(_types_of_call(torch, func._schema.name, args))
            return func(*args, **(kwargs or {}))

    try:
        with Look():
            call()
    except Exception:  # some modules and operators cannot be looked into: their weights tell
        return frozenset()
    return frozenset(seen)


def _types_of_call(torch: ModuleType, name: str, arguments: Iterable[object]) -> frozenset[str]:
    packed = _PACKED.search(name)
    if packed is not None:
        return frozenset({f"int{packed[1] or 8}"})
    if not _COMPUTES.search(name):
        return frozenset()
    return precisions_of(
        str(each.dtype).removeprefix("torch.") for each in _leaves(torch, arguments)
    )


def _leaves(torch: ModuleType, arguments: Iterable[object]) -> Iterator[Tensor]:
    for each in arguments:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from _leaves(torch, each)


def types_of_weights(module: Module) -> set[str]:
    """Name the types that the weights of a module have, those that a script keeps inside too."""
    try:
        found, parts = {str(each.dtype) for each in module.parameters()}, list(module.modules())
    except (AttributeError, RuntimeError):
        return set()
    for each in parts:
        if "quantized" in type(each).__module__.split("."):
            found.add("torch.qint8")
    graph = getattr(module, "inlined_graph", None)
    if graph is not None:  # a script: frozen weights are constants of its graph
        if "quantized::" in str(graph):
            found.add("torch.qint8")
        for node in () if found else graph.findAllNodes("prim::Constant"):
            if node.hasAttribute("value") and node.kindOf("value") == "t":
                found.add(str(node.t("value").dtype))
    return {name.removeprefix("torch.") for name in found}
