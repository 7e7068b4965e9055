"""Class scores of several models side by side: the ten best of one item, and all ranks of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trtbench.analysis.check_classes import RANKS, ClassCheck, ClassTally, ranking
from trtbench.domain.result import Scalar
from trtbench.tasks.contract import DataSource, Predicted, TaskTable


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
