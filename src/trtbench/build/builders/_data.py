"""The data an INT8 build is calibrated with: arrays, a folder of images, or random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.build.quantize_data import RANDOM, Items, array_items, random_items
from trtbench.domain.spec import BuildSpec, TensorSpec
from trtbench.errors import UnavailableError, UsageError

ITEMS = 256
"""More data hardly moves the scales, and every item costs a run of the network."""


def calibration_items(
    spec: BuildSpec, inputs: Sequence[TensorSpec], *, shapes: Mapping[str, tuple[int, ...]]
) -> Items:
    """Read what ``spec.calibration`` names, at most so many items as the options say."""
    source, count = str(spec.calibration), _count(spec)
    if source == RANDOM:
        limits = _limits(Path(spec.model.path))
        return random_items(inputs, count=count, seed=0, shapes=dict(shapes), limits=limits)
    if not Path(source).is_dir():
        return array_items(Path(source), inputs).part(0, count)
    from trtbench.build.quantize_images import Preprocessing, image_items
    from trtbench.host.images import IMAGENET

    imagenet = spec.options.get("normalize") == "imagenet"
    mean, std = IMAGENET if imagenet else ((), ())
    resize = spec.options.get("resize", "crop")
    if resize not in ("crop", "stretch", "letterbox"):
        raise UsageError(f"there is no way to resize called {resize!r}", fix="--opt resize=crop")
    how = Preprocessing(mean=mean, std=std, resize=resize)  # type: ignore[arg-type]
    return image_items(Path(source), inputs, how=how, limit=count)


def _limits(model: Path) -> dict[str, int]:
    """How far indices may go; an interpreter that has TensorRT need not have onnx."""
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_ranges import index_limits

    try:
        return index_limits(load_onnx(model, weights=False))
    except UnavailableError:
        return {}


def _count(spec: BuildSpec) -> int:
    text = spec.options.get("calibration_items", str(ITEMS))
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"{text!r} is no number of items", fix="--opt calibration_items=256")
    return int(text)
