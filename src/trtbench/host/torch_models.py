"""PyTorch models from wherever they are kept: a library's name, TorchScript, an export, a pickle.

Knows how to load, not what is done with a model. A pickle can run any code, so one is loaded only
when its owner says that it may be.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UnavailableError, UsageError, near_miss

FAMILIES = ("torchvision", "timm", "ultralytics")
INSTALL = "pip install torch torchvision, or --python PATH of an interpreter that has it"

_NAMED = re.compile(rf"({'|'.join(FAMILIES)}):(.+)")
_IMAGE = 224


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A module ready to be called, and what is known about its inputs."""

    module: Any
    kind: str
    """``torchvision``, ``timm``, ``ultralytics``, ``TorchScript``, ``exported program``, ..."""
    inputs: tuple[TensorSpec, ...]
    """Shapes are empty where nothing tells them."""
    notes: tuple[str, ...] = ()


def is_named(source: str) -> bool:
    """Tell a model of a library (``torchvision:resnet18``) from a file."""
    return _NAMED.fullmatch(source) is not None


def import_torch() -> Any:
    """Import PyTorch, or say how to get it."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise UnavailableError("PyTorch is not installed here", fix=INSTALL) from None
    except Exception as problem:  # a broken installation fails in many ways
        raise UnavailableError(
            "PyTorch is installed and cannot be imported", facts={"reason": problem}, fix=INSTALL
        ) from None


def load_model(
    source: str,
    *,
    weights: str = "default",
    trust: bool = False,
    factory: str | None = None,
    folder: str | None = None,
    loader: str | None = None,
) -> LoadedModel:
    """Load a model in evaluation mode, on the CPU.

    ``weights`` is ``default``, ``none`` (random values) or a state dict; ``factory`` names a
    function (``package.module:function``) that makes the module a state dict belongs to.
    """
    torch = import_torch()
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    named = _NAMED.fullmatch(source)
    if named:
        loaded = _named(named[1], named[2], pretrained=weights == "default")
    elif loader == "ultralytics":
        loaded = _ultralytics(source)
    else:
        loaded = _from_file(torch, Path(source), trust=trust, factory=factory)
    if weights not in ("default", "none"):
        _load_weights(torch, loaded.module, Path(weights))
    if hasattr(loaded.module, "eval") and loaded.kind != "exported program":
        loaded.module.eval()
    return loaded


def _named(family: str, name: str, *, pretrained: bool) -> LoadedModel:
    if family == "ultralytics":
        return _ultralytics(name)
    library = _import(family)
    known = _known(family, library)
    if name not in known:
        guess = near_miss(name, known)
        raise InputError(
            f"{family} has no model {name!r}", fix=f"{family}:{guess}" if guess else None
        )
    if family == "timm":
        module = library.create_model(name, pretrained=pretrained)
        shape = tuple(getattr(module, "default_cfg", {}).get("input_size", (3, _IMAGE, _IMAGE)))
    else:
        module = library.models.get_model(name, weights="DEFAULT" if pretrained else None)
        side = 299 if name.startswith("inception") else _IMAGE
        shape = (3, side, side)
    spec = TensorSpec(name=_parameters(module)[0], dtype="float32", shape=("batch", *shape))
    return LoadedModel(module=module, kind=family, inputs=(spec,))


def _known(family: str, library: Any) -> list[str]:
    return list(library.list_models() if family == "timm" else library.models.list_models())


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as problem:  # RuntimeError where it was built for another torch
        raise UnavailableError(
            f"{name} cannot be used in this interpreter",
            facts={"reason": _first_line(problem)},
            fix=f"pip install {name}",
        ) from None


def _ultralytics(source: str) -> LoadedModel:
    library = _import("ultralytics")
    try:
        module = library.YOLO(source).model
    except Exception as problem:  # whatever a checkpoint's own code raises
        raise InputError(f"ultralytics cannot load {source}", facts={"reason": problem}) from None
    spec = TensorSpec(name="images", dtype="float32", shape=("batch", None, None, None))
    return LoadedModel(module=module.float(), kind="ultralytics", inputs=(spec,))


def _from_file(torch: Any, path: Path, *, trust: bool, factory: str | None) -> LoadedModel:
    names = _members(path)
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        return _torchscript(torch, path)
    if path.suffix == ".pt2" or any("models/" in name and name.endswith(".json") for name in names):
        return _exported(torch, path)
    return _pickled(torch, path, trust=trust, factory=factory)


def _members(path: Path) -> list[str]:
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _torchscript(torch: Any, path: Path) -> LoadedModel:
    try:
        module = torch.jit.load(str(path), map_location="cpu")
    except Exception as problem:
        raise _unreadable(path, problem) from None
    names = [value.debugName() for value in list(module.graph.inputs())[1:]]
    specs = tuple(TensorSpec(name=_plain(name), dtype="float32", shape=()) for name in names)
    return LoadedModel(module=module, kind="TorchScript", inputs=specs)


def _exported(torch: Any, path: Path) -> LoadedModel:
    try:
        program = torch.export.load(str(path))
    except Exception as problem:
        raise _unreadable(path, problem) from None
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    specs = tuple(
        TensorSpec(
            name=name,
            dtype=str(values[name].dtype).removeprefix("torch."),
            shape=tuple(_dim(dim) for dim in values[name].shape),
        )
        for name in program.graph_signature.user_inputs
        if values.get(name) is not None
    )
    return LoadedModel(module=program.module(), kind="exported program", inputs=specs)


def _dim(dim: Any) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _pickled(torch: Any, path: Path, *, trust: bool, factory: str | None) -> LoadedModel:
    try:
        content = torch.load(str(path), map_location="cpu", weights_only=not trust)
    except Exception as problem:
        if not trust and ("weights_only" in str(problem) or "Unsupported" in str(problem)):
            raise InputError(
                f"{path.name} is a pickle that wants to run code of its own",
                facts={"reason": _first_line(problem)},
                fix="--opt trust=on if you know where it comes from",
            ) from None
        raise _unreadable(path, problem) from None
    module = _module_in(torch, content)
    if module is not None:
        return LoadedModel(module=module, kind="pickled module", inputs=_forward_inputs(module))
    if factory is None:
        raise InputError(
            f"{path.name} holds weights without a model",
            fix="--opt factory=package.module:function, which makes the model they belong to",
        )
    module = _made_by(factory)
    _fill(module, content, path)
    return LoadedModel(module=module, kind="state dict", inputs=_forward_inputs(module))


def _module_in(torch: Any, content: Any) -> Any:
    """Find the module of a pickle: itself, or in a training checkpoint under its usual names."""
    if isinstance(content, torch.nn.Module):
        return content
    if not isinstance(content, dict):
        return None
    found = (content.get(key) for key in ("ema", "model", "module", "net"))
    module = next((each for each in found if isinstance(each, torch.nn.Module)), None)
    return module.float() if module is not None else None


def _made_by(factory: str) -> Any:
    module_name, _, function = factory.partition(":")
    try:
        return getattr(importlib.import_module(module_name), function)()
    except Exception as problem:
        raise UsageError(
            f"the factory {factory} does not make a model",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
            fix="write it like package.module:function",
        ) from None


def _load_weights(torch: Any, module: Any, path: Path) -> None:
    try:
        content = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception as problem:
        raise _unreadable(path, problem) from None
    _fill(module, content, path)


def _fill(module: Any, content: Any, path: Path) -> None:
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    try:
        module.load_state_dict(content)
    except Exception as problem:
        raise InputError(
            f"the weights of {path.name} do not fit the model",
            facts={"reason": _first_line(problem)},
        ) from None


def _forward_inputs(module: Any) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=name, dtype="float32", shape=()) for name in _parameters(module))


def _parameters(module: Any) -> list[str]:
    """Name the arguments that a call must give."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return ["input"]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in plain and p.default is inspect.Parameter.empty]
    return names or ["input"]


def _plain(name: str) -> str:
    """TorchScript numbers names that repeat: ``x.1`` is the caller's ``x``."""
    return name.split(".")[0]


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [repr(problem)])[0]


def _unreadable(path: Path, problem: Exception) -> InputError:
    return InputError(
        f"{path.name} cannot be loaded by PyTorch", facts={"reason": _first_line(problem)}
    )
