"""Detectors that say known boxes in the layout of each family, and data that they are right on."""

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from models import save_text

SIZE = 64
CLASSES = 3
NAMES = ("cat", "dog", "bird")
SIZES = {"square.png": (64, 64), "wide.png": (128, 64)}
OBJECTS = ((10.0, 12.0, 30.0, 40.0, 0, 0.9), (36.0, 8.0, 60.0, 50.0, 2, 0.8))
"""x0, y0, x1, y1 in the input, class, score."""


def network(path: Path, outputs: Mapping[str, np.ndarray], *, size: int | str = SIZE) -> Path:
    """Says the same about every image; outputs have no batch of their own."""
    ends, lines = [], []
    weights: dict[str, object] = {"zero": 0.0}
    for number, (name, values) in enumerate(outputs.items()):
        whole = values.dtype.kind == "i"
        weights[f"table{number}"] = values[None].astype(np.float32)
        weights[f"shape{number}"] = [-1, *[1] * values.ndim]
        lines += [
            f"flat{number} = Reshape(nothing, shape{number})",
            f"told{number} = Add(flat{number}, table{number})",
            f"{name} = Cast <to = {6 if whole else 1}> (told{number})",
        ]
        sizes = ", ".join(map(str, ("batch", *values.shape)))
        ends.append(f"{'int32' if whole else 'float'}[{sizes}] {name}")
    text = f"""net (float[batch, 3, {size}, {size}] images) => ({", ".join(ends)}) {{
        mean = ReduceMean <axes = [1, 2, 3], keepdims = 0> (images)
        nothing = Mul(mean, zero)
        {" ".join(lines)}
    }}"""
    return save_text(path, text, **weights)


def centres(objects: Sequence[Sequence[float]] = OBJECTS) -> np.ndarray:
    boxes = np.array([each[:4] for each in objects])
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def one_hot(objects: Sequence[Sequence[float]] = OBJECTS, classes: int = CLASSES) -> np.ndarray:
    scores = np.zeros((len(objects), classes))
    for row, each in enumerate(objects):
        scores[row, int(each[4])] = each[5]
    return scores


def filled(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows that say nothing, behind those that do."""
    return np.concatenate([rows, np.zeros((count - len(rows), rows.shape[1]))])


def yolov8(*, count: int = 84, objects: Sequence[Sequence[float]] = OBJECTS) -> np.ndarray:
    """[4 + classes, n], each object twice: doubles are to be dropped."""
    twice = [*objects, *((*o[:5], o[5] * 0.7) for o in objects)]
    rows = np.concatenate([centres(twice), one_hot(twice)], axis=1)
    return filled(rows, count).T


def yolov5(*, count: int = 252) -> np.ndarray:
    """[n, 5 + classes]: the score is objectness times class."""
    twice = [*OBJECTS, *((*o[:5], o[5] * 0.7) for o in OBJECTS)]
    scores = one_hot(twice)
    objectness = np.full((len(twice), 1), 0.95)
    rows = np.concatenate([centres(twice), objectness, scores / 0.95], axis=1)
    return filled(rows, count)


def end2end(*, count: int = 20) -> np.ndarray:
    rows = np.array([[*each[:4], each[5], each[4]] for each in OBJECTS])
    return filled(rows, count)


def lists(*, count: int = 10, fraction: bool = False) -> dict[str, np.ndarray]:
    """Rubbish behind the count must not be read."""
    rows = end2end(count=count)
    rows[len(OBJECTS) :] = (1, 1, 20, 20, 0.99, 1)
    boxes = rows[:, :4] / (SIZE if fraction else 1)
    return {
        "num_dets": np.array([len(OBJECTS)], np.int32), "det_boxes": boxes,
        "det_scores": rows[:, 4], "det_classes": rows[:, 5].astype(np.int32),
    }  # fmt: skip


def pictures(folder: Path) -> Path:
    """One image of the input's size, one twice as wide, where OBJECTS lie as the letterbox says."""
    folder.mkdir(parents=True)
    for name, size in SIZES.items():
        image = Image.new("RGB", size, (30, 60, 90))
        draw = ImageDraw.Draw(image)
        for x0, y0, x1, y1, *_ in in_image(size):
            draw.rectangle((x0, y0, x1, y1), fill=(200, 180, 60))
        image.save(folder / name)
    return folder


def in_image(size: tuple[int, int], *, fit: str = "letterbox") -> list[tuple[float, ...]]:
    """OBJECTS in the pixels of an image of this width and height."""
    wide, high = size
    scale = min(SIZE / wide, SIZE / high)
    top = (SIZE - round(high * scale)) // 2 if fit == "letterbox" else 0
    x_scale, y_scale = (SIZE / wide, SIZE / high) if fit == "stretch" else (scale, scale)
    found = []
    for x0, y0, x1, y1, label, score in OBJECTS:
        x = np.clip(np.array([x0, x1]) / x_scale, 0, wide)
        y = np.clip((np.array([y0, y1]) - top) / y_scale, 0, high)
        found.append((x[0], y[0], x[1], y[1], label, score))
    return found


def coco(path: Path, *, fit: str = "letterbox") -> Path:
    """Annotations of ``pictures``; ids of categories begin at 1."""
    listed, images = [], []
    for number, (name, size) in enumerate(SIZES.items(), start=1):
        images.append({"id": number, "file_name": name, "width": size[0], "height": size[1]})
        for x0, y0, x1, y1, label, _ in in_image(size, fit=fit):
            listed.append({
                "id": len(listed) + 1, "image_id": number, "category_id": int(label) + 1,
                "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "iscrowd": 0,
            })  # fmt: skip
    categories = [{"id": id, "name": name} for id, name in enumerate(NAMES, start=1)]
    content = {"images": images, "annotations": listed, "categories": categories}
    path.write_text(json.dumps(content))
    return path


def yolo_data(root: Path) -> Path:
    """images/val and labels/val with a data.yaml, as Ultralytics has it."""
    images = pictures(root / "images" / "val")
    labels = root / "labels" / "val"
    labels.mkdir(parents=True)
    for name, (wide, high) in SIZES.items():
        lines = [
            f"{label} {(x0 + x1) / 2 / wide} {(y0 + y1) / 2 / high} {(x1 - x0) / wide} "
            f"{(y1 - y0) / high}"
            for x0, y0, x1, y1, label, _ in in_image((wide, high))
        ]
        (labels / name).with_suffix(".txt").write_text("\n".join(lines) + "\n")
    Image.new("RGB", (40, 40)).save(images / "zero.png")
    (root / "data.yaml").write_text(
        "path: .\nval: images/val\nnames:\n"
        + "".join(f"  {number}: {name}\n" for number, name in enumerate(NAMES))
    )
    return root / "data.yaml"


def squares(root: Path, *, count: int = 12) -> Path:
    """A YOLO data set of red and green squares of 8 pixels, each in one place of an 8 by 8 grid."""
    rng = np.random.default_rng(0)
    for name in ("images", "labels"):
        (root / name / "val").mkdir(parents=True)
    for number in range(count):
        image = Image.new("RGB", (SIZE, SIZE), (20, 20, 20))
        draw = ImageDraw.Draw(image)
        lines = []
        for place in rng.choice(64, 4, replace=False):
            x, y, label = place % 8 * 8, place // 8 * 8, int(rng.integers(0, 2))
            fill = (230, 20, 20) if label == 0 else (20, 230, 20)
            draw.rectangle((x, y, x + 7, y + 7), fill=fill)
            lines.append(f"{label} {(x + 4) / SIZE} {(y + 4) / SIZE} {8 / SIZE} {8 / SIZE}")
        image.save(root / "images" / "val" / f"{number}.png")
        (root / "labels" / "val" / f"{number}.txt").write_text("\n".join(lines))
    (root / "data.yaml").write_text("train: images/val\nval: images/val\nnames: [red, green]\n")
    return root / "data.yaml"


LOOKING = """
    grid = Conv <strides = [8, 8]> (images, kernel, bias)
    squashed = Sigmoid(grid)
    by_colour = Reshape(squashed, flat)
"""
PLACED = "nothing = Mul(mean, zero) boxes = Add(nothing, places)"
"""Scores of both colours in every place, [batch, 2, 64], and the places for every image."""


def square_finder(path: Path) -> Path:
    """A small YOLO that really looks: [batch, 4 + 2, 64], a score per colour and place."""
    rows, columns = np.mgrid[:8, :8]
    boxes = np.stack([columns * 8 + 4, rows * 8 + 4, 0 * rows + 8, 0 * rows + 8])
    nodes = f"""{LOOKING}
        mean = ReduceMean <axes = [1], keepdims = 1> (by_colour)
        {PLACED}
        output0 = Concat <axis = 1> (boxes, by_colour)
    """
    return _squares_network(
        path, nodes, "float[batch, 6, 64] output0", places=boxes.reshape(1, 4, 64) * 1.0
    )


LISTED = 20  # objects per image at most, as the plug-in hands them out


def square_lists(path: Path) -> Path:
    """Boxes and scores of squares: each square twice, the likelier box of a green one too short.

    Its overlap with the truth is 0.78. A plug-in of TensorRT drops the doubles.
    """
    nodes = f"""{LOOKING}
        by_place = Transpose <perm = [0, 2, 1]> (by_colour)
        four_times = Concat <axis = 1> (by_place, by_place, by_place, by_place)
        scores = Mul(four_times, likely)
        mean = ReduceMean <axes = [2], keepdims = 1> (scores)
        {PLACED}
    """
    rows, columns = (each.reshape(64, 1) * 8 for each in np.mgrid[:8, :8])
    whole, short = (
        np.concatenate([columns, rows, columns + 8, rows + high], axis=1) for high in (8, 6.25)
    )
    boxes = np.concatenate([whole, short, short, whole])
    likely = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.7, 0.0], [0.0, 0.7]], 64, axis=0)
    weights = {"places": boxes[None], "likely": likely[None]}
    ends = (
        f"int32[batch, 1] num_dets, float[batch, {LISTED}, 4] det_boxes, "
        f"float[batch, {LISTED}] det_scores, int32[batch, {LISTED}] det_classes"
    )
    nodes += f"""
        num_dets, det_boxes, det_scores, det_classes = TRT.EfficientNMS_TRT <
            plugin_version = "1", background_class = -1, max_output_boxes = {LISTED},
            score_threshold = 0.25, iou_threshold = 0.6, score_activation = 0, box_coding = 0
        > (boxes, scores)
    """
    return _squares_network(path, nodes, ends, **weights)


def _squares_network(path: Path, nodes: str, outputs: str, **more: np.ndarray) -> Path:
    """Save nodes that look for squares."""
    kernel = np.full((2, 3, 8, 8), -14 / 64)
    kernel[[0, 1], [0, 1]] *= -1
    text = f"net (float[batch, 3, {SIZE}, {SIZE}] images) => ({outputs}) {{{nodes}}}"
    known = {"kernel": kernel, "bias": [-4.0, -4.0], "zero": 0.0, "flat": [0, 2, 64]}
    return save_text(path, text, **known, **more)


def with_pycocotools(told: dict, results: list[dict], kind: str) -> Any:
    """Judge results about annotated images as pycocotools does."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = told
        truth.createIndex()
        second = COCOeval(truth, truth.loadRes(results), kind)
        second.evaluate()
        second.accumulate()
        second.summarize()
    return second


def squares_as_coco(root: Path) -> Path:
    """Write the labels of ``squares`` as COCO's instances; the folder of images is beside them."""
    images, found = [], []
    for number, label in enumerate(sorted((root / "labels" / "val").iterdir()), start=1):
        name = f"{label.stem}.png"
        images.append({"id": number, "file_name": name, "width": SIZE, "height": SIZE})
        for line in label.read_text().splitlines():
            kind, x, y, _, _ = map(float, line.split())
            found.append({
                "id": len(found) + 1, "image_id": number, "category_id": int(kind) + 1,
                "bbox": [x * SIZE - 4, y * SIZE - 4, 8, 8], "area": 64, "iscrowd": 0,
            })  # fmt: skip
    categories = [{"id": 1, "name": "red"}, {"id": 2, "name": "green"}]
    path = root / "instances.json"
    content = {"images": images, "annotations": found, "categories": categories}
    path.write_text(json.dumps(content))
    return path
