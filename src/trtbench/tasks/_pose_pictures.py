"""Skeletons over the images a model is worst on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.analysis.pose import COCO_SIGMAS, COCO_SKELETON, People
from trtbench.tasks._drawing import draw_skeleton, draw_worst
from trtbench.tasks._images import ImageFiles
from trtbench.tasks.contract import Predicted, TaskPicture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 0.25
"""Confidence from which people and points are drawn."""

Edges = tuple[tuple[int, int], ...]


def draw_people(
    images: ImageFiles,
    models: Sequence[Predicted],
    everyone: Sequence[list[People]],
    *,
    truths: Sequence[People] | None = None,
    right: Sequence[Sequence[float]] | None = None,
    edges: Edges | None = None,
    folder: Path,
) -> tuple[TaskPicture, ...]:
    """One sheet per model, the images with the fewest right points first; annotations are white."""
    if images.scores_only:
        return ()
    pictures = []
    lines = skeleton_of(everyone[0]) if edges is None else edges
    for number, (model, own) in enumerate(zip(models, everyone, strict=True)):

        def draw(axis: Axes, index: int, own: Sequence[People] = own) -> None:
            for person in () if truths is None else truths[index].keypoints:
                draw_skeleton(axis, person, lines, colour="white")
            for person, score in zip(own[index].keypoints, own[index].scores, strict=True):
                if score >= SHOWN:
                    draw_skeleton(axis, person, lines, colour="#E69F00", least=SHOWN)

        path = draw_worst(
            images, draw, folder / f"pose_worst_{number}.png", title=model.label,
            right=None if right is None else right[number],
        )  # fmt: skip
        pictures.append(TaskPicture(path=path, title=f"Key points of {model.label}", model=number))
    return tuple(pictures)


def skeleton_of(people: Sequence[People]) -> Edges:
    """COCO's edges for its 17 points; nobody knows those of others."""
    return COCO_SKELETON if people[0].keypoints.shape[1] == len(COCO_SIGMAS) else ()
