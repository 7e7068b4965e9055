"""The folder is the registry: plug-ins are found by file name, imported on use, held to a contract.

Knows folders, module names, entry points and what a contract asks for; does not know what a
plug-in does.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from trtbench.errors import UnavailableError, UsageError, near_miss

if TYPE_CHECKING:
    from importlib import metadata

T = TypeVar("T")

CONTRACT = "contract"
"""The module of a folder that says what its plug-ins offer; it is none itself."""


@dataclass(frozen=True, kw_only=True)
class ForeignPlugIn:
    """A plug-in that another installed package brings."""

    noun: str
    name: str
    value: str
    package: str
    version: str
    folder: str


def foreign_plug_ins() -> list[ForeignPlugIn]:
    """List the plug-ins of all kinds that other packages bring, without importing any."""
    from importlib import metadata

    found = []
    for distribution in metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group.startswith(_GROUPS):
                found.append(
                    ForeignPlugIn(
                        noun=entry.group.rpartition(".")[2].removesuffix("s"),
                        name=entry.name,
                        value=entry.value,
                        package=distribution.metadata["Name"] or "an unnamed package",
                        version=distribution.version,
                        folder=str(distribution.locate_file("")),
                    )
                )
    return sorted(found, key=lambda each: (each.noun, each.name, each.package))


_GROUPS = "trtbench."
"""How the name of every group of entry points begins that adds to this package."""


class Registry(Generic[T]):
    """The plug-ins of one package: its public modules, and entry points from other packages.

    ``T`` is the contract, a Protocol. A member without a value there must be in the module; one
    with a value is an ability that a plug-in may leave out, and then has that value.
    """

    def __init__(self, package: str, *, noun: str, contract: type[T]) -> None:
        self.package = package
        self.noun = noun
        self.contract = contract
        self.group = package
        """Entry points in the group of the same name (``trtbench.runtimes``) add plug-ins."""
        self._held: dict[str, T] = {}

    def names(self) -> list[str]:
        """List the plug-ins, as a user types them, without importing any."""
        return sorted({*self._modules(), *self.entry_points()})

    def load(self, name: str) -> T:
        """Import one plug-in by the name a user types, and hold it to the contract once."""
        if name not in self._held:
            module = self._import(name)
            hold_to_contract(module, self.contract, noun=self.noun)
            self._held[name] = cast(T, module)
        return self._held[name]

    def loaded(self) -> Iterator[tuple[str, T]]:
        """Load all plug-ins, by name."""
        for name in self.names():
            yield name, self.load(name)

    def entry_points(self) -> dict[str, metadata.EntryPoint]:
        """Find the plug-ins that other packages add, without importing them."""
        from importlib import metadata  # slow to import, and only needed for other packages

        return {entry.name: entry for entry in metadata.entry_points(group=self.group)}

    def _import(self, name: str) -> ModuleType:
        modules = self._modules()
        if name in modules:
            return importlib.import_module(f"{self.package}.{modules[name]}")
        entry = self.entry_points().get(name)
        if entry is None:
            raise self._unknown(name)
        loaded = self._import_entry(entry)
        if not isinstance(loaded, ModuleType):
            raise UsageError(
                f"the {self.noun} {name!r} is not a module", facts={"entry point": entry.value}
            )
        return loaded

    def _import_entry(self, entry: metadata.EntryPoint) -> object:
        """Import another package's plug-in; that it is broken must not look like our bug."""
        try:
            return entry.load()
        except Exception as problem:
            raise UnavailableError(
                f"the {self.noun} {entry.name!r} cannot be imported",
                facts={
                    "entry point": entry.value,
                    "package": entry.dist.name if entry.dist else "unknown",
                    "reason": f"{type(problem).__name__}: {problem}",
                },
            ) from problem

    def _modules(self) -> dict[str, str]:
        path = importlib.import_module(self.package).__path__
        return {
            info.name.replace("_", "-"): info.name
            for info in pkgutil.iter_modules(path)
            if not info.name.startswith("_") and info.name != CONTRACT
        }

    def _unknown(self, name: str) -> UsageError:
        known = self.names()
        guess = near_miss(name, known)
        return UsageError(
            f"there is no {self.noun} called {name!r}",
            facts={"known": ", ".join(known)},
            fix=f"did you mean {guess}?" if guess else "choose one of those that are known",
        )


def hold_to_contract(module: ModuleType, contract: type, *, noun: str) -> None:
    """Refuse a module that lacks a part of the contract; abilities it leaves out get their values.

    The error names the file and the part, and what the file has under a name much like it.
    """
    needed, abilities = _functions(contract), _abilities(contract)
    constants = [name for name in _annotated(contract) if name not in abilities]
    own = [name for name in vars(module) if not name.startswith("_")]
    for name in (*constants, *needed):
        if name not in own:
            raise _broken(module, noun, f"it has no {name}", near_miss(name, own))
    for name, pattern in needed.items():
        if problem := _difference(vars(module)[name], pattern):
            raise _broken(module, noun, f"{name} {problem}")
    for name, value in abilities.items():
        if name in own:
            _check_kind(module, noun, name, value)
            continue
        written = near_miss(name, [each for each in own if each not in abilities], least=0.85)
        if written is not None and written.isupper() == name.isupper():
            raise _broken(module, noun, f"it has {written}, which nobody reads", name)
        setattr(module, name, value)


def _annotated(contract: type) -> list[str]:
    return [name for name in inspect.get_annotations(contract) if not name.startswith("_")]


def _functions(contract: type) -> dict[str, FunctionType]:
    return {
        name: value
        for name, value in vars(contract).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }


def _abilities(contract: type) -> dict[str, object]:
    return {name: vars(contract)[name] for name in _annotated(contract) if name in vars(contract)}


def _difference(found: object, pattern: FunctionType) -> str | None:
    """Say how a function differs from the one the contract shows: its parameters, by name."""
    if not callable(found):
        return "is not a function"
    theirs = dict(inspect.signature(found).parameters)
    ours = list(inspect.signature(pattern).parameters.values())[1:]  # without self
    if any(each.kind is each.VAR_KEYWORD for each in theirs.values()):
        return None
    for each in ours:
        if theirs.pop(each.name, None) is None:
            return f"takes no {each.name}"
    extra = [
        each.name
        for each in theirs.values()
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
    ]
    return f"needs {', '.join(extra)}, which nobody gives" if extra else None


def _check_kind(module: ModuleType, noun: str, name: str, value: object) -> None:
    """Hold an ability to the kind of its usual value; one that is usually missing is a function."""
    found = vars(module)[name]
    if value is None:
        if not callable(found):
            raise _broken(module, noun, f"{name} is not a function")
    elif isinstance(value, bool) is not isinstance(found, bool):
        raise _broken(module, noun, f"{name} is not true or false")
    elif isinstance(value, (str, tuple, dict)) and not isinstance(found, type(value)):
        raise _broken(module, noun, f"{name} is no {type(value).__name__}")


def _broken(module: ModuleType, noun: str, problem: str, guess: str | None = None) -> UsageError:
    return UsageError(
        f"the {noun} {module.__name__.rpartition('.')[2]!r} breaks its contract: {problem}",
        facts={"file": module.__file__ or module.__name__},
        fix=f"did you mean {guess}?" if guess else None,
    )
