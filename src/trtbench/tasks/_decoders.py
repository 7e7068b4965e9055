"""Boxes from the outputs of a detector: which family they are of, and how each is decoded.

A decoded row is x0, y0, x1, y1 in pixels of the image, a score, and the network's class number.
"""

from __future__ import annotations

import functools
import importlib
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.coco import Objects, boxes_from_corners, suppress
from trtbench.core import safety
from trtbench.core.errors import InputError, UsageError, meant
from trtbench.core.run import Scalar
from trtbench.core.samples import AnyArray, Floats
from trtbench.tasks._boxes import DetectionImage, Truth
from trtbench.tasks._images import SHOWN
from trtbench.tasks.contract import Predicted, Settings, number

Order = Literal["xyxy", "yxyx", "cxcywh", "xywh"]
ORDERS: tuple[Order, ...] = ("xyxy", "yxyx", "cxcywh", "xywh")
NO_ORDER = -1
"""Stored in place of an order by batches without a box."""
MOST_CANDIDATES = 30_000
"""Candidates of one image, the best ones, that enter suppression; as Ultralytics validates."""
MOST_ROWS = 1000
"""More boxes than this, without a count, have not been through suppression."""
INSIDE_OUT = 0.05
"""Share of boxes with the second corner before the first from which they are not corners."""
FRACTIONS = 2.0
"""Coordinates below this are fractions of the input, not its pixels."""
MASKS = 32
"""Values per box, and channels of another output, that a segmenting network adds."""
ROW = 6
"""Four sides, a score and a class; a row with one more starts with the index of its image."""
COLUMNS = (((0, 1, 2, 3), 4, 5), ((2, 3, 4, 5), 1, 0), ((0, 1, 2, 3), 5, 4))
"""Columns of box, score and class: most networks; Paddle and SSDs; YOLOv7."""
TENSORFLOW = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
NOTHING = 0.005
"""Logits and probabilities are mostly below this, coordinates seldom."""
COCO = 80
TABLE_VALUES = {"yolov8": 5, "queries": 5, "yolov5": 6, "yolox": 6}
"""Least number of values per box, by kind of table."""


@dataclass(frozen=True, kw_only=True)
class DetectorOutputs:
    """The outputs of one batch, its images, and the settings of the task."""

    arrays: dict[str, AnyArray]
    """[batch, ...]"""
    items: Sequence[DetectionImage]
    settings: Settings

    @property
    def target(self) -> tuple[int, int]:
        """Height and width of the network's input."""
        return self.items[0].target

    @property
    def classes(self) -> int | None:
        """Number of classes in the data."""
        return self.items[0].classes

    def given(self, key: str) -> Scalar:
        """Return a setting; ``None`` where it is left out or ``auto``."""
        value = self.settings.get(key)
        return None if value in (None, "auto") else value

    def shapes(self) -> dict[str, str]:
        """Describe types and shapes of the outputs, for error messages."""
        return {
            f"output {name}": f"{array.dtype} {'x'.join(map(str, array.shape))}"
            for name, array in self.arrays.items()
        }


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Boxes of a batch before suppression, one array per image, and how to go on from there."""

    boxes: Sequence[AnyArray] | AnyArray
    """[candidates, 4]"""
    scores: Sequence[AnyArray] | AnyArray
    """[candidates, classes], or [candidates] with labels."""
    labels: Sequence[AnyArray] | None = None
    order: Order | None = None
    """``None``: corners or centres, whichever the values are."""
    fractions: bool | None = None
    """Whether coordinates are fractions of the input; ``None``: decided by their size."""
    suppressed: bool = False
    """Whether the network has done suppression."""
    iou: float = 0.7
    multi_label: bool = True
    """A box may count for several classes, each with its own score."""
    classes: int | None = None
    """Number of classes of the network, where the outputs show it."""


def box_order(found: Candidates, batch: DetectorOutputs) -> Order:
    """Return the order of coordinates: as set, as the family has it, or as the values show."""
    asked = batch.given("box_format")
    order = next((each for each in ORDERS if each == asked), found.order)
    if order is not None:
        return order
    boxes = np.concatenate([np.asarray(image, np.float64) for image in found.boxes])
    boxes = boxes[np.isfinite(boxes).all(axis=1)]
    inside_out = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    return "cxcywh" if inside_out.sum() > INSIDE_OUT * len(boxes) else "xyxy"


def rows_in_images(found: Candidates, order: Order, batch: DetectorOutputs) -> NDArray[np.float32]:
    """Return the boxes left after threshold and suppression, in pixels of the images.

    [batch, max_det, 6]; rows without a box have score -1.
    """
    least, most = number(batch.settings, "conf"), int(number(batch.settings, "max_det"))
    asked = batch.given("box_scale")
    fractions = found.fractions if asked is None else asked == "fraction"
    if fractions is None:
        fractions = all(_are_fractions(np.asarray(boxes)) for boxes in found.boxes)
    high, wide = batch.target if fractions else (1.0, 1.0)
    nms = batch.given("nms") or ("off" if found.suppressed else "class")
    iou = batch.given("iou")
    filled = np.full((len(batch.items), most, 6), -1.0, np.float32)
    for place, item in enumerate(batch.items):
        labels = None if found.labels is None else found.labels[place]
        boxes, scores, classes = _likely(
            found.boxes[place], found.scores[place], labels, least, found.multi_label
        )
        if order == "yxyx":
            boxes = boxes[:, [1, 0, 3, 2]]
        elif order != "xyxy":
            low = boxes[:, :2] - (boxes[:, 2:] / 2 if order == "cxcywh" else 0)
            boxes = np.concatenate([low, low + boxes[:, 2:]], axis=1)
        boxes = boxes * np.array([wide, high, wide, high], np.float64)
        good = np.isfinite(boxes).all(axis=1) & np.isfinite(scores)
        boxes, scores, classes = boxes[good], scores[good], classes[good]
        if nms == "off":
            kept = np.argsort(-scores, kind="stable")[:most]
        else:
            kept = suppress(
                boxes, scores, classes=classes if nms == "class" else None,
                iou=found.iou if iou is None else float(iou), most=most,
            )  # fmt: skip
        assert item.geometry is not None
        x, y = item.geometry.undo(boxes[kept][:, [0, 2]], boxes[kept][:, [1, 3]])
        x, y = np.clip(x, 0, item.pixels.shape[1]), np.clip(y, 0, item.pixels.shape[0])
        filled[place, : len(kept)] = np.column_stack(
            [x[:, 0], y[:, 0], x[:, 1], y[:, 1], scores[kept], classes[kept]]
        )
    return filled


def _likely(
    boxes: AnyArray, scores: AnyArray, labels: AnyArray | None, least: float, multi_label: bool
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the candidates above the least score, once for each class they may be."""
    if labels is not None:
        chosen = np.flatnonzero(scores > least)
        classes = np.nan_to_num(np.asarray(labels)[chosen], nan=-1).astype(np.int64)
        values = scores[chosen]
    elif multi_label:
        chosen, classes = np.nonzero(scores > least)
        values = scores[chosen, classes]
    else:
        best = scores.argmax(axis=1) if scores.size else np.zeros(len(scores), np.int64)
        chosen = np.flatnonzero(np.take_along_axis(scores, best[:, None], 1)[:, 0] > least)
        classes, values = best[chosen], scores[chosen, best[chosen]]
    if len(chosen) > MOST_CANDIDATES:
        top = np.argsort(-values, kind="stable")[:MOST_CANDIDATES]
        chosen, classes, values = chosen[top], classes[top], values[top]
    return boxes[chosen].astype(np.float64), values.astype(np.float64), classes.astype(np.int64)


def _are_fractions(rows: AnyArray) -> bool:
    boxes = rows[..., :4]
    return bool(np.abs(boxes[np.isfinite(boxes)]).max(initial=0.0) < FRACTIONS)


def _narrow(batch: DetectorOutputs) -> dict[str, AnyArray]:
    """Drop the one of [batch, boxes, 1, 4] and the like."""
    return {
        name: array[:, :, 0] if array.ndim == 4 and array.shape[2] == 1 else array
        for name, array in batch.arrays.items()
    }


def _share(values: AnyArray) -> float:
    return float(values.mean()) if values.size else 0.0


def _sigmoid(values: AnyArray) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values.astype(np.float64), -80, 80))))


def _limit(counts: AnyArray | None, place: int) -> int | None:
    return None if counts is None else max(0, int(np.nan_to_num(counts[place])))


def _read_lists(batch: DetectorOutputs) -> Candidates | None:
    """Boxes, scores and classes in outputs of their own, and perhaps a count of valid ones."""
    arrays, items = _narrow(batch), len(batch.items)
    # TensorFlow's detectors return raw boxes as well. Others use the same names: ``:0`` in one,
    # or the raw boxes, show that they are TensorFlow's.
    bare = {name: name.split("/")[-1].split(":")[0] for name in arrays}
    named = {name: arrays[name] for name, end in bare.items() if end in TENSORFLOW}
    tensorflow = False
    if len(named) >= 3 and TENSORFLOW[0] in bare.values():
        arrays = named
        tensorflow = any(":" in name for name in named) or "raw_detection_boxes" in bare.values()
    # Four or five values per box; scores of four boxes are as wide, but not as deep.
    found: list[str] = []
    for width in (4, 5):
        wide = {n: a for n, a in arrays.items() if a.ndim > 1 and a.shape[-1] == width}
        deep = [name for name, array in wide.items() if array.ndim > 2]
        found = found or deep or (list(wide) if width == 4 else [])
    if len(found) != 1 or len(arrays) > 4:
        return None
    width = arrays[found[0]].shape[-1]
    boxes = arrays[found[0]].reshape(items, -1, width)
    flat = {n: a.reshape(items, -1) for n, a in arrays.items() if n != found[0] and a.ndim <= 3}
    counts = next(
        (name for name, array in flat.items()
         if array.shape[1] == 1 and ("num" in name.lower() or boxes.shape[1] != 1)), None,
    )  # fmt: skip
    single = {n: a for n, a in flat.items() if n != counts and a.shape[1] == boxes.shape[1]}
    if len(single) != (2 if width == 4 else 1):
        return None
    # Classes are integers, or named so, or whole numbers.
    labels = list(single)[-1]
    whole = [name for name, array in single.items() if array.dtype.kind in "iu"]
    called = [n for n in single if any(word in n.lower() for word in ("class", "label", "cls"))]
    counting = [n for n, a in single.items() if np.equal(np.mod(a, 1), 0).all()]
    if width == 4:
        labels = next((names[0] for names in (whole, called, counting) if len(names) == 1), labels)
    others = [array for name, array in single.items() if name != labels]
    scores = others[0] if others else boxes[..., 4]
    valid = None if counts is None else flat[counts][:, 0]
    parts = [slice(0, _limit(valid, place)) for place in range(items)]
    return Candidates(
        boxes=[each[part, :4] for each, part in zip(boxes, parts, strict=True)],
        scores=[each[part] for each, part in zip(scores, parts, strict=True)],
        labels=[each[part] for each, part in zip(single[labels], parts, strict=True)],
        suppressed=counts is not None or boxes.shape[1] <= MOST_ROWS,
        order="yxyx" if tensorflow else None,
    )


def _mask_values(batch: DetectorOutputs) -> int:
    return MASKS if any(a.ndim == 4 and a.shape[1] == MASKS for a in batch.arrays.values()) else 0


def _finished_rows(batch: DetectorOutputs) -> AnyArray | None:
    """Find [batch, n, 6], or with the index of the image [batch, n, 7]."""
    items, grids = len(batch.items), _grids(batch)
    for array in batch.arrays.values():
        if array.dtype.kind != "f" or array.ndim < 2:
            continue
        rows = array.reshape(items, -1, array.shape[-1])
        width, on_grid = rows.shape[2], rows.shape[1] in grids
        if width == ROW + 1 and np.isin(rows[..., 0], np.arange(-1, items)).all():
            if not on_grid:
                return rows
        elif width in {ROW, ROW + _mask_values(batch)} and array.ndim < 4:
            few = not on_grid and rows.shape[1] <= MOST_ROWS
            # As many rows as the grids have cells: a YOLO of one or two classes, or finished.
            if few or batch.given("decoder") or batch.classes not in (None, 1, 2):
                return rows[..., :ROW]
    return None


def _read_rows(batch: DetectorOutputs) -> Candidates | None:
    """Rows of box, score and class, of each image by its index, by a count, or by position."""
    rows = _finished_rows(batch)
    if rows is None:
        return None
    items, (_, each, width) = len(batch.items), rows.shape
    counts = None
    for array in batch.arrays.values():  # one whole number per image
        if array.size == items and array.shape[-1:] != (ROW,):
            values = array.reshape(-1)
            if (values >= 0).all() and not np.mod(values, 1).any():
                counts = values
                break
    flat = rows.reshape(-1, width)
    arranged = flat[:, width - ROW :]
    finite = arranged[np.isfinite(arranged).all(axis=1)]
    for box, score, label in COLUMNS:
        likely, classes = finite[:, score], finite[:, label]
        if ((likely >= 0) & (likely <= 1)).all() and not np.mod(classes, 1).any():
            arranged = arranged[:, [*box, score, label]]
            break
    if width > ROW:
        valid = np.ones(len(flat), bool)
        if counts is not None and counts.sum() != len(flat):
            valid = (np.arange(each)[None] < counts[:, None]).reshape(-1)
        own = [arranged[valid & (flat[:, 0] == place)] for place in range(items)]
    elif counts is not None and items > 1 and counts.sum() == len(flat):
        own = np.split(arranged, np.cumsum(counts)[:-1].astype(int))
    else:
        by_image = arranged.reshape(items, -1, ROW)
        own = [by_image[place][: _limit(counts, place)] for place in range(items)]
    return Candidates(
        boxes=[r[:, :4] for r in own], scores=[r[:, 4] for r in own],
        labels=[r[:, 5] for r in own], suppressed=counts is not None or each <= MOST_ROWS,
    )  # fmt: skip


def _boxes_and_scores(batch: DetectorOutputs) -> tuple[AnyArray, AnyArray, bool] | None:
    """Find boxes and scores of all classes, either way up, and whether scores are logits."""
    flat = {name: array for name, array in _narrow(batch).items() if array.ndim == 3}
    lying = {name: array for name, array in flat.items() if array.shape[2] == 4}
    # Scores of four classes are as wide as boxes: names decide, then that most scores are nothing.
    order = sorted(lying, key=lambda n: ("box" not in n.lower(), _share(lying[n] < NOTHING)))
    standing = {n: a.transpose(0, 2, 1) for n, a in flat.items() if a.shape[1] == 4}
    for name, boxes in [*((n, lying[n]) for n in order), *standing.items()]:
        for other, array in flat.items():
            scores = array if array.shape[1] == boxes.shape[1] else array.transpose(0, 2, 1)
            if other != name and scores.shape[1] == boxes.shape[1]:
                finite = scores[np.isfinite(scores)]
                outside = finite.min(initial=0.0) < 0 or finite.max(initial=0.0) > 1
                return boxes, scores, "logit" in other.lower() or bool(outside)
    return None


def _activated(values: AnyArray, how: Scalar) -> NDArray[np.float64]:
    if how == "sigmoid":
        return _sigmoid(values)
    numbers = values.astype(np.float64)
    if how == "softmax":
        weight = np.exp(numbers - numbers.max(axis=-1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True))
    return numbers


def _without_background(scores: AnyArray, batch: DetectorOutputs, usual: str) -> AnyArray:
    where = batch.given("background") or usual
    return {"first": scores[..., 1:], "last": scores[..., :-1]}.get(str(where), scores)


def _read_detr(batch: DetectorOutputs) -> Candidates | None:
    """Queries: few boxes in fractions, and logits; a softmax has one more class, for nothing."""
    found = _boxes_and_scores(batch)
    if found is None or not found[2]:
        return None
    boxes, logits, _ = found
    few = boxes.shape[1] <= MOST_ROWS and _are_fractions(boxes)
    if not few and batch.given("decoder") != "detr":
        return None
    how, classes = batch.given("activation"), logits.shape[2]
    if how is None and classes >= 2 and classes != batch.classes:
        nothing = _share(logits.argmax(axis=2) == classes - 1)
        more = classes - 1 in (batch.classes, batch.items[0].highest)
        how = "softmax" if nothing > (0.5 if more else 0.9) else None
    how = how or "sigmoid"
    kept = _without_background(
        _activated(logits, how), batch, "last" if how == "softmax" else "none"
    )
    return Candidates(
        boxes=boxes, scores=kept, order="cxcywh", suppressed=True, multi_label=how != "softmax",
        classes=kept.shape[2], fractions=True,
    )  # fmt: skip


def _read_ssd(batch: DetectorOutputs) -> Candidates | None:
    """Decoded boxes and probabilities, perhaps with one for the background."""
    found = _boxes_and_scores(batch)
    if found is None:
        return None
    boxes, scores, logits = found
    likely = _activated(scores, batch.given("activation") or ("sigmoid" if logits else "none"))
    more = batch.classes is not None and likely.shape[2] == batch.classes + 1
    likely = _without_background(likely, batch, "first" if more else "none")
    if not more and batch.given("background") is None and _share(likely[..., 0]) > 0.5:
        likely[..., 0] = 0.0  # the background, where class numbers are ids and none is 0
    return Candidates(boxes=boxes, scores=likely, iou=0.45, classes=likely.shape[2])


def _cells(high: int, wide: int) -> NDArray[np.float64]:
    """Column and row of every cell of a grid: [height, width, 2]."""
    rows, columns = np.mgrid[:high, :wide]
    return np.stack([columns, rows], axis=-1).astype(np.float64)


def _grid_cells(batch: DetectorOutputs) -> dict[int, tuple[int, ...]]:
    """Strides of YOLO's grids by the number of cells they have in this input."""
    high, wide = batch.target
    return {
        sum((high // s) * (wide // s) for s in strides): strides
        for strides in ((8, 16, 32), (8, 16, 32, 64))
    }


def _grids(batch: DetectorOutputs) -> dict[int, int]:
    """Boxes per cell by the number of boxes that grids of the input have."""
    return {times * boxes: times for times in (1, 3) for boxes in _grid_cells(batch)}


def _table(batch: DetectorOutputs, kind: str | None) -> tuple[str, AnyArray] | None:
    """Find the output with one row per grid cell [batch, boxes, values], and its kind.

    With a kind, the output is taken for a table of that kind.
    """
    extra, grids = _mask_values(batch), _grids(batch)
    found: dict[str, tuple[str, AnyArray]] = {}
    for name, array in _narrow(batch).items():
        if array.ndim != 3 or array.dtype.kind != "f":
            continue
        own, axis = _table_kind(batch, array, extra)
        if own is None or (kind is not None and array.shape[axis] < TABLE_VALUES[kind]):
            continue
        rows = array if axis == 2 else array.transpose(0, 2, 1)
        rows = rows[..., : rows.shape[2] - extra]
        if axis == 2 and kind is None:
            # Tables of one shape differ in what they hold: grids have their boxes in pixels.
            few = rows.shape[1] <= MOST_ROWS and (own == "yolov8" or batch.classes is None)
            boxes = rows[..., :4][np.isfinite(rows[..., :4]).all(axis=2)]
            near = float(boxes[:, :2].max(initial=0.0)) < min(batch.target) / 4
            if few and _are_fractions(rows):
                own = "queries"
            elif grids.get(rows.shape[1]) == 1 and near and (boxes[:, 2:] < 0).any():
                own = "yolox"
        found[name] = (kind or own, rows)
    first = next(iter(found.values()), None)
    same = [name for name, (_, rows) in found.items() if first and rows.shape == first[1].shape]
    if len(same) > 1:
        raise InputError(
            f"{len(same)} outputs could hold the boxes", facts=batch.shapes(),
            fix=f"--read-output {same[-1]}, or another (of YOLOv9 with auxiliary heads, the last)",
        )  # fmt: skip
    return first


def _table_kind(batch: DetectorOutputs, array: AnyArray, extra: int) -> tuple[str | None, int]:
    """Return the kind of a table, and the axis along which the values of a box lie.

    Decided by the number of boxes, where the grids have as many; then by the number of classes,
    then by the longer side: YOLOv8 has values down, YOLOv5 across.
    """
    known, shape = _grids(batch), array.shape
    sides = ((1, shape[2], shape[1] - extra), (2, shape[1], shape[2] - extra))
    for axis, boxes, values in sides:
        if boxes in known and values > 4:
            objectness = known[boxes] == 3
            if axis == 2 and not objectness:
                # YOLOv6 has objectness 1 everywhere; of unknown classes COCO's 80 are likely.
                objectness = values - 5 == (batch.classes or COCO) or (
                    batch.classes is None and bool((array[..., 4] == 1).all())
                )
            return ("yolov5" if objectness and values > 5 else "yolov8"), axis
    for axis, _, values in sides:
        if batch.classes is not None and values - batch.classes in (4, 5):
            return ("yolov8" if values - batch.classes == 4 else "yolov5"), axis
    if 4 < shape[1] < shape[2]:
        return "yolov8", 1
    return ("yolov5", 2) if 5 < shape[2] < shape[1] else (None, 0)


def _read_table(kind: str, batch: DetectorOutputs) -> Candidates | None:
    """Centres and sizes of boxes, perhaps objectness, and a score for every class."""
    found = _table(batch, kind if batch.given("decoder") == kind else None)
    if found is None or found[0] != kind:
        return None
    rows = found[1]
    if kind in ("yolov8", "queries"):
        queries = kind == "queries"
        return Candidates(
            boxes=rows[..., :4], scores=rows[..., 4:], order="cxcywh", suppressed=queries,
            fractions=True if queries else None, classes=rows.shape[2] - 4,
        )  # fmt: skip
    fractions = kind == "yolov5" and _are_fractions(rows)
    if kind == "yolox":  # offsets from grid cells, and logarithms of sizes, both in strides
        rows, (high, wide) = rows.astype(np.float64), batch.target
        strides = _grid_cells(batch).get(rows.shape[1])
        if strides is None:
            raise InputError(
                f"{rows.shape[1]} boxes are not those of the grids of an input of {high}x{wide}",
                facts=batch.shapes(),
            )
        places = [_cells(high // s, wide // s).reshape(-1, 2) for s in strides]
        stride = np.repeat(strides, [len(each) for each in places])[:, None]
        rows[..., :2] = (rows[..., :2] + np.concatenate(places)) * stride
        rows[..., 2:4] = np.exp(np.minimum(rows[..., 2:4], 20)) * stride
    least = float(batch.settings.get("conf") or 0.0)
    likely = [row[row[:, 4] > least] for row in rows]
    return Candidates(
        boxes=[row[:, :4] for row in likely], scores=[row[:, 5:] * row[:, 4:5] for row in likely],
        order="cxcywh", iou=0.65 if kind == "yolox" else 0.6, classes=rows.shape[2] - 5,
        fractions=fractions,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DecodedImage:
    """What a user's decoder gets to know about one image."""

    width: int
    height: int
    input_width: int
    input_height: int


_UserDecoder = Callable[[dict[str, AnyArray], list[DecodedImage]], Sequence[AnyArray]]


def _read_by_hook(batch: DetectorOutputs) -> Candidates | None:
    """Call the user's function: x0, y0, x1, y1 in pixels of the input, score, class."""
    name = str(batch.given("decoder"))
    if ":" not in name:
        return None
    function, (high, wide) = _load_function(name), batch.target
    pictures = [
        DecodedImage(
            width=item.pixels.shape[1], height=item.pixels.shape[0], input_width=wide,
            input_height=high,
        )
        for item in batch.items
    ]  # fmt: skip
    try:
        returned = function(dict(batch.arrays), pictures)
        rows = [np.asarray(each, np.float64).reshape(-1, 6) for each in returned]
        if len(rows) != len(batch.items):
            raise ValueError(f"it returned {len(rows)} arrays for {len(batch.items)} images")
    except Exception as problem:  # a user's function may raise anything
        raise InputError(
            f"the decoder {name} failed on these outputs",
            facts={"reason": f"{type(problem).__name__}: {problem}", **batch.shapes()},
            fix="it returns an array [n, 6] per image: x0, y0, x1, y1, score, class",
        ) from None
    return Candidates(
        boxes=[r[:, :4] for r in rows], scores=[r[:, 4] for r in rows],
        labels=[r[:, 5] for r in rows], order="xyxy", fractions=False, suppressed=True,
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def _load_function(name: str) -> _UserDecoder:
    """Import the function; a file must belong to the user, as settings must."""
    place, _, function = name.rpartition(":")
    is_file = place.endswith(".py")
    if is_file and (reason := safety.stranger(Path(place))) is not None:
        raise UsageError(
            f"{safety.clean_line(place)} is not yours, and is not run",
            facts={"reason": reason, "it can": "do whatever you can"},
            fix="copy it to a folder of your own, after reading it",
        )
    try:
        members = runpy.run_path(place) if is_file else vars(importlib.import_module(place))
        found: _UserDecoder = members[function]
    except Exception as problem:  # whatever the file itself raises when it is run
        raise UsageError(
            f"--decoder {name} cannot be loaded",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
            fix="--decoder FILE.py:FUNCTION",
        ) from None
    return found


class Decoder(NamedTuple):
    """One family of detectors."""

    read: Callable[[DetectorOutputs], Candidates | None]
    """Decodes the outputs; ``None`` where they are not of this family."""
    expects: str


OWN = "own"
DECODERS = {
    "nms-lists": Decoder(
        _read_lists,
        "boxes [batch, n, 4], scores [batch, n], classes [batch, n], and perhaps a count "
        "(EfficientNMS, BatchedNMS, RT-DETR with its own postprocessing), or boxes with scores "
        "[batch, n, 5] and classes (mmdeploy)",
    ),
    "detr": Decoder(_read_detr, "boxes [batch, queries, 4] and logits [batch, queries, classes]"),
    "ssd": Decoder(_read_ssd, "boxes [batch, n, 4] and probabilities [batch, n, classes]"),
    "end2end": Decoder(
        _read_rows,
        "[batch, n, 6]: x0, y0, x1, y1, score, class in some order (YOLOv10, NMS in the graph), or "
        "[n, 7] with the index of the image before (YOLOv7, SSD)",
    ),
    "queries": Decoder(
        functools.partial(_read_table, "queries"),
        "[batch, queries, 4 + classes], boxes as fractions (RT-DETR of Ultralytics)",
    ),
    "yolov8": Decoder(
        functools.partial(_read_table, "yolov8"),
        "[batch, 4 + classes, n], or transposed (YOLOv8, 9, 11, 12)",
    ),
    "yolov5": Decoder(
        functools.partial(_read_table, "yolov5"),
        "[batch, n, 5 + classes], with objectness (YOLOv5, 6, 7, decoded YOLOX)",
    ),
    "yolox": Decoder(
        functools.partial(_read_table, "yolox"),
        "[batch, n, 5 + classes], boxes relative to grid cells (YOLOX as it exports)",
    ),
    OWN: Decoder(_read_by_hook, "a function"),
}
NAMES = tuple(DECODERS)
"""A decoder is stored by its place here."""


def decode_outputs(batch: DetectorOutputs) -> tuple[str, Candidates]:
    """Decode with the family that is set, or the one that fits; returns its name."""
    asked = None if (given := batch.given("decoder")) is None else str(given)
    name = OWN if asked and ":" in asked else asked
    if name is not None and (name not in DECODERS or name == asked == OWN):
        raise UsageError(
            f"there is no decoder {asked!r}",
            facts={"known": ", ".join(NAMES[:-1]), "own": "FILE.py:FUNCTION"},
            fix=meant(name, NAMES),
        )
    for each in NAMES if name is None else (name,):
        decoded = DECODERS[each].read(batch)
        if decoded is not None:
            return each, decoded
    if name is not None:
        raise InputError(
            f"the outputs are not those of {asked}: {DECODERS[name].expects}",
            facts=batch.shapes(),
            fix="leave --decoder out, or write one: --decoder FILE.py:FUNCTION",
        )
    tried = {f"tried {each}": DECODERS[each].expects for each in NAMES[:-1]}
    raise InputError(
        "no decoder fits the outputs",
        facts={**batch.shapes(), **tried},
        fix="--decoder NAME, or your own: --decoder FILE.py:FUNCTION (docs/eval.md)",
    )


CLASS_MAPS = ("index", "from-one", "id", "coco")
COCO_UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
"""Of COCO's 91 class numbers those that its data does not have."""
COCO_IDS = tuple(number for number in range(91) if number not in COCO_UNUSED)


def class_map(
    rows: Sequence[AnyArray],
    truth: Truth,
    truths: Sequence[Objects],
    *,
    classes: int | None,
    asked: str | None,
    label: str,
) -> tuple[str, Mapping[int, int], str | None]:
    """Return what class numbers mean: the name of the map, and places among the categories.

    Decided by how many classes there are, and where two maps fit, by the annotations. ``rows``
    are the detections of every image, [n, 6]. The last value is a note, where another map would
    fit as well.
    """
    ids = truth.ids
    every = {
        "index": {place: place for place in range(len(ids))},
        "id": {id: place for place, id in enumerate(ids)},
        "from-one": {place + 1: place for place in range(len(ids))},
    }
    if len(ids) == len(COCO_IDS):
        every["coco"] = {id: place for place, id in enumerate(COCO_IDS)}
    if asked is not None:
        if asked not in every:
            raise InputError(
                f"the data has {len(ids)} classes, and COCO 80", fix="--class-map index"
            )
        return asked, every[asked], None
    seen = {int(number) for own in rows for number in np.unique(own[:, 5]) if number >= 0}
    likely = [own[own[:, 4] >= SHOWN, 5] for own in rows]
    if classes:
        fitting = []
        if classes == len(ids):
            fitting = ["index"]
        elif ids != tuple(range(len(ids))):
            fitting = ["id"] if classes > ids[-1] else []
        elif "coco" in every and classes == COCO_IDS[-1] + 1:
            fitting = ["coco"]
        # A likely number below all of the map's belongs to another map.
        if fitting and any((own < min(every[fitting[0]])).any() for own in likely):
            fitting = []
    else:
        fitting = [name for name, known in every.items() if seen <= known.keys()]
    if not fitting:
        raise InputError(
            f"{label} and the data do not have the same classes",
            facts={"network": classes or max(seen) + 1, "data": len(ids)},
            fix="--class-map index, if the first ones are the same; --decoder, if the outputs "
            "were decoded as another family's",
        )
    right = {
        name: sum(
            len({every[name].get(int(number)) for number in own} & {*there.classes.tolist()})
            for own, there in zip(likely, truths, strict=True)
        )
        for name in fitting
    }
    # Numbers from 1 are rare: only where they cannot be places.
    usual = [name for name in fitting if name != "from-one" or "index" not in fitting]
    best = max(usual, key=lambda name: right[name])
    others = [
        name for name in fitting
        if right[name] >= right[best] and any(every[name].get(n) != every[best].get(n)
                                              for n in seen)
    ]  # fmt: skip
    note = (
        f"{label}: class numbers are read as {best}; {' or '.join(others)} fits as well: set "
        "--class-map"
    )
    return best, every[best], note if others else None


@dataclass(frozen=True, kw_only=True)
class ModelBoxes:
    """The detections of one model in all images."""

    objects: list[Objects]
    words: str
    """How its outputs and classes were decoded."""
    notes: tuple[str, ...] = ()


def boxes_of_model(
    model: Predicted, truth: Truth | None, truths: Sequence[Objects], settings: Settings
) -> ModelBoxes:
    """Collect a model's boxes, their classes as places among the categories."""
    arrays = [arrays for _, arrays in model.chunks]
    codes = {
        key: sorted({int(code) for each in arrays for code in np.unique(each[key])} - {NO_ORDER})
        for key in ("decoder", "order")
    }
    decoders = [NAMES[code] for code in codes["decoder"]]
    orders = sorted(ORDERS[code] for code in codes["order"])
    if len(decoders) > 1 or len(orders) > 1:
        raise InputError(
            f"the outputs of {model.label} look different from batch to batch",
            facts={"decoders": ", ".join(decoders), "box formats": ", ".join(orders)},
            fix="--decoder NAME" if len(decoders) > 1 else f"--box-format {orders[0]}",
        )
    rows = [row[row[:, 4] >= 0].astype(np.float64) for each in arrays for row in each["boxes"]]
    how, places, note = "number", None, None
    if truth is not None and truth.named:
        asked = None if settings["class_map"] == "auto" else str(settings["class_map"])
        classes = max(int(each["classes"].max()) for each in arrays) or None
        how, places, note = class_map(
            rows, truth, truths, classes=classes, asked=asked, label=model.label
        )
    objects = []
    for own in rows:
        labels = own[:, 5].astype(np.int64)
        if places is not None:
            labels = np.array([places.get(int(label), -1) for label in labels], np.int64)
            own, labels = own[labels >= 0], labels[labels >= 0]
        objects.append(boxes_from_corners(own[:, :4], labels, own[:, 4]))
    name = settings["decoder"] if decoders[0] == OWN else decoders[0]
    words = f"decoded as {name}, boxes {orders[0] if orders else 'none'}, classes by {how}"
    return ModelBoxes(objects=objects, words=words, notes=(note,) if note else ())
