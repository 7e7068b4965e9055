"""ONNX files: opened with errors that name the way out, saved in one piece or with a data file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench import boundary
from trtbench.errors import InputError, writing
from trtbench.extras import optional_library

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

ONE_FILE_BYTES = 2**31 - 2**24
"""A protobuf message ends at 2 GiB; some room is left for what is not weights."""

SMALL_BYTES = 4096
"""Stored values up to this size are read even where weights are not: shapes hang on them."""


def load_onnx(path: Path, *, weights: bool = True) -> ModelProto:
    """Open an ONNX file; without weights, tensors kept in other files stay there unless small."""
    onnx = optional_library("onnx")
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model: ModelProto = onnx.load(str(path), load_external_data=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    except (DecodeError, ValueError) as problem:
        raise InputError(
            f"{path.name} is not an ONNX file, or it is damaged",
            facts={"reason": problem},
            fix="copy or export the model again",
        ) from None
    _refuse_other_text(model, path)
    if not model.graph.node and not model.graph.output:
        raise InputError(
            f"{path.name} is not an ONNX file: it has no graph",
            fix="copy or export the model again",
        )
    _fetch(model, path.parent, everything=weights)
    return model


def _refuse_other_text(model: ModelProto, path: Path) -> None:
    """Refuse names that are not UTF-8, which protobuf hands out as bytes."""
    if not all(isinstance(each, str) for each in _texts(model)):
        raise InputError(
            f"{path.name} is not an ONNX file, or it is damaged",
            facts={"reason": "a name in it is not UTF-8"},
            fix="copy or export the model again",
        )


def _texts(model: ModelProto) -> Iterator[object]:
    graph = model.graph
    yield from (model.producer_name, model.producer_version, model.domain, graph.name)
    for entry in (*model.metadata_props, *graph.metadata_props):
        yield from (entry.key, entry.value)
    for opset in model.opset_import:
        yield opset.domain
    for node in graph.node:
        yield from (node.op_type, node.name, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        yield from (each for entry in tensor.external_data for each in (entry.key, entry.value))


def external_files(model: ModelProto) -> tuple[str, ...]:
    """List names of the files that a model, loaded without weights, keeps tensors in."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    found = (
        ExternalDataInfo(tensor).location
        for tensor in stored_tensors(model.graph)
        if uses_external_data(tensor)
    )
    return tuple(
        str(boundary.check_name(name, what="file of weights")) for name in dict.fromkeys(found)
    )


def save_onnx(model: ModelProto, path: Path) -> tuple[Path, ...]:
    """Write a model in one file, or beside a ``.data`` file when it is too large for one."""
    import onnx

    large = stored_bytes(model) > ONE_FILE_BYTES
    data = path.with_name(path.name + ".data")
    with writing(path):
        data.unlink(missing_ok=True)  # onnx would append to it
        if large:
            onnx.save_model(model, str(path), save_as_external_data=True, location=data.name)
        else:
            onnx.save_model(model, str(path))
    return (path, data) if large else (path,)


def stored_bytes(model: ModelProto) -> int:
    """Count the bytes of stored values; protobuf itself cannot say so of more than 2 GiB."""
    return sum(
        len(each.raw_data)
        + 4 * (len(each.float_data) + len(each.int32_data))
        + 8 * (len(each.int64_data) + len(each.double_data) + len(each.uint64_data))
        for each in stored_tensors(model.graph)
    )


def check_onnx(path: Path) -> None:
    """Refuse a model that breaks the rules of ONNX or whose shapes contradict each other.

    Operators that ONNX does not define may be plugins of TensorRT, which has them in any domain.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
        reason = str(problem).strip().splitlines()
        if reason and reason[0].startswith("No Op registered for "):
            return
        raise InputError(
            f"{path.name} is not a valid ONNX model",
            facts={"reason": reason[0] if reason else "no reason given"},
            fix="export the model again",
        ) from None


def stored_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """List every tensor whose values are in a graph, those of subgraphs too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for each in subgraphs(node):
            yield from stored_tensors(each)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """List the bodies of If, Loop and Scan."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def sort_nodes(graph: GraphProto) -> None:
    """Put every node after those it reads from, its bodies' reading included."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [
        sorted({makers[name] for name in reads_of(node) if name in makers}) for node in graph.node
    ]
    order: dict[int, None] = {}
    for start in range(len(needs)):
        waiting = [start]
        while waiting:
            index = waiting[-1]
            missing = [each for each in needs[index] if each not in order]
            if (
                index in order or not missing or len(waiting) > len(needs)
            ):  # or a circle: left alone
                order[index] = None
                waiting.pop()
            else:
                waiting.extend(reversed(missing))
    if list(order) == list(range(len(needs))):
        return
    nodes = [graph.node[index] for index in order]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def reads_of(node: NodeProto) -> set[str]:
    """List names that a node reads, those its bodies take from outside too."""
    found = {name for name in node.input if name}
    for body in subgraphs(node):
        found |= {name for inner in body.node for name in reads_of(inner)}
        found |= {value.name for value in body.output}
    return found


def _fetch(model: ModelProto, folder: Path, *, everything: bool) -> None:
    from onnx.external_data_helper import (
        ExternalDataInfo,
        load_external_data_for_tensor,
        uses_external_data,
    )

    for tensor in stored_tensors(model.graph):
        if not uses_external_data(tensor):
            continue
        info = ExternalDataInfo(tensor)
        if not (everything or (info.length or SMALL_BYTES + 1) <= SMALL_BYTES):
            continue
        if not boundary.inside(folder, info.location, what="file of weights").is_file():
            if not everything:
                continue
            raise InputError(
                "the model keeps its weights in another file, which is not there",
                facts={"missing": folder / info.location},
                fix=f"put {Path(info.location).name} beside the model",
            )
        load_external_data_for_tensor(tensor, str(folder))
        tensor.ClearField("data_location")
        del tensor.external_data[:]
