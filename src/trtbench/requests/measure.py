"""Requests of the verbs that measure: bench, compare and gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from trtbench.core.errors import UsageError
from trtbench.core.words import Mode
from trtbench.requests.fields import (
    FILE,
    PAIRS,
    PART,
    TIME,
    WRITTEN_HERE,
    Argument,
    Duration,
    File,
    Fraction,
    Pairs,
    PerSide,
    VerbRequest,
    argument,
    fraction,
    option,
)
from trtbench.requests.groups import (
    DeviceFields,
    ExecutorFields,
    InputFields,
    LengthFields,
    MemoryFields,
    OnUnclear,
    OptionFields,
    PatienceFields,
    PrecisionFields,
    PythonFields,
    QueryFields,
    ShapeFields,
    SideFields,
    StoreFields,
    TagFields,
    TaskFields,
    ThreadFields,
)


@dataclass(frozen=True, kw_only=True)
class RunFields(
    ShapeFields, LengthFields, InputFields, TaskFields, DeviceFields, QueryFields,
    PrecisionFields, OptionFields, PythonFields, MemoryFields, PatienceFields,
):  # fmt: skip
    """Run options."""

    runtime: str | None = option(
        None, "What executes the model.", ("-r", "--runtime"), metavar="NAME", setting=True
    )
    launches: int | None = option(
        None,
        "Fresh processes to measure in (default 1).",
        metavar="N",
        least=1,
        axis=True,
        setting=True,
    )
    output: File | None = option(
        None, "Folder for this run.", ("-o", "--output"), kind=FILE, stays=WRITTEN_HERE
    )
    separate_profile_run: bool = option(True, "Time layers in a pass of their own.")
    telemetry: Duration | None = option(
        None,
        "Look at the GPU this often (100ms), in a pass of its own after the measurement.",
        kind=TIME,
        metavar="[TIME]",
        axis=True,
        bare="100ms",
        bare_unless=r"[-+]?[\d.]+\s*[a-zµ]*|[a-z]+",
    )
    task: str | None = option(
        None,
        "Prepares the image that --inputs names (classification, depth, ...); adds its flags "
        "(see --task NAME --help).",
        metavar="NAME",
    )
    extra_args: tuple[str, ...] = argument(
        (),
        "Passed on to runtimes that are programs (trtexec).",
        "EXTRA",
        rest=True,
        travels="as-is",
    )


@dataclass(frozen=True)
class BenchRequest(RunFields, TagFields, ExecutorFields, StoreFields):
    """Measure a model in fresh processes and keep the run."""

    model: Annotated[
        File, Argument("A file, or a model of a library by name.", "MODEL", travels="model")
    ]
    _: KW_ONLY
    profile: bool | None = option(
        None, "Time single layers too (default: as the runtime does; trtexec: yes)."
    )
    slo: str | None = option(
        None,
        "Search the highest rate that keeps this bound (--protocol server), e.g. 'p99<10ms'; "
        "--rate is then the highest to try.",
        metavar="RULE",
    )
    keep_model: bool = option(
        False, "Keep the model's bytes in the store: gate --baseline measures both in turn."
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
        "2%", "Within this, interval included, two sides are the same.", kind=PART
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
    QueryFields, PrecisionFields, PatienceFields, TagFields,
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


@dataclass(frozen=True)
class CompareRequest(PairFields, ExecutorFields, StoreFields):
    """Compare every candidate with the baseline: models, engines, checkpoints or stored runs."""

    baseline: Annotated[File, Argument("A model or a stored run.", "BASELINE", travels="model")]
    candidates: Sequence[File] = argument(
        (),
        "Others of the same.",
        "[CANDIDATES]...",
        needed=False,
        was=("candidate",),
        travels="model",
    )
    _: KW_ONLY
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
        "artifacts/compare",
        "Folder of the table that a command writes, and of the engines of --builds.",
        kind=FILE,
        stays=WRITTEN_HERE,
    )

    @property
    def models(self) -> list[str]:
        """The models of all sides; without candidates, BASELINE once for each -r, --python, ..."""
        names = [str(each) for each in (self.baseline, *self.candidates)]
        given = (self.runtime, self.python, self.device, self.args)
        counts = [len(each) for each in given if each and not isinstance(each, str | Path)]
        return names if len(names) > 1 else names * max([1, *counts])

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.builds is not None and self.lock_clocks is not None:
            raise UsageError(
                "pairs of builds are measured with clocks as they are",
                fix="leave out --lock-clocks, or --builds",
            )
        if self.builds is not None and self.executor is not None:
            raise UsageError(
                "pairs of builds are compared on this machine",
                fix="leave out --executor, or give the command on the machine that is meant",
            )


@dataclass(frozen=True)
class GateRequest(PairFields, ExecutorFields, StoreFields):
    """Check a candidate against rules."""

    candidate: Annotated[
        File,
        Argument(
            "A model, a stored run, or a .toml file of several models.",
            "CANDIDATE",
            travels="model",
        ),
    ]
    _: KW_ONLY
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
    keep_model: bool | None = option(
        None,
        "Keep CANDIDATE's bytes in the store, to be measured in turn with the next one "
        "(default: with --baseline, up to 512 MiB).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against is not None and self.baseline is not None:
            raise UsageError(
                "--against and --baseline both name the baseline", fix="give one of them"
            )
