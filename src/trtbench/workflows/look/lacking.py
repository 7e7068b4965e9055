"""What is not installed on this machine of what a run needs, and the command that installs it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence

from trtbench.build.builders import BUILDERS
from trtbench.build.builders.contract import Builder
from trtbench.errors import UnavailableError
from trtbench.executors import can_import, check_interpreter
from trtbench.extras import missing_package
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.workflows.look.probe import PluginKind, probe
from trtbench.workflows.request.choice import for_format, refuse_without_builder
from trtbench.workflows.request.config import Config


def refuse_lacking(libraries: Sequence[str], config: Config) -> None:
    """Refuse work that needs what is neither here nor in an interpreter that is named for it.

    A word that ends with ``@PATH`` is about this interpreter, others about that of the settings.
    """
    kinds = {"runtime": _runtime, "builder": _builder, "format": _format, "package": _package}
    for word in libraries:
        kind, _, rest = word.partition(":")
        name, _, python = rest.partition("@")
        if kind in kinds:  # a newer asker may know more
            kinds[kind](name, _always(python) if python else config.python_for)


Pythons = Callable[[str], str | None]
"""Names the interpreter for a runtime or builder; ``None`` is the own one."""


def _always(python: str) -> Pythons:
    return lambda name: python


def _runtime(name: str, pythons: Pythons) -> None:
    _refuse_all("runtime", [(name, RUNTIMES.load(name))], pythons)


def _builder(name: str, pythons: Pythons) -> None:
    found = [(name, BUILDERS.load(name))] if name else list(BUILDERS.loaded())
    if not name and not any(pythons(each) for each, _ in found):
        refuse_without_builder(Config(store=""), {})
    else:
        _refuse_all("builder", found, pythons)


def _format(name: str, pythons: Pythons) -> None:
    _refuse_all("runtime", for_format(name), pythons)  # type: ignore[arg-type]


def _refuse_all(
    kind: PluginKind, found: Sequence[tuple[str, Runtime | Builder]], pythons: Pythons
) -> None:
    """Refuse work that any of these could do, when none of them can be used."""
    first = None
    for name, module in found:
        problem = _problem(kind, name, module, pythons(name))
        if problem is None:
            return
        first = first or problem
    if first is not None:
        raise first


def _problem(
    kind: PluginKind, name: str, module: Runtime | Builder, python: str | None
) -> UnavailableError | None:
    """Say why it cannot be used here, or in another interpreter, which is asked itself."""
    if python is None:
        reason, fix, facts = module.available(), module.fix(), {}
    else:
        check_interpreter(python)
        answer = probe(name, kind=kind, python=python)
        reason, facts = answer.reason or answer.problem, {"interpreter": python}
        fix = answer.fix and answer.fix.replace("pip install", f"{python} -m pip install", 1)
    if reason is None:
        return None
    return UnavailableError(
        f"a machine lacks what {name} needs", facts={"reason": reason, **facts}, fix=fix
    )


def _package(name: str, pythons: Pythons) -> None:
    runtime, _, package = name.rpartition("/")
    python = pythons(runtime)
    if can_import(python, package) if python else importlib.util.find_spec(package) is not None:
        return
    problem = ModuleNotFoundError(name=package)
    raise (None if python else missing_package(problem)) or UnavailableError(
        f"the package {package} is not installed",
        fix=f"{python or sys.executable} -m pip install {package}",
    )
