"""How right class scores are: top-k accuracy with intervals, and agreement of two models."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import binomial_cdf
from trtbench.core.run import Interval, Score
from trtbench.core.samples import AnyArray
from trtbench.core.spec import Value

LEVEL = 0.95
_Z = 1.959963984540054
"""Two-sided 95 % of the normal distribution."""


def rank_of_label(scores: AnyArray, labels: AnyArray) -> NDArray[np.int64]:
    """Find the place of each label among the scores, 1 for the best; ties go to the lower class."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    better = scores > own
    earlier = (scores == own) & (np.arange(scores.shape[1]) < labels[:, None])
    return np.asarray(1 + (better | earlier).sum(axis=1), np.int64)


def top_k(ranks: AnyArray, *, k: int = 1) -> Score:
    """Share of examples whose label is among the k best, with Wilson's interval."""
    return _share(f"top{k}", ranks <= k)


def agreement(first: AnyArray, second: AnyArray) -> Score:
    """Share of examples for which two models name the same class."""
    return _share("agreement", first == second)


def _share(metric: str, hits: AnyArray) -> Score:
    count, right = len(hits), int(hits.sum())
    return Score(metric=metric, value=right / count, interval=wilson(right, count), count=count)


class McNemar(Value, frozen=True, kw_only=True):
    """Two models on the same examples: how often only one is right, and whether that is chance."""

    only_first: int
    only_second: int
    p: float
    """Exact, two-sided."""
    difference: float
    """Accuracy of the second less that of the first."""
    interval: Interval


class ClassRow(Value, frozen=True, kw_only=True):
    """One class of a data set."""

    label: int
    count: int
    top1: float
    top5: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """Test whether two models that judged the same examples are equally right."""
    lost = int((first & ~second).sum())
    won = int((~first & second).sum())
    apart, count = lost + won, len(first)
    p = min(1.0, 2.0 * binomial_cdf(min(lost, won), n=apart, p=0.5)) if apart else 1.0
    difference = (won - lost) / count
    half = _Z * math.sqrt(max(0.0, apart - (won - lost) ** 2 / count)) / count
    return McNemar(
        only_first=lost,
        only_second=won,
        p=p,
        difference=difference,
        interval=Interval(
            low=difference - half,
            high=difference + half,
            level=LEVEL,
            meaning="95 % of the difference for other examples of the same kind",
        ),
    )


def per_class(ranks: AnyArray, labels: AnyArray) -> tuple[ClassRow, ...]:
    """Compute accuracy of every class that has examples, in order of labels."""
    return tuple(
        ClassRow(
            label=int(label),
            count=int(chosen.sum()),
            top1=float((ranks[chosen] <= 1).mean()),
            top5=float((ranks[chosen] <= 5).mean()),
        )
        for label in np.unique(labels)
        for chosen in (labels == label,)
    )


def wilson(hits: int, count: int) -> Interval:
    """Compute Wilson's interval of a proportion, honest near 0 and 1."""
    share, spread = hits / count, _Z**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return Interval(
        low=max(0.0, centre - half),
        high=min(1.0, centre + half),
        level=LEVEL,
        meaning="95 % for other examples of the same kind",
    )
