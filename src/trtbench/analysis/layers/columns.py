"""Tables of layers as plain rows, for CSV, JSON, Parquet and data frames; names say the unit."""

from __future__ import annotations

from collections.abc import Iterable

from trtbench.analysis.layers.difference import EngineDiff
from trtbench.analysis.layers.grouping import Group
from trtbench.analysis.layers.layer import Layer
from trtbench.domain.result import Scalar

Row = dict[str, Scalar]


def rows_from_layers(layers: Iterable[Layer]) -> list[Row]:
    """Write every fact of every layer; several ONNX nodes stand behind one another."""
    return [
        {
            "index": layer.index,
            "name": layer.name,
            "kind": layer.kind,
            "role": layer.role,
            "precision": layer.precision,
            "precision_in": layer.precision_in,
            "precision_out": layer.precision_out,
            "precision_basis": layer.precision_basis,
            "precision_asked": layer.asked,
            "shape_in": layer.shape_in,
            "shape_out": layer.shape_out,
            "average_s": layer.time_s,
            "median_s": layer.median_s,
            "min_s": layer.min_s,
            "max_s": layer.max_s,
            "share": layer.share,
            "flops": layer.flops,
            "traffic_bytes": layer.traffic_bytes,
            "flops_per_s": layer.flops_per_s,
            "bytes_per_s": layer.bytes_per_s,
            "roofline_share": layer.roofline,
            "bound": layer.bound,
            "weights": layer.weights,
            "stream": layer.stream,
            "region": layer.region,
            "tactic": layer.tactic,
            "operators": " ".join(layer.operators) or None,
            "onnx_nodes": " ".join(layer.nodes) or None,
        }
        for layer in layers
    ]


def rows_from_groups(groups: Iterable[Group], *, by: str) -> list[Row]:
    """Write groups, the key under its own name."""
    return [
        {
            by.partition(":")[0] if by.partition(":")[0].isalpha() else "pattern": group.name,
            "layers": group.layers,
            "average_s": group.seconds,
            "share": group.share,
            "flops": group.flops,
            "traffic_bytes": group.traffic_bytes,
            "precisions": group.precisions,
        }
        for group in groups
    ]


def rows_from_diff(diff: EngineDiff) -> list[Row]:
    """Write every piece of work of two engines, both sides beside one another."""
    timed = diff.delta_s is not None
    return [
        {
            "name_a": change.name_a,
            "name_b": change.name_b,
            "aligned_by": change.by,
            "role": change.role,
            "precision_a": change.precision_a,
            "precision_b": change.precision_b,
            "layers_a": len(change.a),
            "layers_b": len(change.b),
            "a_s": change.a_s if diff.a_s is not None and change.a else None,
            "b_s": change.b_s if diff.b_s is not None and change.b else None,
            "delta_s": change.delta_s if timed else None,
            "changed": ", ".join(change.changed) or None,
        }
        for change in diff.changes
    ]
