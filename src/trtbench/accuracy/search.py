"""Finds the nodes that cost a low-precision model its accuracy, and the fewest to keep from it.

Both models run over the same items. What passes at boundaries, and what low types make of it, ranks
the groups of nodes to be restored; models with some groups restored are tried, and the fewest that
meet a condition are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trtbench.accuracy.graphs import (
    Graph,
    Part,
    TwoGraphs,
    divided,
    quantized_type,
    restored,
    without_inlined_names,
)
from trtbench.analysis.check import METRICS, OutputTally, worst_numbers
from trtbench.analysis.localize import (
    Loss,
    Restored,
    bisect,
    fewest,
    has_outliers,
    in_order_of_suspicion,
    joined,
    one_by_one,
)
from trtbench.analysis.onnx_graph import PREFIX
from trtbench.analysis.scores import USUAL_SQNR_DB
from trtbench.convert.calibration import FeedArrays
from trtbench.convert.cast import (
    EXACT,
    EXACT_ANYWAY,
    FP16_MAX,
    LOW,
    at_opset,
    prepared,
    stand_in,
)
from trtbench.convert.verify import FOLLOWERS, grouped, outputs_of, session_of
from trtbench.core.conditions import Condition, condition_from_text, holds
from trtbench.core.errors import InputError
from trtbench.core.jobs import Stage
from trtbench.core.metrics import is_share, kinds, less_is_better
from trtbench.core.results import Localized, LocalizeSpec, NodeGroup, Numbers, TypeRange
from trtbench.core.samples import AnyArray
from trtbench.core.spec import TensorSpec
from trtbench.host.arrays import Chunks, ChunkWriter
from trtbench.models.inputs import fixed_batch, has_rows
from trtbench.models.onnx_model import input_specs, load_onnx, opset_of, read_onnx, save_onnx
from trtbench.tasks._feed import TaskJudge, open_feed
from trtbench.tasks.contract import DataSource

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

BATCH = 8
BOUNDARY_ITEMS = 32
"""Items to compare boundaries with: ranges and drift hardly vary between inputs."""
SEARCHING = 0.6
"""Fraction of the time that may go into ranking when a repair is to follow."""
FEW = 4
"""Groups that drift most are tried by themselves before bisection."""
OUTPUT_METRIC = "sqnr_db"
HANDING_ON = (
    "AveragePool", "Clip", "Concat", "Dropout", "Flatten", "Gather", "Identity", "MaxPool", "Pad",
    "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators whose largest values are those of what they read."""
LIMITS = {"FP16": FP16_MAX, "BF16": 3.3895313892515355e38}
"""The largest magnitude of a floating-point type."""
_SMALLEST = {"FP16": 2.0**-25, "BF16": 0.0}
"""Half of the smallest number: what is below becomes zero."""
STEPS = {"INT8": 127.0, "UINT8": 255.0, "INT16": 32767.0, "UINT16": 65535.0, "FP8": 448.0,
         "INT4": 7.0, "UINT4": 15.0, "FP4": 6.0}  # fmt: skip
"""The largest magnitude of a quantized type, in steps of its scale."""
_ZERO_BELOW = {"FP8": 2.0**-10, "FP4": 0.25}
"""What becomes zero in quantized floating-point types, in steps; of integers half a step."""

_Progress = Callable[[float, str], None]


def readable(source: DataSource) -> tuple[DataSource, tuple[str, ...]]:
    """Return the source without items that cannot be read, and a note on each of them."""
    lost: dict[int, str] = {}
    for place, name in enumerate(source.names):
        try:
            source.load(place)
        except InputError as problem:
            lost[place] = f"{name} was left out: {problem.facts.get('reason') or problem.message}"
    if len(lost) == len(source.names):
        raise InputError("no item can be read", facts={"for example": lost.get(0, "there is none")})
    left = [place for place in range(len(source.names)) if place not in lost]
    return source.part(left) if lost else source, tuple(lost.values())


@dataclass(frozen=True)
class Batch:
    start: int
    count: int
    feed: FeedArrays
    loaded: list[object]

    def rows(self, array: AnyArray) -> AnyArray:
        """Return an output without what filled up the batch, one row per item."""
        if array.ndim and len(array) >= self.count:
            return array[: self.count]
        return np.repeat(np.asarray(array)[None], self.count, axis=0)


class Batches:
    """The items of a source in batches; prepared ones are cached as far as memory allows."""

    def __init__(
        self,
        source: DataSource,
        tensors: Sequence[TensorSpec],
        *,
        size: int | None,
        memory_bytes: int,
    ) -> None:
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
        """Yield the batches that hold the first items."""
        for start in range(0, min(items, len(self)), self.size):
            batch = self._cached.get(start) or self._prepared(start)
            size = sum(array.nbytes for array in batch.feed.values())
            if start not in self._cached and size <= self._left:
                self._left -= size
                self._cached[start] = batch
            yield batch

    def _prepared(self, start: int) -> Batch:
        stop = min(start + self.size, len(self))
        loaded = [self._source.load(index) for index in range(start, stop)]
        items = [self._source.prepare(each) for each in loaded]
        if self._fixed:  # a last, short batch is filled up, and its outputs cut again
            items += [items[-1]] * (self.size - len(items))
        feed = {
            t.name: np.stack([item[t.name] for item in items])
            if has_rows(t, self._tensors)
            else np.asarray(items[0][t.name])
            for t in self._tensors
        }
        return Batch(start, stop - start, feed, loaded)


@dataclass
class Drift:
    """The difference at one boundary, over some items."""

    error2: float = 0.0
    signal2: float = 0.0
    largest: float = 0.0
    """Of the reference, finite."""
    nonfinite: int = 0
    elements: int = 0

    @property
    def rel_l2(self) -> float | None:
        if not self.elements or not self.signal2:
            return None
        return math.sqrt(self.error2 / self.signal2)

    def add(self, wanted: AnyArray, found: AnyArray) -> None:
        if wanted.shape != found.shape:
            return
        r, t = wanted.astype(np.float64), found.astype(np.float64)
        known = np.isfinite(r)
        usable = known & np.isfinite(t)
        self.elements += r.size
        self.nonfinite += int(np.count_nonzero(known & ~usable))
        self.error2 += float(((t - r)[usable] ** 2).sum())
        self.signal2 += float((r[usable] ** 2).sum())
        self.largest = max(self.largest, float(np.abs(r[known]).max(initial=0.0)))


Drifts = Mapping[str, Drift]
"""By boundary of the reference."""


class _Marked(NamedTuple):
    """A tensor to compare: its name in the reference, if it is there, and in the candidate."""

    tensor: str
    match: str
    size_bytes: int | None


@dataclass
class Comparison:
    """Runs models on the same items and compares them with the reference's outputs."""

    pair: TwoGraphs
    batches: Batches
    folder: Path
    judge: Callable[[], TaskJudge] | None

    def __post_init__(self) -> None:
        outputs = [name for name in self.pair.reference.outputs if name in self.pair.matches]
        if not outputs:
            raise InputError("no output of the reference is computed by a node")
        self._outputs = {name: self.pair.matches[name] for name in outputs}
        writer = ChunkWriter(self.folder)
        self.scores = self._run(
            self.pair.reference.model, {name: name for name in outputs}, lambda feed: feed,
            lambda batch, rows: writer.add(rows, items=batch.count),
        )  # fmt: skip
        """Of the reference, by the task."""
        writer.flush()
        self._wanted = Chunks(self.folder)

    def _run(
        self,
        model: ModelProto,
        names: Mapping[str, str],
        fed: Callable[[FeedArrays], FeedArrays],
        take: Callable[[Batch, FeedArrays], None],
    ) -> dict[str, float]:
        """Run a model over all items; returns its scores by the task."""
        judge = self.judge() if self.judge else None
        theirs = list(names.values())
        session = session_of(stand_in(model), theirs)
        for batch in self.batches:
            found = outputs_of(session, theirs, fed(batch.feed))
            rows = {name: batch.rows(found[other]) for name, other in names.items()}
            take(batch, rows)
            if judge is not None:
                judge.add(rows, batch.loaded)
        return judge.scores() if judge is not None else {}

    def numbers(self, model: ModelProto) -> dict[str, float]:
        """Run a model over all items; returns the worst of its outputs, and the task's metrics."""
        tallies = {name: OutputTally(name) for name in self._outputs}

        def compare(batch: Batch, rows: FeedArrays) -> None:
            wanted = self._wanted.rows(batch.start, batch.start + batch.count)
            for name, tally in tallies.items():
                tally.add(wanted[name], rows[name].astype(wanted[name].dtype), start=batch.start)

        scores = self._run(model, self._outputs, self._renamed, compare)
        worst = worst_numbers([tally.result() for tally in tallies.values()])
        return {**{name: value for name, value in worst.items() if value is not None}, **scores}

    def boundaries(
        self,
        sizes: Mapping[str, int | None],
        watches: Mapping[str, Sequence[RangeWatch]],
        *,
        memory_bytes: int,
        progress: _Progress,
    ) -> dict[str, Drift]:
        """Compare all boundaries, a few at a time.

        ``sizes`` are bytes of the reference's tensors; ``watches`` belong to tensors of the
        candidate, by the name in its stand-in.
        """
        reference, candidate = (
            stand_in(graph.model) for graph in (self.pair.reference, self.pair.candidate)
        )
        ours = {part.tensor: part.match for part in self.pair.parts}
        pairs = [*ours.items(), *(("", name) for name in watches if name not in ours.values())]
        marks = [_Marked(a, b, sizes.get(a)) for a, b in pairs]
        drifts, done = {tensor: Drift() for tensor in ours}, 0
        for some in grouped(marks, memory_bytes):
            wanted, names = [mark.tensor for mark in some if mark.tensor], [m.match for m in some]
            first = session_of(reference, wanted) if wanted else None
            other = session_of(candidate, names)
            for batch in self.batches.first(BOUNDARY_ITEMS):
                found = outputs_of(other, names, self._renamed(batch.feed))
                right = outputs_of(first, wanted, batch.feed) if first is not None else {}
                for tensor in wanted:
                    drifts[tensor].add(right[tensor], found[ours[tensor]])
                for name in names:
                    for watch in watches.get(name, ()):
                        watch.add(found[name])
            done += len(some)
            progress(done / len(marks), f"boundaries: {done} of {len(marks)} tensors")
        return drifts

    def _renamed(self, feed: FeedArrays) -> FeedArrays:
        return {self.pair.matches[name]: array for name, array in feed.items()}


@dataclass
class RangeWatch:
    """Collects the values at one place where they take a low type."""

    tensor: str
    what: str
    node: str
    type: str
    limit: float
    smallest: float
    largest: float = 0.0
    beyond: int = 0
    zeroed: int = 0
    elements: int = 0
    nonzero: int | None = None
    """Of these; ``None`` where they are stored in the low type and it is unknown."""

    def add(self, array: AnyArray) -> None:
        values = np.abs(array.astype(np.float64))
        finite = values[np.isfinite(values)]
        self.elements += values.size
        self.nonzero = (self.nonzero or 0) + int(np.count_nonzero(values))
        self.largest = max(self.largest, float(finite.max(initial=0.0)))
        self.beyond += int(np.count_nonzero(finite > self.limit * (1 + 1e-6)))
        self.zeroed += int(np.count_nonzero((finite > 0) & (finite < self.smallest)))

    def result(self) -> TypeRange:
        count = max(1, self.elements)
        alive = count if self.nonzero is None else max(1, self.nonzero)
        return TypeRange(
            tensor=self.tensor, what=self.what, node=self.node, type=self.type, limit=self.limit,
            largest=self.largest, beyond=self.beyond / count, zeroed=self.zeroed / alive,
        )  # fmt: skip


def _watches(graph: Graph, node: NodeProto, own: set[str]) -> Iterator[tuple[str, RangeWatch]]:
    """Yield where values of a node take a low type, with the stand-in's tensor to watch.

    Weights are looked at here, and have no name.
    """
    if node.op_type == "QuantizeLinear" and node.input[0] in graph.active:
        scale = _stored(graph, node.input[1])
        if scale is None or scale.size != 1:
            return
        tensor, kind, step = node.input[0], quantized_type(graph, node), float(scale.item())
        maker, readers = graph.maker(tensor), graph.readers.get(node.output[0], [])
        name, what = node.name, "input"
        if maker is not None and maker.name in own:
            name, what = maker.name, "output"
        elif readers:  # named by the node after the DQ node
            behind = graph.readers.get(graph.nodes[readers[0]].output[0], [])
            name = graph.nodes[behind[0]].name if behind else name
        below = step * _ZERO_BELOW.get(kind, 0.5)
        yield tensor, RangeWatch(tensor, what, name, kind, step * STEPS[kind], below)
    elif node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        watch = _weights(graph, node)
        if watch is not None:
            yield "", watch
    elif node.op_type not in EXACT_ANYWAY:
        for name in node.output:
            low = LOW.get(graph.types.get(name, 0))
            if low is not None and name in graph.active:
                watch = RangeWatch(name, "output", node.name, low, LIMITS[low], _SMALLEST[low])
                yield name + EXACT, watch


def _weights(graph: Graph, node: NodeProto) -> RangeWatch | None:
    """Look at stored values: integers before a DQ node, or what a Q node rounds to them."""
    values, scale = _stored(graph, node.input[0]), _stored(graph, node.input[1])
    if values is None or scale is None:
        return None
    steps = scale.astype(np.float64)
    if steps.size > 1:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        if steps.size != values.shape[axis]:
            return None  # in blocks
        shape = [1] * values.ndim
        shape[axis] = -1
        steps = steps.reshape(shape)
    kind, is_narrow = quantized_type(graph, node), node.op_type == "DequantizeLinear"
    sizes = np.abs(values.astype(np.float64)) * (steps if is_narrow else 1.0)
    if not sizes.any():
        return None  # a bias of zeros loses nothing
    readers = graph.readers.get(node.output[0], [])
    reader = graph.nodes[readers[0]].name if readers else node.name
    limit = float(steps.max()) * STEPS[kind]
    below = _ZERO_BELOW.get(kind, 0.5)
    zero = (values.astype(np.float64) == 0) if is_narrow else (sizes > 0) & (sizes < below * steps)
    return RangeWatch(
        node.input[0], "weights", reader, kind, limit, 0.0, largest=float(sizes.max(initial=0.0)),
        zeroed=int(np.count_nonzero(zero)), elements=values.size,
    )  # fmt: skip


def _stored(graph: Graph, name: str) -> AnyArray | None:
    from onnx import numpy_helper

    tensor = graph.stored.get(name)
    return None if tensor is None else numpy_helper.to_array(tensor)


def _aim(
    spec: LocalizeSpec, pair: TwoGraphs, scores: dict[str, float]
) -> tuple[str, Condition | None]:
    """Return the metric that ranks groups, and the condition a repair has to meet.

    The metric is the first of the task, or the one the condition names; else SQNR.
    """
    metric = next(iter(scores), OUTPUT_METRIC)
    if spec.repair is None:
        return metric, None
    if metric != OUTPUT_METRIC:  # what a conversion usually reaches
        sign, way = ("<=", "*1.01") if less_is_better(metric) else (">=", "*0.99")
        usual = f"{metric}{sign}baseline{'-0.5%' if is_share(metric) else way}"
    else:
        types = {(part.type or "").lower() for part in pair.parts}
        level = min((USUAL_SQNR_DB[kind] for kind in types if kind in USUAL_SQNR_DB), default=20.0)
        usual = f"nonfinite<=0 and sqnr>={level:g}dB"
    condition = condition_from_text(
        spec.where or usual, names=(*scores, *METRICS), kinds=kinds((*scores, "sqnr"))
    )
    return next((name for name in condition.names if name in scores), metric), condition


@dataclass
class Trials:
    """Tries models with some groups restored, each set once, until time is up."""

    pair: TwoGraphs
    comparison: Comparison
    groups: list[list[Part]]
    metric: str
    ends: float
    progress: Callable[[str], None]
    known: dict[Restored, dict[str, float]] = field(default_factory=dict)

    def restored(self, chosen: Restored) -> ModelProto:
        parts = sorted((p for g in chosen for p in self.groups[g]), key=lambda p: p.position)
        return restored(self.pair, parts)

    def numbers(self, chosen: Restored) -> dict[str, float]:
        if chosen not in self.known:
            self.known[chosen] = self.comparison.numbers(self.restored(chosen))
            self.progress(f"{len(self.known)} models tried")
        return self.known[chosen]

    def in_time(self, chosen: Restored) -> bool:
        return chosen in self.known or time.monotonic() <= self.ends

    def loss(self, chosen: Restored) -> Loss | None:
        """Return how bad a model is; ``None`` when time is up."""
        if not self.in_time(chosen):
            return None
        numbers = self.numbers(chosen)
        by_outputs = (numbers.get("nonfinite", 0.0), numbers.get("rel_l2", math.inf))
        if self.metric == OUTPUT_METRIC:
            return by_outputs
        value = numbers.get(self.metric, math.nan)
        loss = value if less_is_better(self.metric) else -value
        return (loss if math.isfinite(loss) else math.inf, *by_outputs)

    def gain(self, group: int, metric: str) -> float | None:
        """Return what restoring one group alone improves."""
        before, after = self.known[frozenset()], self.known.get(frozenset({group}), {})
        more = after.get(metric, math.nan) - before.get(metric, math.nan)
        if not math.isfinite(more):
            return None
        return -more if less_is_better(metric) else more

    def ranked(
        self, suspects: Sequence[int], *, trial_s: float
    ) -> tuple[list[int], set[int], bool]:
        """Return all groups in order, those tried by themselves, and whether that was the plan.

        Where there is no time for each of them, bisection follows those suspected most.
        """
        single = len(self.groups) * trial_s <= self.ends - time.monotonic()
        losses = one_by_one(suspects if single else suspects[:FEW], self.loss)
        if not single:
            losses |= bisect(len(self.groups), self.loss)

        def rank(group: int) -> tuple[object, ...]:
            loss = losses.get(group)
            rounded = tuple(float(f"{each:.4g}") for each in loss) if loss is not None else ()
            return (loss is None, rounded, suspects.index(group))

        return sorted(range(len(self.groups)), key=rank), set(losses), single


def localize(spec: LocalizeSpec, *, folder: Path, stage: Stage) -> Localized:
    """Divide, compare boundaries, restore and rank groups; then keep the fewest, if asked for."""
    began = time.monotonic()
    progress: _Progress = getattr(stage, "progress", lambda done, text: None)

    def trial_progress(text: str) -> None:
        used = (time.monotonic() - began) / spec.max_time_s
        progress(min(0.99, 0.2 + 0.8 * used), text)

    stage("load")
    pair = divided(*load_graphs(Path(spec.reference), Path(spec.candidate)))
    tensors = input_specs(pair.reference.model)
    source, lost = readable(open_feed(spec.feed, tensors, spec=spec.run))
    batches = Batches(source, tensors, size=spec.run.batch, memory_bytes=spec.memory_bytes)
    has_answers = spec.feed.kind == "task" and not spec.feed.settings.get("unlabelled")
    stage("measure")
    comparison = Comparison(
        pair, batches, folder,
        (lambda: TaskJudge(spec.feed, source, folder / "judged")) if has_answers else None,
    )  # fmt: skip
    metric, condition = _aim(spec, pair, comparison.scores)
    progress(0.02, "the candidate as it is")
    before = time.monotonic()
    candidate = comparison.numbers(pair.candidate.model)
    trial_s = time.monotonic() - before
    drifts, ranges = _compare_boundaries(spec, comparison, progress)
    groups = _groups(pair, drifts, ranges)
    ends = began + spec.max_time_s * (SEARCHING if condition else 1.0)
    trials = Trials(pair, comparison, groups, metric, ends, trial_progress)
    trials.known[frozenset()] = candidate
    everything = trials.numbers(frozenset(range(len(groups))))
    suspects = [(loses(group, drifts), added(group, drifts) or 0.0) for group in groups]
    ranked, tried, single = trials.ranked(in_order_of_suspicion(suspects), trial_s=trial_s)
    inside = {part.tensor for part in pair.parts}
    unmatched = [name for name in pair.reference.boundaries() if name not in inside]
    found = Localized(
        metric=metric,
        groups=tuple(_group(trials, g, drifts, ranges, tried=g in tried) for g in ranked),
        reference=finite_numbers(comparison.scores),
        candidate=finite_numbers(candidate),
        all_restored=finite_numbers(everything),
        items=len(batches),
        where=condition.text if condition else None,
        one_by_one=single,
        in_time=len(tried) == len(groups) or not single,
        stand_in=any(kind in LOW for kind in pair.candidate.types.values()),
        unmatched=tuple(
            pair.reference.nodes[pair.reference.makers[name]].name for name in unmatched
        ),
        notes=(*source.notes, *lost),
    )
    trials.ends = began + spec.max_time_s
    if condition is not None:
        found = _repair(spec, trials, condition, found, ranked)
    return found.having(trials=len(trials.known), seconds=time.monotonic() - began)


def load_graphs(reference: Path, candidate: Path) -> tuple[Graph, Graph]:
    """Load both graphs with all their nodes named, at one opset."""
    paths = (reference, candidate)
    models = [without_inlined_names(prepared(load_onnx(path))) for path in paths]
    newest = max(opset_of(model) or opset_of(model, "ai.onnx") or 0 for model in models)
    first, second = (at_opset(model, newest, what="the other model") for model in models)
    return Graph(first), Graph(second)


def _compare_boundaries(
    spec: LocalizeSpec, comparison: Comparison, progress: _Progress
) -> tuple[dict[str, Drift], dict[str, list[TypeRange]]]:
    """Return drift at every boundary, and ranges where values take a low type, by part."""
    pair = comparison.pair
    nodes = {node.name: node for node in pair.candidate.nodes}
    by_part: dict[str, list[RangeWatch]] = {}
    by_name: dict[str, list[RangeWatch]] = {}
    for part in pair.parts:
        if part.type is None:
            continue
        by_part[part.tensor] = []
        for node in (nodes[name] for name in part.theirs):
            for name, watch in _watches(pair.candidate, node, set(part.theirs)):
                by_part[part.tensor].append(watch)
                if name and name not in pair.candidate.inputs:
                    by_name.setdefault(name, []).append(watch)
                elif name:
                    own = next(ours for ours, theirs in pair.matches.items() if theirs == name)
                    for batch in comparison.batches:
                        watch.add(batch.feed[own])
    known = read_onnx(Path(spec.reference), batch=comparison.batches.size)
    drifts = comparison.boundaries(
        {t.name: t.size_bytes for node in known.nodes for t in node.outputs},
        by_name,
        memory_bytes=spec.memory_bytes,
        progress=lambda done, text: progress(0.02 + 0.18 * done, text),
    )
    ranges = {name: [watch.result() for watch in watches] for name, watches in by_part.items()}
    return drifts, ranges


def _groups(
    pair: TwoGraphs, drifts: Drifts, ranges: Mapping[str, Sequence[TypeRange]]
) -> list[list[Part]]:
    """Return parts in a low type, together where restoring one alone is no use.

    Those are joined by a tensor that the low type cannot hold; and by an output with outliers,
    which each that reads it rounds once more.
    """
    parts = [part for part in pair.parts if part.type is not None]
    if not parts:
        raise InputError(
            "no part of the candidate computes in a lower precision than the reference",
            facts={"parts matched": str(len(pair.parts))},
            fix="trtbench inspect CANDIDATE shows its types",
        )
    pairs: list[tuple[int, int]] = []
    for place, part in enumerate(parts):
        kind = LOW.get(pair.candidate.types.get(part.match, 0))
        if kind is not None and drifts[part.tensor].largest > LIMITS[kind]:
            pairs += [(place, n) for n, each in enumerate(parts) if part.tensor in each.reads]
        own = ranges.get(part.tensor, ())
        waiting = [part] if any(e.what == "output" and has_outliers(e) for e in own) else []
        while waiting:
            tensor = waiting.pop().tensor
            readers = [(n, each) for n, each in enumerate(parts) if tensor in each.reads]
            pairs += [(place, number) for number, _ in readers]
            waiting += [each for _, each in readers if each.op in HANDING_ON]
    return [[parts[i] for i in each] for each in joined(pairs, len(parts))]


def loses(group: Sequence[Part], drifts: Drifts) -> bool:
    """Return whether values stop being finite here: they are at its inputs, and not behind it."""
    inside = {part.tensor for part in group}
    before = [
        drifts[n].nonfinite for p in group for n in p.reads if n in drifts and n not in inside
    ]
    return not any(before) and any(drifts[part.tensor].nonfinite for part in group)


def added(group: Sequence[Part], drifts: Drifts) -> float | None:
    """Return a group's own part of the drift behind it; ``None`` where that is unknown."""
    inside = {part.tensor for part in group}
    behind = [drifts[part.tensor].rel_l2 for part in group]
    own = max((each for each in behind if each is not None), default=None)
    if own is None:
        return None
    reads = [n for part in group for n in part.reads if n in drifts and n not in inside]
    before = max((drifts[name].rel_l2 or 0.0 for name in reads), default=0.0)
    return math.sqrt(max(0.0, own**2 - before**2))


def _group(
    trials: Trials,
    number: int,
    drifts: Drifts,
    ranges: Mapping[str, Sequence[TypeRange]],
    *,
    tried: bool,
) -> NodeGroup:
    parts = trials.groups[number]
    first, last = parts[0], parts[-1]
    nodes = [trials.pair.reference.nodes[place] for part in parts for place in part.places]
    if first.type not in LOW.values():  # a quantizer takes those with scales of their own
        nodes = [node for node in nodes if node.op_type not in FOLLOWERS] or nodes
    return NodeGroup(
        node=first.node,
        op=first.op,
        nodes=tuple(dict.fromkeys(name for part in parts for name in part.nodes)),
        named=tuple(dict.fromkeys(node.name for node in nodes if node.op_type != "Constant")),
        position=first.position,
        type=first.type or "",
        rel_l2=drifts[last.tensor].rel_l2,
        added=added(parts, drifts),
        nonfinite=sum(drifts[part.tensor].nonfinite for part in parts),
        first_nonfinite=loses(parts, drifts),
        ranges=tuple(each for part in parts for each in ranges.get(part.tensor, ())),
        restored=finite_numbers(trials.known.get(frozenset({number}), {})) if tried else {},
        gain=trials.gain(number, trials.metric) if tried else None,
        sqnr_gain_db=trials.gain(number, OUTPUT_METRIC) if tried else None,
    )


def _repair(
    spec: LocalizeSpec,
    trials: Trials,
    condition: Condition,
    found: Localized,
    ranked: Sequence[int],
) -> Localized:
    """Keep the fewest groups that meet the condition, and write the model."""

    def meets(chosen: Restored) -> bool | None:
        if not trials.in_time(chosen):
            return None
        return bool(holds(condition, trials.numbers(chosen), baseline=trials.comparison.scores))

    chosen: Restored | None = frozenset()
    minimal = True
    if not meets(frozenset()):
        chosen, minimal = fewest(ranked, meets)
    if chosen is None:
        late = time.monotonic() > trials.ends
        return found.having(met=False, in_time=found.in_time and not late)
    kept = [g for g in ranked if g in chosen]
    if kept and spec.repair is not None:
        parts = sorted((p for g in kept for p in trials.groups[g]), key=lambda p: p.position)
        made = trials.restored(chosen)
        entry = made.metadata_props.add()
        entry.key, entry.value = f"{PREFIX}kept", " ".join(n for p in parts for n in p.nodes)
        save_onnx(made, Path(spec.repair))
    return found.having(
        met=True,
        minimal=minimal,
        repaired=finite_numbers(trials.numbers(chosen)),
        kept=tuple(trials.groups[g][0].node for g in kept),
    )


def finite_numbers(numbers: Mapping[str, float]) -> Numbers:
    """Return numbers as JSON can hold them: without infinity."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
