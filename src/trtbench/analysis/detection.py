"""Boxes: overlap, suppression of doubles, and the way back from a letterboxed image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray, Floats
from trtbench.domain.spec import Value

BLOCK = 256
"""Boxes that are held against each other at a time: many per call of numpy, in little memory."""


class Letterbox(Value, frozen=True, kw_only=True):
    """How an image was put into a network's input: scaled, then padded."""

    scale_x: float
    scale_y: float
    left: int
    top: int

    def undo(self, x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Turn network coordinates to those of the image."""
        return (x - self.left) / self.scale_x, (y - self.top) / self.scale_y


def letterbox_of(
    size: tuple[int, int], target: tuple[int, int], *, centred: bool = True
) -> tuple[Letterbox, tuple[int, int]]:
    """Fit (height, width) into a target; gives the geometry and the size in between."""
    scale = min(target[0] / size[0], target[1] / size[1])
    high, wide = (max(1, round(side * scale)) for side in size)
    geometry = Letterbox(
        scale_x=wide / size[1],
        scale_y=high / size[0],
        left=(target[1] - wide) // 2 if centred else 0,
        top=(target[0] - high) // 2 if centred else 0,
    )
    return geometry, (high, wide)


def corners_from_centres(boxes: AnyArray) -> Floats:
    """Turn (cx, cy, w, h) into (x0, y0, x1, y1)."""
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.asarray(np.concatenate([centre - half, centre + half], axis=1), np.float64)


def shared_areas(first: AnyArray, second: AnyArray) -> AnyArray:
    """Tell what every box of one list has in common with every box of another, given by corners.

    Computed in the type of the boxes, as what follows from it.
    """
    sides = [
        np.minimum(first[:, None, end], second[None, :, end])
        - np.maximum(first[:, None, end - 2], second[None, :, end - 2])
        for end in (2, 3)
    ]
    return np.asarray(np.maximum(sides[0], 0) * np.maximum(sides[1], 0))


def iou_matrix(first: AnyArray, second: AnyArray) -> AnyArray:
    """Compute intersection over union of every box of one list with every box of another."""
    shared = shared_areas(first, second)
    areas = [np.clip(each[:, 2:4] - each[:, :2], 0, None).prod(axis=1) for each in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def suppress(
    boxes: AnyArray,
    scores: AnyArray,
    *,
    classes: AnyArray | None = None,
    iou: float = 0.7,
    most: int = 300,
) -> NDArray[np.int64]:
    """Apply greedy non-maximum suppression: the places of the boxes that stay, the best first.

    With classes, boxes of different ones do not suppress each other. Overlaps are computed in
    single precision, as detectors' own suppression has it: where one is the limit itself, the
    rounding decides, and it decides alike.
    """
    boxes = np.asarray(boxes, np.float32)

    def doubles(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        over = iou_matrix(boxes[first], boxes[second]).astype(np.float64) > iou
        if classes is not None:
            over &= np.asarray(classes)[first][:, None] == np.asarray(classes)[second]
        return np.asarray(over)

    order = np.argsort(-np.asarray(scores), kind="stable")
    kept = np.zeros(0, np.int64)
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        block = block[~doubles(kept, block).any(axis=0)]
        double = doubles(block, block)
        stays = np.ones(len(block), bool)
        for place in range(len(block)):
            if stays[place]:
                stays[place + 1 :] &= ~double[place, place + 1 :]
        kept = np.concatenate([kept, block[stays]])
        if len(kept) >= most:
            break
    return kept[:most]
