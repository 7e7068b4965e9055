"""The data an INT8 build is calibrated with: arrays, or random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.build.quantize_data import RANDOM, Items, array_items, item_limit, random_items
from trtbench.domain.spec import BuildSpec, TensorSpec
from trtbench.errors import UnavailableError


def calibration_items(
    spec: BuildSpec, inputs: Sequence[TensorSpec], *, shapes: Mapping[str, tuple[int, ...]]
) -> Items:
    """Read what ``spec.calibration`` names, at most so many items as the options say.

    Images have become arrays before: a task prepares them.
    """
    source, count = spec.calibration_arrays or str(spec.calibration), item_limit(spec)
    if source == RANDOM:
        limits = _limits(Path(spec.model.path))
        return random_items(inputs, count=count, seed=0, shapes=dict(shapes), limits=limits)
    return array_items(Path(source), inputs).part(0, count)


def _limits(model: Path) -> dict[str, int]:
    """How far indices may go; an interpreter that has TensorRT need not have onnx."""
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_ranges import index_limits

    try:
        return index_limits(load_onnx(model, weights=False))
    except UnavailableError:
        return {}
