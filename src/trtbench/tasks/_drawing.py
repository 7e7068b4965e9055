"""Pictures of what models said, drawn without pyplot and its global state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.domain.arrays import AnyArray
from trtbench.errors import writing
from trtbench.tasks._images import ImageFiles
from trtbench.tasks.contract import Predicted, TaskPicture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_IN = 3.2
TITLES_IN = 0.2
"""What the titles of a row take beside its pictures; those that need more lines ask for more."""
DPI = 110
WORST = 6
"""Images on a sheet of the worst."""


def grid(
    rows: int,
    columns: int,
    *,
    title: str | None = None,
    shape: tuple[int, int] = (1, 1),
    lines: int = 0,
) -> tuple[Figure, list[list[Axes]]]:
    """Make a sheet of axes without ticks, for pictures of this size with so many lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    row_in = COLUMN_IN * min(max(shape[0] / shape[1], 0.25), 3.0) + TITLES_IN * (1 + lines)
    figure = Figure(figsize=(COLUMN_IN * columns, row_in * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for line in axes:
        for each in line:
            each.set_xticks([])
            each.set_yticks([])
            each.set_frame_on(False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure, [list(line) for line in axes]


def show(
    axis: Axes,
    image: AnyArray | None,
    title: str,
    *,
    kind: str = "image",
    shape: tuple[int, int] | None = None,
) -> None:
    """Put an image, or a map in colours, into one place of a sheet; a map in another's shape."""
    assert image is not None  # a source that can draw one item can draw all
    if kind == "map":
        extent = (0, shape[1], shape[0], 0) if shape else None
        axis.imshow(image, cmap="magma", extent=extent, interpolation="bilinear")
    else:
        squeezed = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
        axis.imshow(squeezed, cmap="gray", vmin=0, vmax=255)
    axis.set_title(_plain(title), fontsize=8)


def draw_worst(
    images: ImageFiles,
    models: Sequence[Predicted],
    draw: Callable[[Axes, int, int], None],
    folder: Path,
    *,
    name: str,
    what: str,
    right: Sequence[Sequence[float]] | None = None,
) -> tuple[TaskPicture, ...]:
    """Draw a sheet per model: the images with the least share of what is right, drawn over.

    ``draw`` is told the place, the number of the model and that of the image.
    """
    if images.scores_only:
        return ()
    pictures = []
    for number, model in enumerate(models):
        chosen = list(range(len(images.names)))[:WORST]
        if right is not None:  # what is no number comes last
            chosen = np.argsort(right[number], kind="stable").tolist()[:WORST]
        figure, axes = grid(*shape_of(len(chosen), most_columns=3), title=model.label)
        for axis, index in zip((a for line in axes for a in line), chosen, strict=False):
            show(axis, images.picture(index), images.names[index])
            draw(axis, number, index)
        path = save(figure, folder / f"{name}_worst_{number}.png")
        pictures.append(TaskPicture(path=path, title=f"{what} of {model.label}", model=number))
    return tuple(pictures)


def save(figure: Figure, path: Path) -> Path:
    """Write a sheet as PNG."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(path, dpi=DPI, metadata={"Software": "trtbench"})
    return path


def shape_of(count: int, *, most_columns: int = 4) -> tuple[int, int]:
    """Choose rows and columns for so many pictures."""
    columns = max(1, min(count, most_columns))
    return max(1, -(-count // columns)), columns


def draw_skeleton(
    axis: Axes,
    keypoints: AnyArray,
    edges: Sequence[tuple[int, int]],
    *,
    colour: str,
    least: float = 0.0,
) -> None:
    """Draw the points whose third value is above the least, and the edges between them."""
    seen = keypoints[:, 2] > least
    axis.scatter(keypoints[seen, 0], keypoints[seen, 1], s=10, c=colour, zorder=3)
    for a, b in edges:
        if a < len(seen) and b < len(seen) and seen[a] and seen[b]:
            axis.plot(keypoints[[a, b], 0], keypoints[[a, b], 1], c=colour, lw=1.6)


def draw_boxes(
    axis: Axes,
    boxes: AnyArray,
    texts: Sequence[str] = (),
    *,
    colour: str,
    width: float = 1.4,
    below: bool = False,
) -> None:
    """Draw frames, [boxes, 4] as x, y, width, height, with a word above or below each.

    The middle of the first pixel is drawn at 0, and its edge half a pixel before.
    """
    from matplotlib.patches import Rectangle

    for place, (x, y, wide, high) in enumerate(boxes - [0.5, 0.5, 0, 0]):
        axis.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor=colour, lw=width))
        if texts:
            word = axis.text(
                x, y + high * below, _plain(texts[place]), fontsize=6, color=colour,
                va="top" if below else "bottom", clip_on=True,
            )  # fmt: skip
            word.set_in_layout(False)  # a name at the edge would make all pictures smaller


def draw_curves(path: Path, lines: Sequence[tuple[str, AnyArray, AnyArray]], *, title: str) -> Path:
    """Draw precision by recall, each line with its name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * COLUMN_IN, 1.5 * COLUMN_IN), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for name, across, up in lines:
        axis.plot(across, up, lw=1.6, label=_plain(name))
    axis.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
    axis.set_title(_plain(title), fontsize=11)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return save(figure, path)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")
