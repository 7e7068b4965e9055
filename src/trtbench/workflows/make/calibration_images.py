"""Images to calibrate with, prepared as a task prepares them for judging the same network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trtbench.analysis.inputs import has_rows
from trtbench.build.quantize_data import RANDOM, Items
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.tasks import TASKS
from trtbench.tasks.contract import calibrating, preparation_from_source


def are_images(calibration: str | None) -> bool:
    """Say whether data are images, in a folder or named by a data.yaml, which a task prepares."""
    if calibration in (None, RANDOM):
        return False
    path = Path(str(calibration))
    return path.is_dir() or path.suffix.lower() in (".yaml", ".yml")


def refuse_without_task(calibration: str | None, task: str | None) -> None:
    """Refuse images that nobody says how to prepare, and a task that has nothing to prepare."""
    if task is not None and calibration in (None, RANDOM):
        raise UsageError("--task says how images are prepared", fix="--calibration FOLDER")
    if task is None and are_images(calibration):
        raise UsageError(
            "images are prepared by a task, the same way for calibrating and for judging",
            facts={"images": calibration, "tasks": ", ".join(TASKS.names())},
            fix="--task classification",
        )


def task_items(
    data: str,
    inputs: Sequence[TensorSpec],
    *,
    task: str,
    settings: Mapping[str, Scalar],
    limit: int,
    seed: int,
) -> tuple[Items, dict[str, Scalar]]:
    """Read items in a seeded order, so that classes that lie one after another are mixed.

    Gives them with how they were prepared.
    """
    module = TASKS.load(task)
    known = calibrating(module.FLAGS, {**settings, "data": data, "unlabelled": True})
    source = module.open_source(known, list(inputs))
    order = np.random.default_rng(seed).permutation(len(source.names))[:limit]
    if not len(order):
        raise InputError(
            f"there is nothing to calibrate with in {data}",
            fix="give a folder of images, or an .npz",
        )
    prepared = [source.prepare(source.load(int(index))) for index in order]
    rows = {}
    for tensor in inputs:
        if tensor.name not in prepared[0] or not has_rows(tensor, inputs):
            raise InputError(
                f"the task {task} does not feed the input {tensor.name!r}",
                fix="give an .npz with an array for every input",
            )
        if len({np.shape(each[tensor.name]) for each in prepared}) > 1:
            raise InputError(
                "images are calibrated with in batches, and these are prepared to several sizes",
                fix="--fit letterbox",
            )
        stacked = np.stack([each[tensor.name] for each in prepared])
        rows[tensor.name] = stacked.astype(tensor.dtype, copy=False)
    return Items(rows=rows, constant={}), preparation_from_source(task, source)
