"""Times of single layers from a profiler's rows, and how long a profiling pass goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from trtbench.domain.samples import LayerProfile, LayerTime

WARMUP = 10
LEAST, MOST = 20, 500
ENOUGH_S = 2.0
"""Iterations thrown away, then kept: as many as fit into two seconds, within these bounds."""

Row = tuple[str, float]


def repeat_profiled(run: Callable[[], object], *, most: int = MOST) -> None:
    """Run often enough for layers to be timed, warm-up included."""
    until = time.monotonic() + ENOUGH_S
    for number in range(1, WARMUP + most + 1):
        run()
        if number >= WARMUP + LEAST and time.monotonic() >= until:
            return


def profile_from_rows(iterations: Sequence[Sequence[Row]]) -> LayerProfile:
    """Put iterations together, layer by layer in execution order; names may repeat.

    An iteration that reports other layers than most (a conditional branch) is left out.
    """
    if not iterations or not any(iterations):
        return LayerProfile(count=0, layers=())
    orders = [tuple(name for name, _ in each) for each in iterations]
    usual = max(set(orders), key=orders.count)
    kept = [each for each, order in zip(iterations, orders, strict=True) if order == usual]
    table = np.array([[seconds for _, seconds in each] for each in kept], np.float64)
    total = float(table.sum())
    layers = tuple(
        LayerTime(
            name=name,
            total_s=float(column.sum()),
            average_s=float(column.mean()),
            median_s=float(np.median(column)),
            min_s=float(column.min()),
            max_s=float(column.max()),
            share=float(column.sum() / total) if total > 0 else None,
        )
        for name, column in zip(usual, table.T, strict=True)
    )
    return LayerProfile(count=len(kept), layers=layers)
