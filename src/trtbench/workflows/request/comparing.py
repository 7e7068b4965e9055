"""What is asked of the verbs that hold models against each other: compare and gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from trtbench.domain.words import Mode
from trtbench.errors import UsageError
from trtbench.workflows.request.fields import Argument, Option, VerbRequest
from trtbench.workflows.request.groups import (
    ExecutorFields,
    InputFields,
    LengthFields,
    OnUnclear,
    OptionFields,
    PatienceFields,
    PrecisionFields,
    QueryFields,
    ShapeFields,
    SideFields,
    StoreFields,
    TagFields,
    ThreadFields,
)
from trtbench.workflows.request.kinds import (
    FILE,
    PAIRS,
    PART,
    TIME,
    Duration,
    File,
    Fraction,
    Pairs,
    Sides,
    fraction,
)

LAUNCHES = 10
"""Fresh launches of both sides: what finds 2 % in 95 % of cases on a noisy machine."""

MOST_LAUNCHES = 80


@dataclass(frozen=True, kw_only=True)
class TurnFields(VerbRequest):
    """How often sides take turns, and what counts as the same."""

    launches: Annotated[
        int | None,
        Option(
            "Fresh launches of both sides (default 10, of slow models 5; of a model alone, in a "
            "gate: 5).",
            metavar="N", least=1,
        ),
    ] = None  # fmt: skip
    max_launches: Annotated[
        int | None,
        Option(
            "Go on to so many while the answer is unclear (default 80, for 90 s; on a GPU 25 s).",
            metavar="N",
        ),
    ] = None
    pairs: Annotated[
        int | None,
        Option(
            "Iterations of each side per launch, in turn (default: what fits in 0.4 s, 12 to 200).",
            metavar="N", least=10,
        ),
    ] = None  # fmt: skip
    mode: Annotated[
        Mode,
        Option("How the sides take turns; --duration and --iterations are for launches."),
    ] = "auto"
    margin: Annotated[
        Fraction, Option("Within this, interval and all, two sides are the same.", kind=PART)
    ] = "2%"
    accept: Annotated[
        Collection[str],
        Option(
            "Compare in spite of this difference (tf32, batch, protocol, ...).", metavar="KEY"
        ),
    ] = ()  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accept:
            from trtbench.analysis.comparability import refuse_unknown_keys

            refuse_unknown_keys(self.accept)

    @property
    def most_launches(self) -> int:
        return max(self.launches or LAUNCHES, self.max_launches or MOST_LAUNCHES)

    @property
    def margin_part(self) -> float:
        return fraction(self.margin)


@dataclass(frozen=True, kw_only=True)
class PairFields(
    SideFields, ShapeFields, TurnFields, LengthFields, InputFields, ThreadFields, OptionFields,
    QueryFields, PrecisionFields, PatienceFields, TagFields,
):  # fmt: skip
    """All that two sides that are measured in turn have in common, and what each has of its own."""

    device: Annotated[
        Sides | None,
        Option(
            "cpu, cuda:0, cuda:1, ...: once for all sides, or once per side.",
            metavar="NAME", per_side=True, setting=True,
        ),
    ] = None  # fmt: skip
    args: Annotated[
        Sides | None,
        Option(
            "Arguments for a runtime that is a program (trtexec), in quotes: once for all sides, "
            "or once per side ('' is none).",
            metavar="TEXT", per_side=True,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CompareRequest(PairFields, ExecutorFields, StoreFields):
    """Compare every candidate with the baseline: models, engines, checkpoints or stored runs."""

    baseline: Annotated[File, Argument("A model or a stored run.", "BASELINE")]
    candidates: Annotated[
        Sequence[File], Argument("Others of the same.", "[CANDIDATES]...", needed=False)
    ] = ()
    selftest: Annotated[bool, Option("Compare BASELINE with itself.")] = False
    builds: Annotated[
        int | None,
        Option(
            "Compare networks, not one lucky build of each: build both ONNX files so many times.",
            metavar="N", least=2,
        ),
    ] = None  # fmt: skip
    build: Annotated[
        Pairs,
        Option(
            "With --builds, a flag of trtbench build: workspace=4GiB; repeat for several.",
            kind=PAIRS,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    output_dir: Annotated[File, Option("Folder of the table.", kind=FILE, python=False)] = (
        "artifacts/compare"
    )
    output_name: Annotated[
        str | None,
        Option("Its name (default: <base>_vs_<cand>.csv).", metavar="NAME", python=False),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.builds is not None and self.executor is not None:
            raise UsageError(
                "pairs of builds are compared on this machine",
                fix="leave out --executor, or give the command on the machine that is meant",
            )


@dataclass(frozen=True, kw_only=True)
class RuleFields(VerbRequest):
    """What a candidate is held to."""

    against: Annotated[File | None, Option("A model, a run, or tag:NAME.", metavar="BASELINE")] = (
        None
    )
    baseline: Annotated[
        str | None,
        Option(
            "last, best or tag:NAME among the stored runs comparable with CANDIDATE.",
            metavar="WHICH",
        ),
    ] = None
    max_slowdown: Annotated[
        Fraction | None, Option("Slower than BASELINE by this at most.", kind=PART)
    ] = None
    metrics: Annotated[
        Sequence[str],
        Option(
            "'p99<5ms' and the like; quoted, or the shell takes the sign.",
            ("--metric",), metavar="RULE",
        ),
    ] = ()  # fmt: skip
    rules: Annotated[
        Sequence[File],
        Option(
            "TOML file of rules; MODEL.gate.toml beside the model is read by itself.", kind=FILE
        ),
    ] = ()
    on_unclear: Annotated[
        OnUnclear, Option("When a rule stays unclear; retry measures once more.")
    ] = "fail"
    time_limit: Annotated[
        Duration, Option("Measure no longer than this while unclear.", kind=TIME)
    ] = "60s"
    measure_same: Annotated[
        bool, Option("Measure in turn even when both sides are the same bytes.")
    ] = False
    keep_model: Annotated[
        bool | None,
        Option(
            "Keep CANDIDATE's bytes in the store, to be measured in turn with the next one "
            "(default: with --baseline, up to 512 MiB)."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class GateRequest(RuleFields, PairFields, ExecutorFields, StoreFields):
    """Hold a candidate to rules: exit status 0 when all are met, 3 when not."""

    candidate: Annotated[
        File, Argument("A model, a stored run, or a .toml file of several models.", "CANDIDATE")
    ]
    output: Annotated[
        File,
        Option(
            "Folder of gate.json, gate.junit.xml and gate.md.", ("-o", "--output"), kind=FILE,
            python=False
        ),
    ] = "artifacts/gate"  # fmt: skip
