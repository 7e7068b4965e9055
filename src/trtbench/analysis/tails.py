"""Ratios of quantiles of two sides, with intervals by a cluster bootstrap over launches.

Launches are drawn, not samples: samples of one launch share its fate. Each launch is first
divided by its baseline's median, which takes the machine's drift out and leaves the effect in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.column_summary import quantiles_of, rank
from trtbench.analysis.distributions import normal_quantile, normal_two_sided_p
from trtbench.analysis.robust import LEVEL, holm
from trtbench.domain.comparison import ShiftPoint
from trtbench.domain.result import Interval
from trtbench.domain.samples import Column

REPEATS = 2000
SHIFT_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
FEWEST_LAUNCHES = 5
"""With fewer launches there are too few ways to draw them."""
MOST_SAMPLES = 2000
"""Per launch and side; more do not help, because launches are what differs."""

ColumnPair = tuple[Column, Column]
"""Times of baseline and candidate in one launch."""


def bootstrap_ratios(
    pairs: Sequence[ColumnPair], quantiles: Sequence[float]
) -> tuple[Column, Column] | None:
    """Compute ln-ratios of quantiles, and the same for redrawn launches (repeats x quantiles)."""
    if len(pairs) < FEWEST_LAUNCHES:
        return None
    before, after = _levelled(pairs)
    estimate = _log_quantiles(np.sort(after.ravel())[None], quantiles)[0]
    estimate = estimate - _log_quantiles(np.sort(before.ravel())[None], quantiles)[0]
    random = np.random.default_rng(0)
    draws = random.integers(0, len(pairs), size=(REPEATS, len(pairs)))
    drawn = np.empty((REPEATS, len(quantiles)))
    step = max(1, 2_000_000 // before.size)
    for begin in range(0, REPEATS, step):
        chosen = draws[begin : begin + step]
        sides = [_sorted_rows(side[chosen], quantiles) for side in (before, after)]
        drawn[begin : begin + step] = sides[1] - sides[0]
    return np.asarray(estimate), drawn


def shift_function(pairs: Sequence[ColumnPair]) -> tuple[ShiftPoint, ...]:
    """Compare all deciles that both sides know; the intervals hold for all of them at once."""
    if len(pairs) < FEWEST_LAUNCHES:
        return ()
    lacking = samples_lacking(pairs, SHIFT_QUANTILES)
    quantiles = [q for q in SHIFT_QUANTILES if q not in lacking]
    found = bootstrap_ratios(pairs, quantiles) if quantiles else None
    if found is None:
        return ()
    estimate, drawn = found
    spread = np.maximum(drawn.std(axis=0, ddof=1), 1e-12)
    adjusted = holm([normal_two_sided_p(z) for z in (estimate / spread).tolist()])
    width = normal_quantile(1 - (1 - LEVEL) / (2 * len(quantiles)))
    meaning = f"{LEVEL:.0%} for all {len(quantiles)} quantiles at once, over launches"
    return tuple(
        ShiftPoint(
            q=q,
            ratio=math.exp(estimate[i]),
            interval=Interval(
                low=math.exp(estimate[i] - width * spread[i]),
                high=math.exp(estimate[i] + width * spread[i]),
                level=LEVEL,
                meaning=meaning,
            ),
            differs=adjusted[i] < 1 - LEVEL,
        )
        for i, q in enumerate(quantiles)
    )


def samples_lacking(pairs: Sequence[ColumnPair], quantiles: Sequence[float]) -> dict[float, int]:
    """Tell the quantiles that a side has too few samples for, each with how many it needs.

    What is not known of a side, its own table does not show, and no ratio may be made of.
    """
    lacking: dict[float, int] = {}
    for side in zip(*pairs, strict=True):
        for each in quantiles_of(side, quantiles):
            if each.value is None and each.needed is not None:
                lacking[each.q] = max(each.needed, lacking.get(each.q, 0))
    return lacking


def faster_share(pairs: Sequence[ColumnPair]) -> float | None:
    """Estimate P(candidate < baseline) over pairs, ties counted half, mean over launches."""
    shares = [
        float(np.mean(after < before) + 0.5 * np.mean(after == before))
        for before, after in pairs
        if len(before)
    ]
    return float(np.mean(shares)) if shares else None


def cliffs_delta(pairs: Sequence[ColumnPair]) -> float | None:
    """Estimate P(candidate > baseline) - P(candidate < baseline): 1 is always slower."""
    share = faster_share(pairs)
    return None if share is None else 1 - 2 * share


def _levelled(pairs: Sequence[ColumnPair]) -> tuple[Column, Column]:
    size = min(MOST_SAMPLES, *(len(side) for pair in pairs for side in pair))
    before, after = np.empty((len(pairs), size)), np.empty((len(pairs), size))
    for k, (a, b) in enumerate(pairs):
        level = float(np.median(a))
        before[k], after[k] = _thinned(a, size) / level, _thinned(b, size) / level
    return before, after


def _thinned(column: Column, size: int) -> Column:
    index = np.linspace(0, len(column) - 1, size).round().astype(np.int64)
    return np.asarray(column[index])


def _sorted_rows(drawn: Column, quantiles: Sequence[float]) -> Column:
    rows = drawn.reshape(len(drawn), -1)
    ranks = sorted({rank(rows.shape[1], q) - 1 for q in quantiles})
    return _log_quantiles(np.partition(rows, ranks, axis=1), quantiles)


def _log_quantiles(ordered: Column, quantiles: Sequence[float]) -> Column:
    ranks = [rank(ordered.shape[1], q) - 1 for q in quantiles]
    return np.asarray(np.log(ordered[:, ranks]))
