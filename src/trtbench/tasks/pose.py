"""Pose: people and their key points, from networks with the outputs of YOLOv8-pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.pose import (
    COCO_SIGMAS,
    COCO_SKELETON,
    Matches,
    People,
    average_precision,
    default_sigmas,
    match,
    oks_matrix,
    pck,
)
from trtbench.analysis.resample import statistic_interval, statistic_intervals
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.domain.result import Score
from trtbench.errors import InputError, UsageError
from trtbench.host.images import find_images
from trtbench.tasks._coco import Annotations
from trtbench.tasks._drawing import draw_skeleton, draw_worst
from trtbench.tasks._images import (
    SAMPLED,
    ImageFiles,
    Loaded,
    letterboxed,
    names_below,
    normalize_flag,
    normalized,
    sized_input,
)
from trtbench.tasks._yolo import people_from_outputs, people_from_row
from trtbench.tasks.contract import (
    DataSource,
    Flag,
    Judgement,
    Predicted,
    Settings,
    TaskPicture,
    TaskTable,
    Tensors,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 640
SHOWN = 0.25
"""Confidence from which people and points are drawn."""
RESAMPLES = 200
"""Average precision is dear to resample; 200 draws settle an interval to a few per cent of it."""
PARTS = (0.05, 0.1, 0.2)
NOBODY = "nobody is annotated in these images: there is no average precision"

FLAGS = (
    Flag(name="annotations", help="COCO key point annotations (JSON)."),
    Flag(name="conf", kind="number", default=0.001, help="Least score of a person."),
    Flag(name="iou", kind="number", default=0.7, help="Overlap above which doubles are dropped."),
    Flag(name="max-people", kind="whole", default=300, help="People per image at most."),
    Flag(name="sigmas", help="Of the key points, comma separated (default: COCO's for 17)."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Size of the input, where the network leaves it open (default {SIZE})."),
    normalize_flag("none"),
)  # fmt: skip


class PoseImages(ImageFiles):
    """Images, and the people annotated in them."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        path = Path(str(settings["data"]))
        if not path.exists():
            raise InputError(f"there is no image or folder at {path}")
        takes = sized_input(tensors, asked=settings.get("size"), default=SIZE)
        assert takes.size is not None
        self.settle(
            takes, str(settings.get("normalize") or "none"), fit="letterbox",
            size="x".join(map(str, takes.size)), interpolation=SAMPLED,
        )  # fmt: skip
        paths = find_images(path) if path.is_dir() else [path]
        told = settings.get("annotations")
        self.annotations = Annotations(Path(str(told))) if told else None
        if self.annotations is not None:
            paths, notes = self.annotations.annotated(path, paths)
            self.notes = (*self.notes, *notes)
        self.paths = paths
        self.names = names_below(path, self.paths)

    def prepare(self, loaded: Loaded) -> Arrays:
        assert self._takes.size is not None
        pixels, loaded.geometry = letterboxed(loaded.pixels, self._takes.size)
        return {self._takes.name: normalized(pixels, self._normalize, self._takes)}

    def image_id(self, index: int) -> object:
        assert self.annotations is not None
        return self.annotations.id_of(self.paths[index])


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open one image or a folder of them."""
    return PoseImages(settings, tensors)


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Make people of the outputs, in the coordinates of their images."""
    return people_from_outputs(outputs, loaded, settings)


@dataclass(frozen=True, kw_only=True)
class _Tally:
    people: list[People]
    matches: list[Matches]
    hits: dict[float, NDArray[np.int64]]
    """By part: [images, 2], points that are right and points there are."""


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute OKS mAP and PCK of every model, likeness to the first one, and skeletons drawn."""
    images = _images(source)
    count = len(source.names)
    everyone = [[people_from_row(m.chunks.rows(i, i + 1)["people"][0]) for i in range(count)]
                for m in models]  # fmt: skip
    _refuse_other_points(models, everyone, images.annotations)
    if images.annotations is None:
        likeness = [_likeness(everyone[0], own, None) for own in everyone]
        scores = tuple(() if n == 0 else likeness[n] for n in range(len(models)))
        pictures = _draw_people(images, models, everyone, folder=folder)
        return Judgement(
            scores=scores, method="no annotations: models are compared only",
            pictures=pictures, notes=source.notes,
        )  # fmt: skip
    sigmas = _sigmas(settings, images.annotations.points)
    truths = [images.annotations.people(images.image_id(i)) for i in range(count)]
    tallies = [_tally(own, truths, sigmas) for own in everyone]
    resamples = 0 if source.scores_only else RESAMPLES
    own = [_scores(tally, resamples) for tally in tallies]
    alike = [(), *(_likeness(everyone[0], other, sigmas) for other in everyone[1:])]
    scores = tuple((*mine, *other) for mine, other in zip(own, alike, strict=True))
    shown = ", ".join(f"{sigma:g}" for sigma in sigmas)
    return Judgement(
        scores=scores,
        method="COCO's OKS average precision, 20 people per image; PCK in parts "
        f"of the larger side of the box; intervals by {RESAMPLES} resamples; sigmas {shown}",
        tables=(_image_table(source, models, tallies),),
        pictures=_draw_people(
            images,
            models,
            everyone,
            truths=truths,
            right=[_right(t) for t in tallies],
            edges=images.annotations.edges,
            folder=folder,
        ),
        notes=(
            *source.notes,
            *([] if any((~people.ignored).any() for people in truths) else [NOBODY]),
        ),
    )


def _right(tally: _Tally) -> list[float]:
    """Share of points that are right in every image; NaN where there are none."""
    return [_share(hits) for hits in tally.hits[0.1]]


def _refuse_other_points(
    models: Sequence[Predicted], everyone: Sequence[list[People]], annotations: Annotations | None
) -> None:
    """Refuse to compare skeletons with different numbers of key points."""
    known = {} if annotations is None else {"annotations": annotations.points}
    for model, own in zip(models, everyone, strict=True):
        known[model.label] = own[0].keypoints.shape[1]
    if len(set(known.values())) > 1:
        what = "networks" if annotations is None else "the network and the annotations"
        raise InputError(f"{what} do not have the same key points", facts=known)


def _images(source: DataSource) -> PoseImages:
    assert isinstance(source, PoseImages)
    return source


def _sigmas(settings: Settings, points: int) -> tuple[float, ...]:
    given = settings.get("sigmas")
    if not given:
        return default_sigmas(points)
    try:
        sigmas = tuple(float(part) for part in str(given).split(","))
    except ValueError:
        raise UsageError(f"--sigmas {given} cannot be read", fix="--sigmas 0.1,0.1,...") from None
    if len(sigmas) != points or min(sigmas) <= 0:
        raise UsageError(
            f"--sigmas needs {points} positive numbers",
            facts={"given": len(sigmas)},
            fix=f"--sigmas with {points} numbers, one for each key point",
        )
    return sigmas


def _tally(own: list[People], truths: list[People], sigmas: tuple[float, ...]) -> _Tally:
    pairs = list(zip(own, truths, strict=True))
    return _Tally(
        people=own,
        matches=[match(found, truth, sigmas) for found, truth in pairs],
        hits={
            part: np.array([pck(found, truth, sigmas, part=part) for found, truth in pairs])
            for part in PARTS
        },
    )


def _scores(tally: _Tally, resamples: int) -> tuple[Score, ...]:
    count = len(tally.people)
    values = average_precision(tally.matches)
    intervals = statistic_intervals(
        lambda weights: average_precision(tally.matches, weights=weights),
        examples=count,
        resamples=resamples,
    )
    scores = [
        Score(metric=name, value=value, interval=intervals.get(name), count=count)
        for name, value in values.items()
        if not np.isnan(value)  # nobody is annotated
    ]
    for part, hits in tally.hits.items():
        right, total = hits.sum(axis=0)
        if total:
            interval = statistic_interval(
                lambda weights, hits=hits: _share(weights @ hits),  # type: ignore[misc]
                examples=count,
                resamples=resamples,
            )
            scores.append(
                Score(
                    metric=f"PCK@{part:g}",
                    value=float(right / total),
                    interval=interval,
                    count=int(total),
                )
            )
    return tuple(scores)


def _share(sums: AnyArray) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")


def _likeness(
    first: list[People], own: list[People], sigmas: tuple[float, ...] | None
) -> tuple[Score, ...]:
    """Mean OKS of the first model's people with the most similar ones of this model."""
    values = []
    for reference, found in zip(first, own, strict=True):
        sure = reference.scores >= SHOWN
        if not sure.any():
            continue
        points = reference.keypoints[sure]
        points[..., 2] = 1.0
        target = People(
            keypoints=points, boxes=reference.boxes[sure], areas=reference.areas[sure],
            scores=reference.scores[sure], ignored=reference.ignored[sure],
            crowd=reference.crowd[sure],
        )  # fmt: skip
        weights = sigmas or default_sigmas(points.shape[1])
        values += list(oks_matrix(found, target, weights).max(axis=0, initial=0.0))
    if not values:
        return ()
    return (Score(metric="oks_to_first", value=float(np.mean(values)), count=len(values)),)


def _image_table(
    source: DataSource, models: Sequence[Predicted], tallies: Sequence[_Tally]
) -> TaskTable:
    rows = tuple(
        (name, model.label, tally.matches[index].people, len(tally.people[index].scores),
         int((tally.matches[index].hits[0] & ~tally.matches[index].ignored[0]).sum()),
         _share(tally.hits[0.2][index]) if tally.hits[0.2][index][1] else None)
        for model, tally in zip(models, tallies, strict=True)
        for index, name in enumerate(source.names)
    )  # fmt: skip
    heads = ("image", "model", "people", "found", "right at OKS 0.5", "PCK@0.2")
    return TaskTable(id="images", title="Every image", headings=heads, rows=rows)


def _draw_people(
    images: ImageFiles,
    models: Sequence[Predicted],
    everyone: Sequence[list[People]],
    *,
    truths: Sequence[People] | None = None,
    right: Sequence[Sequence[float]] | None = None,
    edges: tuple[tuple[int, int], ...] | None = None,
    folder: Path,
) -> tuple[TaskPicture, ...]:
    """Draw skeletons, the images with the fewest right points first; annotations are white."""

    def draw(axis: Axes, number: int, index: int) -> None:
        own = everyone[number][index]
        # COCO's edges for its 17 points; nobody knows those of others.
        known = COCO_SKELETON if own.keypoints.shape[1] == len(COCO_SIGMAS) else ()
        lines = known if edges is None else edges
        for person in () if truths is None else truths[index].keypoints:
            draw_skeleton(axis, person, lines, colour="white")
        for person, score in zip(own.keypoints, own.scores, strict=True):
            if score >= SHOWN:
                draw_skeleton(axis, person, lines, colour="#E69F00", least=SHOWN)

    return draw_worst(images, models, draw, folder, name="pose", what="Key points", right=right)
