"""The data an INT8 build is calibrated with: arrays, or random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.build.quantize_data import RANDOM, Items, array_items, item_limit, random_items
from trtbench.domain.spec import BuildSpec, TensorSpec
from trtbench.models.index_limits import index_limits


def calibration_items(
    spec: BuildSpec, inputs: Sequence[TensorSpec], *, shapes: Mapping[str, tuple[int, ...]]
) -> Items:
    """Read what ``spec.calibration`` names, at most so many items as the options say.

    Images have become arrays before: a task prepares them.
    """
    source, count = spec.calibration_arrays or str(spec.calibration), item_limit(spec)
    if source == RANDOM:
        limits = index_limits(spec.model, inputs)
        return random_items(inputs, count=count, seed=0, shapes=dict(shapes), limits=limits)
    return array_items(Path(source), inputs).part(0, count)
