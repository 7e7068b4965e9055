"""Objects over the images a model is worst on, and curves of precision by recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.analysis.average_precision import AT_75, RECALLS
from trtbench.analysis.detection_scores import ClassScores, Objects, mean_curve
from trtbench.tasks._drawing import draw_boxes, draw_curves, draw_worst
from trtbench.tasks._images import ImageFiles
from trtbench.tasks.contract import Predicted, TaskPicture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 0.25
"""Score from which boxes are drawn and counted as said."""
LONGEST = 24
"""Letters of a class at its box."""


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
    """Draw one sheet per model, the worst images first; annotated boxes are white."""

    def name(number: int) -> str:
        told = (names or {}).get(number, str(number))
        return told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"

    def draw(axis: Axes, number: int, index: int) -> None:
        if truths is not None:
            true = truths[index]
            texts = [name(int(k)) for k in true.classes]
            draw_boxes(axis, true.boxes, texts, colour="white", width=2.4, below=True)
        said = objects[number][index]
        likely = said.scores >= SHOWN
        pairs = zip(said.classes[likely], said.scores[likely], strict=True)
        texts = [f"{name(int(k))} {score:.2f}" for k, score in pairs]
        draw_boxes(axis, said.boxes[likely], texts, colour="#E69F00")

    return draw_worst(images, models, draw, folder, name="detection", what="Objects", right=right)


def draw_precision(
    images: ImageFiles, models: Sequence[tuple[str, Sequence[ClassScores]]], folder: Path
) -> tuple[TaskPicture, ...]:
    """Precision by recall, the mean over classes, of every model in one picture."""
    if images.scores_only:
        return ()
    lines = [
        (f"{label}, IoU {at}", RECALLS, mean_curve(classes, level=level))
        for label, classes in models
        for at, level in (("0.5", 0), ("0.75", AT_75))
    ]
    title = "Precision by recall, mean over classes"
    path = draw_curves(folder / "detection_precision_recall.png", lines, title=title)
    return (TaskPicture(path=path, title=title),)
