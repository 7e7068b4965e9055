"""What is known about a file, as values that a screen, a JSON document or a CSV can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trtbench.analysis.flops import ModelCost
from trtbench.analysis.memory import MemoryUse
from trtbench.analysis.onnx_graph import OnnxModel
from trtbench.analysis.onnx_stamp import PREFIX, notes_from_metadata, stamp_from_metadata
from trtbench.domain.result import Scalar
from trtbench.domain.samples import EngineGraph, LayerInfo, LayerProfile, TensorInfo
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import TensorSpec, Value
from trtbench.units import text_from_bytes

_NUMPY = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


class InspectionTable(Value, frozen=True, kw_only=True):
    """Rows under named columns; a name that ends in ``_bytes`` or ``_s`` says the unit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]


class Inspection(ShortView, Value, frozen=True, kw_only=True):
    """One file, looked into."""

    kind: str
    path: str
    facts: dict[str, Scalar]
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    summary: InspectionTable | None = None
    """Operators or layers, counted."""
    layers: InspectionTable | None = None
    """Every one of them."""
    memory: MemoryUse | None = None
    """What an engine takes of a GPU, part by part, and how many fit; facts have it in words."""
    notes: tuple[str, ...] = ()


def first_layers(found: Inspection, top: int | None) -> Inspection:
    """Keep the first so many nodes or layers; ``None`` keeps all."""
    if top is None or found.layers is None:
        return found
    return found.having(layers=found.layers.having(rows=found.layers.rows[:top]))


def inspection_from_onnx(model: OnnxModel, cost: ModelCost, *, path: str) -> Inspection:
    """Describe an ONNX model with estimates for every node."""
    own = {k: v for k, v in model.metadata.items() if not k.startswith(PREFIX)}
    return Inspection(
        kind="onnx",
        path=path,
        facts=_later(
            own,
            {
                "opset": model.opset,
                "other_domains": _domains(model),
                "ir_version": model.ir_version,
                "producer": model.producer,
                "nodes": len(model.nodes),
                "parameters": model.parameters,
                "stored_as": ", ".join(
                    f"{n:,} {t}".replace(",", " ") for t, n in model.weights_by_type.items()
                )
                or None,
                "weight_bytes": model.weight_bytes,
                "external_files": ", ".join(model.external_files) or None,
                "flops": cost.flops,
                "traffic_bytes": cost.traffic_bytes,
                "fused_traffic_bytes": cost.fused_bytes,
                "estimated_for": ", ".join(f"{k}={v}" for k, v in model.assumed.items()) or None,
                **stamp_from_metadata(model.metadata),
            },
        ),
        inputs=model.inputs,
        outputs=model.outputs,
        summary=_operator_table(model, cost),
        layers=_node_table(cost),
        notes=(*model.notes, *notes_from_metadata(model.metadata), *_unknown_notes(cost)),
    )


def _later(more: dict[str, str], facts: dict[str, Scalar]) -> dict[str, Scalar]:
    """Put what a file says of itself behind what was found in it, never in its place."""
    return {**facts, **{key: value for key, value in more.items() if key not in facts}}


def _domains(model: OnnxModel) -> str | None:
    others = {domain: version for domain, version in model.opsets.items() if domain}
    return ", ".join(f"{domain} {version}" for domain, version in others.items()) or None


def _unknown_notes(cost: ModelCost) -> tuple[str, ...]:
    if not cost.unknown:
        return ()
    return (f"operations not counted: {', '.join(cost.unknown)}",)


def _operator_table(model: OnnxModel, cost: ModelCost) -> InspectionTable:
    """Count by kind and precision; the share is of the operations that could be counted."""
    flops: Counter[tuple[str, str]] = Counter()
    for node in cost.nodes:
        flops[node.op, node.precision] += node.flops or 0
    total = cost.flops or 1
    rows = tuple(
        (op, precision, count, flops[op, precision], flops[op, precision] / total)
        for (op, precision), count in model.operators().items()
    )
    return InspectionTable(
        columns=("operator", "precision", "count", "flops", "flops_share"), rows=rows
    )


def _node_table(cost: ModelCost) -> InspectionTable:
    columns = (
        "node", "operator", "precision", "output", "flops", "read_bytes", "weight_bytes",
        "written_bytes", "flops_per_byte",
    )  # fmt: skip
    rows = tuple(
        (
            node.name, node.op, node.precision, node.output, node.flops, node.read_bytes,
            node.weight_bytes, node.written_bytes, node.intensity,
        )
        for node in cost.nodes
    )  # fmt: skip
    return InspectionTable(columns=columns, rows=rows)


def inspection_from_graph(graph: EngineGraph, *, path: str) -> Inspection:
    """Describe the layers of an engine."""
    counted = parameters_of(graph)
    inputs, outputs = edges_of(graph)
    told = {each.name for each in (*inputs, *outputs)}
    notes = () if graph.detailed else ("built with layer names only: nothing else is told",)
    return Inspection(
        kind="layers",
        path=path,
        facts={
            "layers": len(graph.layers),
            "io_tensors": ", ".join(each for each in graph.io_tensors if each not in told) or None,
            "parameters": counted,
            "streams": len({layer.stream for layer in graph.layers if layer.stream is not None})
            or None,
        },
        inputs=inputs,
        outputs=outputs,
        summary=layer_summary(graph),
        layers=layer_table(graph),
        notes=notes,
    )


def edges_of(graph: EngineGraph) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Find inputs and outputs among the tensors of the layers; what no layer tells is left out."""
    read = {each.name: each for layer in graph.layers for each in layer.inputs}
    made = {each.name: each for layer in graph.layers for each in layer.outputs}
    inputs = [read[name] for name in graph.io_tensors if name in read and name not in made]
    outputs = [made[name] for name in graph.io_tensors if name in made]
    return tuple(map(_edge, inputs)), tuple(map(_edge, outputs))


def _edge(tensor: TensorInfo) -> TensorSpec:
    dims = tuple(None if dim < 0 else dim for dim in tensor.dimensions)
    dtype = tensor.dtype or "unknown"
    return TensorSpec(name=tensor.name, dtype=_NUMPY.get(dtype, dtype), shape=dims)


def layer_summary(graph: EngineGraph) -> InspectionTable:
    """Count layers by kind and by the type they give."""
    kinds = Counter((each.type or "unknown", layer_precision(each)) for each in graph.layers)
    weights: Counter[tuple[str, str]] = Counter()
    for each in graph.layers:
        weights[each.type or "unknown", layer_precision(each)] += each.weights_count or 0
    rows = tuple(
        (kind, precision, count, weights[kind, precision] or None)
        for (kind, precision), count in kinds.most_common()
    )
    return InspectionTable(columns=("layer", "precision", "count", "parameters"), rows=rows)


def layer_table(graph: EngineGraph) -> InspectionTable:
    """List every layer in the order of execution."""
    rows = tuple(
        (
            each.name, each.type, layer_precision(each), _dims(each), each.weights_count,
            each.tactic, each.stream, " ".join(each.origin) or None,
        )
        for each in graph.layers
    )  # fmt: skip
    columns = ("name", "layer", "precision", "output", "parameters", "tactic", "stream", "origin")
    return InspectionTable(columns=columns, rows=rows)


def layer_precision(layer: LayerInfo) -> str:
    """Find the type a layer gives, with the type it takes where the two differ."""
    taken = next((each.dtype for each in layer.inputs if each.dtype), None)
    given = next((each.dtype for each in layer.outputs if each.dtype), None)
    if taken and given and taken != given:
        return f"{taken} to {given}"
    return given or taken or "unknown"


def _dims(layer: LayerInfo) -> str | None:
    return "x".join(map(str, layer.outputs[0].dimensions)) if layer.outputs else None


def parameters_of(graph: EngineGraph) -> int | None:
    """Count parameters the inspector tells; ``None`` when it tells none."""
    counts = [each.weights_count for each in graph.layers if each.weights_count is not None]
    return sum(counts) if counts else None


def parameter_difference(graph: EngineGraph, model: OnnxModel) -> tuple[str, ...]:
    """Say why the parameters of an engine and of its ONNX file differ, if they do."""
    counted = parameters_of(graph)
    if counted == model.parameters:
        return ()
    if counted is None:
        return (f"the engine tells no parameters; its ONNX file has {model.parameters}",)
    more = "more" if counted > model.parameters else "fewer"
    head = (
        f"the engine tells {counted} parameters, {abs(counted - model.parameters)} {more} than the "
        f"{model.parameters} of its ONNX file"
    )
    return (head, *_reasons(graph, model, counted))


def weight_difference(
    held: int | None, model: OnnxModel, *, precision: str | None
) -> tuple[str, ...]:
    """Say why the bytes of weights of an engine and of its ONNX file differ, if they do."""
    stored = model.weight_bytes
    if not held or not stored or text_from_bytes(held) == text_from_bytes(stored):
        return ()
    low = precision if precision in ("fp16", "bf16", "int8", "fp8") else None
    reason = "weights are padded, folded, or kept more than once"
    if held < stored:
        reason = f"stored in {low}" if low else "the rest is folded away or not stored as weights"
    sizes = f"{text_from_bytes(held)} of weights, its ONNX file {text_from_bytes(stored)}"
    return (f"the engine holds {sizes}: {reason}",)


def _reasons(graph: EngineGraph, model: OnnxModel, counted: int) -> Iterable[str]:
    folded = [node for node in model.nodes if node.op == "BatchNormalization"]
    if folded:
        size = sum(each.elements or 0 for node in folded for each in node.inputs[1:])
        yield f"{len(folded)} batch norms ({size} parameters) are folded into convolutions"
    silent = sum(1 for each in graph.layers if each.weights_count is None and _may_have(each))
    if silent and counted < model.parameters:
        yield f"{silent} fused layers (Myelin and the like) do not tell theirs"
    if counted > model.parameters:
        yield "weights may be padded, or stored once for every layer that uses them"


def _may_have(layer: LayerInfo) -> bool:
    kind = (layer.type or "").lower()
    return kind in ("", "kgen", "gemm", "fusion", "conv", "myelin") or "foreign" in kind


def inspection_from_profile(profile: LayerProfile, *, path: str) -> Inspection:
    """Describe the times of layers."""
    rows = tuple((each.name, each.average_s, each.median_s, each.share) for each in profile.layers)
    slowest = sorted(profile.layers, key=lambda each: -each.average_s)[:10]
    return Inspection(
        kind="profile",
        path=path,
        facts={
            "layers": len(profile.layers),
            "iterations": profile.count,
            "sum_s": sum(each.average_s for each in profile.layers),
        },
        summary=InspectionTable(
            columns=("slowest", "average_s", "share"),
            rows=tuple((each.name, each.average_s, each.share) for each in slowest),
        ),
        layers=InspectionTable(columns=("name", "average_s", "median_s", "share"), rows=rows),
    )
