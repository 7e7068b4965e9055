"""Shapes of the cases of a sweep: what was given, with the dimensions that are axes filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from trtbench.analysis.open_shapes import is_open
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import input_specs
from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, TrtbenchError, UsageError
from trtbench.tasks import TASKS
from trtbench.tasks.contract import DataSource, completed
from trtbench.units import text_from_shape
from trtbench.workflows.make.export import input_shapes
from trtbench.workflows.sweep.matrix import Case, Matrix

Dims = Mapping[str, Scalar]
Shapes = dict[str, tuple[int, ...]]


def shapes_of_case(matrix: Matrix, case: Case, *, onnx: Path | None) -> Shapes:
    """Settle the shapes of a case; of an ONNX file, dimensions are known by their names too."""
    return shapes_with(matrix, case.own("shape."), batch=case.batch, onnx=onnx)


def shapes_with(matrix: Matrix, dims: Dims, *, batch: int | None, onnx: Path | None) -> Shapes:
    """Fill dimensions in, those of a sweep's shapes and those that an ONNX file leaves open."""
    found = {name: _filled(name, shape, dims) for name, shape in matrix.shapes.items()}
    found = {name: (batch or shape[0], *shape[1:]) for name, shape in found.items()}
    whole = {name: text for name, text in dims.items() if isinstance(text, str)}
    found |= {name: _shape_from_text(name, text) for name, text in whole.items()}
    for tensor in _open_inputs(onnx, dims) if onnx is not None else ():
        if tensor.name not in found:
            shape = tuple(_named(dim, dims) for dim in tensor.shape)
            first = shape[0] if isinstance(shape[0], int) else batch or 1
            found[tensor.name] = _filled(tensor.name, (first, *shape[1:]), dims)
    return found


def _shape_from_text(name: str, text: str) -> tuple[int, ...]:
    """Read a whole shape, as an axis has it."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text, re.ASCII):
        raise UsageError(f"shape.{name} = {text} is no shape", fix=f"shape.{name} = 1x3x224x224")
    return tuple(map(int, text.split("x")))


def judged_items(matrix: Matrix, onnx: Path | None) -> Shapes:
    """Tell the shape of an item as the task prepares it, where a network leaves its sides open.

    So what is measured is what is judged. In front stands the batch, 0 where it is open. Data that
    cannot be opened tell nothing here.
    """
    if matrix.data is None or matrix.inputs is not None or onnx is None:
        return {}
    inputs = input_specs(load_onnx(onnx, weights=False))
    opened = [each for each in inputs if any(map(is_open, each.shape[1:]))]
    if not opened:
        return {}
    task = TASKS.load(matrix.task)
    told = {**matrix.task_settings, "data": matrix.data, "unlabelled": True}
    try:
        source = task.open_source(completed(task.FLAGS, told), inputs)
        item = _first_item(source) if source.preparation else {}
    except TrtbenchError:
        return {}
    return {
        each.name: (front if isinstance(front := each.shape[0], int) else 0, *item[each.name].shape)
        for each in opened
        if each.name in item
    }


def _first_item(source: DataSource) -> Arrays:
    """Prepare the first item that can be read."""
    for place in range(len(source.names)):
        with suppress(InputError):
            return source.prepare(source.load(place))
    return {}


def shapes_for_torch(matrix: Matrix, case: Case) -> Shapes:
    """Find the shapes of a PyTorch model that is run as it is: those of its export."""
    found: Shapes = {}
    for number, each in enumerate(input_shapes(exported_shapes(matrix, case))):
        open_dims = [dim for dim in each.shape[1:] if dim < 1]
        if open_dims:
            return {}  # it says itself what is missing
        first = case.batch or (each.shape[0] if each.shape[0] > 0 else 1)
        found[each.name or f"input{number or ''}"] = (first, *each.shape[1:])
    return found


def exported_shapes(matrix: Matrix, case: Case) -> tuple[str, ...]:
    """Fill the dimensions that are axes into what a model is exported with."""
    dims = case.own("shape.")
    return tuple(_text_filled(text, dims) for text in matrix.input_shape)


def _text_filled(text: str, dims: Dims) -> str:
    """Fill ``x:-1x3x64x25xM``: of the parts between colons, one holds dimensions."""
    parts = text.replace(" ", "x").replace(",", "x").split(":")
    place = next((k for k, part in enumerate(parts) if part[:1] in "-0123456789"), 0)
    words = parts[place].split("x")
    parts[place] = "x".join(str(dims.get(word, word)) for word in words)
    return ":".join(parts)


def ends_of_axis(matrix: Matrix, name: str) -> tuple[int, int, int] | None:
    """Tell the least, middle and largest value of a dimension that is an axis."""
    values = sorted(v for v in matrix.options.get(f"shape.{name}", ()) if isinstance(v, int))
    return (values[0], values[len(values) // 2], values[-1]) if values else None


def _open_inputs(onnx: Path, dims: Dims) -> Iterable[TensorSpec]:
    if not dims:
        return ()
    tensors = input_specs(load_onnx(onnx, weights=False))
    return [each for each in tensors if any(dim in dims for dim in each.shape)]


def _named(dim: int | str | None, dims: Dims) -> int | str:
    value = dims.get(dim, dim) if isinstance(dim, str) else dim
    return value if isinstance(value, int | str) else "?"


def _filled(name: str, shape: tuple[int | str, ...], dims: Dims) -> tuple[int, ...]:
    found = [_named(dim, dims) for dim in shape]
    left = [dim for dim in found if not isinstance(dim, int)]
    if left:
        raise UsageError(
            f"the dimension {left[0]!r} of the input {name!r} has no value",
            facts={"shape": text_from_shape(shape)},
            fix=f"--axis shape.{left[0]}=1,2,5, or --shape {name}:"
            + "x".join(str(dim) if isinstance(dim, int) else "1" for dim in found),
        )
    return tuple(dim for dim in found if isinstance(dim, int))
