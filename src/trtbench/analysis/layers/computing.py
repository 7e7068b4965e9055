"""What a layer does and in which type it computes, from whatever tells it.

The name of the kernel knows best: ``..._i8f32_i8i32_f32_...`` multiplies INT8 and writes FP32.
Then the type of the weights, then the tensors at its edges.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from trtbench.analysis.layers.layer import QUANTIZED, Basis, Role
from trtbench.analysis.layers.naming import is_reformat
from trtbench.domain.labels import name_of, types_of
from trtbench.domain.samples import EngineGraph, LayerInfo, TensorInfo

_OPERANDS = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "tf32": "tf32", "f64": "fp64",
    "i8": "int8", "u8": "uint8", "int8": "int8", "i4": "int4",
    "e4m3": "fp8", "e5m2": "fp8", "e2m1": "fp4",
}  # fmt: skip
_ONE = "bf16|tf32|f16|f32|f64|int8|i8|u8|i4|e4m3|e5m2|e2m1"
_XMMA = re.compile(rf"_({_ONE})({_ONE}|i32)_({_ONE})(f16|f32|i32|bf16)?(?=_)")
"""``_<input><output>_<operand><accumulator>_``; without an accumulator the operand is the input."""
_DENSE = re.compile(rf"_({_ONE})({_ONE})(?=_)")
_WORDS = (
    (re.compile(r"imma|icudnn|int8x4|_i8816|_i16832|i\d+cudnn|int8_"), "int8"),
    (re.compile(r"e4m3|fp8|qgmma"), "fp8"),
    (re.compile(r"e2m1|nvfp4|fp4"), "fp4"),
    (re.compile(r"tf32|s1688tf32"), "tf32"),
    (re.compile(r"bf16|bfloat16"), "bf16"),
    (re.compile(r"hmma|h884|h1688|h16816|f16f16|fp16|half|FP16"), "fp16"),
    (re.compile(r"scudnn|sgemm|ffma|fp32|FP32"), "fp32"),
)
"""Marks in kernels of cuDNN, cuBLAS, CUTLASS and pooling, in the order in which they decide."""
_WEIGHTS = {
    "half": "fp16", "float": "fp32", "int8": "int8", "bfloat16": "bf16", "bf16": "bf16",
    "fp8": "fp8", "int4": "int4", "fp4": "fp4",
}  # fmt: skip
"""How the inspector words the type of weights."""
_NUMBER = re.compile(r"^(?:0x[0-9a-fA-F]+|-?\d+)$")

_ROLES: dict[str, Role] = {
    "constant": "constant", "noop": "nothing", "shape_call": "nothing", "shape": "nothing",
    "memcpy": "copy",
}  # fmt: skip
_REFORMATS = ("reformat", "myelinreformat", "cast", "quantize", "dequantize")
_NVM = re.compile(r"(?:^| )(?:to|from) nvm$")
_HIDES = re.compile(r"ForeignNode|myelin$|plugin", re.IGNORECASE)
"""Layers that are many, or a program of their own."""
_COMPUTED = re.compile(r"fp|bf|int8|tf")
_GENERATED = re.compile(r"^(?:__myl_|_gemm_|__mye)")


_NAMED_KIND = re.compile(r"\((\w+)\)$|^(?:aten|prim|onnx)::(\w+)$")
"""How the profilers of ONNX Runtime and PyTorch name nodes, modules and operators."""


def named_kind(name: str) -> tuple[str, str] | None:
    """Split a name that tells its kind, as profilers write it: ``/conv1/Conv (Conv)``."""
    named = _NAMED_KIND.search(name)
    if named is None:
        return None
    return name[: named.start()].rstrip(), named[1] or named[2]


def kind_of(info: LayerInfo | None, name: str = "") -> str | None:
    """Name what a layer is: in the inspector's words, or as its name tells."""
    if info is None:
        named = named_kind(name)
        return named[1] if named else None
    parameter = info.extra.get("ParameterType")
    return str(parameter or info.type) if parameter or info.type else None


def role_of(name: str, info: LayerInfo | None) -> Role:
    """Tell what a layer is there for; a name alone tells reformats and DLA's copies."""
    if _NVM.search(name):
        return "copy"
    kind = (info.type or "").lower() if info else ""
    if kind in _ROLES:
        return _ROLES[kind]
    if kind in _REFORMATS or (not kind and is_reformat(name)):
        return _conversion(info)
    return "compute"


def _conversion(info: LayerInfo | None) -> Role:
    origin = str(info.extra.get("Origin", "")) if info else ""
    taken, given = edge_types(info)
    if taken and given and taken != given:
        return "quantize" if taken in QUANTIZED or given in QUANTIZED else "cast"
    return "quantize" if origin == "QDQ" else "cast" if origin == "CAST" else "reformat"


def edge_types(info: LayerInfo | None) -> tuple[str | None, str | None]:
    """Tell the types a layer takes and gives, by its first typed tensors."""
    if info is None:
        return None, None
    taken = next((each.dtype for each in info.inputs if each.dtype), None)
    given = next((each.dtype for each in info.outputs if each.dtype), None)
    return taken, given


def computing_type(info: LayerInfo | None, role: Role) -> tuple[str | None, Basis | None]:
    """Tell the type that a layer computes in, and what tells it; nothing computes, no type."""
    if info is None or role != "compute":
        return None, None
    found = type_from_tactic(info.tactic)
    if found is not None:
        return found, "tactic"
    weights = _weights_type(info)
    if weights is not None:
        return weights, "weights"
    taken = _floating(info.inputs)
    if taken is not None:
        return taken, "inputs"
    given = _floating(info.outputs)
    return (given, "outputs") if given is not None else (None, None)


def layer_types(graph: EngineGraph, *, seen_inside: bool = False) -> Counter[str]:
    """Count layers by the type that computes; what only makes tensors fit does not count.

    ``seen_inside`` leaves out what hides other layers: its edges tell nothing of these.
    """
    found: Counter[str] = Counter()
    for layer in graph.layers:
        precision, basis = computing_type(layer, role_of(layer.name, layer))
        edges = seen_inside and basis in ("inputs", "outputs")
        hidden = edges and _HIDES.search(layer.type or layer.name)
        if precision and _COMPUTED.match(precision) and not hidden:
            found[precision] += 1
    return found


def types_of_layers(graph: EngineGraph | None) -> frozenset[str]:
    """Tell the types that layers were seen to compute in; empty where none tells."""
    return frozenset(layer_types(graph, seen_inside=True)) if graph is not None else frozenset()


def denied_by(label: str | None, ran: frozenset[str]) -> str | None:
    """Name what computes, where none of it is of the label; ``None`` where nobody contradicts."""
    wanted = types_of(label)
    if not wanted or "best" in wanted:
        return None
    full = {"fp32", "tf32"}
    agreed = (wanted | full if wanted & full else wanted) & ran
    return name_of(ran) if ran and not agreed else None


@lru_cache(maxsize=4096)
def type_from_tactic(tactic: str | None) -> str | None:
    """Read the operands' type from a kernel's name; ``None`` when the name does not tell."""
    if not tactic or _NUMBER.match(tactic) or _GENERATED.match(tactic):
        return None
    match = _XMMA.search(tactic)
    if match:
        operand = match[3] if match[4] else match[1]
        return _OPERANDS[operand]
    match = _DENSE.search(tactic)
    if match:
        return _OPERANDS[match[1]]
    return next((name for pattern, name in _WORDS if pattern.search(tactic)), None)


def _weights_type(info: LayerInfo) -> str | None:
    """Read the type of the weights, whatever their key is called; biases are wider on purpose."""
    for key, value in info.extra.items():
        if key.lower().endswith("weights") and isinstance(value, dict) and value.get("Count"):
            return _WEIGHTS.get(str(value.get("Type", "")).lower())
    return None


def _floating(tensors: tuple[TensorInfo, ...]) -> str | None:
    """Take the type of the largest tensor that can be computed with; indices do not count."""
    known = [
        each for each in tensors if each.dtype and each.dtype not in ("int32", "int64", "bool")
    ]
    return max(known, key=_size).dtype if known else None


def _size(tensor: TensorInfo) -> int:
    size = 1
    for dim in tensor.dimensions:
        size *= max(dim, 1)
    return size
