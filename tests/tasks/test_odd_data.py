"""Data as it is found: odd images, folders in folders, networks that find nobody or say NaN."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_data import annotations, person
from PIL import Image

from trtbench.core.errors import InputError, UsageError
from trtbench.core.spec import TensorSpec
from trtbench.host.arrays import Chunks, ChunkWriter
from trtbench.host.images import read_image
from trtbench.tasks import _boxes as boxes
from trtbench.tasks import classification, depth, pose
from trtbench.tasks.classification import ImageFolder, read_classes
from trtbench.tasks.contract import Predicted, settings_with_defaults
from trtbench.tasks.depth import DepthImages

COLOUR = (TensorSpec(name="images", dtype="float32", shape=("batch", 3, 16, 16)),)


def picture(path: Path, *, mode: str = "RGB", colour: object = (200, 30, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (20, 10), colour).save(path)
    return path


def predicted(folder: Path, label: str, **arrays: np.ndarray) -> Predicted:
    folder.mkdir(parents=True)
    writer = ChunkWriter(folder)
    writer.add(arrays, items=len(next(iter(arrays.values()))))
    writer.flush()
    return Predicted(label=label, chunks=Chunks(folder))


@pytest.mark.parametrize(
    ("mode", "colour", "channels", "seen"),
    [
        ("L", 77, 3, [77, 77, 77]), ("RGBA", (200, 30, 30, 9), 3, [200, 30, 30]),
        ("LA", (77, 9), 1, [77]), ("1", 1, 3, [255, 255, 255]), ("I;16", 0x4D00, 3, [77, 77, 77]),
        ("I;16", 0x4D00, 1, [77]), ("RGB", (10, 10, 10), 1, [10]),
    ],
)  # fmt: skip
def test_images_of_every_kind(
    tmp_path: Path, mode: str, colour: object, channels: int, seen: list[int]
) -> None:
    """16 bits were cut off at 255, so that such images were white."""
    path = picture(tmp_path / "a.png", mode=mode, colour=colour)
    assert read_image(path, channels=channels)[3, 4].tolist() == seen


def folders(root: Path) -> ImageFolder:
    return ImageFolder(settings_with_defaults(classification.FLAGS, {"data": str(root)}), COLOUR)


def test_an_empty_class_keeps_its_number(tmp_path: Path) -> None:
    for name in ("n01", "n03"):
        picture(tmp_path / name / "a.png")
    (tmp_path / "n02").mkdir()
    source = folders(tmp_path)
    assert source.labels.tolist() == [0, 2]
    assert source.notes == ("1 class without an image: n02",)
    source.check_classes(3)
    with pytest.raises(InputError, match="labels go up to 2, the network has 2 classes"):
        source.check_classes(2)


def test_what_is_hidden_is_no_class_and_no_image(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", ".ipynb_checkpoints/1.png", "a/._1.png", "b/.thumbs/1.png"):
        picture(tmp_path / name)
    images = folders(tmp_path)
    assert images.names == ("a/1.png", "b/1.png")
    assert images.folders == ("a", "b")


def test_scores_that_are_no_numbers_are_wrong(tmp_path: Path) -> None:
    """A network that says NaN was right whenever the class was 0."""
    for name in ("0", "1"):
        picture(tmp_path / "val" / name / "a.png")
    settings = settings_with_defaults(classification.FLAGS, {"data": str(tmp_path / "val")})
    source = classification.open_source(settings, COLOUR)
    right = np.eye(7, dtype=np.float32)[:2]
    nothing = np.full((2, 7), np.nan, np.float32)
    half = right.copy()
    half[1, 3] = np.inf
    models = [
        predicted(tmp_path / label, label, scores=scores)
        for label, scores in (("right", right), ("nan", nothing), ("again", nothing), ("inf", half))
    ]
    found = classification.judge(source, models, settings, folder=tmp_path / "out")
    values = [{score.metric: score.value for score in each} for each in found.scores]
    assert values[0] == {"top1": 1.0, "top5": 1.0}
    assert values[1] == {"top1": 0.0, "top5": 0.0, "agreement": 0.0}
    assert values[3] == {"top1": 0.5, "top5": 0.5, "agreement": 0.5}
    assert "nan: 2 items with NaN or Inf scores count as wrong" in found.notes
    [other] = classification.judge(source, models[1:3], settings, folder=tmp_path / "out").scores[
        1:
    ]
    assert {s.metric: s.value for s in other}["agreement"] == 0.0, "no class is not the same class"


def depth_source(images: Path, truth: Path) -> DepthImages:
    settings = settings_with_defaults(depth.FLAGS, {"data": str(images), "gt": str(truth)})
    return DepthImages(settings, COLOUR)


def test_truths_belong_to_images_in_folders_of_the_same_name(tmp_path: Path) -> None:
    """a/1.png was held against b/1.npy."""
    for number, scene in enumerate(("a", "b")):
        picture(tmp_path / "images" / scene / "1.png")
        (tmp_path / "truth" / scene).mkdir(parents=True)
        np.save(tmp_path / "truth" / scene / "1.npy", np.full((10, 20), 1.0 + number))
    source = depth_source(tmp_path / "images", tmp_path / "truth")
    assert source.names == ("a/1.png", "b/1.png")
    assert [source.truth(index)[0][0, 0] for index in (0, 1)] == [1.0, 2.0]  # type: ignore[index]
    flat = tmp_path / "flat"
    flat.mkdir()
    np.save(flat / "1.npy", np.ones((10, 20)))
    with pytest.raises(InputError, match="names do not match"):
        depth_source(tmp_path / "images", flat)
    assert depth_source(tmp_path / "images" / "a", flat).truth(0)[0] is not None
    assert depth_source(tmp_path / "images" / "a", tmp_path / "truth" / "b").truth(0)[0] is not None


def test_truth_beside_the_images(tmp_path: Path) -> None:
    """The image itself was taken for the ground truth."""
    picture(tmp_path / "1.png")
    np.save(tmp_path / "1.npy", np.full((1, 10, 20), 3.0))
    source = depth_source(tmp_path, tmp_path)
    assert source.truth(0)[0][0, 0] == 3.0  # type: ignore[index]


def somebody(image: int, **changed: object) -> dict:
    points = [(3.0, 3.0), (9.0, 7.0), (5.0, 4.0)]
    return {**person(points, [2, 2, 8, 6], image=image, id=image), **changed}


def pose_judgement(tmp_path: Path, people: list[dict], *outputs: np.ndarray):
    """What is said of networks with these outputs about one image."""
    picture(tmp_path / "images" / "a.png")
    told = annotations(tmp_path / "people.json", {"a.png": 0}, people)
    given = {"data": str(tmp_path / "images"), "annotations": str(told)}
    settings = settings_with_defaults(pose.FLAGS, given)
    source = pose.open_source(settings, COLOUR)
    loaded = source.load(0)
    source.prepare(loaded)
    models = [
        predicted(tmp_path / str(n), str(n), **pose.decode({"output": each}, [loaded], settings))
        for n, each in enumerate(outputs)
    ]
    return pose.judge(source, models, settings, folder=tmp_path / "out")


def test_a_network_that_finds_nobody(tmp_path: Path) -> None:
    found = pose_judgement(tmp_path, [somebody(0)], np.zeros((1, 14, 40), np.float32))
    values = {score.metric: score.value for score in found.scores[0]}
    assert values["AP"] == 0.0


@pytest.mark.parametrize(
    "people",
    [[], [somebody(0, iscrowd=1, num_keypoints=0, keypoints=[0] * 9,
                   segmentation={"counts": [0, 200], "size": [10, 20]})]],
)  # fmt: skip
def test_images_nobody_is_annotated_in(tmp_path: Path, people: list[dict]) -> None:
    output = np.zeros((1, 14, 40), np.float32)
    output[0, :5, 0] = (8, 8, 6, 6, 0.9)
    found = pose_judgement(tmp_path, people, output)
    assert found.scores == ((),)
    assert any("no people are annotated" in note for note in found.notes)


def test_annotated_images_in_folders(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png"):
        picture(tmp_path / "images" / name)
    told = annotations(tmp_path / "people.json", {"a/1.png": 0, "b/1.png": 5}, [somebody(5)])
    settings = {"data": str(tmp_path / "images"), "annotations": str(told)}
    source = pose.PoseImages(settings_with_defaults(pose.FLAGS, settings), COLOUR)
    assert [source.annotations.image_id(path) for path in source.paths] == [0, 5]
    annotations(told, {"1.png": 0}, [somebody(0)])
    with pytest.raises(InputError, match="two images match the same annotation"):
        pose.PoseImages(settings_with_defaults(pose.FLAGS, settings), COLOUR)


def test_the_map_among_several_outputs() -> None:
    """A network may tell its camera, or how sure it is, before the depth."""
    outputs = {
        "intrinsics": np.zeros((2, 3, 3), np.float32),
        "confidence": np.zeros((2, 1, 8, 8), np.float32),
        "predicted_depth": np.ones((2, 8, 8), np.float16),
    }
    settings = settings_with_defaults(depth.FLAGS, {})
    with pytest.raises(UsageError, match="align cannot be 'mean'"):
        settings_with_defaults(depth.FLAGS, {"align": "mean"})
    assert depth.decode(outputs, [0, 1], settings)["depth"].min() == 1
    plain = {"a": outputs["intrinsics"], "b": outputs["predicted_depth"]}
    assert depth.decode(plain, [0, 1], settings)["depth"].shape == (2, 8, 8), "else the largest"


def test_scores_among_several_outputs() -> None:
    """The first output with more than one number was taken, whatever it was."""
    outputs = {
        "map": np.zeros((2, 1, 8, 8), np.float32),
        "best": np.zeros(2, np.int64),
        "logits": np.ones((2, 5, 1, 1), np.float16),
    }
    settings = settings_with_defaults(classification.FLAGS, {})
    found = classification.decode(outputs, [0, 1], settings)["scores"]
    assert found.shape == (2, 5)
    outputs["features"] = np.zeros((2, 64), np.float32)
    with pytest.raises(InputError, match="several outputs") as caught:
        classification.decode(outputs, [0, 1], settings)
    assert "--output-name" in (caught.value.fix or "")
    named = {**settings, "output_name": "logits"}
    assert classification.decode(outputs, [0, 1], named)["scores"].shape == (2, 5)
    with pytest.raises(InputError, match="no output contains class scores"):
        classification.decode({"best": outputs["best"]}, [0, 1], settings)


@pytest.mark.parametrize(
    "content",
    [
        ["n02", "n01"],
        {"0": ["n02", "shark"], "1": ["n01", "tench"]},
        {"1": "n01", "0": "n02"},
        {"n01": 1, "n02": 0},
    ],
)
def test_orders_of_classes(tmp_path: Path, content: object) -> None:
    (tmp_path / "order.json").write_text(json.dumps(content))
    assert read_classes(tmp_path / "order.json") == {"n01": 1, "n02": 0}
    (tmp_path / "order.txt").write_text("n02  great shark\nn01 tench\n")
    words = {"n01 tench": 1, "n02 great shark": 0}
    assert read_classes(tmp_path / "order.txt") == {"n01": 1, "n02": 0, **words}
    (tmp_path / "order.txt").write_text("great owl\ngreat shark\n")
    assert read_classes(tmp_path / "order.txt") == {"great owl": 0, "great shark": 1}


BOX = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}], "annotations": [BOX],
    "categories": [{"id": 1, "name": "cat"}],
}  # fmt: skip


def instances(folder: Path, **changes: object) -> boxes.CocoBoxes:
    (folder / "i.json").write_text(json.dumps({**COCO, **changes}))
    return boxes.CocoBoxes(folder / "i.json")


@pytest.mark.parametrize(
    "change",
    [
        *({"annotations": [{**BOX, **odd}]} for odd in (
            {"bbox": [1, 2, 3]}, {"bbox": [1, 2, 3, "x"]}, {"bbox": [10**400, 2, 3, 4]},
            {"area": 10**400}, {"area": float("nan")}, {"category_id": 7}, {"category_id": [1]},
            {"image_id": [1]}, {"bbox": None, "segmentation": [[5, 6, 9, 6, 9, 8]]},
        )),
        {"annotations": [5]}, {"annotations": None}, {"categories": ["cat"]},
        {"categories": [{"name": "cat"}]}, {"images": [["a.png"]]},
    ],
)  # fmt: skip
def test_instances_that_are_none_are_refused(tmp_path: Path, change: dict) -> None:
    assert instances(tmp_path).ids == (1,)
    with pytest.raises(InputError):
        instances(tmp_path, **change)


@pytest.mark.parametrize("written", ["{}/1.png", "photos/{}/1.png", "C:\\photos\\{}\\1.png"])
def test_folders_of_file_names_tell_images_of_one_name_apart(tmp_path: Path, written: str) -> None:
    """The last one of that name was taken, and judged on another image's objects."""
    paths = [picture(tmp_path / "photos" / folder / "1.png") for folder in "ab"]
    told = [{"id": n, "file_name": written.format(folder)} for n, folder in enumerate("ab", 1)]
    truth = instances(tmp_path, images=told)
    for number, path in enumerate(paths, 1):
        assert truth.keep_annotated(path.parent, [path])[0] == [path]
        assert truth.image_id(path) == number
        assert len(truth.boxes(path).boxes) == (number == 1)
    with pytest.raises(InputError, match="matches the annotations of 2 images"):
        truth.image_id(picture(tmp_path / "c" / "1.png"))


def test_images_come_by_their_numbers(tmp_path: Path) -> None:
    """Between equal scores of two images pycocotools decides by these, not by the names."""
    paths = [picture(tmp_path / f"{name}.png") for name in "abc"]
    told = [{"id": n, "file_name": f"{name}.png"} for n, name in ((30, "a"), (4, "b"), (200, "c"))]
    known, _ = instances(tmp_path, images=told, annotations=[]).keep_annotated(tmp_path, paths)
    assert [path.stem for path in known] == ["b", "a", "c"]


def test_polygons_in_labels_are_boxes(tmp_path: Path) -> None:
    image = picture(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.1 0.2 0.1 0.6 0.5 0.6 0.5 0.2")
    found = boxes.YoloBoxes([image], {}, folder=None, root=tmp_path).boxes(image)
    np.testing.assert_allclose(found.boxes, [[2, 2, 8, 4]])


@pytest.mark.parametrize(
    "line", ["1", "a 0 0 1 1", "-1 0 0 1 1", "0.5 0 0 1 1", "1e18 0 0 1 1", "0 nan 0 1 1",
             "0 0 0 1", "0 0 0 1 1 1", "nan 0 0 1 1"]
)  # fmt: skip
def test_labels_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text(f"0 0.5 0.5 0.2 0.4\n\n{line}\n")
    with pytest.raises(InputError, match=r"a\.txt, line 3 is not a YOLO label"):
        boxes.read_labels(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "text", ["", "5", "[1, 2]", "val: nowhere", "names: 3\nval: .", "names: {1: a}\nval: .",
             "names: {a: b}\nval: .", "names: {.inf: a}\nval: .", f"val: {'a' * 5000}", "val: [",
             "a: &a [*a, *a]"]
)  # fmt: skip
def test_descriptions_of_data_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises((InputError, UsageError)):
        boxes.read_yolo_data(tmp_path / "data.yaml", "val")


def test_a_list_of_images_and_a_way_that_is_meant_from_the_file(tmp_path: Path) -> None:
    picture(tmp_path / "valid" / "images" / "a.png")
    (tmp_path / "data.yaml").write_text("val: ../valid/images\ntest: list.txt\nnames: [x]\n")
    (tmp_path / "list.txt").write_text("./valid/images/a.png\n")
    for split in ("val", "test"):
        [path] = boxes.read_yolo_data(tmp_path / "data.yaml", split).paths
        assert path.is_file()
        assert boxes.label_file(path, None, tmp_path) == path.parents[1] / "labels" / "a.txt"


SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "arrange_imagenet.py"


def arrange(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    folder = tmp_path / "flat"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / f"ILSVRC2012_val_{number:08d}.JPEG").write_bytes(bytes([number]))
    return folder


LISTS = {
    "kaggle.csv": "ImageId,PredictionString\n"
    "ILSVRC2012_val_00000002,n01443537 1 2 3 4 \n"
    "ILSVRC2012_val_00000001,n01440764 1 2 3 4 n01440764 5 6 7 8 \n"
    "ILSVRC2012_val_00000003,n01443537 9 9 9 9 \n",
    "table.txt": "ILSVRC2012_val_00000001.JPEG n01440764\n"
    "ILSVRC2012_val_00000002.JPEG n01443537\nILSVRC2012_val_00000003.JPEG n01443537\n",
    "lines.txt": "n01440764\nn01443537\nn01443537\n",
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("how", ["link", "copy", "move"])
def test_lists_of_every_kind(tmp_path: Path, flat: Path, name: str, how: str) -> None:
    (tmp_path / name).write_text(LISTS[name])
    done = arrange(flat, tmp_path / "val", "--labels", tmp_path / name, "--how", how)
    assert done.stdout == "3 arranged\n", done.stderr
    assert (tmp_path / "val/n01440764/ILSVRC2012_val_00000001.JPEG").read_bytes() == b"\1"
    assert len(list((tmp_path / "val/n01443537").iterdir())) == 2
    assert len(list(flat.iterdir())) == (0 if how == "move" else 3)


def test_names_that_tell_the_class_and_nothing_is_overwritten(tmp_path: Path, flat: Path) -> None:
    (flat / "ILSVRC2012_val_00000293_n01440764.JPEG").write_bytes(b"x")
    assert arrange(flat, tmp_path / "val").stdout == "1 arranged, 3 without a class\n"
    again = arrange(flat, tmp_path / "val")
    assert again.stdout == "1 there already, 3 without a class\n"
    assert again.returncode == 0
