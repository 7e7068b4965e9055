"""Raw heads of YOLO networks: grids of numbers that an export left undecoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.errors import UsageError
from trtbench.tasks._candidates import Candidates, Detections, Suggested

BINS = 16
"""Of the distribution each side of a box is told by in YOLOv8 and later."""
SIDES = 4 * BINS
STRIDES = (4, 8, 16, 32, 64)
"""Pixels of the input for each place of a grid."""
ANCHORS = {
    3: ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326)),
    4: (
        (19, 27, 44, 40, 38, 94), (96, 68, 86, 152, 180, 137), (140, 301, 303, 264, 238, 542),
        (436, 615, 739, 380, 925, 792),
    ),
}  # fmt: skip
"""Widths and heights of YOLOv5's anchors in pixels, by the number of heads, finest grid first."""


def fits_anchored(batch: Detections) -> bool:
    """Say whether outputs are the heads of YOLOv5 or 7: three boxes per place of each grid."""
    grids = _anchored(batch)
    return len(grids) in ANCHORS and len({grid.shape[-1] for grid in grids}) == 1


def anchored(batch: Detections) -> Suggested:
    """Decode the heads of YOLOv5: sigmoids around the places of three grids, sized by anchors."""
    grids = sorted(_anchored(batch), key=lambda grid: -grid.shape[2])
    anchors = _anchors(batch, len(grids))
    boxes, scores = [], []
    for grid, sizes in zip(grids, anchors, strict=True):
        values = _sigmoid(grid)
        high, wide = grid.shape[2:4]
        stride = np.array([batch.target[1] / wide, batch.target[0] / high])
        centre = (values[..., :2] * 2 - 0.5 + grid_places(high, wide)) * stride
        size = (values[..., 2:4] * 2) ** 2 * np.reshape(sizes, (1, -1, 1, 1, 2))
        boxes.append(_flat(np.concatenate([centre, size], axis=-1)))
        scores.append(_flat(values[..., 5:] * values[..., 4:5]))
    return _found(boxes, scores, iou=0.6)


def fits_anchor_free(batch: Detections) -> bool:
    """Say whether outputs are the heads of YOLOv8 and later: a distribution for each side."""
    pairs = _anchor_free(batch)
    return len(pairs) in ANCHORS and len({scores.shape[1] for _, scores in pairs}) == 1


def anchor_free(batch: Detections) -> Suggested:
    """Decode the heads of YOLOv8: distances from every place to the four sides of its box."""
    boxes, scores = [], []
    for sides, classes in _anchor_free(batch):
        count, _, high, wide = sides.shape
        stride = np.array([batch.target[1] / wide, batch.target[0] / high])
        bins = sides.reshape(count, 4, BINS, high, wide).astype(np.float64)
        weight = np.exp(bins - bins.max(axis=2, keepdims=True))
        away = (weight * np.arange(BINS)[:, None, None]).sum(axis=2) / weight.sum(axis=2)
        away = away.transpose(0, 2, 3, 1)
        centre = grid_places(high, wide) + 0.5
        low, far = (centre - away[..., :2]) * stride, (centre + away[..., 2:]) * stride
        boxes.append(np.concatenate([low, far], axis=-1).reshape(count, -1, 4))
        likely = classes.transpose(0, 2, 3, 1)
        scores.append(_flat(likely if _are_likely(likely) else _sigmoid(likely)))
    found = _found(boxes, scores, iou=0.7)
    return Suggested(
        images=found.images, order="xyxy", fractions=False, iou=0.7, classes=found.classes
    )


def _anchored(batch: Detections) -> list[AnyArray]:
    """Read grids as [batch, anchors, height, width, values]."""
    found = []
    for array in _channels_first(batch):
        if array.ndim == 5 and array.shape[1] == 3 and array.shape[4] > 5:
            found.append(array)
        elif array.ndim == 4 and _has_anchors(array.shape[1], batch):
            count, channels, high, wide = array.shape
            grid = array.reshape(count, 3, channels // 3, high, wide)
            found.append(grid.transpose(0, 1, 3, 4, 2))
    return found


def _has_anchors(channels: int, batch: Detections) -> bool:
    if batch.classes is not None and SIDES + batch.classes == channels:
        return 3 * (5 + batch.classes) == channels
    return channels % 3 == 0 and channels > 15


def _anchor_free(batch: Detections) -> list[tuple[AnyArray, AnyArray]]:
    """Read sides and classes of every grid, which come as one array or as two."""
    grids = [array for array in _channels_first(batch) if array.ndim == 4]
    if batch.classes is not None:
        known = {SIDES, batch.classes, SIDES + batch.classes}
        grids = [each for each in grids if each.shape[1] in known]
    found = []
    for place in sorted({each.shape[2:] for each in grids}, reverse=True):
        own = [each for each in grids if each.shape[2:] == place]
        if len(own) == 1 and own[0].shape[1] > SIDES:
            found.append((own[0][:, :SIDES], own[0][:, SIDES:]))
        elif len(own) == 2 and SIDES in (own[0].shape[1], own[1].shape[1]):
            sides, classes = own if own[0].shape[1] == SIDES else own[::-1]
            found.append((sides, classes))
    return found


def _channels_first(batch: Detections) -> list[AnyArray]:
    """Lay outputs with values before places where an export of TensorFlow has them behind."""

    def is_grid(high: int, wide: int) -> bool:
        return batch.target[0] // high == batch.target[1] // wide in STRIDES

    return [
        array.transpose(0, 3, 1, 2)
        if array.ndim == 4 and is_grid(*array.shape[1:3]) and not is_grid(*array.shape[2:])
        else array
        for array in batch.arrays.values()
    ]


def _anchors(batch: Detections, heads: int) -> Sequence[Sequence[float]]:
    told = batch.told("anchors")
    if told is None:
        return ANCHORS[heads]
    try:
        values = np.array([float(part) for part in str(told).split(",")]).reshape(heads, 6)
    except ValueError:
        raise UsageError(
            f"--anchors {told} cannot be read",
            fix=f"{6 * heads} numbers: width,height of three boxes per head, the finest grid first",
        ) from None
    return [list(row) for row in values]


def _found(boxes: list[AnyArray], scores: list[AnyArray], *, iou: float) -> Suggested:
    joined, likely = np.concatenate(boxes, axis=1), np.concatenate(scores, axis=1)
    images = [Candidates(boxes=b, scores=s) for b, s in zip(joined, likely, strict=True)]
    return Suggested(
        images=images, order="cxcywh", fractions=False, iou=iou, classes=likely.shape[2]
    )  # fmt: skip


def grid_places(high: int, wide: int) -> NDArray[np.float64]:
    """Compute column and row of every place of a grid: [height, width, 2]."""
    rows, columns = np.mgrid[:high, :wide]
    return np.stack([columns, rows], axis=-1).astype(np.float64)


def _are_likely(values: AnyArray) -> bool:
    """Say whether values are probabilities, as in exports for RKNN; most logits are below 0."""
    told = values[np.isfinite(values)]
    return bool(told.min(initial=0.0) >= 0 and told.max(initial=0.0) <= 1)


def _flat(values: AnyArray) -> AnyArray:
    return values.reshape(len(values), -1, values.shape[-1])


def _sigmoid(values: AnyArray) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values.astype(np.float64), -80, 80))))
