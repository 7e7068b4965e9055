"""What an ONNX file says about itself, read from its bytes alone.

An interpreter that has TensorRT need not have onnx, and weights need not be read to know which
opset, types and operators a file has; so the fields are walked over and the rest is skipped.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from trtbench.domain.spec import Value
from trtbench.errors import InputError
from trtbench.models.onnx_bytes import fields

TYPES = {1: "fp32", 3: "int8", 10: "fp16", 16: "bf16", 17: "fp8", 19: "fp8"}
"""ONNX numbers of the types that a precision is made of."""

_QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


class Node(Value, frozen=True, kw_only=True):
    """One node of the main graph."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Outline(Value, frozen=True, kw_only=True):
    """The parts of a model that matter before building."""

    ir_version: int
    opset: int | None
    """Of the standard operators."""
    producer: str
    nodes: tuple[Node, ...]
    carried: frozenset[str]
    """Precisions below FP32 that the model's own types ask for: ``fp16 bf16 int8 fp8``."""
    external: tuple[str, ...]
    """Files beside the model that hold its weights."""

    def node(self, index: int) -> Node | None:
        return self.nodes[index] if 0 <= index < len(self.nodes) else None


def outline_of(path: Path) -> Outline:
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


def _model(data: memoryview) -> Outline:
    numbers: dict[int, int] = {}
    texts: dict[int, str] = {}
    opset, graph = None, None
    for field, value in fields(data):
        if isinstance(value, int):
            numbers[field] = value
        elif field in (2, 3):
            texts[field] = str(value, "utf-8", "replace")
        elif field == 7:
            graph = _Graph(value)
        elif field == 8:
            opset = _standard_opset(value) or opset
    if graph is None or 1 not in numbers:
        raise ValueError("there is no graph in it")
    return Outline(
        ir_version=numbers[1],
        opset=opset,
        producer=" ".join(texts[key] for key in (2, 3) if texts.get(key)),
        nodes=tuple(graph.nodes),
        carried=graph.carried(),
        external=tuple(dict.fromkeys(graph.external)),
    )


class _Graph:
    """Gathers nodes and types of one graph and of the graphs within it."""

    def __init__(self, data: memoryview) -> None:
        self.nodes: list[Node] = []
        self.types: dict[str, int] = {}
        self.seen: set[int] = set()
        self.external: list[str] = []
        for field, value in fields(data):
            if isinstance(value, int):
                continue
            if field == 1:
                self.nodes.append(self._node(value))
            elif field == 5:
                self._tensor(value)
            elif field == 11:
                self._input(value)

    def carried(self) -> frozenset[str]:
        """Tell which precisions the types ask for; integers count where they quantize."""
        found = {TYPES[each] for each in self.seen if each in (10, 16)}
        for node in self.nodes:
            if node.operator in _QUANTIZERS and len(node.inputs) > 2:
                found.add(TYPES.get(self.types.get(node.inputs[2], 0), ""))
        return frozenset(found & {"fp16", "bf16", "int8", "fp8"})

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
                inner = _Graph(value)
                self.seen |= inner.seen
                self.external += inner.external
        if name == "to":
            self.seen.add(number)

    def _tensor(self, data: memoryview, name: str | None = None) -> None:
        kind = 0
        for field, value in fields(data):
            if field == 2 and isinstance(value, int):
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

    def _input(self, data: memoryview) -> None:
        """Look into ValueInfo, its TypeProto and that one's tensor type for the element type."""
        path = (2, 1)
        for step in path:
            found = [v for f, v in fields(data) if f == step and not isinstance(v, int)]
            if not found:
                return
            data = found[0]
        self.seen.update(v for f, v in fields(data) if f == 1 and isinstance(v, int))


def _standard_opset(data: memoryview) -> int | None:
    domain, version = "", None
    for field, value in fields(data):
        if field == 1 and not isinstance(value, int):
            domain = str(value, "utf-8")
        elif field == 2 and isinstance(value, int):
            version = value
    return version if domain in ("", "ai.onnx") else None
