"""Layouts of detectors' outputs: names, orders, types and batches of many makers say the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_detectors import CLASSES, OBJECTS, SIZE, centres, logits, one_hot, yolov8

from trtbench.analysis.coco import Letterbox, boxes_from_corners
from trtbench.core.errors import InputError, UsageError
from trtbench.runtimes._stream import _per_item
from trtbench.tasks import detection
from trtbench.tasks._boxes import DetectionImage
from trtbench.tasks._decoders import COCO_IDS, NAMES, ORDERS, class_map
from trtbench.tasks.contract import completed

CORNERS = np.array([each[:4] for each in OBJECTS])
SCORES = np.array([each[5] for each in OBJECTS])
LABELS = np.array([each[4] for each in OBJECTS], np.int64)
RIGHT = [tuple(np.round([*box, score, label], 2)) for box, score, label in
         zip(CORNERS, SCORES, LABELS, strict=True)]  # fmt: skip
ROWS = 12
GRIDS = 84
"""Places of the three grids of the input."""


def decoded(
    outputs: dict[str, np.ndarray], *, batch: int = 1, classes: int | None = CLASSES,
    highest: int | None = None, cut: bool = False, **settings: object,
) -> tuple[str, str, list[list[tuple[float, ...]]]]:  # fmt: skip
    """Decoder, order of coordinates, and rows of every image; ``cut`` as a pass does it."""
    items = [
        DetectionImage(
            index=place, pixels=np.zeros((SIZE, SIZE, 3), np.uint8), target=(SIZE, SIZE),
            classes=classes, highest=highest or classes,
            geometry=Letterbox(scale_x=1.0, scale_y=1.0, left=0, top=0),
        )
        for place in range(batch)
    ]  # fmt: skip
    arrays = {name: _per_item(array, batch, batch) if cut else array
              for name, array in outputs.items()}  # fmt: skip
    told = completed(detection.FLAGS, {"data": ".", "conf": 0.3, **settings})
    found = detection.decode(arrays, items, told)  # type: ignore[arg-type]
    rows = [[tuple(np.round(row.astype(float), 2)) for row in image if row[4] >= 0]
            for image in found["boxes"]]  # fmt: skip
    order = int(found["order"][0])
    return NAMES[int(found["decoder"][0])], ORDERS[order] if order >= 0 else "none", rows


def said(outputs: dict[str, np.ndarray], *, batch: int, **settings: object) -> tuple[str, list]:
    decoder, _, rows = decoded(outputs, batch=batch, **settings)  # type: ignore[arg-type]
    return decoder, rows


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
    """Counts, boxes, scores and classes in every order of outputs, named or not."""
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
        decoder, rows = said(outputs, batch=batch)
        assert decoder == "nms-lists"
        assert rows == [RIGHT] * batch, (places, names)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("first", ["boxes", "scores"])
@pytest.mark.parametrize("names", [("pred_boxes", "logits"), ("dets", "labels"), ("x", "y")])
@pytest.mark.parametrize("classes", [CLASSES, 4])
def test_queries_with_logits(batch: int, first: str, names: tuple[str, str], classes: int) -> None:
    likely = np.full((ROWS, classes), 1e-4)
    likely[: len(OBJECTS), :CLASSES] = np.clip(one_hot(), 1e-4, 1)
    parts = {names[0]: boxes_as("cxcywh", fraction=True), names[1]: logits(likely)}
    order = names if first == "boxes" else names[::-1]
    outputs = {name: np.stack([parts[name].astype(np.float32)] * batch) for name in order}
    asked = {"activation": "sigmoid", "background": "none"} if classes != CLASSES else {}
    assert said(outputs, batch=batch, **asked) == ("detr", [RIGHT] * batch)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("order", ["xyxy", "cxcywh"])
@pytest.mark.parametrize("fraction", [True, False])
@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("names", [("boxes", "scores"), ("o2", "o1")])
@pytest.mark.parametrize("flat", [True, False])
def test_boxes_with_probabilities(
    batch: int, order: str, fraction: bool, background: bool, names: tuple[str, str], flat: bool
) -> None:
    scores = np.zeros((400, CLASSES + background), np.float32)
    scores[: len(OBJECTS), int(background) :] = one_hot()
    boxes = boxes_as(order, fraction=fraction, rows=400)
    parts = {names[1]: scores, names[0]: boxes if flat else boxes[:, None]}
    outputs = {name: np.stack([part] * batch) for name, part in parts.items()}
    assert said(outputs, batch=batch) == ("ssd", [RIGHT] * batch)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("order", ["xyxy", "cxcywh"])
@pytest.mark.parametrize("fraction", [True, False])
def test_finished_rows(batch: int, order: str, fraction: bool) -> None:
    """As YOLOv10 has them, and as Ultralytics exports RT-DETR: centres as fractions."""
    scores, labels = np.full(ROWS, 0.01), np.zeros(ROWS)
    scores[: len(SCORES)], labels[: len(LABELS)] = SCORES, LABELS
    rows = np.column_stack([boxes_as(order, fraction=fraction), scores, labels])
    outputs = {"output0": np.stack([rows.astype(np.float32)] * batch)}
    assert said(outputs, batch=batch) == ("end2end", [RIGHT] * batch)


def test_queries_with_scores_of_all_classes_are_not_suppressed() -> None:
    """RT-DETR as Ultralytics exported it before: no box is a double of another there."""
    twice = [*OBJECTS, *((*each[:5], each[5] / 2) for each in OBJECTS)]
    rows = np.concatenate([centres(twice) / SIZE, one_hot(twice)], axis=1)
    rows = np.concatenate([rows, np.full((296, 4 + CLASSES), 0.01)]).astype(np.float32)
    decoder, found = said({"output0": rows[None]}, batch=1)
    assert decoder == "queries"
    assert [row[5] for row in found[0]] == [0, 2, 0, 2]
    decoder, found = said({"output0": rows[None]}, batch=1, nms="class")
    assert found == [RIGHT]


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


@pytest.mark.parametrize("batch", [1, 2])
def test_boxes_with_scores_beside_labels(batch: int) -> None:
    """As mmdeploy writes them."""
    dets = np.zeros((batch, 9, 5), np.float32)
    dets[:, :2] = np.column_stack([CORNERS, SCORES])
    labels = np.zeros((batch, 9), np.int64)
    labels[:, :2] = LABELS
    assert decoded({"dets": dets, "labels": labels}, batch=batch) == (
        "nms-lists", "xyxy", [RIGHT] * batch,
    )  # fmt: skip


COLUMNS = {
    "YOLOv7": (*range(4), 5, 4), "YOLO-NAS": (*range(4), 4, 5), "SSD": (5, 4, *range(4)),
}  # fmt: skip


@pytest.mark.parametrize("maker", COLUMNS)
@pytest.mark.parametrize("counts", [(2,), (0,), (1,), (2, 0), (1, 1), (2, 2)])
def test_rows_that_number_their_images(maker: str, counts: tuple[int, ...]) -> None:
    """[n, 7] over the whole batch, however many there are."""
    rows = np.column_stack([CORNERS, SCORES, LABELS])[:, COLUMNS[maker]]
    parts = [np.column_stack([np.full(n, place), rows[:n]]) for place, n in enumerate(counts)]
    whole = np.concatenate(parts).astype(np.float32).reshape(-1, 7)
    decoder, _, found = decoded({"output": whole}, batch=len(counts), cut=True)
    assert decoder == "end2end"
    assert found == [RIGHT[:n] for n in counts]


def test_rows_of_a_plug_in_of_ssd_with_a_count() -> None:
    """[batch, 1, kept, 7], normalised; what stands behind the count is rubbish."""
    rows = np.full((2, 1, 10, 7), 0.99, np.float32)
    for place in range(2):
        rows[place, 0, :, 0] = place
        rows[place, 0, :, 1] = 1
        rows[place, 0, :2, 1:] = np.column_stack([LABELS, SCORES, CORNERS / SIZE])
    counts = np.full((2, 1, 1, 1), 2, np.int32)
    assert decoded({"detections": rows, "keep": counts}, batch=2) == (
        "end2end", "xyxy", [RIGHT] * 2,
    )  # fmt: skip


@pytest.mark.parametrize("counts", [(2,), (1,), (0,), (2, 0), (1, 1)])
def test_rows_of_paddle(counts: tuple[int, ...]) -> None:
    """Class and score first, all images one after the other, and how many each has."""
    rows = np.column_stack([LABELS, SCORES, CORNERS]).astype(np.float32)
    whole = np.concatenate([rows[:count] for count in counts]).reshape(-1, 6)
    outputs = {"rows": whole, "number": np.array(counts, np.int32)}
    decoder, _, found = decoded(outputs, batch=len(counts), cut=True)
    assert decoder == "end2end"
    assert found == [RIGHT[:n] for n in counts]


@pytest.mark.parametrize("raw", [True, False])
def test_tensorflow_says_rows_before_columns(raw: bool) -> None:
    boxes = np.zeros((1, 10, 4), np.float32)
    boxes[0, :2] = CORNERS[:, [1, 0, 3, 2]] / SIZE
    scores, labels = np.zeros((1, 10), np.float32), np.ones((1, 10), np.float32)
    scores[0, :2], labels[0, :2] = SCORES, LABELS
    end = "" if raw else ":0"
    outputs = {
        f"detection_boxes{end}": boxes, f"detection_classes{end}": labels,
        f"detection_scores{end}": scores, f"num_detections{end}": np.array([10.0], np.float32),
    }  # fmt: skip
    if raw:
        outputs |= {
            "raw_detection_boxes": np.ones((1, 50, 4), np.float32),
            "raw_detection_scores": np.ones((1, 50, 4), np.float32),
            "detection_multiclass_scores": np.ones((1, 10, 4), np.float32),
        }
    assert decoded(outputs) == ("nms-lists", "yxyx", [RIGHT])
    plain = {name.split(":")[0]: a for name, a in outputs.items() if "raw" not in name}
    plain["detection_boxes"] = boxes[..., [1, 0, 3, 2]] * SIZE
    plain.pop("detection_multiclass_scores", None)
    assert decoded(plain) == ("nms-lists", "xyxy", [RIGHT]), "others use the same names"


def test_one_class() -> None:
    boxes = np.full((1, 20, 4), 0.5, np.float32)
    boxes[0, :2] = centres() / SIZE
    likely = np.full((1, 20, 1), 1e-4)
    likely[0, :2, 0] = SCORES
    one = [[(*row[:5], 0) for row in RIGHT]]
    assert decoded({"logits": logits(likely), "pred_boxes": boxes}, classes=1)[2] == one
    corners = np.zeros((1, 2000, 4), np.float32)
    corners[0, :2] = CORNERS
    scores = np.zeros((1, 2000, 1), np.float32)
    scores[0, :2, 0] = SCORES
    assert decoded({"boxes": corners, "scores": scores}, classes=1) == ("ssd", "xyxy", one)


@pytest.mark.parametrize("boxes_stand", [True, False])
@pytest.mark.parametrize("as_logits", [True, False])
def test_sides_and_scores_that_stand(boxes_stand: bool, as_logits: bool) -> None:
    """PP-YOLOE without its NMS, and YOLOs whose last concatenation was taken off."""
    boxes, scores = np.zeros((1, 1500, 4)), np.full((1, 1500, CLASSES), 1e-5)
    twice = [*OBJECTS, *((*each[:5], each[5] * 0.7) for each in OBJECTS)]
    boxes[0, :4] = [each[:4] for each in twice]
    scores[0, :4] = np.clip(one_hot(twice), 1e-5, 1)
    outputs = {
        "a": (logits(scores) if as_logits else scores).transpose(0, 2, 1),
        "b": boxes.transpose(0, 2, 1) if boxes_stand else boxes,
    }
    assert decoded(outputs) == ("ssd", "xyxy", [RIGHT]), "with doubles dropped"


@pytest.mark.parametrize("highest", [91, 80])
def test_the_background_of_an_ssd_whose_classes_are_ids(highest: int) -> None:
    """Its boxes are the most likely ones, and would leave no room for others."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 40, (1, 1200, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(2, 20, (1, 1200, 2))], axis=2)
    boxes[0, :2] = CORNERS
    scores = np.full((1, 1200, 91), 1e-4)
    scores[..., 0] = 0.95
    scores[0, :2, 0] = 0.05
    for place, label in enumerate(LABELS):
        scores[0, place, 80 + label] = SCORES[place]
    decoder, _, [rows] = decoded(
        {"boxes": boxes, "scores": scores}, classes=80, highest=highest, max_det=2
    )
    assert decoder == "ssd"
    assert [row[5] - 80 for row in rows] == [0, 2]


@pytest.mark.parametrize("known", [CLASSES, None])
def test_a_class_for_nothing_is_one_that_most_queries_say(known: int | None) -> None:
    """RF-DETR has a class more as well, and a sigmoid."""
    boxes = np.full((1, 100, 4), 0.5)
    boxes[0, :2] = centres() / SIZE
    likely = np.full((100, CLASSES + 1), 1e-4)
    likely[:2, :CLASSES] = np.clip(one_hot(), 1e-4, 1)
    sigmoid = decoded({"labels": logits(likely)[None], "dets": boxes}, classes=known)
    assert sigmoid == ("detr", "cxcywh", [RIGHT])
    likely[2:, -1] = 1.0
    likely[:2, -1] = 1 - SCORES
    softmax = decoded({"labels": np.log(likely)[None], "dets": boxes}, classes=known)
    assert [row[5] for row in softmax[2][0]] == [0, 2]
    assert [row[4] for row in softmax[2][0]] == pytest.approx(list(SCORES), abs=0.01)


def test_detr_of_91_classes_on_data_of_80() -> None:
    boxes = np.full((1, 100, 4), 0.5)
    boxes[0, :2] = centres() / SIZE
    likely = np.full((1, 100, 92), 1e-6)
    likely[0, 2:, 91] = 1.0
    likely[0, [0, 1], [3, 90]] = SCORES
    likely[0, :2, 91] = 1 - SCORES
    found = decoded({"logits": np.log(likely), "pred_boxes": boxes}, classes=80)
    assert [row[4:] for row in found[2][0]] == [(0.9, 3), (0.8, 90)]


def test_yolox_as_it_exports() -> None:
    """Offsets from the places of the grids, and logarithms of sizes."""
    rows = np.zeros((1, GRIDS, 5 + CLASSES), np.float32)
    rows[..., 2:4] = -0.5
    for (*_, label, score), (x, y, wide, high) in zip(OBJECTS, centres(), strict=True):
        place = 64 + int(y // 16) * 4 + int(x // 16)  # of the second grid
        rows[0, place, :4] = [x / 16 - x // 16, y / 16 - y // 16, *np.log([wide / 16, high / 16])]
        rows[0, place, 4], rows[0, place, 5 + int(label)] = 0.95, score / 0.95
    assert decoded({"output": rows}) == ("yolox", "cxcywh", [RIGHT])
    assert decoded({"output": rows}, decoder="yolox")[2] == [RIGHT]
    with pytest.raises(InputError, match="80 boxes are not those of the grids"):
        decoded({"output": rows[:, :80]}, decoder="yolox")


def test_objectness_where_nobody_knows_the_classes() -> None:
    rows = np.zeros((1, GRIDS, 5 + CLASSES), np.float32)
    rows[0, :2] = np.column_stack([centres(), np.ones(2), one_hot()])
    rows[..., 4] = 1  # YOLOv6
    assert decoded({"output": rows}, classes=None) == ("yolov5", "cxcywh", [RIGHT])
    queries = np.full((1, 300, 4 + CLASSES), 0.01, np.float32)
    queries[0, :2] = np.column_stack([centres() / SIZE, one_hot()])
    assert decoded({"output": queries}, classes=None) == ("queries", "cxcywh", [RIGHT])


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
    boxes = np.full((1, 30, 4), 0.5, kind)
    boxes[0, :2], boxes[0, 9] = centres() / SIZE, np.inf
    likely = np.full((1, 30, CLASSES), 1e-4)
    likely[0, :2] = np.clip(one_hot(), 1e-4, 1)
    scores = logits(likely).astype(kind)
    scores[0, 9] = np.nan
    decoder, _, [rows] = decoded({"a": scores, "b": boxes})
    assert decoder == "detr"
    assert np.allclose(rows, RIGHT, atol=0.1)


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
