"""Files of images: found, decoded and resized with Pillow, as arrays of bytes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.boundary import check_file
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF")
"""What a file may hold, whatever its name: Pillow starts programs for others (EPS: Ghostscript)."""
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of ImageNet's colours, from 0 to 1: what most networks are trained with."""
GREY = 114
"""What letterboxing fills up with, as YOLO networks are trained."""

_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
"""The tag of Exif that says how an image lies, and the values that swap its sides."""
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, MemoryError)
"""What Pillow raises on files that are no images, or no longer."""

Pixels = NDArray[np.uint8]
"""[height, width, channels]"""


def find_images(folder: Path) -> list[Path]:
    """List images below a folder, in order; what is hidden (``._a.jpg``, thumbnails) is none."""
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise InputError(
            f"there are no images in {folder}",
            facts={"looked for": " ".join(SUFFIXES)},
            fix="give a folder that holds such files",
        )
    return found


def read_image(path: Path, *, channels: int) -> Pixels:
    """Decode one image, upright, as grey or RGB."""
    image = pillow()
    from PIL import ImageOps, UnidentifiedImageError

    check_file(path)
    image.init()  # a Pillow without WebP has none
    try:
        with image.open(path, formats=[each for each in FORMATS if each in image.OPEN]) as opened:
            upright = ImageOps.exif_transpose(opened)
            picture = _in_bytes(upright, image).convert("L" if channels == 1 else "RGB")
    except (*_DAMAGE, UnidentifiedImageError, image.DecompressionBombError) as problem:
        raise InputError(
            f"{path} cannot be read as an image",
            facts={"reason": problem},
            fix="repair it, or take it out of the folder",
        ) from None
    pixels = np.asarray(picture, np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def image_size(path: Path) -> tuple[int, int]:
    """Read height and width of an upright image, without decoding it."""
    image = pillow()
    check_file(path)
    image.init()
    try:
        with image.open(path, formats=[each for each in FORMATS if each in image.OPEN]) as opened:
            wide, high = opened.size
            turned = opened.getexif().get(_ORIENTATION) in _TURNED
    except (*_DAMAGE, image.DecompressionBombError) as problem:
        raise InputError(f"{path} cannot be read as an image", facts={"reason": problem}) from None
    return (wide, high) if turned else (high, wide)


def _in_bytes(picture: Image, image: ModuleType) -> Image:
    """Bring 16 bits to 8; Pillow would cut off whatever is above 255."""
    if not picture.mode.startswith("I"):
        return picture
    values = np.asarray(picture)
    found: Image = image.fromarray((np.clip(values, 0, 65535) >> 8).astype(np.uint8))
    return found


def scaled(
    pixels: Pixels, size: tuple[int, int], *, how: Literal["bilinear", "bicubic"] = "bilinear"
) -> Pixels:
    """Resize with antialiasing, as torchvision does with Pillow images."""
    image = pillow()
    one = pixels.shape[2] == 1
    picture = image.fromarray(pixels[:, :, 0] if one else pixels)
    method = getattr(image.Resampling, how.upper())
    resized = np.asarray(picture.resize((size[1], size[0]), method), np.uint8)
    return resized[:, :, None] if one else resized


def sampled(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize without antialiasing, bit by bit as OpenCV's INTER_LINEAR does: in whole numbers."""
    low, high, first, second = _neighbours(size[1], pixels.shape[1], edges=True)
    values = pixels.astype(np.int32)
    wide = (values[:, low] * first[:, None] + values[:, high] * second[:, None]) >> 4
    low, high, first, second = (
        each[:, None, None] if each.dtype == np.int32 else each
        for each in _neighbours(size[0], pixels.shape[0], edges=False)
    )
    both = ((wide[low] * first) >> 16) + ((wide[high] * second) >> 16)
    return np.asarray((both + 2) >> 2, np.uint8)


def _neighbours(count: int, old: int, *, edges: bool) -> tuple[AnyArray, ...]:
    """Find two pixels each of ``count`` lies between, and their weights of 2048 together.

    At the edges of a line one pixel alone counts, in OpenCV's columns twice the same one.
    """
    place = ((np.arange(count) + 0.5) * (old / count) - 0.5).astype(np.float32)
    low = np.floor(place).astype(np.int64)
    part = place - low.astype(np.float32)
    if edges:
        part[(low < 0) | (low >= old - 1)] = 0
    weights = [np.rint(each * 2048).astype(np.int32) for each in (1 - part, part)]
    return np.clip(low, 0, old - 1), np.clip(low + 1, 0, old - 1), *weights


def pillow() -> ModuleType:
    """Import Pillow, or say how to get it."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise UnavailableError(
            "images need Pillow in the interpreter that runs the model",
            facts={"reason": problem},
            fix="pip install 'trtbench[tasks]'",
        ) from None
    return Image
