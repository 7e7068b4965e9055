"""Detection: boxes of objects, from the outputs of many families of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtbench.analysis.average_precision import AT_75, RECALLS
from trtbench.analysis.detection_scores import (
    SIZES,
    BoxMatches,
    BoxTally,
    ClassScores,
    Objects,
    match_boxes,
    mean_curve,
    overlaps,
    precisions,
)
from trtbench.analysis.resample import statistic_intervals
from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Scalar, Score
from trtbench.errors import UsageError, near_miss
from trtbench.tasks._box_truth import Truth
from trtbench.tasks._candidates import ORDERS, Detections, order_of, padded_rows, rows_from_found
from trtbench.tasks._decoders import DECODERS, choose_decoder
from trtbench.tasks._detected_boxes import UNTOLD, said_by
from trtbench.tasks._detection_images import (
    SIZE,
    STRIDE,
    DetectionImage,
    DetectionImages,
    folders_beside,
)
from trtbench.tasks._detection_pictures import SHOWN, draw_objects, draw_precision
from trtbench.tasks._images import normalize_flag
from trtbench.tasks._numbering import NUMBERINGS
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
         + ", ".join(each.name for each in DECODERS[:-1])
         + ", or your own: FILE.py:FUNCTION."),
    Flag(name="conf", kind="number", default=0.001, help="Least score of an object."),
    Flag(name="iou", kind="number",
         help="Overlap above which doubles are dropped (default: as the family has it)."),
    Flag(name="nms", default="auto", choices=("auto", "class", "agnostic", "off"),
         help="Dropping of doubles: within a class, among all, or not."),
    Flag(name="max-det", kind="whole", default=300, help="Objects per image at most."),
    Flag(name="class-map", default="auto", choices=("auto", *NUMBERINGS),
         help="What the network's number of a class is: a place among the categories, from 0 or "
         "from 1, an id of theirs, or one of COCO's 91 where the data has its 80."),
    Flag(name="read-output", help="Names of the outputs to read, with commas, where others could "
         "be taken for them."),
    Flag(name="box-format", default="auto", choices=("auto", "xyxy", "yxyx", "cxcywh", "xywh"),
         help="Order of coordinates (default: as the family has it)."),
    Flag(name="box-scale", default="auto", choices=("auto", "pixels", "fraction"),
         help="Whether coordinates are pixels of the input or parts of it."),
    Flag(name="activation", default="auto", choices=("auto", "sigmoid", "softmax", "none"),
         help="What makes scores of a DETR's or an SSD's outputs."),
    Flag(name="background", default="auto", choices=("auto", "first", "last", "none"),
         help="Where the class of nothing is."),
    Flag(name="anchors", help="Of raw YOLOv5 heads: width,height of three boxes per head."),
    Flag(name="fit", default="letterbox", choices=("letterbox", "rect", "corner", "stretch"),
         preprocessing=True, help="Into the input: scaled and framed in grey, framed to the next "
         "stride only, scaled into a corner, or stretched."),
    Flag(name="stride", kind="whole", preprocessing=True,
         help=f"What sides are multiples of with --fit rect (default {STRIDE})."),
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
    """Tell where images and labels are that a data.yaml or a folder only points to, and hooks."""
    hook, _, _ = str(settings.get("decoder")).rpartition(":")
    files = [Path(hook)] if hook.endswith(".py") else []
    return [*files, *folders_beside(settings)]


def decode(outputs: Arrays, loaded: Sequence[DetectionImage], settings: Settings) -> Arrays:
    """Make boxes of the outputs, in the coordinates of their images."""
    first = loaded[0]
    assert first.target is not None
    batch = Detections(
        arrays={name: np.asarray(array) for name, array in _read(outputs, settings).items()},
        items=loaded, target=first.target, classes=first.classes, highest=first.highest,
        settings=settings,
    )  # fmt: skip
    place = choose_decoder(batch)
    found = DECODERS[place].read(batch)
    # Where nothing was found nothing tells the order, and it does not matter.
    told = any(np.size(image.boxes) for image in found.images)
    rows = padded_rows(rows_from_found(found, batch), int(number(settings, "max_det")))
    return {
        "boxes": rows,
        "decoder": np.full(len(rows), place, np.int8),
        "classes": np.full(len(rows), found.classes or 0, np.int32),
        "order": np.full(
            len(rows), ORDERS.index(order_of(found, batch)) if told else UNTOLD, np.int8
        ),
    }


def _read(outputs: Arrays, settings: Settings) -> Arrays:
    """Leave the outputs that were asked for."""
    asked = settings.get("read_output")
    if asked is None:
        return outputs
    names = [name.strip() for name in str(asked).split(",")]
    for name in names:
        if name not in outputs:
            guess = near_miss(name, outputs)
            raise UsageError(
                f"there is no output {name!r}",
                facts={"outputs": ", ".join(outputs)},
                fix=f"--read-output {guess}" if guess else None,
            )
    return {name: outputs[name] for name in names}


@dataclass(frozen=True, kw_only=True)
class _Tally:
    matches: list[BoxMatches]
    boxes: BoxTally
    classes: list[ClassScores]
    summary: Mapping[str, float]


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute COCO's average precisions, likeness to the first model, and draw boxes."""
    assert isinstance(source, DetectionImages)
    count, truth = len(source.names), source.truth
    truths = None if truth is None else [source.objects(index) for index in range(count)]
    said = [said_by(model, truth, truths or [], settings) for model in models]
    alike = [(), *(_likeness(said[0].objects, each.objects) for each in said[1:])]
    read = "; ".join(f"{m.label}: {s.words}" for m, s in zip(models, said, strict=True))
    if truth is None or truths is None:
        pictures = draw_objects(source, models, [each.objects for each in said], folder=folder)
        return Judgement(
            scores=tuple(alike), method=f"no annotations: models are compared only; {read}",
            pictures=pictures, notes=source.notes,
        )  # fmt: skip
    tallies = [_tally(each.objects, truths) for each in said]
    resamples = int(np.clip(RESAMPLED / max(1, max(t.boxes.detections for t in tallies)),
                            RESAMPLES // 4, RESAMPLES)) * (not source.scores_only)  # fmt: skip
    scores = [_scores(tally, count, resamples) for tally in tallies]
    return Judgement(
        scores=tuple((*own, *other) for own, other in zip(scores, alike, strict=True)),
        method="COCO's average precision of boxes, IoU 0.50 to 0.95, 100 boxes per image and "
        f"class, conf {number(settings, 'conf'):g}; intervals by {resamples} resamples; {read}",
        tables=(
            _size_table(models, tallies, truths),
            _class_table(models, tallies, truth),
            _image_table(source, models, tallies),
            _curve_table(models, tallies),
        ),
        pictures=(
            *draw_precision(
                source, [(m.label, t.classes) for m, t in zip(models, tallies, strict=True)], folder
            ),
            *draw_objects(
                source, models, [each.objects for each in said], truths=truths,
                right=[[_right(m) for m in tally.matches] for tally in tallies],
                names=truth.names, folder=folder,
            ),
        ),
        notes=(
            *source.notes, *source.moved(), *(n for each in said for n in each.notes),
            *_notes(settings, truths),
        ),
    )  # fmt: skip


def _tally(found: Sequence[Objects], truths: Sequence[Objects]) -> _Tally:
    matches = [match_boxes(own, truth) for own, truth in zip(found, truths, strict=True)]
    boxes = BoxTally(matches)
    return _Tally(matches=matches, boxes=boxes, classes=boxes.by_class(), summary=boxes.summary())


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


def _shown(match: BoxMatches) -> tuple[int, int, int]:
    """Count objects of one image that were found, missed, and made up, of the likely ones."""
    likely = match.scores >= SHOWN
    counted = likely & ~match.ignored[0, 0]
    right = int((match.hits[0, 0] & counted).sum())
    return right, int(match.counted[0].sum()) - right, int((~match.hits[0, 0] & counted).sum())


def _right(match: BoxMatches) -> float:
    """Share of what is there or was said that is right; NaN where there is neither."""
    right, missed, wrong = _shown(match)
    total = right + missed + wrong
    return right / total if total else float("nan")


def _size_table(
    models: Sequence[Predicted], tallies: Sequence[_Tally], truths: Sequence[Objects]
) -> TaskTable:
    areas = np.concatenate([each.areas[~each.crowd] for each in truths])
    rows: list[tuple[Scalar, ...]] = []
    for size, (low, high) in SIZES.items():
        count = int(((areas >= low) & (areas <= high)).sum())
        names = (f"mAP_{size}", f"AR_{size}") if size else ("mAP", "AR100")
        rows += [
            (size or "all", model.label, count, *map(tally.summary.get, names))
            for model, tally in zip(models, tallies, strict=True)
        ]
    heads = ("size", "model", "objects", "mAP", "AR")
    title = "By size: small is up to 32², large from 96² pixels on"
    return TaskTable(id="sizes", title=title, headings=heads, rows=tuple(rows))


def _class_table(models: Sequence[Predicted], tallies: Sequence[_Tally], truth: Truth) -> TaskTable:
    """List average precision by class, the worst class of the first model first."""
    columns = [{each.number: each for each in tally.classes} for tally in tallies]
    order = sorted(columns[0], key=lambda number: float(columns[0][number].precision.mean()))
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (truth.names[place], model.label, int(own[place].truths), *_class_values(own[place]))
        for place in order
        for model, own in zip(models, columns, strict=True)
    )
    heads = ("class", "model", "objects", "mAP", "mAP50", "AR")
    return TaskTable(id="classes", title="By class, the worst first", headings=heads, rows=rows)


def _class_values(each: ClassScores) -> tuple[float, float, float]:
    recall = float(np.mean(each.recall[max(each.recall)]))
    return float(each.precision.mean()), float(each.precision[0].mean()), recall


def _image_table(
    source: DataSource, models: Sequence[Predicted], tallies: Sequence[_Tally]
) -> TaskTable:
    """List every image, the worst first."""
    listed: list[tuple[float, tuple[Scalar, ...]]] = [
        (_right(match), (name, model.label, int(match.counted[0].sum()), *_shown(match)))
        for model, tally in zip(models, tallies, strict=True)
        for name, match in zip(source.names, tally.matches, strict=True)
    ]
    listed.sort(key=lambda pair: (np.isnan(pair[0]), pair[0]))
    heads = ("image", "model", "objects", "right", "missed", "made up")
    return TaskTable(
        id="images", title=f"Every image at IoU 0.5 and score {SHOWN:g}, the worst first",
        headings=heads, rows=tuple(row for _, row in listed),
    )  # fmt: skip


def _curve_table(models: Sequence[Predicted], tallies: Sequence[_Tally]) -> TaskTable:
    curves = [mean_curve(t.classes, level=level) for t in tallies for level in (0, AT_75)]
    rows = tuple(
        (float(recall), *(float(curve[place]) for curve in curves))
        for place, recall in enumerate(RECALLS)
    )
    heads = [f"{m.label} at IoU {level}" for m in models for level in ("0.5", "0.75")]
    return TaskTable(
        id="precision_recall", title="Precision by recall, mean over classes",
        headings=("recall", *heads), rows=rows, in_json_only=True,
    )  # fmt: skip


def _notes(settings: Settings, truths: Sequence[Objects]) -> list[str]:
    notes = []
    if number(settings, "conf") > HIGH_CONF:
        notes.append(
            f"--conf {number(settings, 'conf'):g} cuts the curve short: published mAP is taken "
            "with 0.001"
        )
    if not any((~each.crowd).any() for each in truths):
        notes.append("nothing is annotated in these images: there is no average precision")
    return notes
