"""Operations and bytes of engine layers, what GPUs can do at best, and the roofline.

The cost of a node that several layers came from is divided evenly among them. Traffic is what a
layer moves when every input and output is read and written exactly once, so it is a lower bound.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from trtbench.analysis.onnx_graph import OnnxModel, OnnxNode, cost_from_node, moved_by, short_dtype
from trtbench.core.samples import EngineGraph, LayerInfo
from trtbench.core.spec import Value
from trtbench.data import data_rows
from trtbench.layers.table import Bound, LayerTable, Role, word_of_kind

BYTES = {
    "fp64": 8, "int64": 8, "fp32": 4, "tf32": 4, "int32": 4, "fp16": 2, "bf16": 2,
    "int8": 1, "uint8": 1, "fp8": 1, "bool": 1, "int4": 0.5, "fp4": 0.5,
}  # fmt: skip
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum")
"""Operators whose type the model sets; the others use the type of their neighbours."""

WEIGHT_TYPES = {
    "half": "fp16", "float": "fp32", "int8": "int8", "bfloat16": "bf16", "bf16": "bf16",
    "fp8": "fp8", "int4": "int4", "fp4": "fp4",
}  # fmt: skip
"""Types of weights, by the inspector's name for them."""


@dataclass(frozen=True)
class NodeCosts:
    """The cost of every node of a model, and the number of layers each node is part of."""

    nodes: dict[str, OnnxNode]
    types: dict[str, str]
    layers: Counter[str]
    producers: dict[str, OnnxNode]
    readers: dict[str, set[str]]  # by tensor: nodes, and an empty name if it leaves the model

    def nodes_computing(self, name: str, kind: str) -> tuple[str, ...]:
        """Return the ONNX nodes that a runtime fused into its node ``name`` of type ``kind``.

        ONNX Runtime names it after one of them, or after the output tensor of the last one. All
        nodes from that tensor back to the operator ``kind`` belong to it.
        """
        found: list[str] = [name] if name in self.nodes else []
        node = None if found else self.producers.get(name)
        while node is not None and len(found) < 8:
            found.append(node.name)
            if node.op == kind:
                return tuple(reversed(found))
            producers = (self.producers.get(each.name) for each in node.inputs if not each.weight)
            node = next((each for each in producers if each is not None), None)
        return tuple(found) if name in self.nodes else ()

    def total(self, nodes: Iterable[str], field: str) -> int | None:
        """Add up ``flops`` or ``weight_bytes`` of nodes; ``None`` if one of them is unknown."""
        known = [node for node in nodes if node in self.nodes]
        made = (cost_from_node(self.nodes[node]) for node in known)
        costs: list[int | None] = [getattr(each, field) for each in made]
        if not costs or None in costs:
            return None
        parts = zip(known, costs, strict=True)
        return round(sum((cost or 0) / max(1, self.layers[node]) for node, cost in parts))

    def traffic_bytes(self, nodes: Iterable[str]) -> int | None:
        """Count what enters and leaves nodes that are one layer; ``None`` if it is unknown."""
        known = [self.nodes[node] for node in nodes if node in self.nodes]
        moved = moved_by(known, self.readers) if known else None
        shared = min((max(1, self.layers[node.name]) for node in known), default=1)
        return None if moved is None else round(moved / shared)


def costs_from_model(model: OnnxModel, graph: EngineGraph | None = None) -> NodeCosts:
    """Estimate the cost of every node; ``graph`` shows how many engine layers share a node."""
    shared: Counter[str] = Counter()
    for info in graph.layers if graph else ():
        shared.update(set(info.origin))
    types = {}
    for node in model.nodes:
        data = node.quantized or (node.inputs[0].dtype if node.inputs else None)
        short = short_dtype(data) if data else None
        if node.op in _WEIGHTED and short and (node.quantized or short in ("fp16", "bf16", "fp8")):
            types[node.name] = short
    readers: dict[str, set[str]] = {each.name: {""} for each in model.outputs}
    for node in model.nodes:
        for each in node.inputs:
            readers.setdefault(each.name, set()).add(node.name)
    producers = {each.name: node for node in model.nodes for each in node.outputs}
    return NodeCosts({node.name: node for node in model.nodes}, types, shared, producers, readers)


def flops_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count the operations of a layer: from its ONNX nodes, else from weights and shapes."""
    if role != "compute":
        return None
    found = costs.total(nodes, "flops") if costs is not None else None
    if found is not None or info is None:
        return found
    sizes = sizes_of(info)
    return 2 * math.prod(sizes) if sizes else None


def sizes_of(info: LayerInfo) -> tuple[int, int, int] | None:
    """Return M, N and K of a layer that multiplies an M by K matrix with a K by N matrix.

    Of a convolution, M counts the positions of its output, N its maps, and K the weights per map.
    """
    dims = info.outputs[0].dimensions if info.outputs else ()
    if word_of_kind(info.type) in ("gemm", "matrixmultiply"):
        row = info.inputs[0].dimensions if info.inputs else ()
        known = row and dims and min(*row, *dims) > 0
        return (math.prod(dims[:-1]), dims[-1], row[-1]) if known else None
    if "ConvKernel" in info.extra or (info.type or "").startswith("CaskDeconv"):
        return None  # after a fused pooling the size of the convolution's output is unknown
    kept, maps = info.extra.get("Weights"), info.extra.get("OutMaps")
    weights = kept.get("Count") if isinstance(kept, dict) and "Kernel" in info.extra else None
    if not isinstance(weights, int) or len(dims) < 3 or min(dims) < 1 or maps != dims[1]:
        return None
    return dims[0] * math.prod(dims[2:]), dims[1], weights // dims[1]


def attributes_of(
    info: LayerInfo | None, nodes: Sequence[str], costs: NodeCosts | None
) -> dict[str, Any]:
    """Return what the inspector says on kernels, sizes, layouts and weights: fields of a layer.

    Without it, the weights are those of the ONNX nodes.
    """
    if info is None:
        return {"weight_bytes": costs.total(nodes, "weight_bytes") or None} if costs else {}

    def stated(*keys: str) -> str | None:
        found = next((info.extra[key] for key in keys if info.extra.get(key) is not None), None)
        found = "x".join(map(str, found)) if isinstance(found, list) else found
        return None if found is None else str(found)

    kernel, groups = stated("Kernel", "ConvKernel", "WindowSize"), stated("Groups", "ConvGroups")
    return {
        "kernel": kernel,
        "stride": stated("Stride", "ConvStride") if kernel else None,
        "groups": int(groups) if groups and groups.isdecimal() else None,
        "origin": stated("Origin"),
        "weight_bytes": _weight_bytes(info),
        "format_in": next((x.layout for x in info.inputs if x.layout), None),
        "format_out": next((x.layout for x in info.outputs if x.layout), None),
        **dict(zip("mnk", sizes_of(info) or (), strict=False)),
    }


def traffic_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count the bytes of a layer's inputs, outputs and weights, else those of its ONNX nodes."""
    if role in ("constant", "nothing"):
        return None
    tensors = (*info.inputs, *info.outputs) if info else ()  # each view of a tensor is read
    known = [x for x in tensors if x.dtype in BYTES and min(x.dimensions, default=0) >= 0]
    if info is None or not tensors or len(known) < len(tensors):
        return costs.traffic_bytes(nodes) if costs is not None else None
    moved: float = sum(math.prod(x.dimensions) * BYTES[x.dtype or ""] for x in known)
    return round(moved) + (_weight_bytes(info) or 0)


def _weight_bytes(info: LayerInfo) -> int | None:
    """Count the bytes of a layer's weights and biases; ``None`` if it has none."""
    found = [x for x in info.extra.values() if isinstance(x, dict)]
    kept = [x for x in found if isinstance(x.get("Count"), int)]
    kinds = (WEIGHT_TYPES.get(str(value.get("Type", "")).lower(), "fp32") for value in kept)
    sizes = [value["Count"] * BYTES[kind] for value, kind in zip(kept, kinds, strict=True)]
    return round(sum(sizes)) or None


class GpuPeak(Value, frozen=True, kw_only=True):
    """Peak memory bandwidth and arithmetic rates of one GPU."""

    name: str
    bytes_per_s: float
    flops_per_s: dict[str, float]  # by the type of the operands

    def peak(self, precision: str | None) -> float | None:
        """Return the rate for a type; one without its own arithmetic units runs as a wider one."""
        wider = {
            "tf32": "fp32", "bf16": "fp16", "uint8": "int8", "int4": "int8", "fp8": "fp16",
            "fp4": "fp8", "fp64": None,
        }  # fmt: skip
        while precision is not None:
            if precision in self.flops_per_s:
                return self.flops_per_s[precision]
            precision = wider.get(precision)
        return None


_TYPES = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "fp4")

_OTHER_BOARDS = {"super", "laptop", "ti", "mobile", "d", "mig", "max", "q", "nvl", "pcie", "dlb"}
"""Words in a GPU's name that make it a different board, unless the table's name has them too."""
_MODULES = {
    "orin": {16: "Jetson AGX Orin"},
    "xavier": {8: "Jetson AGX Xavier", 6: "Jetson Xavier NX"},
    "thor": {20: "Jetson AGX Thor"},
}  # Jetsons by number of multiprocessors; Orin NX and Nano have the same and stay unknown


@cache
def gpu_peaks() -> tuple[GpuPeak, ...]:
    found = []
    for name, _, bandwidth, rates, _ in data_rows("gpus.txt"):
        known = zip(_TYPES, rates.split(), strict=True)
        flops = {kind: float(rate) * 1e12 for kind, rate in known if rate != "-"}
        found.append(GpuPeak(name=name, bytes_per_s=float(bandwidth) * 1e9, flops_per_s=flops))
    return tuple(found)


@lru_cache(maxsize=256)
def peak_of(name: str | None, *, sm_count: int | None = None) -> GpuPeak | None:
    """Find a GPU by the driver's name for it: the longest table entry whose words are all in it.

    A word that makes it a different board (``SUPER``, ``Laptop``, a MIG slice) must be in the
    entry too. Jetsons report only ``Orin``, so ``sm_count`` distinguishes them.
    """
    words = _words(name or "")
    modules = _MODULES.get(next(iter(words & {"orin", "xavier", "thor"}), ""), {})
    if sm_count in modules and "jetson" not in words:
        words = _words(modules[sm_count])
    fitting = [
        peak
        for peak in gpu_peaks()
        if _words(peak.name) <= words and not (words - _words(peak.name)) & _OTHER_BOARDS
    ]
    return max(fitting, key=lambda peak: len(_words(peak.name)), default=None)


def _words(name: str) -> set[str]:
    """Split a name into lower-case words at spaces, hyphens and underscores."""
    return {word for word in re.split(r"[\s_-]+", name.lower()) if word}


MEMORY_BOUND_KINDS = (
    "pooling", "pointwise", "resize", "shuffle", "slice", "padding", "softmax", "concat",
)  # fmt: skip


def with_rates(
    table: LayerTable, peak: GpuPeak | None, *, energy_j: float | None = None
) -> LayerTable:
    """Return the table with achieved rates, and roofline shares where the GPU is known.

    Bytes that were measured are used instead of estimated ones.
    ``energy_j`` is that of an inference above idle, which layers share by their times.
    """
    layers = list(table.layers)
    for place, layer in enumerate(table.layers):
        if not layer.time_s:
            continue
        seconds, flops, moved = layer.seconds, layer.flops, layer.dram_bytes
        traffic = layer.traffic_bytes if moved is None else moved
        bound: Bound | None = None
        shortest_s = 0.0
        light = layer.converts or layer.word in MEMORY_BOUND_KINDS
        rate = peak.peak(layer.precision) if peak else None
        compute_s = flops / rate if flops is not None and rate else None
        if peak and traffic is not None and (compute_s is not None or light):
            memory_s = traffic / peak.bytes_per_s
            bound = "compute" if (compute_s or 0.0) > memory_s else "memory"
            shortest_s = max(compute_s or 0.0, memory_s)
        layers[place] = layer.having(
            flops_per_s=flops / seconds if flops else None,
            bytes_per_s=traffic / seconds if traffic is not None else None,
            roofline=shortest_s / seconds if bound else None,
            bound=bound,
            energy_j=layer.share * energy_j if layer.share is not None and energy_j else None,
        )
    return table.having(layers=tuple(layers), gpu=peak.name if peak else None)
