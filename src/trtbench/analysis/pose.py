"""How right key points are: object key point similarity, average precision, and PCK.

Matching is COCO's: the best detections first, each takes the free person it is most similar to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtbench.analysis.average_precision import AT_75, Bools, match_detections, precision_and_recall
from trtbench.domain.arrays import AnyArray, Floats

COCO_SIGMAS = tuple(
    part / 10
    for part in (
        0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87,
        0.89, 0.89,
    )
)  # fmt: skip
COCO_SKELETON = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip
MOST_DETECTIONS = 20


@dataclass(frozen=True, kw_only=True)
class People:
    """The people of one image: as annotated, or as found."""

    keypoints: Floats
    """[people, points, 3]: x, y, and visibility or confidence."""
    boxes: Floats
    """[people, 4]: x, y, width, height."""
    areas: Floats
    scores: Floats
    ignored: Bools
    """Annotated crowds, and people without a labelled point."""
    crowd: Bools


@dataclass(frozen=True, kw_only=True)
class Matches:
    """What matching one image gave, for every threshold."""

    scores: Floats
    hits: Bools
    """[thresholds, detections]"""
    ignored: Bools
    people: int
    """Annotated and not ignored."""


def default_sigmas(points: int) -> tuple[float, ...]:
    """Choose COCO's for its 17 points; else the same for all, as YOLO networks are evaluated."""
    return COCO_SIGMAS if points == len(COCO_SIGMAS) else (1.0 / points,) * points


def oks_matrix(found: People, truth: People, sigmas: Sequence[float]) -> Floats:
    """Compute similarity of every detection with every annotated person."""
    variances = (2 * np.asarray(sigmas)) ** 2
    result = np.zeros((len(found.keypoints), len(truth.keypoints)))
    for column, person in enumerate(truth.keypoints):
        seen = person[:, 2] > 0
        dx = found.keypoints[:, :, 0] - person[:, 0]
        dy = found.keypoints[:, :, 1] - person[:, 1]
        if not seen.any():  # no point is known: how far outside of twice the box
            dx, dy = _outside(found.keypoints, truth.boxes[column])
        error = (dx**2 + dy**2) / variances / (truth.areas[column] + np.spacing(1)) / 2
        error = error[:, seen] if seen.any() else error
        result[:, column] = np.exp(-error).sum(axis=1) / error.shape[1]
    return result


def match(found: People, truth: People, sigmas: Sequence[float]) -> Matches:
    """Match the detections of one image with its people, at every threshold."""
    order = np.argsort(-found.scores, kind="stable")[:MOST_DETECTIONS]
    oks = oks_matrix(found, truth, sigmas)[order]
    hits, passed = match_detections(oks, ignored=truth.ignored[None], crowd=truth.crowd)
    return Matches(
        scores=found.scores[order],
        hits=hits[0],
        ignored=passed[0],
        people=int((~truth.ignored).sum()),
    )


def average_precision(
    matches: Sequence[Matches], *, weights: AnyArray | None = None
) -> dict[str, float]:
    """Compute AP, AP50, AP75 and AR over images, each counted as often as its weight says."""
    counts = np.ones(len(matches)) if weights is None else np.asarray(weights, np.float64)
    people = float(sum(w * each.people for w, each in zip(counts, matches, strict=True)))
    if not people:
        return dict.fromkeys(("AP", "AP50", "AP75", "AR"), float("nan"))
    scores = np.concatenate([each.scores for each in matches])
    order = np.argsort(-scores, kind="stable")
    weight = np.repeat(counts, [len(each.scores) for each in matches])[order]
    hits = np.concatenate([each.hits for each in matches], axis=1)[:, order]
    ignored = np.concatenate([each.ignored for each in matches], axis=1)[:, order]
    precision, recall = precision_and_recall(
        weight * (hits & ~ignored), weight * (~hits & ~ignored), people
    )
    return {
        "AP": float(precision.mean()),
        "AP50": float(precision[0].mean()),
        "AP75": float(precision[AT_75].mean()),
        "AR": float(recall.mean()),
    }


def pck(found: People, truth: People, sigmas: Sequence[float], *, part: float) -> tuple[int, int]:
    """Count labelled points found within this part of the larger side of a person's box, of all.

    Every person is held against the free detection that is most similar; points of people
    without one are missed.
    """
    oks = oks_matrix(found, truth, sigmas)
    free = np.ones(len(found.keypoints), bool)
    right = total = 0
    for column in np.argsort(-oks.max(axis=0, initial=0.0), kind="stable"):
        person = truth.keypoints[column]
        seen = person[:, 2] > 0
        if truth.ignored[column] or not seen.any():
            continue
        total += int(seen.sum())
        similar = np.where(free, oks[:, column], -1.0)
        if not len(similar) or similar.max() <= 0:
            continue
        best = int(similar.argmax())
        free[best] = False
        away = np.hypot(*(found.keypoints[best, :, :2] - person[:, :2]).T)
        right += int((away[seen] <= part * truth.boxes[column, 2:].max()).sum())
    return right, total


def _outside(keypoints: Floats, box: Floats) -> tuple[Floats, Floats]:
    x0, y0, x1, y1 = box[0] - box[2], box[1] - box[3], box[0] + 2 * box[2], box[1] + 2 * box[3]
    x, y = keypoints[:, :, 0], keypoints[:, :, 1]
    dx = np.maximum(0, x0 - x) + np.maximum(0, x - x1)
    dy = np.maximum(0, y0 - y) + np.maximum(0, y - y1)
    return dx, dy
