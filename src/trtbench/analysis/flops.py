"""Floating-point operations and memory traffic of ONNX nodes, estimated from their shapes.

A multiply-add counts as two operations. Traffic is what a node must at least read and write when
nothing is fused: a lower bound for one node alone, an upper bound for a model that an engine fuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from trtbench.analysis.onnx_graph import OnnxModel, OnnxNode, OnnxTensor
from trtbench.domain.spec import Value

Count = int | None


class NodeCost(Value, frozen=True, kw_only=True):
    """What one node costs; ``None`` where the shapes or the operator are not known."""

    name: str
    op: str
    precision: str
    flops: Count
    read_bytes: Count
    """Activations read."""
    weight_bytes: Count
    written_bytes: Count
    output: str
    """Shape of the first output, in words."""

    @property
    def traffic_bytes(self) -> Count:
        parts = (self.read_bytes, self.weight_bytes, self.written_bytes)
        return None if any(part is None for part in parts) else sum(part or 0 for part in parts)

    @property
    def intensity(self) -> float | None:
        """Operations per byte."""
        if self.flops is None or not self.traffic_bytes:
            return None
        return self.flops / self.traffic_bytes


class ModelCost(Value, frozen=True, kw_only=True):
    """What a model costs; sums are over the nodes whose cost is known."""

    nodes: tuple[NodeCost, ...]
    flops: int
    traffic_bytes: int
    fused_bytes: Count
    """Weights, inputs and outputs alone: the traffic if everything between stayed on chip."""
    unknown: tuple[str, ...] = ()
    """Kinds of nodes whose operations could not be counted."""


def cost_from_model(model: OnnxModel) -> ModelCost:
    """Estimate every node, and the sums."""
    nodes = tuple(cost_from_node(node) for node in model.nodes)
    edges = [OnnxTensor(name=t.name, dtype=t.dtype, shape=t.shape) for t in _edges(model)]
    traffic = sum(node.traffic_bytes or 0 for node in nodes)
    fused = _total([model.weight_bytes, *(edge.size_bytes for edge in edges)])
    if fused is not None and all(node.traffic_bytes is not None for node in nodes):
        fused = min(fused, traffic)  # of a table that is looked up, only some rows are read
    return ModelCost(
        nodes=nodes,
        flops=sum(node.flops or 0 for node in nodes),
        traffic_bytes=traffic,
        fused_bytes=fused,
        unknown=tuple(dict.fromkeys(node.op for node in nodes if node.flops is None)),
    )


def cost_from_node(node: OnnxNode) -> NodeCost:
    """Estimate one node."""
    shape = node.outputs[0].shape if node.outputs else None
    read, weights, written = _traffic(node)
    return NodeCost(
        name=node.name,
        op=node.op,
        precision=node.precision,
        flops=flops_of(node),
        read_bytes=read,
        weight_bytes=weights,
        written_bytes=written,
        output="?" if shape is None else "x".join("?" if d is None else str(d) for d in shape),
    )


def flops_of(node: OnnxNode) -> Count:
    """Count the operations of one node; ``None`` when its kind or its shapes are unknown."""
    if node.op in _NO_ARITHMETIC:
        return 0
    if node.op in _EACH_OUTPUT:
        return _times(_EACH_OUTPUT[node.op], _size(node.outputs))
    if node.op in _EACH_INPUT:
        return _times(_EACH_INPUT[node.op], _size(node.inputs))
    rule = _RULES.get(node.op)
    return rule(node) if rule else None


def _edges(model: OnnxModel) -> Iterable[OnnxTensor]:
    """Find inputs and outputs with the shapes that were settled for the estimates."""
    settled = {each.name: each for node in model.nodes for each in (*node.inputs, *node.outputs)}
    for spec in (*model.inputs, *model.outputs):
        yield settled.get(spec.name) or OnnxTensor(
            name=spec.name, dtype=spec.dtype, shape=spec.shape
        )


def _traffic(node: OnnxNode) -> tuple[Count, Count, Count]:
    if node.op in _VIEWS:
        return 0, 0, 0
    data = [each for each in node.inputs if each.name and not each.weight]
    weights = [each for each in node.inputs if each.name and each.weight]
    if node.quantized is not None:
        data, weights = ([_stored_as(e, node.quantized) for e in part] for part in (data, weights))
    written = _total(each.size_bytes for each in node.outputs if each.name)
    if node.op in _PICKS:  # reads only what it gives, of a table that may be large
        return written, 0, written
    return (
        _total(each.size_bytes for each in data),
        _total(each.size_bytes for each in weights),
        written,
    )


def _stored_as(tensor: OnnxTensor, dtype: str) -> OnnxTensor:
    return OnnxTensor(name=tensor.name, dtype=dtype, shape=tensor.shape)


def _conv(node: OnnxNode) -> Count:
    """Count a dot product over C/g channels and the kernel for every output element."""
    weight = _dims(node.inputs, 3 if node.op == "QLinearConv" else 1)
    outputs = _size(node.outputs)
    if weight is None or outputs is None:
        return None
    bias = 8 if node.op == "QLinearConv" else 2
    return 2 * outputs * math.prod(weight[1:]) + _bias(node, bias, outputs)


def _conv_transpose(node: OnnxNode) -> Count:
    """Count M/g channels and the kernel for every input element."""
    weight, inputs, outputs = _dims(node.inputs, 1), _size(node.inputs), _size(node.outputs)
    if weight is None or inputs is None or outputs is None:
        return None
    return 2 * inputs * math.prod(weight[1:]) + _bias(node, 2, outputs)


def _matmul(node: OnnxNode) -> Count:
    left, outputs = _dims(node.inputs, 0), _size(node.outputs)
    return None if left is None or outputs is None or not left else 2 * outputs * left[-1]


def _gemm(node: OnnxNode) -> Count:
    left, outputs = _dims(node.inputs, 0), _size(node.outputs)
    if left is None or outputs is None or len(left) != 2:
        return None
    inner = left[0] if node.attributes.get("transA") else left[1]
    return 2 * outputs * inner + _bias(node, 2, outputs)


def _bias(node: OnnxNode, index: int, outputs: int) -> int:
    return outputs if len(node.inputs) > index and node.inputs[index].name else 0


def _einsum(node: OnnxNode) -> Count:
    """Count a multiply-add for every combination of indices; a single input needs no product."""
    terms = str(node.attributes.get("equation", "")).replace(" ", "").split("->")[0].split(",")
    if "." in "".join(terms) or len(terms) != len(node.inputs):
        return None
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, node.inputs, strict=True):
        if tensor.dims is None or len(tensor.dims) != len(term):
            return None
        sizes.update(zip(term, tensor.dims, strict=True))
    return math.prod(sizes.values()) * (2 if len(terms) > 1 else 1)


def _attention(node: OnnxNode) -> Count:
    """Count scores and weighted sum: 2·B·H·S·T·(d + e), as in 4·B·H·S²·d when all are alike."""
    query, key, value = (_dims(node.inputs, index) for index in range(3))
    if query is None or key is None or value is None:
        return None
    heads = node.attributes.get("q_num_heads")
    if len(query) == 4:
        heads, shared = query[1], key[1]
        rows, columns, wide, deep = query[2], key[2], query[3], value[3]
    elif isinstance(heads, int) and isinstance(node.attributes.get("kv_num_heads"), int):
        shared = int(str(node.attributes["kv_num_heads"]))
        rows, columns = query[1], key[1]
        wide, deep = query[2] // heads, value[2] // shared
    else:
        return None
    return 2 * query[0] * int(heads) * rows * columns * (wide + deep)


def _recurrent(node: OnnxNode) -> Count:
    """Count input and state products of every gate, step and direction."""
    data, weight, state = (_dims(node.inputs, index) for index in range(3))
    if data is None or weight is None or state is None:
        return None
    steps_and_batch = data[0] * data[1]
    return 2 * steps_and_batch * (math.prod(weight) + math.prod(state))


def _pool(node: OnnxNode) -> Count:
    kernel = node.attributes.get("kernel_shape")
    return _times(math.prod(kernel), _size(node.outputs)) if isinstance(kernel, tuple) else None  # type: ignore[arg-type]


def _resize(node: OnnxNode) -> Count:
    """Count what blends: linear two values per scaled axis, cubic four; nearest only copies."""
    each = {"nearest": 0, "linear": 7, "cubic": 35}.get(str(node.attributes.get("mode", "nearest")))
    return _times(each, _size(node.outputs)) if each is not None else None


def _combine(node: OnnxNode) -> Count:
    """Sum, Mean, Max and Min over n tensors take n - 1 operations for each element."""
    return _times(max(1, len(node.inputs) - 1), _size(node.outputs))


def _dims(tensors: tuple[OnnxTensor, ...], index: int) -> tuple[int, ...] | None:
    return tensors[index].dims if len(tensors) > index else None


def _size(tensors: tuple[OnnxTensor, ...]) -> Count:
    return tensors[0].elements if tensors else None


def _times(each: int, count: Count) -> Count:
    return None if count is None else each * count


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _total(parts: Iterable[Count]) -> Count:
    found = list(parts)
    return None if any(part is None for part in found) else sum(part or 0 for part in found)


_RULES: dict[str, Callable[[OnnxNode], Count]] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Attention": _attention,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "AveragePool": _pool,
    "MaxPool": _pool,
    "LpPool": _pool,
    "Resize": _resize,
    "Upsample": _resize,
    "Sum": _combine,
    "Mean": _combine,
    "Max": _combine,
    "Min": _combine,
}

_VIEWS = _words(
    "Constant ConstantOfShape DequantizeLinear Flatten Identity QuantizeLinear Reshape Shape Size "
    "Squeeze Unsqueeze"
)
"""No byte of a tensor moves; an engine makes Q/DQ pairs part of their neighbours."""

_PICKS = _words("Gather GatherElements GatherND Slice")

_NO_ARITHMETIC = (
    _VIEWS
    | _PICKS
    | _words(
        "Cast CastLike Compress Concat DepthToSpace Dropout Expand NonZero OneHot Pad Range "
        "ScatterElements ScatterND SpaceToDepth Split SplitToSequence SequenceAt SequenceConstruct "
        "Tile Transpose Trilu EyeLike RandomNormal RandomNormalLike RandomUniform "
        "RandomUniformLike QuantizeLinear DequantizeLinear DynamicQuantizeLinear "
        "Where And Or Not Xor Equal Greater GreaterOrEqual Less LessOrEqual IsNaN IsInf"
    )
)
"""Moves, chooses, compares, or only says how a tensor is stored."""

_EACH_OUTPUT = {
    **dict.fromkeys(
        _words(
            "Abs Add Ceil Clip Div Floor LeakyRelu Mod Mul Neg PRelu Reciprocal Relu Round Sign "
            "Sqrt Sub ThresholdedRelu HardSigmoid BitShift Pow Exp Log Sin Cos Tan Tanh Erf Atan "
            "Acos Asin Sinh Cosh"
        ),
        1,
    ),
    **dict.fromkeys(("BatchNormalization", "HardSwish"), 2),
    **dict.fromkeys(("Sigmoid", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Shrink"), 3),
    **dict.fromkeys(("Gelu", "Mish", "Swish", "Softmax", "LogSoftmax", "Hardmax"), 5),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "GroupNormalization"), 7),
    **dict.fromkeys(("RMSNormalization", "LpNormalization", "MeanVarianceNormalization"), 4),
    "LRN": 8,
    "GridSample": 7,
}
"""Operations for each element that comes out: a function counts as one, a formula as its steps."""

_EACH_INPUT = {
    **dict.fromkeys(
        _words(
            "GlobalAveragePool GlobalMaxPool ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ArgMax ArgMin CumSum TopK"
        ),
        1,
    ),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"), 2),
    "ReduceLogSumExp": 3,
}
"""Operations for each element that goes in."""
