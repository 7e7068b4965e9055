"""An ONNX model as plain values, what its nodes cost, and what trtbench writes into its metadata.

A multiply-add counts as two operations. Traffic is what a node must at least read and write when
nothing is fused: a lower bound for one node alone, an upper bound for a model that an engine fuses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from trtbench.core.run import Scalar
from trtbench.core.spec import TensorSpec, Value

BITS = {
    "float64": 64, "int64": 64, "uint64": 64, "complex64": 64, "complex128": 128,
    "float32": 32, "int32": 32, "uint32": 32,
    "float16": 16, "bfloat16": 16, "int16": 16, "uint16": 16,
    "int8": 8, "uint8": 8, "bool": 8,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
    "int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2,
}  # fmt: skip
SHORT = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8e4m3fn": "fp8", "float8e4m3fnuz": "fp8", "float8e5m2": "fp8", "float8e5m2fnuz": "fp8",
    "float4e2m1": "fp4",
}  # fmt: skip
"""What people call a type."""

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


class OnnxTensor(Value, frozen=True, kw_only=True):
    """A tensor at the edge of a node."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    """``None`` when inference could not even tell the rank."""
    weight: bool = False

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The shape when every dimension is known."""
        if self.shape is None or not all(isinstance(dim, int) for dim in self.shape):
            return None
        return tuple(int(dim) for dim in self.shape if isinstance(dim, int))

    @property
    def elements(self) -> int | None:
        return None if self.dims is None else math.prod(self.dims)

    @property
    def size_bytes(self) -> int | None:
        bits = BITS.get(self.dtype or "")
        return None if bits is None or self.elements is None else -(-self.elements * bits // 8)


class OnnxNode(Value, frozen=True, kw_only=True):
    """One operator."""

    name: str
    op: str
    domain: str = ""
    inputs: tuple[OnnxTensor, ...] = ()
    """An optional input that is left out has the empty name."""
    outputs: tuple[OnnxTensor, ...] = ()
    attributes: dict[str, Attribute] = {}
    quantized: str | None = None
    """Type of its data inputs behind DequantizeLinear, where all of them are."""

    @property
    def precision(self) -> str:
        """What it is computed in, as far as the file tells: ``fp16``, ``int8 (Q/DQ)``, ..."""
        if self.quantized is not None:
            return f"{short_dtype(self.quantized)} (Q/DQ)"
        edges = [*self.inputs, *self.outputs]
        floats = [each.dtype for each in edges if each.dtype in SHORT]
        known = floats or [each.dtype for each in edges if each.dtype]
        return short_dtype(known[0]) if known else "unknown"


class OnnxModel(Value, frozen=True, kw_only=True):
    """What an ONNX file holds."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: tuple[OnnxNode, ...]
    opsets: dict[str, int]
    ir_version: int
    producer: str | None
    metadata: dict[str, str]
    parameters: int
    """Elements of all stored weights; scales, zero points, indices and shapes are not counted."""
    weight_bytes: int
    weights_by_type: dict[str, int]
    external_files: tuple[str, ...] = ()
    assumed: dict[str, int] = {}
    """Values that open dimensions were given for the estimates."""
    notes: tuple[str, ...] = ()

    @property
    def opset(self) -> int | None:
        return self.opsets.get("")

    def operators(self) -> dict[tuple[str, str], int]:
        """Nodes by kind and precision, the most frequent first."""
        return dict(Counter((node.op, node.precision) for node in self.nodes).most_common())


def short_dtype(dtype: str) -> str:
    """A type as precisions are named: ``float16`` is ``fp16``; integers keep their names."""
    return SHORT.get(dtype, dtype)


Count = int | None


class NodeCost(Value, frozen=True, kw_only=True):
    """What one node costs; ``None`` where the shapes or the operator are not known."""

    name: str
    op: str
    precision: str
    flops: Count
    read_bytes: Count
    weight_bytes: Count
    written_bytes: Count
    output: str

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


def cost_from_model(model: OnnxModel) -> ModelCost:
    """Estimate every node, and the sums."""
    nodes = tuple(cost_from_node(node) for node in model.nodes)
    settled = {each.name: each for node in model.nodes for each in (*node.inputs, *node.outputs)}
    edges = [
        settled.get(spec.name) or OnnxTensor(name=spec.name, dtype=spec.dtype, shape=spec.shape)
        for spec in (*model.inputs, *model.outputs)
    ]
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
    read = weights = written = _total(each.size_bytes for each in node.outputs if each.name)
    if node.op in _VIEWS:
        read = weights = written = 0
    elif node.op in _PICKS:  # reads only what it gives, of a table that may be large
        weights = 0
    else:
        named = [each for each in node.inputs if each.name]
        if node.quantized is not None:
            named = [each.having(dtype=node.quantized) for each in named]
        read = _total(each.size_bytes for each in named if not each.weight)
        weights = _total(each.size_bytes for each in named if each.weight)
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
    """Operations of one node; ``None`` when its kind or its shapes are unknown."""
    if node.op in _NO_ARITHMETIC:
        return 0
    if node.op in _EACH_OUTPUT:
        return _times(_EACH_OUTPUT[node.op], _size(node.outputs))
    if node.op in _EACH_INPUT:
        return _times(_EACH_INPUT[node.op], _size(node.inputs))
    rule = _RULES.get(node.op)
    return rule(node) if rule else None


def _conv(node: OnnxNode) -> Count:
    """Count a dot product over C/g channels and the kernel for every output element.

    A transposed one has M/g channels and the kernel for every input element.
    """
    quantized, transposed = node.op == "QLinearConv", node.op == "ConvTranspose"
    weight = _dims(node.inputs, 3 if quantized else 1)
    places, outputs = _size(node.inputs if transposed else node.outputs), _size(node.outputs)
    if weight is None or places is None or outputs is None:
        return None
    return 2 * places * math.prod(weight[1:]) + _bias(node, 8 if quantized else 2, outputs)


def _matmul(node: OnnxNode) -> Count:
    left, outputs = _dims(node.inputs, 0), _size(node.outputs)
    if not left or outputs is None or (node.op == "Gemm" and len(left) != 2):
        return None
    inner = left[0] if node.op == "Gemm" and node.attributes.get("transA") else left[-1]
    return 2 * outputs * inner + (_bias(node, 2, outputs) if node.op == "Gemm" else 0)


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
    return 2 * data[0] * data[1] * (math.prod(weight) + math.prod(state))


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
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"), _conv),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"), _matmul),
    "Einsum": _einsum,
    "Attention": _attention,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), _pool),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Sum", "Mean", "Max", "Min"), _combine),
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


PREFIX = "trtbench."
RANDOM = "random"
RANDOM_DATA = "random data"
"""What every note about such scales says, on whatever is made from them."""

PREPARATION = "preparation"
"""How images for calibration were prepared, as JSON."""

KEYS = (
    "step", "precision", "method", "calibration", "calibration_sha256", "source_sha256",
    PREPARATION,
)  # fmt: skip
"""In metadata_props, each with the prefix."""


def stamp_from_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """What a conversion wrote, without the prefix; empty for any other model."""
    return {key: metadata[PREFIX + key] for key in KEYS if metadata.get(PREFIX + key) is not None}


def text_from_preparation(facts: Mapping[str, object]) -> str:
    """How images were prepared, as one text."""
    return msgspec.json.encode(dict(facts), order="sorted").decode()


def preparation_from_text(text: object) -> dict[str, Scalar]:
    """That text read back; empty for anything else."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, Scalar])
    except msgspec.MsgspecError:
        return {}


def words_from_preparation(facts: Mapping[str, object]) -> str:
    """How images were prepared, for people to read."""
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def notes_from_metadata(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """What whoever uses the model's numbers must know of how it was made."""
    stamp = stamp_from_metadata(metadata)
    if stamp.get("calibration") == RANDOM:
        return (random_note(stamp.get("precision", "int8")),)
    return ()


def random_note(precision: str) -> str:
    """What scales from random data are good for."""
    return f"{precision} calibrated with {RANDOM_DATA}: speed is meaningful, accuracy is not"
