"""Where an engine leaves its reference: built once more with outputs where its layers meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.check import OutputCheck, OutputTally
from trtbench.analysis.check_rules import worst_numbers
from trtbench.analysis.localize import in_order_of_suspicion
from trtbench.boundary import read_bytes
from trtbench.build.cast_types import FLOAT, FLOAT16, FP16_MAX
from trtbench.build.localize import added, load_graphs, loses
from trtbench.build.localize_graph import Part, TwoGraphs, divided
from trtbench.build.localize_looks import LOOKED_AT, Seen
from trtbench.build.localize_rewrite import write_marked
from trtbench.build.localize_trials import told
from trtbench.domain.artefact import Artefact
from trtbench.domain.feed import Feed
from trtbench.domain.localize import Localized, NodeGroup, Numbers, TypeRange
from trtbench.domain.samples import EngineGraph
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.chunks import Chunks
from trtbench.models.identity import demand_unchanged, model_ref
from trtbench.models.sidecar import record_of_engine
from trtbench.store.store import Store
from trtbench.trtexec.layers import graph_from_json
from trtbench.workflows.check.check import sides_of
from trtbench.workflows.make.build import GRAPH, run_build
from trtbench.workflows.measure.infer import stream
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.judging import LocalizeRequest
from trtbench.workflows.request.progress import Event, silent

MOST_MARKS = 48
"""Outputs to add to an engine at a time: each keeps a tensor from being reused."""
SMALL = 0.1
"""What the marks may change the outputs by, as a part of what the engine itself is off."""


@dataclass(frozen=True, kw_only=True)
class _BothRunning:
    """The reference and the engine as they run, and the interpreter of each."""

    reference: RunSpec
    engine: RunSpec
    pythons: tuple[str | None, str | None]
    feed: Feed
    folder: Path
    store: Store
    conduct: Conduct

    def run(self, place: int, model: ModelRef, name: str, *, done: float) -> Chunks:
        """Run a model over the items as the reference (0) or as the engine (1)."""
        spec = (self.reference, self.engine)[place].having(model=model)
        conduct = self.quiet(place, f"running {name.replace('-', ', ')}", done)
        work = self.folder / name
        stream(spec, self.feed, folder=work, store=self.store, conduct=conduct)
        return Chunks(work)

    def quiet(self, place: int, text: str, done: float) -> Conduct:
        """Say what begins, and how it is to be done."""
        self.conduct.listen(Event(kind="stage", text=text, done=done))
        return replace(self.conduct, python=self.pythons[place], listen=silent)


def localize_engine(
    request: LocalizeRequest, feed: Feed, *, store: Store, config: Config, conduct: Conduct
) -> Localized:
    """Compare an engine with its reference wherever its layers meet, and rank what they add."""
    if request.repair:
        raise UsageError(
            "an engine is not repaired: its types are chosen while it is built",
            fix="localize --repair the ONNX file it is built from, made by trtbench quantize",
        )
    engine = model_ref(Path(request.candidate))
    record, source = origin_of(engine)
    graphs = load_graphs(Path(request.reference), source)
    whole = divided(*graphs)
    marks = [
        part.match
        for part in whole.parts
        if part.match not in graphs[1].outputs
        and graphs[1].types.get(part.match) in (FLOAT, FLOAT16)  # numpy has no BF16
    ]
    layers = _layers(record)
    inside = layer_boundaries(layers, marks) if layers is not None else []
    chosen = evenly(inside or marks, MOST_MARKS)
    sides = sides_of(request, [str(request.reference), str(request.candidate)], config=config)
    few = feed.having(count=min(feed.count or LOOKED_AT, LOOKED_AT))
    with store.scratch() as folder:
        work = _BothRunning(
            reference=sides[0][0], engine=sides[1][0], pythons=(sides[0][1], sides[1][1]),
            feed=few, folder=folder, store=store, conduct=conduct,
        )  # fmt: skip
        plain = work.run(1, engine, "engine", done=0.05)
        look = _Look(record, source, work, plain, Path(request.reference))
        two = divided(*graphs, only=chosen)
        seen = look.boundaries(two, chosen, name="first", done=0.2)
        if len(chosen) < len(inside or marks):
            worst = _parts_by_suspicion(two, seen)[0]
            before = [two.matches[name] for name in worst.reads if name in two.matches]
            closer = between(inside or marks, before[-1] if before else None, worst.match)
            chosen = [*chosen, *evenly(closer, MOST_MARKS)]
            two = divided(*graphs, only=chosen)
            seen |= look.boundaries(two, evenly(closer, MOST_MARKS), name="closer", done=0.6)
        numbers = look.numbers(two)
    return _localized(two, seen, numbers, look, record, layers, told_by_layers=bool(inside))


def origin_of(engine: ModelRef) -> tuple[Artefact, Path]:
    """Find how an engine was built, and the file it was built from, unchanged."""
    record = record_of_engine(engine)
    if record is None:
        raise InputError(
            "nothing beside the engine tells how it was built, so it cannot be built again",
            facts={"engine": engine.path, "looked for": f"{engine.path}.json"},
            fix="trtbench build MODEL -o ENGINE keeps that beside the engine",
        )
    demand_unchanged(record.spec.model)
    return record, Path(record.spec.model.path)


class _Look:
    """Builds engines with marks and holds what they give against the reference."""

    def __init__(
        self, record: Artefact, source: Path, sides: _BothRunning, plain: Chunks, reference: Path
    ) -> None:
        self.record, self.source, self.sides = record, source, sides
        self.plain, self.reference = plain, reference
        self.changed = False
        self._right: Chunks | None = None

    def boundaries(
        self, two: TwoGraphs, marks: Sequence[str], *, name: str, done: float
    ) -> dict[str, Seen]:
        """Compare the reference with an engine that has these marks."""
        ours = {part.tensor: part.match for part in two.parts}
        wanted = [tensor for tensor, match in ours.items() if match in marks]
        right = self._reference(wanted, name, done)
        marked = self._engine(marks, name, done + 0.1)
        outputs = {a: b for a, b in ours.items() if b in two.candidate.outputs}
        self.changed |= self._differs(marked, outputs, right)
        seen = {tensor: Seen() for tensor in (*wanted, *outputs)}
        for start, rows in right:
            count = len(next(iter(rows.values())))
            found = marked.rows(start, start + count)
            for tensor, each in seen.items():
                each.add(rows[tensor], found[ours[tensor]])
        self._right = right
        return seen

    def numbers(self, two: TwoGraphs) -> Numbers:
        """Compare the outputs of the engine as it is."""
        assert self._right is not None
        pairs = {a: two.matches[a] for a in two.reference.outputs if a in two.matches}
        worst = worst_numbers(_tallies(self._right, self.plain, pairs))
        return told({name: value for name, value in worst.items() if value is not None})

    def _reference(self, tensors: Sequence[str], name: str, done: float) -> Chunks:
        path = write_marked(
            self.reference, tensors, self.sides.folder / f"{name}-{self.reference.name}"
        )
        return self.sides.run(0, model_ref(path), f"reference-{name}", done=done)

    def _engine(self, tensors: Sequence[str], name: str, done: float) -> Chunks:
        folder = self.sides.folder
        path = write_marked(self.source, tensors, folder / f"{name}-{self.source.name}")
        target = folder / f"{name}.engine"
        spec = self.record.spec.having(model=model_ref(path), output=str(target))
        text = f"building with {len(tensors)} outputs more"
        run_build(spec, conduct=self.sides.quiet(1, text, done))
        return self.sides.run(1, model_ref(target), f"engine-{name}", done=done + 0.2)

    def _differs(self, marked: Chunks, outputs: Mapping[str, str], right: Chunks) -> bool:
        """Tell whether the marks change the outputs by much of what the engine itself is off."""
        own = {match: match for match in outputs.values()}
        moved = worst_numbers(_tallies(self.plain, marked, own))
        off = worst_numbers(_tallies(right, self.plain, outputs))
        if moved.get("nonfinite") != 0 and not off.get("nonfinite"):
            return True
        return (moved.get("rel_l2") or 0.0) > SMALL * (off.get("rel_l2") or 0.0)


def _tallies(reference: Chunks, candidate: Chunks, pairs: Mapping[str, str]) -> list[OutputCheck]:
    tallies = {name: OutputTally(name) for name in pairs}
    for start, rows in reference:
        count = len(next(iter(rows.values())))
        found = candidate.rows(start, start + count)
        for name, tally in tallies.items():
            tally.add(rows[name], found[pairs[name]], start=start)
    return [tally.result() for tally in tallies.values()]


def _layers(record: Artefact) -> EngineGraph | None:
    """Read what the builder told of the engine's layers, where it told their tensors."""
    path = Path(record.path).with_name(f"{record.filename}{GRAPH}")
    try:
        return graph_from_json(read_bytes(path), where=str(path))
    except (OSError, InputError):
        return None


def _parts_by_suspicion(two: TwoGraphs, seen: Mapping[str, Seen]) -> list[Part]:
    parts = [part for part in two.parts if part.tensor in seen]
    keys = [(loses([part], dict(seen)), added([part], dict(seen)) or 0.0) for part in parts]
    return [parts[place] for place in in_order_of_suspicion(keys)]


def _localized(
    two: TwoGraphs,
    seen: dict[str, Seen],
    numbers: Numbers,
    look: _Look,
    record: Artefact,
    layers: EngineGraph | None,
    *,
    told_by_layers: bool,
) -> Localized:
    kinds = {t.name: t.dtype for layer in (layers.layers if layers else ()) for t in layer.outputs}
    asked = record.spec.precision or "the engine's types"
    groups = tuple(
        _group(part, two.parts, seen, (kinds.get(part.match) or asked).upper())
        for part in _parts_by_suspicion(two, seen)
    )
    how = "where layers of the engine meet" if told_by_layers else (
        "where fusion usually ends: nothing beside the engine tells the tensors of its layers"
    )  # fmt: skip
    return Localized(
        metric="sqnr_db",
        groups=groups,
        reference={},
        candidate=numbers,
        all_restored={},
        items=len(look.plain),
        one_by_one=False,
        trials=0,
        marks_changed_outputs=look.changed,
        notes=(f"Compared {how}; ranked by the drift that is added there.",),
    )


def _group(part: Part, parts: Sequence[Part], seen: dict[str, Seen], kind: str) -> NodeGroup:
    here, named = seen[part.tensor], part.nodes
    ranges: tuple[TypeRange, ...] = ()
    if kind == "FP16" and here.largest > FP16_MAX:
        ranges = (
            TypeRange(
                tensor=part.match, what="output", node=part.node, type=kind, limit=FP16_MAX,
                largest=here.largest, beyond=here.beyond_fp16 / max(1, here.elements),
            ),
        )  # fmt: skip
        # Who reads what FP16 cannot hold has to be kept out of it, too.
        named += tuple(n for each in parts if part.tensor in each.reads for n in each.nodes)
    return NodeGroup(
        node=part.node,
        op=part.op,
        nodes=part.nodes,
        named=tuple(dict.fromkeys(named)),
        position=part.position,
        type=kind,
        rel_l2=here.rel_l2,
        added=added([part], seen),
        nonfinite=here.nonfinite,
        first_nonfinite=loses([part], seen),
        ranges=ranges,
    )


def layer_boundaries(graph: EngineGraph, tensors: Collection[str]) -> list[str]:
    """Keep the tensors that lie between layers of an engine: no fused layer hides them."""
    there = {each.name for layer in graph.layers for each in layer.outputs}
    return [name for name in tensors if name in there]


def evenly(names: Sequence[str], most: int) -> list[str]:
    """Choose so many at most, spread over all."""
    step = max(1, -(-len(names) // most))
    return [*names[step - 1 :: step]]


def between(names: Sequence[str], low: str | None, high: str) -> list[str]:
    """List the names after one and up to another."""
    start = names.index(low) + 1 if low in names else 0
    stop = names.index(high) if high in names else len(names)
    return list(names[start:stop])
