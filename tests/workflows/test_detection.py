"""Detection end to end: every family's layout through ONNX Runtime, by the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_detectors import (
    OBJECTS,
    coco,
    end2end,
    in_image,
    lists,
    network,
    pictures,
    yolo_data,
    yolov5,
    yolov8,
)
from PIL import Image

from command import Say


@pytest.fixture
def evaluate(say: Say):
    def call(*words: object, status: int = 0) -> dict:
        asked = ("--task", "detection", "--threads", "1", "--json")
        told = say("eval", *words, *asked, status=status)
        return told.json if status == 0 else {"error": told.words}

    return call


def values(model: dict) -> dict[str, float]:
    return {each["metric"]: each["value"] for each in model["scores"]}


def families(folder: Path) -> dict[str, tuple[Path, str]]:
    """One network of each layout, and the decoder it is for."""
    batched = lists(fraction=True)
    labelled = lists(count=len(OBJECTS))
    made: dict[str, tuple[dict[str, np.ndarray], str]] = {
        "yolov8": ({"output0": yolov8()}, "yolov8"),
        "yolov8-rows": ({"output0": yolov8().T}, "yolov8"),
        "yolov8-any-count": ({"output0": yolov8(count=100)}, "yolov8"),
        "yolov8-with-masks": (
            {
                "output0": np.concatenate([yolov8(), np.full((32, 84), 0.5)]),
                "output1": np.zeros((32, 16, 16)),
            },
            "yolov8",
        ),
        "yolov5-and-its-heads": (
            {"output0": yolov5(), **{f"head{s}": np.zeros((3, s, s, 8)) for s in (8, 4, 2)}},
            "yolov5",
        ),
        "yolov5": ({"output0": yolov5()}, "yolov5"),
        "yolov5-any-count": ({"output0": yolov5(count=1100)}, "yolov5"),
        "yolov10": ({"output0": end2end()}, "end2end"),
        "efficient-nms": (lists(), "nms-lists"),
        "batched-nms": (
            {
                "num_detections": batched["num_dets"], "nmsed_boxes": batched["det_boxes"],
                "nmsed_scores": batched["det_scores"],
                "nmsed_classes": batched["det_classes"].astype(np.float32),
            },
            "nms-lists",
        ),
        "ssd-with-labels": (
            {k: labelled[f"det_{k}"] for k in ("boxes", "classes", "scores")}, "nms-lists",
        ),
    }  # fmt: skip
    return {
        name: (network(folder / f"{name}.onnx", outputs), decoder)
        for name, (outputs, decoder) in made.items()
    }


def test_every_family_says_the_same_boxes(tmp_path: Path, evaluate) -> None:
    """COCO's ids begin at 1, the networks' classes at 0; doubles and paddings are dropped."""
    made = families(tmp_path)
    data, told = pictures(tmp_path / "images"), coco(tmp_path / "instances.json")
    paths = [path for path, _ in made.values()]
    found = evaluate(*paths, "--data", data, "--annotations", told, "--batch", 2)
    by_name = {Path(each["label"]).stem: each for each in found["models"]}
    for name, (path, decoder) in made.items():
        own = values(by_name[name])
        assert own["mAP"] == pytest.approx(1.0), name
        assert own["AR"] == pytest.approx(1.0), name
        assert f"{path.name}: decoded as {decoder}, boxes " in found["method"]
        assert own.get("iou_to_first", 1.0) == pytest.approx(1.0, abs=1e-3), name
    assert found["preparation"] == {
        "task": "detection", "fit": "letterbox", "size": "64x64", "normalize": "none",
        "colour": "rgb", "interpolation": "cv2-bilinear",
    }  # fmt: skip
    for each in found["models"]:
        apart = each["split"]["item_parts_s"]
        assert set(apart) == {"load", "preprocess", "inference", "model", "postprocess"}
        assert all(seconds > 0 for seconds in apart.values())
        assert each["timed"].startswith("median per item over 1 batch of 2, after 0")
    [images] = [each for each in found["tables"] if each["id"] == "images"]
    assert all(row[2:] == [2, 2, 0, 0] for row in images["rows"]), "no double was counted"


def test_yolo_data_and_what_a_model_gets_wrong(tmp_path: Path, evaluate) -> None:
    told = yolo_data(tmp_path / "set")
    shifted = [(x0 + 3, y0, x1 + 3, y1, label, score) for x0, y0, x1, y1, label, score in OBJECTS]
    right = network(tmp_path / "right.onnx", {"output0": yolov8()})
    moved = network(tmp_path / "moved.onnx", {"output0": yolov8(objects=shifted)})
    found = evaluate(right, moved, "--data", told, "-o", "out")
    first, second = (values(each) for each in found["models"])
    # One image has no label file: what is said about it is made up, after all that is right.
    assert first["mAP50"] == pytest.approx(1.0)
    # 3 of 20 and of 24 pixels: overlaps of 17/23 and 21/27, of the wide image the same.
    assert second["mAP50"] == pytest.approx(1.0)
    assert second["mAP75"] == pytest.approx(0.5), "the cat is below 0.75, the bird above"
    assert second["mAP"] == pytest.approx((5 + 6) / 20), "up to 0.70, and up to 0.75"
    [classes] = [each for each in found["tables"] if each["id"] == "classes"]
    assert {row[0]: row[2] for row in classes["rows"]} == {"cat": 2, "bird": 2}
    written = (tmp_path / "out/eval.md").read_text()
    for model, share in (("right", "100.00 %"), ("moved", "50.00 %")):
        assert f"| cat | {model}.onnx | 2 | {share} | 100.00 % |" in written, "one under the other"
    [images] = [each for each in found["tables"] if each["id"] == "images"]
    made_up = {row[0]: row[5] for row in images["rows"] if row[1] == "right.onnx"}
    assert made_up["images/val/zero.png"] == 2
    assert second["iou_to_first"] == pytest.approx((17 / 23 + 21 / 27) / 2, abs=1e-3)
    again = evaluate(right, "--data", tmp_path / "set" / "images" / "val")
    assert values(again["models"][0])["mAP50"] == pytest.approx(1.0), "labels/ beside images/"
    whole = evaluate(right, "--data", tmp_path / "set")
    assert whole["models"][0]["items"] == 3, "data.yaml is found in the folder"
    missing = evaluate(right, "--data", told, "--split", "test", status=2)["error"]
    assert "has no split 'test'" in missing
    assert "--split val" in missing


@pytest.mark.parametrize("fit", ["corner", "stretch"])
def test_other_ways_into_the_input(tmp_path: Path, evaluate, fit: str) -> None:
    model = network(tmp_path / "net.onnx", {"output0": yolov8()})
    data, told = pictures(tmp_path / "images"), coco(tmp_path / "i.json", fit=fit)
    found = evaluate(model, "--data", data, "--annotations", told, "--fit", fit)
    assert values(found["models"][0])["mAP"] == pytest.approx(1.0)
    assert found["preparation"]["fit"] == fit


def test_a_category_that_only_groups_the_others_is_no_class(tmp_path: Path, evaluate) -> None:
    """As Roboflow writes it: 0 is the data set itself, and classes begin with 1."""
    data, told = pictures(tmp_path / "images"), coco(tmp_path / "i.json")
    written = json.loads(told.read_text())
    own = [{**each, "supercategory": "animals"} for each in written["categories"]]
    written["categories"] = [{"id": 0, "name": "animals", "supercategory": "none"}, *own]
    told.write_text(json.dumps(written))
    model = network(tmp_path / "three.onnx", {"output0": yolov8()})
    found = evaluate(model, "--data", data, "--annotations", told)
    assert values(found["models"][0])["mAP"] == pytest.approx(1.0)


HOOK = """
import numpy as np

def boxes(outputs, images):
    found = []
    for rows, image in zip(outputs["strange"], images):
        assert (image.input_width, image.input_height) == (64, 64)
        found.append(np.stack([rows[0], rows[1], rows[2], rows[3], rows[5], rows[4]], axis=1))
    return found
"""


def test_a_decoder_of_ones_own(tmp_path: Path, evaluate) -> None:
    strange = np.array(OBJECTS).T[:, :, None]  # [6, objects, 1]: nobody's layout
    model = network(tmp_path / "strange.onnx", {"strange": strange[..., 0][None]})
    data, told = pictures(tmp_path / "images"), coco(tmp_path / "i.json")
    words = (model, "--data", data, "--annotations", told)
    hook = tmp_path / "mine.py"
    hook.write_text(HOOK.replace('outputs["strange"]', 'outputs["strange"][:, 0]'))
    error = evaluate(*words, status=1)["error"]
    assert "no decoder fits the outputs" in error
    assert "output strange float32 1x1x6x2" in error
    assert "tried yolov8" in error
    assert "--decoder FILE.py:FUNCTION" in error
    found = evaluate(*words, "--decoder", f"{hook}:boxes")
    assert values(found["models"][0])["mAP"] == pytest.approx(1.0)
    assert "mine.py:boxes" in found["method"]
    assert "cannot be loaded" in evaluate(*words, "--decoder", f"{hook}:none", status=2)["error"]
    hook.write_text("def boxes(outputs, images):\n    return [outputs['gone'] for _ in images]\n")
    error = evaluate(*words, "--decoder", f"{hook}:boxes", status=1)["error"]
    assert "KeyError" in error
    hook.chmod(0o666)
    assert "is not run" in evaluate(*words, "--decoder", f"{hook}:boxes", status=2)["error"]
    assert "did you mean yolov8?" in evaluate(*words, "--decoder", "yolo8", status=2)["error"]


def test_without_annotations_models_are_compared(tmp_path: Path, evaluate) -> None:
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (64, 64)).save(images / "a.png")
    first = network(tmp_path / "first.onnx", {"output0": yolov8()})
    second = network(tmp_path / "second.onnx", {"output0": yolov8(objects=OBJECTS[:1])})
    found = evaluate(first, second, "--data", images)
    assert "only models are compared" in found["method"]
    assert values(found["models"][1]) == {"iou_to_first": pytest.approx(0.5)}
    assert in_image((64, 64))[0][:4] == pytest.approx(OBJECTS[0][:4])
