"""What is asked of the verbs that hold models against each other: compare and gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

from trtbench.domain.words import Mode
from trtbench.errors import UsageError
from trtbench.workflows.request.fields import WRITTEN_HERE, Argument, VerbRequest, argument, option
from trtbench.workflows.request.groups import (
    ClockFields,
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
    PerSide,
    fraction,
)

LAUNCHES = 10
"""Fresh launches of both sides: what finds 2 % in 95 % of cases on a noisy machine."""

MOST_LAUNCHES = 80


@dataclass(frozen=True, kw_only=True)
class TurnFields(VerbRequest):
    """How often sides take turns, and what counts as the same."""

    launches: int | None = option(
        None,
        "Fresh launches of both sides (default 10, of slow models 5; of a model alone, in a "
        "gate: 5).",
        metavar="N",
        least=1,
    )
    max_launches: int | None = option(
        None,
        "Go on to so many while the answer is unclear (default 80, for 90 s; on a GPU 25 s).",
        metavar="N",
    )
    pairs: int | None = option(
        None,
        "Iterations of each side per launch, in turn (default: what fits in 0.4 s, 12 to 200).",
        metavar="N",
        least=10,
    )
    mode: Mode = option(
        "auto", "How the sides take turns; --duration and --iterations are for launches."
    )
    margin: Fraction = option(
        "2%", "Within this, interval and all, two sides are the same.", kind=PART
    )
    accept: Collection[str] = option(
        (), "Compare in spite of this difference (tf32, batch, protocol, ...).", metavar="KEY"
    )

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
    QueryFields, ClockFields, PrecisionFields, PatienceFields, TagFields,
):  # fmt: skip
    """All that two sides that are measured in turn have in common, and what each has of its own."""

    device: PerSide | None = option(
        None,
        "cpu, cuda:0, cuda:1, ...: once for all sides, or once per side.",
        metavar="NAME",
        per_side=True,
        setting=True,
    )
    args: PerSide | None = option(
        None,
        "Arguments for a runtime that is a program (trtexec), in quotes: once for all sides, "
        "or once per side ('' is none).",
        metavar="TEXT",
        per_side=True,
    )


@dataclass(frozen=True, kw_only=True)
class CompareRequest(PairFields, ExecutorFields, StoreFields):
    """Compare every candidate with the baseline: models, engines, checkpoints or stored runs."""

    baseline: Annotated[File, Argument("A model or a stored run.", "BASELINE", travels="model")]
    candidates: Sequence[File] = argument(
        (), "Others of the same.", "[CANDIDATES]...", needed=False, travels="model"
    )
    selftest: bool = option(False, "Compare BASELINE with itself.")
    builds: int | None = option(
        None,
        "Compare networks, not one lucky build of each: build both ONNX files so many times.",
        metavar="N",
        least=2,
    )
    build: Pairs = option(
        {},
        "With --builds, a flag of trtbench build: workspace=4GiB; repeat for several.",
        kind=PAIRS,
    )
    output_dir: File = option(
        "artifacts/compare", "Folder of the table.", kind=FILE, python=False, stays=WRITTEN_HERE
    )
    output_name: str | None = option(
        None, "Its name (default: <base>_vs_<cand>.csv).", metavar="NAME", python=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.builds is not None and self.lock_clocks is not None:
            raise UsageError("pairs of builds are measured with clocks as they are",
                             fix="leave out --lock-clocks, or --builds")  # fmt: skip
        if self.builds is not None and self.executor is not None:
            raise UsageError(
                "pairs of builds are compared on this machine",
                fix="leave out --executor, or give the command on the machine that is meant",
            )


@dataclass(frozen=True, kw_only=True)
class RuleFields(VerbRequest):
    """What a candidate is held to."""

    against: File | None = option(
        None, "A model, a run, or tag:NAME.", metavar="BASELINE", travels="model"
    )
    baseline: str | None = option(
        None,
        "last, best or tag:NAME among the stored runs comparable with CANDIDATE.",
        metavar="WHICH",
    )
    max_slowdown: Fraction | None = option(None, "Slower than BASELINE by this at most.", kind=PART)
    metrics: Sequence[str] = option(
        (),
        "'p99<5ms' and the like; quoted, or the shell takes the sign.",
        ("--metric",),
        metavar="RULE",
    )
    rules: Sequence[File] = option(
        (),
        "TOML file of rules; MODEL.gate.toml beside the model is read by itself.",
        kind=FILE,
        stays="held against what came back",
    )
    on_unclear: OnUnclear = option("fail", "When a rule stays unclear; retry measures once more.")
    time_limit: Duration = option("60s", "Measure no longer than this while unclear.", kind=TIME)
    measure_same: bool = option(False, "Measure in turn even when both sides are the same bytes.")
    keep_model: bool | None = option(
        None,
        "Keep CANDIDATE's bytes in the store, to be measured in turn with the next one "
        "(default: with --baseline, up to 512 MiB).",
    )


@dataclass(frozen=True, kw_only=True)
class GateRequest(RuleFields, PairFields, ExecutorFields, StoreFields):
    """Hold a candidate to rules: exit status 0 when all are met, 3 when not."""

    candidate: Annotated[
        File,
        Argument(
            "A model, a stored run, or a .toml file of several models.",
            "CANDIDATE",
            travels="model",
        ),
    ]
    output: File = option(
        "artifacts/gate",
        "Folder of gate.json, gate.junit.xml and gate.md.",
        ("-o", "--output"),
        kind=FILE,
        python=False,
        stays=WRITTEN_HERE,
    )
