"""Reads images, and maps such as depth or disparity, from files.

Images are decoded and resized with Pillow, as arrays of bytes; maps are NumPy, PNG, TIFF or PFM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError
from trtbench.core.plugins import optional_library
from trtbench.core.safety import check_file, read_bytes
from trtbench.core.samples import AnyArray
from trtbench.host.arrays import DAMAGE, read_archive, read_npy

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF")
"""Accepted formats, whatever the file name; for EPS, Pillow would start Ghostscript."""
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of ImageNet's colours, from 0 to 1, with which most networks are trained."""
GREY = 114  # fills the borders of letterboxed images, as in the training of YOLO networks

Pixels = NDArray[np.uint8]  # [height, width, channels]


def find_images(folder: Path) -> list[Path]:
    """List the images below a folder, sorted, without hidden files (``._a.jpg``, thumbnails)."""
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        facts = {"looked for": " ".join(SUFFIXES)}
        fix = "give a folder that contains such files"
        raise InputError(f"there are no images in {folder}", facts=facts, fix=fix)
    return found


def read_image(path: Path, *, channels: int) -> Pixels:
    """Decode an image as grey or RGB, rotated as its Exif data say."""
    with _opened(path) as opened:
        upright = optional_library("PIL.ImageOps").exif_transpose(opened)
        if upright.mode.startswith("I"):  # 16 bits: Pillow would clip values above 255
            values = np.clip(np.asarray(upright), 0, 65535) >> 8
            upright = optional_library("PIL.Image").fromarray(values.astype(np.uint8))
        picture = upright.convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(picture, np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def image_size(path: Path) -> tuple[int, int]:
    """Return height and width of an image, rotated as in ``read_image``, without decoding it."""
    with _opened(path) as opened:
        wide, high = opened.size
        turned = opened.getexif().get(0x0112) in (5, 6, 7, 8)  # the orientation in Exif
    return (wide, high) if turned else (high, wide)


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    image = optional_library("PIL.Image")
    check_file(path)
    image.init()  # fills OPEN; some builds of Pillow lack WebP
    try:
        with image.open(path, formats=[each for each in FORMATS if each in image.OPEN]) as opened:
            yield opened
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError,
            image.UnidentifiedImageError, image.DecompressionBombError) as problem:  # fmt: skip
        facts = {"reason": problem}
        fix = "repair it, or remove it from the folder"
        raise InputError(f"{path} cannot be read as an image", facts=facts, fix=fix) from None


def scaled(pixels: Pixels, size: tuple[int, int], *, how: str) -> Pixels:
    """Resize pixels: with antialiasing as Pillow, or without as OpenCV (``cv2-bilinear``)."""
    if how.startswith("cv2-"):
        return _sampled(pixels, size, cubic=how == "cv2-bicubic")
    image = optional_library("PIL.Image")
    one = pixels.shape[2] == 1
    picture = image.fromarray(pixels[:, :, 0] if one else pixels)
    method = getattr(image.Resampling, how.upper())
    resized = np.asarray(picture.resize((size[1], size[0]), method), np.uint8)
    return resized[:, :, None] if one else resized


def _sampled(pixels: Pixels, size: tuple[int, int], *, cubic: bool) -> Pixels:
    """Resize pixels as OpenCV's INTER_LINEAR (exactly, in colour) or INTER_CUBIC (one value)."""
    values = pixels.astype(np.int32)
    across = _neighbours(size[1], pixels.shape[1], cubic=cubic, edges=not cubic)
    wide = np.sum([values[:, place] * weight[:, None] for place, weight in across], axis=0)
    down = [
        (wide[place], weight[:, None, None])
        for place, weight in _neighbours(size[0], pixels.shape[0], cubic=cubic)
    ]
    if cubic:
        whole = np.sum([rows.astype(np.int64) * weight for rows, weight in down], axis=0)
        return np.asarray(np.clip((whole + (1 << 21)) >> 22, 0, 255), np.uint8)
    both = np.sum([((rows >> 4) * weight) >> 16 for rows, weight in down], axis=0)
    return np.asarray((both + 2) >> 2, np.uint8)


def _neighbours(
    count: int, old: int, *, cubic: bool, edges: bool = False
) -> list[tuple[AnyArray, AnyArray]]:
    """Return the old pixels around each of ``count`` new ones, with their weights of 2048."""
    position = ((np.arange(count) + 0.5) * (old / count) - 0.5).astype(np.float32)
    low = np.floor(position).astype(np.int64)
    part = position - low.astype(np.float32)
    if edges:
        part[(low < 0) | (low >= old - 1)] = 0
    weights = [1 - part, part]
    if cubic:  # Keys' kernel with a = -0.75
        near = [(1.25 * x - 2.25) * x * x + 1 for x in (part, 1 - part)]
        far = ((-0.75 * (part + 1) + 3.75) * (part + 1) - 6) * (part + 1) + 3
        weights = [far, *near, 1 - far - near[0] - near[1]]
    places = (np.clip(low + step, 0, old - 1) for step in ((-1, 0, 1, 2) if cubic else (0, 1)))
    return [
        (place, np.rint(each * 2048).astype(np.int32))
        for place, each in zip(places, weights, strict=True)
    ]


def read_map(path: Path) -> AnyArray:
    """Read a map of height and width; dimensions of size one are removed."""
    check_file(path)
    try:
        values = np.squeeze(READERS[path.suffix.lower()](path))
    except (*DAMAGE, IndexError, AttributeError) as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem}) from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"{path} is not a map", facts={"shape": values.shape, "type": str(values.dtype)}
        )
    return values


def _npz(path: Path) -> AnyArray:
    """Return the only array, or one with a usual name, or the only one with depth in its name."""
    parts = {part.lower(): array for part, array in read_archive(path).items()}
    usual = [name for name in ("depth", "disparity", "gt", "arr_0") if name in parts]
    depths = [name for name in parts if "depth" in name]
    for choices in (list(parts), usual[:1], depths):
        if len(choices) == 1:
            return parts[choices[0]]
    raise ValueError(f"which of its arrays is the map? {', '.join(parts) or 'it has none'}")


def _image_map(path: Path) -> AnyArray:
    kind = "PNG" if path.suffix.lower() == ".png" else "TIFF"
    with optional_library("PIL.Image").open(path, formats=[kind]) as picture:
        return np.asarray(picture)


def _pfm(path: Path) -> AnyArray:
    """Read a PFM file, whose rows are stored from the last to the first."""
    data = read_bytes(path)
    head = re.match(rb"P([fF])\s+(\d+)\s+(\d+)\s+(-?[\d.]+(?:[eE][-+]?\d+)?)\s", data)
    if head is None:
        raise ValueError("it does not have the header of a PFM file")
    channels, width, height = 3 if head[1] == b"F" else 1, int(head[2]), int(head[3])
    if width < 1 or height < 1 or width * height > 1 << 28:
        raise ValueError(f"its size of {width}x{height} pixels is not possible")
    kind, count = "<f4" if float(head[4]) < 0 else ">f4", width * height * channels
    values = np.frombuffer(data, kind, count, offset=head.end()).reshape(height, width, channels)
    return values[::-1, :, 0].astype(np.float32)


READERS: dict[str, Callable[[Path], AnyArray]] = {
    ".npy": read_npy,
    ".npz": _npz,
    ".pfm": _pfm,
    ".tif": _image_map,
    ".tiff": _image_map,
    ".png": _image_map,
}
"""Functions by suffix; if a name exists with several suffixes, the first is used."""
