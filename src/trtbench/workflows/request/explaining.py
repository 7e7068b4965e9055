"""What is asked of the verbs that explain: layers, diff, why and explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from trtbench.workflows.request.fields import Argument, Option, VerbRequest, option
from trtbench.workflows.request.groups import StoreFields
from trtbench.workflows.request.kinds import FILE, File


@dataclass(frozen=True, kw_only=True)
class EngineSourceFields(VerbRequest):
    """What else is known of an engine."""

    onnx: File | None = option(
        None, "The model it was built of, for FLOPs and asked types.", kind=FILE
    )
    gpu: str | None = option(None, "Take the roofline of this GPU: 'NVIDIA H200'.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class LayersRequest(EngineSourceFields, StoreFields):
    """Show the layers of a run, or of files of trtexec."""

    source: Annotated[
        Sequence[File],
        Argument(
            "A run, or files of trtexec (or their folder): profile, layers, ONNX.", "SOURCE..."
        ),
    ]
    by: str | None = option(
        None, "Group by kind, precision, role, node, block or '/a/*'.", metavar="KEY"
    )
    filter: str | None = option(None, "Only layers or nodes that fit.", metavar="PATTERN")
    sort: Literal["time", "order", "roofline"] | None = option(
        None,
        "Slowest first, as they run, or farthest from the roofline first (default: time; in "
        "Python: order).",
    )


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
    measure: bool = option(False, "Measure every step here, one change at a time.")
    launches: int = option(3, "Fresh processes for each step that is measured.", least=1)
