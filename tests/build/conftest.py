"""TensorRT-RTX, which tests skip without, and digits to calibrate with."""

from pathlib import Path

import numpy as np
import pytest

from trtbench.data import demo_file


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    with np.load(demo_file("digits.npz")) as data:
        return data["images"].astype(np.float32) / 255


@pytest.fixture
def calibration(tmp_path: Path, images: np.ndarray) -> Path:
    path = tmp_path / "calibration.npz"
    np.savez(path, image=images[:80])
    return path
