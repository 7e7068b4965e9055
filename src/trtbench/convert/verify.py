"""Runs ONNX files on ONNX Runtime's CPU and compares them.

Graphs run without optimizations, which would fuse the compared tensors and hide the effect of a
conversion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.check import tensor_diffs
from trtbench.analysis.onnx_graph import OnnxTensor
from trtbench.convert.calibration import FeedArrays, FeedFile
from trtbench.core.errors import InputError, first_line
from trtbench.core.jobs import Stage
from trtbench.core.plugins import optional_library
from trtbench.core.results import VerifyOutcome, VerifySpec
from trtbench.host.files import temporary_folder
from trtbench.host.machine import library_versions
from trtbench.models.onnx_model import ONE_FILE_BYTES, check_onnx, save_onnx
from trtbench.models.onnx_session import CPU, open_onnx

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

MOST_TENSORS = 64
"""Tensors per pass: fewer mean loading the network more often, more need more memory."""
FOLLOWERS = (
    "Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu",
    "Gelu", "BatchNormalization", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose",
    "Identity", "Dropout", "Cast",
)  # fmt: skip
"""Operators that are computed, and quantized, together with the one before them."""
_NUMBERS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class CannotRunError(Exception):
    """ONNX Runtime lacks an operator or type of the model; the model may still be valid."""


def verify(spec: VerifySpec, *, folder: Path, stage: Stage) -> VerifyOutcome:
    """Check a model, run it on every batch of inputs, and compare all outputs at once."""
    stage("load")
    path, reference = Path(spec.model), Path(spec.reference)
    check_onnx(path, source=reference if reference.suffix == ".onnx" else None)
    outcome = VerifyOutcome(versions=library_versions(("onnx", "onnxruntime", "numpy")))
    stage("compare")
    feeds = FeedFile(Path(spec.inputs))
    drawn = reference.suffix != ".npz"
    try:
        found = run_all(path, feeds)
        wanted = run_all(reference, feeds) if drawn else _joined(list(FeedFile(reference)))
    except CannotRunError as problem:
        return outcome.having(problem=str(problem))
    return outcome.having(diffs=tensor_diffs(wanted, found, rtol=spec.rtol, atol=spec.atol))


def refuse_unloadable(path: Path, source: Path) -> None:
    """Raise if ONNX Runtime loads a model but not what was made of it; kernels may be missing."""
    try:
        _session(str(path))
    except Exception as problem:
        if re.search("NOT_IMPLEMENTED|not a registered", str(problem)):
            return
        try:
            _session(str(source))
        except Exception:  # such as a plug-in of TensorRT, which ONNX Runtime does not know
            return
        raise InputError(
            "the result would not be valid, so it was not written",
            facts={"reason": _NUMBERS.sub("", first_line(problem))},
            fix="keep the node it names as it was: --exclude NODE, for casts --keep NODE",
        ) from None


def run_all(path: Path, feeds: Iterable[FeedArrays]) -> FeedArrays:
    """Run a model on every batch; returns the outputs joined along the first axis."""
    try:
        session = _session(str(path))
    except Exception as problem:  # its exceptions share no base class of their own
        reason = first_line(problem).replace(str(path), path.name)  # not the folder of the job
        raise CannotRunError(_NUMBERS.sub("", reason)) from None
    names = [each.name for each in session.get_outputs()]
    return _joined([run_session(session, names, feed) for feed in feeds])


def _joined(parts: list[FeedArrays]) -> FeedArrays:
    """Concatenate batches; outputs whose sizes depend on the data become one row of numbers."""
    joined = {}
    for name in parts[0]:
        rows = [np.atleast_1d(each[name]) for each in parts]
        alike = len({row.shape[1:] for row in rows}) == 1
        joined[name] = np.concatenate(rows if alike else [row.ravel() for row in rows])
    return joined


def _session(source: bytes | str, *, optimized: bool = False) -> InferenceSession:
    onnxruntime = optional_library("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # many short runs
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return open_onnx(source, options, providers=[CPU])


def session_of(model: ModelProto, names: Sequence[str], **how: bool) -> InferenceSession:
    """Return a session of a graph with these tensors as outputs, ``optimized`` or as it is."""
    from onnx import ValueInfoProto

    known = {each.name: each for each in (*model.graph.value_info, *model.graph.output)}
    chosen = []
    for name in names:
        value = ValueInfoProto()
        if name in known:
            value.CopyFrom(known[name])
            if value.type.tensor_type.HasField("shape"):
                value.type.tensor_type.ClearField("shape")  # inferred shapes may be too narrow
        value.name = name
        chosen.append(value)
    del model.graph.output[:]
    model.graph.output.extend(chosen)
    try:
        if model.ByteSize() < ONE_FILE_BYTES:
            return _session(model.SerializeToString(), **how)
        with temporary_folder() as folder:
            return _session(str(save_onnx(model, folder / "model.onnx")[0]), **how)
    except Exception as problem:
        message = "ONNX Runtime does not accept the graph"
        raise InputError(message, facts={"reason": first_line(problem)}) from None


def run_session(session: InferenceSession, names: Sequence[str], feed: FeedArrays) -> FeedArrays:
    """Run a session once; floating-point inputs are converted to the expected type."""
    types = {each.name: _TYPES.get(each.type) for each in session.get_inputs()}
    taken = {
        name: array.astype(types[name]) if types[name] and array.dtype.kind == "f" else array
        for name, array in feed.items()
        if name in types
    }
    try:
        values = session.run(list(names), taken)
    except Exception as problem:
        reason = _NUMBERS.sub("", first_line(problem))
        fix = "--data data.npz with inputs that it accepts, or other shapes with --shape"
        message = "ONNX Runtime does not run the model on these inputs"
        raise InputError(message, facts={"reason": reason}, fix=fix) from None
    return dict(zip(names, values, strict=True))


def grouped(places: Sequence[OnnxTensor], memory_bytes: int) -> Iterator[list[OnnxTensor]]:
    """Yield groups of tensors that fit into memory; an unknown size counts as an eighth of it."""
    group: list[OnnxTensor] = []
    held = 0
    for place in places:
        size = place.size_bytes if place.size_bytes is not None else memory_bytes // 8
        if group and (held + size > memory_bytes or len(group) == MOST_TENSORS):
            yield group
            group, held = [], 0
        group.append(place)
        held += size
    if group:
        yield group
