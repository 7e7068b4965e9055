"""Finds the nodes that lose a low-precision model's accuracy, and the fewest to keep precise.

Two graphs of one network are divided at boundaries that both have and fusion does not cross,
matched by the names of tensors, then of nodes. Models with some groups of parts restored (computed
as in the reference) are tried, and the smallest set of groups that meets a condition is kept.
"""

from __future__ import annotations

import copy
import math
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.check import METRICS, OutputTally, worst_numbers
from trtbench.analysis.localize import LIMITS, Loss, Restored, order_by_blocks, smallest_sufficient
from trtbench.analysis.onnx_graph import PREFIX, OnnxTensor
from trtbench.analysis.scores import USUAL_SQNR_DB
from trtbench.convert import cast as casts
from trtbench.convert.calibration import FeedArrays
from trtbench.convert.verify import FOLLOWERS, grouped, run_session, session_of
from trtbench.core.codec import json_from_value
from trtbench.core.conditions import Condition, condition_from_text, holds
from trtbench.core.errors import InputError
from trtbench.core.jobs import Stage
from trtbench.core.metrics import kinds
from trtbench.core.metrics import metric as metric_named
from trtbench.core.results import Localized, LocalizeSpec, NodeGroup, Numbers
from trtbench.core.samples import AnyArray
from trtbench.core.spec import TensorSpec
from trtbench.core.units import text_from_seconds
from trtbench.host.arrays import Chunks, ChunkWriter
from trtbench.host.files import write_output
from trtbench.models import onnx_model
from trtbench.models.inputs import fixed_batch, has_rows
from trtbench.tasks._feed import TaskJudge, open_feed
from trtbench.tasks.contract import DataSource

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto
    from onnxruntime import InferenceSession

BATCH = 8
BOUNDARY_ITEMS = 32  # items to compare boundaries with: drift hardly varies between inputs
RANKING_SHARE = 0.4  # share of the time that ranking all groups, and MODELS on all items, may take
MODELS = 20  # models on all items that are expected
SEARCH_SHARE = 0.6  # share of the time after which no further groups are tried
KEEP_EVERY_S = 1.0  # how often the best answer so far is written
CONFIRMED = 10  # groups of the highest ranks that are tried again on all items
OUTPUT_METRIC = "sqnr_db"
LABELS = ("annotations", "gt", "labels", "classes")  # settings of tasks that name labels
PASS_THROUGH = (
    "AveragePool", "Clip", "Concat", "Dropout", "Flatten", "Gather", "Identity", "MaxPool", "Pad",
    "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators whose largest output values are those of their inputs."""
ZERO_BELOW = {"INT8": 0.5 / 127, "UINT8": 0.5 / 255, "INT4": 0.5 / 7, "UINT4": 0.5 / 15,
              "FP4": 0.25 / 6}  # fmt: skip
"""Fraction of the largest value below which a quantized type rounds to zero."""
MAX_INPUT_LOSS = 0.1  # rel. L2 of a quantized input, above which its range does not fit
MANY_ZEROED = 0.25  # share of values rounded to zero from which a tensor has harmful outliers

FLOATING = {1: "FP32", 10: "FP16", 16: "BF16", 11: "FP64"}
QUANTIZED = {
    2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 17: "FP8", 18: "FP8", 19: "FP8", 20: "FP8",
    21: "UINT4", 22: "INT4", 23: "FP4",
}  # fmt: skip
"""Names of ONNX's type numbers."""
KEPT = "_kept"  # suffix of tensors and nodes that are copied from the reference
INSIDE, UNROUNDED, SWITCH = "_inside", "_unrounded", "_switch"  # suffixes in a model with switches
INLINED = "_inlfunc"  # prefix of tensors inside a function that ONNX Runtime inlined

_QDQ = ("QuantizeLinear", "DequantizeLinear")
_SAME_VALUE = (*_QDQ, "Cast", "Identity")  # operators that change values only by rounding
_FOLDED = (*_SAME_VALUE, "BatchNormalization")  # operators that converters insert, fold or drop
_WITH_CONSTANT = ("Add", "Mul", "Sub", "Div")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The nodes that compute one boundary tensor from earlier boundaries."""

    node: str
    op: str
    position: int
    tensor: str  # the boundary in the reference
    match: str  # the same boundary in the candidate
    reads: tuple[str, ...]  # boundaries of the reference that it is computed from
    nodes: tuple[NodeProto, ...]  # of the reference
    theirs: tuple[NodeProto, ...]  # the corresponding nodes of the candidate
    type: str | None  # the low type the candidate computes it in; ``None``: no low type


class Graph:
    """Producer and consumers of each tensor of a model whose nodes all have names."""

    def __init__(self, model: ModelProto) -> None:
        self.model, self.nodes = model, list(model.graph.node)
        self.types = casts.tensor_types(model)
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        inputs = [v for v in model.graph.input if v.name not in self.stored]
        self.inputs = [value.name for value in inputs]
        kinds = {value.name: value.type.tensor_type for value in inputs}
        self.ranks = {n: len(k.shape.dim) for n, k in kinds.items() if k.HasField("shape")}
        self.outputs = [value.name for value in model.graph.output]
        self.producers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.active: set[str] = set(self.inputs)  # tensors that depend on the inputs
        for index, node in enumerate(self.nodes):
            reads = onnx_model.names_read(node)
            for name in reads:
                self.readers[name].append(index)
            self.producers |= {name: index for name in node.output if name}
            if reads & self.active:
                self.active |= {name for name in node.output if name}

    def producer(self, tensor: str) -> NodeProto | None:
        index = self.producers.get(tensor)
        return None if index is None else self.nodes[index]

    def core_operator(self, tensor: str) -> str | None:
        """Return the operator that computes a tensor, skipping Q/DQ, casts and normalization."""
        node = self.producer(tensor)
        while node is not None and node.op_type in _FOLDED:
            node = self.producer(node.input[0])
        return None if node is None else node.op_type

    def boundaries(self) -> list[str]:
        """Return the tensors between groups of operators that are fused, in order."""
        found = []
        for name in (name for node in self.nodes for name in node.output):
            if name not in self.active or self.types.get(name) not in FLOATING:
                continue
            readers = self.readers.get(name, [])
            fused = len(readers) == 1 and self._follows(self.nodes[readers[0]], name)
            if name in self.outputs or (readers and not fused):
                found.append(name)
        return found

    def _follows(self, node: NodeProto, name: str) -> bool:
        """Return whether the only node that reads a tensor is fused with the one before it."""
        if node.op_type in FOLLOWERS:
            return name == str(node.input[0])
        others = (each in self.active for each in node.input if each != name)
        return node.op_type in _WITH_CONSTANT and not any(others)

    def nodes_computing(
        self, tensor: str, stop: Collection[str]
    ) -> tuple[list[NodeProto], list[str]]:
        """Return the nodes that compute a tensor from the tensors ``stop``, and those they read."""
        waiting, seen = [tensor], set[int]()
        reads: list[str] = []
        while waiting:
            index = self.producers.get(waiting.pop())
            if index is None or index in seen:
                continue
            seen.add(index)
            for each in onnx_model.names_read(self.nodes[index]):
                (reads if each in stop or each in self.inputs else waiting).append(each)
        return [self.nodes[index] for index in sorted(seen)], list(dict.fromkeys(reads))


@dataclass(frozen=True, kw_only=True)
class GraphPair:
    """Two graphs of one network, divided at the same boundaries."""

    reference: Graph
    candidate: Graph
    matches: dict[str, str]
    """Inputs and boundaries: names in the reference to names in the candidate."""
    parts: tuple[Part, ...]  # in the order of the reference

    @property
    def optimized(self) -> bool:
        """Whether ONNX Runtime optimizes graphs: it would undo emulated casts, and fails on FP8."""
        return not {*casts.LOW, *range(17, 24)} & {*self.candidate.types.values()}

    def renamed(self, feed: FeedArrays) -> FeedArrays:
        """Return inputs of the reference under their names in the candidate."""
        return {self.matches[name]: array for name, array in feed.items()}


def divide_graphs(reference: Graph, candidate: Graph) -> GraphPair:
    """Divide both graphs at the boundaries that both have."""
    inputs, outputs = (_pair_tensors(reference, candidate, what) for what in ("inputs", "outputs"))
    computed = reference.producers, candidate.producers
    found = {a: b for a, b in outputs.items() if a in computed[0] and b in computed[1]}
    taken = set(found.values())
    by_name = {node.name: node for node in candidate.nodes}
    for tensor in reference.boundaries():
        producer = reference.producer(tensor)
        if tensor in found or producer is None:
            continue
        place = list(producer.output).index(tensor)
        other = by_name.get(producer.name)
        match = None
        core = reference.core_operator(tensor)
        if tensor in candidate.producers and candidate.core_operator(tensor) == core:
            match = tensor
        elif other is not None and other.op_type == producer.op_type:
            match = other.output[place] if place < len(other.output) else None
        if match and match not in taken and candidate.types.get(match) in FLOATING:
            found[tensor] = match
            taken.add(match)
    matches = dict(sorted(found.items(), key=lambda pair: reference.producers[pair[0]]))
    theirs = set(matches.values())
    floats = {casts.FLOAT, *casts.LOW}
    parts = []
    for tensor, match in matches.items():
        nodes, reads = reference.nodes_computing(tensor, matches)
        others, _ = candidate.nodes_computing(match, theirs)
        # The lowest type they compute in: that of Q/DQ nodes, else that of tensors.
        kinds: Counter[str] = Counter()
        for node in (node for node in others if node.op_type in _QDQ):
            narrow = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
            zero = node.input[2] if len(node.input) > 2 else ""
            number = candidate.types.get(zero) or candidate.types.get(narrow) or 2
            kinds[QUANTIZED.get(number, "INT8")] += 1
        names = (name for node in others for name in (*node.input, *node.output))
        types = (casts.LOW.get(candidate.types.get(name, 0)) for name in names)
        low = kinds.most_common(1)[0][0] if kinds else next(filter(None, types), None)
        # A part is named after its weighted node, else after the first that computes.
        weighted = [node for node in nodes if node.op_type in _WEIGHTED]
        computing = [
            node
            for node in nodes
            if node.op_type not in (*_SAME_VALUE, "Constant", "Shape")
            and any(reference.types.get(name) in floats for name in node.output)
        ]
        named = (weighted or computing or nodes)[0]
        part = Part(
            node=named.name, op=named.op_type, position=reference.producers[tensor], tensor=tensor,
            match=match, reads=tuple(reads), nodes=tuple(nodes), theirs=tuple(others), type=low,
        )  # fmt: skip
        parts.append(part)
    return GraphPair(
        reference=reference, candidate=candidate, matches={**inputs, **matches}, parts=tuple(parts)
    )


def _pair_tensors(reference: Graph, candidate: Graph, what: str) -> dict[str, str]:
    """Pair inputs or outputs by name, else by position."""
    ours, theirs = getattr(reference, what), getattr(candidate, what)
    pairs = dict(zip(ours, ours if set(ours) == set(theirs) else theirs, strict=False))
    ranks = [{reference.ranks.get(a), candidate.ranks.get(b)} - {None} for a, b in pairs.items()]
    if len(ours) != len(theirs) or any(len(each) > 1 for each in ranks):

        def shown(graph: Graph) -> str:
            names = getattr(graph, what)
            return ", ".join(f"{n} ({r}-d)" if (r := graph.ranks.get(n)) else n for n in names)

        facts = {"reference": shown(reference), "candidate": shown(candidate)}
        fix = "give a model and one that was converted from it"
        raise InputError(f"the two models do not have the same {what}", facts=facts, fix=fix)
    return pairs


def _copied(
    nodes: Iterable[NodeProto], graph: Graph, suffix: str,
    read: Callable[[str], str], made: Callable[[str], str],
) -> tuple[list[NodeProto], list[TensorProto]]:  # fmt: skip
    """Copy nodes of a graph under new names of tensors, and the weights they read."""
    weights: dict[str, TensorProto] = {}

    def new_name(name: str) -> str:
        if name in graph.stored and name not in weights:
            weights[name] = copy.deepcopy(graph.stored[name])
            weights[name].name = name + suffix
        return weights[name].name if name in weights else name and read(name)

    copies = [copy.deepcopy(node) for node in nodes]
    for node in copies:
        node.input[:] = map(new_name, node.input)
        for body in onnx_model.subgraphs(node):
            casts.rename_reads(body, new_name)
        node.output[:] = [name and made(name) for name in node.output]
    return copies, [*weights.values()]


def restore_parts(pair: GraphPair, chosen: Collection[Part]) -> ModelProto:
    """Return the candidate with these parts computed as in the reference.

    Casts are inserted where types differ; between two restored parts nothing is rounded.
    """
    from onnx import helper

    reference, candidate = pair.reference, pair.candidate
    made, matches = copy.deepcopy(candidate.model), {part.tensor: part.match for part in chosen}
    inserted: dict[str, NodeProto] = {}  # casts, by the tensors they make

    def cast(source: str, target: str, kind: int) -> str:
        inserted[target] = helper.make_node("Cast", [source], [target], f"{target}_cast", to=kind)
        return target

    def output_name(tensor: str) -> str:
        """Return the name of a copied node's output: the candidate's if the types agree."""
        match = matches.get(tensor)
        same = candidate.types.get(match or "") == reference.types.get(tensor)
        return match if match and same else tensor + KEPT

    def input_name(tensor: str) -> str:
        """Return the name of a copied node's input, after a cast if the types differ."""
        match = pair.matches.get(tensor)
        if match is None or tensor in matches:
            return output_name(tensor)
        wanted = reference.types.get(tensor, casts.FLOAT)
        return match if candidate.types.get(match) == wanted else cast(match, match + KEPT, wanted)

    ours = {node.name: node for part in chosen for node in part.nodes}
    nodes, weights = _copied(ours.values(), reference, KEPT, input_name, output_name)
    made.graph.initializer.extend(weights)
    for tensor, match in matches.items():
        if output_name(tensor) != match:
            cast(tensor + KEPT, match, candidate.types[match])
    return _with_producers(made, [*nodes, *inserted.values()], matches.values())


def _with_producers(
    made: ModelProto, nodes: Iterable[NodeProto], replaced: Collection[str]
) -> ModelProto:
    """Add nodes that compute the tensors ``replaced``, and remove what nothing needs any more."""
    for node in made.graph.node:
        node.output[:] = [f"{name}_unused" if name in replaced else name for name in node.output]
    made.graph.node.extend(nodes)
    every = list(made.graph.node)
    producers = {name: index for index, node in enumerate(every) for name in node.output if name}
    waiting, needed = [value.name for value in made.graph.output], set[int]()
    while waiting:
        index = producers.get(waiting.pop())
        if index is not None and index not in needed:
            needed.add(index)
            waiting.extend(onnx_model.names_read(every[index]))
    onnx_model.keep_nodes(made.graph, [every[index] for index in sorted(needed)])
    casts.drop_unused(made.graph)
    onnx_model.sort_nodes(made.graph)
    del made.graph.value_info[:]
    casts.name_nodes(made)
    return made


def switched_model(pair: GraphPair, groups: Sequence[Sequence[Part]]) -> ModelProto:
    """Return a model that computes each group as in the reference if its input says so.

    It gives the outputs of every model of ``restore_parts`` without loading any of them.
    """
    from onnx import TensorProto, helper

    graphs = pair.reference, pair.candidate
    reference, candidate = (Graph(casts.stand_in(graph.model)) for graph in graphs)
    low = {match: pair.candidate.types.get(match, 0) for match in pair.matches.values()}
    low = {match: kind for match, kind in low.items() if kind in casts.LOW}

    def computing(graph: Graph, tensor: str, outer: Mapping[str, str], kind: int) -> GraphProto:
        """Return the nodes that compute a tensor, as a body that reads the boundaries outside."""
        nodes, weights = _copied(
            graph.nodes_computing(tensor, outer)[0], graph, INSIDE,
            lambda name: outer.get(name, name + INSIDE), lambda name: name + INSIDE,
        )  # fmt: skip
        made = tensor + INSIDE
        if graph.types.get(tensor) != kind:
            nodes.append(helper.make_node("Cast", [made], [made := f"{made}_cast"], to=kind))
        output = helper.make_tensor_value_info(made, kind, None)
        return helper.make_graph(nodes, "part", [], [output], weights)

    theirs = {match: match for match in pair.matches.values()}
    rounded = {name for name in theirs if f"{name}_rounded" in candidate.producers}
    ours = {
        name: f"{match}_rounded" if match in rounded else match + UNROUNDED * (match in low)
        for name, match in pair.matches.items()
    }
    nodes: list[NodeProto] = []
    for number, group in enumerate(groups):
        switch = helper.make_tensor_value_info(f"{SWITCH}{number}", TensorProto.BOOL, [])
        candidate.model.graph.input.append(switch)
        for part in group:
            match, kind = part.match, candidate.types[part.match]
            target = ours[part.tensor]
            bodies = {
                "then_branch": computing(reference, part.tensor, ours, kind),
                "else_branch": computing(candidate, match, theirs, kind),
            }
            nodes.append(helper.make_node("If", [switch.name], [target], target, **bodies))
            nodes += casts.round_trip(target, match, low[match]) if match in low else []
    return _with_producers(candidate.model, nodes, {p.match for group in groups for p in group})


def rename_inlined_tensors(model: ModelProto) -> ModelProto:
    """Rename tensors of functions that ONNX Runtime inlined while quantizing.

    It would use the same names again for functions restored from the reference.
    """

    def new_name(name: str) -> str:
        return f"was{name}" if name.startswith(INLINED) else name

    graph = model.graph
    for value in (*graph.value_info, *graph.initializer, *graph.output):
        value.name = new_name(value.name)
    for node in graph.node:
        node.output[:] = map(new_name, node.output)
    casts.rename_reads(graph, new_name)
    return model


@dataclass(frozen=True)
class Batch:
    start: int
    count: int
    feed: FeedArrays
    loaded: list[object]

    def rows(self, array: AnyArray) -> AnyArray:
        """Return one row per item of an output, without the padding of the batch."""
        if array.ndim and len(array) >= self.count:
            return array[: self.count]
        return np.repeat(np.asarray(array)[None], self.count, axis=0)


class Batches:
    """The items of a source in batches; prepared batches are cached while memory allows."""

    def __init__(
        self, source: DataSource, tensors: Sequence[TensorSpec], *, size: int | None,
        memory_bytes: int,
    ) -> None:  # fmt: skip
        self._source, self._tensors = source, tensors
        self._fixed = fixed_batch(tensors)
        self.size = self._fixed or size or BATCH
        self._left = memory_bytes
        self._cached: dict[int, Batch] = {}

    def __len__(self) -> int:
        return len(self._source.names)

    def __iter__(self) -> Iterator[Batch]:
        return self.first(len(self))

    def first(self, items: int) -> Iterator[Batch]:
        for start in range(0, min(items, len(self)), self.size):
            if start in self._cached:
                yield self._cached[start]
                continue
            stop = min(start + self.size, len(self))
            loaded = [self._source.load(index) for index in range(start, stop)]
            rows = [self._source.prepare(each) for each in loaded]
            if self._fixed:  # a short last batch is padded
                rows += [rows[-1]] * (self.size - len(rows))
            feed = {
                t.name: np.stack([row[t.name] for row in rows])
                if has_rows(t, self._tensors)
                else np.asarray(rows[0][t.name])
                for t in self._tensors
            }
            batch = Batch(start, stop - start, feed, loaded)
            size = sum(array.nbytes for array in feed.values())
            if size <= self._left:
                self._left -= size
                self._cached[start] = batch
            yield batch


@dataclass
class Drift:
    """Sums of the differences between both models at one boundary."""

    error2: float = 0.0
    signal2: float = 0.0
    largest: float = 0.0  # largest finite magnitude of the reference
    nonfinite: int = 0
    nonzero: int = 0
    zeroed: Counter[str] = field(default_factory=Counter)
    """By quantized type: values it rounds to zero if its scale fits the largest of the batch."""

    @property
    def rel_l2(self) -> float | None:
        return math.sqrt(self.error2 / self.signal2) if self.signal2 else None

    def add(self, wanted: AnyArray, found: AnyArray) -> None:
        if wanted.shape != found.shape:
            return
        r, t = wanted.astype(np.float64), found.astype(np.float64)
        known = np.isfinite(r)
        usable = known & np.isfinite(t)
        self.nonfinite += int(np.count_nonzero(known & ~usable))
        self.error2 += float(((t - r)[usable] ** 2).sum())
        self.signal2 += float((r[usable] ** 2).sum())
        sizes = np.abs(r[known])
        largest = float(sizes.max(initial=0.0))
        self.largest = max(self.largest, largest)
        self.nonzero += int(np.count_nonzero(sizes))
        for kind, part in ZERO_BELOW.items():
            self.zeroed[kind] += int(np.count_nonzero((sizes > 0) & (sizes < part * largest)))


@dataclass
class Comparison:
    """Runs models on the same items and compares their outputs with the reference's."""

    pair: GraphPair
    batches: Batches
    folder: Path
    judge: Callable[[], TaskJudge] | None

    def __post_init__(self) -> None:
        outputs = [name for name in self.pair.reference.outputs if name in self.pair.matches]
        if not outputs:
            raise InputError("no output of the reference is computed by a node")
        self._outputs = {name: self.pair.matches[name] for name in outputs}
        self.folder.mkdir(exist_ok=True)
        writer = ChunkWriter(self.folder)
        self.scores = self._run(
            self.session(self.pair.reference.model, outputs), {name: name for name in outputs},
            lambda feed: feed, lambda batch, rows: writer.add(rows, items=batch.count),
        )  # fmt: skip
        """The task's scores of the reference."""
        writer.flush()
        self._wanted = Chunks(self.folder)

    def session(self, model: ModelProto, names: Collection[str] = ()) -> InferenceSession:
        """Load a model that computes these tensors, or the outputs of the candidate."""
        wanted = [*(names or self._outputs.values())]
        return session_of(casts.stand_in(model), wanted, optimized=self.pair.optimized)

    def _run(
        self, session: InferenceSession, names: Mapping[str, str],
        rename_inputs: Callable[[FeedArrays], FeedArrays],
        on_outputs: Callable[[Batch, FeedArrays], None],
    ) -> dict[str, float]:  # fmt: skip
        """Run a model over all items and return the task's scores."""
        judge = self.judge() if self.judge else None
        theirs = list(names.values())
        for batch in self.batches:
            found = run_session(session, theirs, rename_inputs(batch.feed))
            rows = {name: batch.rows(found[other]) for name, other in names.items()}
            on_outputs(batch, rows)
            if judge is not None:
                judge.add(rows, batch.loaded)
        return judge.scores() if judge is not None else {}

    def numbers(self, session: InferenceSession, **more: AnyArray) -> dict[str, float]:
        """Run a model with ``more`` inputs over all items; return its worst metrics and scores."""
        tallies = {name: OutputTally(name) for name in self._outputs}

        def compare(batch: Batch, rows: FeedArrays) -> None:
            wanted = self._wanted.rows(batch.start, batch.start + batch.count)
            for name, tally in tallies.items():
                tally.add(wanted[name], rows[name].astype(wanted[name].dtype), start=batch.start)

        scores = self._run(
            session, self._outputs, lambda feed: {**self.pair.renamed(feed), **more}, compare
        )
        results = [tally.result() for tally in tallies.values()]
        worst = {**worst_numbers(results), "nonfinite": float(sum(each.lost for each in results))}
        return {**{name: value for name, value in worst.items() if value is not None}, **scores}

    def boundaries(self, spec: LocalizeSpec, progress: Callable[[str], None]) -> dict[str, Drift]:
        """Compare all boundaries, a few at a time, and return the drift at each."""
        known = onnx_model.read_onnx(Path(spec.reference), batch=self.batches.size)
        sizes = {t.name: t for node in known.nodes for t in node.outputs}
        first, other = (casts.stand_in(g.model) for g in (self.pair.reference, self.pair.candidate))
        matches = {part.tensor: part.match for part in self.pair.parts}
        drifts = {tensor: Drift() for tensor in matches}
        marks = [sizes.get(name) or OnnxTensor(name=name) for name in matches]
        done = 0
        for some in grouped(marks, spec.memory_bytes):
            ours = [mark.name for mark in some]
            theirs = [matches[name] for name in ours]
            sessions = session_of(first, ours), session_of(other, theirs)
            for batch in self.batches.first(BOUNDARY_ITEMS):
                wanted = run_session(sessions[0], ours, batch.feed)
                found = run_session(sessions[1], theirs, self.pair.renamed(batch.feed))
                for tensor in ours:
                    drifts[tensor].add(wanted[tensor], found[matches[tensor]])
            done += len(some)
            progress(f"boundaries: {done} of {len(marks)} tensors")
        return drifts


@dataclass
class Trials:
    """Tries models with some groups restored until time is up; each set is tried once.

    Groups are ranked by one model with switches, which need not be loaded for each trial, on the
    items of ``ranking``. What is claimed or repaired is tried as a model of its own on all items.
    """

    comparison: Comparison
    ranking: Comparison
    groups: list[list[Part]]
    metric: str
    ends: float
    held: Comparison | None = None  # on items that the search does not see
    on_trial: Callable[[], None] = lambda: None
    known: dict[Restored, dict[str, float]] = field(default_factory=dict)
    switched: dict[Restored, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._all = session_of(
            switched_model(self.comparison.pair, self.groups),
            self.comparison.pair.candidate.outputs,
        )

    def parts(self, chosen: Restored) -> list[Part]:
        return sorted((p for g in chosen for p in self.groups[g]), key=lambda p: p.position)

    def restored_model(self, chosen: Restored) -> ModelProto:
        return restore_parts(self.comparison.pair, self.parts(chosen))

    def numbers(self, chosen: Restored) -> dict[str, float]:
        if chosen not in self.known:
            session = self.comparison.session(self.restored_model(chosen))
            self.known[chosen] = self.comparison.numbers(session)
            self.on_trial()
        return self.known[chosen]

    def claim(self, chosen: Restored) -> Numbers:
        """Return the numbers of a model on held-out items, if there are any."""
        if self.held is None:
            return finite_numbers(self.numbers(chosen))
        return finite_numbers(self.held.numbers(self.held.session(self.restored_model(chosen))))

    def in_time(self, chosen: Restored) -> bool:
        return chosen in self.known or time.monotonic() <= self.ends

    def switched_loss(self, chosen: Restored) -> Loss | None:
        """Return the loss on the items for ranking; ``None`` when time is up."""
        if chosen not in self.switched:
            if time.monotonic() > self.ends:
                return None
            switches = {f"{SWITCH}{n}": np.array(n in chosen) for n in range(len(self.groups))}
            self.switched[chosen] = self.ranking.numbers(self._all, **switches)
            self.on_trial()
        return self._loss(self.switched[chosen])

    def _loss(self, numbers: Mapping[str, float]) -> Loss:
        by_outputs = (numbers.get("nonfinite", 0.0), numbers.get("rel_l2", math.inf))
        if self.metric == OUTPUT_METRIC:
            return by_outputs
        value = numbers.get(self.metric, math.nan)
        loss = value if metric_named(self.metric).less_is_better else -value
        return (loss if math.isfinite(loss) else math.inf, *by_outputs)

    def alone(self, group: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the numbers with no group and with only this one restored, if it was tried."""
        only: Restored = frozenset({group})
        found = self.known if only in self.known else self.switched
        return found.get(frozenset(), {}), found.get(only, {})

    def gain(self, group: int, metric: str) -> float | None:
        """Return how much restoring only this group improves a metric."""
        before, after = self.alone(group)
        more = after.get(metric, math.nan) - before.get(metric, math.nan)
        if not math.isfinite(more):
            return None
        return -more if metric_named(metric).less_is_better else more

    def ranked(self, suspects: Sequence[int]) -> list[int]:
        """Return all groups by what was tried so far: on all items, for ranking, not at all."""

        def rank(group: int) -> tuple[object, ...]:
            numbers = self.alone(group)[1]
            rounded = [float(f"{each:.4g}") for each in self._loss(numbers)] if numbers else []
            return (
                frozenset({group}) not in self.known, not numbers, rounded, suspects.index(group)
            )  # fmt: skip

        return sorted(range(len(self.groups)), key=rank)

    def try_groups(self, suspects: Sequence[int], *, until: float) -> bool:
        """Try groups alone, the best again on all items; returns if all could be tried alone."""
        self.switched_loss(frozenset())
        losses = [
            self.switched_loss(frozenset({group}))
            for group in order_by_blocks(suspects, self.switched_loss)
        ]
        best = [frozenset({g}) for g in self.ranked(suspects)[:CONFIRMED] if self.alone(g)[1]]
        self.ends = until
        for number, chosen in enumerate((frozenset[int](), *best)):
            if number < 2 or self.in_time(chosen):
                self.numbers(chosen)
        return None not in losses


def localize(spec: LocalizeSpec, *, folder: Path, stage: Stage) -> Localized:
    """Compare boundaries, restore and rank groups; then find the fewest to keep, if requested."""
    began = time.monotonic()
    expected_s = spec.max_time_s

    def progress(text: str) -> None:
        stage.progress(min(0.99, (time.monotonic() - began) / expected_s), text)

    stage("load")
    paths = (Path(spec.reference), Path(spec.candidate))
    models = [rename_inlined_tensors(casts.prepared(onnx_model.load_onnx(path))) for path in paths]
    newest = max(onnx_model.opset_of(model) or 0 for model in models)
    first, second = (casts.at_opset(model, newest, what="the other model") for model in models)
    pair = divide_graphs(Graph(first), Graph(second))
    tensors = onnx_model.input_specs(pair.reference.model)
    feed = spec.feed
    is_task, notes = feed.kind == "task", list[str]()
    may_lack_labels = is_task and not any(feed.settings.get(name) for name in LABELS)
    source, lost = _readable_items(spec, tensors, may_lack_labels=may_lack_labels)
    # One batch of the candidate tells how many items there is time for.
    names, tries = pair.candidate.outputs, 2 + sum(part.type is not None for part in pair.parts)
    batch = next(iter(Batches(source, tensors, size=1, memory_bytes=0)))
    session = session_of(casts.stand_in(pair.candidate.model), names)
    run_session(session, names, pair.renamed(batch.feed))
    before = time.monotonic()
    run_session(session, names, pair.renamed(batch.feed))
    item_s = (time.monotonic() - before) / batch.count
    few = max(1, int(spec.max_time_s * RANKING_SHARE / tries / item_s))
    most = max(few, int(spec.max_time_s * RANKING_SHARE / MODELS / item_s))
    if len(source.names) > most:
        notes.append(f"{most} of {len(source.names)} items, to end in --max-time")
        source = source.part(range(most))
    expected_s = item_s * (tries * min(few, len(source.names)) + MODELS * len(source.names))
    expected_s = min(spec.max_time_s, 3.0 + expected_s)
    progress(f"{tries} models, about {text_from_seconds(expected_s, digits=2)}")
    has_answers = is_task and (source.has_truth or source.labels is not None)
    half = len(source.names) // 2 if has_answers else 0
    stage("measure")

    def compare(some: DataSource, name: str) -> Comparison:
        batches = Batches(some, tensors, size=spec.run.batch, memory_bytes=spec.memory_bytes)
        judge = partial(TaskJudge, feed, some, folder / "judged", intervals=name == "held-out")
        return Comparison(pair, batches, folder / name, judge if has_answers else None)

    try:
        held = compare(source.part(range(half)), "held-out") if half else None
        searched = source.part(range(half, len(source.names)))
        comparison = compare(searched, "searched")
    except InputError as problem:  # its task cannot judge these outputs
        if not (has_answers and may_lack_labels):
            raise
        notes.append(f"ranked by the outputs, not by the labels: {problem.message}")
        held, half, has_answers = None, 0, False
        searched = source
        comparison = compare(searched, "searched")
    # The metric that ranks groups: the first of the task, or the one the condition names.
    scores, condition = comparison.scores, None
    metric = next(iter(scores), OUTPUT_METRIC)
    if spec.repair is not None:
        where = spec.where or _usual_condition(metric, pair)
        condition = condition_from_text(
            where, names=(*scores, *METRICS), kinds=kinds((*scores, "sqnr"))
        )
        metric = next((name for name in condition.names if name in scores), metric)
    ranking = comparison
    if len(searched.names) > few:
        notes.append(f"groups were ranked on {few} of {len(searched.names)} items")
        ranking = compare(searched.part(range(few)), "ranked")
    drifts = ranking.boundaries(spec, progress)
    groups = _group_parts(pair, drifts)
    ends = began + spec.max_time_s * SEARCH_SHARE
    trials = Trials(comparison, ranking, groups, metric, ends, held)
    own = [_added_drift(group, drifts) for group in groups]
    # First groups with new non-finite values, in graph order, then by added drift.
    suspects = sorted(range(len(groups)), key=lambda g: (not own[g][1], -(own[g][0] or 0.0)))
    graph, inside = pair.reference, {part.tensor for part in pair.parts}
    unmatched = [name for name in graph.boundaries() if name not in inside]
    found = Localized(
        metric=metric, held_out=half, items=len(source.names), groups=(),
        reference=finite_numbers((held or comparison).scores), candidate=trials.claim(frozenset()),
        all_restored=trials.claim(frozenset(suspects)),
        where=condition.text if condition else None, misfit=_range_misfit(pair, ranking.batches),
        stand_in=any(kind in casts.LOW for kind in pair.candidate.types.values()),
        unmatched=tuple(graph.nodes[graph.producers[name]].name for name in unmatched),
        notes=(*source.notes, *notes, *lost),
    )  # fmt: skip
    kept_at = 0.0

    def keep(result: Localized) -> Localized:
        """Leave the best answer so far in the folder, for the case of an interrupt."""
        nonlocal kept_at
        kept_at = time.monotonic()
        count = len(trials.known.keys() | trials.switched.keys())
        result = result.having(trials=count, seconds=kept_at - began)
        write_output(folder / "outcome.json", json_from_value(result))
        return result

    def ranked() -> Localized:
        groups = [_group(trials, number, drifts) for number in trials.ranked(suspects)]
        before = trials.alone(trials.ranked(suspects)[0])[0] if held is None else {}
        return found.having(
            groups=tuple(groups), in_time=all(group.restored for group in groups),
            candidate=finite_numbers(before) or found.candidate,  # on the items of the first group
        )  # fmt: skip

    def tried() -> None:
        if not found.groups and time.monotonic() > kept_at + KEEP_EVERY_S:
            keep(ranked())
        progress(f"{len(trials.known.keys() | trials.switched.keys())} models tried")

    trials.on_trial = tried
    ends = began + spec.max_time_s
    single = trials.try_groups(suspects, until=ends - 0.3 * spec.max_time_s * bool(condition))
    found = keep(ranked().having(one_by_one=single))
    places, trials.ends = trials.ranked(suspects), ends
    if held:
        found = found.having(repaired=trials.claim(frozenset(places[:1])))
    if condition is not None:
        found = _repair(spec, trials, condition, found, places, keep)
    return keep(found)


def _readable_items(
    spec: LocalizeSpec, tensors: Sequence[TensorSpec], *, may_lack_labels: bool
) -> tuple[DataSource, list[str]]:
    """Return the items that can be read, and notes on the others."""
    feed, is_task = spec.feed, spec.feed.kind == "task"
    every = feed.having(count=None) if is_task else feed
    try:
        source = open_feed(every, tensors, spec=spec.run)
    except InputError:
        if not may_lack_labels:
            raise
        plain = {**feed.settings, "unlabelled": True}
        source = open_feed(every.having(settings=plain), tensors, spec=spec.run)
    if is_task:  # of all classes, however the items are sorted
        order = np.random.default_rng(feed.seed).permutation(len(source.names))
        source = source.part(order[: feed.count].tolist())
    readable, lost = [], []
    for place, name in enumerate(source.names):
        try:
            source.load(place)
        except InputError as problem:
            lost.append(f"{name} was left out: {problem.facts.get('reason') or problem.message}")
        else:
            readable.append(place)
    if not readable:
        example = lost[0] if lost else "there is none"
        raise InputError("no item can be read", facts={"for example": example})
    return source.part(readable), lost


def _usual_condition(metric: str, pair: GraphPair) -> str:
    """Return the default condition of a repair: what conversions usually reach."""
    if metric != OUTPUT_METRIC:
        known = metric_named(metric)
        sign, way = ("<=", "*1.01") if known.less_is_better else (">=", "*0.99")
        return f"{metric}{sign}baseline{'-0.5%' if known.is_share else way}"
    types = {(part.type or "").lower() for part in pair.parts}
    levels = [USUAL_SQNR_DB[kind] for kind in types if kind in USUAL_SQNR_DB]
    return f"nonfinite<=0 and sqnr>={min(levels, default=20.0):g}dB"


def _range_misfit(pair: GraphPair, batches: Batches) -> str | None:
    """Say how the range that an input is quantized with differs from the values of the items."""
    from onnx import numpy_helper

    graph = pair.candidate
    for name in pair.reference.inputs:
        theirs = pair.matches[name]
        quantizers = (node for node in graph.nodes if node.op_type == "QuantizeLinear")
        reader = next((node for node in quantizers if node.input[0] == theirs), None)
        stored = [graph.stored[n] for n in reader.input[1:] if n in graph.stored] if reader else []
        scale, zero = map(numpy_helper.to_array, stored) if len(stored) == 2 else (None, None)
        if scale is None or zero is None or scale.size != 1 or zero.dtype.kind not in "iu":
            continue
        ends, offset, step = np.iinfo(zero.dtype), int(zero.item()), float(scale.item())
        low, high = ((int(end) - offset) * step for end in (ends.min, ends.max))
        values = np.concatenate([x.feed[name].ravel() for x in batches.first(BOUNDARY_ITEMS)])
        drift = Drift()
        drift.add(values, np.clip(np.round(values / step) * step, low, high))
        if (drift.rel_l2 or 0.0) > MAX_INPUT_LOSS:
            return (
                f"the input {theirs} is quantized for {low:.3g} to {high:.3g}, but its values here "
                f"are {values.min():.3g} to {values.max():.3g}, which loses "
                f"{min(1.0, drift.rel_l2 or 0.0):.0%} of them (rel. L2)"
            )
    return None


def _group_parts(pair: GraphPair, drifts: Mapping[str, Drift]) -> list[list[Part]]:
    """Return the parts in a low type, grouped where restoring one alone would not help.

    They share a tensor that overflows the type, or one with outliers that every reader quantizes.
    """
    parts = [part for part in pair.parts if part.type is not None]
    if not parts:
        message = "no part of the candidate computes in a lower precision than the reference"
        fix = "trtbench inspect CANDIDATE shows its types"
        raise InputError(message, facts={"parts matched": str(len(pair.parts))}, fix=fix)
    pairs: list[tuple[int, int]] = []
    for place, part in enumerate(parts):
        kind = casts.LOW.get(pair.candidate.types.get(part.match, 0))
        if kind is not None and drifts[part.tensor].largest > LIMITS[kind]:
            pairs += [(place, n) for n, each in enumerate(parts) if part.tensor in each.reads]
        drift = drifts[part.tensor]
        outliers = drift.zeroed[part.type or ""] >= MANY_ZEROED * max(1, drift.nonzero)
        # If only the readers quantize it, restoring them is enough.
        made = {name for node in part.theirs for name in node.output}
        is_own = any(n.op_type == "QuantizeLinear" and n.input[0] in made for n in part.theirs)
        waiting = [part] if outliers and is_own else []
        while waiting:
            tensor = waiting.pop().tensor
            readers = [(n, each) for n, each in enumerate(parts) if tensor in each.reads]
            pairs += [(place, number) for number, _ in readers]
            waiting += [each for _, each in readers if each.op in PASS_THROUGH]
    group = list(range(len(parts)))
    for a, b in pairs:
        low, high = sorted((group[a], group[b]))
        group = [low if each == high else each for each in group]
    return [[p for p, own in zip(parts, group, strict=True) if own == n] for n in sorted({*group})]


def _added_drift(group: Sequence[Part], drifts: Mapping[str, Drift]) -> tuple[float | None, bool]:
    """Return the drift that a group adds, and whether it makes non-finite values of finite ones."""
    inside = {part.tensor for part in group}
    before = [drifts[n] for part in group for n in part.reads if n in drifts and n not in inside]
    after = [drifts[part.tensor] for part in group]
    is_first = not any(each.nonfinite for each in before) and any(each.nonfinite for each in after)
    total = max((each.rel_l2 for each in after if each.rel_l2 is not None), default=None)
    if total is None:
        return None, is_first
    read = max((each.rel_l2 or 0.0 for each in before), default=0.0)
    return math.sqrt(max(0.0, total**2 - read**2)), is_first


def _group(trials: Trials, number: int, drifts: Mapping[str, Drift]) -> NodeGroup:
    parts = trials.groups[number]
    first, last = parts[0], parts[-1]
    added, is_first = _added_drift(parts, drifts)
    nodes = [node for part in parts for node in part.nodes]
    names = tuple(dict.fromkeys(node.name for node in nodes))
    # Quantizers only name nodes that have their own scales.
    if first.type not in casts.LOW.values():
        nodes = [node for node in nodes if node.op_type not in FOLLOWERS] or nodes
    return NodeGroup(
        node=first.node, op=first.op, position=first.position, type=first.type or "",
        nodes=names,
        named=tuple(dict.fromkeys(node.name for node in nodes if node.op_type != "Constant")),
        rel_l2=drifts[last.tensor].rel_l2, added=added, first_nonfinite=is_first,
        nonfinite=sum(drifts[part.tensor].nonfinite for part in parts),
        largest=max(drifts[part.tensor].largest for part in parts),
        restored=finite_numbers(trials.alone(number)[1]),
        gain=trials.gain(number, trials.metric),
        sqnr_gain_db=trials.gain(number, OUTPUT_METRIC),
    )  # fmt: skip


def _repair(
    spec: LocalizeSpec, trials: Trials, condition: Condition, found: Localized,
    ranked: Sequence[int], keep: Callable[[Localized], Localized],
) -> Localized:  # fmt: skip
    """Keep the fewest groups that meet the condition, and write the model."""
    fewest = len(ranked)

    def meets(chosen: Restored) -> bool | None:
        nonlocal fewest
        if not trials.in_time(chosen):
            return None
        met = bool(holds(condition, trials.numbers(chosen), baseline=trials.comparison.scores))
        if met and 0 < len(chosen) < fewest:
            fewest = len(chosen)
            conclude(chosen, minimal=False)
        return met

    def conclude(chosen: Restored, *, minimal: bool) -> Localized:
        kept = [g for g in ranked if g in chosen]
        if kept and len(kept) == len(trials.groups):
            return found.having(met=False, nothing_left=True)
        repaired = trials.claim(chosen)
        if trials.held and not holds(condition, repaired, baseline=trials.held.scores):
            return found.having(met=False, overfit=True, repaired=repaired)
        names = tuple(trials.groups[g][0].node for g in kept)
        result = found.having(met=True, minimal=minimal, repaired=repaired, kept=names)
        if kept and spec.repair is not None:
            nodes = (node.name for part in trials.parts(chosen) for node in part.nodes)
            made = trials.restored_model(chosen)
            entry = made.metadata_props.add()
            entry.key, entry.value = f"{PREFIX}kept", " ".join(nodes)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # an interrupt
            onnx_model.save_onnx(made, Path(spec.repair))
            keep(result)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return result

    chosen: Restored | None = frozenset()
    minimal = True
    if not meets(frozenset()):
        chosen, minimal = smallest_sufficient(ranked, meets)
    if chosen is None:
        late = time.monotonic() > trials.ends
        return found.having(met=False, in_time=found.in_time and not late)
    return conclude(chosen, minimal=minimal)


def finite_numbers(numbers: Mapping[str, float]) -> Numbers:
    """Return the numbers with ``None`` for NaN and infinity, which JSON cannot hold."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
