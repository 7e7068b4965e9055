"""Which layer feeds which: the graph of an engine, by the tensors that its layers share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trtbench.analysis.layers.layer import Layer, LayerTable

Edge = tuple[int, int, str]
"""Index of the layer that writes, of the one that reads, and the tensor between them."""


def edges_of(table: LayerTable) -> list[Edge]:
    """List who feeds whom, each pair once for every tensor.

    A tensor that is written again later (Myelin reuses names) is read from its last writer; one
    that is only written later is read by nobody here.
    """
    writers: dict[str, int] = {}
    found: dict[Edge, None] = {}
    for layer in table.layers:
        for name in layer.reads:
            if name in writers and writers[name] != layer.index:
                found[writers[name], layer.index, name] = None
        for name in layer.writes:
            writers[name] = layer.index
    return list(found)


def neighbours(edges: Iterable[Edge], count: int) -> tuple[list[list[int]], list[list[int]]]:
    """List for every layer those that feed it and those it feeds."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for begin, end, _ in edges:
        if end not in after[begin]:
            after[begin].append(end)
            before[end].append(begin)
    return before, after


def through(
    start: int, steps: list[list[int]], layers: tuple[Layer, ...], *, roles: tuple[str, ...]
) -> Iterator[int]:
    """Walk from a layer to the next ones, through layers of these roles."""
    waiting, seen = list(steps[start]), set()
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        if layers[index].role in roles:
            waiting += steps[index]
        else:
            yield index


class Unions:
    """Sets that grow together: who is joined to whom, through others too."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, index: int) -> int:
        """Find the one that stands for a set."""
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        """Make two sets one."""
        self._parent[self.root(one)] = self.root(other)

    def sets(self, members: Iterable[int]) -> list[list[int]]:
        """List the sets among some members, in their order."""
        found: dict[int, list[int]] = {}
        for each in members:
            found.setdefault(self.root(each), []).append(each)
        return list(found.values())
