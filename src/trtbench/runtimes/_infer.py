"""Every item of a file through a model, batch by batch; the last, short batch counts too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.inputs import fixed_batch
from trtbench.domain.arrays import Arrays
from trtbench.domain.job import Stage
from trtbench.domain.spec import RunSpec, TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.arrays import read_arrays
from trtbench.runtimes._session import Session


def infer(
    open_session: Callable[[RunSpec], Session], spec: RunSpec, *, stage: Stage
) -> dict[str, NDArray[np.generic]]:
    """Compute the outputs for all items, joined along the batch."""
    if spec.inputs.source is None:
        raise UsageError("there is nothing to run on", fix="--inputs data.npz")
    stage("load")
    session = open_session(spec)
    arrays = read_arrays(Path(spec.inputs.source), _open_batch(session.inputs))
    count = _items(arrays)
    fixed = fixed_batch(session.inputs)
    size = fixed or spec.batch or 1
    stage("measure")
    parts = [
        _run(session, arrays, start, min(size, count - start), size if size == fixed else None)
        for start in range(0, count, size)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _run(
    session: Session, arrays: Arrays, start: int, length: int, padded: int | None
) -> dict[str, NDArray[np.generic]]:
    """Run one batch; a model of fixed batch gets a short one filled up, and the rest cut off."""
    batch = {name: array[start : start + length] for name, array in arrays.items()}
    if padded is not None and length < padded:
        batch = {
            name: np.concatenate([array, np.repeat(array[-1:], padded - length, axis=0)])
            for name, array in batch.items()
        }
    session.bind(batch)
    return {name: output[:length] for name, output in session.fetch().items()}


def _open_batch(tensors: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Leave the batch open: a file may hold any number of items, whatever a model is made for."""
    return tuple(
        TensorSpec(name=t.name, dtype=t.dtype, shape=(None, *t.shape[1:])) for t in tensors
    )


def _items(arrays: Arrays) -> int:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        raise InputError(
            "the inputs do not hold the same number of items",
            facts={name: f"{count} items" for name, count in counts.items()},
        )
    return next(iter(counts.values()))
