"""Divides two ONNX graphs of one network at boundaries that both have and fusion does not cross.

Quantizers and converters rename, fold and insert; boundaries are matched by the names of tensors,
then of nodes, then by what is computed from what.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trtbench.build.cast_types import FLOAT, tensor_types
from trtbench.build.onnx_file import reads_of
from trtbench.build.onnx_layers import FOLLOWERS
from trtbench.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

FLOATING = {1: "FP32", 10: "FP16", 16: "BF16", 11: "FP64"}
LOW = {10: "FP16", 16: "BF16"}
QUANTIZED = {
    2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 17: "FP8", 18: "FP8", 19: "FP8", 20: "FP8",
    21: "UINT4", 22: "INT4", 23: "FP4",
}  # fmt: skip
"""ONNX's numbers of types, as people call them."""

_QDQ = ("QuantizeLinear", "DequantizeLinear")
_SAME_VALUE = (*_QDQ, "Cast", "Identity")
"""Operators that change no value but by rounding."""
_FOLDED = (*_SAME_VALUE, "BatchNormalization")
"""Operators that a converter may leave out, fold or put in."""
_WITH_CONSTANT = ("Add", "Mul", "Sub", "Div")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one boundary of the reference is computed by, from the boundaries before it."""

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
    """Who makes and who reads each tensor of a model whose nodes all have names."""

    def __init__(self, model: ModelProto) -> None:
        self.model, self.nodes = model, list(model.graph.node)
        self.types = tensor_types(model)
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self.inputs = [v.name for v in model.graph.input if v.name not in self.stored]
        self.outputs = [value.name for value in model.graph.output]
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        active: set[str] = set(self.inputs)
        for index, node in enumerate(self.nodes):
            for name in reads_of(node):
                self.readers[name].append(index)
            self.makers |= {name: index for name in node.output if name}
            if any(name in active for name in reads_of(node)):
                active |= {name for name in node.output if name}
        self.active = active
        """Tensors that depend on the inputs."""

    def maker(self, tensor: str) -> NodeProto | None:
        index = self.makers.get(tensor)
        return None if index is None else self.nodes[index]

    def rank_of(self, tensor: str) -> int | None:
        """Tell how many dimensions an input has, where the model says so."""
        kinds = (value.type.tensor_type for value in self.model.graph.input if value.name == tensor)
        return next((len(kind.shape.dim) for kind in kinds if kind.HasField("shape")), None)

    def inputs_told(self) -> str:
        """Write the inputs with their number of dimensions."""
        ranks = ((name, self.rank_of(name)) for name in self.inputs)
        return ", ".join(name if rank is None else f"{name} ({rank}-d)" for name, rank in ranks)

    def core(self, tensor: str) -> str | None:
        """Tell which operator computes a tensor, whatever was folded or put behind it."""
        node = self.maker(tensor)
        while node is not None and node.op_type in _FOLDED:
            node = self.maker(node.input[0])
        return None if node is None else node.op_type

    def boundaries(self) -> list[str]:
        """List the tensors between operators that are computed together, in order."""
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
            return not readers  # what nobody reads is no boundary either
        node = self.nodes[readers[0]]
        if node.op_type in FOLLOWERS:
            return bool(node.input[0] == tensor)
        others = [name for name in node.input if name != tensor]
        return node.op_type in _WITH_CONSTANT and all(name not in self.active for name in others)

    def behind(self, tensor: str, stop: Mapping[str, object]) -> tuple[list[int], list[str]]:
        """List the nodes a tensor is computed by, and the boundaries they begin at."""
        waiting, seen, reads = [tensor], set(), []
        while waiting:
            name = waiting.pop()
            index = self.makers.get(name)
            if index is None or index in seen:
                continue
            seen.add(index)
            for each in reads_of(self.nodes[index]):
                if each in stop or each in self.inputs:
                    reads.append(each)
                else:
                    waiting.append(each)
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


def divided(
    reference: Graph, candidate: Graph, *, only: Collection[str] | None = None
) -> TwoGraphs:
    """Divide both graphs at the boundaries that are found in both.

    ``only`` are boundaries of the candidate, where not all are wanted; outputs are there anyway.
    """
    matches = matched(reference, candidate)
    if only is not None:
        wanted = {*only, *candidate.outputs}
        matches = {a: b for a, b in matches.items() if b in wanted}
    return TwoGraphs(
        reference=reference,
        candidate=candidate,
        matches={**paired_inputs(reference, candidate), **matches},
        parts=tuple(_parts(reference, candidate, matches)),
    )


def _parts(reference: Graph, candidate: Graph, matches: Mapping[str, str]) -> list[Part]:
    theirs = dict.fromkeys(matches.values())
    found = []
    for tensor, match in matches.items():
        nodes, reads = reference.behind(tensor, matches)
        others, _ = candidate.behind(match, theirs)
        named = _heaviest(reference, nodes)
        found.append(
            Part(
                node=named.name,
                op=named.op_type,
                position=reference.makers[tensor],
                tensor=tensor,
                match=match,
                reads=tuple(reads),
                nodes=tuple(reference.nodes[i].name for i in nodes),
                places=tuple(nodes),
                theirs=tuple(candidate.nodes[i].name for i in others),
                type=_low_type(candidate, others),
            )
        )
    return found


def matched(reference: Graph, candidate: Graph) -> dict[str, str]:
    """Find each boundary of the reference in the candidate, as far as that can be told."""
    found = _matched_outputs(reference, candidate)
    taken = set(found.values())
    named = {node.name: node for node in candidate.nodes}
    boundaries = reference.boundaries()
    for tensor in boundaries:
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
    found |= _matched_by_graph(reference, candidate, boundaries, found)
    order = {tensor: reference.makers[tensor] for tensor in found}
    return dict(sorted(found.items(), key=lambda pair: order[pair[0]]))


def paired_inputs(reference: Graph, candidate: Graph) -> dict[str, str]:
    """Pair the inputs by name, else by place."""
    same = set(reference.inputs) == set(candidate.inputs)
    pairs = dict(
        zip(reference.inputs, reference.inputs if same else candidate.inputs, strict=False)
    )
    ranks = ({reference.rank_of(a), candidate.rank_of(b)} - {None} for a, b in pairs.items())
    if len(reference.inputs) != len(candidate.inputs) or any(len(each) > 1 for each in ranks):
        raise InputError(
            "the two models do not have the same inputs",
            facts={"reference": reference.inputs_told(), "candidate": candidate.inputs_told()},
            fix="give a model and one that was made of it",
        )
    return pairs


def _matched_outputs(reference: Graph, candidate: Graph) -> dict[str, str]:
    same = set(reference.outputs) == set(candidate.outputs)
    if not same and len(reference.outputs) != len(candidate.outputs):
        raise InputError(
            "the two models do not have the same outputs",
            facts={
                "reference": ", ".join(reference.outputs),
                "candidate": ", ".join(candidate.outputs),
            },
            fix="give a model and one that was made of it",
        )
    pairs = zip(reference.outputs, reference.outputs if same else candidate.outputs, strict=True)
    return {a: b for a, b in pairs if a in reference.makers and b in candidate.makers}


def _matched_by_graph(
    reference: Graph, candidate: Graph, boundaries: Sequence[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Match what is computed in the same way from the same; branches alike by their order."""
    numbers: dict[object, int] = {}
    anchors = {pair: place for place, pair in enumerate(known.items(), start=1)}
    inputs = enumerate(paired_inputs(reference, candidate).items())
    anchors |= {pair: -1 - place for place, pair in inputs}
    ours, theirs = (
        _signatures(graph, {pair[side]: n for pair, n in anchors.items()}, numbers)
        for side, graph in enumerate((reference, candidate))
    )
    wanted: dict[int, list[str]] = defaultdict(list)
    there: dict[int, list[str]] = defaultdict(list)
    for name in boundaries:
        if name not in known and name in ours:
            wanted[ours[name]].append(name)
    taken = set(known.values())
    for name, sign in theirs.items():
        if name not in taken and sign in wanted and not _only_rounds(candidate, name):
            there[sign].append(name)
    return {
        a: b
        for sign, names in wanted.items()
        if len(names) == len(there[sign])
        for a, b in zip(names, there[sign], strict=True)
    }


def _only_rounds(graph: Graph, tensor: str) -> bool:
    """Tell what a rounding made, or what a batch norm reads, from the boundary itself."""
    maker, readers = graph.maker(tensor), graph.readers.get(tensor, [])
    if maker is None or maker.op_type in _SAME_VALUE or graph.types.get(tensor) not in FLOATING:
        return True
    return len(readers) == 1 and graph.nodes[readers[0]].op_type == "BatchNormalization"


def _signatures(
    graph: Graph, anchors: Mapping[str, int], numbers: dict[object, int]
) -> dict[str, int]:
    """Number every tensor by what it is computed from, the same in both graphs."""
    signs = dict(anchors)
    for node in graph.nodes:
        if node.op_type in _FOLDED and node.input[0] in signs:
            key: object = signs[node.input[0]]
            for name in node.output:
                signs.setdefault(name, signs[node.input[0]])
            continue
        read = tuple(signs.get(name, 0) for name in node.input)
        for place, name in enumerate(node.output):
            key = (node.op_type, place, read, _attributes(node))
            signs.setdefault(name, numbers.setdefault(key, 10**9 + len(numbers)))
    return signs


def _attributes(node: NodeProto) -> tuple[object, ...]:
    return tuple(sorted((a.name, a.i, tuple(a.ints)) for a in node.attribute if a.i or a.ints))


def _heaviest(graph: Graph, nodes: Sequence[int]) -> NodeProto:
    """Choose the node a part is called by: a weighted one, else the first that computes."""
    all_of_them = [graph.nodes[index] for index in nodes]
    weighted = [node for node in all_of_them if node.op_type in _WEIGHTED]
    computing = [
        node
        for node in all_of_them
        if node.op_type not in (*_SAME_VALUE, "Constant", "Shape")
        and any(graph.types.get(name) == FLOAT or graph.types.get(name) in LOW
                for name in node.output)
    ]  # fmt: skip
    chosen: NodeProto = (weighted or computing or all_of_them)[0]
    return chosen


def _low_type(graph: Graph, nodes: Sequence[int]) -> str | None:
    """Find the lowest type nodes compute in: what Q/DQ nodes say, else that of tensors."""
    kinds: Counter[str] = Counter()
    for index in nodes:
        node = graph.nodes[index]
        if node.op_type in _QDQ:
            kinds[quantized_type(graph, node)] += 1
    if kinds:
        return kinds.most_common(1)[0][0]
    for index in nodes:
        for name in (*graph.nodes[index].input, *graph.nodes[index].output):
            if graph.types.get(name) in LOW:
                return LOW[graph.types[name]]
    return None


def quantized_type(graph: Graph, node: NodeProto) -> str:
    """Find the type on the narrow side of a Q or DQ node."""
    narrow = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
    zero = node.input[2] if len(node.input) > 2 else ""
    number = graph.types.get(zero) or graph.types.get(narrow) or 2
    return QUANTIZED.get(number, "INT8")
