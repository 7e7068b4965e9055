"""Rewrites a graph so that planned edges have the planned types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trtbench.build.cast_types import FLOAT, FLOAT16, Edges, as_low, rounded, tensor_types
from trtbench.build.onnx_file import reads_of, subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_SUFFIX = {FLOAT: "fp32", FLOAT16: "fp16"}


def rewrite(
    model: ModelProto, *, edges: Mapping[str, Edges], low: int, keep_io: bool
) -> ModelProto:
    """Change the types of weights, nodes and, unless kept, inputs and outputs, in place."""
    work = _Rewriting(model, low=low)
    if not keep_io:
        work.change_inputs()
    for node in list(model.graph.node):
        work.take(node, edges.get(node.name))
    work.finish(keep_io=keep_io)
    return model


def rewrite_rounding(model: ModelProto, *, edges: Mapping[str, Edges], low: int) -> ModelProto:
    """Copy a model, and round to the low type and back wherever the plan has the low type."""
    from onnx import ModelProto as Model

    copy = Model()
    copy.CopyFrom(model)
    work = _Rounding(copy.graph, low=low)
    for node in list(copy.graph.node):
        work.take(node, edges.get(node.name, Edges()))
    del copy.graph.value_info[:]
    _replace_nodes(copy.graph, work.nodes)
    return copy


class _Rounding:
    """One pass that puts pairs of casts where tensors would be rounded."""

    def __init__(self, graph: GraphProto, *, low: int) -> None:
        self.low = low
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.nodes: list[NodeProto] = []
        self.names: dict[str, str] = {}
        """Under which name a tensor is had rounded."""

    def take(self, node: NodeProto, planned: Edges) -> None:
        for index, wanted in enumerate(planned.inputs):
            if wanted == self.low:
                node.input[index] = self._rounded(node.input[index])
        self.nodes.append(node)
        for index, given in enumerate(planned.outputs):
            if given == self.low:
                name = node.output[index]
                node.output[index] = f"{name}_exact"
                self._round_trip(f"{name}_exact", name)

    def _rounded(self, name: str) -> str:
        from onnx import numpy_helper

        if name in self.names:
            return self.names[name]
        if name not in self.weights:
            return self._round_trip(name, f"{name}_rounded")
        values = rounded(numpy_helper.to_array(self.weights[name]), self.low)
        self.weights[name].CopyFrom(numpy_helper.from_array(values, name))
        self.names[name] = name
        return name

    def _round_trip(self, name: str, target: str) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node("Cast", [name], [f"{target}_low"], to=self.low))
        self.nodes.append(helper.make_node("Cast", [f"{target}_low"], [target], to=FLOAT))
        self.names[name] = self.names[target] = target
        return target


class _Rewriting:
    """One pass over a graph: what type each tensor has by now, and the nodes made so far."""

    def __init__(self, model: ModelProto, *, low: int) -> None:
        self.graph = model.graph
        self.low = low
        self.types = tensor_types(model)
        self.weights = {tensor.name: tensor for tensor in self.graph.initializer}
        self.nodes: list[NodeProto] = []
        self.casts: dict[tuple[str, int], str] = {}
        self.lowered: set[str] = set()
        """Tensors that were FP32 when their readers were written."""

    def change_inputs(self) -> None:
        for value in self.graph.input:
            if value.type.tensor_type.elem_type == FLOAT and value.name not in self.weights:
                value.type.tensor_type.elem_type = self.low
                self._lower(value.name)

    def _lower(self, name: str) -> None:
        self.types[name] = self.low
        self.lowered.add(name)

    def take(self, node: NodeProto, planned: Edges | None) -> None:
        """Put one node in, with casts before it where types do not meet."""
        for index, name in enumerate(node.input):
            wanted = planned.inputs[index] if planned else None
            if planned is None and name in self.lowered:
                wanted = FLOAT
            if wanted is not None and name:
                node.input[index] = self.as_type(name, wanted)
        for body in subgraphs(node):
            self._feed(body)
        self.nodes.append(node)
        if planned is None:
            return
        for name, given in zip(node.output, planned.outputs, strict=True):
            if given == self.low:
                self._lower(name)
        if self.low in planned.outputs:
            _retype_attribute(node, self.low)

    def as_type(self, name: str, wanted: int) -> str:
        """Find the name under which a tensor is had in the wanted type."""
        from onnx import helper

        if self.types.get(name) == wanted:
            return name
        key = (name, wanted)
        if key not in self.casts:
            self.casts[key] = f"{name}_{_SUFFIX.get(wanted, 'bf16')}"
            if name in self.weights:
                made = self.graph.initializer.add()
                made.CopyFrom(_converted(self.weights[name], wanted, self.casts[key]))
            else:
                made = helper.make_node("Cast", [name], [self.casts[key]], to=wanted)
                made.name = f"{self.casts[key]}_cast"
                self.nodes.append(made)
            self.types[self.casts[key]] = wanted
        return self.casts[key]

    def _feed(self, body: GraphProto) -> None:
        """Find the body of a control-flow node the FP32 tensors it reads from outside."""
        own = {name for node in body.node for name in node.output}
        own |= {value.name for value in body.input} | {each.name for each in body.initializer}
        for node in body.node:
            for index, name in enumerate(node.input):
                if name not in own and name in self.lowered:
                    node.input[index] = self.as_type(name, FLOAT)
            for inner in subgraphs(node):
                self._feed(inner)

    def finish(self, *, keep_io: bool) -> None:
        """Settle the outputs, and drop weights that nothing reads any more."""
        for value in self.graph.output:
            if value.name not in self.lowered or value.type.tensor_type.elem_type != FLOAT:
                continue
            if keep_io:
                self._keep_output(value.name)
            else:
                value.type.tensor_type.elem_type = self.low
        _replace_nodes(self.graph, self.nodes)
        drop_unused(self.graph)
        self._restore_names()
        del self.graph.value_info[:]

    def _restore_names(self) -> None:
        """Let weights that exist in one type only keep the name they had."""
        left = {tensor.name for tensor in self.graph.initializer}
        back = {
            made: name
            for (name, _), made in self.casts.items()
            if name in self.weights and name not in left
        }
        for tensor in self.graph.initializer:
            tensor.name = back.get(tensor.name, tensor.name)
        _rename_inputs(self.graph, back)

    def _keep_output(self, name: str) -> None:
        """Rename the tensor inside the graph, and cast it back under its own name."""
        from onnx import helper

        inside = f"{name}_{_SUFFIX.get(self.low, 'bf16')}"
        for node in self.nodes:
            for names in (node.input, node.output):
                for index, each in enumerate(names):
                    if each == name:
                        names[index] = inside
        made = helper.make_node("Cast", [inside], [name], to=FLOAT, name=f"{name}_cast")
        self.nodes.append(made)


def _retype_attribute(node: NodeProto, low: int) -> None:
    """Change the attribute that sets the type of what comes out."""
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to":
            attribute.i = low
        if node.op_type == "ConstantOfShape" and attribute.name == "value":
            attribute.t.CopyFrom(_converted(attribute.t, low, attribute.t.name))


def _converted(tensor: TensorProto, wanted: int, name: str) -> TensorProto:
    from onnx import numpy_helper

    values = numpy_helper.to_array(tensor)
    values = as_low(values, wanted) if wanted != FLOAT else values.astype("float32")
    return numpy_helper.from_array(values, name)


def _replace_nodes(graph: GraphProto, nodes: list[NodeProto]) -> None:
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)


def _rename_inputs(graph: GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
        for body in subgraphs(node):
            _rename_inputs(body, names)


def drop_unused(graph: GraphProto) -> None:
    """Drop stored values that nothing reads."""
    used = {value.name for value in graph.output}.union(*map(reads_of, graph.node))
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    gone = {tensor.name for tensor in graph.initializer} - {tensor.name for tensor in kept}
    del graph.initializer[:]
    graph.initializer.extend(kept)
    inputs = [value for value in graph.input if value.name not in gone]
    del graph.input[:]
    graph.input.extend(inputs)
