"""The contents of model and engine files as values for terminal, JSON and CSV."""

from collections import Counter

from trtbench.analysis.onnx_graph import (
    PREFIX,
    ModelCost,
    OnnxModel,
    notes_from_metadata,
    stamp_from_metadata,
)
from trtbench.core.results import ShortView
from trtbench.core.run import Scalar
from trtbench.core.samples import EngineGraph, TensorInfo
from trtbench.core.spec import TensorSpec, Value
from trtbench.layers.diff import rows_from_layers
from trtbench.layers.join import join_layers
from trtbench.layers.table import groups_of

LISTED = ("name", "kind", "precision", "shape_out", "weights", "tactic", "stream", "onnx_nodes")
"""Columns of layers, by their names in the table of ``trtbench profile``."""


class InspectionTable(Value, frozen=True, kw_only=True):
    """A table; columns whose names end in ``_bytes`` or ``_s`` have that unit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]


class Inspection(ShortView, Value, frozen=True, kw_only=True):
    """The contents of one model, engine or profile."""

    kind: str
    path: str
    facts: dict[str, Scalar]
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    summary: InspectionTable | None = None
    layers: InspectionTable | None = None
    options: InspectionTable | None = None  # of a build, as its log prints them
    notes: tuple[str, ...] = ()


def inspection_from_onnx(model: OnnxModel, cost: ModelCost, *, path: str) -> Inspection:
    """Describe an ONNX model, with the estimated cost of every node."""
    domains = {domain: version for domain, version in model.opsets.items() if domain}
    stored = (f"{n:,} {t}".replace(",", " ") for t, n in model.weights_by_type.items())
    facts: dict[str, Scalar] = {
        "opset": model.opset,
        "other_domains": ", ".join(f"{d} {version}" for d, version in domains.items()) or None,
        "ir_version": model.ir_version,
        "producer": model.producer,
        "nodes": len(model.nodes),
        "parameters": model.parameters,
        "stored_as": ", ".join(stored) or None,
        "weight_bytes": model.weight_bytes,
        "external_files": ", ".join(model.external_files) or None,
        "flops": cost.flops,
        "traffic_bytes": cost.traffic_bytes,
        "fused_traffic_bytes": cost.fused_bytes,
        "estimated_for": ", ".join(f"{k}={v}" for k, v in model.assumed.items()) or None,
        **stamp_from_metadata(model.metadata),
    }
    # The file's own metadata never replaces facts that were read from the graph.
    own = {k: v for k, v in model.metadata.items() if not k.startswith(PREFIX) and k not in facts}
    counts, flops = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for node in cost.nodes:
        counts[node.op, node.precision] += 1
        flops[node.op, node.precision] += node.flops or 0
    operators = tuple(  # shares are of the operations that could be counted
        (*key, count, flops[key], flops[key] / (cost.flops or 1))
        for key, count in counts.most_common()
    )
    measures = (
        "precision", "output", "flops", "read_bytes", "weight_bytes", "written_bytes", "intensity",
    )  # fmt: skip
    unknown = (f"operations not counted: {', '.join(cost.unknown)}",) if cost.unknown else ()
    return Inspection(
        kind="onnx",
        path=path,
        facts={**facts, **own},
        inputs=model.inputs,
        outputs=model.outputs,
        summary=InspectionTable(
            columns=("operator", "precision", "count", "flops", "flops_share"), rows=operators
        ),
        layers=InspectionTable(
            columns=("node", "operator", *measures[:-1], "flops_per_byte"),
            rows=tuple(
                (node.name, node.op, *(getattr(node, name) for name in measures))
                for node in cost.nodes
            ),
        ),
        notes=(*model.notes, *notes_from_metadata(model.metadata), *unknown),
    )


def inspection_from_graph(graph: EngineGraph, *, path: str) -> Inspection:
    """Describe the layers of an engine, and count them by kind."""
    inputs, outputs = io_specs(graph)
    known = {each.name for each in (*inputs, *outputs)}
    table = join_layers(None, graph)
    streams = {layer.stream for layer in graph.layers if layer.stream is not None}
    rows = tuple(tuple(row.values()) for row in rows_from_layers(table.layers, LISTED))
    groups = groups_of(table, "kind")
    return Inspection(
        kind="layers",
        path=path,
        facts={
            "layers": len(graph.layers),
            "io_tensors": ", ".join(each for each in graph.io_tensors if each not in known) or None,
            "parameters": parameter_count(graph),
            "streams": len(streams) or None,
        },
        inputs=inputs,
        outputs=outputs,
        summary=InspectionTable(
            columns=("kind", "count", "computes_in"),
            rows=tuple((each.name, int(each.layers), each.precisions) for each in groups),
        ),
        layers=InspectionTable(columns=LISTED, rows=rows),
        notes=() if graph.detailed else ("built with layer names only: all else is unknown",),
    )


def io_specs(graph: EngineGraph) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the engine's inputs and its outputs that are tensors of the layers."""
    read = {each.name: each for layer in graph.layers for each in layer.inputs}
    made = {each.name: each for layer in graph.layers for each in layer.outputs}
    inputs = [read[name] for name in graph.io_tensors if name in read and name not in made]
    outputs = [made[name] for name in graph.io_tensors if name in made]
    names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}

    def spec(tensor: TensorInfo) -> TensorSpec:
        dims = tuple(None if dim < 0 else dim for dim in tensor.dimensions)
        dtype = tensor.dtype or "unknown"
        return TensorSpec(name=tensor.name, dtype=names.get(dtype, dtype), shape=dims)

    return tuple(map(spec, inputs)), tuple(map(spec, outputs))


def parameter_count(graph: EngineGraph) -> int | None:
    """Return the number of parameters by the engine inspector; ``None`` if it has none."""
    counts = [each.weights_count for each in graph.layers if each.weights_count is not None]
    return sum(counts) if counts else None
