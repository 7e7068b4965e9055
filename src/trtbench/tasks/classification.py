"""Classification: one class per item, of images in folders, of arrays, or of skeleton sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.check_classes import (
    RANKS,
    ClassCheck,
    ClassTally,
    are_probabilities,
    ranking,
)
from trtbench.analysis.classification import (
    agreement_from_classes,
    mcnemar,
    per_class,
    rank_of_label,
    top_k_from_ranks,
)
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.domain.result import Scalar, Score
from trtbench.errors import InputError, refuse_unknown
from trtbench.tasks._drawing import grid, save, shape_of, show
from trtbench.tasks._image_folder import ImageFolder
from trtbench.tasks._images import chosen_item, normalize_flag, shown_item
from trtbench.tasks._sequences import LabelledArrays
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
from trtbench.units import text_from_shape

FLAGS = (
    Flag(name="labels", help="Numbers of the classes of arrays, from .npy or text."),
    Flag(name="classes", help="Classes in the network's order: one per line, or JSON."),
    Flag(name="resize", kind="whole", preprocessing=True,
         help="Length the shorter side is scaled to (default: 256 for 224)."),
    Flag(name="crop", kind="whole", preprocessing=True,
         help="Size cut out of the centre (default: the input's own, else 224)."),
    Flag(name="interpolation", default="bilinear", choices=("bilinear", "bicubic"),
         preprocessing=True, help="How images are scaled."),
    normalize_flag("imagenet"),
    Flag(name="show", help="Name of the item whose ten best classes are listed (default: first)."),
    Flag(name="output-name", help="The output that holds the scores, where there are several."),
)  # fmt: skip

WORST = 8
NO_CLASS = -1
"""What a network says whose scores are no numbers."""
TOP = 5


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open images in folders, or an array with labels."""
    path = Path(str(settings["data"]))
    if path.is_dir() or path.suffix not in (".npz", ".npy"):
        if not path.exists():
            raise InputError(
                f"there is no data at {path}",
                fix="--data with a folder of images, or an .npz that is there",
            )
        images = ImageFolder(path, settings, tensors)
        chosen_item(images.names, settings.get("show"))  # refused before anything is run
        return images
    labels = settings.get("labels")
    return LabelledArrays(
        path,
        tensors,
        labels=str(labels) if labels else None,
        unlabelled=bool(settings.get("unlabelled")),
    )


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Find the scores among the outputs."""
    wanted = settings.get("output_name")
    if wanted:
        said = f"the model has no output called {wanted!r}"
        refuse_unknown(str(wanted), outputs, said, listed="outputs", kind=InputError)
    shapes = {name: text_from_shape(outputs[name].shape) for name in outputs}
    chosen = [str(wanted)] if wanted else [n for n in outputs if _may_be_scores(outputs[n])]
    if len(chosen) > 1:
        raise InputError(
            "several outputs may hold the scores of classes",
            facts=shapes,
            fix=f"--output-name {chosen[-1]}",
        )
    rows = np.asarray(outputs[chosen[0]]).reshape(len(loaded), -1) if chosen else np.zeros((1, 1))
    if rows.shape[1] < 2:
        raise InputError("no output holds scores of classes", facts=shapes)
    return {"scores": rows.astype(np.float32)}


def _may_be_scores(output: AnyArray) -> bool:
    """Say whether an output has one row of numbers per item, whatever dimensions of one it has."""
    dims = [dim for dim in output.shape[1:] if dim != 1]
    return output.dtype.kind == "f" and len(dims) == 1 and dims[0] > 1


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute top-1 and top-5 of every model, agreement with the first, and the worst mistakes."""
    labels = source.labels
    assert labels is not None
    tallies = [_tally(model, labels, source) for model in models]
    first = tallies[0]
    scores = tuple(
        (*_own(tally), *(() if tally is first else (_agreement(first, tally),)))
        for tally in tallies
    )
    item, notes = shown_item(source.names, settings.get("show"))
    tables = [top_table(models, source, item), _class_table(models, tallies, labels, source)]
    if len(models) > 1:
        tables[:0] = [_pair_table(models, tallies), *rank_tables(models)]
    pictures = tuple(
        picture
        for number, (model, tally) in enumerate(zip(models, tallies, strict=True))
        if (picture := _worst(source, model, tally, labels, folder, number)) is not None
    )
    return Judgement(
        scores=scores,
        method="top-k over all examples, ties to the lower class; Wilson's 95 % intervals",
        tables=tuple(tables),
        pictures=pictures,
        notes=(*source.notes, *notes, *_lost_notes(models, tallies)),
    )


def _agreement(first: _Tally, other: _Tally) -> Score:
    """Compute agreement on classes; two models that name none do not agree."""
    return agreement_from_classes(first.best, np.where(other.best == NO_CLASS, -2, other.best))


def _lost_notes(models: Sequence[Predicted], tallies: Sequence[_Tally]) -> list[str]:
    return [
        f"{model.label}: scores of {count} items hold NaN or Inf; they count as wrong"
        for model, tally in zip(models, tallies, strict=True)
        if (count := int((tally.best == NO_CLASS).sum()))
    ]


@dataclass(frozen=True, kw_only=True)
class _Tally:
    ranks: NDArray[np.int64]
    """Of the labels; items whose scores are no numbers come after the last class."""
    best: NDArray[np.int64]
    confidence: NDArray[np.float64]
    classes: int


def _tally(model: Predicted, labels: NDArray[np.int64], source: DataSource) -> _Tally:
    ranks, best, confidence, classes = [], [], [], 0
    for start, arrays in model.chunks:
        scores = arrays["scores"].astype(np.float64)
        classes = scores.shape[1]
        if start == 0 and isinstance(source, ImageFolder):
            source.check_classes(classes)
        own = labels[start : start + len(scores)]
        if own.max(initial=0) >= classes or own.min(initial=0) < 0:
            raise InputError(
                f"the labels go from {labels.min()} to {labels.max()}, the network has {classes} "
                "classes"
            )
        lost = (np.isnan(scores) | np.isposinf(scores)).any(axis=1)
        scores[lost] = 0.0
        ranks.append(np.where(lost, classes + 1, rank_of_label(scores, own)))
        best.append(np.where(lost, NO_CLASS, scores.argmax(axis=1)))
        confidence.append(np.where(lost, 0.0, _confidence(scores)))
    return _Tally(
        ranks=np.concatenate(ranks),
        best=np.concatenate(best),
        confidence=np.concatenate(confidence),
        classes=classes,
    )


def _confidence(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the probability of the best class, by softmax where scores are none already."""
    if are_probabilities(scores):
        return np.asarray(scores.max(axis=1))
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(1.0 / shifted.sum(axis=1))


def _own(tally: _Tally) -> tuple[Score, ...]:
    found = [top_k_from_ranks(tally.ranks)]
    if tally.classes > TOP:
        found.append(top_k_from_ranks(tally.ranks, k=TOP))
    return tuple(found)


def _pair_table(models: Sequence[Predicted], tallies: Sequence[_Tally]) -> TaskTable:
    rows = []
    for model, tally in zip(models[1:], tallies[1:], strict=True):
        test = mcnemar(tallies[0].ranks <= 1, tally.ranks <= 1)
        same = _agreement(tallies[0], tally)
        rows.append(
            (
                model.label, same.value, test.only_first, test.only_second, test.p, test.difference,
                test.interval.low, test.interval.high,
            )
        )  # fmt: skip
    return TaskTable(
        id="mcnemar",
        title=f"Against {models[0].label}: McNemar's exact test on top-1",
        headings=("model", "agreement", "only first right", "only this right", "p",
                  "difference", "low", "high"),
        rows=tuple(rows),
    )  # fmt: skip


def _class_table(
    models: Sequence[Predicted],
    tallies: Sequence[_Tally],
    labels: NDArray[np.int64],
    source: DataSource,
) -> TaskTable:
    """Compute accuracy by class, worst class of the first model first."""
    columns = [per_class(tally.ranks, labels) for tally in tallies]
    names = source.class_names
    order = sorted(range(len(columns[0])), key=lambda place: columns[0][place].top1)
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (
            names.get(columns[0][place].label, str(columns[0][place].label)),
            columns[0][place].label,
            columns[0][place].count,
            *(column[place].top1 for column in columns),
        )
        for place in order
    )
    return TaskTable(
        id="classes",
        title="Top-1 by class, the worst first",
        headings=("class", "label", "examples", *(model.label for model in models)),
        rows=rows,
    )


def _worst(
    source: DataSource,
    model: Predicted,
    tally: _Tally,
    labels: NDArray[np.int64],
    folder: Path,
    number: int,
) -> TaskPicture | None:
    """Draw the mistakes a model is surest of."""
    wrong = np.flatnonzero(tally.ranks > 1)
    chosen = wrong[np.argsort(-tally.confidence[wrong], kind="stable")][:WORST]
    draw = source.picture
    if source.scores_only or not len(chosen) or draw(int(chosen[0])) is None:
        return None
    title = f"Mistakes {model.label} is surest of"
    figure, axes = grid(*shape_of(len(chosen)), title=title)
    places = [axis for line in axes for axis in line]
    for axis, item in zip(places, chosen, strict=False):
        name = Path(source.names[item]).name
        said = f"{tally.best[item]} ({tally.confidence[item]:.0%})"
        said = f"{'no class' if tally.best[item] == NO_CLASS else said}, is {labels[item]}"
        show(axis, draw(int(item)), f"{name}\n{said}")
    path = save(figure, folder / f"classification_worst_{number}.png")
    return TaskPicture(path=path, title=title, model=number)


def top_table(models: Sequence[Predicted], source: DataSource, item: int) -> TaskTable:
    """List the best classes of one item with their scores, a pair of columns for every model."""
    columns: list[list[Scalar]] = []
    for model in models:
        scores = model.chunks.rows(item, item + 1)["scores"].astype(np.float64)
        best = ranking(scores, min(RANKS, scores.shape[1]))[0]
        columns.append([float(scores[0, each]) for each in best])
        columns.append([source.class_names.get(int(each), int(each)) for each in best])
    heads = [f"{model.label} {what}" for model in models for what in ("score", "label")]
    rows = [(rank, *row) for rank, row in enumerate(zip(*columns, strict=False), start=1)]
    title = f"Best classes of {source.names[item]}"
    return TaskTable(id="top", title=title, headings=("rank", *heads), rows=tuple(rows))


def rank_tables(models: Sequence[Predicted]) -> Iterator[TaskTable]:
    """Compare every place of the ranking with the first model's, all others in one table."""
    first, others = models[0], models[1:]
    checks = [_check(first, model) for model in others]
    alike = [(m, c) for m, c in zip(others, checks, strict=True) if c is not None]
    if not alike:
        return
    places = min(len(check.ranks) for _, check in alike)
    rows: list[tuple[Scalar, ...]] = []
    for place in range(places):
        found = [check.ranks[place] for _, check in alike]
        told = [text for row in found for text in (row.mae, f"{100 * row.disagree:.2f} %")]
        rows.append((place + 1, *told))
    heads = [f"{model.label} {what}" for model, _ in alike for what in ("MAE", "disagree")]
    yield TaskTable(
        id="ranks",
        title=f"Ranks against {first.label}: error of the score, and other class",
        headings=("rank", *heads),
        rows=tuple(rows),
    )


def _check(first: Predicted, other: Predicted) -> ClassCheck | None:
    """Hold the scores of two models against each other; ``None`` of other classes."""
    tally = ClassTally()
    for start, arrays in first.chunks:
        own = arrays["scores"].astype(np.float64)
        theirs = other.chunks.rows(start, start + len(own))["scores"].astype(np.float64)
        if own.shape != theirs.shape:
            return None
        tally.add(own, theirs)
    return tally.result()
