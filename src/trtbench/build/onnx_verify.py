"""Runs an ONNX file on ONNX Runtime and compares it with what it should give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.numeric import tensor_diffs
from trtbench.build.onnx_file import check_onnx, load_onnx
from trtbench.build.onnx_read import input_specs, spec_from_value
from trtbench.build.quantize_data import FeedArrays, FeedFile
from trtbench.domain.conversion import VerifyOutcome, VerifySpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, first_line
from trtbench.extras import optional_library
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Outputs = dict[str, NDArray[np.generic]]


class CannotRunError(Exception):
    """ONNX Runtime lacks what the model needs; the model may be right all the same."""


def verify(spec: VerifySpec, *, folder: Path, stage: Stage) -> VerifyOutcome:
    """Check a model, run it on every batch of inputs, and compare all outputs at once."""
    stage("load")
    path = Path(spec.model)
    check_onnx(path)
    model = load_onnx(path, weights=False)
    outcome = VerifyOutcome(
        inputs=input_specs(model),
        outputs=tuple(spec_from_value(v) for v in model.graph.output),
        versions=library_versions(("onnx", "onnxruntime", "numpy")),
    )
    stage("compare")
    feeds = FeedFile(Path(spec.inputs))
    try:
        found = _run(path, feeds, spec)
    except CannotRunError as problem:
        return outcome.having(problem=str(problem))
    reference = Path(spec.reference)
    wanted = (
        joined(list(FeedFile(reference)))
        if reference.suffix == ".npz"
        else _run(reference, feeds, spec)
    )
    diffs = tensor_diffs(wanted, found, rtol=spec.rtol, atol=spec.atol)
    return outcome.having(diffs=diffs)


def _run(path: Path, feeds: FeedFile, spec: VerifySpec) -> Outputs:
    try:
        return run_all(path, feeds)
    except InputError as problem:
        if spec.reference.endswith(".npz"):
            raise
        raise InputError(
            "the model does not run on the inputs that were drawn for the comparison",
            facts=problem.facts,
            fix="--inputs data.npz with inputs that it takes",
        ) from None


def run_all(path: Path, feeds: FeedFile) -> Outputs:
    """Run a model on every batch; the outputs are joined along the first axis."""
    session = _open(path)
    names = [each.name for each in session.get_outputs()]
    types = {each.name: each.type for each in session.get_inputs()}
    parts = []
    for feed in feeds:
        try:
            values = session.run(
                names, {n: _typed(a, types[n]) for n, a in feed.items() if n in types}
            )
        except Exception as problem:  # its exceptions share no base class of their own
            raise InputError(
                f"{path.name} does not run on ONNX Runtime",
                facts={"reason": _reason(problem, path)},
            ) from None
        parts.append(dict(zip(names, values, strict=True)))
    return joined(parts)


def joined(parts: list[FeedArrays]) -> Outputs:
    """Put batches one after another; an output without a batch is compared batch by batch too."""
    return {
        name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]
    }


def _open(path: Path) -> InferenceSession:
    """Load a model as it is written: optimizers must not hide what a conversion did."""
    onnxruntime = optional_library("onnxruntime")
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:
        raise CannotRunError(_reason(problem, path)) from None


def _reason(problem: Exception, path: Path) -> str:
    """Tell what ONNX Runtime says, without its numbers and without the folder of the job."""
    first = first_line(problem).replace(str(path), path.name)
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", first)


def _typed(array: NDArray[np.generic], wanted: str) -> NDArray[np.generic]:
    """Cast inputs to the type of a cast model."""
    if wanted == "tensor(float16)" and array.dtype == np.float32:
        return array.astype(np.float16)
    if wanted == "tensor(float)" and array.dtype == np.float16:
        return array.astype(np.float32)
    return array
