"""A folder of images as network inputs: resized, cropped, scaled to 0..1 and normalised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.build.quantize_data import Items
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec, Value
from trtbench.errors import InputError, UnavailableError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CROP = 224 / 256
"""Part of the resized image that a centre crop keeps, as in the usual ImageNet evaluation."""
GREY = 114
"""What letterboxing fills up with, as YOLO networks are trained."""


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
    files = _files(folder)
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


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(
            f"there are no images in {folder}", facts={"looked for": " ".join(SUFFIXES)}
        )
    return found


def _load(
    path: Path, channels: int, size: tuple[int, int], how: Preprocessing
) -> NDArray[np.float32]:
    """Decode one image to [height, width, channels]."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as problem:
        raise UnavailableError(
            "images need Pillow", facts={"reason": problem}, fix="pip install pillow"
        ) from None
    try:
        with Image.open(path) as opened:
            upright = ImageOps.exif_transpose(opened)
            picture = upright.convert("L" if channels == 1 else "RGB")
    except (UnidentifiedImageError, OSError) as problem:
        raise InputError(f"{path} cannot be read as an image", facts={"reason": problem}) from None
    pixels = np.asarray(_resized(picture, size, how.resize), np.float32) / 255
    pixels = pixels.reshape(*size, channels)
    for name, values in (("mean", how.mean), ("std", how.std)):
        if values and len(values) not in (1, channels):
            raise UsageError(f"--{name} has {len(values)} values, and images {channels} channels")
    mean, std = np.array(how.mean or 0.0), np.array(how.std or 1.0)
    normalised: NDArray[np.float32] = ((pixels - mean) / std).astype(np.float32)
    return normalised


def _resized(picture: Image, size: tuple[int, int], how: str) -> Any:
    from PIL import Image

    height, width = size
    if how == "stretch":
        return picture.resize((width, height), Image.Resampling.BILINEAR)
    scales = (width / picture.width, height / picture.height)
    scale = min(scales) if how == "letterbox" else max(scales) / CROP
    wide, high = (max(1, round(side * scale)) for side in picture.size)
    scaled = picture.resize((wide, high), Image.Resampling.BILINEAR)
    left, top = (wide - width) // 2, (high - height) // 2
    if how == "crop":
        return scaled.crop((left, top, left + width, top + height))
    canvas = Image.new(picture.mode, (width, height), GREY if picture.mode == "L" else (GREY,) * 3)
    canvas.paste(scaled, (-left, -top))
    return canvas
