"""PyTorch models by name or by file, loaded without running strangers' code unasked."""

from __future__ import annotations

import importlib
import re
import urllib.error
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from trtbench.domain.conversion import ExportSpec, InputShape
from trtbench.errors import InputError, UnavailableError, UsageError, first_line, near_miss
from trtbench.models.identity import sha256_of
from trtbench.models.torch_libraries import downloaded, library, unknown_model
from trtbench.models.torch_pickle import archive_kind, file_operators, modules_named

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.nn import Module

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TorchSource:
    """A model that was loaded, and what is known of it."""

    kind: str
    model: Module
    program: ExportedProgram | None = None
    """The ExportedProgram it came from."""
    inputs: tuple[InputShape, ...] = ()
    """Shapes to export with when nobody says."""
    sha256: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> int | None:
        parameters = getattr(self.model, "parameters", None)
        return sum(int(p.numel()) for p in parameters()) if parameters else None


def load_source(spec: ExportSpec, *, torch: ModuleType) -> TorchSource:
    """Load what ``spec.source`` names."""
    zoo, colon, name = spec.source.partition(":")
    if colon and zoo in ZOOS:
        return ZOOS[zoo](name, spec, torch)
    if colon and not Path(spec.source).exists() and "/" not in zoo and len(zoo) > 1:
        guess = near_miss(zoo, ZOOS)
        raise UsageError(
            f"there is no source of models called {zoo!r}",
            facts={"known": ", ".join(ZOOS)},
            fix=f"did you mean {guess}:{name}?" if guess else f"{next(iter(ZOOS))}:{name}",
        )
    return _checkpoint(Path(spec.source), spec, torch)


def _torchvision(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    models = library("torchvision.models", "torchvision")
    weights = "DEFAULT" if spec.weights == "default" else None
    try:
        model = downloaded(spec, lambda: models.get_model(name, weights=weights))
    except (ValueError, KeyError):
        raise unknown_model(name, models.list_models()) from None
    size = _crop(models, name)
    shape = InputShape(name=None, shape=(-1, 3, size, size))
    return TorchSource(kind="torchvision", model=_with_weights(model, spec, torch), inputs=(shape,))


def _crop(models: ModuleType, name: str) -> int:
    """Find the size a network was trained for, from the transforms of its weights."""
    try:
        weights = models.get_model_weights(name).DEFAULT
        crop = weights.transforms.keywords["crop_size"]
    except (AttributeError, KeyError, TypeError, ValueError):
        return 224
    return int(crop[0] if isinstance(crop, (list, tuple)) else crop)


def _timm(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    timm = library("timm", "timm")
    if not timm.is_model(name.partition(".")[0]):
        raise unknown_model(name, timm.list_models())
    model = downloaded(spec, lambda: timm.create_model(name, pretrained=spec.weights == "default"))
    size = tuple(getattr(model, "pretrained_cfg", {}).get("input_size") or (3, 224, 224))
    shape = InputShape(name=None, shape=(-1, *size))
    return TorchSource(kind="timm", model=_with_weights(model, spec, torch), inputs=(shape,))


def _ultralytics(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    if spec.weights == "none":
        name = name.removesuffix(".pt").removesuffix(".yaml") + ".yaml"
        if Path(name).exists():  # taken before the library's own; activations in it are evaluated
            _demand_trust(spec, name, {"whatever stands in it"}, what="a program in YAML")
    else:
        name = name if name.endswith(".pt") else f"{name}.pt"
        _demand_trust(spec, name, {"ultralytics"})
    path = spec.weights if spec.weights not in ("default", "none") else name
    return _yolo(path, spec)


def _yolo(path: str, spec: ExportSpec) -> TorchSource:
    ultralytics = library("ultralytics", "ultralytics")
    try:
        model = downloaded(spec, lambda: ultralytics.YOLO(path).model)
    except FileNotFoundError as problem:
        raise InputError(f"Ultralytics has no model {path}", facts={"reason": problem}) from None
    model = model.float().eval()
    if hasattr(model, "fuse"):
        model = model.fuse(verbose=False)
    for part in model.modules():  # heads give one tensor instead of what training needs
        if isinstance(getattr(part, "export", None), bool):
            part.export, part.format = True, "onnx"
            part.dynamic = True
    size = int(getattr(model, "args", {}).get("imgsz", 640) if _has_args(model) else 640)
    channels = int(
        getattr(model, "yaml", {}).get("channels", getattr(model, "yaml", {}).get("ch", 3))
    )
    shape = InputShape(name="images", shape=(-1, channels, size, size))
    file = Path(path)
    return TorchSource(
        kind="ultralytics",
        model=model,
        inputs=(shape,),
        sha256=sha256_of(file) if file.is_file() else None,
        notes=() if path.endswith(".yaml") else (f"{path} is a pickle and was trusted",),
    )


def _has_args(model: Module) -> bool:
    return isinstance(getattr(model, "args", None), dict)


def _hub(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    """Load ``OWNER/REPO[:TAG]/MODEL`` by its hubconf.py, of GitHub or of a folder here."""
    repository, slash, entry = name.rpartition("/")
    if not slash or not entry:
        raise UsageError(
            f"torch.hub:{name} names no model", fix="torch.hub:pytorch/vision:v0.10.0/resnet18"
        )
    _demand_trust(spec, f"{repository}/hubconf.py", {"the code of its authors"}, what="a program")
    local = Path(repository).is_dir()
    source = str(Path(repository).absolute()) if local else repository
    from_where = "local" if local else "github"

    def load(**how: object) -> Module:
        try:
            return torch.hub.load(source, entry, source=from_where, trust_repo=True, **how)
        except RuntimeError as problem:
            if "Cannot find callable" in str(problem):
                raise UsageError(f"{repository} has no model called {entry!r}") from None
            if missing := re.search(r"Missing dependencies: (.+)", str(problem)):
                raise _lacking(repository, missing[1]) from None
            raise
        except ModuleNotFoundError as problem:
            raise _lacking(repository, problem.name or str(problem)) from None
        except FileNotFoundError as problem:
            raise InputError(
                f"{repository} misses a file that torch.hub needs", facts={"reason": problem}
            ) from None
        except urllib.error.URLError as problem:
            kept = repository.partition(":")[0].replace("/", "_")
            if local or any(Path(torch.hub.get_dir()).glob(f"{kept}_*")):
                raise  # the repository is here: its weights are not
            raise InputError(
                f"{repository} cannot be fetched from GitHub",
                facts={"reason": problem.reason},
                fix=f"clone it, and write torch.hub:FOLDER/{entry}",
            ) from None

    trained = spec.weights == "default"
    ways: tuple[dict[str, object], ...] = (
        {"weights": "DEFAULT" if trained else None}, {"pretrained": trained}, {},
    )  # fmt: skip
    model = downloaded(spec, lambda: _first_that_fits(load, ways))
    note = f"{repository} ran its own code and was trusted"
    return TorchSource(kind="torch.hub", model=_with_weights(model, spec, torch), notes=(note,))


def _lacking(repository: str, packages: str) -> UnavailableError:
    return UnavailableError(
        f"{repository} needs packages that are not here",
        facts={"missing": packages},
        fix=f"pip install {packages.replace(',', '')}",
    )


def _first_that_fits(load: Callable[..., Module], ways: Sequence[dict[str, object]]) -> Module:
    """Ask for weights as the entry point takes it: repositories differ in the word."""
    for how in ways[:-1]:
        try:
            return load(**how)
        except TypeError as problem:
            if next(iter(how)) not in str(problem):
                raise
    return load(**ways[-1])


ZOOS: dict[str, Callable[[str, ExportSpec, ModuleType], TorchSource]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "ultralytics": _ultralytics,
    "torch.hub": _hub,
}
"""Sources that are written ``name:model``."""


SAFE_WEIGHTS = (2, 6)
"""From this version on, ``weights_only`` keeps its word (CVE-2025-32434)."""


def _checkpoint(path: Path, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    if not path.is_file():
        raise InputError(
            f"there is no file {path}",
            fix="a model by name is written torchvision:resnet18, timm:... or ultralytics:...",
        )
    kind = archive_kind(path)
    digest = sha256_of(path)
    if kind == "ExportedProgram":
        # torch.export.load takes constants and examples that are pickles, and runs what they name.
        _demand_trust(spec, path.name, modules_named(path), what="an exported program")
        program = _read(path, torch.export.load)
        return TorchSource(kind=kind, model=program.module(), program=program, sha256=digest)
    if kind == "TorchScript":
        touched = file_operators(path, torch)
        if touched:
            danger = "running it can change any of yours"
            _demand_trust(spec, path.name, touched, what="TorchScript with files", danger=danger)
        script = _read(path, partial(torch.jit.load, map_location="cpu"))
        return TorchSource(kind=kind, model=script, sha256=digest)
    weights = _weights_only(path, spec, torch)
    if weights is not None:
        model = _from_factory(spec, weights, path)
        return TorchSource(kind="state dict", model=model, sha256=digest)
    return _pickled(path, spec, torch, digest)


def _read(path: Path, load: Callable[[str], T]) -> T:
    """Have PyTorch read a file; what it says of one that it cannot read is put into words."""
    try:
        return load(str(path))
    except Exception as problem:  # a damaged file, or operators of a library that is not here
        raise InputError(
            f"PyTorch cannot load {path.name}",
            facts={"reason": first_line(problem)},
            fix="save it again, with the version of PyTorch that is here",
        ) from None


def _version(torch: ModuleType) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])


def _pickled(path: Path, spec: ExportSpec, torch: ModuleType, digest: str) -> TorchSource:
    """Load a whole module, which runs whatever code the file names."""
    named = modules_named(path)
    _demand_trust(spec, path.name, named)
    if "ultralytics" in named:
        return _yolo(str(path), spec)
    try:
        loaded = torch.load(str(path), map_location="cpu", weights_only=False)
    except (ImportError, AttributeError) as problem:
        raise InputError(
            f"{path.name} needs code that is not here",
            facts={"reason": problem, "names": ", ".join(sorted(named))},
            fix="run where the module's code can be imported",
        ) from None
    except Exception as problem:  # a damaged pickle may raise anything
        raise InputError(
            f"{path.name} is not a PyTorch file, or it is damaged",
            facts={"reason": problem},
            fix="save it again with torch.save",
        ) from None
    if isinstance(loaded, dict):
        loaded = next((loaded[key] for key in ("ema", "model") if loaded.get(key)), loaded)
    if not isinstance(loaded, torch.nn.Module):
        raise InputError(
            f"{path.name} holds no module",
            facts={"it holds": type(loaded).__name__},
            fix="torch.save(module, FILE), or give a state dict and --factory",
        )
    note = f"{path.name} is a pickle and was trusted"
    return TorchSource(kind="module", model=loaded.float(), sha256=digest, notes=(note,))


def _demand_trust(
    spec: ExportSpec,
    name: str,
    named: set[str],
    *,
    what: str = "a pickle",
    danger: str = "loading it can run any code",
) -> None:
    if spec.trust:
        return
    raise UsageError(
        f"{name} is {what}: {danger}",
        facts={"it names": ", ".join(sorted(named)) or "nothing that can be told"},
        fix="--trust, if you know where it comes from; or save a state dict and give --factory",
    )


def _weights_only(path: Path, spec: ExportSpec, torch: ModuleType) -> dict[str, Tensor] | None:
    """Read tensors and nothing else; ``None`` when the file holds anything more."""
    if _version(torch) < SAFE_WEIGHTS:
        danger = f"PyTorch {torch.__version__} can run code even where it reads weights alone"
        _demand_trust(spec, path.name, modules_named(path), danger=danger)
    try:
        loaded = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception:  # the caller finds out what else it is
        return None
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not loaded:
        return None
    if not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        return None
    return {str(key).removeprefix("module."): value for key, value in loaded.items()}


def _from_factory(spec: ExportSpec, weights: dict[str, Tensor], path: Path) -> Module:
    if spec.factory is None:
        raise UsageError(
            f"{path.name} holds weights without the module they belong to",
            facts={"tensors": len(weights), "first": next(iter(weights))},
            fix="--factory package.module:function names what makes the module",
        )
    module_name, colon, function = spec.factory.partition(":")
    if not colon:
        raise UsageError("--factory is written package.module:function")
    try:
        make = getattr(importlib.import_module(module_name), function)
    except Exception as problem:  # not there, or its code fails when it is imported
        raise UsageError(
            f"--factory {spec.factory} cannot be imported",
            facts={"reason": problem},
            fix="run it in the folder of that module, or --python of an environment that has it",
        ) from None
    try:
        model: Module = make()
    except Exception as problem:  # the user's own code
        raise UsageError(
            f"--factory {spec.factory} makes no module",
            facts={"reason": f"{type(problem).__name__}: {first_line(problem)}"},
            fix="name a function that is called without arguments and returns the module",
        ) from None
    return _loaded(model, weights, path)


def _with_weights(model: Module, spec: ExportSpec, torch: ModuleType) -> Module:
    """Put the user's own weights into a model known by name."""
    if spec.weights in ("default", "none"):
        return model
    path = Path(spec.weights)
    if not path.is_file():
        raise InputError(f"there is no file {path}", fix="--weights default, none or a file")
    weights = _weights_only(path, spec, torch)
    if weights is None:
        raise InputError(
            f"{path.name} is not a state dict", fix="torch.save(model.state_dict(), 'weights.pt')"
        )
    return _loaded(model, weights, path)


def _loaded(model: Module, weights: dict[str, Tensor], path: Path) -> Module:
    try:
        model.load_state_dict(weights)
    except RuntimeError as problem:
        lines = [line.strip() for line in str(problem).splitlines()]
        raise InputError(
            f"{path.name} does not fit the model",
            facts={"reason": lines[1] if len(lines) > 1 else lines[0]},
        ) from None
    return model
