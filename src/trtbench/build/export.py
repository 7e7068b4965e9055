"""From a PyTorch model to an ONNX file; runs in the interpreter that has PyTorch.

Leaves beside the model one set of inputs and what PyTorch gives for them, so that another
interpreter, which has ONNX Runtime, can compare.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.inputs import has_meaning
from trtbench.build.export_write import (
    LEGACY_OPSET,
    Example,
    has_dynamo,
    write_dynamo,
    write_legacy,
    write_program,
)
from trtbench.build.quantize_data import save_feeds
from trtbench.domain.conversion import Exporter, ExportOutcome, ExportSpec, InputShape
from trtbench.domain.job import Stage
from trtbench.errors import InputError, UsageError, first_line
from trtbench.host.versions import library_versions
from trtbench.models.torch_models import import_torch, rows_of_tables
from trtbench.models.torch_sources import TorchSource, load_source
from trtbench.units import text_from_shape

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.export import ExportedProgram
    from torch.nn import Module

INPUTS, OUTPUTS = "inputs.npz", "outputs.npz"
OPEN_SIZE, OPEN_SIDE = 2, 64
"""What an open dimension is while exporting, or the side of an image where the model suggests none:
0 and 1 would be taken for constants, and images of a few pixels are lost on the way."""

IDS = 100
"""Ids stay below this, and below the rows that a model has for them."""

LIBRARIES = ("trtbench", "torch", "torchvision", "timm", "ultralytics", "onnx", "onnxscript")


def export(spec: ExportSpec, *, folder: Path, stage: Stage) -> ExportOutcome:
    """Make the file ``spec.output`` in the folder of the job."""
    torch = import_torch()
    if spec.folder is not None:
        sys.path.append(spec.folder)  # last, so that nothing installed is shadowed
    torch.manual_seed(spec.seed)
    _trace_attention(torch)
    stage("load")
    source = load_source(spec, torch=torch)
    model = source.model
    if source.program is None:
        model = model.eval().half() if spec.half else model.eval()
    example = _example(spec, source, torch)
    reference = _run(model, example, torch)
    stage("export")
    exporter, note = _exporter(spec, source, torch)
    if source.program is not None:
        _refuse_for_program(spec)
        write_program(source.program, example, reference, Path(spec.output), spec.opset, torch)
    elif exporter == "legacy":
        write_legacy(model, example, reference, Path(spec.output), spec.opset, torch)
    else:
        write_dynamo(model, example, reference, Path(spec.output), spec.opset, torch)
    stage("save")
    save_feeds(folder / INPUTS, [{k: v.numpy() for k, v in example.inputs.items()}])
    save_feeds(folder / OUTPUTS, [{name: _array(value) for name, value in reference.items()}])
    return ExportOutcome(
        exporter=exporter,
        kind=source.kind,
        versions=library_versions(LIBRARIES),
        source_sha256=source.sha256,
        parameters=source.parameters,
        notes=(*source.notes, *note, *_notes(spec), *_told_by(reference)),
    )


def _trace_attention(torch: ModuleType) -> None:
    """Let attention be seen as operators: its fused call in eval mode has no form in ONNX."""
    fused = getattr(torch.backends, "mha", None)
    if fused is not None:
        fused.set_fastpath_enabled(False)


def _exporter(
    spec: ExportSpec, source: TorchSource, torch: ModuleType
) -> tuple[Exporter, tuple[str, ...]]:
    """Settle what exports: the one that was asked for, where there is one for this model."""
    if spec.exporter == "legacy":
        return "legacy", ()
    if source.kind == "TorchScript":
        return "legacy", ("TorchScript is exported with the legacy exporter",)
    if source.program is not None or has_dynamo(torch):
        return "dynamo", ()
    if spec.opset is not None:
        raise UsageError(
            f"PyTorch {torch.__version__} has the legacy exporter alone, for opset "
            f"{LEGACY_OPSET} and below",
            fix=f"--opset {LEGACY_OPSET}, or PyTorch 2.5 and later",
        )
    return "legacy", (f"PyTorch {torch.__version__} has the legacy exporter alone",)


def _notes(spec: ExportSpec) -> tuple[str, ...]:
    notes = []
    if spec.weights == "none":
        notes.append("the weights are random: speed is meaningful, outputs are not")
    return tuple(notes)


def _told_by(reference: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Say which outputs cannot tell a right export from a wrong one."""
    same = [name for name, value in reference.items() if value.numel() and not value.any()]
    return tuple(f"{name} is zero everywhere: that it agrees says nothing" for name in same)


def _refuse_for_program(spec: ExportSpec) -> None:
    for flag, given in (("--half", spec.half), ("--input-shape", spec.inputs)):
        if given:
            raise UsageError(
                f"{flag} cannot change an ExportedProgram, whose graph is fixed",
                fix="export it anew from the module",
            )
    if spec.exporter == "legacy":
        raise UsageError(
            "an ExportedProgram can only go through the dynamo exporter (opset 18 and later)",
            fix="leave --exporter out",
        )


def _example(spec: ExportSpec, source: TorchSource, torch: ModuleType) -> Example:
    """Settle the inputs, and draw values for one call."""
    if source.program is not None:
        return _from_program(source.program)
    given = spec.inputs or source.inputs
    if not given:
        raise UsageError(
            "the shape of the input is not known",
            facts={"source": spec.source},
            fix="--input-shape -1 3 224 224 (-1 is a dimension that may change)",
        )
    shapes, by_name = _ordered(given, source.model)
    usual = source.inputs if len(source.inputs) == len(shapes) else (None,) * len(shapes)
    names = _names(shapes)
    generator = torch.Generator().manual_seed(spec.seed)
    whole = [n for n, s in zip(names, shapes, strict=True) if (s.dtype or "").startswith("int")]
    rows = rows_of_tables(source.model, [name for name in whole if not has_meaning(name)])
    inputs = {
        name: _draw(
            shape,
            _sizes(shape.shape, own.shape if own else ()),
            generator,
            half=spec.half,
            torch=torch,
            rows=min(IDS, rows.get(name, IDS)),
        )
        for name, shape, own in zip(names, shapes, usual, strict=True)
    }
    open_axes = {
        name: {axis: _axis_name(name, axis) for axis, dim in enumerate(shape.shape) if dim < 0}
        for name, shape in zip(names, shapes, strict=True)
    }
    return Example(inputs=inputs, open_axes=open_axes, by_name=by_name)


def _from_program(program: ExportedProgram) -> Example:
    arguments, keywords = program.example_inputs or ((), {})
    names = [node for node in program.graph_signature.user_inputs if isinstance(node, str)]
    values = [*arguments, *keywords.values()]
    if not all(hasattr(value, "numpy") for value in values) or len(values) != len(names):
        raise InputError(
            "the ExportedProgram takes inputs that are not tensors, or brings no example of them",
            fix="export the module it was made of, with --input-shape",
        )
    return Example(inputs=dict(zip(names, values, strict=True)), open_axes={}, by_name=False)


def _names(shapes: Sequence[InputShape]) -> list[str]:
    if len(shapes) == 1:
        return [shapes[0].name or "input"]
    if any(shape.name is None for shape in shapes):
        raise UsageError(
            "several inputs need names", fix="--input-shape ids:-1x128 --input-shape mask:-1x128"
        )
    return [shape.name or "" for shape in shapes]


def _axis_name(name: str, axis: int) -> str:
    return "batch" if axis == 0 else f"{name}_{axis}"


def _ordered(shapes: Sequence[InputShape], model: Module) -> tuple[list[InputShape], bool]:
    """Put named inputs in the order of the parameters, and say whether they need their names.

    Exporters give names in the order of the parameters, whatever the order of keywords.
    """
    import inspect

    try:
        parameters = list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return list(shapes), False
    if len(shapes) < 2 or not all(shape.name in parameters for shape in shapes):
        return list(shapes), False
    ordered = sorted(shapes, key=lambda shape: parameters.index(shape.name or ""))
    leading = [shape.name for shape in ordered] == parameters[: len(ordered)]
    return ordered, not leading


def _sizes(dims: Sequence[int], usual: Sequence[int]) -> list[int]:
    """Settle open dimensions: as the model suggests, else the sides of images and the rest."""
    images = len(dims) == len("NCHW")
    known = usual if len(usual) == len(dims) else (-1,) * len(dims)
    sizes = [OPEN_SIDE if images and axis > 1 else OPEN_SIZE for axis in range(len(dims))]
    return [
        dim if dim > 0 else own if own > 0 else size
        for dim, own, size in zip(dims, known, sizes, strict=True)
    ]


def _draw(
    shape: InputShape,
    dims: Sequence[int],
    generator: Generator,
    *,
    half: bool,
    torch: ModuleType,
    rows: int,
) -> Tensor:
    """Draw uniform values for floats, small ids for integers, ones for truth values."""
    if shape.dtype is None:
        values = torch.rand(dims, generator=generator)
        return values.half() if half else values
    dtype = getattr(torch, shape.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(
            f"PyTorch has no type {shape.dtype!r}", fix="--input-shape ids:-1x128:int64"
        )
    if dtype.is_floating_point:
        return torch.rand(dims, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.ones(dims, dtype=dtype)
    return torch.randint(0, rows, dims, generator=generator).to(dtype)


def _run(model: Module, example: Example, torch: ModuleType) -> dict[str, Tensor]:
    """Call the model once; its outputs get the names that the ONNX file will have."""
    with torch.no_grad():
        try:
            result = model(*example.arguments, **example.keywords)
        except Exception as problem:  # its authors' own code: it may assert, or miss a key
            shapes = {n: text_from_shape(v.shape) for n, v in example.inputs.items()}
            raise InputError(
                "the model does not run on inputs of this shape",
                facts={**shapes, "reason": first_line(problem)},
                fix="give other shapes with --input-shape",
            ) from None
    return _outputs(result, torch)


def _outputs(result: object, torch: ModuleType) -> dict[str, Tensor]:
    """Flatten tuples and mappings; a key becomes a name."""
    if isinstance(result, torch.Tensor):
        return {"output": result}
    if isinstance(result, Mapping):
        named = {str(key): value for key, value in result.items()}
        if all(isinstance(value, torch.Tensor) for value in named.values()):
            return named
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or len(tensors) != len(leaves):
        raise InputError(
            "the model gives something that is not tensors",
            facts={"type": type(result).__name__},
            fix="wrap it in a module that returns tensors",
        )
    if len(tensors) == 1:
        return {"output": tensors[0]}
    return {f"output{index}": tensor for index, tensor in enumerate(tensors)}


def _array(tensor: Tensor) -> NDArray[np.generic]:
    value = tensor.detach().cpu()
    if str(value.dtype) == "torch.bfloat16":  # numpy has no such type
        value = value.float()
    return np.asarray(value.numpy())
