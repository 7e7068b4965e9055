"""Loads PyTorch models by name or from a file; code in a file runs only with ``--trust``."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import io
import os
import pickletools
import re
import shlex
import sys
import textwrap
import urllib.error
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from trtbench.core import errors
from trtbench.core.results import ExportSpec, InputShape
from trtbench.core.safety import read_bytes
from trtbench.core.spec import TensorSpec
from trtbench.host.machine import library_versions
from trtbench.models.identity import sha256_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.nn import Module

INSTALL = (
    "pip install torch torchvision, or name an interpreter that has it by --python PATH or "
    "runtimes.torch.python in trtbench.toml"
)
_MOST_BYTES = 1 << 26  # pickles that name code are small; tensors are skipped
DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError, EOFError)
"""Errors of zipfile for damaged, encrypted and unsupported archives."""


@dataclass(frozen=True, kw_only=True)
class TorchSource:
    """A loaded model, as the export needs it."""

    kind: str  # `torchvision`, `TorchScript`, `ExportedProgram`, `state dict`, ...
    model: Module
    program: ExportedProgram | None = None  # the ExportedProgram it came from
    inputs: tuple[InputShape, ...] = ()  # shapes to export with by default
    sha256: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> int | None:
        parameters = getattr(self.model, "parameters", None)
        return sum(int(p.numel()) for p in parameters()) if parameters else None


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A module in evaluation mode, on the CPU, and what is known about its inputs."""

    module: Module
    kind: str
    inputs: tuple[TensorSpec, ...]  # shapes are empty where they are unknown
    suggested: bool = False  # whether the shapes are those of training, so that others may work
    notes: tuple[str, ...] = ()


def import_torch() -> ModuleType:
    """Return the torch module; raise an error with a fix if it cannot be used."""
    try:
        torch = importlib.import_module("torch")
    except Exception as problem:  # a broken installation fails in many ways
        missing = isinstance(problem, ModuleNotFoundError) and problem.name == "torch"
        how = "not installed here" if missing else "installed and cannot be imported"
        facts = {"interpreter": sys.executable, "reason": problem}
        raise errors.UnavailableError(f"PyTorch is {how}", facts=facts, fix=INSTALL) from None
    try:
        torch.zeros(1).numpy()
    except RuntimeError as problem:  # built for NumPy 1: with NumPy 2 only the import works
        facts = {"interpreter": sys.executable, "reason": problem}
        fix = f"{shlex.quote(sys.executable)} -m pip install 'numpy<2'"
        message = "this PyTorch does not work with the NumPy beside it"
        raise errors.UnavailableError(message, facts=facts, fix=fix) from None
    return torch


def load_model(
    source: str,
    *,
    weights: str = "default",
    trust: bool = False,
    factory: str | None = None,
    folder: str | None = None,
) -> LoadedModel:
    """Return the model that ``trtbench export`` would load for the same source."""
    torch = import_torch()
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)  # last, so that nothing installed is shadowed
    spec = ExportSpec(source=source, output="", weights=weights, trust=trust, factory=factory)
    found = load_source(spec, torch=torch)
    module = found.model if found.program is not None else found.model.eval()
    return LoadedModel(
        module=module,
        kind=found.kind,
        inputs=_inputs(found, module),
        suggested=found.program is None and bool(found.inputs),
        notes=found.notes,
    )


def _inputs(found: TorchSource, module: Module) -> tuple[TensorSpec, ...]:
    if found.program is not None:
        nodes = (node for node in found.program.graph.nodes if node.op == "placeholder")
        values = {node.name: node.meta.get("val") for node in nodes}
        return tuple(
            TensorSpec(
                name=name,
                dtype=str(values[name].dtype).removeprefix("torch."),
                shape=tuple(d if isinstance(d, int) else str(d) for d in values[name].shape),
            )
            for name in found.program.graph_signature.user_inputs
            if values.get(name) is not None
        )
    if found.kind == "TorchScript":  # TorchScript numbers repeated names: x.1 is the input x
        names = [value.debugName().split(".")[0] for value in list(module.graph.inputs())[1:]]
    else:
        try:
            parameters = list(inspect.signature(module.forward).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = (p for p in parameters if p.default is inspect.Parameter.empty)
        names = [p.name for p in needed if p.kind in plain] or ["input"]
    if not found.inputs:
        return tuple(TensorSpec(name=name, dtype="float32", shape=()) for name in names)
    return tuple(
        TensorSpec(
            name=each.name or name,
            dtype=each.dtype or "float32",
            shape=tuple("batch" if dim < 0 else dim for dim in each.shape),
        )
        for name, each in zip(names, found.inputs, strict=False)
    )


def embedding_rows(module: Module, names: Sequence[str]) -> dict[str, int]:
    """Return the rows that integer inputs may index, from the embeddings of a module."""
    rows = []
    for each in module.modules():
        kind = getattr(each, "original_name", type(each).__name__)  # the class before TorchScript
        if kind in ("Embedding", "EmbeddingBag"):
            table = each.weight
            rows.append(int((table() if callable(table) else table).shape[0]))
    if not rows or not names:
        return {}
    return dict.fromkeys(names, rows[0] if len(names) == 1 else min(rows))


def is_library_model(source: str) -> bool:
    """Whether a source is a model of a library (``torchvision:resnet18``), not a file."""
    zoo, _, name = source.partition(":")
    return zoo in ZOOS and bool(name) and "\n" not in name


def load_source(spec: ExportSpec, *, torch: ModuleType) -> TorchSource:
    """Return the model that ``spec.source`` names."""
    zoo, colon, name = spec.source.partition(":")
    if colon and zoo in ZOOS:
        return ZOOS[zoo](name, spec, torch)
    if colon and not Path(spec.source).exists() and "/" not in zoo and len(zoo) > 1:
        known = errors.near_miss(zoo, ZOOS)
        message = f"there is no source of models called {zoo!r}"
        fix = f"did you mean {known}:{name}?" if known else f"weights.pt --factory {spec.source}"
        raise errors.UsageError(message, facts={"known": ", ".join(ZOOS)}, fix=fix)
    return _checkpoint(Path(spec.source), spec, torch)


def _import_library(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as problem:
        raise errors.UnavailableError(
            f"{package} cannot be imported in this interpreter",
            facts={
                "interpreter": sys.executable,
                "reason": errors.first_line(problem),
                **library_versions(("torch", "torchvision")),
            },
            fix=f"{shlex.quote(sys.executable)} -m pip install {package}",
        ) from None


def _create_model(spec: ExportSpec, make: Callable[[], Module]) -> Module:
    """Return the model that ``make`` creates; a failed download is an error with a fix."""
    try:
        return make()
    except (errors.TrtbenchError, ValueError, KeyError, FileNotFoundError):
        raise
    except (OSError, RuntimeError) as problem:
        text = f"{type(problem).__name__} {problem}"
        words = "urlopen|http error|name or service|resolve|connection|huggingface"
        download = re.search(words, text, re.IGNORECASE)
        if spec.weights == "none" or not (isinstance(problem, urllib.error.URLError) or download):
            raise
        facts = {"source": spec.source, "reason": errors.first_line(problem)}
        fix = "--weights none takes random weights, --weights FILE your own"
        raise errors.InputError("the weights cannot be downloaded", facts=facts, fix=fix) from None


def _unknown_model(name: str, known: list[str]) -> errors.UsageError:
    guess = errors.near_miss(name, known)
    fix = f"did you mean {guess}?" if guess else None
    return errors.UsageError(f"there is no model called {name!r}", fix=fix)


def _torchvision(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    models = _import_library("torchvision.models", "torchvision")
    weights = "DEFAULT" if spec.weights == "default" else None
    try:
        model = _create_model(spec, lambda: models.get_model(name, weights=weights))
    except (ValueError, KeyError):
        raise _unknown_model(name, models.list_models()) from None
    try:  # the size it was trained for
        crop = models.get_model_weights(name).DEFAULT.transforms.keywords["crop_size"]
        size = int(crop[0] if isinstance(crop, (list, tuple)) else crop)
    except (AttributeError, KeyError, TypeError, ValueError):
        size = 224
    shape = InputShape(name=None, shape=(-1, 3, size, size))
    model = _with_weights(model, spec, torch)
    return TorchSource(kind="torchvision", model=model, inputs=(shape,))


def _timm(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    timm = _import_library("timm", "timm")
    if not timm.is_model(name.partition(".")[0]):
        raise _unknown_model(name, timm.list_models())
    trained = spec.weights == "default"
    model = _create_model(spec, lambda: timm.create_model(name, pretrained=trained))
    size = tuple(getattr(model, "pretrained_cfg", {}).get("input_size") or (3, 224, 224))
    shape = InputShape(name=None, shape=(-1, *size))
    return TorchSource(kind="timm", model=_with_weights(model, spec, torch), inputs=(shape,))


def _ultralytics(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    if spec.weights == "none":
        name = name.removesuffix(".pt").removesuffix(".yaml") + ".yaml"
        if Path(name).exists():  # used instead of the library's file; its activations are evaluated
            _require_trust(spec, name, {"whatever stands in it"}, what="a program in YAML")
    else:
        name = name if name.endswith(".pt") else f"{name}.pt"
        _require_trust(spec, name, {"ultralytics"})
    return _yolo(spec.weights if spec.weights not in ("default", "none") else name, spec)


def _yolo(path: str, spec: ExportSpec) -> TorchSource:
    ultralytics = _import_library("ultralytics", "ultralytics")
    try:
        model = _create_model(spec, lambda: ultralytics.YOLO(path).model)
    except FileNotFoundError as problem:
        message = f"Ultralytics has no model {path}"
        raise errors.InputError(message, facts={"reason": problem}) from None
    model = model.float().eval()
    if hasattr(model, "fuse"):
        model = model.fuse(verbose=False)
    for part in model.modules():  # heads return one tensor, as for inference
        if isinstance(getattr(part, "export", None), bool):
            part.export, part.format = True, "onnx"
            part.dynamic = True
    args, yaml = getattr(model, "args", None), getattr(model, "yaml", {})
    size = int(args.get("imgsz", 640) if isinstance(args, dict) else 640)
    channels = int(yaml.get("channels", yaml.get("ch", 3)))
    return TorchSource(
        kind="ultralytics",
        model=model,
        inputs=(InputShape(name="images", shape=(-1, channels, size, size)),),
        sha256=sha256_of(Path(path)) if Path(path).is_file() else None,
        notes=() if path.endswith(".yaml") else (f"{path} is a pickle and was trusted",),
    )


def _hub(name: str, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    """Return ``OWNER/REPO[:TAG]/MODEL`` from its hubconf.py, on GitHub or in a local folder."""
    repository, slash, entry = name.rpartition("/")
    if not slash or not entry:
        message = f"torch.hub:{name} names no model"
        raise errors.UsageError(message, fix="torch.hub:pytorch/vision:v0.10.0/resnet18")
    _require_trust(spec, f"{repository}/hubconf.py", {"the code of its authors"}, what="a program")
    place = "local" if Path(repository).is_dir() else "github"
    source = str(Path(repository).absolute()) if place == "local" else repository
    find, trained = torch.hub._load_entry_from_hubconf, spec.weights == "default"
    found: list[str] = []  # what is to be said, once the repository is here

    def find_entry(module: ModuleType, wanted: str) -> Callable[[], Module]:
        """Return the entry with the arguments for weights that it names itself."""
        make = find(module, wanted)
        found.append(f"{repository} ran its own code and was trusted")
        named = inspect.signature(make).parameters
        values = {"pretrained": trained, "weights": "DEFAULT" if trained else None}
        own = {name: name if trained else name.partition("_")[0] for name in named}  # of backbones
        given = {name: values[word] for name, word in own.items() if word in values}
        if not {*values} & {*given}:
            found.append(f"{wanted} has no argument for weights: they are what its code makes")
            if spec.weights == "none":
                raise errors.UsageError(f"{found[-1]}, not random", fix="--weights default")
        elif "pretrained" in given or (trained and named["weights"].default is not None):
            given.pop("weights", None)  # it says which pretrained ones
        return partial(_create_model, spec, partial(make, **given))

    torch.hub._load_entry_from_hubconf = find_entry
    try:
        model = torch.hub.load(source, entry, source=place, trust_repo=True)
    except errors.TrtbenchError:
        raise
    except Exception as problem:  # no such model, a missing package or file, no network
        message = f"torch.hub cannot load {entry!r} of {repository}"
        fix = "check the name, and install what its hubconf.py needs"
        offline = isinstance(problem, urllib.error.URLError) and not hasattr(problem, "code")
        if not found and (offline or "internet connection" in str(problem)):
            message = f"offline: github.com cannot be reached, and {repository} is not in the cache"
            fix = f"git clone it elsewhere, and name the folder: torch.hub:FOLDER/{entry}"
        reason = errors.first_line(problem)
        raise errors.InputError(message, facts={"reason": reason}, fix=fix) from None
    finally:
        torch.hub._load_entry_from_hubconf = find
    model = _with_weights(model, spec, torch)
    return TorchSource(kind="torch.hub", model=model, notes=tuple(found))


ZOOS: dict[str, Callable[[str, ExportSpec, ModuleType], TorchSource]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "ultralytics": _ultralytics,
    "torch.hub": _hub,
}
"""Libraries of models, for sources of the form ``name:model``."""


def _checkpoint(path: Path, spec: ExportSpec, torch: ModuleType) -> TorchSource:
    if not path.is_file():
        fix = "a model by name is written torchvision:resnet18, timm:... or ultralytics:..."
        raise errors.InputError(f"there is no file {path}", fix=fix)
    refuse_weights_alone(path, spec.factory)
    kind, digest, named = archive_kind(path), sha256_of(path), packages_named(path)
    try:
        if kind == "ExportedProgram":  # its constants and examples are pickles
            _require_trust(spec, path.name, named, what="an exported program")
            program = torch.export.load(str(path))
            return TorchSource(kind=kind, model=program.module(), program=program, sha256=digest)
        if kind == "TorchScript":
            if touched := file_operators(path, torch):
                what, danger = "TorchScript with files", "running it can change any of yours"
                _require_trust(spec, path.name, touched, what=what, danger=danger)
            script = torch.jit.load(str(path), map_location="cpu")
            return TorchSource(kind=kind, model=script, sha256=digest)
    except errors.TrtbenchError:
        raise
    except Exception as problem:  # a damaged file, or operators of a missing library
        facts = {"reason": errors.first_line(problem)}
        fix = "save it again, with the version of PyTorch that is here"
        raise errors.InputError(f"PyTorch cannot load {path.name}", facts=facts, fix=fix) from None
    weights = _weights_only(path, spec, torch)
    if weights is not None:
        model = _load_weights(_from_factory(spec.factory or ""), weights, path)
        return TorchSource(kind="state dict", model=model, sha256=digest)
    _require_trust(spec, path.name, named)  # a whole module, which runs whatever code it names
    if "ultralytics" in named:
        return _yolo(str(path), spec)
    try:
        loaded = torch.load(str(path), map_location="cpu", weights_only=False)
    except (ImportError, AttributeError) as problem:
        raise errors.InputError(
            f"{path.name} needs code that is not here",
            facts={"reason": problem, "names": ", ".join(sorted(named))},
            fix="run where the module's code can be imported",
        ) from None
    except Exception as problem:  # a damaged pickle may raise anything
        message = f"{path.name} is not a PyTorch file, or it is damaged"
        fix = "save it again with torch.save"
        raise errors.InputError(message, facts={"reason": problem}, fix=fix) from None
    if isinstance(loaded, dict):
        loaded = next((loaded[key] for key in ("ema", "model") if loaded.get(key)), loaded)
    if not isinstance(loaded, torch.nn.Module):
        message = f"{path.name} holds no module"
        fix = "torch.save(module, FILE), or give a state dict and --factory"
        raise errors.InputError(message, facts={"it holds": type(loaded).__name__}, fix=fix)
    note = f"{path.name} is a pickle and was trusted"
    return TorchSource(kind="module", model=loaded.float(), sha256=digest, notes=(note,))


def refuse_weights_alone(path: Path, factory: str | None) -> None:
    """Raise an error if a file holds nothing but weights, and nothing makes their module."""
    alone = factory is None and path.is_file() and archive_kind(path) == "pickle"
    if alone and packages_named(path) == {"torch"}:
        raise errors.UsageError(
            f"{path.name} holds weights without the module they belong to",
            fix="--factory package.module:function names what makes the module",
        )


def _require_trust(
    spec: ExportSpec,
    name: str,
    named: set[str],
    *,
    what: str = "a pickle",
    danger: str = "loading it can run any code",
) -> None:
    if not spec.trust:
        facts = {"it names": ", ".join(sorted(named)) or "nothing that can be recognized"}
        fix = "--trust, if you know where it comes from; or save a state dict and load that"
        raise errors.UsageError(f"{name} is {what}: {danger}", facts=facts, fix=fix)


def _weights_only(path: Path, spec: ExportSpec, torch: ModuleType) -> dict[str, Tensor] | None:
    """Return the tensors of a file by name; ``None`` if it holds anything else."""
    version = tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])
    if version < (2, 6):  # weights_only is not safe there (CVE-2025-32434)
        danger = f"PyTorch {torch.__version__} can run code even where it reads weights alone"
        _require_trust(spec, path.name, packages_named(path), danger=danger)
    try:
        loaded = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception:  # not a file of weights; the caller tries other formats
        return None
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not loaded:
        return None
    if not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        return None
    return {str(key).removeprefix("module."): value for key, value in loaded.items()}


def _from_factory(factory: str) -> Module:
    module_name, colon, function = factory.partition(":")
    if not colon:
        dotted = ":".join(factory.rsplit(".", 1)) if "." in factory else "package.module:function"
        message = f"--factory {factory} names no function of a module"
        raise errors.UsageError(message, fix=f"--factory {dotted}")
    try:
        make = getattr(importlib.import_module(module_name), function)
    except Exception as problem:  # missing, or its code fails on import
        message = f"--factory {factory} cannot be imported"
        fix = "run it in the folder of that module, or --python of an environment that has it"
        raise errors.UsageError(message, facts={"reason": problem}, fix=fix) from None
    try:
        return make()
    except Exception as problem:  # code of the user
        raise errors.UsageError(
            f"--factory {factory} makes no module",
            facts={"reason": f"{type(problem).__name__}: {errors.first_line(problem)}"},
            fix="name a function that is called without arguments and returns the module",
        ) from None


def _with_weights(model: Module, spec: ExportSpec, torch: ModuleType) -> Module:
    """Return a library model with the weights in the file of ``--weights``, if given."""
    if spec.weights in ("default", "none"):
        return model
    path = Path(spec.weights)
    if not path.is_file():
        raise errors.InputError(f"there is no file {path}", fix="--weights default, none or a file")
    weights = _weights_only(path, spec, torch)
    if weights is None:
        message = f"{path.name} is not a state dict"
        raise errors.InputError(message, fix="torch.save(model.state_dict(), 'weights.pt')")
    return _load_weights(model, weights, path)


def _load_weights(model: Module, weights: dict[str, Tensor], path: Path) -> Module:
    try:
        model.load_state_dict(weights)
    except RuntimeError as problem:
        lines = [line.strip() for line in str(problem).splitlines()]
        facts = {"reason": textwrap.shorten(lines[1] if len(lines) > 1 else lines[0], 200)}
        message = f"{path.name} does not fit the model that --factory makes"
        fix = "--factory MODULE:FUNCTION of the model that these weights are from"
        raise errors.InputError(message, facts=facts, fix=fix) from None
    return model


def archive_kind(path: Path) -> Literal["ExportedProgram", "TorchScript", "pickle", "unknown"]:
    """Return the kind of a PyTorch file by the names in its archive; no code is run."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except DAMAGE:
        with open(path, "rb") as file:
            return "pickle" if file.read(2)[:1] == b"\x80" else "unknown"
    inner = [name.partition("/")[2] for name in names]
    if any(name.startswith(("models/", "serialized_exported_program")) for name in inner + names):
        return "ExportedProgram"
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return "TorchScript"
    return "pickle" if "data.pkl" in inner else "unknown"


def packages_named(path: Path) -> set[str]:
    """Return the packages whose code a pickle would run, except those tensors need."""
    found: set[str] = set()
    left = iter(range(1_000_000))  # limit for all pickles; weights have about ten per tensor
    try:
        pickles = list(_pickles_in(path))
    except DAMAGE:
        with open(path, "rb") as file:
            pickles = [file.read(_MOST_BYTES)]
    for data in pickles:
        texts: list[str] = []
        try:
            for _, (operation, argument, _) in zip(left, pickletools.genops(data), strict=False):
                if operation.name == "GLOBAL":
                    found.add(str(argument).partition(" ")[0])
                elif operation.name == "STACK_GLOBAL" and len(texts) > 1:
                    found.add(texts[-2])
                elif isinstance(argument, str):
                    texts.append(argument)
        except Exception:  # keep the names before the damage
            continue
    modules = {"torch.nn"} & {name[:8] for name in found}  # modules, not weights alone
    found = modules | {name.partition(".")[0] for name in found}
    plain = {"torch", "collections", "numpy", "builtins", "__builtin__"}  # weights may name them
    return found - plain or found & {"torch"}


def _pickles_in(source: Path | io.BytesIO) -> Iterator[bytes]:
    """Yield the pickles in an archive and in nested archives."""
    left = _MOST_BYTES
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if not member.filename.endswith((".pkl", ".pt")) or member.file_size > left:
                continue
            left -= member.file_size
            if member.filename.endswith(".pkl"):
                yield archive.read(member)
            elif isinstance(source, Path):
                with contextlib.suppress(*DAMAGE):
                    yield from _pickles_in(io.BytesIO(archive.read(member)))


def file_operators(path: Path, torch: ModuleType) -> set[str]:
    """Return the operators in a TorchScript file that read or write files.

    PyTorch and torchvision have no others that take file names. PyTorch itself reads the archive,
    because a file can have two tables of contents, and Python may use the other one. Code that
    cannot be read counts as such an operator.
    """
    found: set[bytes] = set()
    try:
        with zipfile.ZipFile(path) as archive:
            code = [each for each in archive.infolist() if each.filename.endswith(".py")]
        if any(member.file_size > _MOST_BYTES for member in code):
            return {"code that is too large to be looked at"}
        reader = torch._C.PyTorchFileReader(str(path))
        for name in reader.get_all_records():
            if name.endswith(".py"):
                words = rb"\b(from_file|save|read_file|write_file)\b"
                found |= set(re.findall(words, reader.get_record(name)))
    except (*DAMAGE, AttributeError):
        return {"code that cannot be looked at"}
    return {f"torch.{each.decode()}" for each in found}


def factory_code(factory: str) -> tuple[Path, list[Path]]:
    """Return the folder that the module of a factory is imported from, and its files."""
    named = factory.partition(":")[0]
    roots = [Path(), *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    root = next((each for each in roots if named and _file_of(named, each) is not None), Path())
    return root, _code_of(named, root)


def hub_code_sha256(source: str) -> str | None:
    """Return the hash of the code in a local torch.hub repository; ``None`` for others."""
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
    """Return the file of a module and, recursively, of the modules under root it imports."""
    found: list[Path] = []
    todo = [module]
    while todo:
        name = todo.pop()
        path = _file_of(name, root)
        if path is None or path in found:
            continue
        found.append(path)
        parent = name.rpartition(".")[0]
        todo.append(parent)
        try:
            tree = ast.parse(read_bytes(path))
        except (OSError, errors.InputError, SyntaxError, ValueError, RecursionError):
            continue  # reported when it is imported
        parts = (name if path.name == "__init__.py" else parent).split(".")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                todo += [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):  # imported names may be modules
                above = parts[: len(parts) - node.level + 1] if node.level else []
                base = ".".join(filter(None, [*above, node.module]))
                todo += [base, *(f"{base}.{each.name}" for each in node.names)]
    return found
