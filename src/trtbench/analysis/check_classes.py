"""Class scores of two models on the same inputs: ranks, agreement and divergence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.classification import wilson
from trtbench.domain.arrays import AnyArray, Floats
from trtbench.domain.result import Interval
from trtbench.domain.spec import Value

RANKS = 10
TOP = 5
LEAST = 1e-300
"""What a probability of zero counts as: KL divergence is 690 nats at most."""


class RankRow(Value, frozen=True, kw_only=True):
    """How two models differ at one place of their rankings, over all inputs."""

    rank: int
    mae: float | None
    """Mean \\|a[c] - b[c]\\| where c is the class at this place of the candidate (ArtTRT)."""
    mae_reference: float | None
    """The same with the class at this place of the reference."""
    mae_sorted: float | None
    """Mean difference of the scores at this place, whatever their classes.

    Means are over items with finite scores there on both sides; ``None`` without any."""
    disagree: float
    """Share of inputs with another class at this place."""
    disagree_clear: float | None
    """The same among inputs whose place is no near-tie: the gap to the next score of the reference
    is at least twice ``mae_reference``; ``None`` when all are."""
    clear: int


class TopClass(Value, frozen=True, kw_only=True):
    """One place of a model's ranking of one input."""

    label: int
    score: float


class ClassCheck(Value, frozen=True, kw_only=True):
    """Class scores against those of the reference."""

    items: int
    classes: int
    unranked: int
    """Items with a NaN or +Inf on a side: they have no order of classes, so they agree in none,
    and are left out of means."""
    argmax_match: float
    argmax_interval: Interval
    top5_agreement: float | None
    """Mean Jaccard index of the sets of the five best; ``None`` with fewer than six classes."""
    kl: float | None
    """Mean KL(reference, candidate) of the probabilities, in nats."""
    kl_max: float | None
    js: float | None
    probability_shift: float | None
    """Mean \\|difference\\| of the probability of the reference's best class."""
    probabilities: bool
    """Whether the outputs were probabilities already; else softmax made them so."""
    mixed: bool
    """Whether only one side gives probabilities, and the other scores that are none yet."""
    ranks: tuple[RankRow, ...]
    top_reference: tuple[TopClass, ...] = ()
    """The reference's best classes of the first input that has an order of them."""
    top: tuple[TopClass, ...] = ()
    """The candidate's, of the same input."""

    def numbers(self) -> dict[str, float | int | None]:
        return {
            "argmax_match": self.argmax_match,
            "argmax_mismatch": 1.0 - self.argmax_match,
            "top5_agreement": self.top5_agreement,
            "kl": self.kl,
            "kl_max": self.kl_max,
            "js": self.js,
        }


class ClassTally:
    """Takes rows of scores of both sides."""

    def __init__(self) -> None:
        self._same: list[NDArray[np.bool_]] = []
        self._gaps: list[Floats] = []
        self._errors: list[NDArray[np.float64]] = []
        self._jaccard = self._kl = self._js = self._shift = 0.0
        self._kl_max = 0.0
        self._classes = self._items = self._ranked = 0
        self._are_probabilities = [True, True]
        self._top: list[tuple[TopClass, ...]] = []

    def add(self, reference: Floats, candidate: Floats) -> None:
        """Take rows of items, scores beside each other."""
        self._classes = reference.shape[1]
        self._items += len(reference)
        ordered = ~np.any([np.isnan(each) | np.isposinf(each) for each in (reference, candidate)],
                          axis=(0, 2))  # fmt: skip
        a, b = reference[ordered], candidate[ordered]
        self._ranked += len(a)
        if not len(a):
            return
        count = min(RANKS, a.shape[1])
        first, second = (ranking(each, count + 1) for each in (a, b))
        own, other = first[:, :count], second[:, :count]
        self._top = self._top or [_best(a[0], own[0]), _best(b[0], other[0])]
        self._same.append(own == other)
        self._gaps.append(_gaps(a, first, count))
        self._errors.append(
            np.stack(
                [
                    _distance(a, b, other, other),
                    _distance(a, b, own, own),
                    _distance(a, b, own, other),
                ]
            )
        )
        if a.shape[1] > TOP:
            self._jaccard += float(_jaccard(first[:, :TOP], second[:, :TOP]).sum())
        self._add_divergence(a, b, own[:, 0])

    def result(self) -> ClassCheck:
        places = min(RANKS, self._classes)
        same = np.concatenate([np.zeros((0, places), bool), *self._same])
        gaps = np.concatenate([np.zeros((0, places)), *self._gaps])
        errors = np.concatenate([np.zeros((3, 0, places)), *self._errors], axis=1)
        items, ranked = self._items, self._ranked
        hits = int(same[:, 0].sum())
        return ClassCheck(
            items=items,
            classes=self._classes,
            unranked=items - ranked,
            argmax_match=hits / items,
            argmax_interval=wilson(hits, items),
            top5_agreement=self._jaccard / items if self._classes > TOP else None,
            kl=self._kl / ranked if ranked else None,
            kl_max=self._kl_max if ranked else None,
            js=self._js / ranked if ranked else None,
            probability_shift=self._shift / ranked if ranked else None,
            probabilities=all(self._are_probabilities) and ranked > 0,
            mixed=self._are_probabilities[0] != self._are_probabilities[1],
            ranks=tuple(
                _rank_row(place, same[:, place], gaps[:, place], errors[:, :, place], items=items)
                for place in range(places)
            ),
            top_reference=self._top[0] if self._top else (),
            top=self._top[1] if self._top else (),
        )

    def _add_divergence(self, a: Floats, b: Floats, best: NDArray[np.int64]) -> None:
        as_is = [are_probabilities(each) for each in (a, b)]
        known = zip(self._are_probabilities, as_is, strict=True)
        self._are_probabilities = [before and now for before, now in known]
        p, q = (_log_probabilities(e, as_is=s) for e, s in zip((a, b), as_is, strict=True))
        kl = np.maximum((np.exp(p) * (p - q)).sum(axis=1), 0.0)
        middle = np.logaddexp(p, q) - np.log(2.0)
        js = ((np.exp(p) * (p - middle)).sum(axis=1) + (np.exp(q) * (q - middle)).sum(axis=1)) / 2
        rows = np.arange(len(a))
        self._kl += float(kl.sum())
        self._kl_max = max(self._kl_max, float(kl.max(initial=0.0)))
        self._js += float(np.maximum(js, 0.0).sum())
        self._shift += float(np.abs(np.exp(p[rows, best]) - np.exp(q[rows, best])).sum())


def are_probabilities(scores: AnyArray) -> bool:
    """Say whether rows hold probabilities of classes: none is negative, and they add up to one."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((scores >= 0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=1e-2))


def ranking(scores: AnyArray, count: int) -> NDArray[np.int64]:
    """Find the best classes in order; ties go to the lower class."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.asarray(order[:, :count], np.int64)


def _best(scores: Floats, order: NDArray[np.int64]) -> tuple[TopClass, ...]:
    """List classes with their scores; what is -Inf has no place that a file can hold."""
    own = order[np.isfinite(scores[order])]
    return tuple(TopClass(label=int(each), score=float(scores[each])) for each in own)


def _gaps(scores: Floats, order: NDArray[np.int64], count: int) -> Floats:
    """Tell how far each place is ahead of the next; the last class has none behind it."""
    ordered = np.take_along_axis(scores, order, axis=1)
    if ordered.shape[1] == count:
        ordered = np.concatenate([ordered, np.full((len(ordered), 1), -np.inf)], axis=1)
    with np.errstate(invalid="ignore"):
        gaps = ordered[:, :count] - ordered[:, 1 : count + 1]
    return np.asarray(np.nan_to_num(gaps, nan=0.0, posinf=np.inf), np.float64)


def _distance(
    a: Floats, b: Floats, classes_a: NDArray[np.int64], classes_b: NDArray[np.int64]
) -> Floats:
    with np.errstate(invalid="ignore"):
        apart = np.take_along_axis(a, classes_a, 1) - np.take_along_axis(b, classes_b, 1)
    return np.asarray(np.abs(apart), np.float64)


def _jaccard(first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
    shared = (first[:, :, None] == second[:, None, :]).any(axis=2).sum(axis=1)
    return np.asarray(shared / (2 * first.shape[1] - shared), np.float64)


def _log_probabilities(scores: Floats, *, as_is: bool) -> Floats:
    """Compute ln of probabilities, none below that of the least there is: KL stays a number."""
    if as_is:
        return np.asarray(np.log(np.maximum(scores, LEAST)), np.float64)
    top = scores.max(axis=1, keepdims=True)
    shifted = scores - np.where(np.isfinite(top), top, 0.0)
    logs = shifted - np.log(np.maximum(np.exp(shifted).sum(axis=1, keepdims=True), LEAST))
    return np.asarray(np.maximum(logs, np.log(LEAST)), np.float64)


def _rank_row(
    place: int, same: NDArray[np.bool_], gaps: Floats, errors: NDArray[np.float64], *, items: int
) -> RankRow:
    mae, mae_reference, mae_sorted = (_mean(each[np.isfinite(each)]) for each in errors)
    clear = gaps >= 2 * (mae_reference or 0.0)
    return RankRow(
        rank=place + 1,
        mae=mae,
        mae_reference=mae_reference,
        mae_sorted=mae_sorted,
        disagree=1.0 - float(same.sum()) / items,
        disagree_clear=float((~same[clear]).mean()) if clear.any() else None,
        clear=int(clear.sum()),
    )


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
