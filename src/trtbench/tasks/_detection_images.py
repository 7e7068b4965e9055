"""Images for detectors, prepared as they were trained with, and the boxes in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtbench.analysis.detection import Letterbox, letterbox_of
from trtbench.analysis.detection_scores import Objects
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.images import find_images, read_image, scaled
from trtbench.tasks._box_truth import (
    LIST,
    YAML,
    CocoBoxes,
    Truth,
    YoloBoxes,
    YoloData,
    label_file,
    read_list,
    read_yolo_data,
)
from trtbench.tasks._images import (
    SAMPLED,
    ImageFiles,
    Loaded,
    image_input,
    letterboxed,
    names_below,
    normalized,
    noted,
    sized_input,
)
from trtbench.tasks.contract import Settings, Tensors

SIZE = 640
STRIDE = 32
"""Of the coarsest grid of most detectors: sides of the input are multiples of it."""
FILES = ("data.yaml", "dataset.yaml")
"""What the description of a YOLO data set is called in its folder."""


@dataclass
class DetectionImage(Loaded):
    """One decoded image, and how many classes its data set has."""

    classes: int | None = None
    highest: int | None = None
    """One above the largest number of a category."""


def find_images_of(settings: Settings) -> YoloData:
    """Find the images of a folder, or of the part of a YOLO data set that is asked for."""
    path = Path(str(settings["data"]))
    if path.is_dir() and not settings.get("annotations"):
        path = next((path / name for name in FILES if (path / name).is_file()), path)
    if not path.exists():
        raise InputError(f"there are no images and no data set at {path}")
    if path.suffix.lower() in YAML:
        return read_yolo_data(path, str(settings.get("split") or "val"))
    if path.suffix.lower() == LIST:
        return YoloData(root=path.parent, paths=read_list(path), names={})
    paths = find_images(path) if path.is_dir() else [path]
    return YoloData(root=path, paths=paths, names={})


def folders_beside(settings: Settings) -> list[Path]:
    """Tell the folders that hold images and YOLO's labels, wherever they are, and lists of them."""
    place = find_images_of(settings)
    told = settings.get("annotations")
    labels = [] if told else [label_file(each, None, place.root) for each in place.paths]
    folders = {each.parent for each in (*place.paths, *labels) if each.parent.is_dir()}
    return sorted({*folders, *place.lists})


class DetectionImages(ImageFiles):
    """Images, and the objects annotated in them."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        images = [tensor for tensor in tensors if len(tensor.shape) == 4]
        takes = sized_input(images or tensors, asked=settings.get("size"), default=SIZE)
        self._sizes = [tensor for tensor in tensors if _takes_size(tensor)]
        if len(self._sizes) + 1 != len(tensors):
            image_input(tensors)  # refuses what else the network takes
        assert takes.size is not None
        self._fit = str(settings.get("fit") or "letterbox")
        self._stride = int(settings.get("stride") or STRIDE)
        fixed = image_input(images or tensors).size
        if self._fit == "rect" and fixed:
            raise UsageError(
                f"--fit rect is for networks that take any size, this one takes "
                f"{fixed[0]}x{fixed[1]}",
                fix="--fit letterbox",
            )
        self._colour = str(settings.get("colour") or "rgb")
        self.settle(
            takes, str(settings.get("normalize") or "none"), fit=self._fit,
            size="x".join(map(str, takes.size)), colour=self._colour,
            interpolation="bilinear" if self._fit == "stretch" else SAMPLED,
            **({"stride": self._stride} if self._fit == "rect" else {}),
        )  # fmt: skip
        self.truth = self._open(settings)

    def _open(self, settings: Settings) -> Truth | None:
        """Find the images, and what is annotated in them."""
        place, told = find_images_of(settings), settings.get("annotations")
        root, self.paths = place.root, place.paths
        self.names = names_below(root, self.paths)
        if settings.get("unlabelled"):
            return None
        if told and Path(str(told)).suffix.lower() == ".json":
            coco = CocoBoxes(Path(str(told)))
            self.paths, notes = coco.annotated(root, self.paths)
            self.notes = (*self.notes, *notes)
            self.names = names_below(root, self.paths)
            return coco
        folder = Path(str(told)) if told else None
        if folder is not None and not folder.is_dir():
            raise InputError(f"{folder} is neither COCO's JSON nor a folder of YOLO's labels")
        labels = YoloBoxes(self.paths, place.names, folder=folder, root=root)
        if not labels.found and (folder is not None or place.names):
            raise InputError(
                "no image has a file of labels",
                facts={"looked for": next(iter(labels.files.values()), "none")},
            )
        return labels if labels.found else None

    def load(self, index: int) -> Loaded:
        pixels = read_image(self.paths[index], channels=self._takes.channels)
        ids = self.truth.ids if self.truth is not None and self.truth.named else ()
        return DetectionImage(
            index=index, pixels=pixels, target=self._takes.size,
            classes=len(ids) or None, highest=ids[-1] + 1 if ids else None,
        )  # fmt: skip

    def prepare(self, loaded: Loaded) -> Arrays:
        target = self._takes.size
        assert target is not None
        if self._fit == "rect":
            _, inner = letterbox_of((loaded.pixels.shape[0], loaded.pixels.shape[1]), target)
            high, wide = (-(-side // self._stride) * self._stride for side in inner)
            target = loaded.target = (high, wide)
        if self._fit == "stretch":
            high, wide = loaded.pixels.shape[:2]
            pixels = scaled(loaded.pixels, target)
            loaded.geometry = Letterbox(
                scale_x=target[1] / wide, scale_y=target[0] / high, left=0, top=0
            )
        else:
            centred = self._fit != "corner"
            pixels, loaded.geometry = letterboxed(loaded.pixels, target, centred=centred)
        ordered = pixels[:, :, ::-1] if self._colour == "bgr" else pixels
        # Networks that scale boxes themselves are told the input's own size: the way back from
        # there to the image is the same for all.
        sizes = {each.name: _size_for(each.name, target) for each in self._sizes}
        return {self._takes.name: normalized(ordered, self._normalize, self._takes), **sizes}

    def moved(self) -> list[str]:
        """Say which images do not have the size that their annotations are of."""
        if not isinstance(self.truth, CocoBoxes):
            return []
        other = self.truth.of_other_sizes(self.paths, self.names)
        what = "images have another size, upright, than their annotations say"
        return [noted(what, other)] if other else []

    def objects(self, index: int) -> Objects:
        """Tell what is annotated in one image."""
        assert self.truth is not None
        return self.truth.boxes(self.paths[index], self.names[index])


def _takes_size(tensor: TensorSpec) -> bool:
    """Say whether an input wants the width and height of the images."""
    return len(tensor.shape) == 2 and tensor.shape[1] == 2


def _size_for(name: str, target: tuple[int, int]) -> AnyArray:
    """Tell what an input wants to know: PaddleDetection's the scale, or height and width."""
    if "scale" in name.lower():
        return np.ones(2, np.float32)
    return np.array(target if "shape" in name.lower() else target[::-1])
