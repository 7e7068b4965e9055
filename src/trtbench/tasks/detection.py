"""Detection: boxes of objects, from the outputs of many families of networks.

A decoded row is x0, y0, x1, y1 in pixels of the image, a score, and the network's class number.
"""

from __future__ import annotations

import functools
import importlib
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from trtbench.analysis.coco import (
    SIZES,
    BoxMatches,
    BoxTally,
    ClassScores,
    Objects,
    boxes_from_corners,
    match_boxes,
    mean_precisions,
    overlaps,
    suppress,
)
from trtbench.analysis.summary import statistic_intervals
from trtbench.core import safety
from trtbench.core.errors import InputError, UsageError, refuse_unknown, suggest
from trtbench.core.run import Scalar, Score
from trtbench.core.samples import AnyArray, Arrays
from trtbench.tasks._boxes import (
    SIZE,
    DetectionImage,
    DetectionImages,
    Truth,
    find_images_of,
    label_file,
)
from trtbench.tasks._images import SHOWN, normalize_flag
from trtbench.tasks.contract import (
    DataSource,
    Flag,
    Judgement,
    Predicted,
    Settings,
    TaskTable,
    Tensors,
    number,
)

Order = Literal["xyxy", "yxyx", "cxcywh", "xywh"]
ORDERS: tuple[Order, ...] = ("xyxy", "yxyx", "cxcywh", "xywh")
NO_ORDER = -1  # stored in place of an order by batches without a box
MOST_CANDIDATES = 30_000  # of one image, the best ones, that enter suppression, as in Ultralytics
MOST_ROWS = 1000  # more boxes than this, without a count, have not been through suppression
INSIDE_OUT = 0.05  # share of boxes with swapped corners from which they are not corners
FRACTIONS = 2.0  # coordinates below this are fractions of the input, not its pixels
MASKS = 32  # values per box, and channels of another output, that a segmenting network adds
ROW = 6  # four sides, a score and a class
COCO = 80
TABLE_VALUES = {"yolov8": 5, "yolov5": 6}  # least number of values per box, by kind of table


CLASS_MAPS = ("index", "from-one", "id", "coco")
COCO_UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # class numbers, of 91, without data
COCO_IDS = tuple(number for number in range(91) if number not in COCO_UNUSED)


@dataclass(frozen=True, kw_only=True)
class DetectorOutputs:
    """The outputs of one batch, its images, and the settings of the task."""

    arrays: dict[str, AnyArray]  # [batch, ...]
    items: Sequence[DetectionImage]
    settings: Settings

    @property
    def target(self) -> tuple[int, int]:
        return self.items[0].target

    @property
    def classes(self) -> int | None:
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

    boxes: Sequence[AnyArray] | AnyArray  # [candidates, 4]
    scores: Sequence[AnyArray] | AnyArray  # [candidates, classes], or [candidates] with labels
    labels: Sequence[AnyArray] | None = None
    order: Order | None = None  # ``None``: corners or centres, whichever the values are
    fractions: bool | None = None  # whether coordinates are fractions; ``None``: by their size
    suppressed: bool = False  # whether the network has done suppression
    iou: float = 0.7
    classes: int | None = None  # number of classes of the network, where the outputs show it


def _are_fractions(rows: AnyArray) -> bool:
    boxes = rows[..., :4]
    return bool(np.abs(boxes[np.isfinite(boxes)]).max(initial=0.0) < FRACTIONS)


def _narrow(batch: DetectorOutputs) -> dict[str, AnyArray]:
    """Drop the one of [batch, boxes, 1, 4] and the like."""
    return {
        name: array[:, :, 0] if array.ndim == 4 and array.shape[2] == 1 else array
        for name, array in batch.arrays.items()
    }


def _read_lists(batch: DetectorOutputs) -> Candidates | None:
    """Boxes, scores and classes in outputs of their own, and perhaps a count of valid ones."""
    arrays, items = _narrow(batch), len(batch.items)
    # Scores of four boxes are as wide as boxes, but not as deep.
    wide = {n: a for n, a in arrays.items() if a.ndim > 1 and a.shape[-1] == 4}
    found = [name for name, array in wide.items() if array.ndim > 2] or list(wide)
    if len(found) != 1 or len(arrays) > 4:
        return None
    boxes = arrays[found[0]].reshape(items, -1, 4)
    flat = {n: a.reshape(items, -1) for n, a in arrays.items() if n != found[0] and a.ndim <= 3}
    counts = next(
        (name for name, array in flat.items()
         if array.shape[1] == 1 and ("num" in name.lower() or boxes.shape[1] != 1)), None,
    )  # fmt: skip
    single = {n: a for n, a in flat.items() if n != counts and a.shape[1] == boxes.shape[1]}
    if len(single) != 2:
        return None
    # Classes are integers, or named so, or whole numbers.
    whole = [name for name, array in single.items() if array.dtype.kind in "iu"]
    called = [n for n in single if any(word in n.lower() for word in ("class", "label", "cls"))]
    counting = [n for n, a in single.items() if np.equal(np.mod(a, 1), 0).all()]
    labels = next((names[0] for names in (whole, called, counting) if len(names) == 1), None)
    labels = labels or list(single)[-1]
    scores = next(array for name, array in single.items() if name != labels)
    valid = np.full(items, boxes.shape[1])
    if counts is not None:
        valid = np.maximum(0, np.nan_to_num(flat[counts][:, 0])).astype(int)
    return Candidates(
        boxes=[each[:count] for each, count in zip(boxes, valid, strict=True)],
        scores=[each[:count] for each, count in zip(scores, valid, strict=True)],
        labels=[each[:count] for each, count in zip(single[labels], valid, strict=True)],
        suppressed=counts is not None or boxes.shape[1] <= MOST_ROWS,
        order="yxyx" if any("detection_boxes:" in name for name in arrays) else None,
    )  # TensorFlow has y before x


def _mask_values(batch: DetectorOutputs) -> int:
    return MASKS if any(a.ndim == 4 and a.shape[1] == MASKS for a in batch.arrays.values()) else 0


def _read_rows(batch: DetectorOutputs) -> Candidates | None:
    """Rows of box, score and class: [batch, n, 6]."""
    items, grids = len(batch.items), _grids(batch)
    for array in batch.arrays.values():
        if array.dtype.kind != "f" or array.ndim not in (2, 3):
            continue
        rows = array.reshape(items, -1, array.shape[-1])
        few = rows.shape[1] not in grids and rows.shape[1] <= MOST_ROWS
        # As many rows as the grids have cells: a YOLO of one or two classes, or finished.
        finished = few or batch.given("decoder") or batch.classes not in (None, 1, 2)
        if rows.shape[2] not in {ROW, ROW + _mask_values(batch)} or not finished:
            continue
        finite = rows[np.isfinite(rows[..., :ROW]).all(axis=2)]
        scores, classes = finite[:, 4], finite[:, 5]
        if (scores < 0).any() or (scores > 1).any() or np.mod(classes, 1).any():
            raise InputError(
                "the rows of six values are not a box, its score and its class",
                facts=batch.shapes(),
                fix="--decoder FILE.py:FUNCTION puts them in order (docs/eval.md)",
            )
        return Candidates(
            boxes=rows[..., :4], scores=rows[..., 4], labels=list(rows[..., 5]),
            suppressed=rows.shape[1] <= MOST_ROWS,
        )  # fmt: skip
    return None


def _grids(batch: DetectorOutputs) -> dict[int, int]:
    """Boxes per cell by the number of boxes that YOLO's grids of the input have."""
    high, wide = batch.target
    cells = [
        sum((high // s) * (wide // s) for s in strides)
        for strides in ((8, 16, 32), (8, 16, 32, 64))
    ]
    return {times * boxes: times for times in (1, 3) for boxes in cells}


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
    """Centres and sizes of boxes, perhaps objectness, and a score for every class.

    That is the output with one row per grid cell [batch, boxes, values].
    """
    extra, narrow, is_set = _mask_values(batch), _narrow(batch), batch.given("decoder") == kind
    if any(array.ndim == 3 and 4 in array.shape[1:] for array in narrow.values()):
        return None  # boxes of their own, and scores in another output
    found: dict[str, tuple[str, AnyArray]] = {}
    for name, array in narrow.items():
        if array.ndim != 3 or array.dtype.kind != "f":
            continue
        own, axis = _table_kind(batch, array, extra)
        if own is None or (is_set and array.shape[axis] < TABLE_VALUES[kind]):
            continue
        rows = array if axis == 2 else array.transpose(0, 2, 1)
        rows = rows[..., : rows.shape[2] - extra]
        few = rows.shape[1] <= MOST_ROWS and (own == "yolov8" or batch.classes is None)
        if axis == 2 and few and _are_fractions(rows):
            own = "yolov8"
        found[name] = (kind if is_set else own, rows)
    if not found:
        return None
    own, rows = next(iter(found.values()))
    same = [name for name, (_, each) in found.items() if each.shape == rows.shape]
    if len(same) > 1:
        raise InputError(
            f"{len(same)} outputs could hold the boxes", facts=batch.shapes(),
            fix=f"--read-output {same[-1]}, or another (of YOLOv9 with auxiliary heads, the last)",
        )  # fmt: skip
    if own != kind:
        return None
    if (rows[..., 2:4] < 0).any():
        raise InputError(
            "boxes have negative sizes: they are relative to the cells of a grid",
            facts=batch.shapes(),
            fix="export the network with its decoding, or --decoder FILE.py:FUNCTION",
        )
    fractions = _are_fractions(rows)
    if kind == "yolov8":  # few boxes as fractions are the queries of an RT-DETR
        return Candidates(
            boxes=rows[..., :4], scores=rows[..., 4:], order="cxcywh", fractions=fractions,
            suppressed=fractions and rows.shape[1] <= MOST_ROWS, classes=rows.shape[2] - 4,
        )  # fmt: skip
    least = float(batch.settings.get("conf") or 0.0)
    likely = [row[row[:, 4] > least] for row in rows]
    return Candidates(
        boxes=[row[:, :4] for row in likely], scores=[row[:, 5:] * row[:, 4:5] for row in likely],
        order="cxcywh", iou=0.6, classes=rows.shape[2] - 5, fractions=fractions,
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
    if is_file and (reason := safety.why_untrusted(Path(place))) is not None:
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


OWN = "own"
DECODERS: dict[str, tuple[Callable[[DetectorOutputs], Candidates | None], str]] = {
    "nms-lists": (
        _read_lists,
        "boxes [batch, n, 4], scores [batch, n], classes [batch, n], and perhaps a count "
        "(EfficientNMS, BatchedNMS, RT-DETR with its own postprocessing)",
    ),
    "end2end": (
        _read_rows,
        "[batch, n, 6]: x0, y0, x1, y1, score, class (YOLOv10, NMS in the graph)",
    ),
    "yolov8": (
        functools.partial(_read_table, "yolov8"),
        "[batch, 4 + classes, n], or transposed (YOLOv8, 9, 11, 12, RT-DETR of Ultralytics)",
    ),
    "yolov5": (
        functools.partial(_read_table, "yolov5"),
        "[batch, n, 5 + classes], with objectness (YOLOv5, 6, 7, YOLOX with its decoding)",
    ),
    OWN: (_read_by_hook, "a function"),
}
"""By family: what decodes its outputs, or ``None`` of another family, and what it expects."""
NAMES = tuple(DECODERS)  # a decoder is stored by its place here


FLAGS = (
    Flag(name="annotations", help="COCO's instances (JSON), or a folder of YOLO's labels "
         "(default: labels/ beside images/, or beside each image)."),
    Flag(name="split", choices=("train", "val", "test"), preprocessing=True, to_calibrate="train",
         help="Which images of a data.yaml (default: val; to calibrate with, train)."),
    Flag(name="decoder", default="auto", help="Family of the outputs: auto, "
         + ", ".join(NAMES[:-1])
         + ", or your own: FILE.py:FUNCTION."),
    Flag(name="conf", kind="number", default=0.001, help="Least score of an object."),
    Flag(name="iou", kind="number",
         help="Overlap above which doubles are dropped (default: as the family has it)."),
    Flag(name="nms", default="auto", choices=("auto", "class", "agnostic", "off"),
         help="Dropping of doubles: within a class, among all, or not."),
    Flag(name="max-det", kind="whole", default=300, help="Objects per image at most."),
    Flag(name="class-map", default="auto", choices=("auto", *CLASS_MAPS),
         help="What the network's number of a class is: a place among the categories, from 0 or "
         "from 1, an id of theirs, or one of COCO's 91 where the data has its 80."),
    Flag(name="read-output", help="Names of the outputs to read, with commas, where others could "
         "be taken for them."),
    Flag(name="box-format", default="auto", choices=("auto", *ORDERS),
         help="Order of coordinates (default: as the family has it)."),
    Flag(name="fit", default="letterbox", choices=("letterbox", "corner", "stretch"),
         preprocessing=True, help="Into the input: scaled and framed in grey, scaled into a "
         "corner, or stretched."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Size of the input, where the network leaves it open (default {SIZE})."),
    Flag(name="colour", default="rgb", choices=("rgb", "bgr"), preprocessing=True,
         help="Order of the colours."),
    normalize_flag("none"),
)  # fmt: skip


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open images with COCO's or YOLO's annotations."""
    return DetectionImages(settings, tensors)


def read_beside(settings: Settings) -> Sequence[Path]:
    """List the user's decoder, folders of images and YOLO's labels, and files that list images."""
    hook, _, _ = str(settings.get("decoder")).rpartition(":")
    data = find_images_of(settings)
    files = list(data.paths)
    if not settings.get("annotations"):
        files += [label_file(each, None, data.root) for each in data.paths]
    folders = {each.parent for each in files if each.parent.is_dir()}
    return [*([Path(hook)] if hook.endswith(".py") else []), *sorted({*folders, *data.lists})]


def decode(outputs: Arrays, loaded: Sequence[DetectionImage], settings: Settings) -> Arrays:
    """Make boxes of the outputs, in the coordinates of their images.

    ``boxes`` are [batch, max_det, 6]; rows without a box have score -1.
    """
    listed = settings.get("read_output")
    names = list(outputs) if listed is None else [n.strip() for n in str(listed).split(",")]
    for name in names:
        said = f"there is no output {name!r}"
        refuse_unknown(name, outputs, said, listed="outputs", flag="--read-output")
    arrays = {name: np.asarray(outputs[name]) for name in names}
    batch = DetectorOutputs(arrays=arrays, items=loaded, settings=settings)
    decoder, found = _candidates(batch)
    order = next((each for each in ORDERS if each == batch.given("box_format")), found.order)
    if order is None:
        corners = np.concatenate([np.asarray(image, np.float64) for image in found.boxes])
        corners = corners[np.isfinite(corners).all(axis=1)]
        inside_out = (corners[:, 2:] < corners[:, :2]).any(axis=1)
        order = "cxcywh" if inside_out.sum() > INSIDE_OUT * len(corners) else "xyxy"
    least, most = number(settings, "conf"), int(number(settings, "max_det"))
    fractions = found.fractions
    if fractions is None:
        fractions = all(_are_fractions(np.asarray(boxes)) for boxes in found.boxes)
    high, wide = batch.target if fractions else (1.0, 1.0)
    nms = batch.given("nms") or ("off" if found.suppressed else "class")
    iou = batch.given("iou")
    rows = np.full((len(loaded), most, 6), -1.0, np.float32)
    for place, item in enumerate(loaded):
        # Candidates above the least score, once for each class they may be.
        every = found.scores[place]
        if found.labels is not None:
            chosen = np.flatnonzero(every > least)
            labels = np.asarray(found.labels[place])[chosen]
            classes, scores = np.nan_to_num(labels, nan=-1).astype(np.int64), every[chosen]
        else:
            chosen, classes = np.nonzero(every > least)
            scores = every[chosen, classes]
        if len(chosen) > MOST_CANDIDATES:
            top = np.argsort(-scores, kind="stable")[:MOST_CANDIDATES]
            chosen, classes, scores = chosen[top], classes[top], scores[top]
        boxes, scores = found.boxes[place][chosen].astype(np.float64), scores.astype(np.float64)
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
        rows[place, : len(kept)] = np.column_stack(
            [x[:, 0], y[:, 0], x[:, 1], y[:, 1], scores[kept], classes[kept]]
        )
    # Where nothing was found the order is unknown, and does not matter.
    some = any(np.size(boxes) for boxes in found.boxes)
    return {
        "boxes": rows,
        "decoder": np.full(len(rows), NAMES.index(decoder), np.int8),
        "classes": np.full(len(rows), found.classes or 0, np.int32),
        "order": np.full(len(rows), ORDERS.index(order) if some else NO_ORDER, np.int8),
    }


def _candidates(batch: DetectorOutputs) -> tuple[str, Candidates]:
    """Decode with the family that is set, or the one that fits; returns its name."""
    given = None if (value := batch.given("decoder")) is None else str(value)
    name = OWN if given and ":" in given else given
    if name is not None and (name not in DECODERS or name == given == OWN):
        raise UsageError(
            f"there is no decoder {given!r}",
            facts={"known": ", ".join(NAMES[:-1]), "own": "FILE.py:FUNCTION"},
            fix=suggest(name, NAMES),
        )
    for each in NAMES if name is None else (name,):
        if (decoded := DECODERS[each][0](batch)) is not None:
            return each, decoded
    if name is not None:
        raise InputError(
            f"the outputs are not those of {given}: {DECODERS[name][1]}",
            facts=batch.shapes(),
            fix="leave --decoder out, or write one: --decoder FILE.py:FUNCTION",
        )
    tried = {f"tried {each}": DECODERS[each][1] for each in NAMES[:-1]}
    raise InputError(
        "no decoder fits the outputs",
        facts={**batch.shapes(), **tried},
        fix="--decoder NAME, or your own: --decoder FILE.py:FUNCTION (docs/eval.md)",
    )


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


def _boxes_of_model(
    model: Predicted, truth: Truth | None, truths: Sequence[Objects], settings: Settings
) -> tuple[list[Objects], str, str | None]:
    """Collect a model's boxes, their classes as places among the categories.

    Also returns how its outputs and classes were decoded, and a note where there is one.
    """
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
    return objects, words, note


RESAMPLES = 200
RESAMPLED = 2e7  # detections times resamples at most, about a minute; at least a fourth of them
HIGH_CONF = 0.05  # a least score above this cuts off the end of the averaged curve


@dataclass(frozen=True, kw_only=True)
class _Tally:
    label: str
    matches: list[BoxMatches]
    boxes: BoxTally
    classes: list[ClassScores]
    summary: Mapping[str, float]


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute COCO's average precisions, and likeness to the first model."""
    assert isinstance(source, DetectionImages)
    truth = source.truth
    truths = [] if truth is None else [truth.boxes(path) for path in source.paths]
    found = [_boxes_of_model(model, truth, truths, settings) for model in models]
    alike = [(), *(_likeness(found[0][0], own) for own, _, _ in found[1:])]
    read = "; ".join(f"{m.label}: {words}" for m, (_, words, _) in zip(models, found, strict=True))
    if truth is None:
        return Judgement(
            scores=tuple(alike), method=f"no annotations: models are compared only; {read}",
            notes=source.notes,
        )  # fmt: skip
    tallies = []
    for model, (own, _, _) in zip(models, found, strict=True):
        matches = [match_boxes(each, true) for each, true in zip(own, truths, strict=True)]
        boxes = BoxTally(matches)
        tallies.append(
            _Tally(label=model.label, matches=matches, boxes=boxes, classes=boxes.by_class(),
                   summary=boxes.summary())
        )  # fmt: skip
    resamples = int(np.clip(RESAMPLED / max(1, max(t.boxes.detections for t in tallies)),
                            RESAMPLES // 4, RESAMPLES)) * (not source.scores_only)  # fmt: skip
    conf = number(settings, "conf")
    notes = [*source.notes, *(note for _, _, note in found if note)]
    if conf > HIGH_CONF:
        notes.append(f"--conf {conf:g} cuts the curve short: published mAP is taken with 0.001")
    if not any((~each.crowd).any() for each in truths):
        notes.append("nothing is annotated in these images: there is no average precision")
    return Judgement(
        scores=tuple(
            (*_scores(tally, len(truths), resamples), *other)
            for tally, other in zip(tallies, alike, strict=True)
        ),
        method="COCO's average precision of boxes, IoU 0.50 to 0.95, 100 boxes per image and "
        f"class, conf {conf:g}; intervals by {resamples} resamples; {read}",
        tables=(_class_table(tallies, truth.names), _image_table(source, tallies)),
        notes=tuple(notes),
    )


def _scores(tally: _Tally, count: int, resamples: int) -> tuple[Score, ...]:
    intervals = statistic_intervals(
        lambda weights: mean_precisions(tally.boxes.by_class(weights=weights, at=())),
        examples=count,
        resamples=resamples,
    )
    wanted = ("mAP", "mAP50", "mAP75", *(f"mAP_{size}" for size in SIZES if size), "AR100")
    return tuple(
        Score(
            metric="AR" if name == "AR100" else name,
            value=tally.summary[name],
            interval=intervals.get(name),
            count=count,
        )
        for name in wanted
        if name in tally.summary
    )


def _likeness(first: Sequence[Objects], own: Sequence[Objects]) -> tuple[Score, ...]:
    """Mean overlap of the first model's boxes with the most similar ones of this model."""
    values: list[float] = []
    for reference, found in zip(first, own, strict=True):
        similar = overlaps(found, reference)
        similar[found.classes[:, None] != reference.classes[None]] = 0.0
        similar[found.scores < SHOWN] = 0.0
        values += list(similar.max(axis=0, initial=0.0)[reference.scores >= SHOWN])
    if not values:
        return ()
    return (Score(metric="iou_to_first", value=float(np.mean(values)), count=len(values)),)


def _class_table(tallies: Sequence[_Tally], names: Mapping[int, str]) -> TaskTable:
    by_class = zip(*(tally.classes for tally in tallies), strict=True)
    order = sorted(by_class, key=lambda classes: float(classes[0].precision.mean()))
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (names[own.number], tally.label, int(own.truths), float(own.precision.mean()),
         float(own.precision[0].mean()), float(np.mean(own.recall[max(own.recall)])))
        for classes in order
        for tally, own in zip(tallies, classes, strict=True)
    )  # fmt: skip
    heads = ("class", "model", "objects", "mAP", "mAP50", "AR")
    return TaskTable(id="classes", title="By class, the worst first", headings=heads, rows=rows)


def _image_table(source: DataSource, tallies: Sequence[_Tally]) -> TaskTable:
    """Count right, missed and wrong boxes of every image, of the likely ones."""
    listed: list[tuple[float, tuple[Scalar, ...]]] = []
    for tally in tallies:
        for name, match in zip(source.names, tally.matches, strict=True):
            counted = (match.scores >= SHOWN) & ~match.ignored[0, 0]
            objects, right = int(match.counted[0].sum()), int((match.hits[0, 0] & counted).sum())
            wrong = int((~match.hits[0, 0] & counted).sum())
            share = right / (objects + wrong) if objects + wrong else float("nan")
            row = (name, tally.label, objects, right, objects - right, wrong)
            listed.append((share, row))
    listed.sort(key=lambda pair: (np.isnan(pair[0]), pair[0]))
    heads = ("image", "model", "objects", "right", "missed", "false positives")
    return TaskTable(
        id="images", title=f"Every image at IoU 0.5 and score {SHOWN:g}, the worst first",
        headings=heads, rows=tuple(row for _, row in listed),
    )  # fmt: skip
