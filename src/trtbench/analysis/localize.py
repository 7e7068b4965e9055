"""Find which of many parts matter with few trials: in blocks, one by one, the smallest set."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from trtbench.core.results import NodeGroup

Restored = frozenset[int]
Loss = tuple[float, ...]  # compared element by element; less is better

MIN_BLOCK = 4  # parts in a block; with fewer, all parts are soon tried alone
MAX_IN_PAIRS = 8  # parts of the highest rank that are also tried alone and in pairs
LIMITS = {"FP16": 65504.0, "BF16": 3.3895313892515355e38}  # the largest magnitudes
SMALLEST = 2.0**-14  # FP16's smallest normal number: smaller values lose digits or become zero


def order_by_blocks(
    suspects: Sequence[int], try_it: Callable[[Restored], Loss | None]
) -> list[int]:
    """Return the parts, those first whose neighbours gain most if restored together with them.

    Blocks of as many parts as there are blocks are tried, unless time is up.
    """
    size = math.isqrt(len(suspects))
    losses: list[Loss] = []
    for start in range(0, len(suspects), size) if size >= MIN_BLOCK else ():
        loss = try_it(frozenset(range(start, min(start + size, len(suspects)))))
        if loss is None:
            break
        losses.append(loss)
    worst = max(losses, default=())
    padded = [*losses, *[worst] * len(suspects)]
    return sorted(suspects, key=lambda part: padded[part // max(1, size)])


def smallest_sufficient(
    order: Sequence[int], meets: Callable[[Restored], bool | None]
) -> tuple[Restored | None, bool]:
    """Find a small set of parts that meets a condition, and whether every part of it is needed.

    Tries the first parts of the ranking, removes those that are not needed, then tries single
    parts and pairs of the highest ranks. ``meets`` returns ``None`` when time is up.
    """
    # Double the number of first parts until they meet the condition, then bisect it.
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
        for fewer in map(frozenset, combinations(order[:MAX_IN_PAIRS], size)):
            answer = meets(fewer)
            if answer is None:
                return chosen, True
            if answer:
                return fewer, True
    return chosen, True


def precision_problem(group: NodeGroup) -> str | None:
    """Describe how a group's values exceed its low type; ``None`` if they do not."""
    limit, largest = LIMITS.get(group.type), group.largest
    if limit is not None and largest > limit:
        return f"overflows {group.type}: {largest:.6g} > {limit:.6g}"
    if group.type == "FP16" and 0 < largest < SMALLEST:
        return f"is too small for FP16: largest {largest:.2g}"
    return f"loses finite values in {group.type}" if group.first_nonfinite else None
