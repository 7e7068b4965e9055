"""Reads opset, types, operators and external files of an ONNX file without the onnx library.

The base install, and an interpreter with TensorRT, may not have onnx. So the protobuf fields are
parsed here, and the weights are skipped.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from trtbench.core.errors import InputError
from trtbench.core.spec import MAP, NO_TENSORS, OPTIONAL, SEQUENCE, SPARSE, TensorSpec, Value

_VARINT, _EIGHT, _BYTES, _GROUP, _GROUP_END, _FOUR = 0, 1, 2, 3, 4, 5

_MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "model": {1: ("ir_version", ""), 7: ("graph", "graph"), 8: ("opsets", "opset"),
              14: ("metadata", "entry"), 25: ("functions", "function")},
    "opset": {1: ("domain", ""), 2: ("version", "")},
    "graph": {1: ("nodes", "node"), 5: ("tensors", "tensor"), 11: ("inputs", "value"),
              15: ("sparse", "sparse")},
    "function": {1: ("operator", ""), 7: ("nodes", "node"), 10: ("domain", ""),
                 13: ("overload", "")},
    "node": {1: ("inputs", ""), 2: ("outputs", ""), 3: ("name", ""), 4: ("operator", ""),
             5: ("attributes", "attribute"), 7: ("domain", ""), 8: ("overload", "")},
    "attribute": {1: ("name", ""), 3: ("i", ""), 5: ("t", "tensor"), 6: ("g", "graph"),
                  10: ("ts", "tensor"), 11: ("gs", "graph"), 22: ("s", "sparse"),
                  23: ("ss", "sparse")},
    "sparse": {1: ("values", "tensor"), 2: ("indices", "tensor")},
    "tensor": {1: ("dims", ""), 2: ("type", ""), 8: ("name", ""), 13: ("external", "entry")},
    "entry": {1: ("key", ""), 2: ("value", "")},
    "value": {1: ("name", ""), 2: ("type", "type")},
    "type": {1: ("tensor", "tensor type"), 4: (SEQUENCE, ""), 5: (MAP, ""), 8: (SPARSE, ""),
             9: (OPTIONAL, "")},
    "tensor type": {1: ("type", ""), 2: ("shape", "shape")},
    "shape": {1: ("dims", "dim")},
    "dim": {1: ("number", ""), 2: ("name", "")},
}  # fmt: skip
"""Fields of each message to read, with the type of a nested message; others are skipped."""

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "str", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
"""numpy's names of the types of inputs, by their number in ONNX."""
UNKNOWN_TYPE = "unknown"
MOST_EXPANDED = 50_000
"""The most nodes of a model with its functions expanded, unless a tenth of them is written."""
_FLOATS = {1: "fp32", 10: "fp16", 11: "fp64", 16: "bf16"}
_PACKED = {17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8", 21: "int4", 22: "int4", 23: "fp4",
           25: "int2", 26: "int2"}  # fmt: skip
_STORED = {2: "int8", 3: "int8", 4: "int16", 5: "int16", **_PACKED}
"""Types of quantized tensors; other integers may be indices or pixels."""

_QUANTIZE, _DEQUANTIZE = _QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
_SAME_VALUES = ("Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze",
                "Tile", "Transpose", "Unsqueeze")  # fmt: skip
"""Operators that only return values of their first input."""
_IN_8_BITS = re.compile(
    r"QLinear|QOrdered|QAttention|QGemm|QEmbed|DynamicQuantize|(Conv|MatMul)Integer(?!16)"
)
"""Operators that compute in 8 bits."""
_IN_BITS = {"MatMulNBits": "bits", "GatherBlockQuantized": "bits", "QMoE": "expert_weight_bits"}
"""Operators with packed weights, and the attribute with the number of bits."""
_LOOKUPS: Mapping[str, Sequence[tuple[int, int]]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherBlockQuantized"), ((0, 1),)),
    **dict.fromkeys(("EmbedLayerNormalization", "QEmbedLayerNormalization"), ((2, 0), (4, 1))),
}
"""Operators that look up rows: the positions of their table and index inputs."""

_Message = dict[str, list[Any]]


class Node(Value, frozen=True, kw_only=True):
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class ModelOutline(Value, frozen=True, kw_only=True):
    """What must be known of a model before it is built."""

    opset: int | None  # the opset of the standard operators
    nodes: tuple[Node, ...]
    carried: frozenset[str]
    """Precisions below FP32 that the types in the model require: ``fp16 bf16 int8 fp8``."""
    held: frozenset[str]
    """Types the model computes with, for a label: also ``int4 fp4 fp64`` and 8-bit operators."""
    inputs: tuple[TensorSpec, ...] = ()
    """Inputs that a caller feeds, without weights that are listed as inputs."""
    metadata: Mapping[str, str] = {}
    index_limits: Mapping[str, int] = {}
    """The number of rows of the table that an input indexes, such as token ids."""
    fixed: Mapping[str, Mapping[int, int]] = {}
    """Sizes that operators require, by input and dimension; negative ones count from the end."""
    states: frozenset[str] = frozenset()
    """Inputs that are the first state of a recurrent layer."""

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width of its images, if the exporter stored them: ``[640, 480]``."""
        keys = ("imgsz", "image_size", "img_size", "input_size")
        text = next((self.metadata[key] for key in keys if key in self.metadata), "")
        found = [int(word) for word in re.findall(r"\d{1,5}", text)]
        return (found[0], found[-1]) if len(found) in (1, 2) and all(found) else None


def external_names(data: memoryview) -> tuple[tuple[str, ...], bool]:
    """Return the external files of a model, and whether its functions expand without end.

    All that protobuf accepts is read here too, so that no name can be hidden: groups, tags
    with extra bits, and text that is not UTF-8. Damage is a ValueError or an IndexError.
    """
    model = _read(data)
    return tuple(dict.fromkeys(_locations(model))), _is_endless(model)


def _is_endless(model: _Message) -> bool:
    """Whether functions that call one another expand to far more nodes than are written.

    Runtimes expand them before anything else, which takes minutes for 100 000 nodes.
    """
    if not model["functions"] or not model["graph"]:
        return False
    calls = {_function(each): Counter(map(_function, _nodes(each))) for each in model["functions"]}
    inner = {name: called.keys() & calls.keys() for name, called in calls.items()}
    main = Counter(map(_function, _nodes(model["graph"][-1])))
    most = max(MOST_EXPANDED, 10 * (main.total() + sum(each.total() for each in calls.values())))
    sizes: dict[tuple[str, ...], int] = {}
    with suppress(CycleError):  # runtimes refuse functions that call themselves
        for name in TopologicalSorter(inner).static_order():
            called = calls[name].items()
            sizes[name] = min(sum(count * sizes.get(each, 1) for each, count in called), most + 1)
    return sum(count * sizes.get(each, 1) for each, count in main.items()) > most


def _function(message: _Message) -> tuple[str, ...]:
    """Return what identifies the function that a node calls, or that is defined."""
    return tuple(_text(message, name, "replace") for name in ("domain", "operator", "overload"))


def _nodes(message: _Message) -> Iterator[_Message]:
    """Yield the nodes of a graph or a function, and those of the graphs inside them."""
    for node in message["nodes"]:
        yield node
        for attribute in node["attributes"]:
            for graph in (*attribute["g"], *attribute["gs"]):
                yield from _nodes(graph)


def outline_of(path: Path) -> ModelOutline:
    """Return the outline of a model; a truncated file is an error."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _outline(_read(memoryview(data)))
    except (ValueError, IndexError) as problem:
        message = f"{path.name} is not a whole ONNX file"
        facts = {"file": path, "reason": str(problem) or type(problem).__name__}
        raise InputError(message, facts=facts, fix="copy or export it again") from None


def quantized_type(operator: str) -> str | None:
    """Return the type of a quantized operator; for packed weights, the usual type."""
    if operator in _IN_BITS:
        return "int4"
    return "int8" if _IN_8_BITS.match(operator) else None


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a message; fixed-size numbers are skipped."""
    at, end, groups = 0, len(data), 0
    while at < end:
        key, at = _varint(data, at)
        # Protobuf ignores extra bits of a tag, so a field can be hidden there.
        field, kind = (key & 0xFFFFFFFF) >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield field, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > end:
                raise ValueError("it ends in the middle of a field")
            yield field, data[at : at + size]
            at += size
        elif kind in (_EIGHT, _FOUR):
            at += 8 if kind == _EIGHT else 4
        elif kind == _GROUP or (kind == _GROUP_END and groups):
            groups += 1 if kind == _GROUP else -1  # fields of a group are read like others
        else:
            raise ValueError("it holds what no ONNX file holds")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 70:
            raise ValueError("it holds a number that never ends")


def _read(data: memoryview, kind: str = "model", left: int = 300) -> _Message:
    if left == 0:  # protobuf stops at 100 nested messages
        raise ValueError("it is nested too deeply")
    known, found = _MESSAGES[kind], defaultdict[str, list[Any]](list)
    for field, value in _fields(data):
        name, inner = known.get(field, ("", ""))
        if not name:
            continue
        if not inner:
            found[name].append(value)
        elif not isinstance(value, int):
            found[name].append(_read(value, inner, left - 1))
    return found


def _locations(message: _Message) -> Iterator[str]:
    for name, values in message.items():
        for each in values:
            if name == "external" and _text(each, "key", "surrogateescape") == "location":
                yield _text(each, "value", "surrogateescape")
            elif isinstance(each, dict):
                yield from _locations(each)


def _text(message: _Message, name: str, errors: str = "strict") -> str:
    texts = (str(v, "utf-8", errors) for v in reversed(message[name]) if not isinstance(v, int))
    return next(texts, "")


def _texts(message: _Message, name: str) -> tuple[str, ...]:
    return tuple(str(value, "utf-8") for value in message[name] if not isinstance(value, int))


def _number(message: _Message, name: str) -> int:
    """Return the last value of a field as a signed 64-bit number."""
    value = next((v for v in reversed(message[name]) if isinstance(v, int)), 0)
    return value if value < 1 << 63 else value - (1 << 64)


def _outline(model: _Message) -> ModelOutline:
    if not model["graph"] or not model["ir_version"]:
        raise ValueError("there is no graph in it")
    graph = _Graph(model["graph"][-1])
    opsets = [_number(each, "version") for each in model["opsets"]
              if _text(each, "domain") in ("", "ai.onnx")]  # fmt: skip
    graphs = [graph, *map(_Graph, model["functions"])]
    held = {name for each in graphs for name in each.types_used({})}
    limits, fixed, states = graph.uses()
    return ModelOutline(
        opset=next((each for each in reversed(opsets) if each), None),
        nodes=tuple(graph.nodes),
        carried=graph.carried(),
        held=frozenset(held if held == {"fp64"} else held - {"fp32", "fp64"}),
        inputs=graph.fed,
        metadata={
            _text(entry, "key", "replace"): _text(entry, "value", "replace")
            for entry in model["metadata"]
        },
        index_limits=limits,
        fixed=fixed,
        states=states,
    )


class _Graph:
    def __init__(self, graph: _Message) -> None:
        self.nodes: list[Node] = []
        self.types: dict[str, int] = {}  # types of weights and constants, by name
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        """Integer attributes, by the first output of the node and their name."""
        self.seen: set[int] = set()
        self.kinds: dict[str, int] = {}  # types of inputs
        self.inner: list[_Graph] = []
        for node in graph["nodes"]:
            outputs = _texts(node, "outputs")
            output = _first(outputs)
            for attribute in node["attributes"]:
                name, number = _text(attribute, "name"), _number(attribute, "i")
                for tensor in attribute["t"]:
                    self._tensor(tensor, output or _text(tensor, "name"))
                for body in attribute["g"]:
                    self.inner.append(_Graph(body))
                    self.seen |= self.inner[-1].seen
                if name == "to":
                    self.seen.add(number)
                if output:
                    self.numbers[output, name] = number
            name, operator = _text(node, "name"), _text(node, "operator")
            inputs = _texts(node, "inputs")
            self.nodes.append(Node(name=name, operator=operator, inputs=inputs, outputs=outputs))
        for tensor in graph["tensors"]:
            self._tensor(tensor, _text(tensor, "name"))
        every = [each for value in graph["inputs"] for each in self._inputs(value)]
        self.fed = tuple(each for each in every if each.name not in self.types)
        """Inputs that a caller feeds."""

    def _tensor(self, tensor: _Message, name: str) -> None:
        kind = _number(tensor, "type")
        self.seen.add(kind)
        if not name:
            return
        self.types[name], size = kind, list[int]()
        for value in tensor["dims"]:
            if isinstance(value, int):
                size.append(value)
                continue
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                size.append(number)
        self.sizes[name] = tuple(size)

    def _inputs(self, value: _Message) -> Iterator[TensorSpec]:
        name = "".join(_texts(value, "name"))
        for kind in value["type"]:
            for other in filter(kind.get, NO_TENSORS):
                yield TensorSpec(name=name, dtype=other, shape=())
            for tensor in kind["tensor"]:
                number = _number(tensor, "type")
                self.seen.add(number)
                if number:
                    self.kinds[name] = number
                dims: list[int | str | None] = []
                for dim in (dim for shape in tensor["shape"] for dim in shape["dims"]):
                    size = _number(dim, "number") if dim["number"] else -1  # negative means unknown
                    dims.append(size if size >= 0 else _text(dim, "name") or None)
                yield TensorSpec(
                    name=name, dtype=DTYPES.get(number, UNKNOWN_TYPE), shape=tuple(dims)
                )

    def uses(self) -> tuple[dict[str, int], dict[str, dict[int, int]], frozenset[str]]:
        """Return what operators require of inputs.

        The rows of the smallest table that each input indexes, sizes by dimension, and states.
        """
        tables, origin = dict(self.sizes), {each.name: each.name for each in self.fed}
        limits: dict[str, int] = {}
        fixed: dict[str, dict[int, int]] = {name: {} for name in origin}
        states: set[str] = set()
        same_shape = dict(origin)
        for node in self.nodes:
            first, output = _first(node.inputs), _first(node.outputs)
            for table, picking in _LOOKUPS.get(node.operator, ()):
                if max(table, picking) >= len(node.inputs):
                    continue
                size, name = tables.get(node.inputs[table]), origin.get(node.inputs[picking])
                axis = self.numbers.get((output, "axis"), 0)
                if size and name is not None and -len(size) <= axis < len(size):
                    limits[name] = min(size[axis], limits.get(name, size[axis]))
            weight = tables.get(node.inputs[1], ()) if len(node.inputs) > 1 else ()
            known = fixed.get(same_shape.get(first, ""), {})
            if node.operator in ("GRU", "LSTM", "RNN"):
                states |= {origin[name] for name in node.inputs[5:7] if name in origin}
                if weight:
                    known[-1] = weight[-1]
            elif node.operator == "Conv" and len(weight) > 1:
                known[1] = weight[1] * (self.numbers.get((output, "group")) or 1)
            elif node.operator in ("MatMul", "Gemm") and len(weight) > 1:
                known[-1] = weight[-1 if self.numbers.get((output, "transB")) else -2]
            elif node.operator in ("Cast", "Identity", "Relu", *_QUANTIZERS):
                same_shape |= dict.fromkeys(node.outputs, same_shape.get(first, ""))
            if node.operator in _SAME_VALUES and first in origin:
                origin |= dict.fromkeys(node.outputs, origin[first])
            if node.operator in ("Cast", _DEQUANTIZE, "Identity") and first in tables:
                tables |= dict.fromkeys(node.outputs, tables[first])
        return limits, fixed, frozenset(states)

    def carried(self) -> frozenset[str]:
        """Return the precisions that the types require; integers count if quantized."""
        zeros = [node.inputs[2] for node in self.nodes
                 if node.operator in _QUANTIZERS and len(node.inputs) > 2]  # fmt: skip
        built = {3: "int8", 17: "fp8", 19: "fp8"}  # quantized types that TensorRT builds
        quantized = {built.get(self.types.get(name, 0), "") for name in zeros}
        return frozenset({_FLOATS[each] for each in self.seen & {10, 16}} | quantized - {""})

    def types_used(self, around: Mapping[str, int]) -> Iterator[str]:
        """Yield the types that are stored or computed with, here and in subgraphs.

        Types of inputs, and of values that are only cast to be returned, do not count.
        """
        stored = {**around, **self.types}
        fed = {name: kind for name, kind in self.kinds.items() if name not in self.types}
        kinds, known = {**fed, **stored}, {**_FLOATS, **_PACKED}
        yield from (known[kind] for kind in stored.values() if kind in known)
        for node in self.nodes:
            first = kinds.get(_first(node.inputs), 0)
            if node.operator in (*_SAME_VALUES, "Concat", "Pad", "Shape", "Size", "Split"):
                if node.operator in ("Shape", "Size"):
                    first = 0
                elif node.operator == "Cast":
                    first = self.numbers.get((_first(node.outputs), "to"), 0)
                kinds |= dict.fromkeys(node.outputs, first)
                continue
            taken = (kinds.get(name, 0) for name in node.inputs)
            yield from (_FLOATS[kind] for kind in taken if kind in _FLOATS)
            yield from self._quantized_types(node, kinds, fed)
        for each in self.inner:
            yield from each.types_used(stored)

    def _quantized_types(
        self, node: Node, kinds: Mapping[str, int], fed: Mapping[str, int]
    ) -> Iterable[str]:
        """Return the quantized types that a node produces, unpacks or computes in."""
        if node.operator in _IN_BITS:
            bits = self.numbers.get((_first(node.outputs), _IN_BITS[node.operator]), 4)
            return {f"int{bits}"} if bits in (2, 4, 8) else ()
        if node.operator == "MatMulBnb4":
            return {"fp4"}
        if node.operator not in _QUANTIZERS:
            return {"int8"} if _IN_8_BITS.match(node.operator) else ()
        if node.operator == _DEQUANTIZE and _first(node.inputs) in fed:
            return ()  # quantized input images
        taken = node.inputs[:1] if node.operator == _DEQUANTIZE else ()
        found = {kinds.get(name, 0) for name in (*taken, *node.inputs[2:3])}
        if node.operator == _QUANTIZE and not any(node.inputs[2:3]):
            # The default output is uint8.
            found = {self.numbers.get((_first(node.outputs), "output_dtype"), 0) or 2}
        return {_STORED[kind] for kind in found if kind in _STORED}


def _first(names: Iterable[str]) -> str:
    return next(iter(names), "")
