"""Pose estimation: people and their key points, decoded from YOLOv8-pose outputs."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trtbench.analysis import coco
from trtbench.analysis.pass_times import TableValue
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import LoadedItem
from trtbench.core.samples import AnyArray, Arrays
from trtbench.core.units import text_from_shape
from trtbench.tasks import _boxes, _images
from trtbench.tasks.contract import DataSource, Flag, Judgement, Predicted, Settings, Tensors

COCO_VALUES = (56, 57)  # values per person with 17 key points, before and after NMS
SIZE = 640
FLAGS = (
    Flag(name="annotations", help="COCO key point annotations (JSON)."),
    Flag(name="conf", kind="number", default=0.001, help="Minimum score of a person."),
    Flag(name="iou", kind="number", default=0.7, help="IoU threshold of NMS."),
    Flag(name="max-people", kind="whole", default=300, help="Maximum people per image."),
    Flag(name="sigmas", help="OKS sigmas, comma separated (default: COCO's for 17 key points)."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Input size, if it is dynamic in the network (default {SIZE})."),
    _images.interpolation_flag(_images.CV2),
    _images.normalize_flag("none"),
)  # fmt: skip


class PoseImages(_images.ImageFiles):
    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        path = self.find_files(settings)
        self.set_input(tensors, settings, default=SIZE, fit="letterbox")
        file = settings.get("annotations")
        self.annotations = _boxes.CocoKeypoints(Path(str(file))) if file else None
        self.has_truth = self.annotations is not None
        if self.annotations is not None:
            self.paths, notes = self.annotations.keep_annotated(path, self.paths)
            self.notes = (*self.notes, *notes)
            self.names = _images.relative_names(path, self.paths)

    def prepare(self, loaded: _images.Loaded) -> Arrays:
        moved, loaded.geometry = _images.letterboxed(loaded.pixels, self._input.size, how=self._how)
        return {self._input.name: _images.normalized(moved, self._normalize, self._input)}


open_source = PoseImages


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Decode score, box and key points of people, in the coordinates of their images.

    All images have the same number of rows; rows without a person have score -1.
    """
    found: AnyArray | None = None  # [batch, predictions, values]
    for array in map(np.asarray, outputs.values()):
        if array.ndim != 3 or found is not None:
            continue
        across, along = array.shape[1], array.shape[2]
        raw = across > 5 and (across - 5) % 3 == 0 and (across in COCO_VALUES or across < along)
        if along in COCO_VALUES or (not raw and along > 6 and (along - 5) % 3 in (0, 1)):
            found = np.asarray(array, np.float64)
        elif raw:
            found = np.asarray(array.transpose(0, 2, 1), np.float64)
    if found is None:
        raise InputError(
            "no output matches YOLOv8-pose: [batch, 5 + 3 * points, predictions]",
            facts={name: text_from_shape(each.shape) for name, each in outputs.items()},
        )
    conf, iou = (float(settings[key] or 0) for key in ("conf", "iou"))
    most, width = int(settings["max_people"] or 0), found.shape[2]
    suppressed = (width - 6) % 3 == 0  # corners, score, class: the network has applied NMS
    values = width - (6 if suppressed else 5)
    padded = np.full((len(found), most, 5 + values), -1.0, np.float32)
    item: _images.Loaded
    for place, (rows, item) in enumerate(zip(found, loaded, strict=True)):
        rows = rows[rows[:, 4] >= conf]
        rows = rows[np.isfinite(rows).all(axis=1)]
        boxes = rows[:, :4] if suppressed else coco.corners_from_centres(rows)
        order = (
            np.argsort(-rows[:, 4], kind="stable")[:most]
            if suppressed
            else coco.suppress(boxes, rows[:, 4], iou=iou, most=most)
        )
        rows, boxes = rows[order], boxes[order]
        # The number of points is given: numpy cannot infer it where there is no person.
        points = rows[:, -values:].reshape(len(rows), values // 3, 3).copy()
        points[..., 0], points[..., 1] = item.undo(points[..., 0], points[..., 1])
        x, y = item.undo(boxes[:, 0::2], boxes[:, 1::2])
        box = np.stack([x[:, 0], y[:, 0], x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]], axis=1)
        parts = [rows[:, 4:5], box, points.reshape(len(rows), values)]
        padded[place, : len(rows)] = np.concatenate(parts, axis=1)
    return {"people": padded}


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute COCO's OKS average precision, and the similarity to the first model."""
    assert isinstance(source, PoseImages)
    annotations = source.annotations
    everyone: list[list[coco.People]] = []
    for model in models:
        everyone.append([])
        for index in range(len(source.names)):
            row = model.chunks.rows(index, index + 1)["people"][0]
            own = row[row[:, 0] >= 0].astype(np.float64)
            boxes, no = own[:, 1:5], np.zeros(len(own), bool)
            everyone[-1].append(coco.People(
                keypoints=own[:, 5:].reshape(len(own), (own.shape[1] - 5) // 3, 3),
                boxes=boxes, areas=boxes[:, 2] * boxes[:, 3], scores=own[:, 0], ignored=no,
                crowd=no,
            ))  # fmt: skip
    points = {} if annotations is None else {"annotations": annotations.points}
    for model, people in zip(models, everyone, strict=True):
        points[model.label] = people[0].keypoints.shape[1]
    if len(set(points.values())) > 1:
        what = "networks" if annotations is None else "the network and the annotations"
        raise InputError(f"{what} do not have the same key points", facts=points)
    count, sigmas = next(iter(points.values())), coco.COCO_SIGMAS
    if count != len(sigmas):  # equal ones, as in the evaluation of YOLO
        sigmas = (1.0 / count,) * count
    if annotations is not None and (given := settings.get("sigmas")):
        try:
            sigmas = tuple(float(part) for part in str(given).split(","))
        except ValueError:
            sigmas = ()
        if len(sigmas) != annotations.points or min(sigmas) <= 0:
            raise UsageError(
                f"--sigmas needs {annotations.points} positive numbers, one for each key point",
                facts={"given": given},
                fix="--sigmas 0.1,0.1,...",
            )
    alike = _boxes.similarities("oks_to_first", everyone, functools.partial(_similar, sigmas))
    if annotations is None:
        return Judgement(
            scores=alike, method="no annotations: only models are compared",
            notes=source.notes,
        )  # fmt: skip
    truths = [annotations.people(annotations.image_id(path)) for path in source.paths]
    matches = [
        [coco.match_people(own, true, sigmas) for own, true in zip(people, truths, strict=True)]
        for people in everyone
    ]
    rows = tuple(
        (name, model.label, int(own.counted.sum()), len(found.scores),
         int((own.hits[0, 0] & ~own.ignored[0, 0]).sum()))
        for model, people, every in zip(models, everyone, matches, strict=True)
        for name, found, own in zip(source.names, people, every, strict=True)
    )  # fmt: skip
    heads = ("image", "model", "people", "found", "correct at OKS 0.5")
    nobody = "no people are annotated in these images: average precision is undefined"
    shown = ", ".join(f"{sigma:g}" for sigma in sigmas)
    scores = []
    resamples = 0 if source.scores_only else _boxes.RESAMPLES
    for every, other in zip(matches, alike, strict=True):
        score, count = functools.partial(coco.average_precision, every), len(every)
        own = _boxes.scores_with_intervals(score(), score, images=count, resamples=resamples)
        scores.append((*own, *other))
    return Judgement(
        scores=tuple(scores),
        method="COCO's OKS average precision, 20 people per image; intervals by "
        f"{_boxes.RESAMPLES} resamples; sigmas {shown}",
        tables=(TableValue(id="images", title="By image", headings=heads, rows=rows),),
        notes=(*source.notes, *([] if any((~p.ignored).any() for p in truths) else [nobody])),
    )


def _similar(sigmas: Sequence[float], found: coco.People, reference: coco.People) -> AnyArray:
    points = reference.keypoints.copy()
    points[..., 2] = 1.0
    return coco.oks_matrix(found, replace(reference, keypoints=points), sigmas)
