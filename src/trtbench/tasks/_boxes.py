"""Annotated images: COCO JSON files (boxes and key points) and YOLO label files."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from trtbench.analysis.coco import Letterbox, Objects, People, boxes_from_corners
from trtbench.analysis.summary import statistic_intervals
from trtbench.core.errors import InputError, UsageError, reading
from trtbench.core.run import Score
from trtbench.core.safety import MAX_BYTES, expand_home, read_text
from trtbench.core.samples import AnyArray, Arrays
from trtbench.host.files import yaml_from_text
from trtbench.host.images import find_images, image_size, scaled
from trtbench.tasks import _images
from trtbench.tasks.contract import Settings, Tensors

RESAMPLES = 200  # determines an interval to a few per cent
JsonTable = dict[str, Any]
T = TypeVar("T", Objects, People)
LIST_SUFFIX = ".txt"
MOST_CLASSES = 100_000


class CocoFile:
    """A COCO annotation file: its images and their annotations."""

    def __init__(self, path: Path) -> None:
        try:
            self.raw: JsonTable = json.loads(read_text(path, most=MAX_BYTES))
        except (OSError, ValueError, RecursionError) as problem:
            raise InputError(f"{path} is not a COCO file", facts={"reason": problem}) from None
        known = self.raw if isinstance(self.raw, dict) else {}
        missing = [k for k in ("images", "annotations", "categories") if k not in known]
        if missing:
            raise InputError(f"{path} is not a COCO file", facts={"missing": ", ".join(missing)})
        try:
            images = self.raw["images"]
            self.files = {str(x["file_name"]).replace("\\", "/"): x["id"] for x in images}
            self._ends: dict[str, set[object]] = {}
            for name, id in self.files.items():
                for end in _path_suffixes(name):
                    self._ends.setdefault(end, set()).add(id)
            self._by_image: dict[object, list[JsonTable]] = {}
            for each in self.raw["annotations"]:
                box, area = [float(side) for side in each["bbox"]], each.get("area")
                area = float(math.prod(box[2:]) if area is None else area)
                if len(box) != 4 or not all(map(math.isfinite, (*box, area))):
                    raise ValueError(f"the box {box} or its area is not finite")
                own = {**each, "bbox": box, "area": area}
                self._by_image.setdefault(each["image_id"], []).append(own)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(f"{path} is incomplete", facts={"reason": repr(problem)}) from None

    def image_id(self, path: Path) -> object:
        """Return the id of the annotated image whose file name matches most of the path's end."""
        ends = _path_suffixes(path.absolute().as_posix())
        found = next((self._ends[end] for end in ends if end in self._ends), {None})
        if len(found) > 1:
            raise InputError(
                f"{path} matches the annotations of {len(found)} images",
                facts={"for example": next(n for n, id in self.files.items() if id in found)},
                fix="--data FOLDER, the folder that the annotated file names are relative to",
            )
        return next(iter(found))

    def keep_annotated(self, root: Path, paths: list[Path]) -> tuple[list[Path], tuple[str, ...]]:
        """Return the annotated images, and notes on missing annotations and missing images.

        Images are sorted by id as in pycocotools, where the order breaks ties of equal scores.
        """
        names = _images.relative_names(root, paths)
        ids = [self.image_id(path) for path in paths]
        numbered = [(id, path) for path, id in zip(paths, ids, strict=True) if id is not None]
        if all(isinstance(id, int) for id, _ in numbered):
            numbered.sort(key=lambda pair: int(str(pair[0])))
        example = next(iter(self.files), "none")
        if not numbered:
            facts = {"images": names[0], "annotations": example}
            raise InputError("no image is annotated: the file names do not match", facts=facts)
        if len({id for id, _ in numbered}) < len(numbered):
            double = next(n for n, id in zip(names, ids, strict=True) if ids.count(id) > 1)
            message = "two images match the same annotation: its file names do not include folders"
            raise InputError(message, facts={"for example": double, "annotations": example})
        seen = set(ids)
        kinds = {
            "images without annotation": [n for n, i in zip(names, ids, strict=True) if i is None],
            "annotated images not found": [n for n, id in self.files.items() if id not in seen],
        }
        return [path for _, path in numbered], tuple(_images.missing_notes(kinds))


def _path_suffixes(path: str) -> list[str]:
    parts = Path(path).parts
    return ["/".join(parts[place:]) for place in range(len(parts))]


class CocoKeypoints(CocoFile):
    """A COCO key point file: the people in every image."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.category: JsonTable = next(iter(self.raw["categories"]), {"id": 1})
        listed = (each.get("keypoints") for each in self.raw["annotations"])
        self.points = next((len(points) // 3 for points in listed if points), 0)
        self.points = self.points or len(self.category.get("keypoints", ()))
        if not self.points:
            raise InputError(f"{path} has no key points")

    def people(self, image: object) -> People:
        own = self._by_image.get(image, [])
        points = np.array([each.get("keypoints") or [0] * 3 * self.points for each in own], float)
        points = points.reshape(len(own), self.points, 3)
        crowd = np.array([bool(each.get("iscrowd")) for each in own], bool)
        labelled = (points[..., 2] > 0).sum(axis=1)
        for place, each in enumerate(own):
            if each.get("num_keypoints") is not None:
                labelled[place] = each["num_keypoints"]
        return People(
            keypoints=points,
            boxes=np.array([each["bbox"] for each in own], float).reshape(len(own), 4),
            areas=np.array([each["area"] for each in own], float),
            scores=np.ones(len(own)),
            ignored=crowd | (labelled == 0),
            crowd=crowd,
        )


class CocoBoxes(CocoFile):
    """A COCO instances file: sorted category ids, and the category names by index."""

    named = True  # whether the file names all categories, not only those that occur

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            categories = self.raw["categories"]
            used = {int(each["category_id"]) for each in self.raw["annotations"]}
            # A category that only groups all others, as in Roboflow's files, is left out.
            groups = {each.get("supercategory") for each in categories} - {"none", None}
            known = {
                int(each["id"]): str(each.get("name"))
                for each in categories
                if int(each["id"]) in used
                or (each.get("supercategory"), {each.get("name")}) != ("none", groups)
            }
            self.ids: tuple[int, ...] = tuple(sorted(known))
            self.names: Mapping[int, str] = {place: known[id] for place, id in enumerate(self.ids)}
            self._places = {id: place for place, id in enumerate(self.ids)}
            if not used <= known.keys():
                raise KeyError(min(used - known.keys()))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            reason = {"reason": repr(problem)}
            raise InputError(f"the categories of {path} are invalid", facts=reason) from None

    def boxes(self, path: Path) -> Objects:
        """Return the objects of one image, with classes as indices of the sorted categories."""
        own = self._by_image.get(self.image_id(path), [])
        return Objects(
            boxes=np.array([each["bbox"] for each in own], np.float64).reshape(len(own), 4),
            classes=np.array([self._places[int(each["category_id"])] for each in own], np.int64),
            scores=np.ones(len(own)),
            areas=np.array([each["area"] for each in own], np.float64),
            crowd=np.array([bool(each.get("iscrowd")) for each in own], bool),
        )


class YoloBoxes:
    """YOLO labels: a text file per image, a line per object, in fractions of the image size."""

    def __init__(
        self, paths: list[Path], names: Mapping[int, str], *, folder: Path | None, root: Path
    ) -> None:
        self.files = {path: label_file(path, folder, root) for path in paths}
        files = self.files.items()
        self._lines = {path: read_labels(file) for path, file in files if file.is_file()}
        highest = max((int(o[:, 0].max()) for o in self._lines.values() if len(o)), default=-1)
        if names and highest >= len(names):
            raise InputError(f"a label has class {highest}, but there are {len(names)} classes")
        self.named, self.found = bool(names), len(self._lines)
        self.names: Mapping[int, str] = dict(names) or {n: str(n) for n in range(highest + 1)}
        self.ids: tuple[int, ...] = tuple(range(len(self.names)))

    def boxes(self, path: Path) -> Objects:
        lines = self._lines.get(path, np.zeros((0, 5)))
        high, wide = image_size(path)
        return boxes_from_corners(lines[:, 1:] * np.array([wide, high, wide, high]), lines[:, 0])


Truth = CocoBoxes | YoloBoxes


def scores_with_intervals(
    values: Mapping[str, float],
    statistics: Callable[[AnyArray], Mapping[str, float]],
    *,
    images: int,
    resamples: int,
) -> tuple[Score, ...]:
    """Return the values that are defined, with intervals by resampling images."""
    found = statistic_intervals(statistics, examples=images, resamples=resamples)
    return tuple(
        Score(metric=name, value=value, interval=found.get(name), count=images)
        for name, value in values.items()
        if not math.isnan(value)
    )


def similarities(
    metric: str, models: Sequence[Sequence[T]], similar: Callable[[T, T], AnyArray]
) -> tuple[tuple[Score, ...], ...]:
    """Return how similar to the first model's objects the best matches of each other model are.

    ``models`` hold the objects of every image; ``similar`` compares those of one image with those
    of the first model: [own, first]. Objects of the first model with a low score do not count.
    """
    scores: list[tuple[Score, ...]] = [()]
    for own in models[1:]:
        values: list[float] = []
        for found, first in zip(own, models[0], strict=True):
            best = similar(found, first).max(axis=0, initial=0.0)
            values += best[first.scores >= _images.MIN_SHOWN_SCORE].tolist()
        mean = Score(metric=metric, value=float(np.mean(values or [0.0])), count=len(values))
        scores.append((mean,) if values else ())
    return tuple(scores)


def read_labels(path: Path) -> AnyArray:
    """Read a YOLO label file as [objects, 5]: class, x0, y0, x1, y1 in fractions of the image.

    A line with more than five numbers is a polygon, of which the bounding box is used.
    """
    with reading(path):
        lines = read_text(path).splitlines()
    found: list[tuple[float, ...]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            label, *values = (float(word) for word in line.split())
            paired = len(values) >= 4 and len(values) % 2 == 0 and all(map(math.isfinite, values))
            if not paired or not 0 <= label < MOST_CLASSES or label % 1:
                raise ValueError(line)
        except ValueError:
            message = f"{path}, line {number} is not a YOLO label"
            fix = "write: class x_centre y_centre width height, as fractions of the image"
            raise InputError(message, facts={"line": line[:80]}, fix=fix) from None
        across, down = values[0::2], values[1::2]
        x0, y0, x1, y1 = min(across), min(down), max(across), max(down)
        if len(values) == 4:
            x, y, wide, high = values
            x0, y0, x1, y1 = x - wide / 2, y - high / 2, x + wide / 2, y + high / 2
        found.append((label, x0, y0, x1, y1))
    return np.array(found, np.float64).reshape(len(found), 5)


def label_file(path: Path, folder: Path | None, root: Path) -> Path:
    """Return the label file of an image: in the given folder, in labels/, or next to it."""
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
    """The images of a data set, their common folder, and the class names of ``data.yaml``."""

    root: Path
    paths: list[Path]
    names: Mapping[int, str]
    lists: Sequence[Path] = ()  # files that list images


def read_yolo_data(path: Path, split: str) -> YoloData:
    """Read the images and class names of one split from ``data.yaml``."""
    with reading(path):
        data = yaml_from_text(read_text(path), where=str(path))
    if not isinstance(data, dict) or not data.get(split):
        parts = [k for k in ("train", "val", "test") if isinstance(data, dict) and data.get(k)]
        facts = {"splits": ", ".join(parts) or "none"}
        fix = f"--split {parts[0]}" if parts else None
        raise UsageError(f"{path} has no split {split!r}", facts=facts, fix=fix)
    roots = [path.parent / expand_home(str(data.get("path") or "")), path.parent]
    entries = data[split] if isinstance(data[split], list) else [data[split]]
    lists: list[Path] = []
    images: list[Path] = []
    with reading(path):  # a name may be too long for any file
        for entry in map(str, entries):
            # ``../valid`` may be relative to the file itself.
            places = [root / name for root in roots for name in (entry, entry.removeprefix("../"))]
            usable = (p for p in places if p.is_dir() or (p.is_file() and p.suffix == LIST_SUFFIX))
            place = next(usable, None)
            if place is None:
                facts = {"images": entry, "looked in": ", ".join(map(str, dict.fromkeys(roots)))}
                raise InputError(f"{path} lists images that do not exist", facts=facts)
            lists += [place] if place.is_file() else []
            images += find_images(place) if place.is_dir() else _read_list(place, roots)
        root = roots[0] if roots[0].is_dir() else path.parent
        images = _unique_paths(images)
    count = data.get("nc")
    counted = range(count) if isinstance(count, int) and 0 < count < MOST_CLASSES else ()
    names = data.get("names") or [str(number) for number in counted]
    listed = dict(enumerate(names)) if isinstance(names, list) else names
    try:
        if not isinstance(listed, dict):
            raise TypeError(names)
        known = {int(number): str(name) for number, name in listed.items()}
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"names in {path} must be a list, or a table by number") from None
    if sorted(known) != list(range(len(known))):
        raise InputError(f"the classes in {path} are not numbered from 0 without gaps")
    return YoloData(root=root, paths=images, names=known, lists=lists)


def _read_list(path: Path, roots: Sequence[Path] = ()) -> list[Path]:
    """Read a text file with an image per line, relative to the file or to one of the roots."""
    with reading(path):
        lines = [line.strip() for line in read_text(path).splitlines()]
        places = [[root / line for root in (path.parent, *roots)] for line in lines if line]
        found = _unique_paths(next((p for p in each if p.is_file()), each[0]) for each in places)
    if not found:
        raise InputError(f"{path} lists no images", fix="write one image path per line")
    return found


def _unique_paths(paths: Iterable[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(os.path.normpath(path.absolute()), path)
    return list(found.values())


SIZE = 640


def find_dataset(settings: Settings) -> YoloData:
    """Find the images of a folder, an image list, or a split of a YOLO data set."""
    path = Path(str(settings["data"]))
    if path.is_dir() and not settings.get("annotations"):
        files = (path / name for name in ("data.yaml", "dataset.yaml"))
        path = next((file for file in files if file.is_file()), path)
    if not path.exists():
        raise InputError(f"no images or data set found at {path}")
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_yolo_data(path, str(settings.get("split") or "val"))
    if path.suffix.lower() == LIST_SUFFIX:
        return YoloData(root=path.parent, paths=_read_list(path), names={})
    return YoloData(root=path, paths=find_images(path) if path.is_dir() else [path], names={})


class DetectionImages(_images.ImageFiles):
    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        images = [tensor for tensor in tensors if len(tensor.shape) == 4] or tensors
        self._sizes = [t.name for t in tensors if len(t.shape) == 2 and t.shape[1] == 2]
        if len(self._sizes) + 1 != len(tensors):
            images = list(tensors)  # image_input raises an error for the other inputs
        self._fit, self._colour = str(settings["fit"]), str(settings["colour"])
        self.set_input(images, settings, default=SIZE, fit=self._fit, colour=self._colour)
        data = find_dataset(settings)
        self.paths = data.paths
        self.truth: Truth | None = None
        place = settings.get("annotations")
        folder = Path(str(place)) if place else None
        if settings.get("unlabelled"):
            pass
        elif folder is not None and folder.suffix.lower() == ".json":
            self.truth = CocoBoxes(folder)
            self.paths, notes = self.truth.keep_annotated(data.root, data.paths)
            self.notes = (*self.notes, *notes)
        elif folder is not None and not folder.is_dir():
            raise InputError(f"{folder} is neither a COCO JSON file nor a folder of YOLO labels")
        else:
            named = data.names or _images.stated_classes(settings)
            labels = YoloBoxes(data.paths, named, folder=folder, root=data.root)
            self.truth = labels if labels.found else None
            if not labels.found and (folder is not None or data.names):
                facts = {"looked for": next(iter(labels.files.values()), "none")}
                raise InputError("no image has a label file", facts=facts)
        ids = self.truth.ids if self.truth is not None and self.truth.named else ()
        self.classes = len(ids) or None
        self.has_truth = self.truth is not None
        self.names = _images.relative_names(data.root, self.paths)

    def prepare(self, loaded: _images.Loaded) -> Arrays:
        target = self._input.size
        high, wide = loaded.pixels.shape[:2]
        if self._fit == "stretch":
            pixels = scaled(loaded.pixels, target, how=self._how)
            scales = {"scale_x": target[1] / wide, "scale_y": target[0] / high}
            loaded.geometry = Letterbox(**scales, left=0, top=0)
        else:
            pixels, loaded.geometry = _images.letterboxed(
                loaded.pixels, target, how=self._how, centred=self._fit != "corner"
            )
        ordered = pixels[:, :, ::-1] if self._colour == "bgr" else pixels
        arrays = {self._input.name: _images.normalized(ordered, self._normalize, self._input)}
        # Networks that scale boxes to the image get the input's size as the image size, so that
        # all boxes are scaled back alike; PaddleDetection takes a scale, or height and width.
        for name in self._sizes:
            size = np.array(target if "shape" in name.lower() else target[::-1])
            arrays[name] = np.ones(2, np.float32) if "scale" in name.lower() else size
        return arrays
