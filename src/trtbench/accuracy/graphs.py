"""Two ONNX graphs of one network, divided at boundaries that both have and fusion does not cross.

Quantizers and converters fold and insert; boundaries are matched by the names of tensors, then of
nodes. Models in between are made of the two: some parts
in the reference's precision, the rest as in the candidate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trtbench.convert.cast import FLOAT, LOW, copied, drop_unused, rename_reads, tensor_types
from trtbench.convert.verify import FOLLOWERS
from trtbench.core.errors import InputError
from trtbench.models.onnx_model import (
    keep_nodes,
    reads_of,
    sort_nodes,
    subgraphs,
)

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

FLOATING = {1: "FP32", 10: "FP16", 16: "BF16", 11: "FP64"}
QUANTIZED = {
    2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 17: "FP8", 18: "FP8", 19: "FP8", 20: "FP8",
    21: "UINT4", 22: "INT4", 23: "FP4",
}  # fmt: skip
"""Names of ONNX's type numbers."""
KEPT = "_kept"
"""Suffix of what comes from the reference, where the candidate has the name too."""
INLINED = "_inlfunc"
"""Prefix of tensors inside a function that ONNX Runtime has inlined."""

_QDQ = ("QuantizeLinear", "DequantizeLinear")
_SAME_VALUE = (*_QDQ, "Cast", "Identity")
"""Operators that change values only by rounding."""
_FOLDED = (*_SAME_VALUE, "BatchNormalization")
"""Operators that a converter may leave out, fold or insert."""
_WITH_CONSTANT = ("Add", "Mul", "Sub", "Div")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The nodes that compute one boundary of the reference from the boundaries before it."""

    node: str
    op: str
    position: int
    tensor: str
    """The boundary, in the reference."""
    match: str
    """The same in the candidate."""
    reads: tuple[str, ...]
    """Boundaries of the reference that it is computed from."""
    nodes: tuple[str, ...]
    """Of the reference."""
    places: tuple[int, ...]
    """Of the same in its graph."""
    theirs: tuple[str, ...]
    """Nodes of the candidate in their place."""
    type: str | None
    """The low type the candidate computes it in; ``None`` when in none."""


class Graph:
    """Makers and readers of each tensor of a model whose nodes all have names."""

    def __init__(self, model: ModelProto) -> None:
        self.model, self.nodes = model, list(model.graph.node)
        self.types = tensor_types(model)
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        inputs = [v for v in model.graph.input if v.name not in self.stored]
        self.inputs = [value.name for value in inputs]
        kinds = {value.name: value.type.tensor_type for value in inputs}
        self.ranks = {
            name: len(kind.shape.dim) if kind.HasField("shape") else None
            for name, kind in kinds.items()
        }
        """Dimensions of the inputs, where the model has them."""
        self.outputs = [value.name for value in model.graph.output]
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.active: set[str] = set(self.inputs)
        """Tensors that depend on the inputs."""
        for index, node in enumerate(self.nodes):
            reads = reads_of(node)
            for name in reads:
                self.readers[name].append(index)
            self.makers |= {name: index for name in node.output if name}
            if reads & self.active:
                self.active |= {name for name in node.output if name}

    def maker(self, tensor: str) -> NodeProto | None:
        index = self.makers.get(tensor)
        return None if index is None else self.nodes[index]

    def core(self, tensor: str) -> str | None:
        """Return the operator that computes a tensor, before anything folded or inserted."""
        node = self.maker(tensor)
        while node is not None and node.op_type in _FOLDED:
            node = self.maker(node.input[0])
        return None if node is None else node.op_type

    def boundaries(self) -> list[str]:
        """Return the tensors between operators that are computed together, in order."""
        return [
            name
            for node in self.nodes
            for name in node.output
            if name in self.active
            and self.types.get(name) in FLOATING
            and (name in self.outputs or not self._goes_into_follower(name))
        ]

    def _goes_into_follower(self, tensor: str) -> bool:
        readers = self.readers.get(tensor, [])
        if len(readers) != 1:
            return not readers  # an unread tensor is no boundary either
        node = self.nodes[readers[0]]
        if node.op_type in FOLLOWERS:
            return bool(node.input[0] == tensor)
        others = [name for name in node.input if name != tensor]
        return node.op_type in _WITH_CONSTANT and all(name not in self.active for name in others)

    def behind(self, tensor: str, stop: Collection[str]) -> tuple[list[int], list[str]]:
        """Return the nodes a tensor is computed by, and the boundaries they begin at."""
        waiting, seen = [tensor], set[int]()
        reads: list[str] = []
        while waiting:
            index = self.makers.get(waiting.pop())
            if index is None or index in seen:
                continue
            seen.add(index)
            for each in reads_of(self.nodes[index]):
                (reads if each in stop or each in self.inputs else waiting).append(each)
        return sorted(seen), list(dict.fromkeys(reads))


@dataclass(frozen=True, kw_only=True)
class TwoGraphs:
    """Two graphs of one network, divided at the same boundaries."""

    reference: Graph
    candidate: Graph
    matches: dict[str, str]
    """Inputs and boundaries of the reference by the names the candidate has for them."""
    parts: tuple[Part, ...]
    """In the order of the reference."""


def divided(reference: Graph, candidate: Graph) -> TwoGraphs:
    """Divide both graphs at the boundaries that are found in both."""
    inputs, outputs = (_paired(reference, candidate, what) for what in ("inputs", "outputs"))
    matches = _matched(reference, candidate, outputs)
    theirs = set(matches.values())
    floats = {FLOAT, *LOW}
    parts = []
    for tensor, match in matches.items():
        places, reads = reference.behind(tensor, matches)
        others = [candidate.nodes[i] for i in candidate.behind(match, theirs)[0]]
        nodes = [reference.nodes[index] for index in places]
        # A part is called by its weighted node, else by the first that computes.
        weighted = [node for node in nodes if node.op_type in _WEIGHTED]
        computing = [
            node
            for node in nodes
            if node.op_type not in (*_SAME_VALUE, "Constant", "Shape")
            and any(reference.types.get(name) in floats for name in node.output)
        ]
        named = (weighted or computing or nodes)[0]
        parts.append(
            Part(
                node=named.name,
                op=named.op_type,
                position=reference.makers[tensor],
                tensor=tensor,
                match=match,
                reads=tuple(reads),
                nodes=tuple(node.name for node in nodes),
                places=tuple(places),
                theirs=tuple(node.name for node in others),
                type=_low_type(candidate, others),
            )
        )
    return TwoGraphs(
        reference=reference, candidate=candidate, matches={**inputs, **matches}, parts=tuple(parts)
    )


def _paired(reference: Graph, candidate: Graph, what: str) -> dict[str, str]:
    """Pair inputs or outputs by name, else by place."""
    ours, theirs = getattr(reference, what), getattr(candidate, what)
    pairs = dict(zip(ours, ours if set(ours) == set(theirs) else theirs, strict=False))
    ranks = [{reference.ranks.get(a), candidate.ranks.get(b)} - {None} for a, b in pairs.items()]
    if len(ours) != len(theirs) or any(len(each) > 1 for each in ranks):
        sides = {"reference": reference, "candidate": candidate}
        raise InputError(
            f"the two models do not have the same {what}",
            facts={
                side: ", ".join(
                    f"{name} ({rank}-d)" if (rank := graph.ranks.get(name)) is not None else name
                    for name in getattr(graph, what)
                )
                for side, graph in sides.items()
            },
            fix="give a model and one that was made of it",
        )
    return pairs


def _matched(reference: Graph, candidate: Graph, outputs: Mapping[str, str]) -> dict[str, str]:
    """Map boundaries of the reference to those of the candidate, where they can be matched."""
    found = {a: b for a, b in outputs.items() if a in reference.makers and b in candidate.makers}
    taken = set(found.values())
    named = {node.name: node for node in candidate.nodes}
    for tensor in reference.boundaries():
        maker = reference.maker(tensor)
        if tensor in found or maker is None:
            continue
        place = list(maker.output).index(tensor)
        other = named.get(maker.name)
        match = None
        if tensor in candidate.makers and candidate.core(tensor) == reference.core(tensor):
            match = tensor
        elif other is not None and other.op_type == maker.op_type:
            match = other.output[place] if place < len(other.output) else None
        if match and match not in taken and candidate.types.get(match) in FLOATING:
            found[tensor] = match
            taken.add(match)
    return dict(sorted(found.items(), key=lambda pair: reference.makers[pair[0]]))


def _low_type(graph: Graph, nodes: Sequence[NodeProto]) -> str | None:
    """Return the lowest type nodes compute in: that of Q/DQ nodes, else that of tensors."""
    kinds = Counter(quantized_type(graph, node) for node in nodes if node.op_type in _QDQ)
    if kinds:
        return kinds.most_common(1)[0][0]
    names = (name for node in nodes for name in (*node.input, *node.output))
    return next((LOW[graph.types[name]] for name in names if graph.types.get(name) in LOW), None)


def quantized_type(graph: Graph, node: NodeProto) -> str:
    """Return the type on the narrow side of a Q or DQ node."""
    narrow = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
    zero = node.input[2] if len(node.input) > 2 else ""
    number = graph.types.get(zero) or graph.types.get(narrow) or 2
    return QUANTIZED.get(number, "INT8")


def restored(pair: TwoGraphs, chosen: Collection[Part]) -> ModelProto:
    """Return the candidate with these parts computed as the reference computes them.

    Casts stand where types do not meet; between two restored parts nothing is rounded.
    """
    from onnx import helper

    reference, candidate = pair.reference, pair.candidate
    made, tensors = copied(candidate.model), {part.tensor for part in chosen}
    replaced = {pair.matches[tensor] for tensor in tensors}
    nodes: dict[str, NodeProto] = {}
    """Copied or inserted, by name."""
    stored: set[str] = set()

    def cast(source: str, target: str, kind: int) -> None:
        name = f"{target}_cast"
        node = helper.make_node("Cast", [source], [target], name=name, to=kind)
        nodes.setdefault(name, node)

    def given(tensor: str) -> str:
        """Name what a copied node returns: as the candidate does, if types agree."""
        match = pair.matches.get(tensor)
        if tensor in tensors and match is not None:
            same = candidate.types.get(match) == reference.types.get(tensor)
            return match if same else tensor + KEPT
        return tensor + KEPT

    def read(tensor: str) -> str:
        """Name a tensor of the reference as a copied node reads it, in its type."""
        if tensor in reference.stored:
            if tensor not in stored:
                stored.add(tensor)
                weight = made.graph.initializer.add()
                weight.CopyFrom(reference.stored[tensor])
                weight.name = tensor + KEPT
            return tensor + KEPT
        match = pair.matches.get(tensor)
        if match is None or tensor in tensors:
            return given(tensor)
        wanted = reference.types.get(tensor, FLOAT)
        if candidate.types.get(match) == wanted:
            return match
        cast(match, match + KEPT, wanted)
        return match + KEPT

    for part in chosen:
        for node in (reference.nodes[index] for index in part.places):
            if node.name in nodes:
                continue
            copy = type(node)()
            copy.CopyFrom(node)
            copy.input[:] = [read(name) if name else "" for name in node.input]
            for body in subgraphs(copy):
                rename_reads(body, read)
            copy.output[:] = [given(name) if name else "" for name in node.output]
            nodes[node.name] = copy
        if reference.types.get(part.tensor) != candidate.types.get(part.match):
            cast(part.tensor + KEPT, part.match, candidate.types[part.match])
    for node in made.graph.node:
        node.output[:] = [f"{name}_unused" if name in replaced else name for name in node.output]
    made.graph.node.extend(nodes.values())
    _drop_unread(made)
    drop_unused(made.graph)
    sort_nodes(made.graph)
    del made.graph.value_info[:]
    taken: set[str] = set()
    for node in made.graph.node:
        while node.name in taken:
            node.name += KEPT
        taken.add(node.name)
    return made


def _drop_unread(model: ModelProto) -> None:
    nodes = list(model.graph.node)
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waiting = [value.name for value in model.graph.output]
    needed: set[int] = set()
    while waiting:
        index = makers.get(waiting.pop())
        if index is not None and index not in needed:
            needed.add(index)
            waiting.extend(reads_of(nodes[index]))
    keep_nodes(model.graph, [nodes[index] for index in sorted(needed)])


def without_inlined_names(model: ModelProto) -> ModelProto:
    """Rename what ONNX Runtime named when it inlined functions, as it does while quantizing.

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
            rename_reads(body, other)
    return model
