"""Which layers of two engines do the same work: by ONNX origin, then by name, then by place.

Builders fuse and name as they please, so one layer may stand against several. ONNX nodes are the
surest; a ForeignNode is aligned by the nodes it swallowed. Names that only count (``Conv_12``) are
trusted when most of them agree, for in another export they mean other nodes. What is left is
aligned by its place among what is aligned already, where kind and shape agree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from trtbench.analysis.layers.edges import Unions
from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.naming import (
    foreign_ends,
    is_numbered,
    nodes_between,
    target_of_reformat,
    tensor_of_reformat,
)
from trtbench.analysis.layers.signature import signature_of
from trtbench.domain.spec import Value

By = Literal["origin", "name", "place", "none"]

AGREE = 0.5
"""Share of numbered names that must be on both sides before any of them is trusted."""
MOST_LAYERS = 8
"""A node that more layers of one engine came from ties nothing together (shapes, constants)."""
LARGEST_PLACE = 6
"""Layers left between the same neighbours are taken for one another up to this many."""
MOST_CELLS = 60_000_000
"""Cells of the table before it is refused: 7 700 by 7 700 layers, 120 MB."""


class Pair(Value, frozen=True, kw_only=True):
    """Layers of two engines that do the same work; one side is empty where none was found."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    by: By


class _Alignment:
    """What is aligned so far; ``pair_of`` gives the pair of a layer, by side and index."""

    def __init__(self, a: LayerTable, b: LayerTable) -> None:
        self.tables = (a, b)
        self.pairs: list[Pair] = []
        self.pair_of: tuple[dict[int, int], dict[int, int]] = ({}, {})

    def add(self, a: Iterable[int], b: Iterable[int], by: By) -> None:
        pair = Pair(a=tuple(a), b=tuple(b), by=by)
        for side, members in enumerate((pair.a, pair.b)):
            self.pair_of[side].update(dict.fromkeys(members, len(self.pairs)))
        self.pairs.append(pair)

    def free(self, side: int, *, work: bool | None = None) -> list[Layer]:
        """List the layers of a side that are not aligned; ``work`` chooses those that compute."""
        taken = self.pair_of[side]
        return [
            layer
            for layer in self.tables[side].layers
            if layer.index not in taken and (work is None or work == (layer.role == "compute"))
        ]


def align(a: LayerTable, b: LayerTable) -> tuple[Pair, ...]:
    """Align two engines; every layer of both is in exactly one pair."""
    sides = _Alignment(a, b)
    _by_origin(sides)
    _by_name(sides, sides.free(0, work=True), sides.free(1, work=True))
    _by_place(sides)
    _between(sides)
    _reformats(sides)
    _by_name(sides, sides.free(0), sides.free(1))
    for side in (0, 1):
        for layer in sides.free(side):
            alone = [layer.index]
            sides.add(alone if side == 0 else (), alone if side == 1 else (), "none")
    return tuple(sides.pairs)


def _by_origin(sides: _Alignment) -> None:
    """Join layers that share a node, through others too, and keep what has both sides."""
    a, b = (_origins(sides, side) for side in (0, 1))
    holders = [_holders(each) for each in (a, b)]
    counted = _untrusted(holders[0], holders[1])
    offset = len(sides.tables[0].layers)
    unions = Unions(offset + len(sides.tables[1].layers))
    linked: dict[int, None] = {}
    for node, left in holders[0].items():
        right = holders[1].get(node)
        if right is None or node in counted or max(len(left), len(right)) > MOST_LAYERS:
            continue
        members = [*left, *(offset + index for index in right)]
        for each in members:
            unions.join(each, members[0])
        linked.update(dict.fromkeys(members))
    for found in unions.sets(sorted(linked)):
        left = [each for each in found if each < offset]
        right = [each - offset for each in found if each >= offset]
        sides.add(left, right, "origin")


def _origins(sides: _Alignment, side: int) -> dict[int, tuple[str, ...]]:
    """List the nodes of every layer that computes; of a region known by its ends, all between."""
    order = [node for layer in sides.tables[1 - side].layers for node in layer.nodes]
    found = {}
    for layer in sides.tables[side].layers:
        if layer.role != "compute":
            continue
        ends = foreign_ends(layer.name)
        between = nodes_between(*ends, order) if ends and len(layer.nodes) <= 2 else ()
        found[layer.index] = tuple(
            node for node in between or layer.nodes if "QuantizeLinear" not in node
        )
    return found


def _holders(origins: dict[int, tuple[str, ...]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, nodes in origins.items():
        for node in nodes:
            found.setdefault(node, []).append(index)
    return found


def _untrusted(a: dict[str, list[int]], b: dict[str, list[int]]) -> set[str]:
    """Name the numbered nodes that mean nothing between two exports."""
    left, right = ({node for node in side if is_numbered(node)} for side in (a, b))
    smaller = min(len(left), len(right))
    return set() if smaller and len(left & right) >= AGREE * smaller else left | right


def _by_name(sides: _Alignment, a: Sequence[Layer], b: Sequence[Layer]) -> None:
    """Align layers of exactly one name, those that repeat in their order."""
    names_a, names_b = ({layer.name for layer in each} for each in (a, b))
    numbered = [
        {name for name in each if is_numbered(name.split(" + ")[0])} for each in (names_a, names_b)
    ]
    smaller = min(map(len, numbered))
    distrust = bool(smaller) and len(numbered[0] & numbered[1]) < AGREE * smaller
    waiting: dict[str, list[int]] = {}
    for layer in reversed(b):
        waiting.setdefault(layer.name, []).append(layer.index)
    for layer in a:
        same = waiting.get(layer.name)
        if same and not (distrust and layer.name in numbered[0]):
            sides.add([layer.index], [same.pop()], "name")


def _by_place(sides: _Alignment) -> None:
    """Align what is left by kind and shape, in an order that agrees with what is aligned."""
    if not sides.free(0, work=True) or not sides.free(1, work=True):
        return
    sequences = [_sequence(sides, side) for side in (0, 1)]
    tokens = [[token for _, token in each] for each in sequences]
    for left, right in common_sequence(*tokens):
        one, other = sequences[0][left][0], sequences[1][right][0]
        if one not in sides.pair_of[0] and other not in sides.pair_of[1]:
            sides.add([one], [other], "place")


def _sequence(sides: _Alignment, side: int) -> list[tuple[int, object]]:
    """List layers that compute with what they must agree in: their pair, or kind and shape."""
    found: list[tuple[int, object]] = []
    for layer in sides.tables[side].layers:
        if layer.role == "compute":
            pair = sides.pair_of[side].get(layer.index)
            found.append((layer.index, signature_of(layer) if pair is None else pair))
    return found


def _between(sides: _Alignment) -> None:
    """Take what is left between the same neighbours for one another: a fusion that changed."""
    stretches = [dict(_stretches(sides, side)) for side in (0, 1)]
    for ends, left in stretches[0].items():
        right = stretches[1].get(ends, [])
        if ends == (-1, -1) or not right:
            continue  # between nothing and nothing anything would do
        few = max(len(left), len(right)) <= LARGEST_PLACE
        if few or _is_region(left, sides.tables[0]) or _is_region(right, sides.tables[1]):
            sides.add(left, right, "place")


def _is_region(indices: Sequence[int], table: LayerTable) -> bool:
    """Tell a Myelin region that stands alone: whatever is in its place, it swallowed."""
    return len(indices) == 1 and foreign_ends(table.layers[indices[0]].name) is not None


def _stretches(sides: _Alignment, side: int) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """List the runs of layers left over, by the pairs before and behind them."""
    last, run = -1, list[int]()
    for layer in sides.tables[side].layers:
        if layer.role != "compute":
            continue
        pair = sides.pair_of[side].get(layer.index)
        if pair is None:
            run.append(layer.index)
            continue
        if run:
            yield (last, pair), run
        last, run = pair, []
    if run:
        yield (last, -1), run


def _reformats(sides: _Alignment) -> None:
    """Align reformats that serve the same tensor of layers that are aligned."""
    waiting: dict[tuple[int, str], list[int]] = {}
    for layer, key in _served(sides, 1):
        waiting.setdefault(key, []).append(layer.index)
    for layer, key in _served(sides, 0):
        same = waiting.get(key)
        if same:
            sides.add([layer.index], [same.pop(0)], "place")


def _served(sides: _Alignment, side: int) -> Iterator[tuple[Layer, tuple[int, str]]]:
    by_name = {layer.name: layer.index for layer in sides.tables[side].layers}
    for layer in sides.free(side, work=False):
        target, tensor = target_of_reformat(layer.name), tensor_of_reformat(layer.name)
        index = by_name.get(target or "")
        pair = sides.pair_of[side].get(index) if index is not None else None
        if pair is not None and tensor is not None:
            yield layer, (pair, tensor)


def common_sequence(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    """List the places of a longest common sequence, in order.

    Equal beginnings and ends are taken as they are; lists too long for a table meet only there.
    """
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = _middle(a[begin : len(a) - end], b[begin : len(b) - end])
    return [
        *((place, place) for place in range(begin)),
        *((begin + one, begin + other) for one, other in middle),
        *((len(a) - end + place, len(b) - end + place) for place in range(end)),
    ]


def _middle(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    if not a or not b or len(a) * len(b) > MOST_CELLS:
        return []
    codes: dict[Hashable, int] = {}
    left, right = (
        np.array([codes.setdefault(each, len(codes)) for each in side], np.int32) for side in (a, b)
    )
    lengths = np.zeros((len(a) + 1, len(b) + 1), np.uint16)
    for row, code in enumerate(left, 1):
        above = lengths[row - 1]
        best = np.maximum(above[1:], above[:-1] + (right == code))
        np.maximum.accumulate(best, out=lengths[row, 1:])
    return _walk_back(left, right, lengths)


def _walk_back(
    left: np.ndarray[tuple[int], np.dtype[np.int32]],
    right: np.ndarray[tuple[int], np.dtype[np.int32]],
    lengths: np.ndarray[tuple[int, int], np.dtype[np.uint16]],
) -> list[tuple[int, int]]:
    """Read the sequence from the table, from its end."""
    found = []
    row, column = len(left), len(right)
    while row and column:
        if left[row - 1] == right[column - 1]:
            row, column = row - 1, column - 1
            found.append((row, column))
        elif lengths[row - 1, column] >= lengths[row, column - 1]:
            row -= 1
        else:
            column -= 1
    return found[::-1]
