"""Requests of the verbs that measure: bench, compare, gate and sweep."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from trtbench.core.errors import UsageError
from trtbench.core.words import Mode, Scalar
from trtbench.requests.fields import (
    FILE,
    LIST,
    WRITTEN_HERE,
    Argument,
    DeviceFields,
    Duration,
    ExecutorFields,
    File,
    Fraction,
    InputFields,
    Kind,
    LengthFields,
    MemoryFields,
    OptionFields,
    Pairs,
    PerSide,
    PrecisionFields,
    PythonFields,
    QueryFields,
    ShapeFields,
    SideFields,
    SourceFields,
    StoreFields,
    TagFields,
    TaskFields,
    ThreadFields,
    TimeoutFields,
    VerbRequest,
    WaitFields,
    argument,
    fraction,
    option,
    output_path,
    words_from_text,
)


@dataclass(frozen=True, kw_only=True)
class RunFields(
    ShapeFields, LengthFields, InputFields, TaskFields, DeviceFields, QueryFields,
    PrecisionFields, OptionFields, PythonFields, MemoryFields, TimeoutFields, WaitFields,
):  # fmt: skip
    """Run options."""

    runtime: str | None = option(
        None, "What executes the model.", ("-r", "--runtime"), metavar="NAME", setting=True
    )
    launches: int | None = option(
        None, "Fresh processes (default 1).", metavar="N", least=1, axis=True, setting=True
    )
    output: File | None = output_path(None, "Folder for this run.")
    separate_profile_run: bool = option(True, "Time layers in a pass of their own.")
    telemetry: Duration | None = option(
        None,
        "Look at the GPU this often (100ms), in a pass of its own after the measurement.",
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
        (), "Passed on to runtimes that are programs: trtexec.", "EXTRA", rest=True, travels="as-is"
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


LAUNCHES = 10  # fresh launches of both sides: what finds 2 % in 95 % of cases on a noisy machine

MOST_LAUNCHES = 80


@dataclass(frozen=True, kw_only=True)
class TurnFields(VerbRequest):
    """How often sides take turns, and what counts as the same."""

    launches: int | None = option(
        None,
        "Fresh launches of both sides (default 10, of slow models 4; of a model alone, in a "
        "gate: 5).",
        metavar="N",
        least=1,
    )
    max_launches: int | None = option(
        None, "Go on to so many while unclear (default 80, for 90 s; on a GPU 25 s).", metavar="N"
    )
    pairs: int | None = option(
        None,
        "Iterations of each side per launch, in turn (default: what fits in 0.4 s, 8 to 200).",
        metavar="N",
        least=10,
    )
    mode: Mode = option(
        "auto", "How the sides take turns; --duration and --iterations are for launches."
    )
    margin: Fraction = option("2%", "Within this, interval included, two sides are the same.")
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
    QueryFields, PrecisionFields, TimeoutFields, WaitFields, TagFields,
):  # fmt: skip
    """All that two sides that are measured in turn have in common, and what each has of its own."""

    device: PerSide | None = option(
        None,
        "cpu, cuda:0 ...: once, or once per side.",
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
        (), "Models or runs.", "[CANDIDATES]...", needed=False, was=("candidate",), travels="model"
    )
    _: KW_ONLY
    builds: int | None = option(
        None, "Build both ONNX files N times, and compare over builds.", metavar="N", least=2
    )
    build: Pairs = option(
        {}, "With --builds, a flag of trtbench build: workspace=4GiB; repeat for several."
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


OnUnclear = Literal["fail", "pass", "retry"]


@dataclass(frozen=True)
class GateRequest(PairFields, ExecutorFields, StoreFields):
    """Check a candidate against rules."""

    candidate: Annotated[
        File,
        Argument(
            "A model, a stored run or a .toml file of several models.", "CANDIDATE", travels="model"
        ),
    ]
    _: KW_ONLY
    against: File | None = option(
        None, "A model, a run, or tag:NAME.", metavar="BASELINE", travels="model"
    )
    baseline: str | None = option(
        None, "last, best or tag:NAME of stored runs comparable with CANDIDATE.", metavar="WHICH"
    )
    max_slowdown: Fraction | None = option(None, "Slower than BASELINE by this at most.")
    metrics: Sequence[str] = option(
        (), "'p99<5ms' and the like, in quotes because of the shell.", ("--metric",), metavar="RULE"
    )
    rules: Sequence[File] = option(
        (),
        "TOML file of rules; MODEL.gate.toml beside the model is read by itself.",
        kind=FILE,
        stays="judged here",
    )
    on_unclear: OnUnclear = option("fail", "When a rule stays unclear; retry measures once more.")
    time_limit: Duration = option("60s", "Measure no longer than this while unclear.")
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


Values = Annotated[str | int | Sequence[Scalar], LIST]  # of an axis


def axes_from_flags(flags: Sequence[str]) -> dict[str, Sequence[Scalar]]:
    """Read ``threads=1,2``."""
    axes: dict[str, Sequence[Scalar]] = {}
    for text in flags:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text} cannot be read", fix="write it like threads=1,2,4")
        axes[name.strip().replace("-", "_")] = scalars(values)
    return axes


def open_shapes_from_flags(flags: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """Read ``x:1x3x64x25xM``; dimensions that are no numbers are names of axes."""
    found: dict[str, tuple[int | str, ...]] = {}
    for text in flags:
        name, colon, dims = text.rpartition(":")
        words = dims.split("x")
        if not colon or not all(re.fullmatch(r"[1-9]\d*|[A-Za-z_]\w*", word) for word in words):
            raise UsageError(
                f"--shape {text} cannot be read", fix="write it like input:1x3x224x224"
            )
        found[name] = tuple(int(word) if word.isdecimal() else word for word in words)
    return found


def excluded_from_flags(flags: Sequence[str]) -> list[dict[str, Scalar]]:
    """Read ``runtime=torch,precision=int8``."""
    found = []
    for text in flags:
        pairs = dict(part.partition("=")[::2] for part in words_from_text(text))
        if not all(pairs.values()):
            raise UsageError(f"--exclude {text} cannot be read", fix="runtime=torch,precision=int8")
        found.append({name: scalar(value) for name, value in pairs.items()})
    return found


def scalars(values: Values) -> list[Scalar]:
    """Take the values of an axis apart, numbers as numbers; an axis that was not given has none."""
    if values is None:
        return []
    if isinstance(values, str):
        return [scalar(part) for part in words_from_text(values)]
    return list(values) if isinstance(values, Sequence) else [values]


def scalar(text: str) -> Scalar:
    """Read a number, true or false, or else a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


AXES = Kind(metavar="NAME=LIST", python="lists of values by name", read=axes_from_flags)
OPEN_SHAPES = Kind(
    metavar="NAME:1x3xHxW",
    python="dimensions by the name of the input; a text is the name of an axis",
    read=open_shapes_from_flags,
)
EXCLUDED = Kind(
    metavar="NAME=VALUE,...", python="mappings of names to values", read=excluded_from_flags
)
Axes = Annotated[Mapping[str, Sequence[Scalar]], AXES]
Excluded = Annotated[Sequence[Mapping[str, Scalar]], EXCLUDED]
OpenShapes = Annotated[Mapping[str, Sequence[int | str]], OPEN_SHAPES]


@dataclass(frozen=True, kw_only=True)
class AxisFields(VerbRequest):
    """What is varied."""

    preset: str | None = option(None, "classification, depth, pose or stgcn.", metavar="NAME")
    precision: Values = option((), "fp32,fp16,int8; as-is takes the file's own.")
    batch: Values = option((), "Batch sizes: 1,32,64.")
    runtime: Values = option((), "What executes: onnxruntime,tensorrt.", ("-r", "--runtime"))
    engine: Values = option((), "static: one per batch; dynamic: one for all.")
    axis: Axes = option(
        {}, "An axis: a flag of bench, opt.KEY, build.KEY or a dimension, shape.NAME; repeatable."
    )
    exclude: Excluded = option((), "Leave out the cases that have all these values.")
    rounds: int | None = option(None, "Measure every case so often, in turn (default 1).")
    seed: int | None = option(None, "Of the order within rounds (default 0).")
    launches: Values = option((), "Fresh processes of each measurement.")
    duration: Values = option((), "Least measured time.")


@dataclass(frozen=True, kw_only=True)
class AccuracyFields(VerbRequest):
    """What accuracies are taken on, outputs are compared on, and INT8 is calibrated with."""

    data: File | None = option(
        None, "Take accuracies on this, as eval --data.", metavar="PATH", travels="data"
    )
    task: str | None = option(
        None,
        "Of eval, for --data (default: classification); adds its flags (see --task NAME --help).",
        metavar="NAME",
    )
    inputs: File | None = option(
        None, "Measure on arrays, or an image the task prepares.", metavar="FILE", travels="file"
    )
    calibration: File | None = option(
        None, "For INT8: images, .npz or random.", metavar="DATA", travels="calibration"
    )
    shapes: OpenShapes = option(
        {},
        "Shape of an input open in more than its batch; a letter is an axis: x:1x3x64x25xM.",
        ("--shape",),
    )
    input_shape: Sequence[str] = option(
        (), "PyTorch's: -1x3x224x224; a letter is an axis: x:-1x3x64x25xM.", metavar="SHAPE"
    )


@dataclass(frozen=True, kw_only=True)
class ResultFields(TimeoutFields):
    """What becomes of it."""

    resume: File | None = option(
        None, "Go on with the sweep in this folder.", kind=FILE, metavar="DIR", stays=WRITTEN_HERE
    )
    retry_failed: bool = option(False, "With --resume: try again what failed.")
    output: File | None = output_path(None, "Folder of the sweep.")
    names: Literal["case", "vanilla"] | None = option(
        None, "Call rows by runtime and precision, or Vanilla and TRT fp16, as ArtTRT does."
    )
    timeout: Duration | None = option(None, "Give up on a launch or a step after this long.")


@dataclass(frozen=True)
class SweepRequest(
    AxisFields, AccuracyFields, TaskFields, SourceFields, ResultFields, MemoryFields,
    TagFields, ExecutorFields, StoreFields,
):  # fmt: skip
    """Measure every case of a matrix: models, or a file of TOML or YAML that says it all."""

    models: Sequence[File | Mapping[str, object]] = argument(
        (), "Models, or a file with a matrix.", "[MODELS]...", needed=False, travels="model"
    )
