"""What is not installed on this machine of what a run needs, and the command that installs it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from trtbench.build.builders import BUILDERS
from trtbench.build.builders.contract import Builder
from trtbench.errors import UnavailableError
from trtbench.executors import can_import
from trtbench.extras import missing_package
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.workflows.request.choice import _for_format, _works, refuse_without_builder
from trtbench.workflows.request.config import Config


def refuse_lacking(libraries: Sequence[str], config: Config) -> None:
    """Refuse work that needs what is neither here nor in an interpreter that settings name."""
    kinds = {"runtime": _runtime, "builder": _builder, "format": _format, "package": _package}
    for word in libraries:
        kind, _, name = word.partition(":")
        if kind in kinds:  # a newer asker may know more
            kinds[kind](name, config)


def _runtime(name: str, config: Config) -> None:
    _refuse(name, RUNTIMES.load(name), config)


def _builder(name: str, config: Config) -> None:
    if name:
        _refuse(name, BUILDERS.load(name), config)
    else:
        refuse_without_builder(config, {})


def _format(name: str, config: Config) -> None:
    ranked = _for_format(name)  # type: ignore[arg-type]
    if ranked and not any(_works(each, module, config) for each, module in ranked):
        _refuse(*ranked[0], config)


def _refuse(name: str, module: Runtime | Builder, config: Config) -> None:
    if not _works(name, module, config):
        raise UnavailableError(
            f"a machine lacks what {name} needs",
            facts={"reason": module.available()},
            fix=module.fix(),
        )


def _package(name: str, config: Config) -> None:
    runtime, _, package = name.rpartition("/")
    python = config.python_for(runtime) if runtime else None
    if can_import(python, package) if python else importlib.util.find_spec(package) is not None:
        return
    problem = ModuleNotFoundError(name=package)
    raise (None if python else missing_package(problem)) or UnavailableError(
        f"the package {package} is not installed",
        fix=f"{python or sys.executable} -m pip install {package}",
    )
