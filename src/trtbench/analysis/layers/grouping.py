"""Layers put together by what they have in common, each second counted once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.naming import block_of, target_of_reformat
from trtbench.domain.spec import Value
from trtbench.errors import UsageError, near_miss

KEYS = ("kind", "precision", "role", "node", "block", "region", "stream", "bound")
"""What layers can be grouped by; ``block`` takes a depth (``block:2``)."""

UNKNOWN = "unknown"
REST = "the rest"

_PATTERN = re.compile(r"[*?\[]")


class Group(Value, frozen=True, kw_only=True):
    """Layers with something in common."""

    name: str
    layers: float
    """How many; a layer that came from several nodes counts in parts under each of them."""
    seconds: float | None
    share: float | None = None
    flops: int | None = None
    traffic_bytes: int | None = None
    precisions: str | None = None
    """Types its layers compute in, the most frequent first."""


GroupShare = tuple[str, float]
"""A group, and which part of a layer belongs to it."""


def groups_of(table: LayerTable, by: str, *, top: int | None = None) -> tuple[Group, ...]:
    """Group the layers of a table, the most time (or the most layers) first."""
    parts_of = _parts_of(by)
    members: dict[str, list[tuple[Layer, float]]] = {}
    for layer in table.layers:
        for name, part in parts_of(layer):
            members.setdefault(name, []).append((layer, part))
    total = table.total_s
    groups = [_group(name, found, total) for name, found in members.items()]
    groups.sort(key=lambda group: (-(group.seconds or 0.0), -group.layers, group.name))
    return tuple(groups if top is None else groups[:top])


def matching(layers: Iterable[Layer], pattern: str) -> tuple[Layer, ...]:
    """Choose the layers whose name, or a node of which, fits a pattern."""
    return tuple(layer for layer in layers if fits(layer, pattern))


def fits(layer: Layer, pattern: str) -> bool:
    """Tell whether a layer's name or one of its nodes fits; without ``*`` a part is enough."""
    whole = pattern if _PATTERN.search(pattern) else f"*{pattern}*"
    return any(fnmatchcase(name, whole) for name in (layer.name, *layer.nodes))


def _parts_of(by: str) -> Callable[[Layer], list[GroupShare]]:
    key, _, depth = by.partition(":")
    if key == "block":
        if depth and not depth.isdecimal():
            raise UsageError(f"{by!r} has no depth", fix="write it like block:2")
        return lambda layer: [(_block(layer, int(depth or 1)), 1.0)]
    if key == "node":
        return _by_node
    if by in KEYS:
        return lambda layer: [(_word(layer, by), 1.0)]
    if _PATTERN.search(by) or "/" in by:
        patterns = [each.strip() for each in by.split(",") if each.strip()]
        return lambda layer: [(_first_fit(layer, patterns), 1.0)]
    guess = near_miss(by, KEYS)
    raise UsageError(
        f"layers cannot be grouped by {by!r}",
        facts={"known": " ".join(KEYS)},
        fix=f"--by {guess}" if guess else "--by kind, or a pattern such as --by '/layer3/*'",
    )


def _word(layer: Layer, key: str) -> str:
    if key == "precision":
        return layer.precision or (f"({layer.role})" if layer.role != "compute" else UNKNOWN)
    value = getattr(layer, key)
    return UNKNOWN if value is None else str(value)


def _block(layer: Layer, depth: int) -> str:
    """Name the block most nodes of a layer are in; a reformat is with the layer it is for."""
    names: Sequence[str] = layer.nodes or (target_of_reformat(layer.name) or layer.name,)
    blocks = Counter(block_of(name.split(" + ")[0], depth=depth) for name in names)
    return blocks.most_common(1)[0][0]


def _by_node(layer: Layer) -> list[GroupShare]:
    if not layer.nodes:
        return [(f"({layer.role})" if layer.role != "compute" else layer.name, 1.0)]
    return [(node, 1 / len(layer.nodes)) for node in layer.nodes]


def _first_fit(layer: Layer, patterns: Sequence[str]) -> str:
    return next((pattern for pattern in patterns if fits(layer, pattern)), REST)


def _group(name: str, found: list[tuple[Layer, float]], total: float | None) -> Group:
    seconds = math.fsum(layer.seconds * part for layer, part in found)
    counted = Counter(layer.precision for layer, _ in found if layer.precision)
    return Group(
        name=name,
        layers=round(math.fsum(part for _, part in found), 6),
        seconds=None if total is None else seconds,
        share=seconds / total if total else None,
        flops=_sum((layer.flops, part) for layer, part in found),
        traffic_bytes=_sum((layer.traffic_bytes, part) for layer, part in found),
        precisions=", ".join(each for each, _ in counted.most_common()) or None,
    )


def _sum(pairs: Iterable[tuple[int | None, float]]) -> int | None:
    known = [value * part for value, part in pairs if value is not None]
    return round(sum(known)) if known else None
