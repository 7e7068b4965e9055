"""Exports a PyTorch model to an ONNX file, in the interpreter that has PyTorch.

Also writes one set of inputs and PyTorch's outputs for them, so that another interpreter, which has
ONNX Runtime, can compare.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from trtbench.convert.calibration import save_feeds
from trtbench.core.errors import InputError, UnavailableError, UsageError, first_line
from trtbench.core.jobs import Stage
from trtbench.core.results import Exporter, ExportOutcome, ExportSpec
from trtbench.core.units import text_from_shape
from trtbench.host.machine import library_versions
from trtbench.models.inputs import is_not_index
from trtbench.models.onnx_model import ONE_FILE_BYTES, load_onnx, opset_of, save_onnx
from trtbench.models.torch_models import TorchSource, embedding_rows, import_torch, load_source

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.nn import Module

INPUTS, OUTPUTS = "inputs.npz", "outputs.npz"
LEGACY_OPSET = 17  # the newest that the ONNX parser of TensorRT 8.6 accepts
LIBRARIES = ("trtbench", "torch", "torchvision", "timm", "ultralytics", "onnx", "onnxscript")


@dataclass(frozen=True, kw_only=True)
class Example:
    """Inputs for one call, and which of their dimensions are dynamic."""

    inputs: dict[str, Tensor]
    open_axes: dict[str, dict[int, str]]
    by_name: bool  # whether the model is called with keywords

    @property
    def call(self) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Arguments and keywords."""
        return ((), dict(self.inputs)) if self.by_name else (tuple(self.inputs.values()), {})


def export(spec: ExportSpec, *, folder: Path, stage: Stage) -> ExportOutcome:
    """Export the file ``spec.output`` in the folder of the job."""
    torch = import_torch()
    if spec.folder is not None:
        sys.path.append(spec.folder)  # last, so that no installed package is shadowed
    torch.manual_seed(spec.seed)
    attention = getattr(torch.backends, "mha", None)
    if attention is not None:  # its fused call in eval mode cannot be exported
        attention.set_fastpath_enabled(False)
    stage("load")
    source = load_source(spec, torch=torch)
    model = source.model
    if source.program is None:
        model = model.eval().half() if spec.half else model.eval()
        example = _example(spec, source, torch)
    else:
        for flag, given in (("--half", spec.half), ("--input-shape", spec.inputs),
                            ("--exporter legacy", spec.exporter == "legacy")):  # fmt: skip
            if given:
                raise UsageError(
                    f"{flag} cannot change an ExportedProgram, whose graph is fixed",
                    fix=f"leave {flag} out, or export it again from the module",
                )
        arguments, keywords = source.program.example_inputs or ((), {})
        signature, values = source.program.graph_signature, [*arguments, *keywords.values()]
        names = [node for node in signature.user_inputs if isinstance(node, str)]
        if not all(hasattr(value, "numpy") for value in values) or len(values) != len(names):
            message = "the ExportedProgram has inputs that are not tensors, or no example inputs"
            raise InputError(message, fix="export the original module, with --input-shape")
        inputs = dict(zip(names, values, strict=True))
        example = Example(inputs=inputs, open_axes={}, by_name=False)
    reference = _run(model, example, torch)
    stage("export")
    exporter, notes = _exporter(spec, source, torch)
    write_onnx(
        source.program or model, example, reference, Path(spec.output), spec.opset,
        exporter=exporter, torch=torch,
    )  # fmt: skip
    stage("save")
    save_feeds(folder / INPUTS, [{k: v.numpy() for k, v in example.inputs.items()}])
    arrays = {}
    for name, value in reference.items():
        plain = value.detach().cpu()  # numpy has no bfloat16
        plain = plain.float() if str(plain.dtype) == "torch.bfloat16" else plain
        arrays[name] = np.asarray(plain.numpy())
    save_feeds(folder / OUTPUTS, [arrays])
    if spec.weights == "none":
        notes = (*notes, "the weights are random: speed is meaningful, outputs are not")
    zeros = [name for name, value in reference.items() if value.numel() and not value.any()]
    return ExportOutcome(
        exporter=exporter,
        kind=source.kind,
        versions=library_versions(LIBRARIES),
        source_sha256=source.sha256,
        parameters=source.parameters,
        notes=(
            *source.notes,
            *notes,
            *(f"{name} is zero everywhere: its agreement proves nothing" for name in zeros),
        ),
    )


def _exporter(
    spec: ExportSpec, source: TorchSource, torch: ModuleType
) -> tuple[Exporter, tuple[str, ...]]:
    """Return the requested exporter, or the only one for this model, with a note."""
    if spec.exporter == "legacy":
        return "legacy", ()
    if source.kind == "TorchScript":
        return "legacy", ("TorchScript is exported with the legacy exporter",)
    if source.program is not None or _has_dynamo(torch):
        return "dynamo", ()
    if spec.opset is not None:
        raise UsageError(
            f"PyTorch {torch.__version__} has only the legacy exporter, for opset "
            f"{LEGACY_OPSET} and below",
            fix=f"--opset {LEGACY_OPSET}, or PyTorch 2.5 and later",
        )
    return "legacy", (f"PyTorch {torch.__version__} has only the legacy exporter",)


def _has_dynamo(torch: ModuleType) -> bool:
    """Whether this PyTorch has the newer exporter (2.5 and later); those for Jetson are older."""
    return "dynamo" in inspect.signature(torch.onnx.export).parameters


def _example(spec: ExportSpec, source: TorchSource, torch: ModuleType) -> Example:
    """Return random inputs for one call, with the requested or suggested shapes."""
    given = spec.inputs or source.inputs
    if not given:
        message = "the shape of the input is unknown"
        fix = "--input-shape -1 3 224 224 (-1 is a dynamic dimension)"
        raise UsageError(message, facts={"source": spec.source}, fix=fix)
    if len(given) > 1 and any(shape.name is None for shape in given):
        message = "several inputs need names"
        raise UsageError(message, fix="--input-shape ids:-1x128 --input-shape mask:-1x128")
    # Exporters name inputs in the order of the parameters, not of the keywords.
    shapes, by_name = list(given), False
    try:
        parameters = list(inspect.signature(source.model.forward).parameters)
    except (TypeError, ValueError):
        parameters = []
    if len(shapes) > 1 and all(shape.name in parameters for shape in shapes):
        shapes.sort(key=lambda shape: parameters.index(shape.name or ""))
        by_name = [shape.name for shape in shapes] != parameters[: len(shapes)]
    usual = source.inputs if len(source.inputs) == len(shapes) else (None,) * len(shapes)
    generator = torch.Generator().manual_seed(spec.seed)
    names = [shape.name or "input" for shape in shapes]
    whole = [n for n, s in zip(names, shapes, strict=True) if (s.dtype or "").startswith("int")]
    tables = embedding_rows(source.model, [name for name in whole if not is_not_index(name)])
    inputs: dict[str, Tensor] = {}
    open_axes: dict[str, dict[int, str]] = {}
    for name, shape, own in zip(names, shapes, usual, strict=True):
        dims = list(shape.shape)
        known = own.shape if own and len(own.shape) == len(dims) else (-1,) * len(dims)
        open_axes[name] = {}
        for axis, dim in enumerate(dims):
            # Where the model suggests no size: exporters treat 0 and 1 as constants, and images
            # of a few pixels vanish in pooling layers.
            size = 64 if len(dims) == len("NCHW") and axis > 1 else 2
            if dim < 0:
                open_axes[name][axis] = "batch" if axis == 0 else f"{name}_{axis}"
            dims[axis] = next(each for each in (dim, known[axis], size) if each > 0)
        dtype = getattr(torch, shape.dtype or "float32", None)
        if not isinstance(dtype, torch.dtype):
            message = f"PyTorch has no type {shape.dtype!r}"
            raise UsageError(message, fix="--input-shape ids:-1x128:int64")
        if dtype == torch.bool:
            inputs[name] = torch.ones(dims, dtype=dtype)
        elif dtype.is_floating_point:
            values = torch.rand(dims, generator=generator)
            inputs[name] = values.half() if spec.half and not shape.dtype else values.to(dtype)
        else:  # ids are small, and below the number of rows of embeddings
            rows = min(100, tables.get(name, 100))
            inputs[name] = torch.randint(0, rows, dims, generator=generator).to(dtype)
    return Example(inputs=inputs, open_axes=open_axes, by_name=by_name)


def _run(model: Module, example: Example, torch: ModuleType) -> dict[str, Tensor]:
    """Call the model once; tuples and mappings are flattened to the outputs of the ONNX file."""
    arguments, keywords = example.call
    with torch.no_grad():
        try:
            result = model(*arguments, **keywords)
        except Exception as problem:  # the model's code may raise anything
            shapes = {n: text_from_shape(v.shape) for n, v in example.inputs.items()}
            reason = first_line(problem)
            fix = "give other shapes, or types such as ids:-1x128:int64, with --input-shape"
            if "required positional argument" in reason:
                lacking = re.findall(r"'(\w+)'", reason)
                fix = f"add {' '.join(f'--input-shape {name}:DIMS' for name in lacking)}"
            message = "the model does not run on inputs of this shape"
            raise InputError(message, facts={**shapes, "reason": reason}, fix=fix) from None
    if isinstance(result, Mapping):
        named = {str(key): value for key, value in result.items()}
        if all(isinstance(value, torch.Tensor) for value in named.values()):
            return named
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or len(tensors) != len(leaves):
        message = "the model returns something other than tensors"
        facts = {"type": type(result).__name__}
        raise InputError(message, facts=facts, fix="wrap it in a module that returns tensors")
    if len(tensors) == 1:
        return {"output": tensors[0]}
    return {f"output{index}": tensor for index, tensor in enumerate(tensors)}


def write_onnx(
    model: Module | ExportedProgram, example: Example, outputs: dict[str, Tensor], path: Path,
    opset: int | None, *, exporter: Exporter, torch: ModuleType,
) -> None:  # fmt: skip
    """Write a model with one of PyTorch's two exporters.

    The legacy one traces, for opset 17 and below; its outputs are assumed to be dynamic where
    inputs are. The dimensions of an ExportedProgram are fixed.
    """
    program = type(model).__name__ == "ExportedProgram"
    tensors = model.state_dict.values() if program else (*model.parameters(), *model.buffers())
    large = sum(int(t.numel()) * int(t.element_size()) for t in tensors) > ONE_FILE_BYTES
    arguments, keywords = example.call
    given: dict[str, Any] = {} if program else {"args": arguments, "kwargs": keywords}
    if exporter == "legacy":
        axes = {name: dict(found) for name, found in example.open_axes.items() if found}
        if any("batch" in found.values() for found in axes.values()):
            size = next(iter(example.inputs.values())).shape[0]
            axes |= {n: {0: "batch"} for n, v in outputs.items() if v.dim() and v.shape[0] == size}
        given |= {"opset_version": opset or LEGACY_OPSET, "dynamic_axes": axes or None}
        if _has_dynamo(torch):
            given["dynamo"] = False
        else:  # keywords follow the other arguments, as a dictionary
            named = (given.pop("kwargs"),)
            given["args"] = (*arguments, *(named if example.by_name else ()))
    else:
        try:
            import onnxscript  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
        except ImportError as problem:
            message = "the dynamo exporter needs onnxscript"
            fix = "pip install onnxscript, or --exporter legacy"
            raise UnavailableError(message, facts={"reason": problem}, fix=fix) from None
        given |= {"opset_version": opset, "dynamo": True, "external_data": large}
        labels = {label for axes in example.open_axes.values() for label in axes.values()}
        if not program and labels:
            dims = {label: torch.export.Dim(label, min=1) for label in sorted(labels)}
            shapes = {
                name: {axis: dims[label] for axis, label in example.open_axes[name].items()} or None
                for name in example.inputs
            }
            given["dynamic_shapes"] = shapes if example.by_name else tuple(shapes.values())
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            names = {"input_names": list(example.inputs), "output_names": list(outputs)}
            torch.onnx.export(model, f=str(path), **names, **given)
    except Exception as problem:  # each exporter has its own errors, hundreds of lines long
        cause = problem.__cause__ or problem.__context__ or problem
        fixes = {
            "dynamo": "--exporter legacy may work; a dimension of --input-shape that cannot be -1 "
            "needs a number",
            "legacy": "--exporter dynamo may work, with PyTorch 2.5 or later",
        }
        message = "PyTorch could not export the model"
        facts = {"exporter": exporter, "reason": first_line(cause) or first_line(problem)}
        raise InputError(message, facts=facts, fix=fixes[exporter]) from problem
    if exporter == "legacy" and large:  # the many files of a large legacy export become one
        before = set(path.parent.iterdir()) - {path}
        save_onnx(load_onnx(path), path)
        for file in before:
            if file.suffix not in (".json", ".txt", ".npz", ".data") and file.is_file():
                file.unlink()
    if exporter == "dynamo" and opset is not None:  # it may fail to convert down without an error
        have = opset_of(load_onnx(path, weights=False))
        if have != opset:
            fix = f"--opset {have}, or --exporter legacy for opset {LEGACY_OPSET} and below"
            raise InputError(f"the dynamo exporter wrote opset {have}, not {opset}", fix=fix)
