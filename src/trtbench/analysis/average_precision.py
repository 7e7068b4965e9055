"""Average precision as COCO takes it, whatever similarity means: OKS of people, IoU of boxes.

The best detections come first; each takes the free truth it is most similar to. Truths that do not
count (crowds, sizes that are not asked about) take what fits nothing else, and neither is counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import Floats

Bools = NDArray[np.bool_]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
AT_75 = 5
"""Place of 0.75 among the thresholds."""


def match_detections(similar: Floats, *, ignored: Bools, crowd: Bools) -> tuple[Bools, Bools]:
    """Match the detections of one image with its truths, at every threshold.

    ``similar`` is [detections, truths], the best detection first; ``ignored`` is [views, truths]:
    which truths do not count, as seen by size or otherwise. Gives which detections took a truth,
    and which took one that does not count, each [views, thresholds, detections].
    """
    views, truths = ignored.shape
    least = np.minimum(THRESHOLDS, 1 - 1e-10)[:, None]
    hits = np.zeros((views, len(THRESHOLDS), len(similar)), bool)
    passed = np.zeros_like(hits)
    free = np.ones((views, len(THRESHOLDS), truths), bool)
    beside = ignored[:, None, :]
    for place in np.flatnonzero((similar >= THRESHOLDS[0]).any(axis=1)):
        row = similar[place]
        fits = (free | crowd) & (row >= least)
        counted = fits & ~beside
        fits = np.where(counted.any(axis=2, keepdims=True), counted, fits & beside)
        view, level = np.nonzero(fits.any(axis=2))
        # Of equal ones COCO takes the last.
        values = np.where(fits[view, level], row, -1.0)[:, ::-1]
        chosen = truths - 1 - values.argmax(axis=1)
        free[view, level, chosen] = False
        hits[view, level, place] = True
        passed[view, level, place] = ignored[view, chosen]
    return hits, passed


def precision_and_recall(right: Floats, wrong: Floats, truths: float) -> tuple[Floats, Floats]:
    """Precision at 101 recalls, and the largest recall, of detections with the best first.

    ``right`` and ``wrong`` are [thresholds, detections], how often each counts.
    """
    hits, misses = np.cumsum(right, axis=1), np.cumsum(wrong, axis=1)
    recall = hits / truths
    precision = hits / (hits + misses + np.spacing(1))
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    values = np.zeros((len(right), len(RECALLS)))
    for level, (own, highest) in enumerate(zip(recall, envelope, strict=True)):
        places = np.searchsorted(own, RECALLS, side="left")
        inside = places < len(highest)
        values[level, inside] = highest[places[inside]]
    largest = recall[:, -1] if recall.shape[1] else np.zeros(len(right))
    return values, np.asarray(largest)
