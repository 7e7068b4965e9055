"""trtbench builds, benchmarks, profiles, checks and compares TensorRT engines.

Importing this package loads nothing heavy; each public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trtbench.version import __version__ as __version__

if TYPE_CHECKING:
    from trtbench.analysis.summary import Summary, summarize
    from trtbench.core.errors import TrtbenchError
    from trtbench.core.results import Comparison, GateResult, Verdict
    from trtbench.core.run import Environment, FailedRun, Finding, Run
    from trtbench.core.samples import IterationTimes
    from trtbench.core.spec import ModelRef, RunSpec
    from trtbench.verbs.bench import bench
    from trtbench.verbs.build import build
    from trtbench.verbs.check import check
    from trtbench.verbs.compare import compare, compare_builds, explain
    from trtbench.verbs.diff import diff, why
    from trtbench.verbs.doctor import doctor
    from trtbench.verbs.eval import evaluate
    from trtbench.verbs.export import export
    from trtbench.verbs.gate import gate
    from trtbench.verbs.history import history
    from trtbench.verbs.import_ import import_runs
    from trtbench.verbs.inspect import inspect
    from trtbench.verbs.localize import localize
    from trtbench.verbs.profile import layers, profile
    from trtbench.verbs.quantize import quantize
    from trtbench.verbs.report import report
    from trtbench.verbs.runs import export_runs, load, runs, summary
    from trtbench.verbs.site import site
    from trtbench.verbs.sweep import sweep

__all__ = [
    "Comparison", "Environment", "FailedRun", "Finding", "GateResult", "IterationTimes",
    "ModelRef", "Run", "RunSpec", "Summary", "TrtbenchError", "Verdict", "bench", "build",
    "check", "compare", "compare_builds", "diff", "doctor", "evaluate", "explain", "export",
    "export_runs", "gate", "history", "import_runs", "inspect", "layers", "load", "localize",
    "profile", "quantize", "report", "runs", "site", "summarize", "summary", "sweep", "why",
]  # fmt: skip

_MODULES = {
    "analysis.summary": ("Summary", "summarize"),
    "core.errors": ("TrtbenchError",),
    "core.results": ("Comparison", "GateResult", "Verdict"),
    "core.run": ("Environment", "FailedRun", "Finding", "Run"),
    "core.samples": ("IterationTimes",),
    "core.spec": ("ModelRef", "RunSpec"),
    "verbs.compare": ("compare_builds", "explain"),
    "verbs.diff": ("why",),
    "verbs.eval": ("evaluate",),
    "verbs.import_": ("import_runs",),
    "verbs.profile": ("layers",),
    "verbs.runs": ("export_runs", "load", "summary"),
}
_HOMES = {name: f"trtbench.verbs.{name}" for name in __all__}
_HOMES |= {name: f"trtbench.{home}" for home, names in _MODULES.items() for name in names}


class _Package(ModuleType):
    """Keeps verbs callable that share their name with a package: report, sweep.

    An import of the package would replace the verb; the package stays in ``sys.modules``.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trtbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    if hasattr(value, "describe"):  # a verb
        value.describe()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
