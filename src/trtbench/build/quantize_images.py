"""A folder of images as network inputs: resized, cropped, scaled to 0..1 and normalised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.build.quantize_data import Items
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec, Value
from trtbench.errors import UsageError
from trtbench.host.images import GREY, Pixels, find_images, read_image, scaled

CROP = 224 / 256
"""Part of the resized image that a centre crop keeps, as in the usual ImageNet evaluation."""


class Preprocessing(Value, frozen=True, kw_only=True):
    """What happens to an image before the network sees it."""

    size: tuple[int, int] | None = None
    """Height and width; ``None`` takes the input's own."""
    resize: Literal["crop", "stretch", "letterbox"] = "crop"
    """Scale and crop the centre, scale both sides, or scale and fill up with grey."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def facts(self) -> dict[str, Scalar]:
        return {
            "size": "x".join(map(str, self.size)) if self.size else "of the input",
            "resize": self.resize,
            "mean": ",".join(map(str, self.mean)) or "0",
            "std": ",".join(map(str, self.std)) or "1",
        }


def image_items(
    folder: Path,
    inputs: Sequence[TensorSpec],
    *,
    how: Preprocessing,
    limit: int,
    seed: int = 0,
) -> Items:
    """Read images in a seeded order, so that classes that lie one after another are mixed."""
    tensor = _image_input(inputs)
    channels_last = _channels_last(tensor)
    channels, size = _geometry(tensor, how, channels_last=channels_last)
    files = find_images(folder)
    order = np.random.default_rng(seed).permutation(len(files))[:limit]
    images = [_load(files[index], channels, size, how) for index in order]
    batch = np.stack(images)
    batch = batch if channels_last else batch.transpose(0, 3, 1, 2)
    return Items(rows={tensor.name: np.ascontiguousarray(batch, dtype=tensor.dtype)}, constant={})


def _image_input(inputs: Sequence[TensorSpec]) -> TensorSpec:
    fitting = [each for each in inputs if len(each.shape) == 4 and each.dtype.startswith("float")]
    if len(inputs) != 1 or not fitting:
        raise UsageError(
            "images can only feed a model whose one input is [batch, channels, height, width]",
            facts={each.name: f"{each.dtype} {each.shape}" for each in inputs},
            fix="give an .npz with an array for every input",
        )
    return fitting[0]


def _channels_last(tensor: TensorSpec) -> bool:
    return tensor.shape[3] in (1, 3) and tensor.shape[1] not in (1, 3)


def _geometry(
    tensor: TensorSpec, how: Preprocessing, *, channels_last: bool
) -> tuple[int, tuple[int, int]]:
    _, a, b, c = tensor.shape
    channels, height, width = (c, a, b) if channels_last else (a, b, c)
    if channels not in (1, 3):
        raise UsageError(f"images have 1 or 3 channels, the input {tensor.name!r} {channels}")
    if isinstance(height, int) and isinstance(width, int):
        own = (height, width)
        if how.size is not None and how.size != own:
            raise UsageError(
                f"the model takes images of {height}x{width}", fix="leave --image-size out"
            )
        return int(channels), own
    if how.size is None:
        raise UsageError("the model leaves the size of images open", fix="--image-size 224")
    return int(channels), how.size


def _load(
    path: Path, channels: int, size: tuple[int, int], how: Preprocessing
) -> NDArray[np.float32]:
    """Decode one image to [height, width, channels]."""
    pixels = (
        _resized(read_image(path, channels=channels), size, how.resize).astype(np.float32) / 255
    )
    for name, values in (("mean", how.mean), ("std", how.std)):
        if values and len(values) not in (1, channels):
            raise UsageError(f"--{name} has {len(values)} values, and images {channels} channels")
    mean, std = np.array(how.mean or 0.0), np.array(how.std or 1.0)
    normalised: NDArray[np.float32] = ((pixels - mean) / std).astype(np.float32)
    return normalised


def _resized(pixels: Pixels, size: tuple[int, int], how: str) -> Pixels:
    if how == "stretch":
        return scaled(pixels, size)
    parts = [want / have for want, have in zip(size, pixels.shape, strict=False)]
    scale = min(parts) if how == "letterbox" else max(parts) / CROP
    high, wide = (max(1, round(side * scale)) for side in pixels.shape[:2])
    resized = scaled(pixels, (high, wide))
    top, left = (high - size[0]) // 2, (wide - size[1]) // 2
    if how == "crop":
        return resized[top : top + size[0], left : left + size[1]]
    canvas = np.full((*size, pixels.shape[2]), GREY, np.uint8)
    canvas[-top : high - top, -left : wide - left] = resized
    return canvas
