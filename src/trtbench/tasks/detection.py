"""Detection: boxes of objects, from the outputs of many families of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtbench.analysis.coco import (
    SIZES,
    BoxMatches,
    BoxTally,
    ClassScores,
    Objects,
    match_boxes,
    overlaps,
    precisions,
)
from trtbench.analysis.summary import statistic_intervals
from trtbench.core.errors import refuse_unknown
from trtbench.core.run import Scalar, Score
from trtbench.core.samples import Arrays
from trtbench.tasks._boxes import SIZE, DetectionImage, DetectionImages, folders_beside
from trtbench.tasks._decoders import (
    CLASS_MAPS,
    NAMES,
    NO_ORDER,
    ORDERS,
    DetectorOutputs,
    box_order,
    boxes_of_model,
    decode_outputs,
    rows_in_images,
)
from trtbench.tasks._images import SHOWN, normalize_flag
from trtbench.tasks.contract import (
    DataSource,
    Flag,
    Judgement,
    Predicted,
    Settings,
    TaskTable,
    Tensors,
    number,
)

FLAGS = (
    Flag(name="annotations", help="COCO's instances (JSON), or a folder of YOLO's labels "
         "(default: labels/ beside images/, or beside each image)."),
    Flag(name="split", choices=("train", "val", "test"), preprocessing=True, to_calibrate="train",
         help="Which images of a data.yaml (default: val; to calibrate with, train)."),
    Flag(name="decoder", default="auto", help="Family of the outputs: auto, "
         + ", ".join(NAMES[:-1])
         + ", or your own: FILE.py:FUNCTION."),
    Flag(name="conf", kind="number", default=0.001, help="Least score of an object."),
    Flag(name="iou", kind="number",
         help="Overlap above which doubles are dropped (default: as the family has it)."),
    Flag(name="nms", default="auto", choices=("auto", "class", "agnostic", "off"),
         help="Dropping of doubles: within a class, among all, or not."),
    Flag(name="max-det", kind="whole", default=300, help="Objects per image at most."),
    Flag(name="class-map", default="auto", choices=("auto", *CLASS_MAPS),
         help="What the network's number of a class is: a place among the categories, from 0 or "
         "from 1, an id of theirs, or one of COCO's 91 where the data has its 80."),
    Flag(name="read-output", help="Names of the outputs to read, with commas, where others could "
         "be taken for them."),
    Flag(name="box-format", default="auto", choices=("auto", *ORDERS),
         help="Order of coordinates (default: as the family has it)."),
    Flag(name="fit", default="letterbox", choices=("letterbox", "corner", "stretch"),
         preprocessing=True, help="Into the input: scaled and framed in grey, scaled into a "
         "corner, or stretched."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Size of the input, where the network leaves it open (default {SIZE})."),
    Flag(name="colour", default="rgb", choices=("rgb", "bgr"), preprocessing=True,
         help="Order of the colours."),
    normalize_flag("none"),
)  # fmt: skip

RESAMPLES = 200
RESAMPLED = 2e7
"""Detections times resamples at most: about a minute; never fewer resamples than a fourth."""
HIGH_CONF = 0.05
"""A least score above this cuts off the end of the curve that precision is averaged over."""


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open images with COCO's or YOLO's annotations."""
    return DetectionImages(settings, tensors)


def read_beside(settings: Settings) -> Sequence[Path]:
    """List the files and folders that a data.yaml or a folder points to, and the user's decoder."""
    hook, _, _ = str(settings.get("decoder")).rpartition(":")
    files = [Path(hook)] if hook.endswith(".py") else []
    return [*files, *folders_beside(settings)]


def decode(outputs: Arrays, loaded: Sequence[DetectionImage], settings: Settings) -> Arrays:
    """Make boxes of the outputs, in the coordinates of their images."""
    asked = settings.get("read_output")
    names = list(outputs) if asked is None else [n.strip() for n in str(asked).split(",")]
    for name in names:
        said = f"there is no output {name!r}"
        refuse_unknown(name, outputs, said, listed="outputs", flag="--read-output")
    arrays = {name: np.asarray(outputs[name]) for name in names}
    batch = DetectorOutputs(arrays=arrays, items=loaded, settings=settings)
    decoder, found = decode_outputs(batch)
    order = box_order(found, batch)
    rows = rows_in_images(found, order, batch)
    # Where nothing was found the order is unknown, and does not matter.
    some = any(np.size(boxes) for boxes in found.boxes)
    return {
        "boxes": rows,
        "decoder": np.full(len(rows), NAMES.index(decoder), np.int8),
        "classes": np.full(len(rows), found.classes or 0, np.int32),
        "order": np.full(len(rows), ORDERS.index(order) if some else NO_ORDER, np.int8),
    }


@dataclass(frozen=True, kw_only=True)
class _Tally:
    label: str
    matches: list[BoxMatches]
    boxes: BoxTally
    classes: list[ClassScores]
    summary: Mapping[str, float]


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute COCO's average precisions, and likeness to the first model."""
    assert isinstance(source, DetectionImages)
    count, truth = len(source.names), source.truth
    truths = None if truth is None else [source.objects(index) for index in range(count)]
    found = [boxes_of_model(model, truth, truths or [], settings) for model in models]
    objects = [each.objects for each in found]
    alike = [(), *(_likeness(objects[0], own) for own in objects[1:])]
    read = "; ".join(f"{m.label}: {each.words}" for m, each in zip(models, found, strict=True))
    if truth is None or truths is None:
        return Judgement(
            scores=tuple(alike), method=f"no annotations: models are compared only; {read}",
            notes=source.notes,
        )  # fmt: skip
    tallies = []
    for model, own in zip(models, objects, strict=True):
        matches = [match_boxes(each, true) for each, true in zip(own, truths, strict=True)]
        boxes = BoxTally(matches)
        tallies.append(
            _Tally(label=model.label, matches=matches, boxes=boxes, classes=boxes.by_class(),
                   summary=boxes.summary())
        )  # fmt: skip
    resamples = int(np.clip(RESAMPLED / max(1, max(t.boxes.detections for t in tallies)),
                            RESAMPLES // 4, RESAMPLES)) * (not source.scores_only)  # fmt: skip
    conf = number(settings, "conf")
    notes = [*source.notes, *(note for each in found for note in each.notes)]
    if conf > HIGH_CONF:
        notes.append(f"--conf {conf:g} cuts the curve short: published mAP is taken with 0.001")
    if not any((~each.crowd).any() for each in truths):
        notes.append("nothing is annotated in these images: there is no average precision")
    return Judgement(
        scores=tuple(
            (*_scores(tally, count, resamples), *other)
            for tally, other in zip(tallies, alike, strict=True)
        ),
        method="COCO's average precision of boxes, IoU 0.50 to 0.95, 100 boxes per image and "
        f"class, conf {conf:g}; intervals by {resamples} resamples; {read}",
        tables=(_class_table(tallies, truth.names), _image_table(source, tallies)),
        notes=tuple(notes),
    )  # fmt: skip


def _scores(tally: _Tally, count: int, resamples: int) -> tuple[Score, ...]:
    intervals = statistic_intervals(
        lambda weights: precisions(tally.boxes.by_class(weights=weights, at=())),
        examples=count,
        resamples=resamples,
    )
    wanted = ("mAP", "mAP50", "mAP75", *(f"mAP_{size}" for size in SIZES if size), "AR100")
    return tuple(
        Score(
            metric="AR" if name == "AR100" else name,
            value=tally.summary[name],
            interval=intervals.get(name),
            count=count,
        )
        for name in wanted
        if name in tally.summary
    )


def _likeness(first: Sequence[Objects], own: Sequence[Objects]) -> tuple[Score, ...]:
    """Mean overlap of the first model's boxes with the most similar ones of this model."""
    values: list[float] = []
    for reference, found in zip(first, own, strict=True):
        similar = overlaps(found, reference)
        similar[found.classes[:, None] != reference.classes[None]] = 0.0
        similar[found.scores < SHOWN] = 0.0
        values += list(similar.max(axis=0, initial=0.0)[reference.scores >= SHOWN])
    if not values:
        return ()
    return (Score(metric="iou_to_first", value=float(np.mean(values)), count=len(values)),)


def _counts(match: BoxMatches) -> tuple[int, int, int]:
    """Count objects of one image that were found, missed, and made up, of the likely ones."""
    counted = (match.scores >= SHOWN) & ~match.ignored[0, 0]
    right = int((match.hits[0, 0] & counted).sum())
    return right, int(match.counted[0].sum()) - right, int((~match.hits[0, 0] & counted).sum())


def _right(match: BoxMatches) -> float:
    """Share of objects, annotated or detected, that are right; NaN where there are none."""
    counts = _counts(match)
    return counts[0] / sum(counts) if any(counts) else float("nan")


def _class_table(tallies: Sequence[_Tally], names: Mapping[int, str]) -> TaskTable:
    by_class = zip(*(tally.classes for tally in tallies), strict=True)
    order = sorted(by_class, key=lambda classes: float(classes[0].precision.mean()))
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (names[own.number], tally.label, int(own.truths), float(own.precision.mean()),
         float(own.precision[0].mean()), float(np.mean(own.recall[max(own.recall)])))
        for classes in order
        for tally, own in zip(tallies, classes, strict=True)
    )  # fmt: skip
    heads = ("class", "model", "objects", "mAP", "mAP50", "AR")
    return TaskTable(id="classes", title="By class, the worst first", headings=heads, rows=rows)


def _image_table(source: DataSource, tallies: Sequence[_Tally]) -> TaskTable:
    listed: list[tuple[float, tuple[Scalar, ...]]] = [
        (_right(match), (name, tally.label, int(match.counted[0].sum()), *_counts(match)))
        for tally in tallies
        for name, match in zip(source.names, tally.matches, strict=True)
    ]
    listed.sort(key=lambda pair: (np.isnan(pair[0]), pair[0]))
    heads = ("image", "model", "objects", "right", "missed", "made up")
    return TaskTable(
        id="images", title=f"Every image at IoU 0.5 and score {SHOWN:g}, the worst first",
        headings=heads, rows=tuple(row for _, row in listed),
    )  # fmt: skip
