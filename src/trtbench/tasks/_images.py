"""Converts image files to network inputs, and draws pictures of results."""

from __future__ import annotations

import ast
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.coco import Letterbox, letterbox_of
from trtbench.core.errors import InputError, UsageError, near_miss, writing
from trtbench.core.run import Scalar
from trtbench.core.samples import AnyArray
from trtbench.core.units import text_from_shape
from trtbench.host.files import write_output
from trtbench.host.images import GREY, IMAGENET, Pixels, find_images, read_image, scaled
from trtbench.tasks.contract import DataSource, Flag, Settings, Tensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INTEGER_TYPES = ("uint8", "int16", "uint16", "int32", "int64")  # take pixels from 0 to 255
SINGULAR = {"images": "image", "classes": "class", "have": "has", "truths": "truth"}
CV2 = "cv2-bilinear"  # as YOLO's own preprocessing
NORMALIZE = (
    "imagenet, none (0 to 1), pixels (0 to 255), or MEAN/STD such as 0.5/0.5 or 104,117,123/1,1,1"
)


@dataclass
class Loaded:
    index: int
    pixels: Pixels  # [height, width, channels]
    target: tuple[int, int]  # height and width of the input
    classes: int | None = None  # number of classes of its data set, if known
    geometry: Letterbox | None = None  # its position in the input; set by ``prepare``

    def undo(self, x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return points of the input as points of the image, clipped to it as in Ultralytics."""
        assert self.geometry is not None
        x, y = self.geometry.undo(x, y)
        return np.clip(x, 0, self.pixels.shape[1]), np.clip(y, 0, self.pixels.shape[0])


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    name: str
    channels: int
    size: tuple[int, int]  # height and width
    channels_last: bool
    is_bytes: bool  # takes pixels from 0 to 255 as integers


class ImageFiles(DataSource):
    """A data source with one image file per item."""

    paths: list[Path]
    classes: int | None = None  # number of classes of the data set, if known
    _input: ImageInput
    _normalize: str
    _how: str

    def set_input(
        self, tensors: Tensors, settings: Settings, *, default: int, fit: str, **own: Scalar
    ) -> None:
        """Set the input and how images are preprocessed; integer inputs are not normalized."""
        self._how = str(settings["interpolation"] or ("bilinear" if fit == "stretch" else CV2))
        key = "crop" if fit == "crop" else "size"
        usual = settings.get("usual_size") or default
        takes = self._input = image_input(tensors, asked=settings[key], default=usual)
        normalize, done = str(settings["normalize"]), "pixels"
        self._normalize = normalize
        if not takes.is_bytes:  # the same text for equal normalizations
            own_parts = _normalization(normalize, channels=takes.channels)
            parts = (part[:1] if np.ptp(part) == 0 else part for part in own_parts)
            done = "/".join(",".join(f"{value:g}" for value in part.tolist()) for part in parts)
            for name in ("imagenet", "pixels", "none"):
                known = _normalization(name, channels=takes.channels)
                if all(np.allclose(a, b, rtol=1e-6) for a, b in zip(own_parts, known, strict=True)):
                    done = name
        ignored = takes.is_bytes and normalize not in ("none", "pixels")
        self.notes = (f"--normalize {normalize} is ignored for an integer input",) * ignored
        size = "x".join(map(str, takes.size))
        own = {"fit": fit, key: size, "interpolation": self._how, "colour": "rgb", **own}
        self.preparation = {**own, "normalize": done}

    def find_files(self, settings: Settings) -> Path:
        """Find the images of the folder, or the single image, in ``settings["data"]``."""
        path = Path(str(settings["data"]))
        if not path.exists():
            raise InputError(f"no image or folder found at {path}")
        self.paths = find_images(path) if path.is_dir() else [path]
        self.names = relative_names(path, self.paths)
        return path

    def load(self, index: int) -> Loaded:
        pixels = read_image(self.paths[index], channels=self._input.channels)
        return Loaded(index=index, pixels=pixels, target=self._input.size, classes=self.classes)

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        return read_image(self.paths[index], channels=3)

    def part(self, places: Sequence[int]) -> DataSource:
        chosen = super().part(places)
        assert isinstance(chosen, ImageFiles)
        chosen.paths = [self.paths[place] for place in places]
        return chosen


def image_input(tensors: Tensors, *, asked: Scalar, default: Scalar) -> ImageInput:
    """Return the image input of a network; the requested size applies if its own is dynamic."""
    alone = len(tensors) == 1 and len(tensors[0].shape) == 4
    shape = tensors[0].shape if alone else (None,) * 4
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    _, a, b, c = shape
    channels, *sides = (c, a, b) if last else (a, b, c)
    kind = tensors[0].dtype if alone else ""
    if channels not in (1, 3) or not (kind in INTEGER_TYPES or "float" in kind):
        raise UsageError(
            "images need a model with a single input [batch, channels, height, width], "
            "with 1 or 3 channels of integers or floats",
            facts={each.name: f"{each.dtype} {text_from_shape(each.shape)}" for each in tensors},
            fix="use an .npz with an array for every input",
        )
    usual = [int(side) for side in str(asked or default).split("x")]
    high, wide = (side if isinstance(side, int) and side > 0 else None for side in sides)
    size = high or usual[0], wide or usual[-1]
    if asked and size != (usual[0], usual[-1]):
        raise UsageError(
            f"the model takes images of {size[0]}x{size[1]}", fix="omit the image size"
        )
    return ImageInput(
        name=tensors[0].name,
        channels=int(channels),
        size=size,
        channels_last=last,
        is_bytes=kind in INTEGER_TYPES,
    )


def stated_classes(settings: Settings) -> dict[int, str]:
    """Return the classes that the model states, such as ``{0: 'person'}``; empty if unusable."""
    try:
        found = ast.literal_eval(str(settings.get("names") or "{}"))
        named = {int(number): str(name) for number, name in dict(found).items()}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}
    return named if sorted(named) == list(range(len(named))) else {}


def relative_names(root: Path, paths: Sequence[Path]) -> tuple[str, ...]:
    """Return unique names of images: their paths relative to the folder."""
    if not root.is_dir():
        return tuple(path.name for path in paths)
    names = []
    for path in paths:
        pairs = ((path, root), (path.resolve(), root.resolve()))
        below = (own.relative_to(above) for own, above in pairs if own.is_relative_to(above))
        names.append(next(below, path).as_posix())
    return tuple(names)


def find_item(names: Sequence[str], wanted: Scalar) -> int:
    """Return the index of the item to show, the first by default.

    It is given by name, with or without folder and file extension, or by number.
    """
    if wanted is None:
        return 0
    text = Path(str(wanted)).as_posix()
    forms = [
        (name, Path(name).name, Path(name).stem, name.rpartition("[")[2].removesuffix("]"))
        for name in names
    ]
    for own in zip(*forms, strict=True):
        for word in (text, Path(text).name):
            if own.count(word) == 1:
                return own.index(word)
    guess = near_miss(text, names)
    facts = {"items": ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")}
    fix = f"--show {guess}" if guess else None
    raise UsageError(f"--show {text} does not match exactly one item", facts=facts, fix=fix)


def item_to_show(names: Sequence[str], settings: Settings) -> tuple[int, tuple[str, ...]]:
    """Return the index of the item to show, and a note if the requested one was not run."""
    wanted = settings.get("show")
    try:
        return find_item(names, wanted), ()
    except UsageError:
        return 0, (f"{wanted} was not run; {names[0]} is shown instead",)


def missing_notes(kinds: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield notes such as ``3 images without ground truth: a.png, b.png, c.png``."""
    for what, names in kinds.items():
        if len(names) == 1:
            what = re.sub(r"\w+", lambda word: SINGULAR.get(word[0], word[0]), what)
        if names:
            yield f"{len(names)} {what}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"


def letterboxed(
    pixels: Pixels, target: tuple[int, int], *, how: str, centred: bool = True
) -> tuple[Pixels, Letterbox]:
    """Scale an image to fit the target, keep its aspect ratio, and pad it with grey."""
    size = (pixels.shape[0], pixels.shape[1])
    geometry, inner = letterbox_of(size, target, centred=centred)
    canvas = np.full((*target, pixels.shape[2]), GREY, np.uint8)
    part = scaled(pixels, inner, how=how)
    canvas[geometry.top : geometry.top + inner[0], geometry.left : geometry.left + inner[1]] = part
    return canvas, geometry


def normalized(pixels: Pixels, how: str, takes: ImageInput) -> AnyArray:
    """Return pixels [height, width, channels] as input values; integer inputs are unchanged."""
    values: AnyArray = pixels
    if not takes.is_bytes:
        mean, deviation = _normalization(how, channels=pixels.shape[2])
        fractions = pixels.astype(np.float32) / np.float32(255)
        values = ((fractions - mean) / deviation).astype(np.float32)
    return np.ascontiguousarray(values if takes.channels_last else values.transpose(2, 0, 1))


def _normalization(text: str, *, channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Parse --normalize into mean and standard deviation, for pixels scaled to 0 to 1."""
    if text in ("none", "pixels"):
        return np.zeros(1, np.float32), np.array([1 / 255 if text == "pixels" else 1], np.float32)
    if text == "imagenet":
        known = [np.array(part, np.float64) for part in IMAGENET]
        if channels == 1:  # for grey images, the mean of the three colours
            known = [part.mean(keepdims=True) for part in known]
        return known[0].astype(np.float32), known[1].astype(np.float32)
    try:
        parts = [np.array([float(v) for v in p.split(",")], np.float32) for p in text.split("/")]
        mean, deviation = parts
    except ValueError:
        raise UsageError(f"--normalize {text} is not valid", fix=f"use {NORMALIZE}") from None
    if any(len(part) not in (1, channels) for part in parts) or not deviation.all():
        raise UsageError(f"--normalize {text} does not match images with {channels} channels")
    if max(float(np.abs(part).max()) for part in parts) > 2:  # given for pixels from 0 to 255
        return mean / np.float32(255), deviation / np.float32(255)
    return mean, deviation


def normalize_flag(default: str) -> Flag:
    return Flag(
        name="normalize", default=default, help=f"Normalization of pixels: {NORMALIZE}.",
        preprocessing=True,
    )  # fmt: skip


def interpolation_flag(default: str | None, about: str = "") -> Flag:
    return Flag(
        name="interpolation", default=default, preprocessing=True,
        choices=("bilinear", "bicubic", CV2, "cv2-bicubic"),
        help=f"How images are scaled: cv2-* as OpenCV does, without antialiasing{about}.",
    )  # fmt: skip


COLUMN_IN = 3.2
TITLE_LINE_IN = 0.2  # height of one title line
DPI = 110
MIN_SHOWN_SCORE = 0.25  # least score of boxes and people that are counted


def can_draw(source: DataSource) -> bool:
    """Return whether pictures of results are asked for and can be drawn here."""
    return not source.scores_only and util.find_spec("matplotlib") is not None


def make_grid(
    rows: int, columns: int, *, title: str, shape: tuple[int, int] = (1, 1), lines: int = 0
) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of axes for pictures of this shape, titles of ``lines`` lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    row_in = COLUMN_IN * min(max(shape[0] / shape[1], 0.25), 3.0) + TITLE_LINE_IN * (1 + lines)
    figure = Figure(figsize=(COLUMN_IN * columns, row_in * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.set_axis_off()
    figure.suptitle(title, fontsize=11)
    return figure, axes


def draw_image(
    axis: Axes, image: AnyArray | None, title: str, *, stretch_to: tuple[int, int] | None = None
) -> None:
    """Draw an image, or with ``stretch_to`` a depth map in false colours, stretched to a shape."""
    assert image is not None  # a source that can draw one item can draw all
    if stretch_to is not None:
        extent = (0, stretch_to[1], stretch_to[0], 0)
        axis.imshow(image, cmap="magma", extent=extent, interpolation="bilinear")
    else:
        squeezed = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
        axis.imshow(squeezed, cmap="gray", vmin=0, vmax=255)
    axis.set_title(title.replace("$", r"\$"), fontsize=8)


def save_figure(figure: Figure, path: Path) -> Path:
    with writing(path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(content := io.BytesIO(), dpi=DPI, metadata={"Software": "trtbench"})
    return write_output(path, content.getvalue())
