"""Two engines against each other: what got slower or faster, what was fused in another way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from trtbench.analysis.layers.align import By, Pair, align
from trtbench.analysis.layers.layer import CONVERSIONS, Layer, LayerTable, Role, total_s
from trtbench.analysis.layers.naming import is_numbered
from trtbench.analysis.layers.signature import operators_of
from trtbench.domain.spec import Value

STRANGERS = 0.1
"""Share of the work with a counterpart below which two engines have nothing in common."""


class Change(Value, frozen=True, kw_only=True):
    """One piece of work in two engines; a side without layers has none of it."""

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
    changed: tuple[str, ...] = ()
    """What differs beside the time: ``fusion``, ``precision``, ``tactic``, ``shape``."""

    @property
    def delta_s(self) -> float:
        """Positive where the second engine is slower."""
        return self.b_s - self.a_s

    @property
    def name(self) -> str:
        return self.name_a or self.name_b or ""


class EngineDiff(Value, frozen=True, kw_only=True):
    """Two engines aligned; the changes add up to the difference of the sums."""

    changes: tuple[Change, ...]
    """The largest first; pieces that took no time on either side last."""
    a_s: float | None
    b_s: float | None
    explained: float | None
    """Share of all that moved, up or down, that lies in layers found on both sides or in
    conversions; the rest is work that only one engine seems to have."""
    notes: tuple[str, ...] = ()

    @property
    def delta_s(self) -> float | None:
        return None if self.a_s is None or self.b_s is None else self.b_s - self.a_s

    def only(self, side: str) -> tuple[Change, ...]:
        """List what only one side has: ``a`` or ``b``."""
        return tuple(each for each in self.changes if each.by == "none" and getattr(each, side))

    def fusions(self) -> tuple[Change, ...]:
        """List the pieces that were fused in another way."""
        return tuple(each for each in self.changes if "fusion" in each.changed)


def difference(a: LayerTable, b: LayerTable) -> EngineDiff:
    """Align two engines and say what differs."""
    changes = [_change(pair, a, b) for pair in align(a, b)]
    changes.sort(key=lambda each: (-abs(each.delta_s), -max(each.a_s, each.b_s)))
    timed = a.timed and b.timed
    moved = math.fsum(abs(each.delta_s) for each in changes)
    both = math.fsum(abs(each.delta_s) for each in changes if _accounted(each))
    return EngineDiff(
        changes=tuple(changes),
        a_s=a.total_s,
        b_s=b.total_s,
        explained=(both / moved if moved else 1.0) if timed else None,
        notes=tuple(_notes(a, b, changes)),
    )


def _accounted(change: Change) -> bool:
    return change.by != "none" or change.role in CONVERSIONS


def _notes(a: LayerTable, b: LayerTable, changes: Sequence[Change]) -> Iterable[str]:
    work = [each for each in changes if each.role == "compute"]
    if work and sum(each.by != "none" for each in work) < STRANGERS * len(work):
        yield "hardly any layer has a counterpart: are these engines of one network?"
    for name, table in (("A", a), ("B", b)):
        if not table.timed:
            yield f"{name} has no profile: layers are aligned, and no time is known"
        yield from (f"{name}: {note}" for note in table.notes)


def _change(pair: Pair, a: LayerTable, b: LayerTable) -> Change:
    left = [a.layers[index] for index in pair.a]
    right = [b.layers[index] for index in pair.b]
    return Change(
        a=pair.a,
        b=pair.b,
        by=pair.by,
        role=_role([*left, *right]),
        name_a=_joined(layer.name for layer in left),
        name_b=_joined(layer.name for layer in right),
        precision_a=_precision(left),
        precision_b=_precision(right),
        a_s=total_s(left),
        b_s=total_s(right),
        changed=tuple(_changed(left, right)) if left and right else (),
    )


def _role(layers: Sequence[Layer]) -> Role:
    """Find the role of the work: compute, where any layer of it computes."""
    roles = [layer.role for layer in layers]
    return "compute" if "compute" in roles else max(layers, key=lambda each: each.seconds).role


def _joined(names: Iterable[str]) -> str | None:
    return "\n".join(names) or None


def _precision(layers: Sequence[Layer]) -> str | None:
    """Name the types that compute, the one with most time first; of a conversion, from and to."""
    ordered = sorted(layers, key=lambda layer: -layer.seconds)
    words = [
        layer.precision
        or (f"{layer.precision_in} to {layer.precision_out}" if layer.precision_in else None)
        for layer in ordered
    ]
    return ", ".join(dict.fromkeys(word for word in words if word)) or None


def _changed(a: Sequence[Layer], b: Sequence[Layer]) -> Iterable[str]:
    if len(a) != len(b) or _content(a) != _content(b):
        yield "fusion"
    for what in ("precision", "tactic", "shape_out"):
        left, right = ({getattr(layer, what) for layer in side} - {None} for side in (a, b))
        if left and right and left != right:
            yield what.removesuffix("_out")


def _content(layers: Sequence[Layer]) -> list[tuple[str, ...]]:
    """Tell what each layer is made of: its nodes, or the operators where nodes only count."""
    found = []
    for layer in layers:
        nodes = tuple(sorted(node for node in layer.nodes if "QuantizeLinear" not in node))
        counts = any(map(is_numbered, nodes))
        found.append(tuple(sorted(operators_of(layer))) if counts else nodes)
    return sorted(found)
