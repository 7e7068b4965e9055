"""trtbench builds, benchmarks, profiles, checks and compares TensorRT engines.

Importing this package loads nothing heavy; each public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trtbench.version import __version__ as __version__

if TYPE_CHECKING:
    from trtbench.analysis.summary import Summary, summarize
    from trtbench.api import (
        bench,
        check,
        compare,
        diff,
        doctor,
        evaluate,
        explain,
        gate,
        import_artefacts,
        layers,
        load,
        report,
        runs,
        summary,
        sweep,
        why,
    )
    from trtbench.domain.result import (
        Comparison,
        Environment,
        FailedRun,
        Finding,
        GateResult,
        Run,
        Verdict,
    )
    from trtbench.domain.samples import IterationTimes
    from trtbench.domain.spec import ModelRef, RunSpec
    from trtbench.errors import TrtbenchError

_HOMES = {
    "bench": "trtbench.api",
    "check": "trtbench.api",
    "compare": "trtbench.api",
    "diff": "trtbench.api",
    "doctor": "trtbench.api",
    "evaluate": "trtbench.api",
    "explain": "trtbench.api",
    "gate": "trtbench.api",
    "import_artefacts": "trtbench.api",
    "layers": "trtbench.api",
    "load": "trtbench.api",
    "report": "trtbench.api",
    "runs": "trtbench.api",
    "summary": "trtbench.api",
    "sweep": "trtbench.api",
    "why": "trtbench.api",
    "Comparison": "trtbench.domain.result",
    "Environment": "trtbench.domain.result",
    "FailedRun": "trtbench.domain.result",
    "Finding": "trtbench.domain.result",
    "GateResult": "trtbench.domain.result",
    "IterationTimes": "trtbench.domain.samples",
    "ModelRef": "trtbench.domain.spec",
    "Run": "trtbench.domain.result",
    "RunSpec": "trtbench.domain.spec",
    "Summary": "trtbench.analysis.summary",
    "TrtbenchError": "trtbench.errors",
    "Verdict": "trtbench.domain.result",
    "summarize": "trtbench.analysis.summary",
}

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
    "check",
    "compare",
    "diff",
    "doctor",
    "evaluate",
    "explain",
    "gate",
    "import_artefacts",
    "layers",
    "load",
    "report",
    "runs",
    "summarize",
    "summary",
    "sweep",
    "why",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trtbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
