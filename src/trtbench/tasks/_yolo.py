"""Outputs of YOLOv8-pose and its kin: boxes, scores and key points, with or without suppression.

A prediction is the centre and size of a box, a score, and x, y and confidence of every point. A
network that drops doubles itself gives corners, a score, a class and the points instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.detection import corners_from_centres, suppress
from trtbench.analysis.pose import People
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.errors import InputError
from trtbench.tasks._images import Loaded
from trtbench.tasks.contract import Settings, number
from trtbench.units import text_from_shape

COCO_VALUES = (56, 57)
"""Values of a prediction with COCO's 17 points, raw and with a class."""


def people_from_outputs(
    outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings
) -> Arrays:
    """Decode boxes, scores and key points, drop doubles, and undo the letterbox.

    Rows are padded to the same number of people, those that do not exist with score -1.
    """
    rows = _predictions(outputs)
    found = [_people(each, item, settings) for each, item in zip(rows, loaded, strict=True)]
    most = int(number(settings, "max_people"))
    points = found[0].shape[1] - 5
    padded = np.full((len(found), most, points + 5), -1.0, np.float32)
    for row, people in enumerate(found):
        padded[row, : len(people)] = people[:most]
    return {"people": padded}


def _predictions(outputs: Arrays) -> AnyArray:
    """Find [batch, predictions, values] among the outputs."""
    for output in outputs.values():
        rows = np.asarray(output)
        if rows.ndim != 3:
            continue
        across, along = rows.shape[1], rows.shape[2]
        if along in COCO_VALUES:
            return np.asarray(rows, np.float64)
        raw = across > 5 and (across - 5) % 3 == 0
        if raw and (across in COCO_VALUES or across < along):
            return np.asarray(rows.transpose(0, 2, 1), np.float64)
        if along > 6 and (along - 5) % 3 in (0, 1):
            return np.asarray(rows, np.float64)
    raise InputError(
        "no output looks like those of YOLOv8-pose: [batch, 5 + 3 points, predictions]",
        facts={name: text_from_shape(each.shape) for name, each in outputs.items()},
    )


def _people(rows: AnyArray, item: Loaded, settings: Settings) -> NDArray[np.float64]:
    """Score, box (x, y, width, height) and points of the people in one image."""
    suppressed = (rows.shape[1] - 6) % 3 == 0  # corners, score, class: the network did it
    score = rows[:, 4]
    rows = rows[score >= number(settings, "conf")]
    rows = rows[np.isfinite(rows).all(axis=1)]
    boxes = rows[:, :4] if suppressed else corners_from_centres(rows)
    most = int(number(settings, "max_people"))
    order = (
        np.argsort(-rows[:, 4], kind="stable")[:most]
        if suppressed
        else suppress(boxes, rows[:, 4], iou=number(settings, "iou"), most=most)
    )
    rows, boxes = rows[order], boxes[order]
    values = rows.shape[1] - (6 if suppressed else 5)
    # The number of points is spelled out: numpy cannot guess it where nobody was found.
    points = rows[:, -values:].reshape(len(rows), values // 3, 3).copy()
    assert item.geometry is not None
    high, wide = item.pixels.shape[:2]  # where people end, too, as Ultralytics has it
    x, y = item.geometry.undo(points[..., 0], points[..., 1])
    points[..., 0], points[..., 1] = np.clip(x, 0, wide), np.clip(y, 0, high)
    x, y = item.geometry.undo(boxes[:, 0::2], boxes[:, 1::2])
    x, y = np.clip(x, 0, wide), np.clip(y, 0, high)
    box = np.stack([x[:, 0], y[:, 0], x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]], axis=1)
    flat = points.reshape(len(rows), values)
    return np.concatenate([rows[:, 4:5], box, flat], axis=1)


def people_from_row(row: AnyArray) -> People:
    """Tell what one row of predictions holds."""
    own = row[row[:, 0] >= 0].astype(np.float64)
    boxes = own[:, 1:5]
    nobody = np.zeros(len(own), bool)
    return People(
        keypoints=own[:, 5:].reshape(len(own), (own.shape[1] - 5) // 3, 3),
        boxes=boxes,
        areas=boxes[:, 2] * boxes[:, 3],
        scores=own[:, 0],
        ignored=nobody,
        crowd=nobody,
    )
