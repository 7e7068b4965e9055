"""Finished boxes: lists of boxes, scores and classes, or rows that hold all three.

TensorRT's plug-ins, torchvision, TensorFlow and mmdeploy hand out lists; YOLOv10, YOLOv7 with NMS
in the graph, PaddleDetection and SSDs rows, each with its columns in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.tasks._candidates import Candidates, Detections, Order, Suggested, corners_or_centres

MOST_ROWS = 1000
"""More boxes than this, without a count, are those before doubles were dropped."""
MASKS = 32
"""Values per box, and channels of another output, that a segmenting network has beside boxes."""
ROW = 6
"""Four sides, a score and a class; a row of one more begins with the number of its image."""
COLUMNS = (((0, 1, 2, 3), 4, 5), ((2, 3, 4, 5), 1, 0), ((0, 1, 2, 3), 5, 4))
"""Where the box, the score and the class of a row stand: most; Paddle and SSDs; YOLOv7."""
TENSORFLOW = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")


@dataclass(frozen=True, kw_only=True)
class Lists:
    """Boxes with a score and a label each."""

    boxes: AnyArray
    scores: AnyArray
    labels: AnyArray
    counts: AnyArray | None
    order: Order | None = None
    """Of coordinates, where names tell."""


def narrow(array: AnyArray) -> AnyArray:
    """Drop the one of [batch, boxes, 1, 4] and the like."""
    return array[:, :, 0] if array.ndim == 4 and array.shape[2] == 1 else array


def finished_lists(batch: Detections) -> Lists | None:
    """Find boxes, scores and classes among the outputs, and perhaps how many of them count."""
    items = len(batch.items)
    arrays, tensorflow = _answer({name: narrow(each) for name, each in batch.arrays.items()})
    name = _boxes_name(arrays)
    if name is None or len(arrays) > 4:
        return None
    width = arrays[name].shape[-1]
    boxes = arrays[name].reshape(items, -1, width)
    flat = {n: a.reshape(items, -1) for n, a in arrays.items() if n != name and a.ndim <= 3}
    counts = next((n for n, a in flat.items() if a.shape[1] == 1 and _is_count(n, boxes)), None)
    single = {n: a for n, a in flat.items() if n != counts and a.shape[1] == boxes.shape[1]}
    if len(single) != (2 if width == 4 else 1):
        return None
    labels = _labels_name(single) if width == 4 else next(iter(single))
    scores = [array for own, array in single.items() if own != labels] or [boxes[..., 4]]
    return Lists(
        boxes=boxes[..., :4], scores=scores[0], labels=single[labels],
        counts=None if counts is None else flat[counts][:, 0],
        order="yxyx" if tensorflow else None,
    )  # fmt: skip


def _answer(arrays: dict[str, AnyArray]) -> tuple[dict[str, AnyArray], bool]:
    """Leave raw boxes aside that TensorFlow's detectors hand out too; tell whether they are its.

    Others use the same names: ``:0``, or raw boxes beside them, are TensorFlow's own.
    """
    bare = {name: name.split("/")[-1].split(":")[0] for name in arrays}
    named = {name: arrays[name] for name, end in bare.items() if end in TENSORFLOW}
    if len(named) < 3 or TENSORFLOW[0] not in bare.values():
        return arrays, False
    own = any(":" in name for name in named) or "raw_detection_boxes" in bare.values()
    return named, own


def _boxes_name(arrays: Mapping[str, AnyArray]) -> str | None:
    """Find the output of four or five values per box; scores of four boxes have none per box."""
    for width in (4, 5):
        wide = {n: a for n, a in arrays.items() if a.ndim > 1 and a.shape[-1] == width}
        deep = [name for name, array in wide.items() if array.ndim > 2]
        found = deep or (list(wide) if width == 4 else [])
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _is_count(name: str, boxes: AnyArray) -> bool:
    return "num" in name.lower() or boxes.shape[1] != 1


def _labels_name(single: Mapping[str, AnyArray]) -> str:
    """Tell which of two lists holds classes: whole numbers, or so called."""
    whole = [name for name, array in single.items() if array.dtype.kind in "iu"]
    named = [n for n in single if any(word in n.lower() for word in ("class", "label", "cls"))]
    counting = [n for n, a in single.items() if np.equal(np.mod(a, 1), 0).all()]
    for chosen in (whole, named, counting):
        if len(chosen) == 1:
            return chosen[0]
    return list(single)[1]


def read_lists(batch: Detections) -> Suggested:
    """Take the boxes that count."""
    lists = finished_lists(batch)
    assert lists is not None
    images = []
    for place in range(len(batch.items)):
        part = slice(0, _limit(lists.counts, place))
        images.append(
            Candidates(
                boxes=lists.boxes[place][part],
                scores=lists.scores[place][part],
                labels=lists.labels[place][part],
            )
        )
    suppressed = lists.counts is not None or lists.boxes.shape[1] <= MOST_ROWS
    order = lists.order or corners_or_centres(images)
    return Suggested(images=images, order=order, suppressed=suppressed)


def _limit(counts: AnyArray | None, place: int) -> int | None:
    return None if counts is None else max(0, int(np.nan_to_num(counts[place])))


def masks_beside(batch: Detections) -> int:
    """Tell how many values of a box are about its mask."""
    return MASKS if any(a.ndim == 4 and a.shape[1] == MASKS for a in batch.arrays.values()) else 0


def finished_rows(batch: Detections, grids: Mapping[int, int]) -> AnyArray | None:
    """Find [batch, n, 6], or with the number of the image [batch, n, 7], among the outputs."""
    for array in batch.arrays.values():
        if array.dtype.kind != "f" or array.ndim < 2:
            continue
        rows = array.reshape(len(batch.items), -1, array.shape[-1])
        width = rows.shape[2]
        if width == ROW + 1 and _numbers_images(rows, len(batch.items)):
            if rows.shape[1] not in grids:
                return rows
        elif width in {ROW, ROW + masks_beside(batch)} and array.ndim < 4:
            few = rows.shape[1] not in grids and rows.shape[1] <= MOST_ROWS
            # As many rows as places of the grids are a YOLO's of one or two classes, or finished.
            if few or batch.told("decoder") or batch.classes not in (None, 1, 2):
                return rows[..., :ROW]
    return None


def _numbers_images(rows: AnyArray, items: int) -> bool:
    first = rows[..., 0]
    return bool((np.isin(first, np.arange(-1, items))).all())


def read_rows(batch: Detections, grids: Mapping[int, int]) -> Suggested:
    """Take the rows of every image, by its number, by how many it has, or by its place."""
    rows = finished_rows(batch, grids)
    assert rows is not None
    items, counts = len(batch.items), _counts(batch)
    width = rows.shape[2]
    flat = rows.reshape(-1, width)
    arranged = _arranged(flat[:, width - ROW :])
    if width > ROW:
        whole = counts is None or counts.sum() == len(flat)
        cut = np.ones(len(flat), bool) if whole else _before(counts, rows.shape[1])
        own = [arranged[cut & (flat[:, 0] == place)] for place in range(items)]
    elif counts is not None and items > 1 and counts.sum() == len(flat):
        own = np.split(arranged, np.cumsum(counts)[:-1].astype(int))
    else:
        by_image = arranged.reshape(items, -1, ROW)
        own = [by_image[place][: _limit(counts, place)] for place in range(items)]
    images = [Candidates(boxes=r[:, :4], scores=r[:, 4], labels=r[:, 5]) for r in own]
    suppressed = counts is not None or rows.shape[1] <= MOST_ROWS
    return Suggested(images=images, order=corners_or_centres(images), suppressed=suppressed)


def _before(counts: AnyArray | None, each: int) -> NDArray[np.bool_]:
    """Tell which of as many rows for each image stand before the end of what counts."""
    assert counts is not None
    return np.asarray((np.arange(each)[None] < counts[:, None]).reshape(-1))


def _counts(batch: Detections) -> AnyArray | None:
    """Find one whole number for each image among the outputs."""
    for array in batch.arrays.values():
        if array.size == len(batch.items) and array.shape[-1:] != (ROW,):
            values = array.reshape(-1)
            if (values >= 0).all() and not np.mod(values, 1).any():
                return values
    return None


def _arranged(rows: AnyArray) -> AnyArray:
    """Bring columns into the order box, score, class: scores are at most one, classes whole."""
    told = rows[np.isfinite(rows).all(axis=1)]
    for box, score, label in COLUMNS:
        likely, classes = told[:, score], told[:, label]
        if ((likely >= 0) & (likely <= 1)).all() and not np.mod(classes, 1).any():
            return rows[:, [*box, score, label]]
    return rows
