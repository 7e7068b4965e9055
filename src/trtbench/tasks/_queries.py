"""Boxes beside scores of all classes: queries of a DETR, or what an SSD and its kin hand out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.tasks._candidates import (
    Candidates,
    Detections,
    Suggested,
    are_fractions,
    corners_or_centres,
)
from trtbench.tasks._lists import MOST_ROWS, narrow

NOTHING = 0.005
"""Logits and probabilities are mostly below, coordinates seldom."""
SURELY = 0.9
"""Of queries that say their last class: it is nothing, whatever the data has."""


def _boxes_and_scores(batch: Detections) -> tuple[str, AnyArray, AnyArray] | None:
    """Find two outputs with as many boxes, lying or standing: sides, and scores of all classes."""
    arrays = {name: narrow(array) for name, array in batch.arrays.items()}
    flat = {name: array for name, array in arrays.items() if array.ndim == 3}
    lying = {name: array for name, array in flat.items() if array.shape[2] == 4}
    # Scores of four classes are as wide as boxes: a name tells, then that most scores are nothing.
    order = sorted(lying, key=lambda n: ("box" not in n.lower(), _share(lying[n] < NOTHING)))
    standing = {n: a.transpose(0, 2, 1) for n, a in flat.items() if a.shape[1] == 4}
    for name, boxes in [*((n, lying[n]) for n in order), *standing.items()]:
        for other, array in flat.items():
            scores = array if array.shape[1] == boxes.shape[1] else array.transpose(0, 2, 1)
            if other != name and scores.shape[1] == boxes.shape[1]:
                return other, boxes, scores
    return None


def _share(values: AnyArray) -> float:
    return float(values.mean()) if values.size else 0.0


def _are_logits(name: str, scores: AnyArray) -> bool:
    told = scores[np.isfinite(scores)]
    outside = float(told.min(initial=0.0)) < 0 or float(told.max(initial=0.0)) > 1
    return "logit" in name.lower() or outside


def fits_detr(batch: Detections) -> bool:
    """Say whether these are queries: logits, and few boxes, in parts of the input."""
    found = _boxes_and_scores(batch)
    if found is None or not _are_logits(found[0], found[2]):
        return False
    few = found[1].shape[1] <= MOST_ROWS and are_fractions(found[1])
    return few or batch.told("decoder") == "detr"


def read_detr(batch: Detections) -> Suggested:
    """Read queries: normalised boxes and logits, with a class for nothing of a softmax."""
    found = _boxes_and_scores(batch)
    assert found is not None
    _, boxes, logits = found
    how = batch.told("activation") or _activation(batch, logits)
    likely = _activated(logits, str(how))
    kept = _without_background(likely, batch, "last" if how == "softmax" else "none")
    images = [Candidates(boxes=b, scores=s) for b, s in zip(boxes, kept, strict=True)]
    return Suggested(
        images=images, order="cxcywh", suppressed=True, several=how != "softmax",
        classes=kept.shape[2], fractions=True,
    )  # fmt: skip


def _activation(batch: Detections, logits: AnyArray) -> str:
    """Tell a softmax, which has one class more for nothing that most say, from a sigmoid."""
    classes = logits.shape[2]
    if classes < 2 or classes == batch.classes:
        return "sigmoid"
    nothing = _share(logits.argmax(axis=2) == classes - 1)
    more = classes - 1 in (batch.classes, batch.highest)
    return "softmax" if nothing > (0.5 if more else SURELY) else "sigmoid"


def fits_ssd(batch: Detections) -> bool:
    """Say whether boxes stand beside scores that are not those of queries."""
    if batch.told("decoder") != "ssd" and fits_detr(batch):
        return False
    return _boxes_and_scores(batch) is not None


def read_ssd(batch: Detections) -> Suggested:
    """Read boxes that are decoded already, and probabilities, perhaps one for the background."""
    found = _boxes_and_scores(batch)
    assert found is not None
    name, boxes, scores = found
    usual = "sigmoid" if _are_logits(name, scores) else "none"
    likely = _activated(scores, str(batch.told("activation") or usual))
    more = batch.classes is not None and likely.shape[2] == batch.classes + 1
    likely = _without_background(likely, batch, "first" if more else "none")
    if not more and batch.told("background") is None and _share(likely[..., 0]) > 0.5:
        likely[..., 0] = 0.0  # the background, where numbers of classes are ids and none is 0
    images = [Candidates(boxes=b, scores=s) for b, s in zip(boxes, likely, strict=True)]
    order = corners_or_centres(images)
    return Suggested(images=images, order=order, iou=0.45, classes=likely.shape[2])


def _without_background(scores: AnyArray, batch: Detections, usual: str) -> AnyArray:
    where = batch.told("background") or usual
    return {"first": scores[..., 1:], "last": scores[..., :-1]}.get(str(where), scores)


def _activated(values: AnyArray, how: str) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    if how == "sigmoid":
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(numbers, -80, 80))))
    if how == "softmax":
        weight = np.exp(numbers - numbers.max(axis=-1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))
    return numbers
