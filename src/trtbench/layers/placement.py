"""Where the boxes of a drawing go: a layered layout of a graph that is mostly a chain.

Ranks by the longest way from an input, order within a rank by the mean place of the neighbours
(Sugiyama's method), long chains wrapped into columns so that a thousand layers stay an area and
not a line. Linear in layers and edges: libraries for this take seconds for 3 000 layers (grandalf)
or are not there for every Python (fast-sugiyama).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from trtbench.core.spec import Value
from trtbench.layers.table import LayerTable, edges_of

BOX_W, BOX_H = 200.0, 34.0
GAP_X, GAP_Y = 18.0, 22.0
COLUMN_GAP = 90.0
SWEEPS = 4
SHAPE = 1.7
"""Width over height that a drawing aims at."""
HIDDEN = ("constant", "nothing")
"""Roles that run no kernel: left out, their neighbours joined."""


class NodeBox(Value, frozen=True, kw_only=True):
    """The place of one layer: its upper left corner."""

    layer: int
    x: float
    y: float


class Placement(Value, frozen=True, kw_only=True):
    """The places of all layers that are drawn, and who feeds whom among them."""

    boxes: tuple[NodeBox, ...]
    edges: tuple[tuple[int, int], ...]
    width: float
    height: float


def drawn_edges(table: LayerTable) -> tuple[list[int], list[tuple[int, int]]]:
    """List the layers to draw and their edges, with those that run no kernel bridged."""
    sources: dict[int, list[int]] = {}
    for begin, end, _ in edges_of(table):
        sources.setdefault(end, []).append(begin)
    shown = [layer.index for layer in table.layers if layer.role not in HIDDEN]
    if not shown:
        shown = [layer.index for layer in table.layers]
    visible = set(shown)
    through: dict[int, list[int]] = {}
    edges: dict[tuple[int, int], None] = {}
    for layer in table.layers:  # in the order of execution, so sources are settled
        found: dict[int, None] = {}
        for source in sources.get(layer.index, ()):
            found.update(dict.fromkeys([source] if source in visible else through[source]))
        through[layer.index] = list(found)
        if layer.index in visible:
            edges.update(dict.fromkeys((source, layer.index) for source in found))
    if not edges:  # names alone: execution order is all there is
        edges = dict.fromkeys(pairwise(shown))
    return shown, list(edges)


def place(table: LayerTable) -> Placement:
    """Place every layer that runs."""
    shown, edges = drawn_edges(table)
    above: dict[int, list[int]] = {index: [] for index in shown}
    below: dict[int, list[int]] = {index: [] for index in shown}
    for begin, end in edges:
        below[begin].append(end)
        above[end].append(begin)
    ranks: dict[int, int] = {}
    rows: list[list[int]] = []
    for index in shown:  # the order of execution is topological
        ranks[index] = max((ranks[each] + 1 for each in above[index]), default=0)
        rows += [[] for _ in range(ranks[index] + 1 - len(rows))]
        rows[ranks[index]].append(index)
    # Sort each rank by the mean place of its neighbours above, then below, a few times.
    at = {index: float(place) for row in rows for place, index in enumerate(row)}
    for sweep in range(SWEEPS):
        steps = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            if len(row) < 2:
                continue
            wanted = {i: _mean([at[each] for each in steps[i] or [i]]) for i in row}
            row.sort(key=wanted.__getitem__)
            at.update((index, number - (len(row) - 1) / 2) for number, index in enumerate(row))
    return _placed(rows, edges)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _placed(rows: list[list[int]], edges: Sequence[tuple[int, int]]) -> Placement:
    """Wrap ranks into columns, each as wide as its widest rank, and centre ranks in them."""
    widest = max((len(row) for row in rows), default=1)
    step_x, step_y = BOX_W + GAP_X, BOX_H + GAP_Y
    typical = sum(len(row) for row in rows) / max(1, len(rows))
    column_w = step_x * max(1.0, min(widest, 2 * typical)) + COLUMN_GAP
    high = max(8, math.ceil(math.sqrt(len(rows) * column_w / (SHAPE * step_y))))
    boxes: list[NodeBox] = []
    left = 0.0
    for begin in range(0, len(rows), high):
        column = rows[begin : begin + high]
        width = max(len(row) for row in column) * step_x - GAP_X
        for place_, row in enumerate(column):
            start = left + (width - (len(row) * step_x - GAP_X)) / 2
            boxes += [
                NodeBox(layer=index, x=start + number * step_x, y=place_ * step_y)
                for number, index in enumerate(row)
            ]
        left += width + COLUMN_GAP
    return Placement(
        boxes=tuple(boxes),
        edges=tuple(edges),
        width=max(BOX_W, left - COLUMN_GAP),
        height=min(high, max(1, len(rows))) * step_y - GAP_Y,
    )


def placement_from_plain(text: str, table: LayerTable) -> Placement | None:
    """Read the places that Graphviz found (``dot -Tplain``); ``None`` when it is something else."""
    shown, edges = drawn_edges(table)
    inches, places, high = 72.0, {}, 0.0
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["graph"] and len(words) >= 4:
            high = float(words[3]) * inches
        elif words[:1] == ["node"] and len(words) >= 4 and words[1].lstrip("L").isdecimal():
            x, y = float(words[2]) * inches, float(words[3]) * inches
            places[int(words[1].lstrip("L"))] = (x - BOX_W / 2, high - y - BOX_H / 2)
    if set(places) != set(shown):
        return None
    return Placement(
        boxes=tuple(NodeBox(layer=index, x=x, y=y) for index, (x, y) in places.items()),
        edges=tuple(edges),
        width=max(x for x, _ in places.values()) + BOX_W,
        height=max(y for _, y in places.values()) + BOX_H,
    )


def dot_from_layers(table: LayerTable) -> str:
    """Write the graph for Graphviz: places only, the drawing is ours."""
    shown, edges = drawn_edges(table)
    size = f"width={BOX_W / 72:.3f} height={BOX_H / 72:.3f}"
    lines = ["digraph engine {", "rankdir=TB; nodesep=0.25; ranksep=0.3; splines=false;"]
    lines.append(f'node [shape=box fixedsize=true {size} label=""];')
    lines += [f"L{index};" for index in shown]
    lines += [f"L{begin} -> L{end};" for begin, end in edges]
    return "\n".join([*lines, "}", ""])
