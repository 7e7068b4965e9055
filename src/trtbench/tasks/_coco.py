"""Annotations as COCO writes them: images, and the people in them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtbench.analysis.pose import COCO_SKELETON, People
from trtbench.boundary import read_text
from trtbench.boundary.files import MOST_BYTES
from trtbench.errors import InputError
from trtbench.tasks._images import names_below, noted

JsonTable = dict[str, Any]
"""What JSON holds in braces, whatever somebody has put there."""
MOST_DIGITS = 12
"""Of a number written in digits of 5 bits."""


class CocoFile:
    """Images and what is annotated in them."""

    def __init__(self, path: Path) -> None:
        try:
            self.raw: JsonTable = json.loads(read_text(path, most=MOST_BYTES))
        except (OSError, ValueError, RecursionError) as problem:
            raise InputError(f"{path} is not COCO's JSON", facts={"reason": problem}) from None
        known = self.raw if isinstance(self.raw, dict) else {}
        missing = [k for k in ("images", "annotations", "categories") if k not in known]
        if missing:
            raise InputError(f"{path} is not COCO's JSON", facts={"missing": ", ".join(missing)})
        try:
            self.files = {_written(each["file_name"]): each["id"] for each in self.raw["images"]}
            self._ends: dict[str, set[object]] = {}
            for name, id in self.files.items():
                for end in _ends(name):
                    self._ends.setdefault(end, set()).add(id)
            self._by_image: dict[object, list[JsonTable]] = {}
            for each in self.raw["annotations"]:
                self._by_image.setdefault(each["image_id"], []).append(_boxed(each))
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(f"{path} lacks something", facts={"reason": repr(problem)}) from None

    def id_of(self, path: Path) -> object:
        """Find the number of an image: of the one that shares most of its way, from its end on."""
        ways = _ends(path.absolute().as_posix())
        found = next((self._ends[way] for way in ways if way in self._ends), {None})
        if len(found) > 1:
            raise InputError(
                f"annotations of {len(found)} images could be those of {path}",
                facts={"for example": next(n for n, id in self.files.items() if id in found)},
                fix="--data, the folder above that file names begin in",
            )
        return next(iter(found))

    def annotated(self, root: Path, paths: list[Path]) -> tuple[list[Path], tuple[str, ...]]:
        """Keep annotated images; notes say which are not, and which annotations have no image.

        They come by their numbers, as COCO's own evaluation takes them: that is what decides
        between detections of equal scores.
        """
        names = names_below(root, paths)
        ids = [self.id_of(path) for path in paths]
        numbered = [(id, path) for path, id in zip(paths, ids, strict=True) if id is not None]
        if all(isinstance(id, int) for id, _ in numbered):
            numbered.sort(key=lambda pair: int(str(pair[0])))
        known = [path for _, path in numbered]
        rest = [name for name, id in zip(names, ids, strict=True) if id is None]
        seen = set(ids)
        lacking = [name for name, id in self.files.items() if id not in seen]
        told = next(iter(self.files), "none")
        if not known:
            raise InputError(
                "no image is annotated: names do not match",
                facts={"images": names[0], "annotations": told},
            )
        own = [id for id in ids if id is not None]
        if len(set(own)) < len(own):
            double = next(n for n, id in zip(names, ids, strict=True) if ids.count(id) > 1)
            raise InputError(
                "two images belong to one annotation: their folders are not in its file names",
                facts={"for example": double, "annotations": told},
            )
        kinds = {"images without annotation": rest, "annotated images not found": lacking}
        return known, tuple(noted(what, missing) for what, missing in kinds.items() if missing)


def _written(name: object) -> str:
    """Write a file's name as it is here, whatever system annotated it."""
    return str(name).replace("\\", "/")


def _ends(way: str) -> list[str]:
    """List the whole way, without its first part, without its first two, to the last alone."""
    parts = Path(way).parts
    return ["/".join(parts[place:]) for place in range(len(parts))]


def _boxed(annotation: JsonTable) -> JsonTable:
    """Take the box around an outline, and its area, where none are told; refuse what is none."""
    box = [float(side) for side in annotation.get("bbox") or _box_of(annotation)]
    told = annotation.get("area")
    area = float(math.prod(box[2:]) if told is None else told)
    if len(box) != 4 or not all(map(math.isfinite, (*box, area))):
        raise ValueError(f"the box {box} and its area are no numbers")
    return {**annotation, "bbox": box, "area": area}


def _box_of(annotation: JsonTable) -> list[float]:
    """Find the box around polygons or a mask, where they are all that is annotated."""
    outline = annotation.get("segmentation")
    if isinstance(outline, dict):
        return box_of_runs(outline["counts"], high=int(outline["size"][0]))
    if not isinstance(outline, list) or not any(outline):
        raise ValueError(f"annotation {annotation.get('id')} has no bbox, no polygons and no mask")
    across = [float(x) for polygon in outline for x in polygon[0::2]]
    down = [float(y) for polygon in outline for y in polygon[1::2]]
    return [min(across), min(down), max(across) - min(across), max(down) - min(down)]


def box_of_runs(counts: str | Sequence[int], *, high: int) -> list[float]:
    """Find the box around a mask: runs of pixels, out and in by turns, down column after column.

    In whole pixels, and zeros where it is empty.
    """
    runs = runs_from_text(counts) if isinstance(counts, str) else [int(each) for each in counts]
    ends = np.cumsum(runs, dtype=np.int64)
    first, last = ends[0:-1:2], ends[1::2] - 1
    some = last >= first
    if high < 1 or min(runs, default=0) < 0 or not some.any():
        return [0.0] * 4
    (left, top), (right, low) = (np.divmod(each[some], high) for each in (first, last))
    top, low = np.where(right > left, 0, top), np.where(right > left, high - 1, low)
    x, y = int(left.min()), int(top.min())
    return [float(x), float(y), float(right.max() - x + 1), float(low.max() - y + 1)]


def runs_from_text(text: str) -> list[int]:
    """Read numbers of 5 bits a character, from the fourth on the difference to the last but one."""
    found: list[int] = []
    value = digits = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or digits >= MOST_DIGITS:
            raise ValueError(f"{text[:20]!r} is no mask")
        value |= (code & 31) << 5 * digits
        digits += 1
        if not code & 32:
            value -= (code >> 4 & 1) << 5 * digits
            found.append(value + (found[-2] if len(found) > 2 else 0))
            value = digits = 0
    return found


class Annotations(CocoFile):
    """The people of every image."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        categories: list[JsonTable] = self.raw["categories"]
        self.category: JsonTable = categories[0] if categories else {"id": 1}
        self.points = self._points(path)

    def _points(self, path: Path) -> int:
        for each in self.raw["annotations"]:
            if each.get("keypoints"):
                return len(each["keypoints"]) // 3
        named = self.category.get("keypoints", ())
        if not named:
            raise InputError(f"{path} has no key points")
        return len(named)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        told = self.category.get("skeleton")
        if told:
            return tuple((int(a) - 1, int(b) - 1) for a, b in told)
        return COCO_SKELETON if self.points == 17 else ()

    def people(self, image: object) -> People:
        """Find those of one image."""
        own = self._by_image.get(image, [])
        shape = (len(own), self.points, 3)
        points = np.array([each.get("keypoints") or [0] * 3 * self.points for each in own], float)
        points = points.reshape(shape)
        crowd = np.array([bool(each.get("iscrowd")) for each in own], bool)
        counted = [each.get("num_keypoints") for each in own]
        labelled = np.array(
            [
                count if count is not None else int((each[:, 2] > 0).sum())
                for count, each in zip(counted, points, strict=True)
            ],
            int,
        )
        boxes = np.array([each["bbox"] for each in own], float).reshape(len(own), 4)
        return People(
            keypoints=points,
            boxes=boxes,
            areas=np.array([each["area"] for each in own], float),
            scores=np.ones(len(own)),
            ignored=crowd | (labelled == 0),
            crowd=crowd,
        )
