"""Compare two engines: which layers do the same work, and which got slower or faster.

All layers are assigned at once: by ONNX nodes, kind, shape, weights and operator, by what their
neighbours resemble, and by how many convolutions and matrix products are before and after them.
Then one layer may correspond to several. Numbered names (``Conv_12``) are only used if most of them
are of layers alike in both engines: another export numbers its nodes differently.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import refuse_unknown
from trtbench.core.results import ShortView
from trtbench.core.run import Scalar
from trtbench.core.spec import Value
from trtbench.core.units import RESOLUTION_S, shortened, text_from_fraction, text_from_seconds
from trtbench.data import data_rows
from trtbench.layers import table as tables
from trtbench.layers.join import without_overhead
from trtbench.layers.table import EngineFacts, Group, Layer, LayerTable, Role, is_weighted, total_s

_FAMILIES = {
    "convolution": "product", "convactpool": "product", "deconvolution": "product",
    "gemm": "product", "fusion": "product", "matrixmultiply": "product",
    "fullyconnected": "product", "gemmconvolution": "product",
    "pooling": "pooling", "pointwise": "pointwise", "elementwise": "pointwise",
}  # fmt: skip
_NUMBERED = re.compile(r"^[A-Za-z]+_\d+$")  # ``Conv_12``: another export numbers differently
_QUANT = re.compile(r"(?:(?<=/)|^)quant_|_quant(?:ized)?(?=[/_]|$)")  # added by quantization tools
_QUANTIZES = re.compile(r"Quantize|QuantLinear|_quantizer\b")
_PRODUCT = re.compile(r"(?:Conv|MatMul|Gemm|Einsum|Dense|Pool)[^/]*$")
_CLAMPS = ("Relu", "Clip", "LeakyRelu")  # often fused into kernels whose names omit them

Floats = NDArray[np.floating]
By = Literal["origin", "name", "place", "none"]
_UNTOLD = {"kind": None, "shape_in": None, "shape_out": None, "weights": None, "m": None, "n": None,
           "k": None, "reads": (), "writes": ()}  # fmt: skip

MAX_CELLS = 9_000_000  # 3 000 by 3 000 layers; larger engines are aligned by names alone
MAX_LAYERS_PER_NODE = 8  # a node in more layers does not align them (shapes, constants)
MIN_LIKENESS = 0.55  # the same kind and shape, or some of the same nodes
SPREADING = 0.45  # how much the likeness of neighbours counts
MIN_GAIN = 1.02  # smaller speed-ups do not count
SUM = "sum of layers under the profiler"
NO_FACTS = EngineFacts()


def main_operators(layer: Layer) -> tuple[str, ...]:
    """Return the operators of a layer without Q/DQ and clamps."""
    main = (name for name in layer.operators if "QuantizeLinear" not in name)
    return tuple(name for name in main if name not in _CLAMPS)


def _name_and_sizes(layer: Layer) -> tuple[object, ...]:
    """Return what tells a layer of one build; Myelin writes ``_`` for ``.`` in names."""
    return layer.name.replace(".", "_"), layer.shape_in, layer.m, layer.n, layer.k


class _Side:
    """The computing layers of one engine: what identifies each, and where in the graph it is."""

    def __init__(self, table: LayerTable, other: LayerTable) -> None:
        self.layers = [layer for layer in table.layers if layer.role == "compute"]
        self.at = {layer.index: place for place, layer in enumerate(self.layers)}
        order = [node for layer in other.layers for node in layer.nodes]
        twins = {_name_and_sizes(layer): layer.nodes for layer in other.layers}
        same = sum(_name_and_sizes(layer) in twins for layer in table.layers)
        if same < 0.7 * min(len(table.layers), len(other.layers)):  # of other builds, by chance
            twins = {}
        self.tokens: list[set[str]] = []  # nodes, without what quantization adds
        self.looks: list[tuple[object, ...]] = []  # kind, shape, weights, operator
        counts = []
        for layer in self.layers:
            ends = tables.myelin_ends(layer.name)
            between = tables.nodes_between(*ends, order) if ends and len(layer.nodes) <= 2 else ()
            nodes = between or (*layer.nodes, *twins.get(_name_and_sizes(layer), ()))
            every = (_QUANT.sub("", node) for node in nodes or [layer.name])
            own = {node for node in every if not _QUANTIZES.search(node)}
            self.tokens.append(own)
            shape: object = re.sub(r"\d+", "#", layer.name)
            if layer.shape_out is not None:  # without the batch
                shape = tuple(dim for dim in layer.shape_out.split("x")[1:] if dim != "1")
            operator = (*main_operators(layer), None)[0]
            family = _FAMILIES.get(layer.word, layer.word)
            self.looks.append((family, shape, layer.weights or None, operator))
            counts.append(sum(bool(_PRODUCT.search(x)) for x in own) or is_weighted(layer))
        # How many products are before and after a layer does not depend on what is fused.
        self.upstream = self._upstream(table, counts)
        self.products = np.flatnonzero(counts)
        self.before, self.after = self.upstream @ counts, np.array(counts) @ self.upstream

    def _upstream(self, table: LayerTable, products: Sequence[int]) -> Floats:
        """Return for each layer (row) 1 for the layers whose results it is computed from.

        Only the first input of a layer with weights counts: others are of an Add fused into it.
        Further inputs of other products count a little less, which tells Q from K.
        """
        found = np.zeros((len(self.at), len(self.at)), np.float32)
        held = np.eye(len(self.at), dtype=np.float32)  # what the outputs are computed from
        sources = tables.sources_of(table, set(self.at))
        if not any(sources.values()):  # without tensors, in the order of execution
            sources |= {end: [begin] for begin, end in pairwise(self.at)}
        for place, begins in enumerate(sources.values()):
            inputs = held[[self.at[begin] for begin in begins if begin in sources]]
            held[place] = np.max([held[place], *inputs], axis=0)
            if len(inputs):
                least = 0.0 if self.layers[place].weights else 0.999
                less = least if products[place] else 1.0
                found[place] = np.maximum(inputs[0], less * inputs.max(0))
        return found

    def neighbours(self) -> Iterator[Floats]:
        """Return which products (columns) are next to each layer: those before, those after."""
        steps = (self.upstream > 0).astype(np.float32)
        among = steps[np.ix_(self.products, self.products)]
        for reach, on in ((steps[:, self.products], among), (steps[self.products].T, among.T)):
            yield (reach > 0) & (reach @ on == 0)


def _likeness(a: _Side, b: _Side) -> tuple[Floats, Floats]:
    """Return how much layers are alike by nodes, and by kind, shape, weights and operator, too."""
    holders: dict[str, tuple[list[int], list[int]]] = {}
    codes, lengths = dict[object, int](), [np.full(len(x.layers), 1e-9) for x in (a, b)]
    for number, side in enumerate((a, b)):
        for place, own in enumerate(side.tokens):
            for token in own:
                holders.setdefault(token, ([], []))[number].append(place)
    by_nodes = np.zeros((len(a.layers), len(b.layers)))
    for token, (one, other) in holders.items():
        if max(len(one), len(other)) > MAX_LAYERS_PER_NODE:
            continue
        worth = (3.0 if _PRODUCT.search(token) else 1.0) / max(len(one), len(other))
        lengths[0][one] += worth
        lengths[1][other] += worth
        by_nodes[np.ix_(one, other)] += worth
    by_nodes /= np.sqrt(np.multiply.outer(*lengths))
    looks = []
    for side in (a, b):  # what is unknown equals nothing
        known = [[side if x is None else x for x in look] for look in side.looks]
        looks.append(np.array([[codes.setdefault(x, len(codes)) for x in y] for y in known]).T)
    parts = zip((0.4, 0.4, 0.2, 0.2), *looks, strict=True)
    return by_nodes, 2 * by_nodes + sum(worth * np.equal.outer(x, y) for worth, x, y in parts)


def best_path(gain: Floats) -> list[tuple[int, int]]:
    """Return the pairs of rows and columns, both ascending, with the largest sum of gains."""
    row, column = gain.shape
    sums, found = np.zeros((row + 1, column + 1), np.float32), []
    for place, own in enumerate(gain):
        best = np.maximum(sums[place, 1:], sums[place, :-1] + own)
        np.maximum.accumulate(best, out=sums[place + 1, 1:])
    while row and column:  # read the path from the table, from its end
        if sums[row, column] == sums[row - 1, column]:
            row -= 1
        elif sums[row, column] == sums[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            found.append((row, column))
    return found[::-1]


class _Alignment:
    """Pairs of layers aligned so far; ``pair_of`` maps side and layer index to a pair."""

    def __init__(self, a: LayerTable, b: LayerTable) -> None:
        self.tables = (a, b)
        self.pairs: list[tuple[tuple[list[int], list[int]], By]] = []
        self.pair_of: tuple[dict[int, int], dict[int, int]] = ({}, {})

    def add(self, a: Sequence[int], b: Sequence[int], by: By) -> None:
        for taken, members in zip(self.pair_of, (a, b), strict=True):
            taken.update(dict.fromkeys(members, len(self.pairs)))
        self.pairs.append((([*a], [*b]), by))

    def join(self, side: int, layer: Layer, pair: int) -> None:
        self.pair_of[side][layer.index] = pair
        self.pairs[pair][0][side].append(layer.index)

    def unaligned(self, side: int, among: Sequence[Layer] | None = None) -> list[Layer]:
        layers = self.tables[side].layers if among is None else among
        return [layer for layer in layers if layer.index not in self.pair_of[side]]

    def align_computing(self) -> None:
        """Assign layers that compute, the most alike first, then those that others have fused."""
        a, b = sides = (_Side(*self.tables), _Side(*self.tables[::-1]))
        unrelated = _unrelated_names(a, b)
        for side in sides:
            side.tokens = [own - unrelated for own in side.tokens]
        if not a.layers or not b.layers:
            return
        by_nodes, own = _likeness(a, b)
        # A layer whose nodes are in the other engine only belongs where most of them are.
        most = np.maximum.outer(by_nodes.max(1), by_nodes.max(0))
        gain = own = np.where((own >= MIN_LIKENESS) & (by_nodes >= 0.4 * most), own, 0.0)
        both = [*zip(a.neighbours(), b.neighbours(), strict=True)]
        for _ in range(3):  # add the mean over neighbours, also where neither has any
            known, gain = gain[np.ix_(a.products, b.products)], own.copy()
            for left, right in both:
                counts = np.multiply.outer(*(np.maximum(1, x.sum(1)) for x in (left, right)))
                alone = np.logical_and.outer(~left.any(1), ~right.any(1))
                gain += SPREADING * (left @ known @ right.T / counts + alone)
        off = _distances(a, b, own)
        gain = np.where(own > 0, np.maximum(gain - off / 2, 0.01), 0.0)
        for farthest in (0.3, 3.0):  # by nodes or at the same place; then nearby, if not fused
            possible = np.where((by_nodes > 0) | (off <= farthest), gain, 0.0)
            order = np.argsort(-possible, axis=None, kind="stable")
            for cell in order[: np.count_nonzero(possible)]:
                x, y = divmod(int(cell), len(b.layers))
                one, other = a.layers[x], b.layers[y]
                if one.index not in self.pair_of[0] and other.index not in self.pair_of[1]:
                    by: By = "origin" if one.nodes else "name"
                    shares = bool(a.tokens[x] & b.tokens[y])
                    self.add([one.index], [other.index], by if shares else "place")
            self.join_fused(sides, by_nodes)
        self.align_gaps(sides)

    def join_fused(self, sides: tuple[_Side, _Side], by_nodes: Floats) -> None:
        """Add layers that are left to the pair whose other side holds their nodes or operators."""

        def operators(side: int, members: Iterable[int]) -> Counter[str]:
            return Counter(x for each in members for x in self.tables[side].layers[each].operators)

        for side, (own, other) in enumerate((sides, sides[::-1])):
            for layer in self.unaligned(side, own.layers):
                shared = (by_nodes, by_nodes.T)[side][own.at[layer.index]]
                paired = [self.pair_of[1 - side].get(each.index) for each in other.layers]
                met = zip(shared, paired, strict=True)
                pair = max((x for x in met if x[0] and x[1] is not None), default=(0, None))[1]
                wanted = operators(side, [layer.index])
                for near in self.pairs_around(side, own, layer)[0][:-5:-1]:
                    has, there = (operators(x, self.pairs[near][0][x]) for x in (side, 1 - side))
                    if pair is None and wanted.total() and wanted <= there - has:
                        pair = near
                if pair is not None:
                    self.join(side, layer, pair)

    def pairs_around(self, side: int, own: _Side, layer: Layer) -> tuple[list[int], list[int]]:
        """Return the pairs of layers before and after a layer, in order of execution."""
        place, paired = own.at[layer.index], self.pair_of[side]
        before, after = (
            [paired[i] for x in np.flatnonzero(steps) if (i := own.layers[x].index) in paired]
            for steps in (own.upstream[place], own.upstream[:, place])
        )
        return before, after

    def align_gaps(self, sides: tuple[_Side, _Side]) -> None:
        """Align groups of remaining layers behind the same pair: their fusion changed."""
        rest: list[dict[int, list[int]]] = [{}, {}]
        for side, (own, found) in enumerate(zip(sides, rest, strict=True)):
            for layer in self.unaligned(side, own.layers):
                before, _ = self.pairs_around(side, own, layer)
                found.setdefault([-1, *before][-1], []).append(layer.index)
        for pair, left in rest[0].items():
            right = rest[1].get(pair, [])
            # A single Myelin region replaces all layers of the other engine at its position.
            alone = any(
                len(own) == 1 and tables.myelin_ends(table.layers[own[0]].name) is not None
                for own, table in zip((left, right), self.tables, strict=True)
            )
            if self.pairs and right and (max(len(left), len(right)) <= 6 or alone):
                self.add(left, right, "place")  # without any pair the place says nothing
        for side, own in enumerate(sides):  # what is next to a pair that only its place aligned
            for layer in self.unaligned(side, own.layers):
                before, after = self.pairs_around(side, own, layer)
                for pair in (*before[-1:], *after[:1]):
                    first = self.tables[side].layers[self.pairs[pair][0][side][0]]
                    if self.pairs[pair][1] == "place" and not is_weighted(first):
                        self.join(side, layer, pair)
                        break

    def align_rest(self, *, computing: bool) -> None:
        """Align reformats that serve the same tensor of aligned layers, and layers of one name."""
        waiting: list[dict[str | tuple[int, str], list[int]]] = [{}, {}]
        for side, found in enumerate(waiting):
            by_name = {layer.name: layer.index for layer in self.tables[side].layers}
            for layer in self.unaligned(side):
                target = tables.target_of_reformat(layer.name)
                pair = self.pair_of[side].get(by_name.get(target[0], -1)) if target else None
                key = layer.name if target is None or pair is None else (pair, target[1])
                if computing or layer.role != "compute":
                    found.setdefault(key, []).append(layer.index)
        for key, left in waiting[0].items():
            for one, other in zip(left, waiting[1].get(key, ()), strict=False):
                self.add([one], [other], "name" if isinstance(key, str) else "place")


def align(a: LayerTable, b: LayerTable) -> list[tuple[list[int], list[int], By]]:
    """Align two engines: lists of layer indices of both; every layer is in exactly one pair."""
    if a.detailed != b.detailed:  # what one engine does not tell says nothing about the other
        a, b = (x.having(layers=tuple(each.having(**_UNTOLD) for each in x.layers)) for x in (a, b))
    sides, too_large = _Alignment(a, b), len(a.layers) * len(b.layers) > MAX_CELLS
    if not too_large:
        sides.align_computing()
    sides.align_rest(computing=too_large)
    for layer in sides.unaligned(0):
        sides.add([layer.index], [], "none")
    for layer in sides.unaligned(1):
        sides.add([], [layer.index], "none")
    return [(sorted(one), sorted(other), by) for (one, other), by in sides.pairs]


def _distances(a: _Side, b: _Side, likeness: Floats) -> Floats:
    """Return how many products more or less there are before or after each layer of B than of A.

    The best common order of products tells by how many the engines differ anyway.
    """
    orders = [
        side.products[np.argsort((side.before - side.after)[side.products], kind="stable")]
        for side in (a, b)
    ]
    met = [(orders[0][x], orders[1][y]) for x, y in best_path(likeness[np.ix_(*orders)])]
    steps = []
    for left, right in ((a.before, b.before), (a.after, b.after)):
        if met:
            at, offset = np.array(sorted((left[x], round(right[y] - left[x])) for x, y in met)).T
            left = left + np.interp(left, at, offset)
        steps.append(np.abs(np.subtract.outer(left, right)))
    return np.minimum(*steps) + np.maximum(*steps) / 4


def _unrelated_names(a: _Side, b: _Side) -> set[str]:
    """Return the numbered names, if too few are of layers alike for both to be of one export."""
    looks = [
        {token: look[1] for own, look in zip(side.tokens, side.looks, strict=True) for token in own}
        for side in (a, b)
    ]
    left, right = ({token for token in side if _NUMBERED.match(token)} for side in looks)
    same = sum(looks[0][token] == looks[1][token] for token in left & right)
    return left | right if same < 0.7 * min(len(left), len(right)) else set()


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


class WholeTimes(Value, frozen=True, kw_only=True):
    """The median time of one inference of both engines, else the sums of their layers."""

    what: str
    a_s: float
    b_s: float


def _settled(seconds: float) -> float:
    """Return 0 for what only rounding left over."""
    return seconds if abs(seconds) >= RESOLUTION_S else 0.0


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
    names: tuple[str, str] = ("A", "B")
    notes: tuple[str, ...] = ()

    @property
    def delta_s(self) -> float | None:
        return None if self.a_s is None or self.b_s is None else self.b_s - self.a_s

    @property
    def outside_s(self) -> tuple[float, float]:
        """The time of each engine outside its layers: gaps less overlaps; 0 where unknown."""
        if self.whole is None or self.whole.what == SUM or self.a_s is None or self.b_s is None:
            return 0.0, 0.0
        return _settled(self.whole.a_s - self.a_s), _settled(self.whole.b_s - self.b_s)

    def sentence(self, a: str, b: str) -> str:
        """Say which engine is faster, under the names of both."""
        if self.whole is None:
            return f"B {b} against A {a}: one has no profile, so it is unknown which is faster"
        return faster_sentence(f"A {a}", f"B {b}", self.whole.what, self.whole.a_s, self.whole.b_s)

    def only_in(self, side: str) -> tuple[Change, ...]:
        """Return the changes that only one engine has: ``a`` or ``b``."""
        return tuple(each for each in self.changes if each.by == "none" and getattr(each, side))


LineupRow = tuple[str, tuple[float | None, ...]]


class Lineup(Value, frozen=True, kw_only=True):
    """The layers of several engines side by side, or groups of them, the slowest first."""

    names: tuple[str, ...]  # of the engines: A, B, ...
    sums_s: tuple[float | None, ...]
    what: str | None  # the time that all of them have, to which layers are scaled
    rows: tuple[LineupRow, ...]  # the name of layers or of a group, and its time in each engine
    notes: tuple[str, ...] = ()


def line_up(
    every: Sequence[LayerTable], facts: Sequence[EngineFacts], by: str | None = None
) -> Lineup:
    """Align several engines, or group the layers of each by a key."""
    scaled, notes, what, _ = comparable(every, facts)
    names = tuple(chr(65 + x) if x < 26 else f"E{x + 1}" for x in range(len(scaled)))
    for name, table in zip(names, scaled, strict=True):
        notes += [f"{name}: {note}" for note in table.notes]
    if by is None:
        rows = _aligned_rows(scaled)
    else:
        sides = [{each.name: each.seconds for each in tables.groups_of(x, by)} for x in scaled]
        groups = dict.fromkeys(name for side in sides for name in side)
        rows = [(name, tuple(side.get(name) for side in sides)) for name in groups]
    if what is not None:  # without layers that take no time in any engine
        rows = [row for row in rows if any(row[1])]
    rows.sort(key=lambda row: -max(each or 0.0 for each in row[1]))
    sums_s = tuple(table.total_s for table in scaled)
    return Lineup(names=names, sums_s=sums_s, what=what, rows=tuple(rows), notes=tuple(notes))


def _aligned_rows(every: Sequence[LayerTable]) -> list[LineupRow]:
    """Align several engines with the first one; what it lacks is aligned by name."""
    rows = {at: [[at], *([] for _ in every[1:])] for at in range(len(every[0].layers))}
    alone: dict[str, list[list[int]]] = {}
    for place, other in enumerate(every[1:], 1):
        for ours, theirs, _ in align(every[0], other):
            name = other.layers[theirs[0]].name if theirs else ""
            row = rows[ours[0]] if ours else alone.setdefault(name, [[] for _ in every])
            for at in ours[1:]:  # this engine does in one what others do in several
                if rows[at] is not row:
                    for side, members in enumerate(rows[at]):
                        row[side] += members
                    rows |= dict.fromkeys(rows[at][0], row)
            row[place] += theirs
    found = []
    for row in {id(each): each for each in (*rows.values(), *alone.values())}.values():
        sides = [[x.layers[at] for at in own] for x, own in zip(every, row, strict=True)]
        seconds = tuple(total_s(own) if own else None for own in sides)
        first = next(own for own in sides if own)
        more = f" (+{len(first) - 1})" if len(first) > 1 else ""
        found.append((f"{first[0].name}{more}", seconds))
    return found


def comparable(
    every: Sequence[LayerTable], facts: Sequence[EngineFacts]
) -> tuple[list[LayerTable], list[str], str | None, list[float]]:
    """Return engines whose layers can be compared, notes, and the time that all of them have.

    Layers are scaled to that time, and read by averages if one engine has no medians.
    """
    notes = []
    if len({x.statistic for x in every if x.timed}) > 1:
        every = [x.having(layers=tuple(y.having(median_s=None) for y in x.layers)) for x in every]
        notes.append("compared by averages, as one profile has no medians: stalls are in them")
    fields = {"GPU time": "gpu_s", "latency": "latency_s", "host time": "host_s"}
    known = {name: [getattr(x, field) for x in facts] for name, field in fields.items()}
    known[SUM] = [x.total_s for x in every]
    what = next((name for name, times in known.items() if None not in times), None)
    whole = [each or 0.0 for each in known[what]] if what else []
    scaled = list(every)
    if what is not None and what != SUM:
        scaled = [
            without_overhead(x, total, what) if own.kernel_busy_s is None else x
            for x, total, own in zip(every, whole, facts, strict=True)
        ]
    return scaled, notes, what, whole


def difference(
    a: LayerTable, b: LayerTable, of_a: EngineFacts = NO_FACTS, of_b: EngineFacts = NO_FACTS
) -> EngineDiff:
    """Align two engines and return what differs, by medians where both have them."""
    changes = []
    (a, b), notes, what, times = comparable((a, b), (of_a, of_b))
    whole = WholeTimes(what=what, a_s=times[0], b_s=times[1]) if what else None
    for one, other, by in align(a, b):
        left = [a.layers[index] for index in one]
        right = [b.layers[index] for index in other]
        both = [*left, *right]
        slowest = max(both, key=lambda each: each.seconds)
        changed = []
        names = ["\n".join(layer.name for layer in side) or None for side in (left, right)]
        if all(names) and names[0] != names[1] and _content(left) != _content(right):
            changed.append("fusion")
        for what in ("precision", "tactic", "shape_out"):
            was, now = ({getattr(layer, what) for layer in side} - {None} for side in (left, right))
            if was and now and was != now:
                changed.append(what.removesuffix("_out"))
        change = Change(
            a=tuple(one), b=tuple(other), by=by,
            role="compute" if any(layer.role == "compute" for layer in both) else slowest.role,
            name_a=names[0], name_b=names[1], precision_a=_precision(left),
            precision_b=_precision(right), a_s=total_s(left), b_s=total_s(right),
            changed=tuple(changed),
        )  # fmt: skip
        changes.append(change)
    changes.sort(key=lambda each: (-abs(each.delta_s), -max(each.a_s, each.b_s)))
    work = [each for each in changes if each.role == "compute"]
    related = sum(each.by != "none" for each in work) >= 0.1 * len(work)
    lacks = {name: table.lacks for name, table in (("A", a), ("B", b)) if table.lacks}
    if not related:
        asked = "kinds and shapes would align more" if lacks else "are these different networks?"
        notes.append(f"hardly any layer has a counterpart: {asked}")
    for name, table in (("A", a), ("B", b)):
        if not table.timed:
            notes.append(f"{name} has no profile: layers are aligned, but their times are unknown")
        notes += [f"{name}: {note}" for note in table.notes if note != table.lacks]
    return EngineDiff(
        changes=tuple(changes), a_s=a.total_s, b_s=b.total_s, whole=whole, related=related,
        lacks=lacks, notes=tuple(notes),
    )  # fmt: skip


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


class Gap(Value, frozen=True):
    """One reason why the sum of layers differs from the GPU time; positive if the sum is larger."""

    name: str
    seconds: float
    because: str


class Reconciliation(Value, frozen=True, kw_only=True):
    """How the medians of layers add up to the GPU time of an inference without a profiler."""

    layers_s: float
    gpu_s: float | None = None
    host_s: float | None = None
    parts: tuple[Gap, ...]


def reconcile(table: LayerTable, facts: EngineFacts) -> Reconciliation | None:
    """Explain the difference between layer sum and GPU time; ``None`` without a profile."""
    layers_s, gpu_s, busy_s = table.total_s, facts.gpu_s, facts.kernel_busy_s
    if layers_s is None:
        return None
    parts: tuple[Gap, ...] = ()
    whole_s = facts.host_s if gpu_s is None else gpu_s
    if whole_s is not None and busy_s is not None:
        overlaps_s = max(0.0, layers_s - busy_s)
        gaps = Gap("gaps", layers_s - overlaps_s - whole_s, "time at which no kernel ran")
        parts = Gap("overlaps", overlaps_s, "times at which several kernels ran"), gaps
    elif gpu_s is not None and layers_s > gpu_s:
        parts = (Gap("profiler overhead", layers_s - gpu_s, "the profiler runs layers one by one"),)
    elif gpu_s is not None:
        parts = (Gap("gaps", layers_s - gpu_s, "GPU time that belongs to no layer"),)
    return Reconciliation(layers_s=layers_s, gpu_s=gpu_s, host_s=facts.host_s, parts=parts)


Row = dict[str, Scalar]
_RENAMED = {
    "asked": "precision_asked",
    "time_s": "average_s",
    "roofline": "roofline_share",
    "nodes": "onnx_nodes",
}
_FIELDS = {_RENAMED.get(x, x): x for x in Layer.__struct_fields__ if x not in ("reads", "writes")}
LAYER_COLUMNS = tuple(_FIELDS)
"""Columns of the exported table of layers: fields of a layer, some under a longer name."""


def rows_from_layers(layers: Iterable[Layer], keys: Sequence[str] = ()) -> list[Row]:
    """Return one row per layer; several operators or ONNX nodes are joined by spaces."""
    rows = []
    for key in keys:
        refuse_unknown(key, LAYER_COLUMNS, f"layers have no column {key!r}", flag="--columns")
    for layer in layers:
        values = {name: getattr(layer, _FIELDS[name]) for name in keys or LAYER_COLUMNS}
        joined = {k: " ".join(v) or None for k, v in values.items() if isinstance(v, tuple)}
        rows.append(values | joined)
    return rows


def rows_from_groups(groups: Iterable[Group], *, by: str) -> list[Row]:
    """Return one row per group; the first column is named after the grouping key."""
    key = by.partition(":")[0]
    fields = {key if key.isalpha() else "pattern": "name", "layers": "layers",
              "time_s": "seconds", "share": "share", "flops": "flops",
              "traffic_bytes": "traffic_bytes", "precisions": "precisions"}  # fmt: skip
    return [{column: getattr(x, name) for column, name in fields.items()} for x in groups]


def rows_from_lineup(lined: Lineup) -> list[Row]:
    """Return one row per layer or group, with the time in each engine."""
    keys = [f"{name.lower()}_s" for name in lined.names]
    return [{"name": x, **dict(zip(keys, each, strict=True))} for x, each in lined.rows]


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
    "enqueue", "unknown",
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
    passed = (*tables.CONVERSIONS, "nothing")
    kept = {layer.index: layer for layer in table.layers if layer.role not in passed}
    before = tables.sources_of(table, set(kept))
    quantized = {index for index, layer in kept.items() if layer.precision in tables.QUANTIZED}
    feeding = {begin for end in quantized for begin in before[end]}
    found = {
        index: index
        for index, layer in kept.items()
        if layer.role == "compute" and layer.precision and index not in quantized
        if index in feeding and quantized & set(before[index])
    }
    edges = [(begin, end) for begin, end, _ in tables.edges_of(table)]
    for near, far in (*edges, *((end, begin) for begin, end in reversed(edges))):
        if near in found and far not in kept:
            found[far] = found[near]
    return found


def _layer_causes(
    excess: Sequence[tuple[Change, float]], b: LayerTable, asked: str | None, *, by_name: bool
) -> Iterator[Cause]:
    """Group changes into causes; layers that got faster make a cause smaller or negative.

    ``excess`` is how much longer each change takes than expected; ``by_name``: kinds are unknown.
    """
    interrupted = interruptions(b)

    def code_of(change: Change, layers: Sequence[Layer]) -> CauseCode:
        if change.role in tables.CONVERSIONS:
            return "reformat"
        if not change.a:
            return "added"
        if any(is_weighted(layer) and tables.is_wider(layer.precision, asked) for layer in layers):
            return "precision"
        if "fusion" in change.changed and (by_name or len(change.b) > len(change.a)):
            return "unknown" if by_name else "fusion"
        slowest = max(layers, key=lambda each: each.seconds, default=None)
        if slowest and slowest.bound == "memory" and (slowest.roofline or 0.0) >= 0.6:
            return "memory"  # at its ceiling: copies reach 0.8 of the peak
        return "kernel" if change.b_s > change.a_s else "rest"

    def shown(change: Change, code: CauseCode) -> str:
        """Describe a change with the times of both engines."""
        layers = [b.layers[index] for index in change.b]
        more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        was = f"{text_from_seconds(change.a_s)} before" if change.a else "not in the baseline"
        first, took = shortened(layers[0].name, length=72), text_from_seconds(change.b_s)
        text = f"{first}{more}: {took}, {was}"
        text += f", {change.precision_b}" if change.precision_b else ""
        if code == "memory":
            slowest = max(layers, key=lambda each: each.seconds)
            text += f", {text_from_fraction(slowest.roofline, digits=0)} of the roofline"
        return text

    members: dict[tuple[CauseCode, int], list[tuple[Change, float]]] = {}
    for change, seconds in excess:
        layers = [b.layers[index] for index in change.b]
        at = next((interrupted[index] for index in change.b if index in interrupted), -1)
        replaceable = change.role in tables.CONVERSIONS or not change.a
        replaceable = replaceable or not any(map(is_weighted, layers))
        key: tuple[CauseCode, int] = (code_of(change, layers), -1)
        if asked in tables.QUANTIZED and at >= 0 and replaceable:
            key = ("interruption", at)
        members.setdefault(key, []).append((change, seconds))
    for (code, at), own in members.items():
        total = _settled(math.fsum(seconds for _, seconds in own))
        own = sorted((each for each in own if each[0].b), key=lambda each: -each[1])
        names = [b.layers[index].name for change, _ in own for index in change.b]
        layer = b.layers[at] if at >= 0 else None
        target = asked if asked in ("int8", "fp8", "fp16", "bf16") else "int8"
        data = " --data DATA.npz" if target in tables.QUANTIZED else ""
        built = f" --precision {target}{data}" if target == asked else ""
        words = {"count": str(len(names)), "asked": target, "built": built, "data": data}
        words["narrow"] = (asked or "the narrower type").upper()
        if layer is not None:
            names = list(dict.fromkeys([layer.name, *names]))
            called = shortened(layer.name, length=72)
            if layer.nodes and not any(node in layer.name for node in layer.nodes):
                # A generated name is not in the model, so its nodes are named too.
                more = f" and {len(layer.nodes) - 1} more" if len(layer.nodes) > 1 else ""
                called = f"{layer.nodes[0]}{more} ({called})"
            got = (layer.precision or "another type").upper()
            words |= {"called": called, "got": got, "op": [*main_operators(layer), "KIND"][0]}
        title, remedy, command = (text.format(**words) for text in _words_of(code))
        nodes = layer.nodes if layer else ()
        evidence = tuple(shown(change, code) for change, s in own[:3] if s > 0)
        cause = Cause(code=code, title=title, seconds=total, evidence=evidence, nodes=nodes)
        yield cause.having(layers=tuple(names), try_=remedy, command=command)


def _words_of(code: CauseCode) -> tuple[str, ...]:
    """Return the title of a cause, what to try, and a command."""
    return next(row[1:] for row in data_rows("causes.txt") if row[0] == code)


class Why(ShortView, Value, frozen=True, kw_only=True):
    """Why a candidate is not faster than a baseline, or not faster still."""

    baseline_s: float
    candidate_s: float
    expected_s: float  # time if all layers had gained as much as those in the narrower type
    gain: float  # speed-up of the layers in the narrower type; 1 if there are none
    computes: tuple[str | None, str | None]  # types of A and of B, the most time first
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
    computed = {layer.precision for layer in b.layers if layer.precision}
    asked = tables.narrowest(candidate.asked) or tables.narrowest(" ".join(computed))
    gain = _gain(diff, a, b, asked)
    weighted = {layer.index for layer in a.layers if is_weighted(layer)}
    gains = (1.0 if weighted.isdisjoint(each.a) else gain for each in diff.changes)
    excess = [(x, x.b_s - x.a_s / own) for x, own in zip(diff.changes, gains, strict=True)]
    every = [*_layer_causes(excess, b, asked, by_name=bool(diff.lacks))] if diff.related else []
    if not candidate.built:  # there is no builder to set otherwise
        _, remedy, command = _words_of("rest")
        advice = {"try_": remedy, "command": command}
        every = [x.having(**advice) if x.code in ("fusion", "kernel") else x for x in every]
    missing = _settled(math.fsum(seconds for _, seconds in excess))
    outside = _settled(diff.outside_s[1] - diff.outside_s[0])
    shortfall = _settled(missing + outside)
    if candidate.enqueue_s and candidate.gpu_s and candidate.waits_for_launches:
        times = map(text_from_seconds, (candidate.enqueue_s, candidate.gpu_s))
        title, remedy, command = _words_of("enqueue")
        if candidate.graph_failed:
            remedy = "its work cannot be captured in a CUDA graph: run larger batches"
            command = f"trtbench bench MODEL.engine --batch {2 * (candidate.batch or 1)}"
        seen = ("enqueueing takes {}, the GPU {}".format(*times),)
        cause = Cause(code="enqueue", title=title, seconds=max(0.0, outside) or None, evidence=seen)
        every.append(cause.having(try_=remedy, command=command))
    causes = [each for each in every if each.seconds is None or each.seconds > 0]
    remaining = to_explain = max(0.0, shortfall)
    explained = []
    for cause in sorted(causes, key=lambda each: -(each.seconds or 0.0)):
        explains = min(remaining, cause.seconds or 0.0)
        remaining -= explains
        share = explains / to_explain if to_explain and cause.seconds is not None else None
        explained.append(cause.having(explains_s=explains, share=share))
    return Why(
        baseline_s=a_s, candidate_s=b_s, expected_s=b_s - missing, gain=gain,
        computes=(tables.main_types(a), tables.main_types(b)), shortfall_s=shortfall,
        causes=tuple(explained), gains_s=math.fsum(min(0.0, each.seconds or 0.0) for each in every),
        unexplained_s=to_explain - math.fsum(each.explains_s for each in explained), diff=diff,
    )  # fmt: skip


def _gain(diff: EngineDiff, a: LayerTable, b: LayerTable, asked: str | None) -> float:
    """Return the speed-up of the layers that became faster in the narrower type."""

    def main_type(indices: Sequence[int], table: LayerTable) -> str | None:
        layers = [table.layers[index] for index in indices if table.layers[index].precision]
        return max(layers, key=lambda layer: layer.seconds).precision if layers else None

    gained = []
    for each in diff.changes:
        if each.b and each.b_s < each.a_s and any(is_weighted(a.layers[x]) for x in each.a):
            was, now = main_type(each.a, a), main_type(each.b, b)
            if tables.is_wider(was, now) and not tables.is_wider(now, asked):
                gained.append(each)
    after = math.fsum(each.b_s for each in gained)
    ratio = math.fsum(each.a_s for each in gained) / after if after else 1.0
    return ratio if ratio >= MIN_GAIN else 1.0
