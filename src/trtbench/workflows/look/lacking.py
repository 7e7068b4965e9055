"""Refuse work for which this machine lacks a runtime, a builder or a package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from trtbench.convert.build import refuse_without_builder
from trtbench.convert.builders import BUILDERS
from trtbench.convert.builders.contract import Builder
from trtbench.core.errors import UnavailableError
from trtbench.core.plugins import missing_package
from trtbench.host.workers import can_import, check_interpreter
from trtbench.requests.run_spec import for_format
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.workflows.look.probe import PluginKind, probe


def refuse_lacking(libraries: Sequence[str], config: Config) -> None:
    """Refuse work that needs what is neither here nor in an interpreter that is named for it.

    Words are ``runtime:NAME``, ``builder:NAME``, ``format:NAME`` (any runtime that executes it) or
    ``package:RUNTIME/NAME``; with ``@PATH`` they concern that interpreter, else the configured one.
    """
    for word in libraries:
        kind, _, rest = word.partition(":")
        name, _, python = rest.partition("@")
        if kind == "runtime":
            _refuse_all("runtime", [(name, RUNTIMES.load(name))], python, config)
        elif kind == "format":
            _refuse_all("runtime", for_format(name), python, config)  # type: ignore[arg-type]
        elif kind == "builder":
            builders = [(name, BUILDERS.load(name))] if name else list(BUILDERS.loaded())
            if name or python or any(config.python_for(each) for each, _ in builders):
                _refuse_all("builder", builders, python, config)
            else:
                refuse_without_builder(Config(store=""), {})
        elif kind == "package":  # a newer sender may name further kinds
            runtime, _, package = name.rpartition("/")
            _refuse_package(package, python or config.python_for(runtime))


def _refuse_all(
    kind: PluginKind,
    found: Sequence[tuple[str, Runtime | Builder]],
    python: str,
    config: Config,
) -> None:
    """Refuse work that any of these could do, when none of them can be used."""
    first: UnavailableError | None = None
    for name, module in found:
        facts = {}
        if interpreter := python or config.python_for(name):
            check_interpreter(interpreter)
            answer = probe(name, kind=kind, python=interpreter)
            reason, facts = answer.reason or answer.problem, {"interpreter": interpreter}
            pip = f"{interpreter} -m pip install"
            fix = answer.fix and answer.fix.replace("pip install", pip, 1)
        else:
            reason, fix = module.available(), module.fix()
        if reason is None:
            return
        message = f"a machine lacks what {name} needs"
        first = first or UnavailableError(message, facts={"reason": reason, **facts}, fix=fix)
    if first is not None:
        raise first


def _refuse_package(package: str, python: str | None) -> None:
    if can_import(python, package) if python else importlib.util.find_spec(package) is not None:
        return
    problem = ModuleNotFoundError(name=package)
    raise (None if python else missing_package(problem)) or UnavailableError(
        f"the package {package} is not installed",
        fix=f"{python or sys.executable} -m pip install {package}",
    )
