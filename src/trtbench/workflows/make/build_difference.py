"""How far a model that was cast or quantized for a build is from the one it was made from."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.inputs import fixed_batch
from trtbench.build.builders._prepare import TYPED
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import input_specs
from trtbench.build.quantize_data import HELD_OUT_SEED, batch_of, random_items, save_feeds
from trtbench.domain.conversion import TensorDiff
from trtbench.domain.spec import BuildSpec
from trtbench.errors import TrtbenchError
from trtbench.models.index_limits import index_limits
from trtbench.units import text_from_bytes
from trtbench.workflows.make.conversion import verify
from trtbench.workflows.request.conduct import Conduct

COMPARED = 4
"""Items on which the two are compared: enough to see a wrong cast, cheap for a large network."""
LARGEST_BYTES = 1 << 30
"""Models above this are not run on the CPU without being asked."""


def difference_note(spec: BuildSpec, *, folder: Path, conduct: Conduct) -> str | None:
    """Compare on random inputs, on the CPU; ``None`` where the model was built as it is."""
    if not (folder / TYPED).is_file():
        return None
    try:
        return _measured(spec, folder, conduct)
    except TrtbenchError as problem:  # the engine is whole whatever this tells
        return f"its difference from the model was not measured: {problem.message}"


def _measured(spec: BuildSpec, folder: Path, conduct: Conduct) -> str:
    source = Path(spec.model.path)
    if (spec.model.size_bytes or 0) > LARGEST_BYTES:
        size = text_from_bytes(LARGEST_BYTES)
        return f"its difference was not measured: above {size}, trtbench check does"
    inputs = input_specs(load_onnx(source, weights=False))
    shapes = {name: ends.opt for name, ends in spec.shapes.items()}
    count = fixed_batch(inputs) or COMPARED
    limits = index_limits(spec.model, inputs)
    items = random_items(
        inputs, count=count, seed=HELD_OUT_SEED, shapes=shapes, model=source, limits=limits
    )
    batch = batch_of(inputs, asked=None, default=count)
    work = folder / "difference"
    work.mkdir()
    save_feeds(work / "inputs.npz", items.feeds(batch=batch, fixed=bool(fixed_batch(inputs))))
    found = verify(
        folder / TYPED, reference=source, inputs=work / "inputs.npz",
        precision=spec.precision or "fp16", folder=work / "verify", conduct=conduct,
    )  # fmt: skip
    if found.problem is not None:
        return f"its difference from the model was not measured: {found.problem}"
    told = "; ".join(_words(diff) for diff in found.diffs)
    return f"its difference from the model on {count} random inputs (ONNX Runtime): {told}"


def _words(diff: TensorDiff) -> str:
    if diff.note is not None or diff.rel_l2 is None:
        return f"{diff.name} {diff.note or 'cannot be compared'}"
    noise = "exact" if diff.sqnr_db is None else f"SQNR {diff.sqnr_db:.1f} dB"
    lost = f", {diff.nonfinite} values not finite" if diff.nonfinite else ""
    return f"{diff.name} rel. L2 {diff.rel_l2:.2g}, {noise}{lost}"
