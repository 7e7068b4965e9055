"""Which layers cost a low-precision model its accuracy, and the fewest to keep in full precision.

ONNX files are searched by a worker. An engine is built again with outputs where its layers meet.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.accuracy.check import feed_of, sides_of, tallied, with_source, write_both
from trtbench.accuracy.graphs import Part, TwoGraphs, divided, write_marked
from trtbench.accuracy.search import (
    BOUNDARY_ITEMS,
    Drift,
    added,
    finite_numbers,
    load_graphs,
    loses,
)
from trtbench.analysis.check import METRICS, OutputTally, worst_numbers
from trtbench.analysis.localize import in_order_of_suspicion
from trtbench.compare.compare import compare
from trtbench.convert.build import GRAPH, run_build
from trtbench.convert.cast import ASKED_FOR, FLOAT, FLOAT16, FP16_MAX
from trtbench.convert.conversions import put_in_place
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import InputError, TrtbenchError, UsageError, writing
from trtbench.core.jobs import LocalizeJob
from trtbench.core.results import (
    Artefact,
    Feed,
    Localization,
    Localized,
    LocalizeSpec,
    NodeGroup,
    Speed,
    TypeRange,
)
from trtbench.core.safety import clean_line, read_bytes
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.arrays import Chunks
from trtbench.measure.jobs import outcome_of_job, stream
from trtbench.models.identity import demand_unchanged, model_ref, read_sidecar, record_of_engine
from trtbench.report.sections.checks import document_from_localized
from trtbench.requests.accuracy import CheckRequest, LocalizeRequest
from trtbench.requests.execution import Event, Execution, silent
from trtbench.requests.fields import converted, seconds
from trtbench.requests.measure import CompareRequest
from trtbench.requests.run_spec import first_choice, pick, side_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks.contract import completed
from trtbench.trtexec.exports import graph_from_json

SEARCH_PART = 0.8
"""Of the progress bar, where a comparison of speeds follows."""
PATIENCE_S = 3600.0
"""Added to the time a search is allowed: one model over all items may take long."""
MOST_MARKS = 48
"""Outputs to add to an engine at a time: each keeps a tensor from being reused."""
SMALL = 0.1
"""How much marks may change the outputs, as a fraction of the engine's own error."""


def run_localize(
    request: LocalizeRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> Localization:
    """Find the groups that matter, repair if asked for, and measure what that costs."""
    execution, output = execution or Execution(), Path(request.output)
    if Path(request.reference).suffix.lower() != ".onnx":
        raise UsageError(
            "the reference is an ONNX file",
            facts={"given": request.reference},
            fix="trtbench localize MODEL.onnx CANDIDATE",
        )
    kind = model_ref(Path(request.candidate)).format
    if kind not in ("onnx", "engine"):
        raise UsageError(
            "localize looks into ONNX files and engines",
            facts={"format": kind},
            fix="trtbench check compares outputs of any models",
        )
    made = None
    with store.scratch() as folder:
        spec = _localize_spec(request, config, folder)
        if kind == "engine":
            found = _localize_engine(
                request, spec.feed, store=store, config=config, execution=execution
            )
        else:
            found = outcome_of_job(
                LocalizeJob(spec=spec), Localized, folder=folder / "search",
                execution=execution.part(0.0, SEARCH_PART),
                patience_s=spec.max_time_s + PATIENCE_S, failure="the search did not finish",
            )  # fmt: skip
        if found.kept and spec.repair is not None:
            made = output / Path(spec.repair).name
            with writing(output):
                output.mkdir(parents=True, exist_ok=True)
            put_in_place(Path(spec.repair), made)
    inputs = f"{found.items} random inputs, {request.distribution}, seed {request.seed}"
    if request.data:
        inputs = f"{found.items} items of {request.data}, task {request.task}"
    elif request.images or request.inputs:
        inputs = f"{found.items} items of {request.images or request.inputs}"
    result = Localization(
        reference=str(request.reference),
        candidate=str(request.candidate),
        inputs=inputs,
        found=found,
        repaired=None if made is None else str(made),
        commands=commands_for(request, found),
        files=tuple(str(output / name) for name in ("localize.json", "localize.md")),
    )
    if made is not None and request.speed:
        last = execution.part(SEARCH_PART, 1.0)
        result = _with_speeds(result, request, store=store, config=config, execution=last)
    write_both(output / "localize", result, document_from_localized(result))
    return result


def _localize_spec(request: LocalizeRequest, config: Config, folder: Path) -> LocalizeSpec:
    if request.where and not request.data:
        condition_from_text(request.where, names=METRICS)  # refused before anything is run
    asked = converted(
        request,
        CheckRequest,
        reference=request.reference,
        random=request.random,
        limit=request.limit,
        task=request.task if request.images else None,
    )
    plain = replace(request, threads=None, device=None, options={})
    sides = [Path(request.reference), Path(request.candidate)]
    if request.data:
        assert request.task is not None
        settings = {**request.settings, "data": str(request.data)}
        flags = TASKS.load(request.task).FLAGS
        feed = Feed(
            kind="task", task=request.task, settings=completed(flags, settings),
            count=request.limit, seed=request.seed,
        )  # fmt: skip
    else:
        feed = feed_of(asked, sides)
    return LocalizeSpec(
        reference=str(sides[0].absolute()),
        candidate=str(sides[1].absolute()),
        run=with_source(side_spec(plain, request.reference, first_choice("onnx"), config), asked),
        feed=feed,
        repair=str(folder / f"{sides[1].stem}.repaired.onnx") if request.repair else None,
        where=request.where,
        max_time_s=seconds(request.max_time),
    )


def _with_speeds(
    result: Localization,
    request: LocalizeRequest,
    *,
    store: Store,
    config: Config,
    execution: Execution,
) -> Localization:
    """Measure the repaired model in turn with the candidate and with the reference."""
    found, notes = [], list(result.notes)
    for name in (result.candidate, result.reference):
        asked = converted(
            request, CompareRequest, baseline=name, candidates=(result.repaired,),
            inputs=None, seed=request.seed, accept=("inputs",),
            runtime=pick(request.runtime, 1, 2, what="-r"),
            python=pick(request.python, 1, 2, what="--python"),
        )  # fmt: skip
        try:
            compared = compare(asked, store=store, config=config, execution=execution)[0]
        except TrtbenchError as problem:
            reason = problem.facts.get("reason", "")
            words = clean_line(f"{problem.message}{f': {reason}' if reason else ''}")
            notes.append(f"speed against {Path(name).name} was not measured: {words}")
            continue
        runtime = compared.candidate.record.spec.runtime
        verdict = compared.comparison.verdicts[0]
        found.append(Speed(against=name, runtime=runtime, verdict=verdict))
    return result.having(speeds=tuple(found), notes=tuple(notes))


def commands_for(request: LocalizeRequest, found: Localized) -> dict[str, str]:
    """Write the commands that leave the groups out: those of the repair, else the worst one."""
    kept = [group for group in found.groups if group.node in found.kept] or list(found.groups[:1])
    names = list(dict.fromkeys(name for group in kept for name in group.named))
    if not names or (not found.kept and (found.met or not _matters(kept[0]))):
        return {}
    low, record = kept[0].type.lower(), read_sidecar(Path(request.candidate))
    is_cast = low in ("fp16", "bf16")
    if not is_cast and low not in ("int8", "fp8"):
        return {}
    before = [node for node, why in record.kept.items() if why == ASKED_FOR] if record else []
    names = list(dict.fromkeys([*before, *names]))
    recipe = (record.recipe if record else ()) or (() if is_cast else ("--calibration", "DATA"))
    reference, target = str(request.reference), f"{Path(request.candidate).stem}.repaired.onnx"
    flag = "--keep" if is_cast else "--exclude"
    own = ["quantize", reference, "-o", target, "--precision", low, *recipe]
    own += [word for name in names for word in (flag, name)]
    theirs = "autocast" if is_cast else "quantization"
    how = "low_precision_type" if is_cast else "calibration_data CALIBRATION.npy --quantize_mode"
    return {
        "trtbench": f"trtbench {shlex.join(own)}",
        "ModelOpt": f"python -m modelopt.onnx.{theirs} --onnx_path {shlex.quote(reference)} "
        f"--{how} {low} --nodes_to_exclude {shlex.join(names)}",
    }


def _matters(group: NodeGroup) -> bool:
    gains = ((group.gain or 0.0), (group.sqnr_gain_db or 0.0))
    return group.first_nonfinite or max(gains) > 0 or not group.restored


# ---- engines


def _localize_engine(
    request: LocalizeRequest, feed: Feed, *, store: Store, config: Config, execution: Execution
) -> Localized:
    """Compare an engine with its reference wherever its layers meet, and rank what they add."""
    if request.repair:
        raise UsageError(
            "an engine is not repaired: its types are chosen while it is built",
            fix="localize --repair the ONNX file it is built from, made by trtbench quantize",
        )
    engine = model_ref(Path(request.candidate))
    record = record_of_engine(engine)
    if record is None:
        raise InputError(
            "there is no record of how the engine was built, so it cannot be built again",
            facts={"engine": engine.path, "looked for": f"{engine.path}.json"},
            fix="trtbench build MODEL -o ENGINE keeps that beside the engine",
        )
    demand_unchanged(record.spec.model)
    graphs = load_graphs(Path(request.reference), Path(record.spec.model.path))
    marks = [
        part.match
        for part in divided(*graphs).parts
        if part.match not in graphs[1].outputs
        and graphs[1].types.get(part.match) in (FLOAT, FLOAT16)  # numpy has no BF16
    ]
    graph_file = Path(record.path).with_name(f"{record.filename}{GRAPH}")
    try:
        layers = graph_from_json(read_bytes(graph_file), where=str(graph_file))
    except (OSError, InputError):
        layers = None
    inside = layer_boundaries(layers, marks) if layers is not None else []
    marks = inside or marks
    chosen = evenly(marks, MOST_MARKS)
    sides = sides_of(request, [str(request.reference), str(request.candidate)], config=config)
    few = feed.having(count=min(feed.count or BOUNDARY_ITEMS, BOUNDARY_ITEMS))
    with store.scratch() as folder:
        builds = _MarkedBuilds(
            record=record, reference=Path(request.reference), sides=sides, feed=few,
            folder=folder, store=store, execution=execution,
        )  # fmt: skip
        plain = builds.run(1, engine, "engine", done=0.05)
        two = divided(*graphs, only=chosen)
        right, drifts, changed = builds.boundaries(two, chosen, plain, name="first", done=0.2)
        if len(chosen) < len(marks):
            worst = _by_suspicion(two, drifts)[0]
            before = [two.matches[name] for name in worst.reads if name in two.matches]
            closer = between(marks, before[-1] if before else None, worst.match)
            closer = evenly(closer, MOST_MARKS)
            two = divided(*graphs, only=[*chosen, *closer])
            right, more, also = builds.boundaries(two, closer, plain, name="closer", done=0.6)
            drifts, changed = drifts | more, changed or also
        pairs = {a: two.matches[a] for a in two.reference.outputs if a in two.matches}
        numbers = _numbers(right, plain, pairs)
        items = len(plain)
    kinds = {t.name: t.dtype for layer in (layers.layers if layers else ()) for t in layer.outputs}
    asked = record.spec.precision or "the engine's types"
    how = "where layers of the engine meet" if inside else (
        "where fusion usually ends: the engine's record does not name the tensors of its layers"
    )  # fmt: skip
    return Localized(
        metric="sqnr_db",
        groups=tuple(
            _group(part, two.parts, drifts, (kinds.get(part.match) or asked).upper())
            for part in _by_suspicion(two, drifts)
        ),
        reference={},
        candidate=finite_numbers({n: value for n, value in numbers.items() if value is not None}),
        all_restored={},
        items=items,
        one_by_one=False,
        trials=0,
        marks_changed_outputs=changed,
        notes=(f"Compared {how}; ranked by the drift that is added there.",),
    )


@dataclass(frozen=True, kw_only=True)
class _MarkedBuilds:
    """Builds engines with more outputs, and compares these with the reference's."""

    record: Artefact
    reference: Path
    sides: Sequence[tuple[RunSpec, str | None]]
    """How the reference and the engine run, and the interpreter of each."""
    feed: Feed
    folder: Path
    store: Store
    execution: Execution

    def run(self, place: int, model: ModelRef, name: str, *, done: float) -> Chunks:
        """Run a model over the items as the reference (0) or as the engine (1)."""
        spec, work = self.sides[place][0].having(model=model), self.folder / name
        execution = self._quiet(place, f"running {name.replace('-', ', ')}", done)
        stream(spec, self.feed, folder=work, store=self.store, execution=execution)
        return Chunks(work)

    def _quiet(self, place: int, text: str, done: float) -> Execution:
        self.execution.listen(Event(kind="stage", text=text, done=done))
        return replace(self.execution, python=self.sides[place][1], listen=silent)

    def boundaries(
        self, two: TwoGraphs, marks: Sequence[str], plain: Chunks, *, name: str, done: float
    ) -> tuple[Chunks, dict[str, Drift], bool]:
        """Compare the reference with an engine that has these marks.

        Returns the reference's outputs, the drift at each tensor, and whether the marks changed
        the engine's outputs by much of its own error.
        """
        ours = {part.tensor: part.match for part in two.parts}
        wanted = [tensor for tensor, match in ours.items() if match in marks]
        path = write_marked(self.reference, wanted, self.folder / f"{name}-{self.reference.name}")
        right = self.run(0, model_ref(path), f"reference-{name}", done=done)
        source = Path(self.record.spec.model.path)
        path = write_marked(source, marks, self.folder / f"{name}-{source.name}")
        target = self.folder / f"{name}.engine"
        spec = self.record.spec.having(model=model_ref(path), output=str(target))
        text = f"building with {len(marks)} outputs more"
        run_build(spec, execution=self._quiet(1, text, done + 0.1))
        marked = self.run(1, model_ref(target), f"engine-{name}", done=done + 0.3)
        outputs = {a: b for a, b in ours.items() if b in two.candidate.outputs}
        moved = _numbers(plain, marked, {match: match for match in outputs.values()})
        off = _numbers(right, plain, outputs)
        changed = (moved.get("rel_l2") or 0.0) > SMALL * (off.get("rel_l2") or 0.0)
        changed |= moved.get("nonfinite") != 0 and not off.get("nonfinite")
        drifts = {tensor: Drift() for tensor in (*wanted, *outputs)}
        for start, rows in right:
            found = marked.rows(start, start + len(next(iter(rows.values()))))
            for tensor, each in drifts.items():
                each.add(rows[tensor], found[ours[tensor]])
        return right, drifts, changed


def _numbers(
    reference: Chunks, candidate: Chunks, pairs: Mapping[str, str]
) -> dict[str, float | None]:
    tallies = {name: OutputTally(name) for name in pairs}
    return worst_numbers(t.result() for t in tallied(reference, candidate, pairs, tallies))


def _by_suspicion(two: TwoGraphs, drifts: Mapping[str, Drift]) -> list[Part]:
    parts = [part for part in two.parts if part.tensor in drifts]
    keys = [(loses([part], drifts), added([part], drifts) or 0.0) for part in parts]
    return [parts[place] for place in in_order_of_suspicion(keys)]


def _group(part: Part, parts: Sequence[Part], drifts: Mapping[str, Drift], kind: str) -> NodeGroup:
    here, named = drifts[part.tensor], part.nodes
    ranges: tuple[TypeRange, ...] = ()
    if kind == "FP16" and here.largest > FP16_MAX:
        ranges = (
            TypeRange(
                tensor=part.match, what="output", node=part.node, type=kind, limit=FP16_MAX,
                largest=here.largest, beyond=here.beyond_fp16 / max(1, here.elements),
            ),
        )  # fmt: skip
        # What reads values that FP16 cannot hold has to be kept out of it, too.
        named += tuple(n for each in parts if part.tensor in each.reads for n in each.nodes)
    return NodeGroup(
        node=part.node,
        op=part.op,
        nodes=part.nodes,
        named=tuple(dict.fromkeys(named)),
        position=part.position,
        type=kind,
        rel_l2=here.rel_l2,
        added=added([part], drifts),
        nonfinite=here.nonfinite,
        first_nonfinite=loses([part], drifts),
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
