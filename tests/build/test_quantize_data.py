"""Data to calibrate with: arrays and images that fit, and those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trtbench.build.quantize_data import (
    FeedFile,
    array_items,
    feeds_sha256,
    random_items,
    save_feeds,
)
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError
from trtbench.workflows.make.calibration_images import task_items


def test_the_same_data_gives_the_same_hash_and_other_data_another(images: np.ndarray) -> None:
    feeds = [{"image": images[:4]}, {"image": images[4:8]}]
    assert feeds_sha256(feeds) == feeds_sha256([dict(feed) for feed in feeds])
    assert feeds_sha256(feeds) != feeds_sha256(feeds[:1])
    changed = images[:4].copy()
    changed[0, 0, 0, 0] += 1
    assert feeds_sha256(feeds) != feeds_sha256([{"image": changed}, feeds[1]])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"picture": np.zeros((4, 1, 32, 32), np.float32)}, "no array for the input 'image'"),
        ({"image": np.zeros((4, 1, 32, 32))}, "wrong type"),
        ({"image": np.zeros((4, 3, 32, 32), np.float32)}, "wrong shape"),
        ({"image": np.zeros((0, 1, 32, 32), np.float32)}, "number of items"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    tensor = TensorSpec(name="image", dtype="float32", shape=("batch", 1, 32, 32))
    with pytest.raises(InputError, match=message):
        array_items(path, [tensor])


def test_inputs_without_a_batch_are_fed_as_they_are(tmp_path: Path) -> None:
    tensors = [
        TensorSpec(name="ids", dtype="int64", shape=("batch", 4)),
        TensorSpec(name="flag", dtype="bool", shape=(1,)),
    ]
    items = random_items(tensors, count=6, seed=0, shapes={}, model="net.onnx")
    feeds = items.feeds(batch=4, fixed=False)
    assert [feed["ids"].shape for feed in feeds] == [(4, 4), (2, 4)]
    assert [feed["flag"].shape for feed in feeds] == [(1,), (1,)]
    save_feeds(tmp_path / "f.npz", feeds)
    again = list(FeedFile(tmp_path / "f.npz"))
    assert feeds_sha256(again) == feeds_sha256(feeds)


def test_images_are_cropped_scaled_and_normalised(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 20:60] = (255, 0, 51)  # the part that a centre crop keeps
    image.fromarray(pixels).save(tmp_path / "a.png")
    tensor = TensorSpec(name="x", dtype="float32", shape=("batch", 3, 16, 16))
    how = {"normalize": "0.5/0.5,0.5,0.25"}
    items, told = read(tmp_path, tensor, "classification", how)
    assert items.shape == (1, 3, 16, 16)
    np.testing.assert_allclose(items[0, :, 8, 8], [1.0, -1.0, (0.2 - 0.5) / 0.25], atol=1e-6)
    assert told == {
        "task": "classification", "fit": "crop", "resize": 18, "crop": "16x16",
        "interpolation": "bilinear", "normalize": "0.5/0.5,0.5,0.25", "colour": "rgb",
    }  # fmt: skip
    boxed, told = read(tmp_path, tensor, "pose", {})
    np.testing.assert_allclose(boxed[0, :, 0, 8], 114 / 255)
    np.testing.assert_allclose(boxed[0, :, 8, 8], [1.0, 0.0, 0.2], atol=1e-6)
    assert told == {
        "task": "pose", "fit": "letterbox", "size": "16x16", "normalize": "none",
        "interpolation": "linear, not antialiased", "colour": "rgb",
    }  # fmt: skip


def read(
    folder: Path, tensor: TensorSpec, task: str, settings: dict[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    items, told = task_items(str(folder), [tensor], task=task, settings=settings, limit=5, seed=0)
    return items.rows[tensor.name], told


def test_a_folder_without_images_and_a_broken_image_are_refused(tmp_path: Path) -> None:
    tensor = TensorSpec(name="x", dtype="float32", shape=(1, 3, 8, 8))
    with pytest.raises(InputError, match="no images"):
        read(tmp_path, tensor, "classification", {})
    (tmp_path / "broken.jpg").write_bytes(b"no image at all")
    with pytest.raises(InputError, match="cannot be read as an image"):
        read(tmp_path, tensor, "classification", {})
