"""Metrics and boxes by hand and against others: scikit-learn, scipy, pycocotools, torchvision."""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from made_detectors import with_pycocotools
from PIL import Image
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, mean_squared_error, top_k_accuracy_score

from models import save_text
from real_parts import find_torch
from trtbench.analysis import coco
from trtbench.analysis import scores as scoring
from trtbench.analysis.coco import BoxTally, Objects, match_boxes, mean_precisions, suppress
from trtbench.analysis.summary import mean_interval
from trtbench.host.images import scaled
from trtbench.tasks._boxes import CocoKeypoints
from waiting import printed


def test_top_k_as_scikit_learn_has_it() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((300, 12))
    labels = rng.integers(0, 12, 300)
    ranks = scoring.rank_of_label(scores, labels)
    assert scoring.top_k(ranks).value == accuracy_score(labels, scores.argmax(axis=1))
    five = top_k_accuracy_score(labels, scores, k=5, labels=range(12))
    assert scoring.top_k(ranks, k=5).value == pytest.approx(five)
    best = scores.argmax(axis=1)
    assert scoring.agreement(best, labels).value == accuracy_score(labels, best)


def test_ties_go_to_the_lower_class() -> None:
    scores = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert scoring.rank_of_label(scores, np.array([0, 1])).tolist() == [1, 2]


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (0, 35), (7, 7), (503, 510), (1, 3)])
def test_wilson_as_scipy_has_it(hits: int, count: int) -> None:
    second = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    found = scoring.wilson(hits, count)
    assert (found.low, found.high) == pytest.approx((second.low, second.high))
    assert (found.low == 0, found.high == 1) == (hits == 0, hits == count), "exactly"


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (5, 1), (3, 9), (40, 41), (12, 0)])
def test_mcnemar_as_scipy_has_it(lost: int, won: int) -> None:
    first = np.array([True] * lost + [False] * won + [True] * 30)
    second = np.array([False] * lost + [True] * won + [True] * 30)
    found = scoring.mcnemar(first, second)
    expected = binomtest(min(lost, won), lost + won, 0.5).pvalue if lost + won else 1.0
    assert found.p == pytest.approx(expected)
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert found.interval.low <= found.difference <= found.interval.high


def test_depth_metrics_by_hand() -> None:
    found, wanted = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 8.0])
    metrics = scoring.depth_metrics(found, wanted, silog_lambda=1.0)
    assert metrics["abs_rel"] == pytest.approx((0 + 1 + 0.5) / 3)
    assert metrics["sq_rel"] == pytest.approx((0 + 1 + 2) / 3)
    assert metrics["rmse"] == pytest.approx(np.sqrt(mean_squared_error(wanted, found)))
    log2 = np.log(2)
    assert metrics["rmse_log"] == pytest.approx(np.sqrt(2 * log2**2 / 3))
    assert metrics["log10"] == pytest.approx(2 * np.log10(2) / 3)
    # With lambda 1, silog is the deviation of the logs: 0, ln 2, -ln 2.
    assert metrics["silog"] == pytest.approx(np.std([0, log2, -log2]))
    assert metrics["d1"] == pytest.approx(1 / 3)
    assert metrics["d3"] == pytest.approx(1 / 3)
    assert scoring.depth_metrics(found, wanted * 0.99)["d1"] == pytest.approx(1 / 3)


def test_least_squares_as_numpy_has_it() -> None:
    rng = np.random.default_rng(1)
    own = rng.random(500)
    wanted = 3 * own + 0.5 + 0.1 * rng.standard_normal(500)
    aligned, _ = scoring.align(own, wanted, how="least-squares")
    scale, shift = np.polyfit(own, wanted, 1)
    assert aligned == pytest.approx(scale * own + shift)
    assert scoring.align(np.ones(9), np.arange(9.0), how="least-squares")[0] is None
    assert (
        scoring.align(own, -wanted, how="least-squares")[1] == "the best fit has a negative scale"
    )


@pytest.mark.parametrize("kind", ["depth", "inverse", "disparity"])
@pytest.mark.parametrize("output", ["depth", "inverse", "disparity"])
def test_kinds_of_maps_are_brought_together(kind: str, output: str) -> None:
    depth = np.random.default_rng(2).uniform(1, 20, (8, 8))
    made = {"depth": depth, "inverse": 1 / depth, "disparity": 50 / depth}
    rules = scoring.DepthRules(
        truth_kind=kind, output_kind=output, align="none", disparity_scale=50.0
    )  # type: ignore[arg-type]
    result = scoring.judge_depth_map(made[output], made[kind], rules)
    assert result.metrics["abs_rel"] == pytest.approx(0.0, abs=1e-12)
    assert result.metrics["d1"] == 1.0


@pytest.mark.parametrize("how", ["median", "least-squares"])
def test_alignment_undoes_scale_and_shift(how: str) -> None:
    depth = np.random.default_rng(3).uniform(1, 20, (16, 16))
    shift = 0.3 if how == "least-squares" else 0.0
    rules = scoring.DepthRules(align=how)  # type: ignore[arg-type]
    good = scoring.judge_depth_map(7 / depth + shift, depth, rules).metrics
    bad = scoring.judge_depth_map(
        7 / depth + shift, depth, scoring.DepthRules(align="none")
    ).metrics
    assert good["abs_rel"] == pytest.approx(0.0, abs=1e-9)
    assert bad["abs_rel"] > 0.5


def test_depth_benchmark_compares_in_inverse_depth() -> None:
    """Its multi-image mode: gt' = 1 / gt, scaled by the medians, metrics of inverse depth."""
    rng = np.random.default_rng(4)
    depth = rng.uniform(1, 9, 400)
    own = 1 / depth + 0.05 * rng.random(400)
    wanted = 1 / depth
    scaled = own * np.median(wanted) / np.median(own)
    expected = np.mean(np.abs(scaled - wanted) / wanted)
    rules = scoring.DepthRules(space="inverse")
    found = scoring.judge_depth_map(own.reshape(20, 20), depth.reshape(20, 20), rules).metrics
    assert found["abs_rel"] == pytest.approx(expected)


def test_masks_ranges_and_what_is_not_finite() -> None:
    truth = np.array([[0.0, np.nan, 5.0], [np.inf, 200.0, 10.0]])
    own = np.array([[1.0, 1.0, 5.0], [1.0, 1.0, np.nan]])
    rules = scoring.DepthRules(output_kind="depth", align="none", max_depth=100.0)
    result = scoring.judge_depth_map(own, truth, rules)
    assert (result.valid, result.nonfinite) == (1, 1)
    empty = scoring.judge_depth_map(own, np.zeros((2, 3)), rules)
    assert empty.metrics is None
    assert empty.reason == "no valid ground truth"


def test_maps_are_normalised_by_the_reference() -> None:
    reference = np.array([[0.0, 10.0], [5.0, 5.0]])
    found = scoring.map_differences(reference, reference + 1.0)
    assert found["mae"] == pytest.approx(0.1)
    assert found["max_error"] == pytest.approx(0.1)
    assert found["own_mae"] == pytest.approx(0.0, abs=1e-9), "each by its own range hides a shift"


def test_resizing_as_pillow_does() -> None:
    values = np.random.default_rng(5).random((7, 9)).astype(np.float32)
    picture = Image.fromarray(values).resize((31, 20), Image.Resampling.BILINEAR)
    assert scoring.resize_map(values, (20, 31)) == pytest.approx(np.asarray(picture), abs=1e-5)
    assert scoring.resize_map(np.array([[0.0, 1.0]]), (1, 4))[0] == pytest.approx(
        [0, 0.25, 0.75, 1]
    )


def test_the_bootstrap_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(6).standard_normal(400)
    found = mean_interval(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)
    assert mean_interval(values[:1]) is None


def test_boxes_by_hand() -> None:
    boxes = coco.corners_from_centres(np.array([[5.0, 5.0, 10.0, 10.0], [10.0, 5.0, 10.0, 10.0]]))
    assert boxes.tolist() == [[0, 0, 10, 10], [5, 0, 15, 10]]
    assert coco.iou_matrix(boxes, boxes)[0, 1] == pytest.approx(50 / 150)
    scores = np.array([0.5, 0.9])
    assert coco.suppress(boxes, scores, iou=0.3, most=2).tolist() == [1]
    assert coco.suppress(boxes, scores, iou=0.4, most=2).tolist() == [1, 0]


@pytest.mark.parametrize("size", [(480, 640), (640, 480), (100, 100), (33, 517)])
def test_the_letterbox_is_undone(size: tuple[int, int]) -> None:
    geometry, inner = coco.letterbox_of(size, (320, 320))
    assert max(inner) == 320
    x = np.array([geometry.left, geometry.left + inner[1]])
    y = np.array([geometry.top, geometry.top + inner[0]])
    back = geometry.undo(x, y)
    assert back[0] == pytest.approx([0, size[1]])
    assert back[1] == pytest.approx([0, size[0]])


def people(keypoints: np.ndarray, scores: np.ndarray | None = None, **rest: object) -> coco.People:
    count = len(keypoints)
    xy = keypoints[..., :2]
    low, high = xy.min(axis=1), xy.max(axis=1)
    boxes = np.concatenate([low, high - low], axis=1).reshape(count, 4)
    values = {
        "keypoints": keypoints, "boxes": boxes, "areas": boxes[:, 2] * boxes[:, 3],
        "scores": np.ones(count) if scores is None else scores,
        "ignored": np.zeros(count, bool), "crowd": np.zeros(count, bool),
    }  # fmt: skip
    return coco.People(**{**values, **rest})  # type: ignore[arg-type]


def test_oks_by_hand() -> None:
    truth = people(np.array([[[0.0, 0.0, 2], [10.0, 0.0, 2], [10.0, 10.0, 0]]]))
    found = people(np.array([[[0.0, 0.0, 1], [13.0, 4.0, 1], [999.0, 0.0, 1]]]))
    sigma = 0.1
    # The third point is not labelled; the second is 5 away; the area is 100.
    expected = (1 + np.exp(-25 / (2 * 100 * (2 * sigma) ** 2))) / 2
    assert coco.oks_matrix(found, truth, [sigma] * 3)[0, 0] == pytest.approx(expected)


def test_average_precision_as_pycocotools_has_it(tmp_path: Path) -> None:
    """Random people, detections near some of them, false ones, crowds and unlabelled ones."""
    rng = np.random.default_rng(8)
    listed: list[dict] = []
    found: dict[int, coco.People] = {}
    for image in range(1, 25):
        detections, scores = [], []
        for _ in range(rng.integers(0, 5)):
            points = rng.uniform(0, 200, 2) + rng.uniform(0, 60, (17, 2))
            seen = rng.choice([0, 1, 2], 17, p=[0.3, 0.2, 0.5]) * (rng.random() > 0.1)
            low, size = points.min(axis=0), np.ptp(points, axis=0)
            listed.append({
                "id": len(listed) + 1, "image_id": image, "category_id": 1,
                "bbox": [*low.tolist(), *size.tolist()], "area": float(size.prod() * 0.6),
                "iscrowd": int(rng.random() < 0.1), "num_keypoints": int((seen > 0).sum()),
                "keypoints": np.column_stack([points * (seen > 0)[:, None], seen]).ravel().tolist(),
            })  # fmt: skip
            for _ in range(rng.integers(0, 3)):
                detections.append(points + rng.normal(0, rng.uniform(0.2, 3), (17, 2)))
                scores.append(round(float(rng.random()), 2))
        for _ in range(rng.integers(0, 3)):
            detections.append(rng.uniform(0, 260, (17, 2)))
            scores.append(round(float(rng.random()), 2))
        shape = (len(detections), 17, 2)
        xy = np.array(detections).reshape(shape)
        points3 = np.concatenate([xy, np.ones((*shape[:2], 1))], axis=2)
        found[image] = people(points3, np.array(scores))
    images = [{"id": i, "file_name": f"{i}.png", "width": 300, "height": 300} for i in found]
    category = {"id": 1, "name": "person"}
    content = {"images": images, "annotations": listed, "categories": [category]}
    (tmp_path / "people.json").write_text(json.dumps(content))
    told = CocoKeypoints(tmp_path / "people.json")
    own = coco.average_precision(
        [coco.match_people(found[i], told.people(i), coco.COCO_SIGMAS) for i in found]
    )
    results = [
        {"image_id": image, "category_id": 1, "keypoints": person.ravel().tolist(),
         "score": float(score)}
        for image, each in found.items()
        for person, score in zip(each.keypoints, each.scores, strict=True)
    ]  # fmt: skip
    slow = with_pycocotools(content, results, "keypoints")
    expected = dict(zip(("AP", "AP50", "AP75", "AR"), slow.stats[[0, 1, 2, 5]], strict=True))
    assert 0.05 < expected["AP"] < 0.95
    for name, value in expected.items():
        assert own[name] == pytest.approx(value, abs=1e-6), name


def nearby(place: float, count: int, *, cubic: bool) -> np.ndarray:
    """The share of each of ``count`` old pixels in a new one, by the definition of the kernels."""
    shares, first = np.zeros(count), int(np.floor(place))
    for old in range(first - 1, first + 3):
        away = abs(place - old)
        share = max(0.0, 1 - away)
        if cubic and away <= 1:
            share = 1.25 * away**3 - 2.25 * away**2 + 1
        elif cubic:
            share = -0.75 * (away**3 - 5 * away**2 + 8 * away - 4) if away < 2 else 0.0
        shares[min(max(old, 0), count - 1)] += share
    return shares


@pytest.mark.parametrize("how", ["cv2-bilinear", "cv2-bicubic"])
@pytest.mark.parametrize("size", [(4, 8), (3, 5), (6, 6), (9, 10), (1, 3)])
@pytest.mark.parametrize("target", [(2, 4), (3, 5), (4, 7), (11, 6)])
def test_pixels_are_taken_without_antialiasing(
    size: tuple[int, int], target: tuple[int, int], how: str
) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    down, across = (
        [nearby((k + 0.5) * old / new - 0.5, old, cubic="cubic" in how) for k in range(new)]
        for old, new in zip(size, target, strict=True)
    )
    expected = np.einsum("yr,xc,rcn->yxn", down, across, image).clip(0, 255)
    found = scaled(image, target, how=how)
    assert found.shape == (*target, 3)
    assert np.abs(found - expected).max() < 1, "in whole numbers, with their roundings"


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
