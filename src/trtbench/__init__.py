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
    from trtbench.api import (
        bench,
        build,
        check,
        compare,
        diff,
        doctor,
        evaluate,
        explain,
        export,
        export_runs,
        gate,
        history,
        import_runs,
        inspect,
        layers,
        load,
        localize,
        lottery,
        profile,
        quantize,
        report,
        runs,
        site,
        summary,
        sweep,
        upgrade,
        why,
    )
    from trtbench.domain.comparison import Comparison, GateResult, Verdict
    from trtbench.domain.result import Environment, FailedRun, Finding, Run
    from trtbench.domain.samples import IterationTimes
    from trtbench.domain.spec import ModelRef, RunSpec
    from trtbench.errors import TrtbenchError

__all__ = [
    "Comparison",
    "Environment",
    "FailedRun",
    "Finding",
    "GateResult",
    "IterationTimes",
    "ModelRef",
    "Run",
    "RunSpec",
    "Summary",
    "TrtbenchError",
    "Verdict",
    "bench",
    "build",
    "check",
    "compare",
    "diff",
    "doctor",
    "evaluate",
    "explain",
    "export",
    "export_runs",
    "gate",
    "history",
    "import_runs",
    "inspect",
    "layers",
    "load",
    "localize",
    "lottery",
    "profile",
    "quantize",
    "report",
    "runs",
    "site",
    "summarize",
    "summary",
    "sweep",
    "upgrade",
    "why",
]

_HOMES = {
    **dict.fromkeys(__all__, "trtbench.api"),
    "Comparison": "trtbench.domain.comparison",
    "Environment": "trtbench.domain.result",
    "FailedRun": "trtbench.domain.result",
    "Finding": "trtbench.domain.result",
    "GateResult": "trtbench.domain.comparison",
    "IterationTimes": "trtbench.domain.samples",
    "ModelRef": "trtbench.domain.spec",
    "Run": "trtbench.domain.result",
    "RunSpec": "trtbench.domain.spec",
    "Summary": "trtbench.analysis.summary",
    "TrtbenchError": "trtbench.errors",
    "Verdict": "trtbench.domain.comparison",
    "summarize": "trtbench.analysis.summary",
}


class _Package(ModuleType):
    """Keeps verbs callable that share their name with a room: build, report.

    An import of the room would put it in the verb's place; it is found in ``sys.modules``.
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
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
