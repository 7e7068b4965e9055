"""Regression: one number per item, judged by its mean absolute error.

The data is an .npz with an array per input and the right numbers in ``target``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtbench.core.run import Score
from trtbench.tasks.contract import (
    Arrays,
    DataSource,
    Flag,
    Judgement,
    Predicted,
    Settings,
    Tensors,
)

FLAGS = (Flag(name="within", help="What counts as a hit.", default=0.1, kind="number"),)


class Arrays1d(DataSource):
    """Items of an .npz, in order."""

    def __init__(self, path: Path, tensors: Tensors) -> None:
        with np.load(path) as held:
            self._inputs = {each.name: held[each.name] for each in tensors}
            self.target = held["target"].astype(np.float64)
        self.names = tuple(str(index) for index in range(len(self.target)))

    def load(self, index: int) -> Arrays:
        return {name: array[index] for name, array in self._inputs.items()}

    def prepare(self, loaded: Arrays) -> Arrays:
        return {name: np.asarray(array, np.float32) for name, array in loaded.items()}


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Read the data beside the model."""
    return Arrays1d(Path(str(settings["data"])), tensors)


def decode(outputs: Arrays, loaded: Sequence[Any], settings: Settings) -> Arrays:
    """Take the first number of the first output for each item."""
    first = np.asarray(next(iter(outputs.values())))
    return {"value": first.reshape(len(loaded), -1)[:, 0]}


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Score every model against the right numbers."""
    target = source.target  # type: ignore[attr-defined]
    within = float(settings["within"] or 0)
    scores = []
    for model in models:
        error = np.abs(model.chunks.whole()["value"].astype(np.float64) - target)
        scores.append(
            (
                Score(metric="mae", value=float(error.mean()), count=len(target)),
                Score(metric="hits", value=float((error <= within).mean()), count=len(target)),
            )
        )
    return Judgement(scores=tuple(scores), method=f"Mean absolute error; hits within {within:g}.")
