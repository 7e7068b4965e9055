"""How right class scores are: top-k accuracy with intervals, and agreement of two models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.result import Interval, Score

LEVEL = 0.95
_Z = 1.959963984540054
"""Two-sided 95 % of the normal distribution."""


def rank_of_label(scores: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each label among the scores, 1 for the best; ties go to the lower class."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    better = scores > own
    earlier = (scores == own) & (np.arange(scores.shape[1]) < labels[:, None])
    return np.asarray(1 + (better | earlier).sum(axis=1), np.int64)


def top_k(scores: NDArray[Any], labels: NDArray[Any], *, k: int = 1) -> Score:
    """Share of examples whose label is among the k best, with Wilson's interval."""
    hits = int((rank_of_label(scores, labels) <= k).sum())
    return Score(
        metric=f"top{k}",
        value=hits / len(labels),
        interval=wilson(hits, len(labels)),
        count=len(labels),
    )


def agreement(first: NDArray[Any], second: NDArray[Any]) -> Score:
    """Share of examples for which two models name the same class."""
    same = int((first.argmax(axis=1) == second.argmax(axis=1)).sum())
    return Score(
        metric="agreement",
        value=same / len(first),
        interval=wilson(same, len(first)),
        count=len(first),
    )


def wilson(hits: int, count: int) -> Interval:
    """Wilson's interval of a proportion, honest near 0 and 1."""
    share, spread = hits / count, _Z**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return Interval(
        low=max(0.0, centre - half),
        high=min(1.0, centre + half),
        level=LEVEL,
        meaning="95 % for other examples of the same kind",
    )
