"""Compares every intermediate tensor of two ONNX files on ONNX Runtime, a few at a time.

Tensors are matched by name: casts and quantizations of the same source keep the names. Graphs run
as they are written, without ONNX Runtime's optimizations, which would fuse what is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from trtbench.analysis.inputs import fixed_batch, has_rows
from trtbench.analysis.numeric import tensor_diff
from trtbench.build.cast_types import name_nodes
from trtbench.build.onnx_file import ONE_FILE_BYTES, load_onnx, save_onnx
from trtbench.build.onnx_read import input_specs, read_onnx
from trtbench.build.quantize_data import FeedArrays
from trtbench.domain.conversion import TensorDiff
from trtbench.domain.feed import LayerDrift, LayersOutcome, LayersSpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, first_line
from trtbench.extras import optional_library
from trtbench.host.unfinished import temporary_folder

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession


MOST_TENSORS = 64
"""To look at in one pass: loading a network again costs, and so does holding tensors."""

FOLLOWERS = (
    "Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu",
    "Gelu", "BatchNormalization", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose",
    "Identity", "Dropout", "Cast",
)  # fmt: skip
"""Operators that are computed, and quantized, with the one before them."""

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


@dataclass(frozen=True, kw_only=True)
class _Place:
    """One tensor of the reference, and where it comes from."""

    tensor: str
    node: str
    op: str
    position: int
    size_bytes: int | None


class Sized(Protocol):
    @property
    def size_bytes(self) -> int | None: ...


P = TypeVar("P", bound=Sized)


def compare_layers(spec: LayersSpec, *, stage: Stage) -> LayersOutcome:
    """Measure the drift of every tensor that both graphs have."""
    stage("load")
    reference, candidate = load_onnx(Path(spec.reference)), load_onnx(Path(spec.candidate))
    name_nodes(reference)
    feeds, items = _feeds(Path(spec.inputs), reference)
    places = list(_places(reference, Path(spec.reference), items))
    theirs = {name for node in candidate.graph.node for name in node.output if name}
    shared = [place for place in places if place.tensor in theirs]
    if not shared:
        raise InputError(
            "the two graphs have no tensor name in common",
            facts={"reference": spec.reference, "candidate": spec.candidate},
            fix="compare a model with what `trtbench quantize` made of it",
        )
    stage("measure")
    groups = list(grouped(shared, spec.memory_bytes))
    diffs: dict[str, TensorDiff] = {}
    for number, group in enumerate(groups, start=1):
        diffs |= _compared(reference, candidate, group, feeds)
        stage.progress(number / len(groups), f"{len(diffs)} of {len(shared)} tensors")
    own = {place.tensor for place in places}
    return LayersOutcome(
        drifts=_drifts(reference, shared, diffs),
        unmatched=tuple(place.tensor for place in places if place.tensor not in theirs),
        only_candidate=len(theirs - own),
        items=items,
        passes=len(groups),
    )


def _feeds(path: Path, model: ModelProto) -> tuple[list[FeedArrays], int]:
    """Read the items, cut to the batch where it is fixed."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    tensors = input_specs(model)
    rows = [each.name for each in tensors if has_rows(each, tensors)]
    items, fixed = len(arrays[rows[0]]) if rows else 1, fixed_batch(tensors)
    if not rows or not fixed or fixed == items:
        return [arrays], items
    return [
        {n: a[at : at + fixed] if n in rows else a for n, a in arrays.items()}
        for at in range(0, items - fixed + 1, fixed)
    ], items


def _places(model: ModelProto, path: Path, items: int) -> Iterator[_Place]:
    known = read_onnx(path, batch=items)
    tensors = {tensor.name: tensor for node in known.nodes for tensor in node.outputs}
    floating = {"float32", "float16", "float64", "bfloat16", None}
    for position, node in enumerate(model.graph.node):
        if node.op_type in ("Constant", "QuantizeLinear"):
            continue
        for name in node.output:
            tensor = tensors.get(name)
            if name and (tensor is None or tensor.dtype in floating):
                size = tensor.size_bytes if tensor is not None else None
                yield _Place(
                    tensor=name, node=node.name, op=node.op_type, position=position, size_bytes=size
                )


def grouped(places: Sequence[P], memory_bytes: int) -> Iterator[list[P]]:
    """Put tensors together that fit into the memory; one of unknown size counts an eighth."""
    group: list[P] = []
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


def _compared(
    reference: ModelProto,
    candidate: ModelProto,
    group: Sequence[_Place],
    feeds: Sequence[FeedArrays],
) -> dict[str, TensorDiff]:
    names = [place.tensor for place in group]
    wanted, found = (_run(model, names, feeds) for model in (reference, candidate))
    return {
        name: tensor_diff(wanted[name], found[name], name=name)
        for name in names
        if wanted[name].dtype.kind == "f" and found[name].dtype.kind == "f"
    }


def _run(model: ModelProto, names: Sequence[str], feeds: Sequence[FeedArrays]) -> FeedArrays:
    session = session_of(model, names)
    parts = [outputs_of(session, names, feed) for feed in feeds]
    return {name: np.concatenate([np.atleast_1d(p[name]) for p in parts]) for name in names}


def outputs_of(session: InferenceSession, names: Sequence[str], feed: FeedArrays) -> FeedArrays:
    """Run a session once; floating-point arrays take the type of the input."""
    types = {each.name: _TYPES.get(each.type) for each in session.get_inputs()}
    typed = {
        name: array.astype(types[name]) if types[name] and array.dtype.kind == "f" else array
        for name, array in feed.items()
        if name in types
    }
    try:
        values = session.run(list(names), typed)
    except Exception as problem:  # its exceptions share no base class of their own
        raise InputError(
            "ONNX Runtime does not run the graph", facts={"reason": first_line(problem)}
        ) from None
    return dict(zip(names, values, strict=True))


def session_of(model: ModelProto, names: Sequence[str]) -> InferenceSession:
    """Load a graph as it is written, with these tensors as its outputs."""
    onnxruntime = optional_library("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    _set_outputs(model, names)
    providers = ["CPUExecutionProvider"]
    try:
        if model.ByteSize() < ONE_FILE_BYTES:
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)
        with temporary_folder() as folder:
            path, *_ = save_onnx(model, folder / "model.onnx")
            return onnxruntime.InferenceSession(str(path), options, providers)
    except Exception as problem:
        raise InputError(
            "ONNX Runtime does not take the graph", facts={"reason": first_line(problem)}
        ) from None


def _set_outputs(model: ModelProto, names: Sequence[str]) -> None:
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


def _drifts(
    model: ModelProto, places: Sequence[_Place], diffs: dict[str, TensorDiff]
) -> tuple[LayerDrift, ...]:
    inputs = {node.name: list(node.input) for node in model.graph.node}
    owners = _owners(model)
    found = []
    for place in places:
        diff = diffs.get(place.tensor)
        if diff is None:
            continue
        earlier = [
            known.rel_l2
            for name in inputs[place.node]
            if (known := diffs.get(name)) is not None and known.rel_l2 is not None
        ]
        before = max(earlier, default=0.0)
        own = diff.rel_l2
        found.append(
            LayerDrift(
                node=place.node,
                op=place.op,
                position=place.position,
                diff=diff,
                before=before,
                owner=owners[place.node],
                added=None if own is None else math.sqrt(max(0.0, own**2 - before**2)),
            )
        )
    return tuple(found)


def _owners(model: ModelProto) -> dict[str, str]:
    """Map every node's name to that of the node it is computed with."""
    makers: dict[str, str] = {}
    owners: dict[str, str] = {}
    for node in model.graph.node:
        first = makers.get(node.input[0]) if node.input else None
        owner = first if first is not None and node.op_type in FOLLOWERS else node.name
        owners[node.name] = owner
        makers |= dict.fromkeys(node.output, owner)
    return owners
