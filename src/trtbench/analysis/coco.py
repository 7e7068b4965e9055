"""Boxes and key points: overlap, suppression, letterboxing and COCO's average precision.

Detections are matched in order of their score, each with the unmatched truth (annotated object)
that is most similar by IoU of boxes or OKS of people. Truths that do not count (crowds, other
sizes) are matched last, and detections matched with them do not count either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.core.samples import AnyArray, Floats
from trtbench.core.spec import Value

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

BLOCK = 256  # boxes compared at a time, to limit memory
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
AT_75 = 5  # index of 0.75 among the thresholds
SIZES = {"": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2),
         "large": (96.0**2, 1e10)}  # fmt: skip
"""Areas in pixels of the image, both ends included; the empty name means all sizes."""
MAX_DETECTIONS = 100  # per image and class


class Letterbox(Value, frozen=True, kw_only=True):
    """How an image was fitted into a network's input: scaled, then padded."""

    scale_x: float
    scale_y: float
    left: int
    top: int

    def undo(self, x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Convert coordinates of the network's input to those of the image."""
        return (x - self.left) / self.scale_x, (y - self.top) / self.scale_y


def letterbox_of(
    size: tuple[int, int], target: tuple[int, int], *, centred: bool = True
) -> tuple[Letterbox, tuple[int, int]]:
    """Fit (height, width) into a target; return the geometry and the size without padding."""
    scale = min(target[0] / size[0], target[1] / size[1])
    high, wide = (max(1, round(side * scale)) for side in size)
    left, top = ((target[1] - wide) // 2, (target[0] - high) // 2) if centred else (0, 0)
    scales = {"scale_x": wide / size[1], "scale_y": high / size[0]}
    return Letterbox(left=left, top=top, **scales), (high, wide)


def corners_from_centres(boxes: AnyArray) -> Floats:
    """Convert (cx, cy, w, h) to (x0, y0, x1, y1)."""
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.asarray(np.concatenate([centre - half, centre + half], axis=1), np.float64)


def _shared_areas(first: AnyArray, second: AnyArray) -> AnyArray:
    """Compute intersection areas of boxes given by corners: [first, second]."""
    sides = [
        np.minimum(first[:, None, end], second[None, :, end])
        - np.maximum(first[:, None, end - 2], second[None, :, end - 2])
        for end in (2, 3)
    ]
    return np.asarray(np.maximum(sides[0], 0) * np.maximum(sides[1], 0))


def iou_matrix(first: AnyArray, second: AnyArray) -> AnyArray:
    """Compute intersection over union of boxes given by corners: [first, second]."""
    shared = _shared_areas(first, second)
    areas = [np.clip(each[:, 2:4] - each[:, :2], 0, None).prod(axis=1) for each in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def suppress(
    boxes: AnyArray, scores: AnyArray, *, classes: AnyArray | None = None, iou: float, most: int
) -> Ints:
    """Apply greedy non-maximum suppression; return the indices of the boxes kept, best first.

    With ``classes``, boxes of different classes do not suppress each other. Overlaps are computed
    in single precision, as in detectors, so that rounding at the limit has the same result.
    """
    boxes = np.asarray(boxes, np.float32)

    def overlapping(first: Ints, second: Ints) -> Bools:
        over = iou_matrix(boxes[first], boxes[second]).astype(np.float64) > iou
        if classes is not None:
            over &= np.asarray(classes)[first][:, None] == np.asarray(classes)[second]
        return np.asarray(over)

    order = np.argsort(-np.asarray(scores), kind="stable")
    kept = np.zeros(0, np.int64)
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        block = block[~overlapping(kept, block).any(axis=0)]
        double = overlapping(block, block)
        stays = np.ones(len(block), bool)
        for place in range(len(block)):
            if stays[place]:
                stays[place + 1 :] &= ~double[place, place + 1 :]
        kept = np.concatenate([kept, block[stays]])
        if len(kept) >= most:
            break
    return kept[:most]


def match_detections(similar: Floats, *, ignored: Bools, crowd: Bools) -> tuple[Bools, Bools]:
    """Match the detections of one image with its truths, at every threshold.

    ``similar`` is [detections, truths], the best detection first; ``ignored`` is [views, truths]:
    the truths that do not count in each view (size). Returns which detections matched a truth, and
    which matched one that does not count, each [views, thresholds, detections].
    """
    views, truths = ignored.shape
    least = np.minimum(THRESHOLDS, 1 - 1e-10)[:, None]
    hits = np.zeros((views, len(THRESHOLDS), len(similar)), bool)
    passed = np.zeros_like(hits)
    unmatched = np.ones((views, len(THRESHOLDS), truths), bool)
    not_counted = ignored[:, None, :]
    for place in np.flatnonzero((similar >= THRESHOLDS[0]).any(axis=1)):
        row = similar[place]
        fits = (unmatched | crowd) & (row >= least)
        counted = fits & ~not_counted
        fits = np.where(counted.any(axis=2, keepdims=True), counted, fits & not_counted)
        view, level = np.nonzero(fits.any(axis=2))
        # Of equally similar truths, COCO takes the last.
        values = np.where(fits[view, level], row, -1.0)[:, ::-1]
        chosen = truths - 1 - values.argmax(axis=1)
        unmatched[view, level, chosen] = False
        hits[view, level, place] = True
        passed[view, level, place] = ignored[view, chosen]
    return hits, passed


@dataclass(frozen=True, kw_only=True)
class Objects:
    """The objects of one image, annotated or detected."""

    boxes: Floats  # [objects, 4]: x, y, width, height, in pixels of the image
    classes: Ints
    scores: Floats
    areas: Floats
    crowd: Bools


@dataclass(frozen=True, kw_only=True)
class BoxMatches:
    """The matches in one image, for every size and threshold."""

    scores: Floats
    classes: Ints
    hits: Bools  # [sizes, thresholds, detections]
    ignored: Bools
    truths: Ints
    counted: Bools  # [sizes, truths]: whether it has the size and is no crowd


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Precision and recall of one class, for one size."""

    number: int
    truths: float
    precision: Floats  # [thresholds, recalls]
    recall: Floats  # [thresholds]


def boxes_from_corners(
    corners: AnyArray, classes: AnyArray, scores: AnyArray | None = None
) -> Objects:
    """Return objects from their corners x0, y0, x1, y1."""
    sides = np.asarray(corners, np.float64).reshape(-1, 4)
    boxes = np.concatenate([sides[:, :2], sides[:, 2:] - sides[:, :2]], axis=1)
    count = len(boxes)
    return Objects(
        boxes=boxes,
        classes=np.asarray(classes, np.int64).reshape(count),
        scores=np.ones(count) if scores is None else np.asarray(scores, np.float64),
        areas=boxes[:, 2] * boxes[:, 3],
        crowd=np.zeros(count, bool),
    )


def overlaps(found: Objects, truth: Objects) -> Floats:
    """Compute IoU of every detection with every truth; with a crowd, the fraction inside it."""
    corners = [
        np.concatenate([each.boxes[:, :2], each.boxes[:, :2] + each.boxes[:, 2:]], axis=1)
        for each in (found, truth)
    ]
    shared = _shared_areas(*corners)
    own, other = (each.boxes[:, 2] * each.boxes[:, 3] for each in (found, truth))
    union = np.where(truth.crowd[None], own[:, None], own[:, None] + other[None] - shared)
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def match_boxes(found: Objects, truth: Objects) -> BoxMatches:
    """Match the detections of one image with its objects, class by class."""
    order = np.argsort(-found.scores, kind="stable")
    classes = found.classes[order]
    by_class = np.argsort(classes, kind="stable")
    starts = np.searchsorted(classes[by_class], classes[by_class], side="left")
    ranks = np.empty(len(classes), np.int64)
    ranks[by_class] = np.arange(len(classes)) - starts
    order = order[ranks < MAX_DETECTIONS]
    classes = found.classes[order]
    similar = overlaps(found, truth)[order]
    similar[classes[:, None] != truth.classes[None]] = -1.0
    ignored = truth.crowd | _outside_sizes(truth.areas)
    hits, passed = match_detections(similar, ignored=ignored, crowd=truth.crowd)
    return BoxMatches(
        scores=found.scores[order],
        classes=classes,
        hits=hits,
        ignored=passed | (~hits & _outside_sizes(found.areas[order])[:, None, :]),
        truths=truth.classes,
        counted=~ignored,
    )


def _outside_sizes(areas: Floats) -> Bools:
    """Return which objects do not have a size: [sizes, objects]."""
    return np.array([(areas < low) | (areas > high) for low, high in SIZES.values()])


class BoxTally:
    """The matches of all images of a data set, sorted by class and score."""

    def __init__(self, matches: Sequence[BoxMatches]) -> None:
        self.images = len(matches)
        scores = np.concatenate([each.scores for each in matches])
        classes = np.concatenate([each.classes for each in matches])
        image = np.repeat(np.arange(self.images), [len(each.scores) for each in matches])
        order = np.lexsort((-scores, classes))
        self._image = image[order]
        self._hits = np.concatenate([each.hits for each in matches], axis=2)[..., order]
        self._ignored = np.concatenate([each.ignored for each in matches], axis=2)[..., order]
        self._sorted = classes[order]
        self._truths = np.concatenate([each.truths for each in matches])
        self._counted = np.concatenate([each.counted for each in matches], axis=1)
        self._owner = np.repeat(np.arange(self.images), [len(each.truths) for each in matches])

    @property
    def detections(self) -> int:
        return len(self._sorted)

    def by_class(self, *, size: str = "", weights: AnyArray | None = None) -> list[ClassScores]:
        """Score every class that has objects of a size, with a weight per image."""
        view = list(SIZES).index(size)
        counts = np.ones(self.images) if weights is None else np.asarray(weights, np.float64)
        found = []
        for number in np.unique(self._truths[self._counted[view]]):
            own = (self._truths == number) & self._counted[view]
            truths = float(counts[self._owner[own]].sum())
            if not truths:
                continue
            part = slice(*np.searchsorted(self._sorted, [number, number + 1]))
            weight = counts[self._image[part]]
            hits, ignored = self._hits[view][:, part], self._ignored[view][:, part]
            right, wrong = weight * (hits & ~ignored), weight * (~hits & ~ignored)
            # Precision at 101 recalls; the best detections come first.
            good, bad = np.cumsum(right, axis=1), np.cumsum(wrong, axis=1)
            reached = good / (good + bad + np.spacing(1))
            envelope = np.maximum.accumulate(reached[:, ::-1], axis=1)[:, ::-1]
            precision = np.zeros((len(right), len(RECALLS)))
            for level, (recalls, highest) in enumerate(zip(good / truths, envelope, strict=True)):
                places = np.searchsorted(recalls, RECALLS, side="left")
                inside = places < len(highest)
                precision[level, inside] = highest[places[inside]]
            recall = right.sum(axis=1) / truths
            found.append(
                ClassScores(number=int(number), truths=truths, precision=precision, recall=recall)
            )
        return found

    def summary(self) -> dict[str, float]:
        """Compute COCO's average precisions and AR, without those of sizes that no object has."""
        by_size = {size: classes for size in SIZES if (classes := self.by_class(size=size))}
        if not by_size:
            return {}
        values = mean_precisions(by_size[""])
        for size in (size for size in by_size if size):
            values[f"mAP_{size}"] = mean_precisions(by_size[size])["mAP"]
        values["AR"] = float(np.mean([each.recall for each in by_size[""]]))
        return values

    def weighted_means(self, weights: AnyArray) -> dict[str, float]:
        return mean_precisions(self.by_class(weights=weights))


def mean_precisions(classes: Sequence[ClassScores]) -> dict[str, float]:
    """Compute average precision over classes: for all thresholds, at 0.5 and at 0.75."""
    if not classes:
        return dict.fromkeys(("mAP", "mAP50", "mAP75"), float("nan"))
    mean = np.mean([each.precision.mean(axis=1) for each in classes], axis=0)
    return {"mAP": float(mean.mean()), "mAP50": float(mean[0]), "mAP75": float(mean[AT_75])}


COCO_SIGMAS = tuple(
    part / 10
    for part in (
        0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87,
        0.89, 0.89,
    )
)  # fmt: skip
MAX_PEOPLE = 20


@dataclass(frozen=True, kw_only=True)
class People:
    """The people of one image, annotated or detected."""

    keypoints: Floats  # [people, points, 3]: x, y, and visibility or confidence
    boxes: Floats
    areas: Floats
    scores: Floats
    ignored: Bools  # annotated crowds, and people without a labelled point
    crowd: Bools


def oks_matrix(found: People, truth: People, sigmas: Sequence[float]) -> Floats:
    """Compute the object keypoint similarity of every detection with every annotated person."""
    variances = (2 * np.asarray(sigmas)) ** 2
    result = np.zeros((len(found.keypoints), len(truth.keypoints)))
    for column, person in enumerate(truth.keypoints):
        seen = person[:, 2] > 0
        dx = found.keypoints[:, :, 0] - person[:, 0]
        dy = found.keypoints[:, :, 1] - person[:, 1]
        if not seen.any():  # no point is labelled: distance from the box at twice its size
            box, x, y = truth.boxes[column], found.keypoints[:, :, 0], found.keypoints[:, :, 1]
            (x0, y0), (x1, y1) = box[:2] - box[2:], box[:2] + 2 * box[2:]
            dx = np.maximum(0, x0 - x) + np.maximum(0, x - x1)
            dy = np.maximum(0, y0 - y) + np.maximum(0, y - y1)
        error = (dx**2 + dy**2) / variances / (truth.areas[column] + np.spacing(1)) / 2
        error = error[:, seen] if seen.any() else error
        result[:, column] = np.exp(-error).sum(axis=1) / error.shape[1]
    return result


def match_people(found: People, truth: People, sigmas: Sequence[float]) -> BoxMatches:
    """Match the detections of one image with its people, at every threshold."""
    order = np.argsort(-found.scores, kind="stable")[:MAX_PEOPLE]
    oks = oks_matrix(found, truth, sigmas)[order]
    hits, passed = match_detections(oks, ignored=truth.ignored[None], crowd=truth.crowd)
    return BoxMatches(
        scores=found.scores[order],
        classes=np.zeros(len(order), np.int64),
        hits=hits,
        ignored=passed,
        truths=np.zeros(len(truth.ignored), np.int64),
        counted=~truth.ignored[None],
    )


def average_precision(
    matches: Sequence[BoxMatches], weights: AnyArray | None = None
) -> dict[str, float]:
    """Compute AP, AP50, AP75 and AR over images, with a weight per image."""
    people = BoxTally(matches).by_class(weights=weights)
    values = {name.removeprefix("m"): each for name, each in mean_precisions(people).items()}
    return {**values, "AR": float(people[0].recall.mean()) if people else float("nan")}
