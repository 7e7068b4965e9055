"""What an ONNX file says about itself, read from its bytes alone.

An interpreter that has TensorRT need not have onnx, and weights need not be read to know which
opset, types and operators a file has; so the fields are walked over and the rest is skipped.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.domain.spec import MAP, OPTIONAL, SEQUENCE, SPARSE, TensorSpec, Value
from trtbench.errors import InputError
from trtbench.models.onnx_bytes import fields, varints
from trtbench.models.onnx_types import QUANTIZERS, SAME_VALUES, Node, Typed, held_types

TYPES = {1: "fp32", 3: "int8", 10: "fp16", 16: "bf16", 17: "fp8", 19: "fp8"}
"""ONNX numbers of the types that a precision is made of."""

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "str", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
"""numpy's names of the types that inputs have."""
UNTOLD = "unknown"

_SAME_ROWS = ("Cast", "DequantizeLinear", "Identity")
_ROWS, _EMBEDDED = ((0, 1),), ((2, 0), (4, 1))
_LOOKUPS = {
    "Gather": _ROWS,
    "GatherElements": _ROWS,
    "GatherBlockQuantized": _ROWS,
    "EmbedLayerNormalization": _EMBEDDED,
    "QEmbedLayerNormalization": _EMBEDDED,
}
"""Operators that pick rows: which of their inputs are tables, and which pick from them."""
_NO_TENSORS = {4: SEQUENCE, 5: MAP, 8: SPARSE, 9: OPTIONAL}
"""Fields of a type that are no tensors."""
_SIDES = "imgsz"
"""Where Ultralytics keeps the size of images that a dynamic export was made with."""


class ModelOutline(Value, frozen=True, kw_only=True):
    """The parts of a model that matter before building."""

    ir_version: int
    opset: int | None
    """Of the standard operators."""
    producer: str
    nodes: tuple[Node, ...]
    carried: frozenset[str]
    """Precisions below FP32 that the model's own types ask for: ``fp16 bf16 int8 fp8``."""
    held: frozenset[str]
    """Types that its numbers have, for a label: also ``int4 fp4 fp64`` and 8-bit operators."""
    external: tuple[str, ...]
    """Files beside the model that hold its weights."""
    inputs: tuple[TensorSpec, ...] = ()
    """What a caller feeds; stored tensors that are listed as inputs are none."""
    sides: tuple[int, int] | None = None
    """Height and width of the images it was exported for, where the exporter wrote them down."""
    index_limits: Mapping[str, int] = {}
    """For inputs that pick rows of a stored table, such as the ids of words: how many it has."""

    def node(self, index: int) -> Node | None:
        return self.nodes[index] if 0 <= index < len(self.nodes) else None


def outline_of(path: Path) -> ModelOutline:
    """Read the outline of a model, and refuse one that is cut off or misses its weights."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        outline = _model(memoryview(data))
    except (ValueError, IndexError, UnicodeDecodeError) as problem:
        raise InputError(
            f"{path.name} is not a whole ONNX file",
            facts={"file": path, "reason": str(problem) or type(problem).__name__},
            fix="copy or export it again",
        ) from None
    missing = [name for name in outline.external if not (path.parent / name).is_file()]
    if missing:
        raise InputError(
            f"the weights of {path.name} are not beside it",
            facts={"missing": ", ".join(missing[:5]), "folder": path.parent},
            fix="keep the files of an export together",
        )
    return outline


def sides_of(path: Path | str, tensors: Sequence[TensorSpec]) -> tuple[int, int] | None:
    """Tell the height and width an ONNX file was exported for, if one of its images is open."""
    opened = any(len(each.shape) == len("NCHW") and not each.is_static for each in tensors)
    if not opened or not str(path).endswith(".onnx"):
        return None
    try:
        return outline_of(Path(path)).sides
    except (InputError, OSError):  # whoever loads the file says what is wrong with it
        return None


def _model(data: memoryview) -> ModelOutline:
    numbers: dict[int, int] = {}
    texts: dict[int, str] = {}
    opset, graph, sides = None, None, None
    functions: list[_Graph] = []
    for field, value in fields(data):
        if isinstance(value, int):
            numbers[field] = value
        elif field in (2, 3):
            texts[field] = str(value, "utf-8", "replace")
        elif field == 7:
            graph = _Graph(value)
        elif field == 8:
            opset = _standard_opset(value) or opset
        elif field == 14:
            sides = _sides(value) or sides
        elif field == 25:
            functions.append(_Graph(value, function=True))
    if graph is None or 1 not in numbers:
        raise ValueError("there is no graph in it")
    return ModelOutline(
        ir_version=numbers[1],
        opset=opset,
        producer=" ".join(texts[key] for key in (2, 3) if texts.get(key)),
        nodes=tuple(graph.nodes),
        carried=graph.carried(),
        held=held_types(part for each in (graph, *functions) for part in each.typed({})),
        external=tuple(dict.fromkeys(graph.external)),
        inputs=graph.fed(),
        sides=sides,
        index_limits=graph.index_limits(),
    )


class _Graph:
    """Gathers nodes and types of one graph and of the graphs within it."""

    def __init__(self, data: memoryview, *, function: bool = False) -> None:
        self.nodes: list[Node] = []
        self.types: dict[str, int] = {}
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        self.seen: set[int] = set()
        self.external: list[str] = []
        self.inputs: list[TensorSpec] = []
        self.kinds: dict[str, int] = {}
        self.inner: list[_Graph] = []
        for field, value in fields(data):
            if isinstance(value, int):
                continue
            if field == (7 if function else 1):
                self.nodes.append(self._node(value))
            elif field == 5 and not function:
                self._tensor(value)
            elif field == 11 and not function:
                self._input(value)

    def fed(self) -> tuple[TensorSpec, ...]:
        """List what a caller feeds."""
        return tuple(each for each in self.inputs if each.name not in self.types)

    def index_limits(self) -> dict[str, int]:
        """Count the rows of the smallest table that each input picks from."""
        tables, origin = dict(self.sizes), {each.name: each.name for each in self.fed()}
        limits: dict[str, int] = {}
        for node in self.nodes:
            for table, picking in _LOOKUPS.get(node.operator, ()):
                if max(table, picking) >= len(node.inputs):
                    continue
                size, name = tables.get(node.inputs[table]), origin.get(node.inputs[picking])
                axis = self.numbers.get(("".join(node.outputs[:1]), "axis"), 0)
                if size and name is not None and -len(size) <= axis < len(size):
                    limits[name] = min(size[axis], limits.get(name, size[axis]))
            first = node.inputs[0] if node.inputs else ""
            if node.operator in SAME_VALUES and first in origin:
                origin |= dict.fromkeys(node.outputs, origin[first])
            if node.operator in _SAME_ROWS and first in tables:
                tables |= dict.fromkeys(node.outputs, tables[first])
        return limits

    def carried(self) -> frozenset[str]:
        """Tell which precisions the types ask for; integers count where they quantize."""
        found = {TYPES[each] for each in self.seen if each in (10, 16)}
        for node in self.nodes:
            if node.operator in QUANTIZERS and len(node.inputs) > 2:
                found.add(TYPES.get(self.types.get(node.inputs[2], 0), ""))
        return frozenset(found & {"fp16", "bf16", "int8", "fp8"})

    def typed(self, around: Mapping[str, int]) -> Iterator[Typed]:
        """Tell the types of this graph and of those within it, which see what is around them."""
        stored = {**around, **self.types}
        fed = {name: kind for name, kind in self.kinds.items() if name not in self.types}
        yield Typed(self.nodes, stored, fed, self.numbers)
        for each in self.inner:
            yield from each.typed(stored)

    def _node(self, data: memoryview) -> Node:
        inputs: list[str] = []
        outputs: list[str] = []
        texts = {3: "", 4: ""}
        for field, value in fields(data):
            if isinstance(value, int):
                continue
            if field == 5:
                self._attribute(value, outputs)
            elif field in (1, 2):
                (inputs if field == 1 else outputs).append(str(value, "utf-8"))
            elif field in texts:
                texts[field] = str(value, "utf-8")
        return Node(name=texts[3], operator=texts[4], inputs=tuple(inputs), outputs=tuple(outputs))

    def _attribute(self, data: memoryview, outputs: list[str]) -> None:
        name, number = "", 0
        for field, value in fields(data):
            if field == 1 and not isinstance(value, int):
                name = str(value, "utf-8")
            elif field == 3 and isinstance(value, int):
                number = value
            elif field == 5 and not isinstance(value, int):
                self._tensor(value, name=outputs[0] if outputs else None)
            elif field == 6 and not isinstance(value, int):
                self.inner.append(_Graph(value))
                self.seen |= self.inner[-1].seen
                self.external += self.inner[-1].external
        if name == "to":
            self.seen.add(number)
        if outputs:
            number = number if number < 1 << 63 else number - (1 << 64)
            self.numbers[outputs[0], name] = number

    def _tensor(self, data: memoryview, name: str | None = None) -> None:
        kind, size = 0, list[int]()
        for field, value in fields(data):
            if field == 1:
                size += [value] if isinstance(value, int) else varints(value)
            elif field == 2 and isinstance(value, int):
                kind = value
            elif field == 8 and not isinstance(value, int):
                name = name or str(value, "utf-8")
            elif field == 13 and not isinstance(value, int):
                entry = {f: str(v, "utf-8") for f, v in fields(value) if not isinstance(v, int)}
                if entry.get(1) == "location":
                    self.external.append(entry.get(2, ""))
        self.seen.add(kind)
        if name:
            self.types[name] = kind
            self.sizes[name] = tuple(size)

    def _input(self, data: memoryview) -> None:
        """Look into ValueInfo, its TypeProto and that one's tensor type for type and shape."""
        name = "".join(str(part, "utf-8") for part in _parts(data, 1))
        for field, _ in (pair for each in _parts(data, 2) for pair in fields(each)):
            if field in _NO_TENSORS:
                self.inputs.append(TensorSpec(name=name, dtype=_NO_TENSORS[field], shape=()))
        for kind in (tensor for each in _parts(data, 2) for tensor in _parts(each, 1)):
            numbers = [v for f, v in fields(kind) if f == 1 and isinstance(v, int)]
            self.seen.update(numbers)
            if numbers:
                self.kinds[name] = numbers[0]
            dims = [_dim(dim) for shape in _parts(kind, 2) for dim in _parts(shape, 1)]
            dtype = DTYPES.get(numbers[0], UNTOLD) if numbers else UNTOLD
            self.inputs.append(TensorSpec(name=name, dtype=dtype, shape=tuple(dims)))


def _parts(data: memoryview, wanted: int) -> list[memoryview]:
    return [v for f, v in fields(data) if f == wanted and not isinstance(v, int)]


def _dim(data: memoryview) -> int | str | None:
    """Read one dimension: a number, a name, or nothing."""
    for field, value in fields(data):
        if field == 1 and isinstance(value, int):
            return value if value < 1 << 63 else None  # negative numbers wrap round
        if field == 2 and not isinstance(value, int):
            return str(value, "utf-8") or None
    return None


def _sides(data: memoryview) -> tuple[int, int] | None:
    """Read height and width from an entry of the metadata: ``[640, 480]``."""
    entry = {f: str(v, "utf-8", "replace") for f, v in fields(data) if not isinstance(v, int)}
    found = [int(word) for word in re.findall(r"\d{1,5}", entry.get(2, ""))]
    if entry.get(1) != _SIDES or len(found) not in (1, 2) or not all(found):
        return None
    return found[0], found[-1]


def _standard_opset(data: memoryview) -> int | None:
    domain, version = "", None
    for field, value in fields(data):
        if field == 1 and not isinstance(value, int):
            domain = str(value, "utf-8")
        elif field == 2 and isinstance(value, int):
            version = value
    return version if domain in ("", "ai.onnx") else None
