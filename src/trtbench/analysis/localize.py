"""Which of many parts matter, found with few trials: one by one, by bisection, and the fewest."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import combinations

from trtbench.core.results import NodeGroup

Restored = frozenset[int]
Loss = tuple[float, ...]  # what is compared first stands first; less is better

MOST_IN_PAIRS = 8  # parts of the highest rank that are tried two by two at the end
LIMITS = {"FP16": 65504.0, "BF16": 3.3895313892515355e38}  # the largest magnitudes
SMALLEST = 2.0**-14  # of FP16's normal numbers: smaller values lose digits, if they are not zero


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


def cause(group: NodeGroup) -> str | None:
    """Say what the low type cannot hold of the values behind a group; ``None`` where it can."""
    limit, largest = LIMITS.get(group.type), group.largest
    if limit is not None and largest > limit:
        return f"overflows {group.type}: {largest:.6g} > {limit:.6g}"
    if group.type == "FP16" and 0 < largest < SMALLEST:
        return f"is too small for FP16: largest {largest:.2g}"
    return f"loses finite values in {group.type}" if group.first_nonfinite else None
