"""Runs the graphs of a search: outputs over all items, and what passes at boundaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from trtbench.analysis.check import OutputTally
from trtbench.analysis.check_rules import worst_numbers
from trtbench.analysis.inputs import fixed_batch, has_rows
from trtbench.build.cast_types import FP16_MAX
from trtbench.build.localize_graph import TwoGraphs
from trtbench.build.localize_rewrite import copied, stand_in
from trtbench.build.onnx_layers import grouped, outputs_of, session_of
from trtbench.build.quantize_data import FeedArrays
from trtbench.domain.arrays import AnyArray
from trtbench.domain.feed import LoadedItem
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError
from trtbench.host.chunks import Chunks, ChunkWriter

if TYPE_CHECKING:
    from onnx import ModelProto

BATCH = 8
LOOKED_AT = 32
"""Items to look at boundaries with: ranges and drift hardly vary between inputs."""


class Source(Protocol):
    names: tuple[str, ...]
    notes: tuple[str, ...]

    def load(self, index: int) -> LoadedItem: ...

    def prepare(self, loaded: LoadedItem) -> Mapping[str, AnyArray]: ...

    def part(self, places: Sequence[int]) -> Any: ...


class Judge(Protocol):
    """Scores one model by its task: takes its outputs batch by batch."""

    def add(self, outputs: Mapping[str, AnyArray], loaded: Sequence[object]) -> None: ...

    def scores(self) -> dict[str, float]: ...


S = TypeVar("S", bound=Source)


def readable(source: S) -> tuple[S, tuple[str, ...]]:
    """Leave out items that cannot be read, as evaluations do; notes tell which."""
    lost: dict[int, str] = {}
    for place, name in enumerate(source.names):
        try:
            source.load(place)
        except InputError as problem:
            lost[place] = f"{name} was left out: {problem.facts.get('reason') or problem.message}"
    if len(lost) == len(source.names):
        raise InputError("no item can be read", facts={"for example": lost.get(0, "there is none")})
    if not lost:
        return source, ()
    left: S = source.part([n for n in range(len(source.names)) if n not in lost])
    return left, tuple(lost.values())


@dataclass(frozen=True)
class Batch:
    start: int
    count: int
    feed: FeedArrays
    loaded: list[object]


class Batches:
    """The items of a source in batches; prepared ones are held as far as memory is allowed."""

    def __init__(
        self, source: Source, tensors: Sequence[TensorSpec], *, size: int | None, memory_bytes: int
    ) -> None:
        self._source, self._tensors = source, tensors
        self._fixed = fixed_batch(tensors)
        self.size = self._fixed or size or BATCH
        self._left, self._held = memory_bytes, {}  # type: int, dict[int, Batch]

    def __len__(self) -> int:
        return len(self._source.names)

    def __iter__(self) -> Iterator[Batch]:
        return self.first(len(self))

    def first(self, items: int) -> Iterator[Batch]:
        """Find the batches that hold the first items."""
        for start in range(0, min(items, len(self)), self.size):
            if start in self._held:
                yield self._held[start]
                continue
            batch = self._prepared(start)
            size = sum(array.nbytes for array in batch.feed.values())
            if size <= self._left:
                self._left -= size
                self._held[start] = batch
            yield batch

    def _prepared(self, start: int) -> Batch:
        stop = min(start + self.size, len(self))
        loaded = [self._source.load(index) for index in range(start, stop)]
        items = [self._source.prepare(each) for each in loaded]
        if self._fixed:  # a last, short batch is filled up; what is too much is cut off again
            items += [items[-1]] * (self.size - len(items))
        feed = {
            t.name: np.stack([item[t.name] for item in items])
            if has_rows(t, self._tensors)
            else np.asarray(items[0][t.name])
            for t in self._tensors
        }
        return Batch(start, stop - start, feed, loaded)


@dataclass(frozen=True)
class MarkedTensor:
    """A tensor to look at: its name in the reference, if it is there, and in the candidate."""

    tensor: str
    match: str
    size_bytes: int | None


@dataclass
class Seen:
    """What passed at one boundary, over some items."""

    error2: float = 0.0
    signal2: float = 0.0
    largest: float = 0.0
    """Of the reference, finite."""
    nonfinite: int = 0
    elements: int = 0
    beyond_fp16: int = 0
    """Of the reference, values that FP16 cannot hold."""

    @property
    def rel_l2(self) -> float | None:
        if not self.elements:
            return None
        return math.sqrt(self.error2 / self.signal2) if self.signal2 else None

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
        sizes = np.abs(r[known])
        self.largest = max(self.largest, float(sizes.max(initial=0.0)))
        self.beyond_fp16 += int(np.count_nonzero(sizes > FP16_MAX))


@dataclass
class Looks:
    """Runs models on the same items and holds them against the reference's outputs."""

    pair: TwoGraphs
    batches: Batches
    folder: Path
    sizes: Mapping[str, int | None]
    """Bytes of the tensors of the reference, where they are known."""
    judge: Callable[[], Judge] | None

    def __post_init__(self) -> None:
        graph = self.pair.reference
        self._outputs = [name for name in graph.outputs if name in self.pair.matches]
        if not self._outputs:
            raise InputError("no output of the reference is computed by a node")
        writer = ChunkWriter(self.folder)
        model = stand_in(graph.model)
        judge = self.judge() if self.judge else None
        for batch, found in self._run(model, self._outputs, {n: n for n in graph.inputs}):
            rows = {name: _rows(array, batch) for name, array in found.items()}
            writer.add(rows, items=batch.count)
            if judge is not None:
                judge.add(rows, batch.loaded)
        writer.flush()
        self._wanted = Chunks(self.folder)
        self.scores = judge.scores() if judge is not None else {}
        """Of the reference, by the task."""

    def numbers(self, model: ModelProto, *, as_it_is: bool = False) -> dict[str, float]:
        """Run a model over all items; the worst of its outputs, and the metrics of the task."""
        judge = self.judge() if self.judge else None
        tallies = {name: OutputTally(name) for name in self._outputs}
        names = {name: self.pair.matches[name] for name in self._outputs}
        ran = copied(model) if as_it_is else stand_in(model)
        inputs = {name: self.pair.matches[name] for name in self.pair.reference.inputs}
        for batch, outputs in self._run(ran, list(names.values()), inputs):
            found = {name: _rows(outputs[other], batch) for name, other in names.items()}
            wanted = self._wanted.rows(batch.start, batch.start + batch.count)
            for name, tally in tallies.items():
                tally.add(wanted[name], found[name].astype(wanted[name].dtype), start=batch.start)
            if judge is not None:
                judge.add(found, batch.loaded)
        worst = worst_numbers([tally.result() for tally in tallies.values()])
        numbers = {name: value for name, value in worst.items() if value is not None}
        return {**numbers, **(judge.scores() if judge is not None else {})}

    def boundaries(
        self,
        *,
        memory_bytes: int,
        watched: Mapping[str, Callable[[AnyArray], None]],
        progress: Callable[[float, str], None],
    ) -> tuple[dict[str, Seen], bool]:
        """Compare all boundaries, a few at a time, and whether looking changed the outputs.

        ``watched`` are tensors of the candidate that others look at, by the name in its stand-in.
        """
        reference = stand_in(self.pair.reference.model)
        candidate = stand_in(self.pair.candidate.model)
        ours = {part.tensor: part.match for part in self.pair.parts}
        further = [name for name in watched if name not in ours.values()]
        marks = [
            MarkedTensor(a, b, self.sizes.get(a))
            for a, b in (*ours.items(), *(("", n) for n in further))
        ]
        seen = {tensor: Seen() for tensor in ours}
        plain = self._first_outputs(candidate, ())
        changed = False
        done = 0
        for some in grouped(marks, memory_bytes):
            self._look(reference, candidate, some, seen, watched)
            again = self._first_outputs(candidate, [mark.match for mark in some])
            changed |= any(
                not np.array_equal(plain[name], again[name], equal_nan=True) for name in plain
            )
            done += len(some)
            progress(done / len(marks), f"boundaries: {done} of {len(marks)} tensors")
        return seen, changed

    def _look(
        self,
        reference: ModelProto,
        candidate: ModelProto,
        marks: Sequence[MarkedTensor],
        seen: dict[str, Seen],
        watched: Mapping[str, Callable[[AnyArray], None]],
    ) -> None:
        wanted = [mark.tensor for mark in marks if mark.tensor]
        names = [mark.match for mark in marks]
        first = session_of(reference, wanted) if wanted else None
        other = session_of(candidate, names)
        for batch in self.batches.first(LOOKED_AT):
            found = outputs_of(other, names, self._named(batch.feed))
            right = outputs_of(first, wanted, batch.feed) if first is not None else {}
            for mark in marks:
                if mark.tensor:
                    seen[mark.tensor].add(right[mark.tensor], found[mark.match])
                if mark.match in watched:
                    watched[mark.match](found[mark.match])

    def _first_outputs(self, model: ModelProto, further: Sequence[str]) -> FeedArrays:
        names = [self.pair.matches[name] for name in self._outputs]
        session = session_of(model, list(dict.fromkeys((*names, *further))))
        return outputs_of(session, names, self._named(next(iter(self.batches)).feed))

    def _named(self, feed: FeedArrays) -> FeedArrays:
        return {self.pair.matches[name]: array for name, array in feed.items()}

    def _run(
        self, model: ModelProto, names: Sequence[str], inputs: Mapping[str, str]
    ) -> Iterator[tuple[Batch, FeedArrays]]:
        session = session_of(model, names)
        for batch in self.batches:
            feed = {inputs[name]: array for name, array in batch.feed.items()}
            yield batch, outputs_of(session, names, feed)


def _rows(array: AnyArray, batch: Batch) -> AnyArray:
    """Cut off what filled up a batch; an output without rows belongs to the whole of it."""
    if array.ndim and len(array) >= batch.count:
        return array[: batch.count]
    return np.repeat(np.asarray(array)[None], batch.count, axis=0)
