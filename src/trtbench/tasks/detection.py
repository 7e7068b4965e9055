"""Object detection: decodes boxes from the outputs of many network families, computes mAP.

A decoded row is x0, y0, x1, y1 in pixels of the image, a score, and the network's class number.
"""

import functools
import importlib
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from trtbench.analysis import coco
from trtbench.analysis.pass_times import TableValue
from trtbench.core import safety
from trtbench.core.errors import InputError, UsageError, refuse_unknown, suggest
from trtbench.core.run import Scalar
from trtbench.core.samples import AnyArray, Arrays
from trtbench.tasks import _boxes
from trtbench.tasks._images import MIN_SHOWN_SCORE, Loaded, interpolation_flag, normalize_flag
from trtbench.tasks.contract import DataSource, Flag, Judgement, Predicted, Settings

Order = Literal["xyxy", "yxyx", "cxcywh", "xywh"]
ORDERS: tuple[Order, ...] = ("xyxy", "yxyx", "cxcywh", "xywh")
NO_ORDER = -1  # stored as the order for batches without boxes
MOST_CANDIDATES = 30_000  # per image before NMS, as in Ultralytics
MOST_ROWS = 1000  # with more boxes, the network has not applied NMS
SWAPPED_SHARE = 0.05  # with a larger share of swapped corners, boxes are not corners
FRACTION_LIMIT = 2.0  # coordinates below this are fractions of the input, not its pixels
MASK_VALUES = 32  # mask values per box, and channels of the mask output
ROW_VALUES = 6  # four sides, a score and a class
COCO = 80
TABLE_VALUES = {"yolov8": 5, "yolov5": 6}  # least number of values per box

CLASS_MAPS = ("index", "from-one", "id", "coco")
COCO_UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers below 91 not in use
COCO_IDS = tuple(number for number in range(91) if number not in COCO_UNUSED)


@dataclass(frozen=True, kw_only=True)
class DetectorOutputs:
    """The outputs of one batch, its images, and the settings of the task."""

    arrays: dict[str, AnyArray]  # [batch, ...]
    items: Sequence[Loaded]
    settings: Settings

    @property
    def classes(self) -> int | None:
        return self.items[0].classes

    def given(self, key: str) -> Scalar:
        """Return a setting, or ``None`` if it is missing or ``auto``."""
        value = self.settings.get(key)
        return None if value in (None, "auto") else value

    def shapes(self) -> dict[str, str]:
        """Return the types and shapes of the outputs, for error messages."""
        return {
            f"output {name}": f"{array.dtype} {'x'.join(map(str, array.shape))}"
            for name, array in self.arrays.items()
        }


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Boxes of a batch before NMS, one array per image, and how to interpret them."""

    boxes: Sequence[AnyArray] | AnyArray  # [candidates, 4]
    scores: Sequence[AnyArray] | AnyArray  # [candidates, classes], or [candidates] with labels
    labels: Sequence[AnyArray] | None = None
    order: Order | None = None  # ``None``: xyxy or cxcywh, decided by the values
    fractions: bool | None = None  # of the input size; ``None``: decided by the values
    suppressed: bool = False  # whether the network has applied NMS
    iou: float = 0.7
    classes: int | None = None  # number of classes, if the outputs show it


def _are_fractions(rows: AnyArray) -> bool:
    boxes = rows[..., :4]
    return bool(np.abs(boxes[np.isfinite(boxes)]).max(initial=0.0) < FRACTION_LIMIT)


def _squeezed(batch: DetectorOutputs) -> dict[str, AnyArray]:
    """Return the outputs without the third dimension if its size is 1: [batch, boxes, 1, 4]."""
    return {
        name: array[:, :, 0] if array.ndim == 4 and array.shape[2] == 1 else array
        for name, array in batch.arrays.items()
    }


def _read_lists(batch: DetectorOutputs) -> Candidates | None:
    """Decode separate outputs for boxes, scores, classes, and optionally the number of boxes."""
    arrays, items = _squeezed(batch), len(batch.items)
    # Scores of four boxes also end in 4, but have fewer dimensions.
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
    # Classes have an integer type, a name such as labels, or only whole numbers.
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
    )  # TensorFlow stores y before x


def _mask_values(batch: DetectorOutputs) -> int:
    are_masks = (a.ndim == 4 and a.shape[1] == MASK_VALUES for a in batch.arrays.values())
    return MASK_VALUES if any(are_masks) else 0


def _read_rows(batch: DetectorOutputs) -> Candidates | None:
    """Decode rows of box, score and class: [batch, n, 6]."""
    items, grids = len(batch.items), _grid_box_counts(batch)
    for array in batch.arrays.values():
        if array.dtype.kind != "f" or array.ndim not in (2, 3):
            continue
        rows = array.reshape(items, -1, array.shape[-1])
        few = rows.shape[1] not in grids and rows.shape[1] <= MOST_ROWS
        # A YOLO with one or two classes before NMS also has six values per grid cell.
        finished = few or batch.given("decoder") or batch.classes not in (None, 1, 2)
        if rows.shape[2] not in {ROW_VALUES, ROW_VALUES + _mask_values(batch)} or not finished:
            continue
        finite = rows[np.isfinite(rows[..., :ROW_VALUES]).all(axis=2)]
        scores, classes = finite[:, 4], finite[:, 5]
        if (scores < 0).any() or (scores > 1).any() or np.mod(classes, 1).any():
            message = "the rows of six values are not a box, its score and its class"
            fix = "write a decoder: --decoder FILE.py:FUNCTION (docs/eval.md)"
            raise InputError(message, facts=batch.shapes(), fix=fix)
        return Candidates(
            boxes=rows[..., :4], scores=rows[..., 4], labels=list(rows[..., 5]),
            suppressed=rows.shape[1] <= MOST_ROWS,
        )  # fmt: skip
    return None


def _grid_box_counts(batch: DetectorOutputs) -> dict[int, int]:
    """Return the total numbers of boxes of YOLO's grids, mapped to boxes per cell."""
    high, wide = batch.items[0].target
    cells = [sum((high // s) * (wide // s) for s in (8, 16, 32, 64)[:n]) for n in (3, 4)]
    return {times * boxes: times for times in (1, 3) for boxes in cells}


def _table_kind(batch: DetectorOutputs, array: AnyArray, extra: int) -> tuple[str | None, int]:
    """Return the family of an output with a row per box, and the axis of a box's values.

    Decided by the number of boxes if it matches the grids, else by the number of classes, else by
    the longer axis: YOLOv8 has boxes on the last axis, YOLOv5 on the first.
    """
    known, shape = _grid_box_counts(batch), array.shape
    sides = ((1, shape[2], shape[1] - extra), (2, shape[1], shape[2] - extra))
    for axis, boxes, values in sides:
        if boxes in known and values > 4:
            objectness = known[boxes] == 3
            if axis == 2 and not objectness:
                # YOLOv6 sets objectness to 1; without a number of classes, COCO's 80 is assumed.
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
    """Decode an output with a row per grid cell: [batch, boxes, values].

    Values are centre and size of the box, objectness in some families, and a score per class.
    """
    extra, narrow = _mask_values(batch), _squeezed(batch)
    is_set = batch.given("decoder") == kind
    if any(array.ndim == 3 and 4 in array.shape[1:] for array in narrow.values()):
        return None  # boxes and scores are separate outputs
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
            fix=f"--read-output {same[-1]}, or another (the last for YOLOv9 with auxiliary heads)",
        )  # fmt: skip
    if own != kind:
        return None
    if (rows[..., 2:4] < 0).any():
        message = "boxes have negative sizes: they seem to be relative to grid cells"
        fix = "export the network with box decoding, or use --decoder FILE.py:FUNCTION"
        raise InputError(message, facts=batch.shapes(), fix=fix)
    fractions = _are_fractions(rows)
    if kind == "yolov8":  # few boxes with fractional coordinates are RT-DETR queries
        return Candidates(
            boxes=rows[..., :4], scores=rows[..., 4:], order="cxcywh", fractions=fractions,
            suppressed=fractions and rows.shape[1] <= MOST_ROWS, classes=rows.shape[2] - 4,
        )  # fmt: skip
    least = float(batch.settings["conf"] or 0)
    likely = [row[row[:, 4] > least] for row in rows]
    return Candidates(
        boxes=[row[:, :4] for row in likely], scores=[row[:, 5:] * row[:, 4:5] for row in likely],
        order="cxcywh", iou=0.6, classes=rows.shape[2] - 5, fractions=fractions,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DecodedImage:
    """The sizes of one image, passed to a custom decoder."""

    width: int
    height: int
    input_width: int
    input_height: int


_CustomDecoder = Callable[[dict[str, AnyArray], list[DecodedImage]], Sequence[AnyArray]]


def _read_custom(batch: DetectorOutputs) -> Candidates | None:
    """Call the custom decoder: x0, y0, x1, y1 in pixels of the input, score, class."""
    name = str(batch.given("decoder"))
    if ":" not in name:
        return None
    function, (high, wide) = _load_decoder(name), batch.items[0].target
    sizes = (item.pixels.shape[:2] for item in batch.items)
    pictures = [
        DecodedImage(width=w, height=h, input_width=wide, input_height=high) for h, w in sizes
    ]
    try:
        returned = function(dict(batch.arrays), pictures)
        rows = [np.asarray(each, np.float64).reshape(-1, 6) for each in returned]
        if len(rows) != len(batch.items):
            raise ValueError(f"it returned {len(rows)} arrays for {len(batch.items)} images")
    except Exception as problem:  # custom code may raise anything
        raise InputError(
            f"the decoder {name} failed on these outputs",
            facts={"reason": f"{type(problem).__name__}: {problem}", **batch.shapes()},
            fix="return an array [n, 6] per image: x0, y0, x1, y1, score, class",
        ) from None
    return Candidates(
        boxes=[r[:, :4] for r in rows], scores=[r[:, 4] for r in rows],
        labels=[r[:, 5] for r in rows], order="xyxy", fractions=False, suppressed=True,
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def _load_decoder(name: str) -> _CustomDecoder:
    """Import a custom decoder; a file must be owned by the current user."""
    place, _, function = name.rpartition(":")
    is_file = place.endswith(".py")
    if is_file and (reason := safety.why_untrusted(Path(place))) is not None:
        raise UsageError(
            f"{safety.clean_line(place)} is not run: it is not owned by you",
            facts={"reason": reason, "risk": "it would run with your permissions"},
            fix="review it, then copy it to a folder that only you can write to",
        )
    try:
        members = runpy.run_path(place) if is_file else vars(importlib.import_module(place))
        found: _CustomDecoder = members[function]
    except Exception as problem:  # the file may raise anything when it is run
        facts = {"reason": f"{type(problem).__name__}: {problem}"}
        fix = "--decoder FILE.py:FUNCTION"
        raise UsageError(f"--decoder {name} cannot be loaded", facts=facts, fix=fix) from None
    return found


CUSTOM = "own"
DECODERS: dict[str, tuple[Callable[[DetectorOutputs], Candidates | None], str]] = {
    "nms-lists": (
        _read_lists,
        "boxes [batch, n, 4], scores [batch, n], classes [batch, n], optionally a count "
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
    CUSTOM: (_read_custom, "a custom function"),
}
"""By family: its decoder, which returns ``None`` for other outputs, and what it expects."""
NAMES = tuple(DECODERS)  # a decoder is stored by its index here

FLAGS = (
    Flag(name="annotations", help="COCO instances (JSON), or a folder of YOLO labels "
         "(default: labels/ next to images/, or next to each image)."),
    Flag(name="split", choices=("train", "val", "test"), preprocessing=True, to_calibrate="train",
         help="Split of a data.yaml (default: val; train for calibration)."),
    Flag(name="decoder", default="auto", help="Family of the outputs: auto, "
         + ", ".join(NAMES[:-1])
         + ", or a custom one: FILE.py:FUNCTION."),
    Flag(name="conf", kind="number", default=0.001, help="Minimum score of a detection."),
    Flag(name="iou", kind="number",
         help="IoU threshold of NMS (default: that of the family)."),
    Flag(name="nms", default="auto", choices=("auto", "class", "agnostic", "off"),
         help="Non-maximum suppression: per class, across classes, or off."),
    Flag(name="max-det", kind="whole", default=300, help="Maximum detections per image."),
    Flag(name="class-map", default="auto", choices=("auto", *CLASS_MAPS),
         help="Meaning of the network's class numbers: an index of the categories, from 0 or from "
         "1, a category id, or one of COCO's 91 ids for data with its 80 classes."),
    Flag(name="read-output", help="Outputs to read, comma separated, if detection of the right "
         "ones fails."),
    Flag(name="box-format", default="auto", choices=("auto", *ORDERS),
         help="Order of coordinates (default: that of the family)."),
    Flag(name="fit", default="letterbox", choices=("letterbox", "corner", "stretch"),
         preprocessing=True, help="How images fit the input: scaled and padded on all sides, "
         "scaled and padded at the right and bottom, or stretched."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Input size, if it is dynamic in the network (default {_boxes.SIZE})."),
    Flag(name="colour", default="rgb", choices=("rgb", "bgr"), preprocessing=True,
         help="Order of colour channels."),
    interpolation_flag(None, "; default: cv2-bilinear, and bilinear to stretch"),
    normalize_flag("none"),
)  # fmt: skip

open_source = _boxes.DetectionImages


def read_beside(settings: Settings) -> Sequence[Path]:
    """Return the custom decoder, folders of images and YOLO labels, and image lists."""
    hook, _, _ = str(settings.get("decoder")).rpartition(":")
    data = _boxes.find_dataset(settings)
    files = list(data.paths)
    if not settings.get("annotations"):
        files += [_boxes.label_file(each, None, data.root) for each in data.paths]
    folders = {each.parent for each in files if each.parent.is_dir()}
    return [*([Path(hook)] if hook.endswith(".py") else []), *sorted({*folders, *data.lists})]


def decode(outputs: Arrays, loaded: Sequence[Loaded], settings: Settings) -> Arrays:
    """Decode the outputs to boxes in the coordinates of their images.

    ``boxes`` are [batch, max_det, 6]; rows without a box have score -1.
    """
    listed = settings.get("read_output")
    names = list(outputs) if listed is None else [n.strip() for n in str(listed).split(",")]
    for name in names:
        said = f"the model has no output {name!r}"
        refuse_unknown(name, outputs, said, listed="outputs", flag="--read-output")
    arrays = {name: np.asarray(outputs[name]) for name in names}
    batch = DetectorOutputs(arrays=arrays, items=loaded, settings=settings)
    decoder, found = _candidates(batch)
    order = next((each for each in ORDERS if each == batch.given("box_format")), found.order)
    if order is None:
        corners = np.concatenate([np.asarray(image, np.float64) for image in found.boxes])
        corners = corners[np.isfinite(corners).all(axis=1)]
        inside_out = (corners[:, 2:] < corners[:, :2]).any(axis=1)
        order = "cxcywh" if inside_out.sum() > SWAPPED_SHARE * len(corners) else "xyxy"
    least, most = float(settings["conf"] or 0), int(settings["max_det"] or 0)
    fractions = found.fractions
    if fractions is None:
        fractions = all(_are_fractions(np.asarray(boxes)) for boxes in found.boxes)
    high, wide = loaded[0].target if fractions else (1.0, 1.0)
    nms = batch.given("nms") or ("off" if found.suppressed else "class")
    iou = batch.given("iou")
    rows = np.full((len(loaded), most, 6), -1.0, np.float32)
    for place, item in enumerate(loaded):
        # Candidates above the minimum score, once for each class.
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
            kept = coco.suppress(
                boxes, scores, classes=classes if nms == "class" else None,
                iou=found.iou if iou is None else float(iou), most=most,
            )  # fmt: skip
        x, y = item.undo(boxes[kept][:, [0, 2]], boxes[kept][:, [1, 3]])
        columns = x[:, 0], y[:, 0], x[:, 1], y[:, 1], scores[kept], classes[kept]
        rows[place, : len(kept)] = np.column_stack(columns)
    # Without boxes the order is unknown and does not matter.
    some = any(np.size(boxes) for boxes in found.boxes)
    return {
        "boxes": rows,
        "decoder": np.full(len(rows), NAMES.index(decoder), np.int8),
        "classes": np.full(len(rows), found.classes or 0, np.int32),
        "order": np.full(len(rows), ORDERS.index(order) if some else NO_ORDER, np.int8),
    }


def _candidates(batch: DetectorOutputs) -> tuple[str, Candidates]:
    """Decode with the given decoder, or the first that fits; also returns its name."""
    given = None if (value := batch.given("decoder")) is None else str(value)
    name = CUSTOM if given and ":" in given else given
    if name is not None and (name not in DECODERS or name == given == CUSTOM):
        facts = {"known": ", ".join(NAMES[:-1]), "custom": "FILE.py:FUNCTION"}
        raise UsageError(f"there is no decoder {given!r}", facts=facts, fix=suggest(name, NAMES))
    for each in NAMES if name is None else (name,):
        if (decoded := DECODERS[each][0](batch)) is not None:
            return each, decoded
    if name is not None:
        message = f"the outputs do not match {given}: {DECODERS[name][1]}"
        fix = "omit --decoder, or write one: --decoder FILE.py:FUNCTION"
        raise InputError(message, facts=batch.shapes(), fix=fix)
    tried = {f"tried {each}": DECODERS[each][1] for each in NAMES[:-1]}
    fix = "--decoder NAME, or a custom one: --decoder FILE.py:FUNCTION (docs/eval.md)"
    raise InputError("no decoder fits the outputs", facts={**batch.shapes(), **tried}, fix=fix)


def class_map(
    rows: Sequence[AnyArray],
    truth: _boxes.Truth,
    truths: Sequence[coco.Objects],
    *,
    classes: int | None,
    asked: str | None,
    label: str,
) -> tuple[str, Mapping[int, int], str | None]:
    """Return the name of the class map, category indices by class number, and a note.

    The map is chosen by the number of classes, and by the annotations if several maps fit. ``rows``
    are the detections of every image, [n, 6]. The note tells that another map fits equally well.
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
            raise InputError(f"--class-map {asked} needs 80 classes", fix="--class-map index")
        return asked, every[asked], None
    seen = {int(number) for own in rows for number in np.unique(own[:, 5]) if number >= 0}
    likely = [own[own[:, 4] >= MIN_SHOWN_SCORE, 5] for own in rows]
    if classes:
        fitting = []
        if classes == len(ids):
            fitting = ["index"]
        elif ids != tuple(range(len(ids))):
            fitting = ["id"] if classes > ids[-1] else []
        elif "coco" in every and classes == COCO_IDS[-1] + 1:
            fitting = ["coco"]
        # A class number below all numbers of the map belongs to another map.
        if fitting and any((own < min(every[fitting[0]])).any() for own in likely):
            fitting = []
    else:
        fitting = [name for name, known in every.items() if seen <= known.keys()]
    if not fitting:
        raise InputError(
            f"the classes of {label} do not match those of the data",
            facts={"network": classes or max(seen) + 1, "data": len(ids)},
            fix="--class-map index, if the first classes are the same; --decoder NAME, if the "
            "wrong decoder was chosen",
        )
    right = {
        name: sum(
            len({every[name].get(int(number)) for number in own} & {*there.classes.tolist()})
            for own, there in zip(likely, truths, strict=True)
        )
        for name in fitting
    }
    # Numbering from 1 is rare: used only if numbering from 0 does not fit.
    usual = [name for name in fitting if name != "from-one" or "index" not in fitting]
    best = max(usual, key=lambda name: right[name])
    others = [
        name for name in fitting
        if right[name] >= right[best] and any(every[name].get(n) != every[best].get(n)
                                              for n in seen)
    ]  # fmt: skip
    note = (
        f"{label}: class numbers are read as {best}, but {' or '.join(others)} fits equally well; "
        "set --class-map"
    )
    return best, every[best], note if others else None


def _boxes_of_model(
    model: Predicted, truth: _boxes.Truth | None, truths: Sequence[coco.Objects], settings: Settings
) -> tuple[list[coco.Objects], str, str | None]:
    """Return a model's boxes with indices of categories, how they were decoded, and a note."""
    arrays = [arrays for _, arrays in model.chunks]
    codes = {
        key: sorted({int(code) for each in arrays for code in np.unique(each[key])} - {NO_ORDER})
        for key in ("decoder", "order")
    }
    decoders = [NAMES[code] for code in codes["decoder"]]
    orders = sorted(ORDERS[code] for code in codes["order"])
    if len(decoders) > 1 or len(orders) > 1:
        facts = {"decoders": ", ".join(decoders), "box formats": ", ".join(orders)}
        fix = "--decoder NAME" if len(decoders) > 1 else f"--box-format {orders[0]}"
        raise InputError(f"batches of {model.label} were decoded differently", facts=facts, fix=fix)
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
        objects.append(coco.boxes_from_corners(own[:, :4], labels, own[:, 4]))
    name = settings["decoder"] if decoders[0] == CUSTOM else decoders[0]
    words = f"decoded as {name}, boxes {orders[0] if orders else 'none'}, classes by {how}"
    return objects, words, note


MOST_RESAMPLED = 2e7  # maximum of detections times resamples, about a minute
HIGH_CONF = 0.05  # a higher minimum score truncates the precision-recall curve


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute COCO's average precision, and the similarity to the first model."""
    assert isinstance(source, _boxes.DetectionImages)
    truth = source.truth
    truths = [] if truth is None else [truth.boxes(path) for path in source.paths]
    found = [_boxes_of_model(model, truth, truths, settings) for model in models]
    alike = _boxes.similarities("iou_to_first", [own for own, _, _ in found], _similar)
    read = "; ".join(f"{m.label}: {words}" for m, (_, words, _) in zip(models, found, strict=True))
    if truth is None:
        return Judgement(
            scores=alike, method=f"no annotations: only models are compared; {read}",
            notes=source.notes,
        )  # fmt: skip
    labels = [model.label for model in models]
    matches = [
        [coco.match_boxes(each, true) for each, true in zip(own, truths, strict=True)]
        for own, _, _ in found
    ]
    tallies = [coco.BoxTally(each) for each in matches]
    most = _boxes.RESAMPLES
    affordable = MOST_RESAMPLED / max(1, *(tally.detections for tally in tallies))
    resamples = int(np.clip(affordable, most // 4, most)) * (not source.scores_only)
    scores = []
    for tally, other in zip(tallies, alike, strict=True):
        own = _boxes.scores_with_intervals(
            tally.summary(), tally.weighted_means, images=len(truths), resamples=resamples
        )
        scores.append((*own, *other))
    conf = float(settings["conf"] or 0)
    notes = [*source.notes, *(note for _, _, note in found if note)]
    if conf > HIGH_CONF:
        notes.append(f"--conf {conf:g} lowers mAP: published values use 0.001")
    if not any((~each.crowd).any() for each in truths):
        notes.append("no objects are annotated in these images: average precision is undefined")
    return Judgement(
        scores=tuple(scores),
        method="COCO's average precision of boxes, IoU 0.50 to 0.95, 100 boxes per image and "
        f"class, conf {conf:g}; intervals by {resamples} resamples; {read}",
        tables=(_class_table(labels, tallies, truth.names), _image_table(labels, matches, source)),
        notes=tuple(notes),
    )


def _similar(found: coco.Objects, reference: coco.Objects) -> AnyArray:
    similar = coco.overlaps(found, reference)
    similar[found.classes[:, None] != reference.classes[None]] = 0.0
    similar[found.scores < MIN_SHOWN_SCORE] = 0.0
    return similar


def _class_table(
    labels: Sequence[str], tallies: Sequence[coco.BoxTally], names: Mapping[int, str]
) -> TableValue:
    by_class = zip(*(tally.by_class() for tally in tallies), strict=True)
    order = sorted(by_class, key=lambda classes: float(classes[0].precision.mean()))
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (names[own.number], label, int(own.truths), float(own.precision.mean()),
         float(own.precision[0].mean()), float(own.recall.mean()))
        for classes in order
        for label, own in zip(labels, classes, strict=True)
    )  # fmt: skip
    heads = ("class", "model", "objects", "mAP", "mAP50", "AR")
    return TableValue(id="classes", title="By class, the worst first", headings=heads, rows=rows)


def _image_table(
    labels: Sequence[str], matches: Sequence[Sequence[coco.BoxMatches]], source: DataSource
) -> TableValue:
    """Count correct, missed and wrong boxes of every image, above the minimum score."""
    listed: list[tuple[float, tuple[Scalar, ...]]] = []
    for label, every in zip(labels, matches, strict=True):
        for name, match in zip(source.names, every, strict=True):
            counted = (match.scores >= MIN_SHOWN_SCORE) & ~match.ignored[0, 0]
            objects, right = int(match.counted[0].sum()), int((match.hits[0, 0] & counted).sum())
            wrong = int((~match.hits[0, 0] & counted).sum())
            share = right / (objects + wrong) if objects + wrong else float("nan")
            listed.append((share, (name, label, objects, right, objects - right, wrong)))
    listed.sort(key=lambda pair: (np.isnan(pair[0]), pair[0]))
    heads = ("image", "model", "objects", "correct", "missed", "false positives")
    return TableValue(
        id="images", title=f"By image, at IoU 0.5 and score {MIN_SHOWN_SCORE:g}, the worst first",
        headings=heads, rows=tuple(row for _, row in listed),
    )  # fmt: skip
