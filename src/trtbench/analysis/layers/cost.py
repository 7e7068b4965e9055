"""Operations and bytes of engine layers: from their ONNX nodes, or from what the inspector tells.

A node that several layers came from is counted once, shared out evenly. Traffic is what a layer
must move when its tensors are read and written once, so it is a lower bound.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trtbench.analysis.flops import NodeCost, cost_from_node
from trtbench.analysis.layers.layer import Role
from trtbench.analysis.onnx_graph import OnnxModel, OnnxNode, short_dtype
from trtbench.domain.samples import EngineGraph, LayerInfo, TensorInfo

BYTES = {
    "fp64": 8, "int64": 8, "fp32": 4, "tf32": 4, "int32": 4, "fp16": 2, "bf16": 2,
    "int8": 1, "uint8": 1, "fp8": 1, "bool": 1, "int4": 0.5, "fp4": 0.5,
}  # fmt: skip
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum")
"""Operators whose type says what the model asks for; the rest follows their neighbours."""

_PRODUCTS = ("gemm", "MatrixMultiply")
_OWN_ENDS = re.compile(r"^fused |_nchwc$|_nhwc$|_quant$|_token_\d+$")
_OWN_KINDS = re.compile(r"^(?:Fused|QLinear|Nhwc)+")
MOST_FUSED = 8


@dataclass(frozen=True, kw_only=True)
class NodeCosts:
    """What the nodes of a model cost, and in how many layers each of them is."""

    nodes: dict[str, NodeCost]
    types: dict[str, str]
    """Types that weighted nodes ask for, by name."""
    order: tuple[str, ...]
    layers: Counter[str] = field(default_factory=Counter)
    makers: dict[str, OnnxNode] = field(default_factory=dict)
    """The node that makes each tensor."""

    def knows(self, nodes: Iterable[str]) -> bool:
        return any(node in self.nodes for node in nodes)

    def behind(self, name: str, kind: str) -> tuple[str, ...]:
        """Find the nodes that a runtime put into one of its own, which it names as it likes.

        ONNX Runtime keeps the name of a node, or takes that of the tensor that the last of them
        makes; from there back to the operator that it says is computed, all are part of it.
        """
        name = _OWN_ENDS.sub("", name)
        if name in self.nodes:
            return (name,)
        kind = _OWN_KINDS.sub("", kind)
        found: list[str] = []
        node = self.makers.get(name)
        while node is not None and len(found) < MOST_FUSED:
            found.append(node.name)
            if node.op == kind:
                return tuple(reversed(found))
            makers = (self.makers.get(each.name) for each in node.inputs if not each.weight)
            node = next((each for each in makers if each is not None), None)
        return ()

    def operators(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Tell the kinds of a layer's nodes."""
        return tuple(self.nodes[node].op for node in nodes if node in self.nodes)

    def asked(self, nodes: Sequence[str]) -> str | None:
        """Tell the type that the weighted nodes of a layer ask for."""
        return next((self.types[node] for node in nodes if node in self.types), None)

    def flops(self, nodes: Iterable[str]) -> int | None:
        """Add up the operations of a layer's nodes; ``None`` when one of them is not known."""
        known = [(node, self.nodes[node]) for node in nodes if node in self.nodes]
        if not known or any(cost.flops is None for _, cost in known):
            return None
        return round(sum((cost.flops or 0) / max(1, self.layers[node]) for node, cost in known))

    def traffic(self, nodes: Iterable[str]) -> int | None:
        """Add up the bytes of a layer's nodes as if nothing were fused."""
        known = [(node, self.nodes[node]) for node in nodes if node in self.nodes]
        if not known or any(cost.traffic_bytes is None for _, cost in known):
            return None
        parts = ((cost.traffic_bytes or 0) / max(1, self.layers[node]) for node, cost in known)
        return round(sum(parts))


def costs_from_model(model: OnnxModel, graph: EngineGraph | None = None) -> NodeCosts:
    """Estimate the nodes of a model, with the layers of the engine that share them."""
    shared: Counter[str] = Counter()
    for info in graph.layers if graph else ():
        shared.update(set(info.origin))
    return NodeCosts(
        nodes={node.name: cost_from_node(node) for node in model.nodes},
        types={node.name: kind for node in model.nodes if (kind := _type(node)) is not None},
        order=tuple(node.name for node in model.nodes),
        layers=shared,
        makers={each.name: node for node in model.nodes for each in node.outputs},
    )


def _type(node: OnnxNode) -> str | None:
    if node.op not in _WEIGHTED:
        return None
    if node.quantized is not None:
        return short_dtype(node.quantized)
    data = node.inputs[0].dtype if node.inputs else None
    short = short_dtype(data) if data else None
    return short if short in ("fp16", "bf16", "fp8") else None


def flops_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count operations: of the ONNX nodes where the model is at hand, else of convolutions."""
    if role != "compute":
        return None
    if costs is not None:
        found = costs.flops(nodes)
        if found is not None:
            return found
    if info is None:
        return None
    return _product(info) if info.type in _PRODUCTS else _convolution(info)


def _product(info: LayerInfo) -> int | None:
    """Count what a matrix product must do: 2 for every output and every element of a row."""
    row = info.inputs[0].dimensions if info.inputs else ()
    dims = info.outputs[0].dimensions if info.outputs else ()
    if not row or not dims or min(*row, *dims) < 1:
        return None
    return 2 * math.prod(dims) * row[-1]


def _convolution(info: LayerInfo) -> int | None:
    """Count what a convolution must do: 2 for every weight and every place it is applied at."""
    weights = next(
        (
            value.get("Count")
            for key, value in info.extra.items()
            if key in ("Weights", "ConvWeights") and isinstance(value, dict)
        ),
        None,
    )
    prefix = "Conv" if "ConvKernel" in info.extra else ""
    kernel, maps = info.extra.get(f"{prefix}Kernel"), info.extra.get(f"{prefix}OutMaps")
    dims = info.outputs[0].dimensions if info.outputs else ()
    if prefix or not isinstance(weights, int) or not isinstance(kernel, list):
        return None  # a fused pooling hides the places
    if not isinstance(maps, int) or len(dims) < 3 or min(dims) < 1 or maps not in dims[1:2]:
        return None
    if (info.type or "").startswith("CaskDeconv"):
        return None
    return 2 * weights * dims[0] * math.prod(dims[2:])


def traffic_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count bytes: tensors at the edge and weights, else what the nodes move unfused."""
    if role in ("constant", "nothing"):
        return None
    edges = _edges(info) if info is not None else None
    if edges is not None:
        return edges
    return costs.traffic(nodes) if costs is not None else None


def _edges(info: LayerInfo) -> int | None:
    tensors = {each.name: each for each in (*info.inputs, *info.outputs)}
    sizes = [_tensor_bytes(each) for each in tensors.values()]
    if not sizes or any(size is None for size in sizes):
        return None
    return round(sum(size or 0 for size in sizes) + _weight_bytes(info))


def _tensor_bytes(tensor: TensorInfo) -> float | None:
    each = BYTES.get(tensor.dtype or "")
    if each is None or any(dim < 0 for dim in tensor.dimensions):
        return None
    return math.prod(tensor.dimensions) * each


def _weight_bytes(info: LayerInfo) -> float:
    widths = {"half": 2.0, "float": 4.0, "int8": 1.0, "bfloat16": 2.0, "fp8": 1.0, "int4": 0.5}
    sizes: list[float] = [
        value["Count"] * widths.get(str(value.get("Type", "")).lower(), 4.0)
        for value in info.extra.values()
        if isinstance(value, dict) and isinstance(value.get("Count"), int)
    ]
    return sum(sizes)
