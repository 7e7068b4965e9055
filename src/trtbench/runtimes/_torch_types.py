"""Which types a PyTorch module computes in: seen while it runs, else told by its weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload
    from torch.nn import Module

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
