"""Compare two engines: which layers do the same work, and which got slower or faster.

Layers are aligned by ONNX nodes (products first), then by name, then by shape, weights, source and
order; one layer may correspond to several. Numbered names (``Conv_12``) are only used if most of
them are in both engines: another export numbers its nodes differently.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from trtbench.core.results import ShortView
from trtbench.core.run import Scalar
from trtbench.core.spec import Value
from trtbench.core.units import text_from_fraction, text_from_seconds
from trtbench.layers.table import (
    CONVERSIONS,
    QUANTIZED,
    EngineFacts,
    Group,
    Layer,
    LayerTable,
    Role,
    edges_of,
    is_weighted,
    is_wider,
    myelin_ends,
    narrowest,
    nodes_between,
    short_name,
    target_of_reformat,
    total_s,
)

_FAMILIES = {
    "convolution": "product", "convactpool": "product", "deconvolution": "product",
    "gemm": "product", "fusion": "product", "matrixmultiply": "product",
    "fullyconnected": "product", "gemmconvolution": "product",
    "pooling": "pooling", "pointwise": "pointwise", "elementwise": "pointwise",
}  # fmt: skip
_NUMBERED = re.compile(r"^[A-Za-z]+_\d+$")  # ``Conv_12``: another export numbers differently
_QUANT = re.compile(r"(?:(?<=/)|^)quant_|_quant(?:ized)?(?=[/_]|$)")  # added by quantization tools
_QUANTIZES = re.compile(r"Quantize|QuantLinear|_quantizer\b")
_PRODUCT = re.compile(r"(?:Conv|MatMul|Gemm|Einsum|Dense)[^/]*$")
_CLAMPS = ("Relu", "Clip", "LeakyRelu")  # often fused into kernels whose names omit them

By = Literal["origin", "name", "place", "none"]

MAX_CELLS = 60_000_000  # largest table for sequence alignment: 7 700 by 7 700 layers, 120 MB
MIN_GAIN = 1.02  # smaller speed-ups do not count
NO_FACTS = EngineFacts()


def main_operators(layer: Layer) -> tuple[str, ...]:
    """Return the operators of a layer without Q/DQ and clamps."""
    return tuple(
        name for name in layer.operators if "QuantizeLinear" not in name and name not in _CLAMPS
    )


class _Alignment:
    """Pairs of layers aligned so far; ``pair_of`` maps side and layer index to a pair."""

    def __init__(self, a: LayerTable, b: LayerTable) -> None:
        self.tables = (a, b)
        self.pairs: list[tuple[list[int], list[int], By]] = []
        self.pair_of: tuple[dict[int, int], dict[int, int]] = ({}, {})

    def add(self, a: Sequence[int], b: Sequence[int], by: By) -> None:
        for taken, members in zip(self.pair_of, (a, b), strict=True):
            taken.update(dict.fromkeys(members, len(self.pairs)))
        self.pairs.append(([*a], [*b], by))

    def compute_layers(self, side: int) -> list[Layer]:
        return [layer for layer in self.tables[side].layers if layer.role == "compute"]

    def unaligned(self, side: int, *, computing: bool = False) -> list[Layer]:
        layers = self.compute_layers(side) if computing else self.tables[side].layers
        return [layer for layer in layers if layer.index not in self.pair_of[side]]

    def align_by_origin(self) -> None:
        """Align groups of layers that share ONNX nodes, directly or through other layers."""
        # Layers that compute, by node; a region with known ends holds all nodes between them.
        holders: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        for side, holding in enumerate(holders):
            order = [node for layer in self.tables[1 - side].layers for node in layer.nodes]
            for layer in self.compute_layers(side):
                ends = myelin_ends(layer.name)
                between = nodes_between(*ends, order) if ends and len(layer.nodes) <= 2 else ()
                for node in dict.fromkeys(_QUANT.sub("", x) for x in between or layer.nodes):
                    if not _QUANTIZES.search(node):
                        holding.setdefault(node, []).append(layer.index)
        distrusted = _unrelated_names(*holders)
        offset = len(self.tables[0].layers)
        parent = list(range(offset + len(self.tables[1].layers)))

        def root(index: int) -> int:
            while parent[index] != index:
                parent[index] = parent[parent[index]]
                index = parent[index]
            return index

        linked: set[int] = set()
        for node, one in sorted(holders[0].items(), key=lambda each: not _PRODUCT.search(each[0])):
            other = [offset + index for index in holders[1].get(node, ())]
            if not other or node in distrusted or max(len(one), len(other)) > 8:
                continue  # a node in many layers does not align them (shapes, constants)
            # A convolution decides, not the Add that another engine fuses into the other branch.
            if not (_PRODUCT.search(node) or linked.isdisjoint(one) or linked.isdisjoint(other)):
                continue
            members = [*one, *other]
            for each in members:
                parent[root(each)] = root(members[0])
            linked.update(members)
        found: dict[int, list[int]] = {}
        for each in sorted(linked):
            found.setdefault(root(each), []).append(each)
        for joined in found.values():
            own = [each for each in joined if each < offset]
            self.add(own, [each - offset for each in joined if each >= offset], "origin")

    def align_by_name(self, *, computing: bool = False) -> None:
        """Align layers with equal names; repeated names are aligned in order."""
        a, b = (self.unaligned(side, computing=computing) for side in (0, 1))
        distrusted = _unrelated_names(*([layer.name for layer in side] for side in (a, b)))
        waiting: dict[str, list[int]] = {}
        for layer in reversed(b):
            waiting.setdefault(layer.name, []).append(layer.index)
        for layer in a:
            same = waiting.get(layer.name)
            if same and layer.name not in distrusted:
                self.add([layer.index], [same.pop()], "name")

    def align_by_position(self) -> None:
        """Align products of the same shape, weights and source in order, then what is between."""
        looks: tuple[dict[int, tuple[object, ...]], dict[int, tuple[object, ...]]] = ({}, {})
        for table, found in zip(self.tables, looks, strict=True):
            source = {end: begin for begin, end, _ in reversed(edges_of(table))}  # first input
            fed: dict[int, int | None] = {}
            for layer in table.layers:
                kind, at = (layer.kind or "").lower(), source.get(layer.index)
                at = at if at is None or is_weighted(table.layers[at]) else fed[at]
                fed[layer.index] = at  # the nearest product before it
                shape: object = re.sub(r"\d+", "#", layer.name)
                if layer.shape_out is not None:  # without the batch
                    shape = tuple(dim for dim in layer.shape_out.split("x")[1:] if dim != "1")
                before = None if at is None else found[at][1]
                found[layer.index] = _FAMILIES.get(kind, kind) or None, shape, layer.weights, before
        # How much of a look must agree, and whether pairs of products may cross others.
        for detail, crossing in ((4, False), (4, True), (3, True), (2, False)):
            if detail == 2:
                self.join_fused()
            pick = self.unaligned if crossing else self.compute_layers
            sides = [[x for x in pick(side) if detail == 2 or is_weighted(x)] for side in (0, 1)]
            tokens = [
                [taken.get(x.index, look[x.index][:detail]) for x in layers]
                for taken, look, layers in zip(self.pair_of, looks, sides, strict=True)
            ]
            for left, right in common_sequence(*tokens):
                one, other = sides[0][left].index, sides[1][right].index
                if one not in self.pair_of[0] and other not in self.pair_of[1]:
                    self.add([one], [other], "place")

    def join_fused(self) -> None:
        """Add layers to the pair of their source if its other side alone has their operators."""
        for side, table in enumerate(self.tables):
            pair_of, passed = self.pair_of[side], dict[int, int]()
            for begin, end, _ in edges_of(table):
                pair, layer = pair_of.get(begin, passed.get(begin)), table.layers[end]
                if pair is None or end in pair_of:
                    continue
                one, other = (
                    Counter(x for i in own for x in each.layers[i].operators)
                    for own, each in zip(self.pairs[pair][:2], self.tables, strict=True)
                )
                missing = other - one if side == 0 else one - other
                if layer.role != "compute":
                    passed[end] = pair
                elif layer.operators and Counter(layer.operators) <= missing:
                    self.pairs[pair][:2][side].append(end)
                    pair_of[end] = pair

    def align_gaps(self) -> None:
        """Align groups of remaining layers between the same neighbours: their fusion changed."""
        # Sequences of unaligned layers, by the pairs before and after them.
        runs: tuple[dict[tuple[int, int], list[int]], dict[tuple[int, int], list[int]]] = ({}, {})
        for side, found in enumerate(runs):
            paired = [(self.pair_of[side].get(x.index), x.index) for x in self.compute_layers(side)]
            last, run = -1, list[int]()
            for pair, index in [*paired, (-1, -1)]:
                if pair is None:
                    run.append(index)
                    continue
                if run:
                    found[last, pair] = run
                last, run = pair, []
        for ends, left in runs[0].items():
            right = runs[1].get(ends, [])
            if ends == (-1, -1) or not right:
                continue  # without any neighbour the position says nothing
            # A single Myelin region replaces all layers of the other engine at its position.
            alone = any(
                len(own) == 1 and myelin_ends(table.layers[own[0]].name) is not None
                for own, table in zip((left, right), self.tables, strict=True)
            )
            if max(len(left), len(right)) <= 6 or alone:
                self.add(left, right, "place")

    def align_reformats(self) -> None:
        """Align reformats that serve the same tensor of aligned layers."""
        served: list[dict[tuple[int, str], list[int]]] = [{}, {}]
        for side, found in enumerate(served):
            by_name = {layer.name: layer.index for layer in self.tables[side].layers}
            for layer in self.unaligned(side):
                target = target_of_reformat(layer.name)
                index = by_name.get(target[0]) if target and layer.role != "compute" else None
                pair = None if index is None else self.pair_of[side].get(index)
                if target and pair is not None:
                    found.setdefault((pair, target[1]), []).append(layer.index)
        for key, left in served[0].items():
            for one, other in zip(left, served[1].get(key, ()), strict=False):
                self.add([one], [other], "place")


def align(a: LayerTable, b: LayerTable) -> list[tuple[list[int], list[int], By]]:
    """Align two engines: lists of layer indices of both; every layer is in exactly one pair."""
    sides = _Alignment(a, b)
    sides.align_by_origin()
    sides.align_by_name(computing=True)
    sides.align_by_position()
    sides.align_gaps()
    sides.align_reformats()
    sides.align_by_name()
    for layer in sides.unaligned(0):
        sides.add([layer.index], [], "none")
    for layer in sides.unaligned(1):
        sides.add([], [layer.index], "none")
    return sides.pairs


def _unrelated_names(a: Iterable[str], b: Iterable[str]) -> set[str]:
    """Return the numbered names, if too few are on both sides to be of the same export."""
    left, right = ({n for n in side if _NUMBERED.match(n.split(" + ")[0])} for side in (a, b))
    smaller = min(len(left), len(right))
    return left | right if len(left & right) < 0.5 * smaller else set()


def common_sequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return index pairs of a longest common subsequence; very long inputs match only at ends."""
    begin = end = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    codes: dict[Hashable, int] = {}
    left, right = (
        np.array([codes.setdefault(x, len(codes)) for x in side[begin : len(side) - end]], np.int32)
        for side in (a, b)
    )
    row, column = len(left), len(right)
    tail = [(len(a) - end + place, len(b) - end + place) for place in range(end)]
    middle: list[tuple[int, int]] = []
    if row * column <= MAX_CELLS:
        lengths = np.zeros((row + 1, column + 1), np.uint16)
        for place, code in enumerate(left, 1):
            above = lengths[place - 1]
            best = np.maximum(above[1:], above[:-1] + (right == code))
            np.maximum.accumulate(best, out=lengths[place, 1:])
        while row and column:  # read the sequence from the table, from its end
            if left[row - 1] == right[column - 1]:
                row, column = row - 1, column - 1
                middle.append((begin + row, begin + column))
            elif lengths[row - 1, column] >= lengths[row, column - 1]:
                row -= 1
            else:
                column -= 1
    return [*((place, place) for place in range(begin)), *middle[::-1], *tail]


class Change(Value, frozen=True, kw_only=True):
    """Aligned layers of two engines; a side is empty if it has no such layer."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    by: By
    role: Role
    name_a: str | None
    name_b: str | None
    precision_a: str | None
    precision_b: str | None
    a_s: float
    b_s: float
    changed: tuple[str, ...] = ()  # ``fusion``, ``precision``, ``tactic``, ``shape``

    @property
    def delta_s(self) -> float:
        """Time of B minus time of A: positive if the second engine is slower."""
        return self.b_s - self.a_s

    @property
    def name(self) -> str:
        return self.name_a or self.name_b or ""


class WholeTimes(Value, frozen=True, kw_only=True):
    """The median time of one inference of both engines, else the sums of their layers."""

    what: str
    a_s: float
    b_s: float


def faster_sentence(a: str, b: str, what: str, a_s: float, b_s: float) -> str:
    """Say which of two is faster by their times; less than 2 % is no difference."""
    speed = a_s / b_s if a_s and b_s else 1.0
    said = f"is {speed:.2f}x as fast as" if speed >= MIN_GAIN else "is about as fast as"
    said = f"takes {1 / speed:.2f}x the time of" if speed <= 1 / MIN_GAIN else said
    return f"{b} {said} {a} ({what}: {text_from_seconds(b_s)} against {text_from_seconds(a_s)})"


class EngineDiff(Value, frozen=True, kw_only=True):
    """The changes between two engines; they add up to the difference of the layer sums."""

    changes: tuple[Change, ...]  # the largest first; layers that took no time on either side last
    a_s: float | None
    b_s: float | None
    whole: WholeTimes | None
    related: bool  # whether enough layers have a counterpart to be of the same network
    lacks: dict[str, str]  # by engine: what is unknown, and the file that would tell
    explained: float | None
    """Share of all changes in time, up or down, that is in layers of both engines or in
    conversions; the rest is in layers that only one engine has."""
    notes: tuple[str, ...] = ()

    @property
    def delta_s(self) -> float | None:
        return None if self.a_s is None or self.b_s is None else self.b_s - self.a_s

    def sentence(self, a: str, b: str) -> str:
        """Say which engine is faster, under the names of both."""
        if self.whole is None:
            return f"B {b} against A {a}: one has no profile, so it is unknown which is faster"
        return faster_sentence(f"A {a}", f"B {b}", self.whole.what, self.whole.a_s, self.whole.b_s)

    def only_in(self, side: str) -> tuple[Change, ...]:
        """Return the changes that only one engine has: ``a`` or ``b``."""
        return tuple(each for each in self.changes if each.by == "none" and getattr(each, side))


def difference(
    a: LayerTable, b: LayerTable, of_a: EngineFacts = NO_FACTS, of_b: EngineFacts = NO_FACTS
) -> EngineDiff:
    """Align two engines and return what differs, by medians where both have them."""
    changes, notes = [], []
    if a.timed and b.timed and a.statistic != b.statistic:
        a, b = (x.having(layers=tuple(y.having(median_s=None) for y in x.layers)) for x in (a, b))
        notes.append("compared by averages, as one profile has no medians: stalls are in them")
    for one, other, by in align(a, b):
        left, right = [a.layers[index] for index in one], [b.layers[index] for index in other]
        both = [*left, *right]
        slowest = max(both, key=lambda each: each.seconds)
        changed = []
        if left and right and (len(left) != len(right) or _content(left) != _content(right)):
            changed.append("fusion")
        for what in ("precision", "tactic", "shape_out"):
            was, now = ({getattr(layer, what) for layer in side} - {None} for side in (left, right))
            if was and now and was != now:
                changed.append(what.removesuffix("_out"))
        change = Change(
            a=tuple(one),
            b=tuple(other),
            by=by,
            role="compute" if any(layer.role == "compute" for layer in both) else slowest.role,
            name_a="\n".join(layer.name for layer in left) or None,
            name_b="\n".join(layer.name for layer in right) or None,
            precision_a=_precision(left),
            precision_b=_precision(right),
            a_s=total_s(left),
            b_s=total_s(right),
            changed=tuple(changed),
        )
        changes.append(change)
    changes.sort(key=lambda each: (-abs(each.delta_s), -max(each.a_s, each.b_s)))
    moved = math.fsum(abs(each.delta_s) for each in changes)
    both_s = math.fsum(
        abs(each.delta_s) for each in changes if each.by != "none" or each.role in CONVERSIONS
    )
    work = [each for each in changes if each.role == "compute"]
    related = sum(each.by != "none" for each in work) >= 0.1 * len(work)
    lacks = {name: table.lacks for name, table in (("A", a), ("B", b)) if table.lacks}
    if not related:
        asked = "kinds and shapes would align more" if lacks else "are these different networks?"
        notes.append(f"hardly any layer has a counterpart: {asked}")
    times = (
        ("GPU time", of_a.gpu_s, of_b.gpu_s),
        ("latency", of_a.latency_s, of_b.latency_s),
        ("host time", of_a.host_s, of_b.host_s),
        ("sum of layers under the profiler", a.total_s, b.total_s),
    )
    known = (
        WholeTimes(what=what, a_s=before, b_s=after)
        for what, before, after in times
        if before is not None and after is not None
    )
    for name, table in (("A", a), ("B", b)):
        if not table.timed:
            notes.append(f"{name} has no profile: layers are aligned, but their times are unknown")
        notes += [f"{name}: {note}" for note in table.notes if note != table.lacks]
    return EngineDiff(
        changes=tuple(changes),
        a_s=a.total_s,
        b_s=b.total_s,
        whole=next(known, None),
        related=related,
        lacks=lacks,
        explained=(both_s / moved if moved else 1.0) if a.timed and b.timed else None,
        notes=tuple(notes),
    )


def _precision(layers: Sequence[Layer]) -> str | None:
    """Name the types of layers, the most time first; a conversion as ``fp32 to fp16``."""
    words: dict[str, None] = {}
    for layer in sorted(layers, key=lambda layer: -layer.seconds):
        if layer.precision or layer.precision_in:
            words[layer.precision or f"{layer.precision_in} to {layer.precision_out}"] = None
    return ", ".join(words) or None


def _content(layers: Sequence[Layer]) -> list[list[str]]:
    """Return the nodes of each layer, or its operators if the nodes only have numbers."""
    found = []
    for layer in layers:
        nodes = [node for node in layer.nodes if "QuantizeLinear" not in node]
        found.append(sorted(main_operators(layer) if any(map(_NUMBERED.match, nodes)) else nodes))
    return sorted(found)


Certainty = Literal["measured", "at most", "stated"]


class Gap(Value, frozen=True, kw_only=True):
    """One reason why the sum of layers differs from the GPU time; positive if the sum is larger."""

    name: str
    seconds: float | None
    evidence: Certainty
    because: str


class Reconciliation(Value, frozen=True, kw_only=True):
    """How the layers add up to the GPU time of an inference without the profiler."""

    layers_s: float
    gpu_s: float | None = None
    host_s: float | None = None
    parts: tuple[Gap, ...]
    unexplained_s: float | None = None

    @property
    def gap_s(self) -> float | None:
        """Sum of the layers minus the GPU time."""
        return None if self.gpu_s is None else self.layers_s - self.gpu_s


def reconcile(table: LayerTable, facts: EngineFacts) -> Reconciliation | None:
    """Explain the difference between layer sum and GPU time; ``None`` without a profile."""
    medians_s, gpu_s, profiled_gpu_s = table.total_s, facts.gpu_s, facts.profiled_gpu_s
    if medians_s is None:
        return None
    layers_s = math.fsum(layer.time_s or 0.0 for layer in table.layers)
    left_s, parts = None if gpu_s is None else layers_s - gpu_s, list[Gap]()

    def add(name: str, seconds: float | None, because: str, evidence: Certainty) -> None:
        nonlocal left_s
        left_s = (left_s or 0.0) - (seconds or 0.0)
        parts.append(Gap(name=name, seconds=seconds, evidence=evidence, because=because))

    if gpu_s is not None and left_s is not None:
        if table.count != 1 and table.statistic == "median":
            because = "layer averages minus medians: warm-up and stalls of the profiled pass"
            add("warm-up and stalls", layers_s - medians_s, because, "measured")
        if profiled_gpu_s is not None:
            with_it, without = text_from_seconds(profiled_gpu_s), text_from_seconds(gpu_s)
            because = f"GPU time {with_it} with the profiler attached, {without} without"
            add("profiler overhead", profiled_gpu_s - gpu_s, because, "measured")
            because = "GPU time of the profiled pass that belongs to no layer"
            add("launch gaps", medians_s - profiled_gpu_s, because, "measured")
        extra = [layer for layer in table.layers if layer.stream]
        if extra and left_s > 0:  # the overlap with the main stream is at most their own time
            own = total_s(extra)
            because = f"{len(extra)} layers on other streams take {text_from_seconds(own)} together"
            add("auxiliary streams", min(own, left_s), because, "at most")
        if facts.cuda_graph:
            because = "the timed run replayed a CUDA graph; the profiler launches layers one by one"
            add("CUDA graph", None, because, "stated")
    known = {"gpu_s": gpu_s, "host_s": facts.host_s, "unexplained_s": left_s}
    return Reconciliation(layers_s=layers_s, parts=tuple(parts)).having(**known)


Row = dict[str, Scalar]
_RENAMED = {"precision_asked": "asked", "average_s": "time_s", "roofline_share": "roofline",
            "onnx_nodes": "nodes"}  # fmt: skip
LAYER_COLUMNS = (
    "index", "name", "kind", "role", "precision", "precision_in", "precision_out",
    "precision_basis", "precision_asked", "shape_in", "shape_out", "average_s", "median_s",
    "min_s", "max_s", "share", "flops", "traffic_bytes", "flops_per_s", "bytes_per_s",
    "roofline_share", "bound", "energy_j", "weights", "stream", "region", "tactic", "operators",
    "onnx_nodes",
)  # fmt: skip
"""Columns of the exported table of layers: fields of a layer, some under a longer name."""


def rows_from_layers(layers: Iterable[Layer]) -> list[Row]:
    """Return one row per layer; several operators or ONNX nodes are joined by spaces."""
    rows = []
    for layer in layers:
        values = {name: getattr(layer, _RENAMED.get(name, name)) for name in LAYER_COLUMNS}
        rows.append(
            {k: " ".join(v) or None if isinstance(v, tuple) else v for k, v in values.items()}
        )
    return rows


def rows_from_groups(groups: Iterable[Group], *, by: str) -> list[Row]:
    """Return one row per group; the first column is named after the grouping key."""
    key = by.partition(":")[0]
    fields = {key if key.isalpha() else "pattern": "name", "layers": "layers",
              "average_s": "average_s", "time_s": "seconds", "share": "share", "flops": "flops",
              "traffic_bytes": "traffic_bytes", "precisions": "precisions"}  # fmt: skip
    return [{column: getattr(x, name) for column, name in fields.items()} for x in groups]


def rows_from_diff(diff: EngineDiff) -> list[Row]:
    """Return one row per change, with the values of both engines."""
    rows = []
    for each in diff.changes:
        row: Row = {"name_a": each.name_a, "name_b": each.name_b, "aligned_by": each.by}
        row |= {"role": each.role, "precision_a": each.precision_a, "precision_b": each.precision_b,
                "layers_a": len(each.a), "layers_b": len(each.b)}  # fmt: skip
        row["a_s"] = each.a_s if diff.a_s is not None and each.a else None
        row["b_s"] = each.b_s if diff.b_s is not None and each.b else None
        row["delta_s"] = each.delta_s if diff.delta_s is not None else None
        rows.append({**row, "changed": ", ".join(each.changed) or None})
    return rows


CauseCode = Literal[
    "interruption", "precision", "reformat", "fusion", "memory", "kernel", "rest", "added",
    "enqueue",
]  # fmt: skip


class Cause(Value, frozen=True, kw_only=True):
    """One reason for a slow candidate: its cost, the evidence, and what to try."""

    code: CauseCode
    title: str
    seconds: float | None  # cost; ``None`` if it cannot be quantified
    explains_s: float = 0.0
    share: float | None = None
    layers: tuple[str, ...] = ()  # names of the candidate's layers, the slowest first
    nodes: tuple[str, ...] = ()  # ONNX nodes of the layer, if the cause is a single layer
    evidence: tuple[str, ...] = ()
    try_: str = ""
    command: str | None = None


def interruptions(table: LayerTable) -> dict[int, int]:
    """Map unquantized layers between quantized ones, and conversions around them, to the layer."""
    before, after = ([set[int]() for _ in table.layers] for _ in range(2))
    for begin, end, _ in edges_of(table):
        after[begin].add(end)
        before[end].add(begin)
    found: dict[int, int] = {}
    for layer in table.layers:
        if layer.role != "compute" or layer.precision is None or layer.precision in QUANTIZED:
            continue
        passed, quantized = {layer.index}, []
        for steps in (before, after):  # follow conversions to the next layers that compute
            waiting, seen = list(steps[layer.index]), set[int]()
            while waiting:
                index = waiting.pop()
                if index not in seen and table.layers[index].role in (*CONVERSIONS, "nothing"):
                    waiting += steps[index]
                    passed.add(index)
                seen.add(index)
            reached = [table.layers[each] for each in seen - passed]
            quantized.append(any(each.precision in QUANTIZED for each in reached))
        if all(quantized):
            found.update(dict.fromkeys(passed, layer.index))
    return found


def _layer_causes(
    excess: Sequence[tuple[Change, float]], b: LayerTable, asked: str | None
) -> Iterator[Cause]:
    """Group changes into causes; layers that got faster make a cause smaller or negative.

    ``excess`` is how much longer each change takes than expected.
    """
    interrupted = interruptions(b)

    def code_of(change: Change, layers: Sequence[Layer]) -> CauseCode:
        if change.role in CONVERSIONS:
            return "reformat"
        if not change.a:
            return "added"
        if any(is_weighted(layer) and is_wider(layer.precision, asked) for layer in layers):
            return "precision"
        if "fusion" in change.changed and len(change.b) > len(change.a):
            return "fusion"
        slowest = max(layers, key=lambda each: each.seconds, default=None)
        if slowest and slowest.bound == "memory" and (slowest.roofline or 0.0) >= 0.6:
            return "memory"  # at its ceiling: copies reach 0.8 of the peak
        return "kernel" if change.b_s > change.a_s else "rest"

    def shown(change: Change, code: CauseCode) -> str:
        """Describe a change with the times of both engines."""
        layers = [b.layers[index] for index in change.b]
        more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        was = f"{text_from_seconds(change.a_s)} before" if change.a else "not in the baseline"
        text = f"{short_name(layers[0].name)}{more}: {text_from_seconds(change.b_s)}, {was}"
        text += f", {change.precision_b}" if change.precision_b else ""
        if code == "memory":
            slowest = max(layers, key=lambda each: each.seconds)
            text += f", {text_from_fraction(slowest.roofline, digits=0)} of the roofline"
        return text

    members: dict[tuple[CauseCode, int], list[tuple[Change, float]]] = {}
    for change, seconds in excess:
        layers = [b.layers[index] for index in change.b]
        at = next((interrupted[index] for index in change.b if index in interrupted), -1)
        replaceable = change.role in CONVERSIONS or not change.a
        key: tuple[CauseCode, int] = (code_of(change, layers), -1)
        if asked in QUANTIZED and at >= 0 and (replaceable or not any(map(is_weighted, layers))):
            key = ("interruption", at)
        members.setdefault(key, []).append((change, seconds))
    for (code, at), own in members.items():
        total = math.fsum(seconds for _, seconds in own)
        own = sorted((each for each in own if each[0].b), key=lambda each: -each[1])
        names = [b.layers[index].name for change, _ in own for index in change.b]
        layer = b.layers[at] if at >= 0 else None
        words = {
            "count": str(len(names)),
            "narrow": (asked or "the narrower type").upper(),
            "asked": asked if asked in ("int8", "fp8", "fp16", "bf16") else "int8",
        }
        if layer is not None:
            names = list(dict.fromkeys([layer.name, *names]))
            called = short_name(layer.name)
            if layer.nodes and not any(node in layer.name for node in layer.nodes):
                # A generated name is not in the model, so its nodes are named too.
                more = f" and {len(layer.nodes) - 1} more" if len(layer.nodes) > 1 else ""
                called = f"{layer.nodes[0]}{more} ({called})"
            got = (layer.precision or "another type").upper()
            words |= {"called": called, "got": got, "op": [*main_operators(layer), "KIND"][0]}
        title, remedy, command = (text.format(**words) for text in _CAUSES[code])
        yield Cause(
            code=code,
            title=title,
            seconds=total,
            layers=tuple(names),
            nodes=layer.nodes if layer else (),
            evidence=tuple(shown(change, code) for change, s in own[:3] if s > 0),
            try_=remedy,
            command=command,
        )


_CAUSES = {
    "precision": (
        "{count} layers do not compute in {narrow}",
        "see which nodes have no Q/DQ around them, and quantize them too",
        "trtbench quantize MODEL.onnx --precision {asked}",
    ),
    "reformat": (
        "{count} conversions of layout and type",
        "use one type for neighbouring layers: quantize both inputs of every Add and Concat, or "
        "leave small groups unquantized",
        "trtbench quantize MODEL.onnx --precision {asked} --exclude 'NODE*'",
    ),
    "fusion": (
        "fusions lost: {count} layers do what fewer did",
        "give the builder more time to find the fusion, or move the Q/DQ that splits it",
        "trtbench build MODEL.onnx --optimization-level 5",
    ),
    "memory": (
        "{count} layers are limited by memory, at its ceiling",
        "no narrower arithmetic helps: fuse with neighbours, or store narrower tensors",
        "trtbench profile CANDIDATE --by bound",
    ),
    "kernel": (
        "{count} layers whose kernels are slower than the baseline's",
        "let the builder time more kernels, without a timing cache",
        "trtbench build MODEL.onnx --optimization-level 5 --no-timing-cache",
    ),
    "rest": (
        "layers that gained less than the others",
        "compare their kernels one by one",
        "trtbench diff BASELINE CANDIDATE --all",
    ),
    "added": (
        "{count} layers that the baseline does not have",
        "see what they are for; Q/DQ that was not folded shows as layers of its own",
        "trtbench diff BASELINE CANDIDATE",
    ),
    "enqueue": (
        "the host does not launch fast enough (enqueue-bound)",
        "launch as a CUDA graph",
        "trtbench bench CANDIDATE --cuda-graph on",
    ),
    "interruption": (
        "{called} interrupts {narrow}: it computes in {got}",
        "quantize this node too, take it out, or leave its neighbours unquantized",
        "trtbench quantize MODEL.onnx --precision {asked} --op Conv --op Gemm --op {op}",
    ),
}
"""By code: the title, what to do, and the command."""


class Why(ShortView, Value, frozen=True, kw_only=True):
    """Why a candidate is not faster than a baseline, or not faster still."""

    baseline_s: float
    candidate_s: float
    expected_s: float  # time if all layers had gained as much as those in the narrower type
    gain: float  # speed-up of the layers in the narrower type; 1 if there are none
    shortfall_s: float  # time to explain; zero or less if there is none
    causes: tuple[Cause, ...]
    gains_s: float  # time gained by layers that are faster than expected; zero or less
    unexplained_s: float
    diff: EngineDiff


def why(
    a: LayerTable,
    b: LayerTable,
    *,
    baseline: EngineFacts = NO_FACTS,
    candidate: EngineFacts = NO_FACTS,
) -> Why | None:
    """Return the causes ranked by what they explain; ``None`` if a side has no profile."""
    diff = difference(a, b, baseline, candidate)
    a_s, b_s = diff.a_s, diff.b_s
    if a_s is None or b_s is None or diff.whole is None:
        return None
    if (diff.whole.b_s - diff.whole.a_s) * (b_s - a_s) < 0:
        note = f"by {diff.whole.what} it is the other way round than by the sum of its layers"
        diff = diff.having(notes=(f"{note}, which the profiler times one by one", *diff.notes))
    computed = {layer.precision for layer in b.layers if layer.precision}
    asked = narrowest(candidate.asked) or narrowest(" ".join(computed))
    gain = _gain(diff, a, b, asked)
    excess = [
        (each, each.b_s - (each.a_s / gain if _has_weighted_layer(each, a) else each.a_s))
        for each in diff.changes
    ]
    every = [*_layer_causes(excess, b, asked)] if diff.related else []
    if not candidate.built:  # there is no builder to set otherwise
        _, remedy, command = _CAUSES["rest"]
        advice = {"try_": remedy, "command": command}
        every = [x.having(**advice) if x.code in ("fusion", "kernel") else x for x in every]
    missing = math.fsum(seconds for _, seconds in excess)
    shortfall = missing
    if candidate.enqueue_s and candidate.gpu_s and candidate.waits_for_launches:
        before, after = (
            max(0.0, facts.gpu_s - layers_s) if facts.gpu_s else 0.0
            for facts, layers_s in ((baseline, a_s), (candidate, b_s))
        )
        times = map(text_from_seconds, (candidate.enqueue_s, candidate.gpu_s))
        title, remedy, command = _CAUSES["enqueue"]
        every.append(
            Cause(
                code="enqueue",
                title=title,
                seconds=after - before if after > before else None,
                evidence=("enqueueing takes {}, the GPU {}".format(*times),),
                try_=remedy,
                command=command,
            )
        )
        shortfall += max(0.0, after - before)
    causes = [each for each in every if each.seconds is None or each.seconds > 0]
    remaining = to_explain = max(0.0, shortfall)
    explained = []
    for cause in sorted(causes, key=lambda each: -(each.seconds or 0.0)):
        explains = min(remaining, cause.seconds or 0.0)
        remaining -= explains
        share = explains / to_explain if to_explain and cause.seconds is not None else None
        explained.append(cause.having(explains_s=explains, share=share))
    return Why(
        baseline_s=a_s,
        candidate_s=b_s,
        expected_s=b_s - missing,
        gain=gain,
        shortfall_s=shortfall,
        causes=tuple(explained),
        gains_s=math.fsum(min(0.0, each.seconds or 0.0) for each in every),
        unexplained_s=to_explain - math.fsum(each.explains_s for each in explained),
        diff=diff,
    )


def _has_weighted_layer(change: Change, a: LayerTable) -> bool:
    return any(is_weighted(a.layers[index]) for index in change.a)


def _gain(diff: EngineDiff, a: LayerTable, b: LayerTable, asked: str | None) -> float:
    """Return the speed-up of the layers that became faster in the narrower type."""

    def main_type(indices: Sequence[int], table: LayerTable) -> str | None:
        layers = [table.layers[index] for index in indices if table.layers[index].precision]
        return max(layers, key=lambda layer: layer.seconds).precision if layers else None

    gained = []
    for each in diff.changes:
        if each.b and each.b_s < each.a_s and _has_weighted_layer(each, a):
            was, now = main_type(each.a, a), main_type(each.b, b)
            if is_wider(was, now) and not is_wider(now, asked):
                gained.append(each)
    after = math.fsum(each.b_s for each in gained)
    ratio = math.fsum(each.a_s for each in gained) / after if after else 1.0
    return ratio if ratio >= MIN_GAIN else 1.0
