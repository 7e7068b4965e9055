"""Makes models in between two: some parts in the reference's precision, the rest as it is.

And a stand-in that computes every FP16 or BF16 tensor in FP32 and rounds it: ONNX Runtime's CPU has
no BF16, and leaves out roundings between FP16 nodes it has no kernels for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.build.cast_rewrite import drop_unused
from trtbench.build.cast_types import FLOAT, tensor_types
from trtbench.build.localize_graph import LOW, Graph, Part, TwoGraphs
from trtbench.build.onnx_file import (
    load_onnx,
    reads_of,
    save_onnx,
    sort_nodes,
    stored_tensors,
    subgraphs,
)
from trtbench.errors import InputError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

EXACT = "_exact"
"""Behind the name of a tensor of the stand-in: the same before it is rounded."""
KEPT = "_kept"
"""Behind the names of what comes from the reference, where the candidate has the name too."""

INLINED = "_inlfunc"
"""Before the names of tensors inside a function that ONNX Runtime has put in its place."""

EXACT_ANYWAY = (
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Concat",
    "Split", "Gather", "MaxPool", "Relu", "Expand", "Dropout",
)  # fmt: skip
"""Operators that give no value their input does not have."""
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def restored(pair: TwoGraphs, chosen: Collection[Part]) -> ModelProto:
    """Make the candidate with these parts computed as the reference computes them.

    Casts stand where types do not meet; between two restored parts nothing is rounded.
    """
    work = _Restoring(pair, {part.tensor for part in chosen})
    for part in chosen:
        work.take(part)
    return work.finish()


class _Restoring:
    """One pass that puts nodes of the reference into a copy of the candidate."""

    def __init__(self, pair: TwoGraphs, chosen: set[str]) -> None:
        self.pair, self.chosen = pair, chosen
        self.made = copied(pair.candidate.model)
        self.replaced = {pair.matches[tensor] for tensor in chosen}
        self.nodes: dict[str, NodeProto] = {}
        """Copied or put in, by name."""
        self.stored: set[str] = set()

    def take(self, part: Part) -> None:
        """Copy the nodes of a part, and have all others read what it gives."""
        for index in part.places:
            self._copy(self.pair.reference.nodes[index])
        match = part.match
        if self._kind(part) != self.pair.candidate.types.get(match):
            self._cast(part.tensor + KEPT, match, self.pair.candidate.types[match])

    def _copy(self, node: NodeProto) -> None:
        if node.name in self.nodes:
            return
        copy = type(node)()
        copy.CopyFrom(node)
        for index, name in enumerate(node.input):
            copy.input[index] = self._read(name) if name else ""
        for body in subgraphs(copy):
            _rename(body, self._read)
        for index, name in enumerate(node.output):
            copy.output[index] = self._given(name) if name else ""
        self.nodes[node.name] = copy

    def _given(self, tensor: str) -> str:
        """Name a tensor that a copied node gives: as the candidate does, if types agree."""
        match = self.pair.matches.get(tensor)
        if tensor in self.chosen and match is not None:
            theirs = self.pair.candidate.types.get(match)
            return match if theirs == self.pair.reference.types.get(tensor) else tensor + KEPT
        return tensor + KEPT

    def _read(self, tensor: str) -> str:
        """Tell under which name a copied node reads a tensor of the reference, in its type."""
        reference, candidate = self.pair.reference, self.pair.candidate
        if tensor in reference.stored:
            if tensor not in self.stored:
                self.stored.add(tensor)
                made = self.made.graph.initializer.add()
                made.CopyFrom(reference.stored[tensor])
                made.name = tensor + KEPT
            return tensor + KEPT
        match = self.pair.matches.get(tensor)
        if match is None or tensor in self.chosen:
            return self._given(tensor)
        wanted = reference.types.get(tensor, FLOAT)
        if candidate.types.get(match) == wanted:
            return match
        self._cast(match, match + KEPT, wanted)
        return match + KEPT

    def _cast(self, source: str, target: str, kind: int) -> None:
        from onnx import helper

        name = f"{target}_cast"
        self.nodes.setdefault(
            name, helper.make_node("Cast", [source], [target], name=name, to=kind)
        )

    def _kind(self, part: Part) -> int | None:
        return self.pair.reference.types.get(part.tensor)

    def finish(self) -> ModelProto:
        """Let go of what nothing reads any more, and put the nodes in order."""
        graph = self.made.graph
        for node in graph.node:
            for index, name in enumerate(node.output):
                if name in self.replaced:
                    node.output[index] = f"{name}_unused"
        graph.node.extend(self.nodes.values())
        _drop_unread(graph)
        drop_unused(graph)
        sort_nodes(graph)
        del graph.value_info[:]
        _name_apart(graph)
        return self.made


def without_inlined_names(model: ModelProto) -> ModelProto:
    """Rename what ONNX Runtime called so when it inlined functions, as it does while quantizing.

    It takes the same names again for functions that are restored from the reference.
    """

    def other(name: str) -> str:
        return f"was{name}" if name.startswith(INLINED) else name

    graph = model.graph
    for value in (*graph.value_info, *graph.initializer, *graph.output):
        value.name = other(value.name)
    for node in graph.node:
        node.input[:] = [other(name) for name in node.input]
        node.output[:] = [other(name) for name in node.output]
        for body in subgraphs(node):
            _rename(body, other)
    return model


def copied(model: ModelProto) -> ModelProto:
    """Copy a model, so that what is done to it stays with the copy."""
    made = type(model)()
    made.CopyFrom(model)
    return made


def stand_in(model: ModelProto) -> ModelProto:
    """Copy a model with FP32 in place of FP16 and BF16, and every such tensor rounded."""
    made = copied(model)
    graph = made.graph
    types = Graph(model).types
    if not any(kind in LOW for kind in types.values()):
        return made
    _refuse_low_bodies(model)
    for tensor in stored_tensors(graph):
        if tensor.data_type in LOW:
            tensor.CopyFrom(_as_float(tensor))
    stored = {tensor.name for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    rounded: dict[str, str] = {}
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type.elem_type
        if kind in LOW:
            value.type.tensor_type.elem_type = FLOAT
            if value in graph.input and value.name not in stored:
                rounded[value.name] = f"{value.name}_rounded"
                nodes += _round_trip(value.name, rounded[value.name], kind)
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = rounded.get(name, name)
        nodes += _computed_in_float(node, types)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return made


def _computed_in_float(node: NodeProto, types: Mapping[str, int]) -> list[NodeProto]:
    """Make the node itself, in FP32, and roundings of what it gives in a low type."""
    made = [node]
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.i in LOW:
            attribute.i = FLOAT
    if node.op_type in EXACT_ANYWAY:
        return made
    for index, name in enumerate(node.output):
        kind = types.get(name)
        if kind in LOW:
            node.output[index] = name + EXACT
            made += _round_trip(name + EXACT, name, kind)
    return made


def _round_trip(source: str, target: str, kind: int) -> list[NodeProto]:
    from onnx import helper

    low = f"{target}_low"
    return [
        helper.make_node("Cast", [source], [low], to=kind),
        helper.make_node("Cast", [low], [target], to=FLOAT),
    ]


def _as_float(tensor: TensorProto) -> TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)


def _refuse_low_bodies(model: ModelProto) -> None:
    for node in model.graph.node:
        for body in subgraphs(node):
            stored = any(tensor.data_type in LOW for tensor in stored_tensors(body))
            casts = any(a.name == "to" and a.i in LOW for n in body.node for a in n.attribute)
            if stored or casts:
                raise InputError(
                    f"the body of {node.op_type} {node.name} computes in FP16 or BF16, which is "
                    "not looked into",
                    fix="trtbench quantize leaves bodies in FP32",
                )


def _drop_unread(graph: GraphProto) -> None:
    nodes = list(graph.node)
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waiting = [value.name for value in graph.output]
    needed: set[int] = set()
    while waiting:
        index = makers.get(waiting.pop())
        if index is not None and index not in needed:
            needed.add(index)
            waiting.extend(reads_of(nodes[index]))
    copies = [type(nodes[i]).FromString(nodes[i].SerializeToString()) for i in sorted(needed)]
    del graph.node[:]
    graph.node.extend(copies)


def write_marked(source: Path, tensors: Sequence[str], target: Path) -> Path:
    """Write a copy of a model that gives these tensors beside its own outputs, which come first."""
    from onnx import helper

    model = load_onnx(source)
    types = tensor_types(model)
    own = {value.name for value in model.graph.output}
    for name in tensors:
        if name in own:
            continue
        if not types.get(name):
            raise InputError(f"the type of the tensor {name} of {source.name} is not known")
        model.graph.output.append(helper.make_tensor_value_info(name, types[name], None))
    save_onnx(model, target)
    return target


def _rename(body: GraphProto, read: Callable[[str], str]) -> None:
    """Have the body of a control-flow node read outer tensors under their names here."""
    own = {name for node in body.node for name in node.output}
    own |= {value.name for value in body.input} | {each.name for each in body.initializer}
    for node in body.node:
        for index, name in enumerate(node.input):
            if name and name not in own:
                node.input[index] = read(name)
        for inner in subgraphs(node):
            _rename(inner, read)


def _name_apart(graph: GraphProto) -> None:
    taken: set[str] = set()
    for node in graph.node:
        while node.name in taken:
            node.name += KEPT
        taken.add(node.name)
