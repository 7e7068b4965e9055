"""Annotations as COCO writes them: images, and the people in them."""

from __future__ import annotations

import json
import math
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
            self.files = {str(each["file_name"]): each["id"] for each in self.raw["images"]}
            self._last = {Path(name).name: id for name, id in self.files.items()}
            self._by_image: dict[object, list[JsonTable]] = {}
            for each in self.raw["annotations"]:
                boxed = each if each.get("bbox") else {**each, "bbox": _box_of(each)}
                self._by_image.setdefault(each["image_id"], []).append(boxed)
                _refuse_no_box(boxed)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(f"{path} lacks something", facts={"reason": repr(problem)}) from None

    def id_of(self, name: str) -> object:
        """Find the number of an image: by its way below the folder, else by its last part."""
        found = self.files.get(name)
        return found if found is not None else self._last.get(Path(name).name)

    def annotated(self, root: Path, paths: list[Path]) -> tuple[list[Path], tuple[str, ...]]:
        """Keep annotated images; notes say which are not, and which annotations have no image.

        They come by their numbers, as COCO's own evaluation takes them: that is what decides
        between detections of equal scores.
        """
        names = names_below(root, paths)
        ids = [self.id_of(name) for name in names]
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


def _box_of(annotation: JsonTable) -> list[float]:
    """Find the box around polygons, where they are all that is annotated."""
    polygons = annotation.get("segmentation")
    if not isinstance(polygons, list) or not any(polygons):
        raise ValueError(f"annotation {annotation.get('id')} has no bbox and no polygons")
    across = [float(x) for polygon in polygons for x in polygon[0::2]]
    down = [float(y) for polygon in polygons for y in polygon[1::2]]
    return [min(across), min(down), max(across) - min(across), max(down) - min(down)]


def _refuse_no_box(annotation: JsonTable) -> None:
    """Refuse what has no box of four numbers, or an area that is none."""
    box = [float(side) for side in annotation["bbox"]]
    if len(box) != 4 or not all(map(math.isfinite, (*box, float(annotation.get("area", 0))))):
        raise ValueError(f"the box {annotation['bbox']} and its area are no numbers")


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
        areas = [each.get("area", each["bbox"][2] * each["bbox"][3]) for each in own]
        return People(
            keypoints=points,
            boxes=boxes,
            areas=np.array(areas, float),
            scores=np.ones(len(own)),
            ignored=crowd | (labelled == 0),
            crowd=crowd,
        )
