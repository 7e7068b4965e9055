"""The two exporters of PyTorch, behind functions that look alike."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.build.onnx_file import ONE_FILE_BYTES, load_onnx, save_onnx
from trtbench.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import Dim, ExportedProgram
    from torch.nn import Module

LEGACY_OPSET = 17
"""The newest that the ONNX parser of TensorRT 8.6 takes."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """Inputs for one call, and which of their dimensions are open."""

    inputs: dict[str, Tensor]
    open_axes: dict[str, dict[int, str]]
    by_name: bool
    """Whether the model is called with keywords."""

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        return () if self.by_name else tuple(self.inputs.values())

    @property
    def keywords(self) -> dict[str, Tensor]:
        return dict(self.inputs) if self.by_name else {}


def has_dynamo(torch: ModuleType) -> bool:
    """Say whether this PyTorch has the newer exporter, from 2.5 on; those for Jetsons are older."""
    return "dynamo" in inspect.signature(torch.onnx.export).parameters


def write_dynamo(
    model: Module,
    example: Example,
    outputs: dict[str, Tensor],
    path: Path,
    opset: int | None,
    torch: ModuleType,
) -> None:
    """Export by way of torch.export."""
    _need_onnxscript()
    dims: dict[str, Dim] = {}

    def dimension(name: str) -> Dim:
        return dims.setdefault(name, torch.export.Dim(name, min=1))

    shapes = {
        name: {axis: dimension(label) for axis, label in example.open_axes[name].items()} or None
        for name in example.inputs
    }
    dynamic = any(shapes.values())
    _export(
        torch,
        model,
        example,
        outputs,
        path,
        opset,
        dynamo=True,
        external_data=_bytes_of(model) > ONE_FILE_BYTES,
        dynamic_shapes=(shapes if example.by_name else tuple(shapes.values())) if dynamic else None,
    )
    _refuse_other_opset(path, opset)


def write_program(
    program: ExportedProgram,
    example: Example,
    outputs: dict[str, Tensor],
    path: Path,
    opset: int | None,
    torch: ModuleType,
) -> None:
    """Export what torch.export has made already; its dimensions are settled."""
    _need_onnxscript()
    large = sum(t.numel() * t.element_size() for t in program.state_dict.values()) > ONE_FILE_BYTES
    _export(torch, program, example, outputs, path, opset, dynamo=True, external_data=large)
    _refuse_other_opset(path, opset)


def write_legacy(
    model: Module,
    example: Example,
    outputs: dict[str, Tensor],
    path: Path,
    opset: int | None,
    torch: ModuleType,
) -> None:
    """Export by tracing, for opset 17 and below; outputs are taken to be open where inputs are."""
    labels = {label for axes in example.open_axes.values() for label in axes.values()}
    axes = {name: dict(found) for name, found in example.open_axes.items() if found}
    if "batch" in labels:
        size = next(iter(example.inputs.values())).shape[0]
        axes |= {n: {0: "batch"} for n, v in outputs.items() if v.dim() and v.shape[0] == size}
    _export(
        torch,
        model,
        example,
        outputs,
        path,
        opset or LEGACY_OPSET,
        dynamo=False,
        dynamic_axes=axes or None,
    )
    if _bytes_of(model) > ONE_FILE_BYTES:
        _gather(path)


def _export(
    torch: ModuleType,
    model: Module,
    example: Example,
    outputs: dict[str, Tensor],
    path: Path,
    opset: int | None,
    **rest: object,
) -> None:
    arguments = (
        {} if _is_program(model) else {"args": example.arguments, "kwargs": example.keywords}
    )
    if not has_dynamo(torch):  # names of inputs go behind the others, as a dictionary
        named = (example.keywords,) if example.by_name else ()
        arguments = {"args": (*example.arguments, *named)}
        rest = {name: value for name, value in rest.items() if name != "dynamo"}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                f=str(path),
                input_names=list(example.inputs),
                output_names=list(outputs),
                opset_version=opset,
                **arguments,
                **rest,
            )
    except Exception as problem:  # each exporter has its own kinds of errors
        raise _refusal(problem, rest) from problem


def _is_program(model: Module) -> bool:
    return type(model).__name__ == "ExportedProgram"


def _refusal(problem: Exception, rest: dict[str, object]) -> InputError:
    """Say in one line what an exporter says in hundreds, and offer the other one."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    cause = problem.__cause__ or problem.__context__
    told = str(cause).strip().splitlines()[:1] if cause else []
    return InputError(
        "PyTorch could not export the model",
        facts={
            "exporter": "dynamo" if rest.get("dynamo") else "legacy",
            "reason": (told or lines or [type(problem).__name__])[0],
        },
        fix="--exporter legacy may work; a dimension of --input-shape that cannot be -1 needs a "
        "number"
        if rest.get("dynamo")
        else "--exporter dynamo may work, with PyTorch 2.5 or later",
    )


def _need_onnxscript() -> None:
    try:
        import onnxscript  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as problem:
        raise UnavailableError(
            "the dynamo exporter needs onnxscript",
            facts={"reason": problem},
            fix="pip install onnxscript, or --exporter legacy",
        ) from None


def _bytes_of(model: Module) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)


def _refuse_other_opset(path: Path, asked: int | None) -> None:
    """Refuse a newer opset than was asked for, which dynamo makes where it cannot convert down."""
    if asked is None:
        return
    versions = {e.domain: e.version for e in load_onnx(path, weights=False).opset_import}
    have = versions.get("")
    if have != asked:
        raise InputError(
            f"the dynamo exporter made opset {have}, not {asked}",
            fix=f"--opset {have}, or --exporter legacy for opset {LEGACY_OPSET} and below",
        )


def _gather(path: Path) -> None:
    """Put the many files of a large legacy export into one."""
    before = set(path.parent.iterdir()) - {path}
    save_onnx(load_onnx(path), path)
    for file in before:
        if file.suffix not in (".json", ".txt", ".npz", ".data") and file.is_file():
            file.unlink()
