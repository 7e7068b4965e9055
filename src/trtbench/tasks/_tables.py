"""Tables: one output with a row for every place of a YOLO's grids, its box and its scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError
from trtbench.tasks._candidates import Candidates, Detections, Suggested, are_fractions
from trtbench.tasks._heads import grid_places
from trtbench.tasks._lists import MOST_ROWS, masks_beside, narrow

STRIDES = ((8, 16, 32), (8, 16, 32, 64))
COCO = 80
LEAST = {"yolov8": 5, "queries": 5, "yolov5": 6, "yolox": 6}
"""Values of a box at least."""


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One output that holds everything about a box in a row."""

    kind: str
    rows: AnyArray
    """[batch, boxes, values]"""


def _table(batch: Detections, kind: str | None = None) -> _Table | None:
    """Find the table among the outputs, and whose it is; or take it for that of a kind."""
    extra = masks_beside(batch)
    found: dict[str, _Table] = {}
    for name, array in ((n, narrow(a)) for n, a in batch.arrays.items()):
        if array.ndim != 3 or array.dtype.kind != "f":
            continue
        own, axis = _kind(batch, array, extra)
        if own is None or (kind is not None and array.shape[axis] < LEAST[kind]):
            continue
        rows = array if axis == 2 else array.transpose(0, 2, 1)
        rows = rows[..., : rows.shape[2] - extra]
        found[name] = _Table(kind=kind or _refined(own, axis, rows, batch), rows=rows)
    first = next(iter(found.values()), None)
    same = [name for name, each in found.items() if first and each.rows.shape == first.rows.shape]
    if len(same) > 1:
        raise InputError(
            f"{len(same)} outputs could hold the boxes", facts=batch.shapes(),
            fix=f"--read-output {same[-1]}, or another (of YOLOv9 with auxiliary heads, the last)",
        )  # fmt: skip
    return first


def _refined(kind: str, axis: int, rows: AnyArray, batch: Detections) -> str:
    """Tell tables of one shape apart by what they hold: a grid has its boxes in pixels."""
    if axis != 2:
        return kind
    few = rows.shape[1] <= MOST_ROWS and (kind == "yolov8" or batch.classes is None)
    if few and are_fractions(rows):
        return "queries"
    boxes = rows[..., :4][np.isfinite(rows[..., :4]).all(axis=2)]
    sizes, centres = boxes[:, 2:], boxes[:, :2]
    inside = float(centres.max(initial=0.0)) < min(batch.target) / 4
    on_grid = grids(batch).get(rows.shape[1]) == 1
    return "yolox" if on_grid and inside and bool((sizes < 0).any()) else kind


def grids(batch: Detections) -> dict[int, int]:
    """Tell how many boxes the grids of an input have, and how many in each place."""
    return {times * boxes: times for times in (1, 3) for boxes in _strides(batch)}


def _strides(batch: Detections) -> dict[int, tuple[int, ...]]:
    high, wide = batch.target
    return {sum((high // s) * (wide // s) for s in strides): strides for strides in STRIDES}


def _kind(batch: Detections, array: AnyArray, extra: int) -> tuple[str | None, int]:
    """Tell whose table this is, and along which axis the values of a box lie.

    The number of boxes tells where it is that of the grids; then the number of classes, then which
    side is longer: YOLOv8 lays values down, YOLOv5 across.
    """
    known, shape = grids(batch), array.shape
    sides = ((1, shape[2], shape[1] - extra), (2, shape[1], shape[2] - extra))
    for axis, boxes, values in sides:
        if boxes in known and values > 4:
            objectness = known[boxes] == 3 or (axis == 2 and _has_objectness(batch, array, values))
            return ("yolov5" if objectness and values > 5 else "yolov8"), axis
    for axis, _, values in sides:
        if batch.classes is not None and values - batch.classes in (4, 5):
            return ("yolov8" if values - batch.classes == 4 else "yolov5"), axis
    if 4 < shape[1] < shape[2]:
        return "yolov8", 1
    return ("yolov5", 2) if 5 < shape[2] < shape[1] else (None, 0)


def _has_objectness(batch: Detections, array: AnyArray, values: int) -> bool:
    """Say whether a score of any object comes before the classes': by number, or by values.

    YOLOv6 says 1 everywhere; of unknown classes COCO's 80 are the likely ones.
    """
    if batch.classes is not None:
        return values - 5 == batch.classes
    return values - 5 == COCO or bool((array[..., 4] == 1).all())


def fits_table(kind: str) -> Callable[[Detections], bool]:
    """Make the question whether outputs are a table of a kind."""

    def fits(batch: Detections) -> bool:
        asked = str(batch.told("decoder")) == kind
        table = _table(batch, kind if asked else None)
        return table is not None and table.kind == kind

    return fits


def _rows_of(batch: Detections, kind: str) -> AnyArray:
    table = _table(batch, kind)
    assert table is not None
    return table.rows


def read_yolov8(batch: Detections) -> Suggested:
    """Read centres, sizes, and a score for every class."""
    rows = _rows_of(batch, "yolov8")
    images = [Candidates(boxes=row[:, :4], scores=row[:, 4:]) for row in rows]
    return Suggested(images=images, order="cxcywh", iou=0.7, classes=rows.shape[2] - 4)


def read_queries(batch: Detections) -> Suggested:
    """Read the same in parts of the input, and without doubles."""
    rows = _rows_of(batch, "queries")
    images = [Candidates(boxes=row[:, :4], scores=row[:, 4:]) for row in rows]
    return Suggested(
        images=images, order="cxcywh", suppressed=True, classes=rows.shape[2] - 4, fractions=True
    )


def read_yolov5(batch: Detections) -> Suggested:
    """Read centres, sizes, a score of any object, and of every class."""
    rows = _rows_of(batch, "yolov5")
    return _with_objectness(rows, batch, iou=0.6, fractions=are_fractions(rows))


def read_yolox(batch: Detections) -> Suggested:
    """Read distances from the places of the grids, and logarithms of sizes, both in strides."""
    rows = _rows_of(batch, "yolox").astype(np.float64)
    high, wide = batch.target
    strides = _strides(batch).get(rows.shape[1])
    if strides is None:
        raise InputError(
            f"{rows.shape[1]} boxes are not those of the grids of an input of {high}x{wide}",
            facts=batch.shapes(),
        )
    places = [grid_places(high // s, wide // s).reshape(-1, 2) for s in strides]
    stride = np.repeat(strides, [len(each) for each in places])[:, None]
    rows[..., :2] = (rows[..., :2] + np.concatenate(places)) * stride
    rows[..., 2:4] = np.exp(np.minimum(rows[..., 2:4], 20)) * stride
    return _with_objectness(rows, batch, iou=0.65, fractions=False)


def _with_objectness(
    rows: AnyArray, batch: Detections, *, iou: float, fractions: bool
) -> Suggested:
    images = []
    least = float(batch.settings.get("conf") or 0.0)
    for row in rows:
        likely = row[row[:, 4] > least]
        images.append(Candidates(boxes=likely[:, :4], scores=likely[:, 5:] * likely[:, 4:5]))
    return Suggested(
        images=images, order="cxcywh", iou=iou, classes=rows.shape[2] - 5, fractions=fractions
    )
