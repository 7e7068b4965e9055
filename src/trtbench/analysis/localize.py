"""Which of many parts matter, found with few trials: one by one, by bisection, and the fewest."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from itertools import combinations

from trtbench.core.results import NodeGroup, TypeRange

Restored = frozenset[int]
Loss = tuple[float, ...]
"""What is compared first stands first; less is better."""

MOST_IN_PAIRS = 8
"""Parts of the highest rank that are tried two by two where more than two were needed."""
MANY_ZEROED, MANY_BEYOND = 0.25, 0.001
"""Shares from which a range explains a loss."""
SMALLEST = 2.0**-14
"""Of FP16's normal numbers: smaller values lose digits, if they are not zero."""


def in_order_of_suspicion(keys: Sequence[tuple[bool, float]]) -> list[int]:
    """Order parts: those that lose finite values first, in their order, then by added drift."""
    return sorted(range(len(keys)), key=lambda part: (not keys[part][0], -keys[part][1]))


def one_by_one(order: Sequence[int], try_it: Callable[[Restored], Loss | None]) -> dict[int, Loss]:
    """Restore each part alone, the most suspected first; ends when time is up."""
    found: dict[int, Loss] = {}
    for part in order:
        loss = try_it(frozenset({part}))
        if loss is None:
            break
        found[part] = loss
    return found


def bisect(count: int, try_it: Callable[[Restored], Loss | None]) -> dict[int, Loss]:
    """Restore halves of the network, then halves of the better half; ends when time is up.

    The better half is followed down to a single part, which takes twice the logarithm of their
    number; then the best of what was left aside.
    """
    found: dict[int, Loss] = {}
    waiting: list[tuple[Loss, int, int]] = []
    better: tuple[Loss, int, int] | None = ((), 0, count)
    while better is not None:
        loss, low, high = better
        if high - low > 1:
            halves = []
            for start, stop in ((low, (low + high) // 2), ((low + high) // 2, high)):
                tried = try_it(frozenset(range(start, stop)))
                if tried is None:
                    return found
                halves.append((tried, start, stop))
            better, other = sorted(halves)
            heapq.heappush(waiting, other)
            continue
        found[low] = loss
        better = heapq.heappop(waiting) if waiting else None
    return found


def fewest(
    order: Sequence[int], meets: Callable[[Restored], bool | None]
) -> tuple[Restored | None, bool]:
    """Find a small set of parts that meets a condition, and whether none of it can be left out.

    First the shortest beginning of the ranking, then without each part that is not needed, then
    any two of the highest ranks. ``meets`` returns ``None`` when time is up.
    """
    # Double the beginning of the ranking until it meets the condition, then halve the step.
    failed, length = 0, 1
    while not (answer := meets(frozenset(order[:length]))):
        if answer is None or length >= len(order):
            return None, False
        failed, length = length, min(2 * length, len(order))
    while length - failed > 1:
        middle = (failed + length) // 2
        answer = meets(frozenset(order[:middle]))
        if answer is None:
            break
        failed, length = (failed, middle) if answer else (middle, length)
    chosen = frozenset(order[:length])
    for part in reversed(order[:length]):
        answer = meets(chosen - {part}) if len(chosen) > 1 else False
        if answer is None:
            return chosen, False
        if answer:
            chosen -= {part}
    for size in range(1, min(len(chosen), 3)):
        for fewer in map(frozenset, combinations(order[:MOST_IN_PAIRS], size)):
            answer = meets(fewer)
            if answer is None:
                return chosen, True
            if answer:
                return fewer, True
    return chosen, True


def joined(pairs: Collection[tuple[int, int]], count: int) -> list[list[int]]:
    """Group parts that have to be restored together; each group in order."""
    group = list(range(count))
    for a, b in pairs:
        low, high = sorted((group[a], group[b]))
        group = [low if each == high else each for each in group]
    return [[part for part in range(count) if group[part] == each] for each in sorted(set(group))]


def has_outliers(values: TypeRange) -> bool:
    """Return whether a scale for a few large values leaves too little for the others."""
    return values.type not in ("FP16", "BF16") and values.zeroed >= MANY_ZEROED


def telling_range(group: NodeGroup) -> TypeRange | None:
    """Choose the range that explains the loss of a group; ``None`` where none does."""
    floats = [each for each in group.ranges if each.type in ("FP16", "BF16")]
    over = [each for each in floats if each.beyond]
    small = [each for each in floats if each.type == "FP16" and 0 < each.largest < SMALLEST]
    if over or small:
        return (over or small)[0]
    quantized = (each for each in group.ranges if each.type not in ("FP16", "BF16"))
    odd = [e for e in quantized if e.zeroed >= MANY_ZEROED or e.beyond >= MANY_BEYOND]
    return max(odd, key=lambda each: max(each.zeroed, 10 * each.beyond), default=None)
