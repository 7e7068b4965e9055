"""Layouts of detectors' outputs: names, orders, types and batches of many makers say the same."""

import itertools

import numpy as np
import pytest
from made_detectors import CLASSES, OBJECTS, SIZE, centres, one_hot, yolov8

from trtbench.analysis.coco import Letterbox, boxes_from_corners
from trtbench.core.errors import InputError, UsageError
from trtbench.runtimes._stream import _per_item
from trtbench.tasks import detection
from trtbench.tasks._images import Loaded
from trtbench.tasks.contract import settings_with_defaults
from trtbench.tasks.detection import COCO_IDS, NAMES, ORDERS, class_map

CORNERS = np.array([each[:4] for each in OBJECTS])
SCORES = np.array([each[5] for each in OBJECTS])
LABELS = np.array([each[4] for each in OBJECTS], np.int64)
RIGHT = [tuple(np.round([*box, score, label], 2)) for box, score, label in
         zip(CORNERS, SCORES, LABELS, strict=True)]  # fmt: skip
ROWS = 12
GRIDS = 84  # places of the three grids of the input


def decoded(
    outputs: dict[str, np.ndarray], *, batch: int = 1, classes: int | None = CLASSES,
    cut: bool = False, **settings: object,
) -> tuple[str, str, list[list[tuple[float, ...]]]]:  # fmt: skip
    """Decoder, order of coordinates, and rows of every image; ``cut`` as a pass does it."""
    items = [
        Loaded(
            index=place, pixels=np.zeros((SIZE, SIZE, 3), np.uint8), target=(SIZE, SIZE),
            classes=classes,
            geometry=Letterbox(scale_x=1.0, scale_y=1.0, left=0, top=0),
        )
        for place in range(batch)
    ]  # fmt: skip
    arrays = {name: _per_item(array, batch, batch) if cut else array
              for name, array in outputs.items()}  # fmt: skip
    told = settings_with_defaults(detection.FLAGS, {"data": ".", "conf": 0.3, **settings})
    found = detection.decode(arrays, items, told)  # type: ignore[arg-type]
    rows = [[tuple(np.round(row.astype(float), 2)) for row in image if row[4] >= 0]
            for image in found["boxes"]]  # fmt: skip
    order = int(found["order"][0])
    return NAMES[int(found["decoder"][0])], ORDERS[order] if order >= 0 else "none", rows


def boxes_as(order: str, *, fraction: bool, rows: int = ROWS) -> np.ndarray:
    """OBJECTS, then boxes of nothing at the lower right, where centres are larger than sizes."""
    nothing = [(50.0, 52.0, 60.0, 62.0, 1, 0.01)] * (rows - len(OBJECTS))
    every = [*OBJECTS, *nothing]
    boxes = centres(every) if order == "cxcywh" else np.array([each[:4] for each in every])
    return (boxes / SIZE if fraction else boxes).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("order", ["xyxy", "cxcywh"])
@pytest.mark.parametrize("fraction", [True, False])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("named", [True, False])
def test_lists_of_a_plug_in(
    batch: int, order: str, fraction: bool, kind: type, named: bool
) -> None:
    scores, labels = np.full(ROWS, 0.01, np.float32), np.ones(ROWS, kind)
    scores[: len(SCORES)], labels[: len(LABELS)] = SCORES, LABELS
    parts = {
        "num_dets": np.array([len(OBJECTS)], kind), "boxes": boxes_as(order, fraction=fraction),
        "scores": scores, "classes": labels,
    }  # fmt: skip
    for places in itertools.permutations(parts):
        names = places if named else [f"output{number}" for number in range(4)]
        outputs = {name: np.stack([parts[part]] * batch)
                   for name, part in zip(names, places, strict=True)}  # fmt: skip
        decoder, _, rows = decoded(outputs, batch=batch)
        assert decoder == "nms-lists"
        assert rows == [RIGHT] * batch, (places, names)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("order", ["xyxy", "cxcywh"])
@pytest.mark.parametrize("fraction", [True, False])
def test_finished_rows(batch: int, order: str, fraction: bool) -> None:
    """As YOLOv10 has them, and as Ultralytics exports RT-DETR: centres as fractions."""
    scores, labels = np.full(ROWS, 0.01), np.zeros(ROWS)
    scores[: len(SCORES)], labels[: len(LABELS)] = SCORES, LABELS
    rows = np.column_stack([boxes_as(order, fraction=fraction), scores, labels])
    outputs = {"output0": np.stack([rows.astype(np.float32)] * batch)}
    assert decoded(outputs, batch=batch)[::2] == ("end2end", [RIGHT] * batch)


def test_queries_with_scores_of_all_classes_are_not_suppressed() -> None:
    """RT-DETR as Ultralytics exported it before: no box is a double of another there."""
    twice = [*OBJECTS, *((*each[:5], each[5] / 2) for each in OBJECTS)]
    rows = np.concatenate([centres(twice) / SIZE, one_hot(twice)], axis=1)
    rows = np.concatenate([rows, np.full((296, 4 + CLASSES), 0.01)]).astype(np.float32)
    decoder, _, found = decoded({"output0": rows[None]})
    assert decoder == "yolov8"
    assert [row[5] for row in found[0]] == [0, 2, 0, 2]
    assert decoded({"output0": rows[None]}, nms="class")[2] == [RIGHT]


@pytest.mark.parametrize("objects", range(6))
def test_as_many_boxes_as_there_are(objects: int) -> None:
    """torchvision hands out [n, 4], [n] and [n], n being four or none at times."""
    boxes = np.tile(CORNERS[0], (objects, 1)) + np.arange(objects)[:, None]
    outputs = {
        "boxes": boxes.astype(np.float32), "labels": np.full(objects, 2, np.int64),
        "scores": np.linspace(0.9, 0.5, objects).astype(np.float32),
    }  # fmt: skip
    decoder, order, [rows] = decoded(outputs, cut=True)
    assert decoder == "nms-lists"
    assert order == ("xyxy" if objects else "none")
    assert [row[:4] for row in rows] == [tuple(row) for row in boxes]
    assert {row[5] for row in rows} == ({2} if objects else set())


def test_tensorflow_says_rows_before_columns() -> None:
    boxes = np.zeros((1, 10, 4), np.float32)
    boxes[0, :2] = CORNERS[:, [1, 0, 3, 2]] / SIZE
    scores, labels = np.zeros((1, 10), np.float32), np.ones((1, 10), np.float32)
    scores[0, :2], labels[0, :2] = SCORES, LABELS
    outputs = {
        "detection_boxes:0": boxes, "detection_classes:0": labels,
        "detection_scores:0": scores, "num_detections:0": np.array([10.0], np.float32),
    }  # fmt: skip
    assert decoded(outputs) == ("nms-lists", "yxyx", [RIGHT])
    plain = {name.split(":")[0]: array for name, array in outputs.items()}
    plain["detection_boxes"] = boxes[..., [1, 0, 3, 2]] * SIZE
    assert decoded(plain) == ("nms-lists", "xyxy", [RIGHT]), "others use the same names"


def test_what_would_be_misread_is_refused() -> None:
    """Queries with logits, YOLOX as it exports, and rows in another order."""
    queries = {"logits": np.zeros((1, 100, 92)), "pred_boxes": np.full((1, 100, 4), 0.5)}
    with pytest.raises(InputError, match="no decoder fits the outputs"):
        decoded(queries)
    table = np.full((1, GRIDS, 5 + CLASSES), -0.5, np.float32)
    with pytest.raises(InputError, match="relative to grid cells"):
        decoded({"output": table})
    rows = np.column_stack([LABELS, SCORES, CORNERS])[None].astype(np.float32)
    with pytest.raises(InputError, match="are not a box, its score and its class"):
        decoded({"output": rows})


def test_objectness_where_nobody_knows_the_classes() -> None:
    rows = np.zeros((1, GRIDS, 5 + CLASSES), np.float32)
    rows[0, :2] = np.column_stack([centres(), np.ones(2), one_hot()])
    rows[..., 4] = 1  # YOLOv6
    assert decoded({"output": rows}, classes=None) == ("yolov5", "cxcywh", [RIGHT])
    queries = np.full((1, 300, 4 + CLASSES), 0.01, np.float32)
    queries[0, :2] = np.column_stack([centres() / SIZE, one_hot()])
    assert decoded({"output": queries}, classes=None) == ("yolov8", "cxcywh", [RIGHT])


def test_rows_before_doubles_were_dropped() -> None:
    """As for DeepStream, which drops them itself: a row for every place of the grids."""
    rows = np.zeros((1, GRIDS, 6), np.float32)
    own = np.column_stack([CORNERS, SCORES, LABELS])
    rows[0, :2], rows[0, 2:4] = own, own * [1, 1, 1, 1, 0.7, 1]
    assert decoded({"output": rows}, nms="class") == ("end2end", "xyxy", [RIGHT])
    lists = {"boxes": np.zeros((1, 1500, 4)), "scores": np.zeros((1, 1500, 1)),
             "classes": np.zeros((1, 1500, 1))}  # fmt: skip
    for name, part in (("boxes", slice(0, 4)), ("scores", [4]), ("classes", [5])):
        lists[name][0, :4] = rows[0, :4, part].T if isinstance(part, list) else rows[0, :4, part]
    assert decoded(lists) == ("nms-lists", "xyxy", [RIGHT])


def test_two_outputs_of_one_shape() -> None:
    """YOLOv9 hands out what its auxiliary branch says too, first."""
    moved = yolov8(objects=[(1.0, 1.0, 9.0, 9.0, 1, 0.9)])[None]
    outputs = {"aux": moved, "main": yolov8()[None]}
    with pytest.raises(InputError, match="2 outputs could hold the boxes") as told:
        decoded(outputs)
    assert "--read-output main" in str(told.value.fix)
    assert decoded(outputs, read_output="main") == ("yolov8", "cxcywh", [RIGHT])
    with pytest.raises(UsageError, match="no output 'mian'"):
        decoded(outputs, read_output="mian")


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_few_values_that_are_no_numbers_change_nothing_else(kind: type) -> None:
    """As an overflow leaves them: the family stays the same, and so do the other boxes."""
    table = yolov8().T[None].astype(kind)
    table[0, 50] = np.nan
    tolerance = 0.51 if kind is np.float16 else 0.01
    decoder, _, [rows] = decoded({"output": table})
    assert decoder == "yolov8"
    assert np.allclose(rows, RIGHT, atol=tolerance)


class Known:
    """Categories of a data set."""

    named = True

    def __init__(self, *ids: int) -> None:
        self.ids, self.names = ids, {place: str(id) for place, id in enumerate(ids)}


def numbered(
    said: list[int], there: list[int], ids: tuple[int, ...], **told: object
) -> tuple[str, bool]:
    """How numbers are read of an image with these places among the categories, and if noted."""
    rows = np.array([[0, 0, 9, 9, 0.9, number] for number in said]).reshape(-1, 6)
    truth = boxes_from_corners(np.tile([0, 0, 9, 9], (len(there), 1)), np.array(there))
    settings = {"classes": None, "asked": None, **told}
    name, _, note = class_map([rows], Known(*ids), [truth], label="net", **settings)  # type: ignore[arg-type]
    return name, note is not None


COCO80 = tuple(range(80))


@pytest.mark.parametrize(
    ("said", "there", "ids", "told", "name"),
    [
        ([0, 2], [0, 2], (1, 2, 3), {}, "index"),
        ([3, 90], [0, 2], (3, 7, 90), {}, "id"),
        ([1, 2], [0, 1], (1, 2, 3), {}, "id"),  # a place could be meant, but they are not there
        ([1, 2], [1, 2], (1, 2, 3), {}, "index"),
        ([1, 3], [0, 2], (0, 1, 2), {}, "from-one"),
        ([1, 17], [0, 15], COCO80, {}, "coco"),
        ([1, 90], [0, 79], COCO80, {}, "coco"),
        ([0, 79], [0, 79], COCO80, {}, "index"),
        ([1, 80], [0, 79], COCO_IDS, {}, "from-one"),
        ([1, 80], [0, 70], COCO_IDS, {}, "id"),
        ([5], [5], COCO80, {"classes": 91}, "coco"),
        ([5], [5], COCO_IDS, {"classes": 91}, "id"),
        ([5], [5], COCO_IDS, {"classes": 80}, "index"),
        ([5], [5], COCO_IDS, {"asked": "from-one"}, "from-one"),
        ([], [1], (1, 2, 3), {}, "index"),
    ],
)
def test_what_numbers_of_classes_mean(
    said: list[int], there: list[int], ids: tuple[int, ...], told: dict, name: str
) -> None:
    assert numbered(said, there, ids, **told) == (name, False)
