"""Detection end to end: layouts of every family; detectors quantized, swept, built and checked."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from made_detectors import (
    OBJECTS,
    SIZE,
    coco,
    end2end,
    in_image,
    lists,
    network,
    pictures,
    square_finder,
    squares,
    yolo_data,
    yolov5,
    yolov8,
)
from PIL import Image, ImageDraw

from command import Say
from gpu_standin import plan_bytes
from trtbench.convert.build import build_spec, with_arrays
from trtbench.models.identity import read_sidecar
from trtbench.requests.models import BuildRequest
from trtbench.requests.settings import Config
from waiting import printed


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


TESTS = Path(__file__).resolve().parents[1]
SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--axis", "until_steady=false"]


@pytest.fixture
def place(place: Path) -> Path:
    squares(place / "set")
    square_finder(place / "net.onnx")
    return place


def test_quantized_checked_and_judged_with_one_preparation(
    place: Path, config: Config, say: Say
) -> None:
    words = ["--precision", "int8", "--calibration", "set/data.yaml", "--task", "detection"]
    say("quantize", "net.onnx", *words, "-o", "int8.onnx", status=0)
    sidecar = read_sidecar(place / "int8.onnx")
    assert sidecar.calibration.kind == "images"
    judge = ["net.onnx", "int8.onnx", "--task", "detection", "--threads", "1", "--json"]
    found = say("eval", *judge, "--data", "set/data.yaml", "--batch", "4").json
    assert found["preparation"] == sidecar.calibration.preprocessing
    assert found["preparation"]["fit"] == "letterbox"
    assert found["findings"] == [], "calibrated as it is judged"
    whole, small = ({s["metric"]: s["value"] for s in m["scores"]} for m in found["models"])
    assert whole["mAP"] == pytest.approx(1.0)
    assert small["mAP50"] > 0.9
    [finding] = say("eval", *judge, "--data", "set", "--fit", "corner").json["findings"]
    assert (finding["code"], finding["concerns"]) == ("H48", "int8.onnx")
    checked = say("check", *judge, "--images", "set/data.yaml").json["check"]
    assert checked["preparation"] == found["preparation"]
    assert checked["items"] == 12
    shape = {"images": (4, 3, SIZE, SIZE)}
    request = BuildRequest(
        model="net.onnx", runtime="tensorrt", precision="int8", data="set/data.yaml",
        task="detection", shapes_opt=shape, shapes_min=shape, shapes_max=shape,
    )  # fmt: skip
    ready = with_arrays(build_spec(request, config), place)
    assert dict(ready.prepared) == found["preparation"]
    assert ready.calibration_arrays is not None
    with np.load(ready.calibration_arrays) as arrays:
        assert arrays["images"].shape == (12, 3, SIZE, SIZE)
        assert 0.5 < arrays["images"].max() <= 1.0


def test_a_sweep_of_precisions_with_its_accuracies(place: Path, say: Say) -> None:
    words = ["net.onnx", "--precision", "fp32,int8", "--batch", "4", "--task", "detection",
             "--data", "set/data.yaml", "--calibration", "set/data.yaml", "-o", "out"]  # fmt: skip
    say("sweep", *words, *SHORT, status=0)
    rows = json.loads((place / "out" / "results.json").read_text())["rows"]
    assert [row["reason"] for row in rows] == [None, None]
    assert rows[0]["mAP"] == pytest.approx(1.0)
    assert rows[1]["mAP50"] > 0.9
    assert not any("H48" in str(row.get("findings")) for row in rows)
    # The labels are not in data.yaml itself: when they change, accuracies are taken again.
    for label in (place / "set/labels/val").iterdir():
        label.write_text("")
        break
    say("sweep", *words[:-1], "again", *SHORT, status=0)
    again = json.loads((place / "again" / "results.json").read_text())["rows"]
    assert again[0]["mAP"] < 1.0


def test_the_train_part_is_calibrated_with(place: Path, say: Say) -> None:
    """What is judged on is not what scales were found on, unless somebody says so."""
    part = place / "set/images/train"
    part.mkdir()
    for number in range(5):
        (place / f"set/images/val/{number}.png").rename(part / f"{number}.png")
    yaml = place / "set/data.yaml"
    yaml.write_text("train: images/train\nval: images/val\nnames: [red, green]\n")
    words = ["quantize", "net.onnx", "--precision", "int8", "--calibration", "set/data.yaml"]
    counts = {}
    for split in ((), ("--split", "val")):
        say(*words, "--task", "detection", *split, "-o", "low.onnx", status=0)
        sidecar = read_sidecar(place / "low.onnx")
        counts[split] = sidecar.calibration.items
    assert list(counts.values()) == [4, 6], "a fifth is held out of 5, and of 7"
    yaml.write_text("val: images/val\nnames: [red, green]\n")
    assert say(*words, "--task", "detection").status == 2, "val is to be asked for"


BRIGHT = """
import numpy as np

def bright(outputs, images):
    [maps] = outputs.values()
    found = []
    for each in maps[:, 0]:
        rows, columns = np.nonzero(each > 2.0)  # the engine says 2 x + 1
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        found.append([(*box, 0.9, 0)])
    return found
"""


def test_engines_are_judged_on_a_gpu(tmp_path: Path) -> None:
    """On a GPU made of Python: an engine, its outputs, a decoder of one's own, and the times."""
    (tmp_path / "images").mkdir()
    for number in range(3):
        image = Image.new("L", (16, 16), 10)
        ImageDraw.Draw(image).rectangle((2 + number, 3, 9, 12), fill=250)
        image.save(tmp_path / "images" / f"{number}.png")
        x0, x1 = (2 + number) / 16, 10 / 16
        label = f"0 {(x0 + x1) / 2} {8 / 16} {x1 - x0} {10 / 16}\n"
        (tmp_path / "images" / f"{number}.txt").write_text(label)
    (tmp_path / "model.engine").write_bytes(plan_bytes())
    (tmp_path / "mine.py").write_text(BRIGHT)
    words = ["eval", "model.engine", "-r", "tensorrt", "--task", "detection", "--data", "images",
             "--decoder", "mine.py:bright", "--json", "--store", "store"]  # fmt: skip
    said = printed(
        [sys.executable, "-m", "trtbench", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS / "standin_gpu"), "TMPDIR": str(tmp_path),
             "STANDIN_GPU_SHAPE": "-1,1,16,16"},
    )  # fmt: skip
    [model] = json.loads(said)["models"]
    assert {s["metric"]: s["value"] for s in model["scores"]}["mAP"] == pytest.approx(1.0)
    parts = model["split"]["item_parts_s"]
    assert 0 < parts["model"] <= parts["inference"], "the network alone, by GPU events"
