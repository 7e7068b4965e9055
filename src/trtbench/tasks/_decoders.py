"""Which family of detectors outputs are of, told by names and shapes, and how each is read."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from trtbench import boundary
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UsageError, meant
from trtbench.tasks._candidates import Candidates, Detections, Suggested
from trtbench.tasks._heads import anchor_free, anchored, fits_anchor_free, fits_anchored
from trtbench.tasks._lists import finished_lists, finished_rows, read_lists, read_rows
from trtbench.tasks._queries import fits_detr, fits_ssd, read_detr, read_ssd
from trtbench.tasks._tables import (
    fits_table,
    grids,
    read_queries,
    read_yolov5,
    read_yolov8,
    read_yolox,
)
from trtbench.units import text_from_shape


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """One family of detectors."""

    name: str
    expects: str
    fits: Callable[[Detections], bool]
    read: Callable[[Detections], Suggested]


def choose_decoder(batch: Detections) -> int:
    """Find the place of the decoder that was asked for, or of the one that fits."""
    asked = batch.told("decoder")
    names = [each.name for each in DECODERS]
    if asked is not None and ":" in str(asked):
        return names.index(HOOK)
    if asked is not None:
        if asked not in names[:-1]:
            raise UsageError(
                f"there is no decoder {asked!r}",
                facts={"known": ", ".join(names[:-1]), "own": "FILE.py:FUNCTION"},
                fix=meant(str(asked), names),
            )
        place = names.index(str(asked))
        if not DECODERS[place].fits(batch):
            raise InputError(
                f"the outputs are not those of {asked}: {DECODERS[place].expects}",
                facts=batch.shapes(),
                fix="leave --decoder out, or write one: --decoder FILE.py:FUNCTION",
            )
        return place
    fitting = _fitting(batch)
    if len(fitting) != 1:
        raise InputError(
            "no decoder fits the outputs" if not fitting else "several decoders fit the outputs",
            facts={**batch.shapes(), **{
                f"tried {each.name}": each.expects for each in DECODERS[:-1]
            }},
            fix="--decoder NAME, or your own: --decoder FILE.py:FUNCTION (docs/eval.md)",
        )  # fmt: skip
    return fitting[0]


def _fitting(batch: Detections) -> list[int]:
    """Find the first decoder that fits; of raw heads of unknown classes, all that do."""
    found: list[int] = []
    for place, each in enumerate(DECODERS):
        if each.fits(batch):
            found.append(place)
            if place < _HEADS or batch.classes is not None:
                break
    return found


@dataclass(frozen=True, kw_only=True)
class DecodedImage:
    """What a decoder is told about one image."""

    width: int
    height: int
    input_width: int
    input_height: int


Decode = Callable[[dict[str, AnyArray], list[DecodedImage]], Sequence[AnyArray]]


def found_by_hook(batch: Detections) -> Suggested:
    """Ask the user's function for rows: x0, y0, x1, y1 in the input's pixels, score, class."""
    name = str(batch.settings["decoder"])
    high, wide = batch.target
    pictures = [
        DecodedImage(
            width=item.pixels.shape[1], height=item.pixels.shape[0], input_width=wide,
            input_height=high,
        )
        for item in batch.items
    ]  # fmt: skip
    try:
        told = [np.asarray(rows, np.float64).reshape(-1, 6) for rows in
                load_function(name)(dict(batch.arrays), pictures)]  # fmt: skip
    except (InputError, UsageError):
        raise
    except Exception as problem:  # a user's function may raise anything
        raise InputError(
            f"the decoder {name} failed on these outputs",
            facts={"reason": f"{type(problem).__name__}: {problem}", **{
                f"output {key}": text_from_shape(array.shape)
                for key, array in batch.arrays.items()
            }},
            fix="it returns an array [n, 6] per image: x0, y0, x1, y1, score, class",
        ) from None  # fmt: skip
    if len(told) != len(batch.items):
        raise InputError(
            f"the decoder {name} returned {len(told)} arrays for {len(batch.items)} images"
        )
    images = [Candidates(boxes=r[:, :4], scores=r[:, 4], labels=r[:, 5]) for r in told]
    return Suggested(images=images, fractions=False, suppressed=True)


@functools.lru_cache(maxsize=1)
def load_function(name: str) -> Decode:
    """Import what a name says; a file must be the user's own, as settings must."""
    place, _, function = name.rpartition(":")
    try:
        module = (
            _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
        found: Decode = getattr(module, function)
    except UsageError:
        raise
    except Exception as problem:  # whatever the file itself raises when it is run
        raise UsageError(
            f"--decoder {name} cannot be loaded",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
            fix="--decoder FILE.py:FUNCTION",
        ) from None
    return found


def _from_file(path: Path) -> ModuleType:
    try:
        reason = boundary.stranger(path)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if reason is not None:
        raise UsageError(
            f"{boundary.clean_line(str(path))} is not yours, and is not run",
            facts={"reason": reason, "it can": "do whatever you can"},
            fix="copy it to a folder of your own, after reading it",
        )
    spec = importlib.util.spec_from_file_location(f"trtbench_decoder_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = "own"

DECODERS = (
    Decoder(
        name="nms-lists",
        expects="boxes [batch, n, 4], scores [batch, n], classes [batch, n], and perhaps a count "
        "(EfficientNMS, BatchedNMS, RT-DETR with its own postprocessing), or boxes with scores "
        "[batch, n, 5] and classes (mmdeploy)",
        fits=lambda batch: finished_lists(batch) is not None,
        read=read_lists,
    ),
    Decoder(
        name="detr",
        expects="boxes [batch, queries, 4] and logits [batch, queries, classes]",
        fits=fits_detr,
        read=read_detr,
    ),
    Decoder(
        name="ssd",
        expects="boxes [batch, n, 4] and probabilities [batch, n, classes]",
        fits=fits_ssd,
        read=read_ssd,
    ),
    Decoder(
        name="end2end",
        expects="[batch, n, 6]: x0, y0, x1, y1, score, class in some order (YOLOv10, NMS in the "
        "graph), or [n, 7] with the number of the image before (YOLOv7, SSD)",
        fits=lambda batch: finished_rows(batch, grids(batch)) is not None,
        read=lambda batch: read_rows(batch, grids(batch)),
    ),
    Decoder(
        name="queries",
        expects="[batch, queries, 4 + classes], boxes as fractions (RT-DETR of Ultralytics)",
        fits=fits_table("queries"),
        read=read_queries,
    ),
    Decoder(
        name="yolov8",
        expects="[batch, 4 + classes, n], or transposed (YOLOv8, 9, 11, 12)",
        fits=fits_table("yolov8"),
        read=read_yolov8,
    ),
    Decoder(
        name="yolov5",
        expects="[batch, n, 5 + classes], with objectness (YOLOv5, 6, 7, decoded YOLOX)",
        fits=fits_table("yolov5"),
        read=read_yolov5,
    ),
    Decoder(
        name="yolox",
        expects="[batch, n, 5 + classes], boxes by the places of the grids (YOLOX as it exports)",
        fits=fits_table("yolox"),
        read=read_yolox,
    ),
    Decoder(
        name="yolov8-heads",
        expects="three grids [batch, 64 + classes, height, width], or sides and classes apart",
        fits=fits_anchor_free,
        read=anchor_free,
    ),
    Decoder(
        name="yolov5-heads",
        expects="three grids [batch, 3, height, width, 5 + classes], or [batch, 3 (5 + classes), "
        "height, width]",
        fits=fits_anchored,
        read=anchored,
    ),
    Decoder(name=HOOK, expects="a function", fits=lambda batch: False, read=found_by_hook),
)
_HEADS = [each.name for each in DECODERS].index("yolov8-heads")
