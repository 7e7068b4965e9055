"""Images from files to network inputs, and back to pictures."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.detection import Letterbox, letterbox_of
from trtbench.domain.arrays import AnyArray
from trtbench.domain.result import Scalar
from trtbench.errors import UsageError, near_miss
from trtbench.host.images import GREY, IMAGENET, Pixels, read_image, sampled, scaled
from trtbench.tasks.contract import DataSource, Flag, Tensors
from trtbench.units import text_from_shape

WHOLE = ("uint8", "int16", "uint16", "int32", "int64")
"""Types of inputs that take pixels from 0 to 255."""
SAMPLED = "linear, not antialiased"
"""How images are scaled for letterboxing."""
SINGULAR = {"images": "image", "classes": "class", "have": "has", "truths": "truth"}
ONE = re.compile("|".join(rf"\b{word}\b" for word in SINGULAR))
"""Words that are others where there is one."""
NORMALIZE = (
    "imagenet, none (0 to 1), pixels (0 to 255), or MEAN/STD such as 0.5/0.5 or 104,117,123/1,1,1"
)


@dataclass
class Loaded:
    """One decoded image."""

    index: int
    pixels: Pixels
    """[height, width, channels]"""
    geometry: Letterbox | None = None
    """How it was put into the input, once it was."""
    target: tuple[int, int] | None = None
    """Height and width of the input."""


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """The one input of a network that takes images."""

    name: str
    channels: int
    size: tuple[int, int] | None
    """Height and width; ``None`` when the network takes any."""
    channels_last: bool
    is_bytes: bool
    """Takes pixels from 0 to 255, as they are: in bytes, or in longer whole numbers."""

    def laid_out(self, image: AnyArray) -> AnyArray:
        """Put [height, width, channels] into the order of the input."""
        return np.ascontiguousarray(image if self.channels_last else image.transpose(2, 0, 1))


class ImageFiles(DataSource):
    """Images in files, one item each."""

    paths: list[Path]
    _takes: ImageInput
    _normalize: str

    def settle(self, takes: ImageInput, normalize: str, **own: Scalar) -> None:
        """Keep how images are prepared, as it is done: bytes are not normalised."""
        self._takes, self._normalize = takes, normalize
        done = (
            "pixels" if takes.is_bytes else normalization_name(normalize, channels=takes.channels)
        )
        ignored = takes.is_bytes and normalize not in ("none", "pixels")
        self.notes = (f"the network takes bytes: --normalize {normalize} is not done",) * ignored
        self.preparation = {**own, "colour": own.get("colour", "rgb"), "normalize": done}

    def load(self, index: int) -> Loaded:
        pixels = read_image(self.paths[index], channels=self._takes.channels)
        return Loaded(index=index, pixels=pixels)

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        return read_image(self.paths[index], channels=3)

    def part(self, places: Sequence[int]) -> DataSource:
        chosen = copy.copy(self)
        chosen.paths = [self.paths[place] for place in places]
        chosen.names = tuple(self.names[place] for place in places)
        chosen.labels = None if self.labels is None else self.labels[list(places)]
        return chosen


def image_input(tensors: Tensors, *, size: int | None = None) -> ImageInput:
    """Find out how a network takes images."""
    if len(tensors) != 1 or len(tensors[0].shape) != 4:
        raise UsageError(
            "images can only feed a model whose one input is [batch, channels, height, width]",
            facts={each.name: f"{each.dtype} {text_from_shape(each.shape)}" for each in tensors},
            fix="give an .npz with an array for every input",
        )
    tensor = tensors[0]
    last = tensor.shape[3] in (1, 3) and tensor.shape[1] not in (1, 3)
    _, a, b, c = tensor.shape
    channels, height, width = (c, a, b) if last else (a, b, c)
    if channels not in (1, 3):
        raise UsageError(
            f"images have 1 or 3 channels, the input {tensor.name!r} {channels}",
            fix="give an .npz with an array for every input",
        )
    if tensor.dtype not in WHOLE and "float" not in tensor.dtype:
        raise UsageError(
            f"images cannot be made {tensor.dtype}, as the input {tensor.name!r} takes them",
            fix="give an .npz with an array for every input",
        )
    known = isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0
    own = (int(height), int(width)) if known else None  # type: ignore[arg-type]
    if own and size and own != (size, size):
        raise UsageError(
            f"the model takes images of {own[0]}x{own[1]}", fix="leave the size of images out"
        )
    return ImageInput(
        name=tensor.name,
        channels=int(channels),
        size=own or ((size, size) if size else None),
        channels_last=last,
        is_bytes=tensor.dtype in WHOLE,
    )


def sized_input(tensors: Tensors, *, asked: Scalar, default: int) -> ImageInput:
    """Find out how a network takes images; one that leaves their size open gets what is asked."""
    takes = image_input(tensors, size=int(asked) if asked else None)
    return takes if takes.size else image_input(tensors, size=default)


def names_below(root: Path, paths: Sequence[Path]) -> tuple[str, ...]:
    """Name images by their way below the folder, so that two of one name can be told apart."""
    return tuple(_short(path, root) if root.is_dir() else path.name for path in paths)


def _short(path: Path, root: Path) -> str:
    for own, above in ((path, root), (path.resolve(), root.resolve())):
        if own.is_relative_to(above):
            return own.relative_to(above).as_posix()
    return path.as_posix()


def chosen_item(names: Sequence[str], wanted: Scalar) -> int:
    """Find the item to show, by its name with or without folder and ending; else the first.

    Of arrays the number will do.
    """
    if wanted is None:
        return 0
    text = Path(str(wanted)).as_posix()
    ways: tuple[Callable[[str], str], ...] = (
        str, lambda name: Path(name).name, lambda name: Path(name).stem,
        lambda name: name.rpartition("[")[2].removesuffix("]"),
    )  # fmt: skip
    for same in ways:
        for told in (text, Path(text).name):
            found = [index for index, name in enumerate(names) if same(name) == told]
            if len(found) == 1:
                return found[0]
    guess = near_miss(text, names)
    raise UsageError(
        f"--show {text} names no item, or several",
        facts={"items": ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")},
        fix=f"--show {guess}" if guess else None,
    )


def shown_item(names: Sequence[str], wanted: Scalar) -> tuple[int, tuple[str, ...]]:
    """Find the item to show among those that ran; where it is not one of them, a note says so."""
    try:
        return chosen_item(names, wanted), ()
    except UsageError:
        return 0, (f"{wanted} was not run, so {names[0]} is shown in its place",)


def noted(what: str, names: Sequence[str]) -> str:
    """Write ``3 images without ground truth: a.png, b.png, c.png``, of one image ``1 image``."""
    said = ONE.sub(lambda found: SINGULAR[found[0]], what) if len(names) == 1 else what
    return f"{len(names)} {said}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"


def resize_and_crop(
    pixels: Pixels, *, resize: int, crop: tuple[int, int], how: Literal["bilinear", "bicubic"]
) -> Pixels:
    """Scale the shorter side, then cut out the centre: torchvision's Resize and CenterCrop."""
    high, wide = pixels.shape[:2]
    short = min(high, wide)
    size = (int(resize * high / short), int(resize * wide / short))
    size = (resize, size[1]) if high <= wide else (size[0], resize)
    moved = scaled(pixels, size, how=how)
    missing = [max(0, want - have) for want, have in zip(crop, size, strict=True)]
    if any(missing):
        pad = [(gap // 2, gap - gap // 2) for gap in missing]
        moved = np.pad(moved, (*pad, (0, 0)))
    top, left = (round((have - want) / 2) for have, want in zip(moved.shape[:2], crop, strict=True))
    return moved[top : top + crop[0], left : left + crop[1]]


def letterboxed(
    pixels: Pixels, target: tuple[int, int], *, centred: bool = True
) -> tuple[Pixels, Letterbox]:
    """Scale an image into a target without changing its proportions; the rest is grey.

    Pixels are taken as YOLO's own preparation takes them, without antialiasing.
    """
    size = (pixels.shape[0], pixels.shape[1])
    geometry, inner = letterbox_of(size, target, centred=centred)
    canvas = np.full((*target, pixels.shape[2]), GREY, np.uint8)
    part = sampled(pixels, inner)
    canvas[geometry.top : geometry.top + inner[0], geometry.left : geometry.left + inner[1]] = part
    return canvas, geometry


def normalized(pixels: Pixels, how: str, takes: ImageInput) -> AnyArray:
    """0 to 1, less the mean, over the deviation; a network that takes bytes gets bytes."""
    if takes.is_bytes:
        return takes.laid_out(pixels)
    mean, deviation = normalization(how, channels=pixels.shape[2])
    values = pixels.astype(np.float32) / np.float32(255)
    return takes.laid_out(((values - mean) / deviation).astype(np.float32))


def normalization(text: str, *, channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read what images are normalised with, as parts of the brightest pixel."""
    if text in ("none", "pixels"):
        return np.zeros(1, np.float32), np.array([1 / 255 if text == "pixels" else 1], np.float32)
    if text == "imagenet":
        mean, deviation = IMAGENET
        if channels == 1:  # a grey network was trained with some mean of the colours
            mean, deviation = (float(np.mean(mean)),), (float(np.mean(deviation)),)  # type: ignore[assignment]
        return np.array(mean, np.float32), np.array(deviation, np.float32)
    try:
        parts = [np.array([float(v) for v in p.split(",")], np.float32) for p in text.split("/")]
        mean_, deviation_ = parts
    except ValueError:
        raise UsageError(f"--normalize {text} cannot be read", fix=f"write {NORMALIZE}") from None
    if any(len(part) not in (1, channels) for part in parts) or not deviation_.all():
        raise UsageError(f"--normalize {text} does not fit images of {channels} channels")
    if max(float(np.abs(part).max()) for part in parts) > 2:  # said of pixels from 0 to 255
        return mean_ / np.float32(255), deviation_ / np.float32(255)
    return mean_, deviation_


def normalization_name(text: str, *, channels: int) -> str:
    """Write a normalisation in one way, whichever way it was asked for."""
    asked = normalization(text, channels=channels)
    for name in ("none", "pixels", "imagenet"):
        known = normalization(name, channels=channels)
        if all(np.allclose(a, b, rtol=1e-6) for a, b in zip(asked, known, strict=True)):
            return name
    parts = (part[:1] if np.ptp(part) == 0 else part for part in asked)
    return "/".join(",".join(f"{value:g}" for value in part.tolist()) for part in parts)


def normalize_flag(default: str) -> Flag:
    return Flag(
        name="normalize", default=default, help=f"How pixels are normalised: {NORMALIZE}.",
        preprocessing=True,
    )  # fmt: skip
