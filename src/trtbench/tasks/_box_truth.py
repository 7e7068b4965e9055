"""Objects that people drew: COCO's instances, or YOLO's labels beside the images."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from trtbench.analysis.detection_scores import Objects, boxes_from_corners
from trtbench.boundary import at_home, read_text
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UsageError, reading
from trtbench.host.images import find_images, image_size
from trtbench.host.yaml_files import yaml_from_text
from trtbench.tasks._coco import CocoFile

YAML = (".yaml", ".yml")
LIST = ".txt"
BOX, POLYGON, UPRIGHT, TILTED = range(4)
"""What a line of labels tells: centre and size, corners, or four of them, upright or tilted."""
ROUNDED = 1e-4
"""Parts of an image by which corners of an upright box may be off."""
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
        """Find the objects of one image, their classes by place among the categories."""


class CocoBoxes(CocoFile):
    """COCO's instances."""

    named = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            known = self._categories()
            self.ids: tuple[int, ...] = tuple(sorted(known))
            self.names: Mapping[int, str] = {place: known[id] for place, id in enumerate(self.ids)}
            self._places = {id: place for place, id in enumerate(self.ids)}
            for each in self.raw["annotations"]:
                self._places[int(each["category_id"])]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(
                f"{path} names no or other categories", facts={"reason": repr(problem)}
            ) from None

    def _categories(self) -> dict[int, str]:
        """List names of categories by their ids; one that only groups all others, as in Roboflow's
        files, is none."""
        categories = self.raw["categories"]
        groups = {each.get("supercategory") for each in categories} - {"none", None}
        used = {int(each["category_id"]) for each in self.raw["annotations"]}
        kept = [
            each
            for each in categories
            if int(each["id"]) in used
            or (each.get("supercategory"), {each.get("name")}) != ("none", groups)
        ]
        return {int(each["id"]): str(each.get("name")) for each in kept}

    def of_other_sizes(self, paths: Sequence[Path], names: Sequence[str]) -> list[str]:
        """List images that were scaled or turned since they were annotated: boxes lie elsewhere."""
        told = {
            each["id"]: (each["height"], each["width"])
            for each in self.raw["images"]
            if each.get("height") and each.get("width")
        }
        return [
            name
            for path, name in zip(paths, names, strict=True)
            if (size := told.get(self.id_of(path))) is not None and image_size(path) != size
        ]

    def boxes(self, path: Path, name: str) -> Objects:
        own = self._by_image.get(self.id_of(path), [])
        sides = np.array([each["bbox"] for each in own], np.float64).reshape(len(own), 4)
        return Objects(
            boxes=sides,
            classes=np.array([self._places[int(each["category_id"])] for each in own], np.int64),
            scores=np.ones(len(own)),
            areas=np.array([each["area"] for each in own], np.float64),
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
        kinds = {int(kind) for lines in told for kind in lines[:, 0]}
        if TILTED in kinds and kinds <= {UPRIGHT, TILTED}:
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
    """[objects, 6]: what kind a line is of, the class, and x0, y0, x1, y1 in parts.

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
        found.append((_kind(values), label, *_box(values)))
    return np.array(found, np.float64).reshape(len(found), 6)


def _kind(values: list[float]) -> int:
    if len(values) != 8:
        return BOX if len(values) == 4 else POLYGON
    x0, y0, x1, y1 = _box(values)
    nearest = (
        min(abs(x - x0), abs(x - x1)) + min(abs(y - y0), abs(y - y1))
        for x, y in zip(values[0::2], values[1::2], strict=True)
    )
    return UPRIGHT if max(nearest) < ROUNDED else TILTED


def _box(values: list[float]) -> tuple[float, float, float, float]:
    if len(values) == 4:
        x, y, wide, high = values
        return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2
    across, down = values[0::2], values[1::2]
    return min(across), min(down), max(across), max(down)


def label_file(path: Path, folder: Path | None, root: Path) -> Path:
    """Find the labels of an image: in a folder that was named, in labels/, or beside it."""
    if folder is not None:
        inside = root.is_dir() and path.is_relative_to(root)
        below = (folder / (path.relative_to(root) if inside else "")).with_suffix(".txt")
        flat = (folder / path.name).with_suffix(".txt")
        return below if inside and (below.is_file() or not flat.is_file()) else flat
    parts = list(path.parts)
    if "images" in parts[:-1]:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
        file = Path(*parts).with_suffix(".txt")
        if file.is_file() or not path.with_suffix(".txt").is_file():
            return file
    return path.with_suffix(".txt")


@dataclass(frozen=True, kw_only=True)
class YoloData:
    """Images, what they lie below, and names of classes, as a ``data.yaml`` tells them."""

    root: Path
    paths: list[Path]
    names: Mapping[int, str]
    lists: Sequence[Path] = ()
    """Files that list images."""


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
    named = at_home(str(told.get("path") or ""))
    roots = [path.parent / named, path.parent]
    entries = told[split] if isinstance(told[split], list) else [told[split]]
    lists: list[Path] = []
    with reading(path):  # a name may be too long for any file
        found = (image for entry in entries for image in _images(str(entry), roots, path, lists))
        images, root = _once(found), roots[0] if roots[0].is_dir() else path.parent
    names = told.get("names") or [str(number) for number in range(_count(told.get("nc")))]
    return YoloData(root=root, paths=images, names=_names(names, path), lists=lists)


def _count(classes: object) -> int:
    """Tell how many classes there are, where they have no names."""
    return classes if isinstance(classes, int) and 0 < classes < MOST_CLASSES else 0


def _images(entry: str, roots: list[Path], source: Path, lists: list[Path]) -> list[Path]:
    """Find the images of a folder or of a list; ``../valid`` may be meant from the file itself."""
    for root in roots:
        for place in (root / entry, root / entry.removeprefix("../")):
            if place.is_dir():
                return find_images(place)
            if place.is_file() and place.suffix == LIST:
                lists.append(place)
                return read_list(place, roots)
    raise InputError(
        f"{source} names images that are not there",
        facts={"images": entry, "looked in": ", ".join(map(str, dict.fromkeys(roots)))},
    )


def read_list(path: Path, roots: Sequence[Path] = ()) -> list[Path]:
    """Read a text file with an image per line."""
    with reading(path):
        lines = [line.strip() for line in read_text(path).splitlines()]
        found = _once(_listed(line, [path.parent, *roots]) for line in lines if line)
    if not found:
        raise InputError(f"{path} lists no images", fix="one image per line")
    return found


def _once(paths: Iterable[Path]) -> list[Path]:
    """Count an image once that is listed twice, or in a folder within another."""
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(os.path.normpath(path.absolute()), path)
    return list(found.values())


def _listed(line: str, roots: list[Path]) -> Path:
    """Find an image of a list, meant from the list itself, else from where the data is."""
    places = [root / line for root in roots]
    return next((place for place in places if place.is_file()), places[0])


def _names(names: object, path: Path) -> dict[int, str]:
    listed = dict(enumerate(names)) if isinstance(names, list) else names
    try:
        if not isinstance(listed, dict):
            raise TypeError(names)
        known = {int(number): str(name) for number, name in listed.items()}
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the names in {path} are no list and no table by number") from None
    if sorted(known) != list(range(len(known))):
        raise InputError(f"the classes named in {path} are not numbered from 0 on")
    return known
