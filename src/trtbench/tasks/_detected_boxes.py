"""What a model said about all images, from the rows that its batches were decoded to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtbench.analysis.detection_scores import Objects, boxes_from_corners
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError
from trtbench.tasks._box_truth import Truth
from trtbench.tasks._candidates import ORDERS
from trtbench.tasks._decoders import DECODERS
from trtbench.tasks._numbering import numbering_of
from trtbench.tasks.contract import Predicted, Settings

UNTOLD = -1
"""In place of an order of coordinates."""


@dataclass(frozen=True, kw_only=True)
class BoxesOfModel:
    """What one model said about all images."""

    objects: list[Objects]
    words: str
    """How its outputs and classes were read."""
    notes: tuple[str, ...] = ()


def said_by(
    model: Predicted, truth: Truth | None, truths: Sequence[Objects], settings: Settings
) -> BoxesOfModel:
    """Collect a model's boxes, their classes as places among the categories."""
    arrays = [arrays for _, arrays in model.chunks]
    decoders = {int(code) for each in arrays for code in np.unique(each["decoder"])}
    if len(decoders) > 1:
        names = ", ".join(DECODERS[code].name for code in sorted(decoders))
        raise InputError(
            f"the outputs of {model.label} look like those of several families",
            facts={"decoders": names},
            fix="--decoder NAME",
        )
    codes = {int(code) for each in arrays for code in np.unique(each["order"])} - {UNTOLD}
    orders = sorted(ORDERS[code] for code in codes)
    if len(orders) > 1:
        raise InputError(
            f"the boxes of {model.label} look like corners in some batches, in others not",
            facts={"orders": ", ".join(orders)},
            fix="--box-format cxcywh, or what the network has",
        )
    objects = [row[row[:, 4] >= 0] for each in arrays for row in each["boxes"]]
    classes = max(int(each["classes"].max()) for each in arrays) or None
    numbering, note = None, None
    if truth is not None and truth.named:
        asked = None if settings["class_map"] == "auto" else str(settings["class_map"])
        numbering, note = numbering_of(
            objects, truth, truths,
            classes=classes, asked=asked, label=model.label,
        )  # fmt: skip
    name = DECODERS[decoders.pop()].name
    own = settings["decoder"] if name == DECODERS[-1].name else name
    how = numbering.name if numbering else "number"
    words = f"decoded as {own}, boxes {orders[0] if orders else 'none'}, classes by {how}"
    places = numbering.places if numbering else None
    return BoxesOfModel(
        objects=[_boxes(row, places) for row in objects], words=words,
        notes=(note,) if note else (),
    )  # fmt: skip


def _boxes(rows: AnyArray, places: Mapping[int, int] | None) -> Objects:
    own = rows.astype(np.float64)
    if places is not None:
        mapped = np.array([places.get(int(label), -1) for label in own[:, 5]], np.int64)
        own, labels = own[mapped >= 0], mapped[mapped >= 0]
    else:
        labels = own[:, 5].astype(np.int64)
    return boxes_from_corners(own[:, :4], labels, own[:, 4])
