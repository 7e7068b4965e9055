"""Shapes as people write them, as the optimization profiles of an engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.analysis.open_shapes import (
    assumption,
    refuse_open,
    with_assumed_shapes,
    with_same_dims,
)
from trtbench.domain.spec import ShapeProfile, TensorSpec
from trtbench.errors import TrtbenchError, UsageError
from trtbench.models.onnx_outline import sides_of
from trtbench.runtimes._session import demand_room_for_batch, with_batch
from trtbench.units import text_from_shape

Shapes = Mapping[str, Sequence[int]]
InputShapes = Sequence[tuple[str | None, Sequence[int]]]

_NUMBER = re.compile(r"-1|\d+")

BATCHES = (1, 128, 256)
"""Least, best and largest batch that -1 stands for."""


def all_profiles(*ends: Shapes | Sequence[Shapes] | None) -> list[dict[str, ShapeProfile]]:
    """List every profile; one whose shapes are not all given takes the rest from the first."""
    lists = [[end] if isinstance(end, Mapping) else list(end or ()) for end in ends]
    count = max(1, *map(len, lists))
    padded = [[*each, *({} for _ in range(count - len(each)))] for each in lists]
    return [profiles_from_shapes(*shapes) for shapes in zip(*padded, strict=True)]


def spans_of_batches(given: InputShapes, model: Path) -> dict[str, ShapeProfile]:
    """Read -1 as the toolkits do: a batch of 1 to 256, best at 128; other shapes are fixed."""
    spans = {}
    for name, dims in given:
        if any(dim < 0 for dim in dims[1:]):
            raise UsageError(
                "only the batch, the first dimension, can be -1",
                facts={"shape": " ".join(map(str, dims))},
                fix="--shape-min, --shape-opt and --shape-max for other dynamic dimensions",
            )
        ends = BATCHES if dims[0] < 0 else (dims[0],) * 3
        low, best, high = ((end, *dims[1:]) for end in ends)
        spans[name or _only_input(model)] = ShapeProfile(min=low, opt=best, max=high)
    return spans


def input_shape_from_text(text: str) -> tuple[str | None, tuple[int, ...]]:
    """Read ``-1x3x224x224`` or ``NAME:-1x3x224x224``; without a name it is the only input."""
    name, _, dims = text.rpartition(":")
    words = re.split(r"[x ,]+", dims.strip())
    if not all(_NUMBER.fullmatch(word) for word in words):
        raise UsageError(
            f"--input-shape {text} cannot be read", fix="write it like --input-shape -1 3 224 224"
        )
    return name or None, tuple(int(word) for word in words)


def _only_input(model: Path) -> str:
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_read import input_specs

    inputs = input_specs(load_onnx(model, weights=False))
    if len(inputs) != 1:
        raise UsageError(
            "the model has several inputs: say whose shape it is",
            facts={"inputs": ", ".join(each.name for each in inputs)},
            fix=" ".join(f"--input-shape {shlex.quote(_example(each))}" for each in inputs),
        )
    return inputs[0].name


def _example(tensor: TensorSpec) -> str:
    """Write an input as ``--input-shape`` takes it: the batch open, other open dimensions 8."""
    rest = (str(dim) if isinstance(dim, int) else "8" for dim in tensor.shape[1:])
    first = (str(dim) if isinstance(dim, int) else "-1" for dim in tensor.shape[:1])
    return f"{tensor.name}:{'x'.join((*first, *rest))}"


def profiles_from_shapes(least: Shapes, best: Shapes, most: Shapes) -> dict[str, ShapeProfile]:
    """Put ranges together; what is not given is taken from its nearest neighbour."""
    profiles = {}
    for name in dict.fromkeys([*least, *best, *most]):
        opt = tuple(best.get(name) or most.get(name) or least[name])
        low, high = tuple(least.get(name) or opt), tuple(most.get(name) or opt)
        fits = len(low) == len(opt) == len(high) and all(
            a <= b <= c for a, b, c in zip(low, opt, high, strict=True)
        )
        if not fits:
            shown = {"min": low, "opt": opt, "max": high}
            raise UsageError(
                f"the shapes of {name!r} do not rise from min over opt to max",
                facts={key: text_from_shape(dims) for key, dims in shown.items()},
            )
        profiles[name] = ShapeProfile(min=low, opt=opt, max=high)
    return profiles


def assumed_spans(
    model: Path, given: Mapping[str, ShapeProfile], *, batch: int | None = None
) -> tuple[dict[str, ShapeProfile], str | None]:
    """Settle open inputs nobody gave a shape: one profile of the assumed sizes, and a word on it.

    With ``batch`` they are for so many items, else for one. Inputs that suggest no size are
    refused: a builder, or trtexec in silence, would take ones.
    """
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_read import input_specs

    try:
        inputs = input_specs(load_onnx(model, weights=False))
    except TrtbenchError:  # what is wrong with the model is said by whoever builds from it
        return {}, None
    demand_room_for_batch([each for each in inputs if each.name not in given], batch=batch)
    ends = []
    for end in ("min", "opt", "max"):
        told = _at_end(inputs, given, end, batch=batch)
        settled = with_assumed_shapes(told, sides=sides_of(model, told))
        refuse_open(settled, flag="--shape-opt")
        ends.append({each.name: _dims(each) for each in settled})
        if end == "opt":
            note = assumption(told, settled)
    spans = {
        each.name: ShapeProfile(min=low[each.name], opt=best[each.name], max=high[each.name])
        for each in inputs
        for low, best, high in (ends,)
        if each.name not in given and not each.is_static
    }
    return spans, note and note.replace("--shape ", "--shape-opt ")


def _at_end(
    inputs: Sequence[TensorSpec], given: Mapping[str, ShapeProfile], end: str, *, batch: int | None
) -> tuple[TensorSpec, ...]:
    """Fill in one end of the ranges; a dimension of the same name goes along with it."""
    shapes = {name: getattr(span, end) for name, span in given.items()}
    told = [
        each.having(shape=shapes[each.name]) if each.name in given else with_batch(each, batch)
        for each in inputs
    ]
    return with_same_dims(inputs, told)


def fixed_spans(shapes: Shapes) -> dict[str, ShapeProfile]:
    """Make profiles that hold one shape each."""
    return {
        name: ShapeProfile(min=tuple(dims), opt=tuple(dims), max=tuple(dims))
        for name, dims in shapes.items()
    }


def _dims(tensor: TensorSpec) -> tuple[int, ...]:
    return tuple(dim for dim in tensor.shape if isinstance(dim, int))
