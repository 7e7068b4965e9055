"""Images in one folder per class, as ImageNet's validation set is arranged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.boundary import read_text
from trtbench.boundary.files import MOST_BYTES
from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Scalar
from trtbench.errors import InputError, UsageError, reading
from trtbench.host.images import find_images
from trtbench.tasks._images import (
    ImageFiles,
    Loaded,
    image_input,
    names_below,
    normalized,
    noted,
    resize_and_crop,
)
from trtbench.tasks.contract import Settings, Tensors

SIZE = 224
MARGIN = 256 / 224
"""Images are scaled to this much more than is cut out of their centre."""


class ImageFolder(ImageFiles):
    """Images with the class their folder stands for."""

    def __init__(self, root: Path, settings: Settings, tensors: Tensors) -> None:
        crop, resize = _whole(settings.get("crop")), _whole(settings.get("resize"))
        takes = image_input(tensors, size=crop)
        self._crop = takes.size or (SIZE, SIZE)
        self._resize = resize or round(min(self._crop) * MARGIN)
        if self._resize < min(self._crop):
            raise UsageError(
                f"images are scaled to {self._resize} and cut to {min(self._crop)}",
                fix=f"--resize {round(min(self._crop) * MARGIN)}",
            )
        self._settings = settings
        self._how: Literal["bilinear", "bicubic"] = (
            "bicubic" if settings.get("interpolation") == "bicubic" else "bilinear"
        )
        self.settle(
            takes, str(settings.get("normalize") or "imagenet"), fit="crop", resize=self._resize,
            crop="x".join(map(str, self._crop)), interpolation=self._how,
        )  # fmt: skip
        self.paths = find_images(root) if root.is_dir() else [root]
        self.names = names_below(root, self.paths)
        self.folders: tuple[str, ...] = ()
        self.class_names: dict[int, str] = {}
        self.labels = None if settings.get("unlabelled") else self._labels(root)

    def prepare(self, loaded: Loaded) -> Arrays:
        part = resize_and_crop(loaded.pixels, resize=self._resize, crop=self._crop, how=self._how)
        return {self._takes.name: normalized(part, self._normalize, self._takes)}

    def _labels(self, root: Path) -> NDArray[np.int64]:
        own = [Path(name).parts[0] if len(Path(name).parts) > 1 else None for name in self.names]
        if any(folder is None for folder in own):
            raise InputError(
                "the images are not in one folder per class",
                facts={"for example": self.names[own.index(None)]},
                fix="tools/arrange_imagenet.py puts a flat download into folders",
            )
        # An empty folder is a class as well: without it, those behind it would move up.
        self.folders = tuple(
            sorted(e.name for e in root.iterdir() if e.is_dir() and not e.name.startswith("."))
        )
        empty = [folder for folder in self.folders if folder not in own]
        if empty:
            self.notes = (*self.notes, noted("classes without an image", empty))
        numbers = _numbers(self.folders, self._settings.get("classes"))
        self.class_names = {number: name for name, number in numbers.items()}
        return np.array([numbers[folder] for folder in own if folder], np.int64)

    def check_classes(self, scores: int) -> None:
        """Refuse labels that cannot be right for a network with so many classes."""
        assert self.labels is not None
        if self.labels.max(initial=0) >= scores:
            raise InputError(
                f"the labels go up to {self.labels.max()}, the network has {scores} classes",
                fix="--classes FILE with the classes in the network's order",
            )
        by_order = not self._settings.get("classes") and not self.folders[0].isdecimal()
        if by_order and len(self.folders) != scores:
            raise InputError(
                f"there are {len(self.folders)} folders and {scores} classes: their order says "
                "nothing",
                facts={"folders": ", ".join(self.folders[:3]) + " ..."},
                fix="--classes FILE with one class per line in the network's order, or number the "
                "folders",
            )


def _numbers(folders: tuple[str, ...], classes: Scalar) -> dict[str, int]:
    """Find the network's number of every folder: listed, written on it, or by order of names."""
    if classes:
        order = read_classes(Path(str(classes)))
        missing = [folder for folder in folders if folder not in order]
        if missing:
            raise InputError(
                f"{classes} does not name all folders", facts={"missing": ", ".join(missing[:5])}
            )
        return order
    if all(folder.isdecimal() for folder in folders):
        return {folder: int(folder) for folder in folders}
    return {folder: index for index, folder in enumerate(folders)}


def read_classes(path: Path) -> dict[str, int]:
    """Read the order of classes, from JSON or from one class per line.

    JSON is a list, ``{"0": ["n01440764", "tench"]}``, or ``{"n01440764": 0}``.
    """
    with reading(path):
        text = read_text(path, most=MOST_BYTES)
    if path.suffix == ".json":
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{path} is not JSON", facts={"reason": problem}) from None
        try:
            return _order_from_json(raw)
        except (ValueError, TypeError, AttributeError, IndexError, KeyError):
            raise InputError(
                f"{path} holds no order of classes",
                fix='a list, {"0": ["n01440764", "tench"]}, or {"n01440764": 0}',
            ) from None
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {words[0]: number for number, words in enumerate(lines)}


def _order_from_json(raw: object) -> dict[str, int]:
    if not isinstance(raw, dict | list):
        raise ValueError
    if isinstance(raw, dict) and raw and all(type(value) is int for value in raw.values()):
        return _counted({str(name): number for name, number in raw.items()})
    pairs = enumerate(raw) if isinstance(raw, list) else ((int(k), v) for k, v in raw.items())
    return _counted({str(v[0] if isinstance(v, list) else v): number for number, v in pairs})


def _counted(order: dict[str, int]) -> dict[str, int]:
    """Refuse numbers that no class can have: scores are counted from 0 on."""
    if min(order.values(), default=0) < 0:
        raise ValueError
    return order


def _whole(value: Scalar) -> int | None:
    return int(value) if value is not None else None
