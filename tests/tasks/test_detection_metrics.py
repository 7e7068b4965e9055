"""Boxes against second implementations: pycocotools, ONNX Runtime's suppression, torchvision's."""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from made_detectors import with_pycocotools

from models import save_text
from real_parts import find_torch
from trtbench.analysis.coco import BoxTally, Objects, match_boxes, mean_precisions, suppress
from waiting import printed

NAMES = {
    "mAP": 0, "mAP50": 1, "mAP75": 2, "mAP_small": 3, "mAP_medium": 4, "mAP_large": 5, "AR": 8,
}  # fmt: skip


def objects(boxes: list, classes: list, *, scores=None, areas=None, crowd=None) -> Objects:
    count = len(boxes)
    sides = np.array(boxes, float).reshape(count, 4)
    return Objects(
        boxes=sides,
        classes=np.array(classes, np.int64),
        scores=np.ones(count) if scores is None else np.array(scores, float),
        areas=sides[:, 2] * sides[:, 3] if areas is None else np.array(areas, float),
        crowd=np.zeros(count, bool) if crowd is None else np.array(crowd, bool),
    )


def scene(seed: int) -> tuple[dict, list[dict], list[tuple[Objects, Objects]]]:
    """Random objects of all sizes, crowds, boxes that hit and miss, many boxes, equal scores."""
    rng = np.random.default_rng(seed)
    listed: list[dict] = []
    results: list[dict] = []
    pairs = []
    for image in range(1, 40):
        truth: dict[str, list] = {"boxes": [], "classes": [], "areas": [], "crowd": []}
        found: dict[str, list] = {"boxes": [], "classes": [], "scores": []}
        for _ in range(rng.integers(0, 9)):
            side = np.round(np.exp(rng.uniform(1.5, 5.5, 2)))
            box = [*np.round(rng.uniform(0, 400, 2)).tolist(), *side.tolist()]
            label, crowd = int(rng.integers(0, 6)), bool(rng.random() < 0.12)
            area = float(side.prod() * rng.choice([1.0, 0.6]))  # that of a mask is smaller
            for key, value in zip(truth, (box, label, area, crowd), strict=True):
                truth[key].append(value)
            listed.append({
                "id": len(listed) + 1, "image_id": image, "category_id": label, "bbox": box,
                "area": area, "iscrowd": int(crowd),
            })  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                near = np.array(box)
                if rng.random() < 0.8:
                    near[:2] += rng.normal(0, side * 0.1)
                    near[2:] *= np.exp(rng.normal(0, 0.15, 2))
                found["boxes"].append(near.tolist())
                found["classes"].append(label if rng.random() < 0.9 else int(rng.integers(0, 7)))
                found["scores"].append(round(float(rng.random()), 2))
        for _ in range(rng.integers(0, 250 if image % 9 == 0 else 6)):
            found["boxes"].append(rng.uniform(5, 300, 4).tolist())
            found["classes"].append(int(rng.integers(0, 2)))
            found["scores"].append(round(float(rng.random()), 2))
        results += [
            {"image_id": image, "bbox": box, "category_id": label, "score": score}
            for box, label, score in zip(*found.values(), strict=True)
        ]
        pairs.append((objects(**found), objects(**truth)))
    told = {
        "images": [{"id": i, "file_name": f"{i}.png"} for i in range(1, 40)],
        "annotations": listed,
        "categories": [{"id": i, "name": str(i)} for i in range(7)],
    }
    return told, results, pairs


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_numbers_as_pycocotools_has_them(seed: int) -> None:
    told, results, pairs = scene(seed)
    second = with_pycocotools(told, results, "bbox")
    tally = BoxTally([match_boxes(found, truth) for found, truth in pairs])
    own = tally.summary()
    assert 0.05 < own["mAP"] < 0.95
    assert own == pytest.approx({n: second.stats[place] for n, place in NAMES.items()}, abs=1e-6)
    for each in tally.by_class():
        theirs = second.eval["precision"][:, :, each.number, 0, 2]
        assert np.allclose(each.precision, theirs, atol=1e-6), "every point of every curve"
        recall = second.eval["recall"][:, each.number, 0, 2]
        assert np.allclose(each.recall, recall, atol=1e-6)


def test_nothing_there_and_nothing_said() -> None:
    nothing = objects([], [])
    box = objects([[0, 0, 10, 10]], [1], scores=[0.9])
    assert BoxTally([match_boxes(box, nothing)]).summary() == {}
    said_nothing = BoxTally([match_boxes(nothing, box)]).summary()
    assert said_nothing["mAP"] == 0.0
    assert said_nothing["AR"] == 0.0
    assert "mAP_large" not in said_nothing, "there is no large object"
    assert np.isnan(mean_precisions([])["mAP"])


def test_weights_are_repetitions() -> None:
    _, _, pairs = scene(3)
    matches = [match_boxes(found, truth) for found, truth in pairs][:8]
    weights = [2, 0, 1, 3, 1, 0, 1, 2]
    repeated = [each for each, n in zip(matches, weights, strict=True) for _ in range(n)]
    weighted = mean_precisions(BoxTally(matches).by_class(weights=np.array(weights)))
    for name, value in mean_precisions(BoxTally(repeated).by_class()).items():
        # Where scores are equal, repeated images lie otherwise in the order.
        assert weighted[name] == pytest.approx(value, abs=0.03), name


def candidates(seed: int, count: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Objects in heaps, so that many are double, more of them than are looked at in one go."""
    rng = np.random.default_rng(seed)
    heap = rng.uniform(0, 500, (25, 2))[rng.integers(0, 25, count)]
    low = heap + rng.normal(0, 6, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(20, 60, (count, 2))], axis=1)
    return boxes.astype(np.float32), rng.random(count).astype(np.float32), rng.integers(0, 4, count)


def by_onnxruntime(
    folder: Path, boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, iou: float
) -> list:
    """Suppression within each class, by the operator NonMaxSuppression; boxes by (class, place)."""
    ends = "(float[1, n, 4] boxes, float[1, c, n] scores) => (int64[k, 3] y)"
    text = f"net {ends} {{y = NonMaxSuppression(boxes, scores, most, iou, least)}}"
    model = save_text(folder / "nms.onnx", text, most=[len(boxes)], iou=[iou], least=[0.0])
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    table = np.zeros((1, int(classes.max()) + 1, len(boxes)), np.float32)
    table[0, classes, np.arange(len(boxes))] = scores
    [chosen] = session.run(None, {"boxes": boxes[None, :, [1, 0, 3, 2]], "scores": table})
    return [int(place) for _, _, place in chosen]


@pytest.mark.parametrize("iou", [0.3, 0.45, 0.7])
def test_suppression_as_onnx_runtime_has_it(tmp_path: Path, iou: float) -> None:
    boxes, scores, classes = candidates(int(100 * iou))
    own = suppress(boxes, scores, classes=classes, iou=iou, most=900)
    second = by_onnxruntime(tmp_path, boxes, scores, classes, iou)
    assert 20 < len(own) < 880
    assert set(own.tolist()) == set(second)
    assert (np.diff(scores[own]) <= 0).all(), "the best first"
    alone = suppress(boxes, scores, iou=iou, most=900)
    assert set(alone.tolist()) == set(by_onnxruntime(tmp_path, boxes, scores, classes * 0, iou))
    assert suppress(boxes, scores, iou=iou, most=7).tolist() == alone[:7].tolist()
    assert suppress(boxes[:0], scores[:0], classes=classes[:0], iou=iou, most=7).tolist() == []


SECOND = """
import json, sys
import numpy as np
import torch
from torchvision.ops import batched_nms, nms

data, found = np.load(sys.argv[1]), {}
for name in sorted({key.partition(" ")[2] for key in data}):
    boxes, scores, classes, iou = (torch.from_numpy(data[f"{what} {name}"]) for what in WHAT)
    found[name] = [nms(boxes, scores, float(iou)).tolist(),
                   batched_nms(boxes, scores, classes, float(iou)).tolist()]
print(json.dumps(found))
"""
WHAT = ("boxes", "scores", "classes", "iou")


def hard_candidates(seed: int, kind: str) -> dict[str, np.ndarray]:
    """Boxes as networks rarely give them, the scores of every third case full of ties."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 500))
    low, size = rng.uniform(0, 400, (count, 2)), rng.uniform(1, 200, (count, 2))
    if kind == "on a grid":  # equal boxes, and overlaps that are the limit itself
        low, size = np.round(low / 40) * 40, np.round(size / 40) * 40
    elif kind == "fractions":
        low, size = low / 640, size / 640
    elif kind == "without size":
        size[rng.random((count, 2)) < 0.3] = 0
    elif kind == "inside out":
        size[rng.random((count, 2)) < 0.3] *= -1
    scores = rng.random(count).astype(np.float32)
    return {
        "boxes": np.concatenate([low, low + size], axis=1).astype(np.float32),
        "scores": np.round(scores, 1) if seed % 3 == 0 else scores,
        "classes": rng.integers(0, (1, 3, 80)[seed % 3], count),
        "iou": np.array([0.0, 0.3, 0.45, 0.5, 0.6, 0.7, 1.0][seed % 7]),
    }


def find_torchvision() -> str | None:
    """Find an interpreter whose torchvision has its operators, that of the system among them."""
    code = "import torch; from torchvision.ops import nms; nms(torch.ones(1, 4), torch.ones(1), 1.)"
    for python in (find_torch(), "/usr/bin/python3"):
        tried = python and subprocess.run([python, "-c", code], capture_output=True)
        if tried and tried.returncode == 0:
            return python
    return None


@pytest.mark.real("torchvision")
def test_suppression_as_torchvision_has_it(tmp_path: Path) -> None:
    python = find_torchvision()
    if python is None:
        pytest.skip("no torchvision beside PyTorch")
    kinds = ("plain", "on a grid", "fractions", "without size", "inside out")
    cases = {f"{k} {seed}": hard_candidates(seed, k) for k in kinds for seed in range(30)}
    many = dict(zip(WHAT, (*candidates(5, count=2000), np.array(0.45)), strict=True))
    cases["many"] = {**many, "classes": many["classes"] % 2}
    arrays = {f"{what} {n}": array for n, case in cases.items() for what, array in case.items()}
    np.savez(tmp_path / "data.npz", **arrays)
    command = [python, "-c", f"WHAT = {WHAT}\n{SECOND}", str(tmp_path / "data.npz")]
    second = json.loads(printed(command))
    for name, case in cases.items():
        boxes, scores, classes, iou = (case[what] for what in WHAT)
        alone = suppress(boxes, scores, iou=float(iou), most=9999)
        apart = suppress(boxes, scores, classes=classes, iou=float(iou), most=9999)
        assert [alone.tolist(), apart.tolist()] == second[name], name


def test_classes_stay_apart_wherever_their_boxes_are() -> None:
    """Boxes that are moved apart by class must not meet, left of the image and far from it."""
    boxes, scores = np.array([[-300.0, 0, -200, 100]] * 3), np.array([0.9, 0.8, 0.7])
    for shift in (0.0, 1e6):
        for classes in ([0, 1, 2], [0, 79, 40_000]):
            kept = suppress(boxes + shift, scores, classes=np.array(classes), iou=0.7, most=3)
            assert kept.tolist() == [0, 1, 2]
    assert suppress(boxes, scores, classes=np.full(3, 3), iou=0.7, most=3).tolist() == [0]
