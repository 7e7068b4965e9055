"""The folder is the registry: plug-ins are found by file name and imported on use.

Knows folders, module names and entry points; does not know what a plug-in does.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.errors import UnavailableError, UsageError, near_miss

if TYPE_CHECKING:
    from importlib import metadata


class Registry:
    """The plug-ins of one package: its public modules, and entry points from other packages."""

    def __init__(self, package: str, *, noun: str) -> None:
        self.package = package
        self.noun = noun
        self.group = package
        """Entry points in the group of the same name (``trtbench.runtimes``) add plug-ins."""

    def names(self) -> list[str]:
        """List the plug-ins, as a user types them, without importing any."""
        return sorted({*self._modules(), *self._entry_points()})

    def load(self, name: str) -> ModuleType:
        """Import one plug-in by the name a user types; a wrong name suggests the near miss."""
        modules = self._modules()
        if name in modules:
            return importlib.import_module(f"{self.package}.{modules[name]}")
        entry = self._entry_points().get(name)
        if entry is None:
            raise self._unknown(name)
        loaded = self._import(entry)
        if not isinstance(loaded, ModuleType):
            raise UsageError(
                f"the {self.noun} {name!r} is not a module", facts={"entry point": entry.value}
            )
        return loaded

    def _import(self, entry: metadata.EntryPoint) -> object:
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
            if not info.name.startswith("_")
        }

    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        from importlib import metadata  # slow to import, and only needed for other packages

        return {entry.name: entry for entry in metadata.entry_points(group=self.group)}

    def _unknown(self, name: str) -> UsageError:
        known = self.names()
        guess = near_miss(name, known)
        return UsageError(
            f"there is no {self.noun} called {name!r}",
            facts={"known": ", ".join(known)},
            fix=f"did you mean {guess}?" if guess else None,
        )
