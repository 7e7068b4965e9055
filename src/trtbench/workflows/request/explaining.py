"""What is asked of the verbs that explain: layers, diff, why and explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from trtbench.workflows.request.fields import Argument, Option, VerbRequest
from trtbench.workflows.request.groups import StoreFields
from trtbench.workflows.request.kinds import FILE, File


@dataclass(frozen=True, kw_only=True)
class EngineSourceFields(VerbRequest):
    """What else is known of an engine."""

    onnx: Annotated[
        File | None,
        Option("The model it was built of, for FLOPs and asked types.", kind=FILE),
    ] = None
    gpu: Annotated[
        str | None, Option("Take the roofline of this GPU: 'NVIDIA H200'.", metavar="NAME")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LayersRequest(EngineSourceFields, StoreFields):
    """Show the layers of a run, or of files of trtexec."""

    source: Annotated[
        Sequence[File],
        Argument(
            "A run, or files of trtexec (or their folder): profile, layers, ONNX.", "SOURCE..."
        ),
    ]
    by: Annotated[
        str | None,
        Option("Group by kind, precision, role, node, block or '/a/*'.", metavar="KEY"),
    ] = None
    filter: Annotated[str | None, Option("Only layers or nodes that fit.", metavar="PATTERN")] = (
        None
    )
    sort: Annotated[
        Literal["time", "order", "roofline"] | None,
        Option(
            "Slowest first, as they run, or farthest from the roofline first (default: time; in "
            "Python: order)."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DiffRequest(EngineSourceFields, StoreFields):
    """Align the layers of two engines: runs, or files of trtexec."""

    a: Annotated[File, Argument("A run, a folder, or files of trtexec, joined by commas.", "A")]
    b: Annotated[File, Argument("The other one.", "B")]


@dataclass(frozen=True, kw_only=True)
class WhyRequest(EngineSourceFields, StoreFields):
    """Explain why a candidate is not faster than the baseline."""

    baseline: Annotated[File, Argument("A run, or files of trtexec.", "BASELINE")]
    candidate: Annotated[File, Argument("The one that is not faster.", "CANDIDATE")]


@dataclass(frozen=True, kw_only=True)
class ExplainRequest(StoreFields):
    """Explain why two numbers of one model differ, one step at a time."""

    run: Annotated[File, Argument("A run, or files of trtexec.", "RUN")]
    against: Annotated[File, Option("The run with the other number.", metavar="OTHER")]
    measure: Annotated[bool, Option("Measure every step here, one change at a time.")] = False
    launches: Annotated[int, Option("Fresh processes for each step that is measured.", least=1)] = 3
