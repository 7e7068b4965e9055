"""Plug-ins and optional libraries: found by name, imported on use, checked against a contract."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from trtbench.core.errors import UnavailableError, UsageError, near_miss, refuse_unknown
from trtbench.core.safety import read_bytes

if TYPE_CHECKING:
    from importlib import metadata

T = TypeVar("T")

CONTRACT = "contract"  # the module that declares what the plug-ins of its folder must offer


def foreign_plug_ins() -> list[tuple[str, str]]:
    """Return the plug-ins that other packages provide, and their places, without an import."""
    from importlib import metadata

    found = []
    for each in metadata.distributions():
        package = each.metadata["Name"] or "an unnamed package"
        place = f"{package} {each.version} in {each.locate_file('')}"
        for entry in each.entry_points:
            group, _, noun = entry.group.removesuffix("s").rpartition(".")
            if group == "trtbench":
                found.append((f"{noun} {entry.name}", f"{entry.value}, from {place}"))
    return sorted(found)


@cache
def _declared(folders: tuple[str, ...]) -> bytes:
    """Return the files of entry points of all packages in some folders, one after the other."""
    found = []
    for folder in filter(os.path.isdir, folders):
        infos = [each for each in Path(folder).iterdir() if each.name.lower().endswith("-info")]
        paths = [each / "entry_points.txt" for each in infos]
        found += [read_bytes(path) for path in paths if os.access(path, os.R_OK)]
    return b"\n".join(found)


class Registry(Generic[T]):
    """The plug-ins of one package: its public modules, and entry points from other packages.

    ``T`` is the contract, a Protocol. A member without a value there must be in the module; one
    with a value is an ability that a plug-in may leave out, and then has that value.
    """

    def __init__(self, package: str, *, noun: str, contract: type[T]) -> None:
        self.package = package
        self.noun = noun
        self.contract = contract
        self._checked: dict[str, T] = {}

    def names(self) -> list[str]:
        """Return the names of the plug-ins, as a user types them, without importing any."""
        return sorted({*self._modules(), *self.entry_points()})

    def load(self, name: str) -> T:
        """Import one plug-in by the name a user types, and check it against the contract."""
        if name not in self._checked:
            modules = self._modules()
            if name in modules:
                module = importlib.import_module(f"{self.package}.{modules[name]}")
            else:
                module = self._import_foreign(name)
            check_contract(module, self.contract, noun=self.noun)
            self._checked[name] = cast(T, module)
        return self._checked[name]

    def loaded(self) -> Iterator[tuple[str, T]]:
        for name in self.names():
            yield name, self.load(name)

    def entry_points(self) -> dict[str, metadata.EntryPoint]:
        group = f"[{self.package}]".encode()
        zipped = any(map(os.path.isfile, sys.path))
        if not zipped and group not in _declared(tuple(sys.path)):
            return {}  # the usual case, without a slow import
        from importlib import metadata

        return {entry.name: entry for entry in metadata.entry_points(group=self.package)}

    def _import_foreign(self, name: str) -> ModuleType:
        refuse_unknown(name, self.names(), f"there is no {self.noun} called {name!r}")
        entry = self.entry_points()[name]
        facts = {"entry point": entry.value}
        try:
            loaded = entry.load()
        except Exception as problem:  # another package's fault must not look like our bug
            facts["package"] = entry.dist.name if entry.dist else "unknown"
            facts["reason"] = f"{type(problem).__name__}: {problem}"
            message = f"the {self.noun} {name!r} cannot be imported"
            raise UnavailableError(message, facts=facts) from problem
        if not isinstance(loaded, ModuleType):
            raise UsageError(f"the {self.noun} {name!r} is not a module", facts=facts)
        return loaded

    def _modules(self) -> dict[str, str]:
        spec = importlib.util.find_spec(self.package)  # without importing the package
        return {
            info.name.replace("_", "-"): info.name
            for info in pkgutil.iter_modules(spec.submodule_search_locations if spec else ())
            if not info.name.startswith("_") and info.name != CONTRACT
        }


def check_contract(module: ModuleType, contract: type, *, noun: str) -> None:
    """Raise an error if a module breaks the contract; missing abilities get their defaults."""
    shown = {name: value for name, value in vars(contract).items() if name[0] != "_"}
    needed = {name: each for name, each in shown.items() if isinstance(each, FunctionType)}
    annotated = [name for name in inspect.get_annotations(contract) if name[0] != "_"]
    abilities = {name: shown[name] for name in annotated if name in shown}
    constants = [name for name in annotated if name not in abilities]
    own = [name for name in vars(module) if name[0] != "_"]
    for name in (*constants, *needed):
        if name not in own:
            raise _contract_error(module, noun, f"it has no {name}", near_miss(name, own))
    for name, pattern in needed.items():
        found = vars(module)[name]
        if not callable(found):
            raise _contract_error(module, noun, f"{name} is not a function")
        theirs = dict(inspect.signature(found).parameters)
        if any(each.kind is each.VAR_KEYWORD for each in theirs.values()):
            continue
        for word in list(inspect.signature(pattern).parameters)[1:]:  # without self
            if theirs.pop(word, None) is None:
                raise _contract_error(module, noun, f"{name} has no parameter {word}")
        for each in theirs.values():
            if each.default is each.empty and each.kind is not each.VAR_POSITIONAL:
                problem = f"{name} requires {each.name}, which is never passed"
                raise _contract_error(module, noun, problem)
    for name in abilities.keys() - {*own}:
        written = near_miss(name, [each for each in own if each not in abilities], least=0.85)
        if written is not None and written.isupper() == name.isupper():
            raise _contract_error(module, noun, f"it has {written}, which is not used", name)
        setattr(module, name, abilities[name])


def _contract_error(
    module: ModuleType, noun: str, problem: str, guess: str | None = None
) -> UsageError:
    message = f"the {noun} {module.__name__.rpartition('.')[2]!r} breaks its contract: {problem}"
    facts = {"file": module.__file__ or module.__name__}
    return UsageError(message, facts=facts, fix=f"did you mean {guess}?" if guess else None)


MAKE_MODELOPT = (
    "python3 -m venv modelopt && modelopt/bin/pip install 'nvidia-modelopt[onnx]' msgspec"
)
"""NVIDIA ModelOpt pins old releases of onnx and onnxruntime, so it needs its own interpreter."""
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "onnx": (("onnx", "onnxruntime"), "ONNX files: ONNX Runtime, build, quantize, check, inspect"),
    "plots": (("matplotlib",), "pictures: PNG, and in reports and sites"),
    "tasks": (("PIL", "matplotlib"), "eval and calibration on images"),
    "torch": (("torch", "onnxscript"), "PyTorch models: bench and export"),
    "rtx": (("tensorrt_rtx",), "TensorRT-RTX, whose builder needs no GPU"),
    "cu12": (("cuda",), "engines in this process, driver of CUDA 12"),
    "cu13": (("cuda",), "engines in this process, driver of CUDA 13"),
    "cupti": (("cupti",), "layer times by kernels, driver of CUDA 13"),
    "postgres": (("psycopg",), "a store in PostgreSQL"),
    "remote": (("fsspec", "s3fs"), "runs in an object store"),
    "ray": (("ray",), "runs on a Ray cluster"),
    "parquet": (("pyarrow",), "tables as Parquet"),
    "pandas": (("pandas",), "runs, lists and layers as tables of pandas"),
}
"""By name: the packages that an extra installs, and what they are for."""


def missing_package(problem: ImportError, name: str | None = None) -> UnavailableError | None:
    """Return an error with the command that installs a package; ``None`` if no extra has it."""
    from importlib import metadata

    package = (name or problem.name or "").partition(".")[0]
    extra = next((name for name, (names, _) in EXTRAS.items() if package in names), None)
    if extra is None:
        return None
    lacking = isinstance(problem, ModuleNotFoundError) and (problem.name or "").partition(".")[0]
    absent = lacking == package
    message = f"the package {package} {'is not installed' if absent else 'cannot be imported'}"
    facts = {"it is for": EXTRAS[extra][1], **({} if absent else {"reason": problem})}
    # What is missing may be another package, which this one imports.
    needed = f"'trtbench[{extra}]'" if absent or not lacking else lacking
    pip = "pip"
    if not any(True for _ in metadata.distributions(name="trtbench")):
        # The interpreter of --python: it has no trtbench, whose extras could be named.
        facts["interpreter"], pip = sys.executable, f"{shlex.quote(sys.executable)} -m pip"
        needed = {"PIL": "pillow", "cuda": "cuda-bindings"}.get(package, package)
    return UnavailableError(message, facts=facts, fix=f"{pip} install {needed}")


def optional_library(name: str) -> ModuleType:
    """Import a library of an extra; if it is missing, the error names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise missing_package(problem, name) or problem from problem
