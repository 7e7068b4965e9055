"""Operations and bytes of engine layers, what GPUs can do at best, and the roofline.

The cost of a node that several layers came from is divided evenly among them. Traffic is what a
layer moves when every input and output is read and written exactly once, so it is a lower bound.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from trtbench.analysis.onnx_graph import NodeCost, OnnxModel, OnnxNode, cost_from_node, short_dtype
from trtbench.core.samples import EngineGraph, LayerInfo
from trtbench.core.spec import Value
from trtbench.layers.table import Bound, LayerTable, Role

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


@dataclass(frozen=True, kw_only=True)
class NodeCosts:
    """The cost of every node of a model, and the number of layers each node is part of."""

    nodes: dict[str, NodeCost]
    types: dict[str, str]
    order: tuple[str, ...]
    layers: Counter[str] = field(default_factory=Counter)
    producers: dict[str, OnnxNode] = field(default_factory=dict)

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
        """Add up ``flops`` or ``traffic_bytes`` of nodes; ``None`` if one of them is unknown."""
        known = [node for node in nodes if node in self.nodes]
        costs: list[int | None] = [getattr(self.nodes[node], field) for node in known]
        if not costs or None in costs:
            return None
        parts = zip(known, costs, strict=True)
        return round(sum((cost or 0) / max(1, self.layers[node]) for node, cost in parts))


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
    nodes = {node.name: cost_from_node(node) for node in model.nodes}
    order = tuple(node.name for node in model.nodes)
    producers = {each.name: node for node in model.nodes for each in node.outputs}
    return NodeCosts(nodes=nodes, types=types, order=order, layers=shared, producers=producers)


def flops_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count the operations of a layer: from its ONNX nodes, else from weights and shapes."""
    if role != "compute":
        return None
    found = costs.total(nodes, "flops") if costs is not None else None
    if found is not None or info is None:
        return found
    dims = info.outputs[0].dimensions if info.outputs else ()
    if info.type in ("gemm", "MatrixMultiply"):  # 2 per output element and element of a row
        row = info.inputs[0].dimensions if info.inputs else ()
        return 2 * math.prod(dims) * row[-1] if row and dims and min(*row, *dims) > 0 else None
    if "ConvKernel" in info.extra or (info.type or "").startswith("CaskDeconv"):
        return None  # after a fused pooling the size of the convolution's output is unknown
    # 2 per weight and position that it is applied at
    kept = (info.extra.get(key) for key in ("Weights", "ConvWeights"))
    weights = next((value.get("Count") for value in kept if isinstance(value, dict)), None)
    kernel, maps = info.extra.get("Kernel"), info.extra.get("OutMaps")
    if not isinstance(weights, int) or not isinstance(kernel, list) or not isinstance(maps, int):
        return None
    if len(dims) < 3 or min(dims) < 1 or maps != dims[1]:
        return None
    return 2 * weights * dims[0] * math.prod(dims[2:])


def traffic_of(
    info: LayerInfo | None, nodes: Sequence[str], role: Role, costs: NodeCosts | None
) -> int | None:
    """Count the bytes of a layer's inputs, outputs and weights, else those of its ONNX nodes."""
    if role in ("constant", "nothing"):
        return None
    tensors = (*info.inputs, *info.outputs) if info else ()  # each view of a tensor is read
    known = [x for x in tensors if x.dtype in BYTES and min(x.dimensions, default=0) >= 0]
    if info is None or not tensors or len(known) < len(tensors):
        return costs.total(nodes, "traffic_bytes") if costs is not None else None
    moved: float = sum(math.prod(x.dimensions) * BYTES[x.dtype or ""] for x in known)
    for value in info.extra.values():
        if isinstance(value, dict) and isinstance(value.get("Count"), int):
            kind = WEIGHT_TYPES.get(str(value.get("Type", "")).lower(), "fp32")
            moved += value["Count"] * BYTES[kind]
    return round(moved)


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

# name | architecture | GB/s | TFLOP/s: fp32 tf32 fp16 bf16 int8 fp8 fp4 | source
_TABLE = """
Jetson AGX Xavier | Volta | 136.5 | 1.41 - 11 - 22 - - | Jetson AGX Xavier data sheet (GPU alone)
Jetson Xavier NX | Volta | 59.7 | 0.84 - 6 - 12.3 - - | Jetson Xavier NX data sheet (GPU alone)
Tesla V100-SXM2 | Volta | 900 | 15.7 - 125 - 62.8 - - | V100 data sheet; INT8 by DP4A
Tesla V100-PCIE | Volta | 900 | 14 - 112 - 56 - - | V100 data sheet; INT8 by DP4A
Tesla T4 | Turing | 320 | 8.1 - 65 - 130 - - | T4 data sheet
GeForce RTX 2080 Ti | Turing | 616 | 13.4 - 107.6 - 215.2 - - | Turing white paper
GeForce RTX 2080 | Turing | 448 | 10.1 - 80.5 - 161.1 - - | Turing white paper
GeForce RTX 2070 | Turing | 448 | 7.5 - 59.7 - 119.4 - - | Turing white paper
Quadro RTX 6000 | Turing | 672 | 16.3 - 130.5 - 261 - - | Turing white paper
A100-SXM4-80GB | Ampere | 2039 | 19.5 156 312 312 624 - - | A100 data sheet
A100-SXM4-40GB | Ampere | 1555 | 19.5 156 312 312 624 - - | A100 data sheet
A100 80GB PCIe | Ampere | 1935 | 19.5 156 312 312 624 - - | A100 data sheet
A100-PCIE-40GB | Ampere | 1555 | 19.5 156 312 312 624 - - | A100 data sheet
A30 | Ampere | 933 | 10.3 82 165 165 330 - - | A30 data sheet
A10 | Ampere | 600 | 31.2 62.5 125 125 250 - - | A10 data sheet
A10G | Ampere | 600 | 31.5 35 70 70 140 - - | A10G data sheet
A16 | Ampere | 200 | 4.5 9 18 18 36 - - | A16 data sheet (one of four GPUs)
A2 | Ampere | 200 | 4.5 9 18 18 36 - - | A2 data sheet
A40 | Ampere | 696 | 37.4 74.8 149.7 149.7 299.3 - - | A40 data sheet
RTX A6000 | Ampere | 768 | 38.7 77.4 154.8 154.8 309.7 - - | GA102 white paper
RTX A5000 | Ampere | 768 | 27.8 55.6 111.1 111.1 222.2 - - | RTX A5000 data sheet
RTX A4000 | Ampere | 448 | 19.2 38.3 76.7 76.7 153.4 - - | RTX A4000 data sheet
GeForce RTX 3090 Ti | Ampere | 1008 | 40 40 160 80 320 - - | GA102 white paper
GeForce RTX 3090 | Ampere | 936 | 35.6 35.6 142 71 284 - - | GA102 white paper
GeForce RTX 3080 Ti | Ampere | 912 | 34.1 34.1 136 68 273 - - | GA102 white paper
GeForce RTX 3080 | Ampere | 760 | 29.8 29.8 119 59.5 238 - - | GA102 white paper
GeForce RTX 3070 | Ampere | 448 | 20.3 20.3 81.3 40.6 162.6 - - | GA102 white paper
GeForce RTX 3060 | Ampere | 360 | 12.7 12.7 51 25.5 102 - - | GA10x rates at its boost clock
Jetson AGX Orin | Ampere | 204.8 | 5.3 21.3 42.5 42.5 85 - - | Jetson AGX Orin technical brief
Jetson Orin NX | Ampere | 102.4 | 1.88 7.5 15 15 30 - - | Jetson Orin NX data sheet (GPU alone)
Jetson Orin Nano | Ampere | 68 | 1.28 5 10 10 20 - - | Jetson Orin Nano data sheet
Jetson Orin Nano Super | Ampere | 102.4 | 2.1 8.4 16.7 16.7 33.5 - - | data sheet (GPU at 1 020 MHz)
L4 | Ada | 300 | 30.3 60 121 121 242.5 242.5 - | L4 data sheet
L40S | Ada | 864 | 91.6 183 362 362 733 733 - | L40S data sheet
L40 | Ada | 864 | 90.5 90.5 181 181 362 362 - | L40 data sheet
RTX 6000 Ada Generation | Ada | 960 | 91.1 182.1 364.2 364.2 728.5 728.5 - | data sheet
GeForce RTX 4090 | Ada | 1008 | 82.6 82.6 330.3 165.2 660.6 660.6 - | Ada white paper
GeForce RTX 4080 | Ada | 717 | 48.7 48.7 194.9 97.5 389.9 389.9 - | Ada white paper
GeForce RTX 4070 Ti | Ada | 504 | 40.1 40.1 160.4 80.2 320.7 320.7 - | Ada white paper
GeForce RTX 4070 | Ada | 504 | 29.1 29.1 116.6 58.3 233.2 233.2 - | Ada rates at its boost clock
GeForce RTX 4060 | Ada | 272 | 15.1 15.1 60.5 30.2 121 121 - | Ada rates at its boost clock
H100 80GB HBM3 | Hopper | 3350 | 66.9 494.7 989.4 989.4 1978.9 1978.9 - | H100 white paper (SXM5)
H100 SXM5 | Hopper | 3350 | 66.9 494.7 989.4 989.4 1978.9 1978.9 - | H100 white paper
H100 PCIe | Hopper | 2000 | 51.2 378 756 756 1513 1513 - | H100 white paper
H100 NVL | Hopper | 3938 | 60 417.5 835 835 1671 1671 - | H100 NVL data sheet
H200 NVL | Hopper | 4800 | 60 417.5 835 835 1671 1671 - | H200 data sheet
H200 | Hopper | 4800 | 66.9 494.7 989.4 989.4 1978.9 1978.9 - | H200 data sheet (SXM)
H20 | Hopper | 4000 | 44 74 148 148 296 296 - | H20 data sheet
GH200 480GB | Hopper | 4000 | 66.9 494.7 989.4 989.4 1978.9 1978.9 - | GH200 data sheet (96 GB HBM3)
GH200 144G HBM3e | Hopper | 4900 | 66.9 494.7 989.4 989.4 1978.9 1978.9 - | GH200 data sheet
B200 | Blackwell | 8000 | 75 1125 2250 2250 4500 4500 9000 | HGX B200 data sheet, for one GPU
GB200 | Blackwell | 8000 | 80 1250 2500 2500 5000 5000 10000 | GB200 NVL72 data sheet, for one GPU
B300 | Blackwell | 8000 | 75 1125 2250 2250 187.5 4500 13500 | HGX B300 data sheet, for one GPU
GeForce RTX 5090 | Blackwell | 1792 | 104.8 104.8 419 209.5 838 838 1676 | Blackwell white paper
GeForce RTX 5080 | Blackwell | 960 | 56.3 56.3 225.1 112.6 450.2 450.2 900.4 | Blackwell white paper
GeForce RTX 5070 Ti | Blackwell | 896 | 43.9 43.9 175.8 87.9 351.5 351.5 703 | Blackwell white paper
GeForce RTX 5070 | Blackwell | 672 | 30.9 30.9 123.5 61.7 246.9 246.9 493.9 | Blackwell white paper
RTX PRO 6000 Blackwell | Blackwell | 1792 | 125 251.9 503.8 503.8 1007.6 1007.6 2015.2 | data sheet
Jetson AGX Thor | Blackwell | 273 | 8.06 129 258.8 258.8 517.5 517.5 1035 | Thor (T5000) data sheet
GB10 | Blackwell | 273 | 31 62 125 125 250 250 500 | DGX Spark data sheet; by halves from FP4
"""

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
    for line in _TABLE.strip().splitlines():
        name, _, bandwidth, rates, _ = (part.strip() for part in line.split("|"))
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
        light = layer.converts or (layer.kind or "").lower() in MEMORY_BOUND_KINDS
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
