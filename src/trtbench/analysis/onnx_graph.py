"""An ONNX model as plain values, the cost of its nodes, and trtbench's entries in its metadata.

A multiply-add counts as two operations. Traffic is what nodes read and write without fusion: a
lower bound for a single node, an upper bound for a model whose nodes are fused.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from trtbench.core.run import Scalar
from trtbench.core.spec import TensorSpec, Value
from trtbench.data import data_rows

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
"""Short names of types."""

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


class OnnxTensor(Value, frozen=True, kw_only=True):
    """An input or output of a node."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None  # ``None``: not even the rank is known
    weight: bool = False

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The shape if every dimension is known, else ``None``."""
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
    name: str
    op: str
    domain: str = ""
    inputs: tuple[OnnxTensor, ...] = ()  # an omitted optional input has an empty name
    outputs: tuple[OnnxTensor, ...] = ()
    attributes: dict[str, Attribute] = {}
    quantized: str | None = None  # type before DequantizeLinear, if all inputs come from one

    @property
    def precision(self) -> str:
        """The type it computes in, as far as the file shows: ``fp16``, ``int8 (Q/DQ)``, ..."""
        if self.quantized is not None:
            return f"{short_dtype(self.quantized)} (Q/DQ)"
        edges = [*self.inputs, *self.outputs]
        floats = [each.dtype for each in edges if each.dtype in SHORT]
        known = floats or [each.dtype for each in edges if each.dtype]
        return short_dtype(known[0]) if known else "unknown"


class OnnxModel(Value, frozen=True, kw_only=True):
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: tuple[OnnxNode, ...]
    opsets: dict[str, int]
    ir_version: int
    producer: str | None
    metadata: dict[str, str]
    parameters: int  # of all stored weights, without scales, zero points and shapes
    weight_bytes: int
    weights_by_type: dict[str, int]
    external_files: tuple[str, ...] = ()
    assumed: dict[str, int] = {}  # values assumed for dynamic dimensions in the estimates
    notes: tuple[str, ...] = ()

    @property
    def opset(self) -> int | None:
        return self.opsets.get("")


def short_dtype(dtype: str) -> str:
    """Return the short name of a type: ``fp16`` for ``float16``; integers keep their names."""
    return SHORT.get(dtype, dtype)


Count = int | None


class NodeCost(Value, frozen=True, kw_only=True):
    """The cost of one node; ``None`` where shapes or the operator are unknown."""

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
        moved = self.traffic_bytes
        return self.flops / moved if self.flops is not None and moved else None


class ModelCost(Value, frozen=True, kw_only=True):
    """The cost of a model; sums are over the nodes whose cost is known."""

    nodes: tuple[NodeCost, ...]
    flops: int
    traffic_bytes: int
    fused_bytes: Count  # weights, inputs and outputs, if everything else stays on chip
    unknown: tuple[str, ...] = ()


def cost_from_model(model: OnnxModel) -> ModelCost:
    """Estimate the cost of every node, and the sums."""
    nodes = tuple(cost_from_node(node) for node in model.nodes)
    known = {each.name: each for node in model.nodes for each in (*node.inputs, *node.outputs)}
    edges = [
        known.get(spec.name) or OnnxTensor(name=spec.name, dtype=spec.dtype, shape=spec.shape)
        for spec in (*model.inputs, *model.outputs)
    ]
    traffic = sum(node.traffic_bytes or 0 for node in nodes)
    fused = _total([model.weight_bytes, *(edge.size_bytes for edge in edges)])
    if fused is not None and all(node.traffic_bytes is not None for node in nodes):
        fused = min(fused, traffic)  # lookups only read some rows of their tables
    flops = sum(node.flops or 0 for node in nodes)
    unknown = tuple(dict.fromkeys(node.op for node in nodes if node.flops is None))
    return ModelCost(
        nodes=nodes, flops=flops, traffic_bytes=traffic, fused_bytes=fused, unknown=unknown
    )


def cost_from_node(node: OnnxNode) -> NodeCost:
    shape = node.outputs[0].shape if node.outputs else None
    read = weights = written = _total(each.size_bytes for each in node.outputs if each.name)
    if node.op in _NO_COPY:
        read = weights = written = 0
    elif node.op in _PARTIAL_READS:  # reads as much as it writes, from a tensor that may be large
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


def moved_by(nodes: Sequence[OnnxNode], readers: Mapping[str, Set[str]]) -> Count:
    """Count the bytes that nodes read and write if they are computed as one, each tensor once.

    ``readers`` are the nodes that read each tensor, with an empty name if it leaves the model.
    """
    made = {each.name: node for node in nodes for each in node.outputs}
    names = {node.name for node in nodes}
    moved: dict[str, Count] = {}

    def origin(tensor: OnnxTensor) -> str:
        """Return the tensor that this one is, behind nodes that copy nothing."""
        for _ in made:  # no chain is longer, unless it is a circle
            maker = made.get(tensor.name)
            if maker is None or maker.op not in _NO_COPY or not maker.inputs:
                break
            tensor = maker.inputs[0]
        return tensor.name

    for node in nodes:
        partial, written = node.op in _PARTIAL_READS, _total(x.size_bytes for x in node.outputs)
        read = node.inputs[:1] if partial else node.inputs
        for each in read if node.op not in _NO_COPY else ():
            if each.name and (name := origin(each)) not in made:
                size = each.having(dtype=node.quantized or each.dtype).size_bytes
                moved[name] = written if partial else size
        for each in node.outputs:
            if readers.get(each.name, {""}) - names and (name := origin(each)) in made:
                moved[name] = each.size_bytes
    return _total(moved.values())


def flops_of(node: OnnxNode) -> Count:
    """Count the operations of one node; ``None`` if its operator or shapes are unknown."""
    op, attributes, inputs = node.op, node.attributes, node.inputs
    taken, outputs = (x[0].elements if x else None for x in (inputs, node.outputs))
    dims = [each.dims for each in inputs]
    first, second, third = [*dims, None, None, None][:3]

    def bias(index: int) -> int:
        return (outputs or 0) if len(inputs) > index and inputs[index].name else 0

    each: int | None = None  # operations per output element
    if op in _NO_ARITHMETIC:
        return 0
    if op in _EACH_INPUT:
        return None if taken is None else _EACH_INPUT[op] * taken
    if op in _EACH_OUTPUT:
        each = _EACH_OUTPUT[op]
    elif op in ("Sum", "Mean", "Max", "Min"):  # over n tensors
        each = max(1, len(inputs) - 1)
    elif op in ("AveragePool", "MaxPool", "LpPool"):
        kernel = attributes.get("kernel_shape")
        each = int(math.prod(kernel)) if isinstance(kernel, tuple) else None
    elif op in ("Resize", "Upsample"):  # linear blends two values per scaled axis, cubic four
        each = {"nearest": 0, "linear": 7, "cubic": 35}.get(str(attributes.get("mode", "nearest")))
    elif op in ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"):
        # A dot product over C/g channels and the kernel per output element; transposed
        # convolutions have M/g channels and the kernel per input element.
        weight = (dims[3] if len(dims) > 3 else None) if op == "QLinearConv" else second
        places = taken if op == "ConvTranspose" else outputs
        if weight is None or places is None or outputs is None:
            return None
        return 2 * places * math.prod(weight[1:]) + bias(8 if op == "QLinearConv" else 2)
    elif op in ("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"):
        if not first or outputs is None or (op == "Gemm" and len(first) != 2):
            return None
        inner = first[0] if op == "Gemm" and attributes.get("transA") else first[-1]
        return 2 * outputs * inner + (bias(2) if op == "Gemm" else 0)
    elif op == "Einsum":
        # A multiply-add per combination of indices; a single input needs no product.
        terms = str(attributes.get("equation", "")).replace(" ", "").split("->")[0].split(",")
        if "." in "".join(terms) or len(terms) != len(inputs):
            return None
        sizes: dict[str, int] = {}
        for term, shape in zip(terms, dims, strict=True):
            if shape is None or len(shape) != len(term):
                return None
            sizes.update(zip(term, shape, strict=True))
        return math.prod(sizes.values()) * (2 if len(terms) > 1 else 1)
    elif op == "Attention" and first is not None and second is not None and third is not None:
        # Scores and weighted sum: 2·B·H·S·T·(d + e), which is 4·B·H·S²·d for equal sizes.
        heads, shared = (attributes.get(name) for name in ("q_num_heads", "kv_num_heads"))
        if len(first) == 4:
            return 2 * first[0] * first[1] * first[2] * second[2] * (first[3] + third[3])
        if isinstance(heads, int) and isinstance(shared, int):
            wide = first[2] // heads + third[2] // shared
            return 2 * first[0] * heads * first[1] * second[1] * wide
    elif op in ("LSTM", "GRU", "RNN") and first and second is not None and third is not None:
        # Matrix products of inputs and states, for every gate, step and direction.
        return 2 * first[0] * first[1] * (math.prod(second) + math.prod(third))
    return None if each is None or outputs is None else each * outputs


def _total(parts: Iterable[Count]) -> Count:
    found = list(parts)
    return None if any(part is None for part in found) else sum(part or 0 for part in found)


_COUNTS = {(cost, per): frozenset(names.split()) for cost, per, names in data_rows("operators.txt")}
_NO_COPY = _COUNTS["copies nothing", ""]  # engines fuse Q/DQ pairs into their neighbours
_PARTIAL_READS = _COUNTS["reads in part", ""]
_NO_ARITHMETIC = _NO_COPY | _PARTIAL_READS | _COUNTS["0", "output"]
_EACH_OUTPUT, _EACH_INPUT = (
    {
        op: int(cost)
        for (cost, of), ops in _COUNTS.items()
        if of == per and cost != "0"
        for op in ops
    }
    for per in ("output", "input")
)

PREFIX = "trtbench."
RANDOM = "random"
RANDOM_DATA = "random data"  # in every note about scales from random calibration data

PREPARATION = "preparation"  # how images for calibration were prepared, as JSON

KEYS = (
    "step", "precision", "method", "calibration", "calibration_sha256", "source_sha256",
    PREPARATION,
)  # fmt: skip
"""Keys in metadata_props, each with the prefix."""


def stamp_from_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return trtbench's entries in the metadata, without the prefix."""
    return {key: metadata[PREFIX + key] for key in KEYS if metadata.get(PREFIX + key) is not None}


def text_from_preparation(facts: Mapping[str, object]) -> str:
    return msgspec.json.encode(dict(facts), order="sorted").decode()


def preparation_from_text(text: object) -> dict[str, Scalar]:
    """Decode the JSON of `text_from_preparation`; empty if it is not valid."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, Scalar])
    except msgspec.MsgspecError:
        return {}


def describe_preparation(facts: Mapping[str, object]) -> str:
    """Describe how images were prepared, for tables and messages."""
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def notes_from_metadata(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings about how the model was made."""
    stamp = stamp_from_metadata(metadata)
    if stamp.get("calibration") == RANDOM:
        return (random_calibration_note(stamp.get("precision", "int8")),)
    return ()


def random_calibration_note(precision: str) -> str:
    """Return the warning about scales from random calibration data."""
    return f"{precision} calibrated with {RANDOM_DATA}: speed is meaningful, accuracy is not"
