"""Images to calibrate with, prepared as a task prepares them for judging the same network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtbench.analysis.inputs import has_rows
from trtbench.build.quantize_data import Items
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError
from trtbench.tasks import TASKS


def task_items(
    data: str,
    inputs: Sequence[TensorSpec],
    *,
    task: str,
    settings: Mapping[str, Scalar],
    limit: int,
    seed: int,
) -> Items:
    """Read items in a seeded order, so that classes that lie one after another are mixed."""
    known = {"data": data, "unlabelled": True, **settings}
    source = TASKS.load(task).open_source(known, list(inputs))
    order = np.random.default_rng(seed).permutation(len(source.names))[:limit]
    if not len(order):
        raise InputError(f"there is nothing to calibrate with in {data}")
    prepared = [source.prepare(source.load(int(index))) for index in order]
    rows = {}
    for tensor in inputs:
        if tensor.name not in prepared[0] or not has_rows(tensor, inputs):
            raise InputError(
                f"the task {task} does not feed the input {tensor.name!r}",
                fix="give an .npz with an array for every input",
            )
        stacked = np.stack([each[tensor.name] for each in prepared])
        rows[tensor.name] = stacked.astype(tensor.dtype, copy=False)
    return Items(rows=rows, constant={})


def task_facts(task: str, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """How the images were prepared, for the record."""
    own = [flag.key for flag in TASKS.load(task).FLAGS if flag.preprocessing]
    return {"task": task, **{key: settings[key] for key in own if settings.get(key) is not None}}
