"""PyTorch models ready to be called, from the same sources that exporting knows."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.boundary import read_bytes
from trtbench.domain.conversion import ExportSpec
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, TrtbenchError, UnavailableError
from trtbench.models.identity import sha256_of
from trtbench.models.torch_sources import ZOOS, TorchSource, load_source

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

INSTALL = (
    "pip install torch torchvision, or name an interpreter that has it by --python PATH or "
    "runtimes.torch.python in trtbench.toml"
)

_NAMED = re.compile(rf"({'|'.join(map(re.escape, ZOOS))}):(.+)")
_FLAGS = {
    "--trust": "--opt trust=on",
    "--factory ": "--opt factory=",
    "--weights ": "--opt weights=",
}
"""Flags of export as one writes them where they are options of a runtime."""


def files_of_factory(factory: str) -> tuple[str, ...]:
    """Name the files of code that make a module, where the user has them: other code, other model.

    The first is that of the factory itself; those that it imports from the same place follow.
    """
    return tuple(map(str, code_of_factory(factory)[1]))


def code_of_factory(factory: str) -> tuple[Path, list[Path]]:
    """Find the folder that code is imported from, and its files; none where a library has it."""
    named = factory.partition(":")[0]
    roots = [Path(), *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    root = next((each for each in roots if named and _file_of(named, each) is not None), Path())
    return root, _code_of(named, root)


def code_of_hub(source: str) -> str | None:
    """Hash the code of a repository of torch.hub that is a folder here: other code, other model."""
    zoo, _, name = source.partition(":")
    if zoo != "torch.hub" or not Path(name).parent.is_dir():
        return None
    digest = hashlib.sha256()
    for path in _code_of("hubconf", Path(name).parent):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _file_of(module: str, root: Path) -> Path | None:
    if not module.strip("."):
        return None
    stem = root.joinpath(*module.split("."))
    found = (stem.with_name(f"{stem.name}.py"), stem / "__init__.py")
    return next((path for path in found if path.is_file()), None)


def _code_of(module: str, root: Path) -> list[Path]:
    """List the file of a module and those below the same root that it imports, and these theirs."""
    found: list[Path] = []
    todo = [module]
    while todo:
        name = todo.pop()
        path = _file_of(name, root)
        if path is None or path in found:
            continue
        found.append(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        todo += [name.rpartition(".")[0], *_imported(path, package)]
    return found


def _imported(path: Path, package: str) -> list[str]:
    """Name the modules that a file of code imports; what follows ``from`` may be one or in one."""
    try:
        tree = ast.parse(read_bytes(path))
    except (OSError, InputError, SyntaxError, ValueError, RecursionError):  # its importer says so
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            names += [base, *(f"{base}.{each.name}" for each in node.names)]
    return names


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A module in evaluation mode, on the CPU, and what is known about its inputs."""

    module: Module
    kind: str
    """``torchvision``, ``TorchScript``, ``ExportedProgram``, ``state dict``, ..."""
    inputs: tuple[TensorSpec, ...]
    """Shapes are empty where nothing tells them."""
    suggested: bool = False
    """Whether shapes are those it was trained with: it may take others."""
    notes: tuple[str, ...] = ()


def rows_of_tables(module: Module, names: Sequence[str]) -> dict[str, int]:
    """Count the rows that integers of these inputs may pick from, by the tables of a module.

    A single input picks from the table that comes first, which is that of the words; several may
    pick from any, so the smallest counts.
    """
    tables = [each.weight for each in module.modules() if _is_table(each)]
    rows = [int((table() if callable(table) else table).shape[0]) for table in tables]
    if not rows or not names:
        return {}
    return dict.fromkeys(names, rows[0] if len(names) == 1 else min(rows))


def _is_table(module: Module) -> bool:
    kind = getattr(module, "original_name", type(module).__name__)  # what TorchScript was made of
    return kind in ("Embedding", "EmbeddingBag")


def is_named(source: str) -> bool:
    """Tell a model of a library (``torchvision:resnet18``) from a file."""
    return _NAMED.fullmatch(source) is not None


def import_torch() -> ModuleType:
    """Import PyTorch, or say how to get it."""
    try:
        torch = importlib.import_module("torch")
    except Exception as problem:  # a broken installation fails in many ways
        missing = isinstance(problem, ModuleNotFoundError) and problem.name == "torch"
        how = "not installed here" if missing else "installed and cannot be imported"
        facts = {"interpreter": sys.executable, "reason": problem}
        raise UnavailableError(f"PyTorch is {how}", facts=facts, fix=INSTALL) from None
    try:
        torch.zeros(1).numpy()
    except RuntimeError as problem:  # one built for NumPy 1 imports with NumPy 2, and no more
        raise UnavailableError(
            "this PyTorch does not work with the NumPy beside it",
            facts={"interpreter": sys.executable, "reason": problem},
            fix=f"{shlex.quote(sys.executable)} -m pip install 'numpy<2'",
        ) from None
    return torch


def load_model(
    source: str,
    *,
    weights: str = "default",
    trust: bool = False,
    factory: str | None = None,
    folder: str | None = None,
) -> LoadedModel:
    """Load what export would load under the same name."""
    torch = import_torch()
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)  # last, so that nothing installed is shadowed
    spec = ExportSpec(source=source, output="", weights=weights, trust=trust, factory=factory)
    try:
        found = load_source(spec, torch=torch)
    except TrtbenchError as problem:
        problem.fix = _in_options(problem.fix)
        raise
    module = found.model if found.program is not None else found.model.eval()
    return LoadedModel(
        module=module,
        kind=found.kind,
        inputs=_inputs(found, module),
        suggested=found.program is None and bool(found.inputs),
        notes=found.notes,
    )


def _in_options(fix: str | None) -> str | None:
    for flag, option in _FLAGS.items():
        fix = fix.replace(flag, option) if fix else fix
    return fix


def _inputs(found: TorchSource, module: Module) -> tuple[TensorSpec, ...]:
    if found.program is not None:
        return _program_inputs(found.program)
    names = _names(found, module)
    if found.inputs:
        return tuple(
            TensorSpec(
                name=each.name or name,
                dtype=each.dtype or "float32",
                shape=tuple("batch" if dim < 0 else dim for dim in each.shape),
            )
            for name, each in zip(names, found.inputs, strict=False)
        )
    return tuple(TensorSpec(name=name, dtype="float32", shape=()) for name in names)


def _program_inputs(program: ExportedProgram) -> tuple[TensorSpec, ...]:
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    return tuple(
        TensorSpec(
            name=name,
            dtype=str(values[name].dtype).removeprefix("torch."),
            shape=tuple(dim if isinstance(dim, int) else str(dim) for dim in values[name].shape),
        )
        for name in program.graph_signature.user_inputs
        if values.get(name) is not None
    )


def _names(found: TorchSource, module: Module) -> list[str]:
    """Name the arguments that a call must give."""
    if found.kind == "TorchScript":  # which numbers names that repeat: x.1 is the caller's x
        return [value.debugName().split(".")[0] for value in list(module.graph.inputs())[1:]]
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return ["input"]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in plain and p.default is inspect.Parameter.empty]
    return names or ["input"]
