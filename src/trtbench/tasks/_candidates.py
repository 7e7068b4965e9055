"""Boxes that a detector suggests, and the rows that remain of them: [objects, 6] per image.

A row is x0, y0, x1, y1 in pixels of the image, a score, and the network's number of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.detection import suppress
from trtbench.domain.arrays import AnyArray, Floats
from trtbench.domain.result import Scalar
from trtbench.tasks._images import Loaded
from trtbench.tasks.contract import Settings, number

Order = Literal["xyxy", "yxyx", "cxcywh", "xywh"]
ORDERS: tuple[Order, ...] = ("xyxy", "yxyx", "cxcywh", "xywh")

MOST_CANDIDATES = 30_000
"""Of one image, the best ones, that suppression looks at; as Ultralytics validates."""
INSIDE_OUT = 0.05
"""Of boxes with their second corner before the first; where more are so, these are no corners."""
FRACTIONS = 2.0
"""Coordinates below this are parts of the input, not its pixels."""


@dataclass(frozen=True, kw_only=True)
class Detections:
    """The outputs of one batch, and what is known of the images and of the classes."""

    arrays: dict[str, AnyArray]
    """[batch, ...]"""
    items: Sequence[Loaded]
    target: tuple[int, int]
    """Height and width of the network's input."""
    classes: int | None
    """How many there are in the data."""
    highest: int | None
    """One above the largest number of a category in the data."""
    settings: Settings

    def told(self, key: str) -> Scalar:
        """Look up a setting, where somebody gave one."""
        value = self.settings.get(key)
        return None if value in (None, "auto") else value

    def shapes(self) -> dict[str, str]:
        """Describe types and sizes of the outputs, for whoever reads an error."""
        return {
            f"output {name}": f"{array.dtype} {'x'.join(map(str, array.shape))}"
            for name, array in self.arrays.items()
        }


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What a network says about one image before doubles are dropped."""

    boxes: AnyArray
    """[candidates, 4], in the order the decoder says."""
    scores: AnyArray
    """[candidates, classes], or [candidates] with labels."""
    labels: AnyArray | None = None


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """The candidates of a batch, and how their family goes on from there."""

    images: list[Candidates]
    order: Order = "xyxy"
    fractions: bool | None = None
    """Whether coordinates are parts of the input; ``None`` is told by their size."""
    suppressed: bool = False
    """The network dropped doubles itself."""
    iou: float = 0.7
    several: bool = True
    """A box may stand for several classes, each with its own score."""
    classes: int | None = None
    """Of the network, where the outputs tell."""


def corners_or_centres(images: Sequence[Candidates]) -> Order:
    """Tell corners from centres and sizes: of corners, the second is the larger one."""
    boxes = np.concatenate([np.asarray(image.boxes, np.float64) for image in images])
    boxes = boxes[np.isfinite(boxes).all(axis=1)]
    inside_out = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    return "cxcywh" if inside_out.sum() > INSIDE_OUT * len(boxes) else "xyxy"


def are_fractions(rows: AnyArray) -> bool:
    """Say whether all boxes are parts of the input; the likely ones alone may be few and small."""
    boxes = rows[..., :4]
    return bool(np.abs(boxes[np.isfinite(boxes)]).max(initial=0.0) < FRACTIONS)


def order_of(found: Suggested, batch: Detections) -> Order:
    """Find the order of coordinates that was told, else the one that was found."""
    told = str(batch.told("box_format"))
    return next((order for order in ORDERS if order == told), found.order)


def rows_from_found(found: Suggested, batch: Detections) -> list[Floats]:
    """Drop what is unlikely and what is double, and go back to the pixels of the images."""
    order = order_of(found, batch)
    scale = _scale(found, batch)
    rows = []
    for image, item in zip(found.images, batch.items, strict=True):
        boxes, scores, labels = _likely(image, number(batch.settings, "conf"), found.several)
        corners = _corners(boxes, order) * scale
        good = np.isfinite(corners).all(axis=1) & np.isfinite(scores)
        corners, scores, labels = corners[good], scores[good], labels[good]
        kept = _without_doubles(corners, scores, labels, found, batch)
        own = np.concatenate([corners, scores[:, None], labels[:, None]], axis=1)[kept]
        rows.append(_in_image(own, item))
    return rows


def padded_rows(rows: Sequence[Floats], most: int) -> NDArray[np.float32]:
    """Make one array for all images; rows that do not exist have score -1."""
    filled = np.full((len(rows), most, 6), -1.0, np.float32)
    for place, own in enumerate(rows):
        filled[place, : len(own)] = own[:most]
    return filled


def _likely(
    image: Candidates, least: float, several: bool
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Take the candidates above the least score, one for every class they may be."""
    scores = np.asarray(image.scores)
    if image.labels is not None:
        chosen = np.flatnonzero(scores > least)
        labels = np.nan_to_num(np.asarray(image.labels)[chosen], nan=-1).astype(np.int64)
        values = scores[chosen]
    elif several:
        chosen, labels = np.nonzero(scores > least)
        values = scores[chosen, labels]
    else:
        best = scores.argmax(axis=1) if scores.size else np.zeros(len(scores), np.int64)
        chosen = np.flatnonzero(np.take_along_axis(scores, best[:, None], 1)[:, 0] > least)
        labels, values = best[chosen], scores[chosen, best[chosen]]
    if len(chosen) > MOST_CANDIDATES:
        top = np.argsort(-values, kind="stable")[:MOST_CANDIDATES]
        chosen, labels, values = chosen[top], labels[top], values[top]
    boxes = np.asarray(image.boxes)[chosen]
    return boxes.astype(np.float64), values.astype(np.float64), labels.astype(np.int64)


def _without_doubles(
    corners: Floats, scores: Floats, labels: NDArray[np.int64], found: Suggested, batch: Detections
) -> NDArray[np.int64]:
    most = int(number(batch.settings, "max_det"))
    how = batch.told("nms") or ("off" if found.suppressed else "class")
    if how == "off":
        return np.argsort(-scores, kind="stable")[:most]
    told = batch.told("iou")
    iou = found.iou if told is None else float(told)
    apart = labels if how == "class" else None
    return suppress(corners, scores, classes=apart, iou=iou, most=most)


def _scale(found: Suggested, batch: Detections) -> Floats:
    """Tell what coordinates are multiplied by: fractions of the input become its pixels."""
    told = batch.told("box_scale")
    fractions = found.fractions if told is None else told == "fraction"
    if fractions is None:
        fractions = all(are_fractions(np.asarray(image.boxes)) for image in found.images)
    high, wide = batch.target if fractions else (1.0, 1.0)
    return np.array([wide, high, wide, high], np.float64)


def _corners(boxes: Floats, order: str) -> Floats:
    if order == "xyxy":
        return boxes
    if order == "yxyx":
        return boxes[:, [1, 0, 3, 2]]
    low = boxes[:, :2] - boxes[:, 2:] / 2 if order == "cxcywh" else boxes[:, :2]
    return np.concatenate([low, low + boxes[:, 2:]], axis=1)


def _in_image(rows: Floats, item: Loaded) -> Floats:
    """Undo how the image was put into the input, and cut boxes off at its edges."""
    assert item.geometry is not None
    high, wide = item.pixels.shape[:2]
    x, y = item.geometry.undo(rows[:, [0, 2]], rows[:, [1, 3]])
    x, y = np.clip(x, 0, wide), np.clip(y, 0, high)
    return np.column_stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1], rows[:, 4], rows[:, 5]])
