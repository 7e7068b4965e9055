"""Finds the nodes that cost a low-precision model its accuracy, and the fewest to keep from it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.analysis.localize import has_outliers, in_order_of_suspicion, joined, makers_first
from trtbench.analysis.scores import less_is_better
from trtbench.build.cast import prepared
from trtbench.build.cast_types import at_opset
from trtbench.build.localize_graph import LOW, Graph, Part, TwoGraphs, divided
from trtbench.build.localize_looks import Batches, Judge, Looks, S, Seen, readable
from trtbench.build.localize_ranges import LIMITS, RangeWatch, watches_of
from trtbench.build.localize_rewrite import without_inlined_names
from trtbench.build.localize_trials import OUTPUT_METRIC, SEARCHING, Trials, aim_of, repair, told
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_layers import FOLLOWERS
from trtbench.build.onnx_read import input_specs, read_onnx
from trtbench.domain.arrays import AnyArray
from trtbench.domain.job import Stage
from trtbench.domain.localize import Localized, LocalizeSpec, NodeGroup, TypeRange
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto

HANDING_ON = (
    "AveragePool", "Clip", "Concat", "Dropout", "Flatten", "Gather", "Identity", "MaxPool", "Pad",
    "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators whose largest values are those of what they read."""


def localize(
    spec: LocalizeSpec,
    *,
    open_source: Callable[[Sequence[TensorSpec]], S],
    judge: Callable[[S], Judge] | None,
    folder: Path,
    stage: Stage,
) -> Localized:
    """Divide, look at boundaries, restore groups, rank them; then keep the fewest, if asked for."""
    began = time.monotonic()
    progress = getattr(stage, "progress", lambda done, text: None)
    stage("load")
    pair = divided(*load_graphs(Path(spec.reference), Path(spec.candidate)))
    tensors = input_specs(pair.reference.model)
    source, lost = readable(open_source(tensors))
    batches = Batches(source, tensors, size=spec.run.batch, memory_bytes=spec.memory_bytes)
    known = read_onnx(Path(spec.reference), batch=batches.size)
    sizes = {t.name: t.size_bytes for node in known.nodes for t in node.outputs}
    stage("measure")
    looks = Looks(pair, batches, folder, sizes, None if judge is None else lambda: judge(source))
    aim = aim_of(spec, pair, looks.scores)
    progress(0.02, "the candidate as it is")
    before = time.monotonic()
    candidate = looks.numbers(pair.candidate.model)
    trial_s = time.monotonic() - before
    seen, watches, changed = _look(spec, pair, looks, progress)
    groups = _groups(pair, seen, watches)
    ends = began + spec.max_time_s * (SEARCHING if aim.condition else 1.0)
    trials = Trials(pair, looks, groups, aim, ends, _teller(progress, began, spec))
    trials.known[frozenset()] = candidate
    everything = trials.numbers(frozenset(range(len(groups))))
    ranked, tried, single = trials.ranked(_suspects(groups, seen), trial_s=trial_s)
    rounds = any(kind in LOW for kind in pair.candidate.types.values())
    found = Localized(
        metric=aim.metric,
        groups=makers_first(
            [_group(trials, g, seen, watches, tried=g in tried) for g in ranked],
            lambda told: _maker(groups, pair, seen, told),
        ),
        reference=told(looks.scores),
        candidate=told(candidate),
        all_restored=told(everything),
        items=len(batches),
        where=aim.where,
        one_by_one=single,
        in_time=len(tried) == len(groups) or not single,
        marks_changed_outputs=changed,
        stand_in=rounds,
        file_sqnr_db=_of_file(pair, looks) if rounds else None,
        unmatched=_unmatched(pair),
        notes=(*source.notes, *lost),
    )
    trials.ends = began + spec.max_time_s
    if aim.condition is not None:
        found = repair(spec, trials, found, ranked)
    seconds = time.monotonic() - began
    return found.having(trials=len(trials.known), seconds=seconds)


def _groups(
    pair: TwoGraphs, seen: dict[str, Seen], watches: dict[str, list[RangeWatch]]
) -> list[list[Part]]:
    """Put parts in a low type together that can only be restored together."""
    low = [part for part in pair.parts if part.type is not None]
    if not low:
        raise InputError(
            "no part of the candidate computes in a lower precision than the reference",
            facts={"parts matched": str(len(pair.parts))},
            fix="trtbench inspect CANDIDATE shows its types",
        )
    pairs = [*_beyond(pair, low, seen), *_crushed(low, watches)]
    return [[low[i] for i in each] for each in joined(pairs, len(low))]


def load_graphs(reference: Path, candidate: Path) -> tuple[Graph, Graph]:
    """Load both with all their nodes named, at one opset."""
    paths = (reference, candidate)
    models = [without_inlined_names(prepared(load_onnx(path))) for path in paths]
    newest = max(_opset(model) for model in models)
    raised = [at_opset(model, newest, what="the other model") for model in models]
    return Graph(raised[0]), Graph(raised[1])


def _opset(model: ModelProto) -> int:
    return next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)


def _look(
    spec: LocalizeSpec, pair: TwoGraphs, looks: Looks, progress: Callable[[float, str], None]
) -> tuple[dict[str, Seen], dict[str, list[RangeWatch]], bool]:
    """Look at every boundary, and at every place where values take a low type."""
    found = watches_of(pair.candidate, pair.parts)
    by_name: dict[str, list[RangeWatch]] = {}
    for each in found.values():
        for name, watch in each:
            if name and name not in pair.candidate.inputs:
                by_name.setdefault(name, []).append(watch)
            elif name:
                _watch_input(looks, pair, name, watch)

    def hand(name: str) -> Callable[[AnyArray], None]:
        def add(array: AnyArray) -> None:
            for watch in by_name[name]:
                watch.add(array)

        return add

    seen, changed = looks.boundaries(
        memory_bytes=spec.memory_bytes,
        watched={name: hand(name) for name in by_name},
        progress=lambda done, text: progress(0.02 + 0.18 * done, text),
    )
    watches = {tensor: [watch for _, watch in each] for tensor, each in found.items()}
    return seen, watches, changed


def _watch_input(looks: Looks, pair: TwoGraphs, name: str, watch: RangeWatch) -> None:
    own = next(ours for ours, theirs in pair.matches.items() if theirs == name)
    for batch in looks.batches.first(len(looks.batches)):
        watch.add(batch.feed[own])


def _beyond(pair: TwoGraphs, parts: Sequence[Part], seen: dict[str, Seen]) -> list[tuple[int, int]]:
    """Pair parts that a tensor joins which the low type cannot hold: one alone is no use."""
    places = {part.tensor: place for place, part in enumerate(parts)}
    found = []
    for place, part in enumerate(parts):
        kind = LOW.get(pair.candidate.types.get(part.match, 0))
        if kind is None or seen[part.tensor].largest <= LIMITS[kind]:
            continue
        found += [(place, places[p.tensor]) for p in parts if part.tensor in p.reads]
    return found


def _crushed(parts: Sequence[Part], watches: dict[str, list[RangeWatch]]) -> list[tuple[int, int]]:
    """Pair parts whose output has outliers with those that read it: each rounds it once more."""
    found: list[tuple[int, int]] = []
    for place, part in enumerate(parts):
        ranges = (watch.result() for watch in watches.get(part.tensor, ()))
        waiting = [part] if any(e.what == "output" and has_outliers(e) for e in ranges) else []
        while waiting:
            tensor = waiting.pop().tensor
            readers = [(n, each) for n, each in enumerate(parts) if tensor in each.reads]
            found += [(place, number) for number, _ in readers]
            waiting += [each for _, each in readers if each.op in HANDING_ON]
    return found


def _suspects(groups: Sequence[list[Part]], seen: dict[str, Seen]) -> list[int]:
    """List groups in the order of suspicion: those that lose finite values, then by added drift."""
    keys = [(loses(group, seen), added(group, seen) or 0.0) for group in groups]
    return in_order_of_suspicion(keys)


def loses(group: Sequence[Part], seen: dict[str, Seen]) -> bool:
    """Say whether values stop being finite here: they are at its inputs, and not behind it."""
    inside = {part.tensor for part in group}
    before = [seen[n].nonfinite for p in group for n in p.reads if n in seen and n not in inside]
    return not any(before) and any(seen[part.tensor].nonfinite for part in group)


def added(group: Sequence[Part], seen: dict[str, Seen]) -> float | None:
    inside = {part.tensor for part in group}
    behind = [seen[part.tensor].rel_l2 for part in group]
    own = max((each for each in behind if each is not None), default=None)
    if own is None:
        return None
    reads = [n for part in group for n in part.reads if n in seen and n not in inside]
    before = max((seen[name].rel_l2 or 0.0 for name in reads), default=0.0)
    return math.sqrt(max(0.0, own**2 - before**2))


def _group(
    trials: Trials,
    number: int,
    seen: dict[str, Seen],
    watches: dict[str, list[RangeWatch]],
    *,
    tried: bool,
) -> NodeGroup:
    parts, candidate = trials.groups[number], trials.known[frozenset()]
    first, last = parts[0], parts[-1]
    numbers = trials.known.get(frozenset({number}), {}) if tried else {}
    return NodeGroup(
        node=first.node,
        op=first.op,
        nodes=tuple(dict.fromkeys(name for part in parts for name in part.nodes)),
        named=_named(parts, trials.pair),
        position=first.position,
        type=first.type or "",
        rel_l2=seen[last.tensor].rel_l2,
        added=added(parts, seen),
        nonfinite=sum(seen[part.tensor].nonfinite for part in parts),
        first_nonfinite=loses(parts, seen),
        ranges=tuple(w.result() for part in parts for w in watches.get(part.tensor, ())),
        restored=told(numbers),
        gain=_gain(trials.aim.metric, candidate, numbers),
        sqnr_gain_db=_gain(OUTPUT_METRIC, candidate, numbers),
    )


def _maker(
    groups: Sequence[list[Part]], pair: TwoGraphs, seen: dict[str, Seen], told: TypeRange
) -> str | None:
    """Find the group that makes the largest values of a tensor, behind what only hands them on."""
    by_tensor = {part.tensor: part for part in pair.parts}
    part = next((part for part in pair.parts if part.match == told.tensor), None)
    while part is not None and part.op in (*HANDING_ON, "Add"):
        before = [by_tensor[name] for name in part.reads if name in by_tensor]
        part = max(before, key=lambda each: seen[each.tensor].largest, default=None)
    return next((group[0].node for group in groups if part in group), None)


def _named(parts: Sequence[Part], pair: TwoGraphs) -> tuple[str, ...]:
    """List nodes to name to a quantizer: all for a cast, those with scales of their own else."""
    nodes = [pair.reference.nodes[place] for part in parts for place in part.places]
    if parts[0].type not in LOW.values():
        nodes = [node for node in nodes if node.op_type not in FOLLOWERS] or nodes
    return tuple(dict.fromkeys(node.name for node in nodes if node.op_type != "Constant"))


def _gain(metric: str, before: dict[str, float], after: dict[str, float]) -> float | None:
    if metric not in before or metric not in after:
        return None
    gain = after[metric] - before[metric]
    if not math.isfinite(gain):
        return None
    return -gain if less_is_better(metric) else gain


def _of_file(pair: TwoGraphs, looks: Looks) -> float | None:
    """Run the file itself, where a stand-in was looked at in its place."""
    try:
        numbers = looks.numbers(pair.candidate.model, as_it_is=True)
    except InputError:
        return None
    return numbers.get(OUTPUT_METRIC)


def _unmatched(pair: TwoGraphs) -> tuple[str, ...]:
    inside = {part.tensor for part in pair.parts}
    lost = [name for name in pair.reference.boundaries() if name not in inside]
    return tuple(pair.reference.nodes[pair.reference.makers[name]].name for name in lost)


def _teller(
    progress: Callable[[float, str], None], began: float, spec: LocalizeSpec
) -> Callable[[str], None]:
    def tell(text: str) -> None:
        used = (time.monotonic() - began) / spec.max_time_s
        progress(min(0.99, 0.2 + 0.8 * used), text)

    return tell
