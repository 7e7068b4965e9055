"""Detectors that say known boxes in the layout of each family, and data that they are right on."""

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

from models import save_graph

SIZE = 64
CLASSES = 3
NAMES = ("cat", "dog", "bird")
OBJECTS = ((10.0, 12.0, 30.0, 40.0, 0, 0.9), (36.0, 8.0, 60.0, 50.0, 2, 0.8))
"""x0, y0, x1, y1 in the input, class, score."""

TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT32}


def network(
    path: Path, outputs: Mapping[str, np.ndarray], *, size: int | str = SIZE, sizes: bool = False
) -> Path:
    """Says the same about every image; outputs have no batch of their own."""
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
    ]
    weights: dict[str, np.ndarray] = {"zero": np.float32(0.0)}  # type: ignore[dict-item]
    made = []
    for number, (name, values) in enumerate(outputs.items()):
        whole = values.dtype.kind == "i"
        weights[f"table{number}"] = values[None].astype(np.float32)
        weights[f"shape{number}"] = np.array([-1, *[1] * values.ndim], np.int64)
        nodes += [
            helper.make_node("Reshape", ["nothing", f"shape{number}"], [f"flat{number}"]),
            helper.make_node(
                "Add", [f"flat{number}", f"table{number}"], [f"f{number}" if whole else name]
            ),
        ]
        if whole:
            nodes.append(helper.make_node("Cast", [f"f{number}"], [name], to=TensorProto.INT32))
        kind = TYPES["i" if whole else "f"]
        made.append(helper.make_tensor_value_info(name, kind, ["batch", *values.shape]))
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, size, size])]
    if sizes:
        inputs.append(
            helper.make_tensor_value_info("orig_target_sizes", TensorProto.INT64, ["batch", 2])
        )
    graph = helper.make_graph(
        nodes, "detector", inputs, made,
        initializer=[numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )  # fmt: skip
    return save_graph(graph, path)


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
    for name, size in (("square.png", (64, 64)), ("wide.png", (128, 64))):
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


def coco(
    path: Path, *, ids: Sequence[int] = (1, 2, 3), fit: str = "letterbox",
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> Path:  # fmt: skip
    listed, images = [], []
    sizes = sizes or {"square.png": (64, 64), "wide.png": (128, 64)}
    for number, (name, size) in enumerate(sizes.items(), start=1):
        images.append({"id": number, "file_name": name, "width": size[0], "height": size[1]})
        for x0, y0, x1, y1, label, _ in in_image(size, fit=fit):
            listed.append({
                "id": len(listed) + 1, "image_id": number, "category_id": ids[int(label)],
                "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "iscrowd": 0,
            })  # fmt: skip
    categories = [{"id": id, "name": name} for id, name in zip(ids, NAMES, strict=True)]
    content = {"images": images, "annotations": listed, "categories": categories}
    path.write_text(json.dumps(content))
    return path


def yolo_data(root: Path) -> Path:
    """images/val and labels/val with a data.yaml, as Ultralytics has it."""
    images = pictures(root / "images" / "val")
    labels = root / "labels" / "val"
    labels.mkdir(parents=True)
    for name, (wide, high) in (("square", (64, 64)), ("wide", (128, 64))):
        lines = [
            f"{label} {(x0 + x1) / 2 / wide} {(y0 + y1) / 2 / high} {(x1 - x0) / wide} "
            f"{(y1 - y0) / high}"
            for x0, y0, x1, y1, label, _ in in_image((wide, high))
        ]
        (labels / f"{name}.txt").write_text("\n".join(lines) + "\n")
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


def square_finder(path: Path) -> Path:
    """A small YOLO that really looks: [batch, 4 + 2, 64], a score per colour and place."""
    nodes = [
        *_looking("scores"),
        *_placed(mean_of=1),
        helper.make_node("Concat", ["boxes", "scores"], ["output0"], axis=1),
    ]
    rows, columns = np.mgrid[:8, :8]
    boxes = np.stack([columns * 8 + 4, rows * 8 + 4, 0 * rows + 8, 0 * rows + 8])
    outputs = {"output0": (TensorProto.FLOAT, 6, 64)}
    return _squares_network(path, nodes, outputs, places=boxes.reshape(1, 4, 64))


LISTED = 20  # objects per image at most, as the plug-in hands them out


def square_lists(path: Path, *, plug_in: bool) -> Path:
    """Boxes and scores of squares: each square twice, the likelier box of a green one too short.

    Its overlap with the truth is 0.78. A plug-in of TensorRT drops the doubles, or nobody does.
    """
    nodes = [
        *_looking("by_colour"),
        helper.make_node("Transpose", ["by_colour"], ["by_place"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["by_place"] * 4, ["four_times"], axis=1),
        helper.make_node("Mul", ["four_times", "likely"], ["scores"]),
        *_placed(mean_of=2),
    ]
    rows, columns = (each.reshape(64, 1) * 8 for each in np.mgrid[:8, :8])
    whole, short = (
        np.concatenate([columns, rows, columns + 8, rows + high], axis=1) for high in (8, 6.25)
    )
    boxes = np.concatenate([whole, short, short, whole])
    likely = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.7, 0.0], [0.0, 0.7]], 64, axis=0)
    weights = {"places": boxes[None], "likely": likely[None]}
    outputs = {"boxes": (TensorProto.FLOAT, 256, 4), "scores": (TensorProto.FLOAT, 256, 2)}
    if plug_in:
        outputs = {
            "num_dets": (TensorProto.INT32, 1), "det_boxes": (TensorProto.FLOAT, LISTED, 4),
            "det_scores": (TensorProto.FLOAT, LISTED), "det_classes": (TensorProto.INT32, LISTED),
        }  # fmt: skip
        suppress = helper.make_node(
            "EfficientNMS_TRT", ["boxes", "scores"], list(outputs), domain="TRT", name="/nms",
            plugin_version="1", background_class=-1, max_output_boxes=LISTED, score_threshold=0.25,
            iou_threshold=0.6, score_activation=0, box_coding=0,
        )  # fmt: skip
        nodes.append(suppress)
    return _squares_network(path, nodes, outputs, **weights)


def _looking(scores: str) -> list[NodeProto]:
    """Score both colours in every place: [batch, 2, 64]."""
    return [
        helper.make_node("Conv", ["images", "kernel", "bias"], ["grid"], strides=[8, 8]),
        helper.make_node("Sigmoid", ["grid"], ["squashed"]),
        helper.make_node("Reshape", ["squashed", "flat"], [scores]),
    ]


def _placed(*, mean_of: int) -> list[NodeProto]:
    """Say the places for every image of a batch, whose size the scores tell."""
    return [
        helper.make_node("ReduceMean", ["scores"], ["mean"], axes=[mean_of], keepdims=1),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "places"], ["boxes"]),
    ]


def _squares_network(
    path: Path, nodes: list[NodeProto], outputs: Mapping[str, tuple[int, ...]], **more: np.ndarray
) -> Path:
    """Save nodes that look for squares; outputs have a type, and sizes behind that of the batch."""
    kernel = np.full((2, 3, 8, 8), -14 / 64, np.float32)
    kernel[[0, 1], [0, 1]] *= -1
    weights = {
        "kernel": kernel, "bias": np.full(2, -4.0), "zero": np.array(0.0), **more,
    }  # fmt: skip
    stored = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    flat = numpy_helper.from_array(np.array([0, 2, 64], np.int64), "flat")
    graph = helper.make_graph(
        nodes, "squares",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])],
        [
            helper.make_tensor_value_info(name, kind, ["batch", *sizes])
            for name, (kind, *sizes) in outputs.items()
        ],
        initializer=[*stored, flat],
    )  # fmt: skip
    return save_graph(graph, path)


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
