"""Layouts of detectors' outputs: other names, orders, types, batches and boxes say the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_detectors import CLASSES, OBJECTS, SIZE, centres, logits, one_hot

from trtbench.analysis.detection import Letterbox
from trtbench.tasks import detection
from trtbench.tasks._decoders import DECODERS
from trtbench.tasks._detection_images import DetectionImage
from trtbench.tasks.contract import completed

CORNERS = np.array([each[:4] for each in OBJECTS])
SCORES = np.array([each[5] for each in OBJECTS])
LABELS = np.array([each[4] for each in OBJECTS])
ROWS = 12


def said(outputs: dict[str, np.ndarray], *, batch: int, **settings: object) -> tuple[str, list]:
    """The decoder that is found, and for each image its boxes, rounded."""
    items = [
        DetectionImage(
            index=place, pixels=np.zeros((SIZE, SIZE, 3), np.uint8), target=(SIZE, SIZE),
            classes=CLASSES, highest=CLASSES,
        )
        for place in range(batch)
    ]  # fmt: skip
    for item in items:
        item.geometry = Letterbox(scale_x=1.0, scale_y=1.0, left=0, top=0)
    told = completed(detection.FLAGS, {"data": ".", "conf": 0.3, **settings})
    found = detection.decode(outputs, items, told)
    rows = [[tuple(np.round(row.astype(float), 2)) for row in image if row[4] >= 0]
            for image in found["boxes"]]  # fmt: skip
    return DECODERS[int(found["decoder"][0])].name, rows


RIGHT = [tuple(np.round([*box, score, label], 2)) for box, score, label in
         zip(CORNERS, SCORES, LABELS, strict=True)]  # fmt: skip


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


@pytest.mark.parametrize("ends", [(), (1,)])
@pytest.mark.parametrize("counted", [(), (1,)])
def test_lists_with_a_dimension_of_one_more_or_less(
    ends: tuple[int, ...], counted: tuple[int, ...]
) -> None:
    scores, labels = np.full((2, ROWS), 0.01, np.float32), np.ones((2, ROWS), np.int64)
    scores[:, : len(SCORES)], labels[:, : len(LABELS)] = SCORES, LABELS
    outputs = {
        "a": labels.reshape(2, ROWS, *ends),
        "b": scores.reshape(2, ROWS, *ends),
        "c": np.stack([boxes_as("xyxy", fraction=False)] * 2),
        "d": np.full((2, *counted), len(OBJECTS), np.int64),
    }
    assert said(outputs, batch=2) == ("nms-lists", [RIGHT] * 2)


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
