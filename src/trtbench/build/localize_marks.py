"""Marks tensors of an ONNX file as outputs, so that a builder hands them out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from trtbench.build.cast_types import tensor_types
from trtbench.build.onnx_file import load_onnx, save_onnx
from trtbench.domain.samples import EngineGraph
from trtbench.errors import InputError


def write_marked(source: Path, tensors: Sequence[str], target: Path) -> Path:
    """Write a copy of a model that gives these tensors beside its own outputs, which come first."""
    from onnx import helper

    model = load_onnx(source)
    types = tensor_types(model)
    own = {value.name for value in model.graph.output}
    for name in tensors:
        if name in own:
            continue
        if not types.get(name):
            raise InputError(f"the type of the tensor {name} of {source.name} is not known")
        model.graph.output.append(helper.make_tensor_value_info(name, types[name], None))
    save_onnx(model, target)
    return target


def layer_boundaries(graph: EngineGraph, tensors: Collection[str]) -> list[str]:
    """Keep the tensors that lie between layers of an engine: no fused layer hides them."""
    there = {each.name for layer in graph.layers for each in layer.outputs}
    return [name for name in tensors if name in there]


def evenly(names: Sequence[str], most: int) -> list[str]:
    """Choose so many at most, spread over all."""
    step = max(1, -(-len(names) // most))
    return [*names[step - 1 :: step]]


def between(names: Sequence[str], low: str | None, high: str) -> list[str]:
    """List the names after one and up to another."""
    start = names.index(low) + 1 if low in names else 0
    stop = names.index(high) if high in names else len(names)
    return list(names[start:stop])
