"""Objects that people drew: COCO's instances, or YOLO's labels beside the images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from trtbench.analysis.detection_scores import Objects, boxes_from_corners
from trtbench.boundary import read_text
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UsageError, reading
from trtbench.host.images import find_images, image_size
from trtbench.host.yaml_files import yaml_from_text
from trtbench.tasks._coco import CocoFile

YAML = (".yaml", ".yml")
ORIENTED = 9
"""Numbers in a line that tells a class and four corners."""
MOST_CLASSES = 100_000
"""A number of a class above this is none."""
NOT_DONE = "oriented boxes (OBB) are not done: trtbench judges upright ones"


class Truth(Protocol):
    """What is known to be in every image."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Numbers of the categories, in order."""

    @property
    def named(self) -> bool:
        """Whether all categories are known, not those alone that occur."""

    @property
    def names(self) -> Mapping[int, str]:
        """Of categories, by their place."""

    def boxes(self, path: Path, name: str) -> Objects:
        """The objects of one image, their classes by place among the categories."""


class CocoBoxes(CocoFile):
    """COCO's instances."""

    named = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            known = {int(each["id"]): str(each.get("name")) for each in self.raw["categories"]}
            self.ids: tuple[int, ...] = tuple(sorted(known))
            self.names: Mapping[int, str] = {place: known[id] for place, id in enumerate(self.ids)}
            self._places = {id: place for place, id in enumerate(self.ids)}
            for each in self.raw["annotations"]:
                self._places[each["category_id"]]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(
                f"{path} names no or other categories", facts={"reason": repr(problem)}
            ) from None

    def boxes(self, path: Path, name: str) -> Objects:
        own = self._by_image.get(self.id_of(name), [])
        sides = np.array([each["bbox"] for each in own], np.float64).reshape(len(own), 4)
        areas = [each.get("area", each["bbox"][2] * each["bbox"][3]) for each in own]
        return Objects(
            boxes=sides,
            classes=np.array([self._places[each["category_id"]] for each in own], np.int64),
            scores=np.ones(len(own)),
            areas=np.array(areas, np.float64),
            crowd=np.array([bool(each.get("iscrowd")) for each in own], bool),
        )


class YoloBoxes:
    """YOLO's labels: a text file per image, a line per object, in parts of the image."""

    def __init__(
        self, paths: list[Path], names: Mapping[int, str], *, folder: Path | None, root: Path
    ) -> None:
        self.files = {path: label_file(path, folder, root) for path in paths}
        self._lines = {path: read_labels(file) for path, file in self.files.items()
                       if file.is_file()}  # fmt: skip
        told = [lines for lines in self._lines.values() if len(lines)]
        if told and all((lines[:, 0] == ORIENTED).all() for lines in told):
            raise InputError(NOT_DONE, facts={"labels": next(iter(self.files.values()))})
        highest = max((int(lines[:, 1].max()) for lines in told), default=-1)
        if names and highest >= len(names):
            raise InputError(f"labels go up to class {highest}, and {len(names)} classes are named")
        self.named = bool(names)
        self.names: Mapping[int, str] = dict(names) or {n: str(n) for n in range(highest + 1)}
        self.ids: tuple[int, ...] = tuple(range(len(self.names)))

    @property
    def found(self) -> int:
        """How many images have a file of labels."""
        return len(self._lines)

    def boxes(self, path: Path, name: str) -> Objects:
        lines = self._lines.get(path, np.zeros((0, 6)))
        high, wide = image_size(path)
        corners = lines[:, 2:6] * np.array([wide, high, wide, high])
        return boxes_from_corners(corners, lines[:, 1])


def read_labels(path: Path) -> AnyArray:
    """[objects, 6]: how many numbers a line has, the class, and x0, y0, x1, y1 in parts.

    Five numbers are a class and a box by its centre; more are a polygon, whose box is taken.
    """
    with reading(path):
        lines = read_text(path).splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            label, *values = (float(word) for word in words)
            if not 0 <= label < MOST_CLASSES or label % 1 or len(values) < 4 or len(values) % 2:
                raise ValueError(line)
            if not all(map(math.isfinite, values)):
                raise ValueError(line)
        except ValueError:
            raise InputError(
                f"{path}, line {number} is not a label",
                facts={"line": line[:80]},
                fix="class x_centre y_centre width height, in parts of the image",
            ) from None
        found.append((len(words), label, *_box(values)))
    return np.array(found, np.float64).reshape(len(found), 6)


def _box(values: list[float]) -> tuple[float, float, float, float]:
    if len(values) == 4:
        x, y, wide, high = values
        return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2
    across, down = values[0::2], values[1::2]
    return min(across), min(down), max(across), max(down)


def label_file(path: Path, folder: Path | None, root: Path) -> Path:
    """Where the labels of an image are: in a folder that was named, in labels/, or beside it."""
    if folder is not None:
        below = path.relative_to(root) if root.is_dir() else Path(path.name)
        return (folder / below).with_suffix(".txt")
    parts = list(path.parts)
    if "images" in parts[:-1]:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
        file = Path(*parts).with_suffix(".txt")
        if file.is_file() or not path.with_suffix(".txt").is_file():
            return file
    return path.with_suffix(".txt")


@dataclass(frozen=True, kw_only=True)
class YoloData:
    """What a ``data.yaml`` names."""

    root: Path
    paths: list[Path]
    names: dict[int, str]


def read_yolo_data(path: Path, split: str) -> YoloData:
    """Read the images and the classes of one part of a data set."""
    with reading(path):
        told = yaml_from_text(read_text(path), where=str(path))
    if not isinstance(told, dict) or not told.get(split):
        parts = [k for k in ("train", "val", "test") if isinstance(told, dict) and told.get(k)]
        raise UsageError(
            f"{path} has no {split!r}",
            facts={"it has": ", ".join(parts) or "no images at all"},
            fix=f"--split {parts[0]}" if parts else None,
        )
    roots = [path.parent / str(told.get("path") or ""), path.parent]
    entries = told[split] if isinstance(told[split], list) else [told[split]]
    images = [image for entry in entries for image in _images(str(entry), roots, path)]
    return YoloData(root=path.parent, paths=images, names=_names(told.get("names") or {}, path))


def _images(entry: str, roots: list[Path], source: Path) -> list[Path]:
    """The images of a folder or of a list; ``../valid`` may be meant from the file itself."""
    for root in roots:
        for place in (root / entry, root / entry.removeprefix("../")):
            if place.is_dir():
                return find_images(place)
            if place.is_file() and place.suffix == ".txt":
                with reading(place):
                    lines = [line.strip() for line in read_text(place).splitlines()]
                return [place.parent / line for line in lines if line]
    raise InputError(
        f"{source} names images that are not there",
        facts={"images": entry, "looked in": ", ".join(map(str, dict.fromkeys(roots)))},
    )


def _names(names: object, path: Path) -> dict[int, str]:
    listed = dict(enumerate(names)) if isinstance(names, list) else names
    try:
        if not isinstance(listed, dict):
            raise TypeError(names)
        known = {int(number): str(name) for number, name in listed.items()}
    except (TypeError, ValueError):
        raise InputError(f"the names in {path} are no list and no table by number") from None
    if sorted(known) != list(range(len(known))):
        raise InputError(f"the classes named in {path} are not numbered from 0 on")
    return known
