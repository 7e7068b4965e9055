"""Objects over the images a model is worst on, and curves of precision by recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trtbench.analysis.average_precision import AT_75, RECALLS
from trtbench.analysis.detection_scores import ClassScores, Objects, mean_curve
from trtbench.host.images import read_image
from trtbench.tasks._drawing import draw_boxes, draw_curves, grid, save, shape_of, show
from trtbench.tasks._images import ImageFiles
from trtbench.tasks.contract import Predicted, TaskPicture

WORST = 6
SHOWN = 0.25
"""Score from which boxes are drawn and counted as said."""


def draw_objects(
    images: ImageFiles,
    models: Sequence[Predicted],
    objects: Sequence[Sequence[Objects]],
    *,
    truths: Sequence[Objects] | None = None,
    right: Sequence[Sequence[float]] | None = None,
    names: Mapping[int, str] | None = None,
    folder: Path,
) -> tuple[TaskPicture, ...]:
    """One sheet per model, the worst images first; annotated boxes are white."""
    pictures = []
    for number, (model, own) in enumerate(zip(models, objects, strict=True)):
        chosen = list(range(len(own)))
        if right is not None:
            shares = right[number]
            chosen.sort(key=lambda index, shares=shares: (np.isnan(shares[index]), shares[index]))  # type: ignore[misc]
        chosen = chosen[:WORST]
        figure, axes = grid(*shape_of(len(chosen), most_columns=3), title=model.label)
        for axis, index in zip((a for line in axes for a in line), chosen, strict=False):
            show(axis, read_image(images.paths[index], channels=3), images.names[index])
            if truths is not None:
                draw_boxes(axis, truths[index].boxes, colour="white", width=2.4)
            likely = own[index].scores >= SHOWN
            texts = [
                f"{(names or {}).get(int(label), label)} {score:.2f}"
                for label, score in zip(
                    own[index].classes[likely], own[index].scores[likely], strict=True
                )
            ]
            draw_boxes(axis, own[index].boxes[likely], texts, colour="#E69F00")
        path = save(figure, folder / f"detection_worst_{number}.png")
        pictures.append(TaskPicture(path=path, title=f"Objects of {model.label}", model=number))
    return tuple(pictures)


def draw_precision(
    models: Sequence[tuple[str, Sequence[ClassScores]]], folder: Path
) -> TaskPicture:
    """Precision by recall, the mean over classes, of every model in one picture."""
    lines = [
        (f"{label}, IoU {at}", RECALLS, mean_curve(classes, level=level))
        for label, classes in models
        for at, level in (("0.5", 0), ("0.75", AT_75))
    ]
    title = "Precision by recall, mean over classes"
    path = draw_curves(
        folder / "detection_precision_recall.png", lines, title=title, x="recall", y="precision"
    )
    return TaskPicture(path=path, title=title)
