"""Task, size, classes and preparation are as the model states, unless flags say otherwise."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from sweeps import matrix

import trtbench
from models import save_text
from trtbench.sweep.matrix import prepared_item_shapes

NAMES = "{0: 'left', 1: 'right'}"


def detector(path: Path, **metadata: str) -> Path:
    """Write a small network with open sides and the metadata of Ultralytics."""
    text = """net (float[batch, 3, height, width] images) => (float[batch, 6, places] output0) {
        seen = Conv <strides = [8, 8], kernel_shape = [8, 8]> (images, kernel)
        output0 = Reshape(seen, flat)
    }"""
    kernel = np.random.default_rng(0).uniform(0, 0.1, (6, 3, 8, 8))
    model = onnx.load(save_text(path, text, kernel=kernel, flat=[0, 6, -1]))
    stored = {"task": "detect", "imgsz": "[48, 64]", "names": NAMES, "stride": "8", **metadata}
    onnx.helper.set_model_props(model, stored)
    onnx.save(model, path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Photos with one object each, sorted into folders by class."""
    rng = np.random.default_rng(1)
    for number in range(6):
        folder = tmp_path / "photos" / ("left", "right")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"{number % 2} 0.5 0.5 0.5 0.5\n")
    return tmp_path / "photos"


def test_every_verb_prepares_images_as_the_metadata_says(tmp_path: Path, photos: Path) -> None:
    path, low = detector(tmp_path / "net.onnx"), tmp_path / "low.onnx"
    photo, size = next(photos.rglob("*.png")), (1, 3, 48, 64)
    run = trtbench.bench(path, inputs=photo, iterations=3, warmup=0, until_steady=False)
    assert [each.shape for each in run.record.inputs] == [size]
    made = trtbench.quantize(path, precision="int8", calibration=photos, output=low)
    prepared = {"task": "detection", "fit": "letterbox", "size": "48x64", "normalize": "none"}
    assert prepared.items() <= made.calibration.preprocessing.items()
    checked = trtbench.check(path, low, images=photos)
    assert prepared.items() <= checked.preparation.items()
    assert not any("H48" in note for note in checked.candidates[0].notes)
    found = trtbench.localize(path, low, images=photos)
    assert "task detection" in found.inputs
    judged = trtbench.evaluate(path, data=photos)
    assert prepared.items() <= judged.preparation.items()
    assert "left" in str(judged.tables), "classes are named as the model names them"
    planned = matrix([path], data=str(photos), task="detection")
    assert prepared_item_shapes(planned, path) == {"images": (0, *size[1:])}


def test_flags_say_otherwise(tmp_path: Path, photos: Path) -> None:
    path, low = detector(tmp_path / "net.onnx"), tmp_path / "low.onnx"
    settings = {"size": 32, "fit": "stretch"}
    made = trtbench.quantize(
        path, precision="int8", calibration=photos, task="detection", settings=settings, output=low
    )
    assert made.calibration.preprocessing.items() >= {"size": "32x32", "fit": "stretch"}.items()
    # The record of the candidate counts where the reference says nothing.
    onnx.helper.set_model_props(model := onnx.load(path), {})
    onnx.save(model, tmp_path / "silent.onnx")
    checked = trtbench.check(tmp_path / "silent.onnx", low, images=photos)
    assert checked.preparation.items() >= {"size": "32x32", "fit": "stretch"}.items()
    other = trtbench.check(path, low, images=photos, task="classification")
    assert other.preparation["crop"] == "48x64", "the size is the model's for every task"


def test_metadata_that_makes_no_sense_is_ignored(tmp_path: Path, photos: Path) -> None:
    stamp = '{"task": "detection", "size": "axb", "fit": 7, "normalize": 3}'
    odd = {"names": "{'a': __import__('os')}", "imgsz": "[0]", "trtbench.preparation": stamp}
    judged = trtbench.evaluate(detector(tmp_path / "net.onnx", **odd), data=photos)
    assert judged.preparation["fit"] == "letterbox"


def test_a_classifier_of_ultralytics_is_cropped_without_margin(
    tmp_path: Path, photos: Path
) -> None:
    text = """net (float[batch, 3, height, width] images) => (float[batch, 2] output0) {
        seen = GlobalAveragePool(images)
        flat = Flatten(seen)
        output0 = MatMul(flat, weight)
    }"""
    model = onnx.load(save_text(tmp_path / "net.onnx", text, weight=np.ones((3, 2))))
    stored = {"task": "classify", "imgsz": "[32, 32]", "names": "{0: 'right', 1: 'left'}"}
    onnx.helper.set_model_props(model, stored)
    onnx.save(model, path := tmp_path / "cls.onnx")
    judged = trtbench.evaluate(path, data=photos)
    prepared = {"resize": 32, "crop": "32x32", "normalize": "none"}
    assert prepared.items() <= judged.preparation.items()
