"""Sizes of dynamic dimensions on which an ONNX file runs, found by trying on the CPU."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import util
from itertools import product
from pathlib import Path

from trtbench.core.spec import ModelRef, TensorSpec
from trtbench.host.process import guarded
from trtbench.models.identity import known_outline
from trtbench.models.inputs import batch_place, random_inputs, with_assumed_shapes

SECONDS, LARGEST_BYTES = 15.0, 1 << 29  # a larger file is not loaded just to try sizes
_SIDES = (
    (48, 320), (32, 320), (64, 256), (32, 100), (640, 640), (256, 256), (512, 512), (320, 320),
    (32, 32), (28, 28), (64, 64), (112, 112), (128, 128), (160, 160), (299, 299), (384, 384),
)  # fmt: skip
_LENGTHS = (512, 576, 16_000, 1024, 256, 77, 64, 80, 3000, 100, 32, 16, 8, 4, 2, 1)


def shapes_that_run(
    tensors: Sequence[TensorSpec], model: Path | str, *, batch: bool = True
) -> tuple[TensorSpec, ...]:
    """Return inputs with the usual sizes, or if an ONNX file fails on them, the first that work.

    Without ``batch`` a leading batch dimension stays dynamic.
    """
    path, outline = Path(model), None
    if path.suffix == ".onnx" and not all(each.is_static for each in tensors):
        outline = known_outline(ModelRef(path=str(path), format="onnx"))
    sides = outline.sides if outline else None
    found = with_assumed_shapes(tensors, sides)
    pairs = product((sides, *_SIDES), (None, *_LENGTHS))
    tried = dict.fromkeys(with_assumed_shapes(tensors, *each) for each in pairs if outline)

    def search() -> tuple[TensorSpec, ...]:
        import onnxruntime

        limits, options = outline.index_limits if outline else {}, onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        for each in tried:
            with suppress(Exception):  # of several types, without a common base
                session.run(None, dict(random_inputs(each, limits=limits)))
                return each
        return found

    # One try is enough if only the batch is dynamic.
    if len(tried) > 1 and util.find_spec("onnxruntime") and path.stat().st_size <= LARGEST_BYTES:
        with suppress(Exception):  # a model that ONNX Runtime does not load, or not in time
            found = guarded(search, what="the model", seconds=SECONDS)
    kept = [not batch and bool(each.shape) and not batch_place(each) for each in tensors]
    return tuple(
        now.having(shape=(*was.shape[:first], *now.shape[first:]))
        for was, now, first in zip(tensors, found, kept, strict=True)
    )
