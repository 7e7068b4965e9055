"""Which family of detectors outputs are of, told by names and shapes, and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UsageError, near_miss
from trtbench.tasks._candidates import (
    FRACTIONS,
    Candidates,
    Detections,
    Suggested,
    corners_or_centres,
)
from trtbench.tasks._heads import anchor_free, anchored, fits_anchor_free, fits_anchored
from trtbench.tasks._hook import found_by_hook

MOST_ROWS = 1000
"""More rows of six numbers than this are no list of finished boxes."""
STRIDES = ((8, 16, 32), (8, 16, 32, 64))
NOTHING = 0.005
"""Logits and probabilities are mostly below, coordinates seldom."""
MASKS = 32
"""Values per box, and channels of another output, that a segmenting network has beside boxes."""


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """One family of detectors."""

    name: str
    expects: str
    fits: Callable[[Detections], bool]
    read: Callable[[Detections], Suggested]


def choose_decoder(batch: Detections) -> int:
    """The place of the decoder that was asked for, or of the one that fits."""
    asked = batch.told("decoder")
    names = [each.name for each in DECODERS]
    if asked is not None and ":" in str(asked):
        return names.index(HOOK)
    if asked is not None:
        if asked not in names[:-1]:
            guess = near_miss(str(asked), names)
            raise UsageError(
                f"there is no decoder {asked!r}",
                facts={"known": ", ".join(names[:-1]), "own": "FILE.py:FUNCTION"},
                fix=f"did you mean {guess}?" if guess else None,
            )
        place = names.index(str(asked))
        if not DECODERS[place].fits(batch):
            raise InputError(
                f"the outputs are not those of {asked}: {DECODERS[place].expects}",
                facts=_shapes(batch),
                fix="leave --decoder out, or write one: --decoder FILE.py:FUNCTION",
            )
        return place
    fitting = [place for place, each in enumerate(DECODERS) if each.fits(batch)]
    if not fitting or (batch.classes is None and len(fitting) > 1 and fitting[0] >= _HEADS):
        raise InputError(
            "no decoder fits the outputs" if not fitting else "several decoders fit the outputs",
            facts={**_shapes(batch), **{
                f"tried {each.name}": each.expects for each in DECODERS[:-1]
            }},
            fix="--decoder NAME, or your own: --decoder FILE.py:FUNCTION (docs/eval.md)",
        )  # fmt: skip
    return fitting[0]


def _shapes(batch: Detections) -> dict[str, str]:
    return {
        f"output {name}": f"{array.dtype} {'x'.join(map(str, array.shape))}"
        for name, array in batch.arrays.items()
    }


@dataclass(frozen=True, kw_only=True)
class _Lists:
    """Boxes with a score and a label each, as TensorRT's plug-ins and others hand them out."""

    boxes: AnyArray
    scores: AnyArray
    labels: AnyArray
    counts: AnyArray | None


def _lists(batch: Detections) -> _Lists | None:
    items = len(batch.items)
    wide = [a for a in map(_narrow, batch.arrays.values()) if a.shape[-1:] == (4,) and a.ndim > 1]
    if len(wide) != 1:
        return None
    boxes = wide[0].reshape(items, -1, 4)
    rest = {name: array for name, array in batch.arrays.items() if array.shape[-1:] != (4,)}
    flat = {name: array.reshape(items, -1) for name, array in rest.items() if array.ndim <= 3}
    counts = next((n for n, a in flat.items() if a.shape[1] == 1 and _is_count(n, boxes)), None)
    single = {n: a for n, a in flat.items() if n != counts and a.shape[1] == boxes.shape[1]}
    if len(single) != 2 or len(rest) > 3:
        return None
    labels = _labels_name(single)
    [scores] = [name for name in single if name != labels]
    return _Lists(
        boxes=boxes,
        scores=single[scores],
        labels=single[labels],
        counts=None if counts is None else flat[counts][:, 0],
    )


def _is_count(name: str, boxes: AnyArray) -> bool:
    return "num" in name.lower() or boxes.shape[1] != 1


def _labels_name(single: dict[str, AnyArray]) -> str:
    """Which of two lists holds classes: whole numbers, or so called."""
    whole = [name for name, array in single.items() if array.dtype.kind in "iu"]
    named = [n for n in single if any(word in n.lower() for word in ("class", "label", "cls"))]
    counting = [n for n, a in single.items() if np.equal(np.mod(a, 1), 0).all()]
    for chosen in (whole, named, counting):
        if len(chosen) == 1:
            return chosen[0]
    return list(single)[1]


def _read_lists(batch: Detections) -> Suggested:
    lists = _lists(batch)
    assert lists is not None
    images = []
    for place in range(len(batch.items)):
        count = None if lists.counts is None else max(0, int(np.nan_to_num(lists.counts[place])))
        part = slice(0, count)
        images.append(
            Candidates(
                boxes=lists.boxes[place][part],
                scores=lists.scores[place][part],
                labels=lists.labels[place][part],
            )
        )
    return Suggested(images=images, order=corners_or_centres(images), suppressed=True)


def _boxes_and_scores(batch: Detections) -> tuple[str, AnyArray, AnyArray] | None:
    """Two outputs with as many rows: boxes, and scores of all classes."""
    arrays = {name: _narrow(array) for name, array in batch.arrays.items()}
    flat = {name: array for name, array in arrays.items() if array.ndim == 3}
    boxes = [name for name, array in flat.items() if array.shape[2] == 4]
    # Scores of four classes are as wide as boxes: a name tells, then that most scores are nothing.
    boxes.sort(key=lambda name: ("box" not in name.lower(), float((flat[name] < NOTHING).mean())))
    for name in boxes:
        for other, array in flat.items():
            if other != name and array.shape[1] == flat[name].shape[1] and array.shape[2] > 1:
                return other, flat[name], array
    return None


def _are_logits(name: str, scores: AnyArray) -> bool:
    return "logit" in name.lower() or float(scores.min()) < 0 or float(scores.max()) > 1


def _fits_detr(batch: Detections) -> bool:
    found = _boxes_and_scores(batch)
    return found is not None and _are_logits(found[0], found[2])


def _read_detr(batch: Detections) -> Suggested:
    """Queries: normalised boxes and logits, with a class for nothing where they are a softmax."""
    found = _boxes_and_scores(batch)
    assert found is not None
    _, boxes, logits = found
    how = batch.told("activation") or _activation(batch, logits.shape[2])
    likely = _activated(logits, str(how))
    kept = _without_background(likely, batch, "last" if how == "softmax" else "none")
    images = [Candidates(boxes=b, scores=s) for b, s in zip(boxes, kept, strict=True)]
    return Suggested(
        images=images, order="cxcywh", suppressed=True, several=how != "softmax",
        classes=kept.shape[2], fractions=True,
    )  # fmt: skip


def _activation(batch: Detections, classes: int) -> str:
    """Softmax has one class more, for nothing; a sigmoid has as many as there are."""
    if batch.classes is None or batch.highest is None:
        return "sigmoid"
    return "softmax" if classes in (batch.classes + 1, batch.highest + 1) else "sigmoid"


def _fits_ssd(batch: Detections) -> bool:
    found = _boxes_and_scores(batch)
    return found is not None and not _are_logits(found[0], found[2])


def _read_ssd(batch: Detections) -> Suggested:
    """Boxes that are decoded already, and probabilities, perhaps one for the background."""
    found = _boxes_and_scores(batch)
    assert found is not None
    _, boxes, scores = found
    likely = _activated(scores, str(batch.told("activation") or "none"))
    more = batch.classes is not None and likely.shape[2] == batch.classes + 1
    likely = _without_background(likely, batch, "first" if more else "none")
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


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One output that holds everything about a box in a row."""

    kind: str
    rows: AnyArray
    """[batch, boxes, values]"""


def _table(batch: Detections, kind: str | None = None) -> _Table | None:
    """Find the table among the outputs, and whose it is; or take it for that of a kind."""
    extra = MASKS if any(a.ndim == 4 and a.shape[1] == MASKS for a in batch.arrays.values()) else 0
    for array in map(_narrow, batch.arrays.values()):
        if array.ndim != 3 or array.dtype.kind != "f":
            continue
        own, axis = _kind(batch, array.shape, extra)
        if own is None or (kind is not None and not _may_be(kind, array.shape, axis)):
            continue
        rows = array if axis == 2 else array.transpose(0, 2, 1)
        cut = rows.shape[2] - (extra if own != "end2end" else 0)
        if own == "yolov8" and axis == 2 and rows.shape[1] <= MOST_ROWS and _small(rows):
            own = "queries"  # a grid has its boxes in pixels
        return _Table(kind=kind or own, rows=rows[..., :cut])
    return None


def _may_be(kind: str, shape: tuple[int, ...], axis: int) -> bool:
    least = {"end2end": 6, "yolov8": 5, "queries": 5, "yolov5": 6}[kind]
    return shape[axis] >= least if kind != "end2end" else shape[2] == least


def _kind(batch: Detections, shape: tuple[int, ...], extra: int) -> tuple[str | None, int]:
    """Whose table has such a shape, and along which axis the values of a box lie.

    The number of boxes tells where it is that of the grids; then the number of classes, then which
    side is longer: YOLOv8 lays values down, YOLOv5 across.
    """
    grids = {
        times * sum((batch.target[0] // s) * (batch.target[1] // s) for s in strides): times
        for strides in STRIDES
        for times in (1, 3)
    }
    if shape[2] == 6 and shape[1] not in grids and shape[1] <= MOST_ROWS:
        return "end2end", 2
    sides = ((1, shape[2], shape[1] - extra), (2, shape[1], shape[2] - extra))
    for axis, boxes, values in sides:
        if boxes in grids and values > 4:
            objectness = grids[boxes] == 3 or (axis == 2 and values - 5 == batch.classes)
            return ("yolov5" if objectness else "yolov8"), axis
    for axis, _, values in sides:
        if batch.classes is not None and values - batch.classes in (4, 5):
            return ("yolov8" if values - batch.classes == 4 else "yolov5"), axis
    if 4 < shape[1] < shape[2]:
        return "yolov8", 1
    return ("yolov5", 2) if 5 < shape[2] < shape[1] else (None, 0)


def _fits_table(kind: str) -> Callable[[Detections], bool]:
    def fits(batch: Detections) -> bool:
        asked = str(batch.told("decoder")) == kind
        table = _table(batch, kind if asked else None)
        return table is not None and table.kind == kind

    return fits


def _rows_of(batch: Detections, kind: str) -> AnyArray:
    table = _table(batch, kind)
    assert table is not None
    return table.rows


def _read_end2end(batch: Detections) -> Suggested:
    rows = _rows_of(batch, "end2end")
    images = [Candidates(boxes=r[:, :4], scores=r[:, 4], labels=r[:, 5]) for r in rows]
    return Suggested(images=images, order=corners_or_centres(images), suppressed=True)


def _read_yolov8(batch: Detections) -> Suggested:
    rows = _rows_of(batch, "yolov8")
    images = [Candidates(boxes=row[:, :4], scores=row[:, 4:]) for row in rows]
    return Suggested(images=images, order="cxcywh", iou=0.7, classes=rows.shape[2] - 4)


def _read_queries(batch: Detections) -> Suggested:
    rows = _rows_of(batch, "queries")
    images = [Candidates(boxes=row[:, :4], scores=row[:, 4:]) for row in rows]
    return Suggested(
        images=images, order="cxcywh", suppressed=True, classes=rows.shape[2] - 4, fractions=True
    )


def _read_yolov5(batch: Detections) -> Suggested:
    rows = _rows_of(batch, "yolov5")
    images = []
    least = float(batch.settings.get("conf") or 0.0)
    for row in rows:
        likely = row[row[:, 4] > least]
        images.append(Candidates(boxes=likely[:, :4], scores=likely[:, 5:] * likely[:, 4:5]))
    return Suggested(
        images=images, order="cxcywh", iou=0.6, classes=rows.shape[2] - 5, fractions=_small(rows)
    )


def _small(rows: AnyArray) -> bool:
    """Whether all boxes of a table are fractions; the likely ones alone may be few and small."""
    return bool(np.abs(rows[..., :4]).max(initial=0.0) < FRACTIONS)


def _narrow(array: AnyArray) -> AnyArray:
    """[batch, boxes, 1, 4] and the like, without the one."""
    return array[:, :, 0] if array.ndim == 4 and array.shape[2] == 1 else array


HOOK = "own"

DECODERS = (
    Decoder(
        name="nms-lists",
        expects="boxes [batch, n, 4], scores [batch, n], classes [batch, n], and perhaps a count "
        "(EfficientNMS, BatchedNMS, RT-DETR with its own postprocessing)",
        fits=lambda batch: _lists(batch) is not None,
        read=_read_lists,
    ),
    Decoder(
        name="detr",
        expects="boxes [batch, queries, 4] and logits [batch, queries, classes]",
        fits=_fits_detr,
        read=_read_detr,
    ),
    Decoder(
        name="ssd",
        expects="boxes [batch, n, 4] and probabilities [batch, n, classes]",
        fits=_fits_ssd,
        read=_read_ssd,
    ),
    Decoder(
        name="end2end",
        expects="[batch, n, 6]: x0, y0, x1, y1, score, class (YOLOv10, NMS in the graph)",
        fits=_fits_table("end2end"),
        read=_read_end2end,
    ),
    Decoder(
        name="queries",
        expects="[batch, queries, 4 + classes], boxes as fractions (RT-DETR of Ultralytics)",
        fits=_fits_table("queries"),
        read=_read_queries,
    ),
    Decoder(
        name="yolov8",
        expects="[batch, 4 + classes, n], or transposed (YOLOv8, 9, 11, 12)",
        fits=_fits_table("yolov8"),
        read=_read_yolov8,
    ),
    Decoder(
        name="yolov5",
        expects="[batch, n, 5 + classes], with objectness (YOLOv5, 6, 7)",
        fits=_fits_table("yolov5"),
        read=_read_yolov5,
    ),
    Decoder(
        name="yolov8-heads",
        expects="three grids [batch, 64 + classes, height, width], or sides and classes apart",
        fits=fits_anchor_free,
        read=anchor_free,
    ),
    Decoder(
        name="yolov5-heads",
        expects="three grids [batch, 3, height, width, 5 + classes], or [batch, 3 (5 + classes), "
        "height, width]",
        fits=fits_anchored,
        read=anchored,
    ),
    Decoder(name=HOOK, expects="a function", fits=lambda batch: False, read=found_by_hook),
)
_HEADS = [each.name for each in DECODERS].index("yolov8-heads")
