"""How right boxes are: COCO's average precision and recall, by class and by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.average_precision import (
    AT_75,
    RECALLS,
    Bools,
    match_detections,
    precision_and_recall,
)
from trtbench.analysis.detection import shared_areas
from trtbench.domain.arrays import AnyArray, Floats

Whole = NDArray[np.int64]

SIZES = {"": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2),
         "large": (96.0**2, 1e10)}  # fmt: skip
"""Areas in pixels of the image, both ends belong to it; the empty name is all of them."""
MOST_DETECTIONS = 100
"""Per image and class."""
RECALL_AT = (1, 10, 100)


@dataclass(frozen=True, kw_only=True)
class Objects:
    """The objects of one image: as annotated, or as found."""

    boxes: Floats
    """[objects, 4]: x, y, width, height, in pixels of the image."""
    classes: Whole
    scores: Floats
    areas: Floats
    crowd: Bools


@dataclass(frozen=True, kw_only=True)
class BoxMatches:
    """What matching one image gave, at every threshold, for every size."""

    scores: Floats
    classes: Whole
    ranks: Whole
    """Place of a detection among those of its image and class, from 0."""
    hits: Bools
    """[sizes, thresholds, detections]"""
    ignored: Bools
    truths: Whole
    """Classes of the annotated objects."""
    counted: Bools
    """[sizes, truths]: those that are no crowd and of the size."""


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Precision and recall of one class, at one size."""

    number: int
    truths: float
    precision: Floats
    """[thresholds, recalls]"""
    recall: dict[int, Floats]
    """By detections per image: [thresholds]."""


def boxes_from_corners(
    corners: AnyArray, classes: AnyArray, scores: AnyArray | None = None
) -> Objects:
    """Describe objects given by x0, y0, x1, y1."""
    values = np.asarray(corners, np.float64).reshape(-1, 4)
    boxes = np.concatenate([values[:, :2], values[:, 2:] - values[:, :2]], axis=1)
    count = len(boxes)
    return Objects(
        boxes=boxes,
        classes=np.asarray(classes, np.int64).reshape(count),
        scores=np.ones(count) if scores is None else np.asarray(scores, np.float64),
        areas=boxes[:, 2] * boxes[:, 3],
        crowd=np.zeros(count, bool),
    )


def overlaps(found: Objects, truth: Objects) -> Floats:
    """Compute intersection over union of every detection with every truth.

    With a crowd it is the part of the detection that lies in it.
    """
    corners = [
        np.concatenate([each.boxes[:, :2], each.boxes[:, :2] + each.boxes[:, 2:]], axis=1)
        for each in (found, truth)
    ]
    shared = shared_areas(*corners)
    own, other = (each.boxes[:, 2] * each.boxes[:, 3] for each in (found, truth))
    union = np.where(truth.crowd[None], own[:, None], own[:, None] + other[None] - shared)
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def match_boxes(found: Objects, truth: Objects) -> BoxMatches:
    """Match the detections of one image with its objects, class by class."""
    order = np.argsort(-found.scores, kind="stable")
    ranks = _ranks(found.classes[order])
    order, ranks = order[ranks < MOST_DETECTIONS], ranks[ranks < MOST_DETECTIONS]
    best = Objects(
        boxes=found.boxes[order], classes=found.classes[order], scores=found.scores[order],
        areas=found.areas[order], crowd=found.crowd[order],
    )  # fmt: skip
    similar = overlaps(best, truth)
    similar[best.classes[:, None] != truth.classes[None]] = -1.0
    ignored = truth.crowd | _outside(truth.areas)
    hits, passed = match_detections(similar, ignored=ignored, crowd=truth.crowd)
    return BoxMatches(
        scores=best.scores,
        classes=best.classes,
        ranks=ranks,
        hits=hits,
        ignored=passed | (~hits & _outside(best.areas)[:, None, :]),
        truths=truth.classes,
        counted=~ignored,
    )


class BoxTally:
    """All images of a data set, their detections sorted once by class and score."""

    def __init__(self, matches: Sequence[BoxMatches]) -> None:
        self.images = len(matches)
        scores = np.concatenate([each.scores for each in matches])
        classes = np.concatenate([each.classes for each in matches])
        image = np.repeat(np.arange(self.images), [len(each.scores) for each in matches])
        order = np.lexsort((-scores, classes))
        self._image = image[order]
        self._ranks = np.concatenate([each.ranks for each in matches])[order]
        self._hits = np.concatenate([each.hits for each in matches], axis=2)[..., order]
        self._ignored = np.concatenate([each.ignored for each in matches], axis=2)[..., order]
        self._sorted = classes[order]
        self._truths = np.concatenate([each.truths for each in matches])
        self._counted = np.concatenate([each.counted for each in matches], axis=1)
        self._owner = np.repeat(np.arange(self.images), [len(each.truths) for each in matches])

    @property
    def detections(self) -> int:
        return len(self._sorted)

    def by_class(
        self, *, size: str = "", weights: AnyArray | None = None, at: Sequence[int] = RECALL_AT
    ) -> list[ClassScores]:
        """Score every class that has objects of a size, each image counted by its weight."""
        view = list(SIZES).index(size)
        counts = np.ones(self.images) if weights is None else np.asarray(weights, np.float64)
        found = []
        for number in np.unique(self._truths[self._counted[view]]):
            own = (self._truths == number) & self._counted[view]
            truths = float(counts[self._owner[own]].sum())
            if truths:
                found.append(self._class(int(number), view, counts, truths, at))
        return found

    def _class(
        self, number: int, view: int, counts: Floats, truths: float, at: Sequence[int]
    ) -> ClassScores:
        part = slice(*np.searchsorted(self._sorted, [number, number + 1]))
        weight = counts[self._image[part]]
        hits, ignored = self._hits[view][:, part], self._ignored[view][:, part]
        right, wrong = weight * (hits & ~ignored), weight * (~hits & ~ignored)
        precision, _ = precision_and_recall(right, wrong, truths)
        within = {most: self._ranks[part] < most for most in at}
        recall = {most: right[:, inside].sum(axis=1) / truths for most, inside in within.items()}
        return ClassScores(number=number, truths=truths, precision=precision, recall=recall)

    def summary(self) -> dict[str, float]:
        """Compute COCO's twelve numbers; those without an object are left out."""
        values: dict[str, float] = {}
        for size in SIZES:
            classes = self.by_class(size=size)
            if not classes:
                continue
            end = f"_{size}" if size else ""
            values |= {f"{name}{end}": value for name, value in precisions(classes).items()
                       if not size or name == "mAP"}  # fmt: skip
            for most in RECALL_AT if not size else (MOST_DETECTIONS,):
                recall = float(np.mean([each.recall[most] for each in classes]))
                values[f"AR{most}" if not size else f"AR{end}"] = recall
        return values


def precisions(classes: Sequence[ClassScores]) -> dict[str, float]:
    """Mean over classes: of all thresholds, at 0.5, and at 0.75."""
    if not classes:
        return dict.fromkeys(("mAP", "mAP50", "mAP75"), float("nan"))
    mean = np.mean([each.precision.mean(axis=1) for each in classes], axis=0)
    return {"mAP": float(mean.mean()), "mAP50": float(mean[0]), "mAP75": float(mean[AT_75])}


def mean_curve(classes: Sequence[ClassScores], *, level: int = 0) -> Floats:
    """Precision at 101 recalls, averaged over classes, at one threshold."""
    if not classes:
        return np.full(len(RECALLS), np.nan)
    return np.asarray(np.mean([each.precision[level] for each in classes], axis=0))


def _outside(areas: Floats) -> Bools:
    """Tell which objects are not of a size: [sizes, objects]."""
    return np.array([(areas < low) | (areas > high) for low, high in SIZES.values()]).reshape(
        len(SIZES), len(areas)
    )


def _ranks(classes: Whole) -> Whole:
    """Place of every entry among those of its class."""
    order = np.argsort(classes, kind="stable")
    sorted_classes = classes[order]
    starts = np.searchsorted(sorted_classes, sorted_classes, side="left")
    ranks = np.empty(len(classes), np.int64)
    ranks[order] = np.arange(len(classes)) - starts
    return ranks
