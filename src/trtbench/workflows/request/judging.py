"""What is asked of the verbs that look at outputs: check and eval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from trtbench.domain.words import Scalar
from trtbench.errors import UsageError
from trtbench.workflows.request.fields import Argument, Kind, Option, VerbRequest
from trtbench.workflows.request.groups import (
    DeviceFields,
    ExecutorFields,
    OptionFields,
    PatienceFields,
    PrecisionFields,
    ShapeFields,
    SideFields,
    StoreFields,
    TaskFields,
)
from trtbench.workflows.request.kinds import (
    FILE,
    PART,
    TIME,
    Duration,
    File,
    Fraction,
    seconds,
)

IMAGES_TASK = "classification"
"""Whose preprocessing images get when nobody says."""

Range = str | tuple[float, float]


def span(value: Range) -> tuple[float, float]:
    """Read ``0:1``; a pair of numbers stays one."""
    text = value if isinstance(value, str) else f"{value[0]}:{value[1]}"
    low, _, high = text.partition(":")
    try:
        found = float(low), float(high)
    except ValueError:
        raise UsageError(f"--range {text} cannot be read", fix="--range 0:1") from None
    if not found[0] < found[1]:
        raise UsageError(f"--range {text} is empty", fix="--range 0:1")
    return found


RANGE = Kind(metavar="LOW:HIGH", python='two numbers, or text such as "0:1"', check=span)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class RunningFields(SideFields, ShapeFields, DeviceFields, OptionFields, PatienceFields):
    """How models are run for the sake of their outputs."""


@dataclass(frozen=True, kw_only=True)
class FeedFields(VerbRequest):
    """What the sides are run on: a file, images, or else random items."""

    random: Annotated[int, Option("So many seeded random inputs.", least=1)] = 1000
    distribution: Annotated[
        Literal["uniform", "normal", "recorded"],
        Option("Of random inputs; recorded: the range a side was quantized for."),
    ] = "uniform"
    range: Annotated[
        Range | None, Option("Where random inputs lie (0:1; whole numbers: 0:999).", kind=RANGE)
    ] = None
    seed: Annotated[int, Option("Of random inputs.", least=0)] = 0
    inputs: Annotated[
        File | None, Option("Inputs from .npz, .npy or raw binaries.", metavar="FILE")
    ] = None
    images: Annotated[
        File | None, Option("Images, with the preprocessing of --task.", metavar="FOLDER")
    ] = None
    task: Annotated[
        str | None,
        Option("Whose preprocessing images get (default: classification).", metavar="NAME"),
    ] = None
    limit: Annotated[int | None, Option("Only the first so many inputs.", least=1)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs and self.images:
            raise UsageError(
                "--inputs and --images exclude each other", fix="leave one of them out"
            )
        if self.task and not self._for_task:
            raise UsageError("--task says how images are prepared", fix="--images FOLDER")

    @property
    def _for_task(self) -> File | None:
        """What a task prepares."""
        return self.images


@dataclass(frozen=True, kw_only=True)
class ToleranceFields(VerbRequest):
    """When outputs count as right."""

    rtol: Annotated[float, Option("Relative tolerance; |reference| scales it.", least=0)] = 1e-3
    atol: Annotated[float, Option("Absolute tolerance.", least=0)] = 1e-8
    classes: Annotated[
        bool | None, Option("Whether outputs are scores of classes (default: by their shape).")
    ] = None
    floor: Annotated[
        Literal["auto", "on", "off"], Option("Run the reference twice, against itself.")
    ] = "auto"
    layers: Annotated[
        bool, Option("Compare all intermediate tensors of ONNX files.", python=False)
    ] = False
    expect: Annotated[
        Sequence[str],
        Option("Exit with status 3 unless this holds, e.g. 'max_abs<=0.1'.", metavar="CONDITION"),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class CheckRequest(
    FeedFields, ToleranceFields, RunningFields, TaskFields, ExecutorFields, StoreFields
):
    """Run every side on the same inputs and compare each candidate with the reference."""

    reference: Annotated[File, Argument("The model that counts as right.", "REFERENCE")]
    candidates: Annotated[
        Sequence[File],
        Argument("Models that are held against it.", "[CANDIDATES]...", needed=False),
    ] = ()
    output: Annotated[
        File,
        Option("Folder of tables, pictures and worst inputs.", ("-o", "--output"), kind=FILE),
    ] = "artifacts/check"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers and self.executor is not None:
            raise UsageError("layers are compared on this machine", fix="leave out --executor")

    @property
    def preparing_task(self) -> str | None:
        """The task whose preprocessing images get; ``None`` without images."""
        return (self.task or IMAGES_TASK) if self.images else None

    @property
    def preparing(self) -> dict[str, Scalar]:
        """The settings of that task."""
        if not self.images:
            return {}
        return {**self.settings, "data": str(self.images), "unlabelled": True}


@dataclass(frozen=True, kw_only=True)
class DataFields(VerbRequest):
    """What models are judged on."""

    task: Annotated[
        str,
        Option(
            "classification, detection, depth, pose; with --help shows its flags.", metavar="NAME"
        ),
    ]
    data: Annotated[File, Option("Images, an .npz with labels, or a data.yaml.", metavar="PATH")]
    limit: Annotated[int | None, Option("Only the first so many items.", least=1)] = None
    warmup: Annotated[
        Fraction, Option("Batches at the start whose times do not count.", kind=PART)
    ] = "10%"


@dataclass(frozen=True, kw_only=True)
class EvalRequest(
    DataFields, RunningFields, PrecisionFields, TaskFields, ExecutorFields, StoreFields
):
    """Evaluate models on data with known answers, each through its own runtime."""

    models: Annotated[Sequence[File], Argument("Files to evaluate.", "MODELS...")]
    names: Annotated[
        Literal["file", "vanilla"],
        Option("Call models by their files, or Vanilla and TRT fp16, as ArtTRT does."),
    ] = "file"
    join: Annotated[
        Sequence[str],
        Option("Insist on this run; those of the same bytes are joined anyway.", metavar="RUN"),
    ] = ()
    output: Annotated[
        File, Option("Folder of tables and pictures.", ("-o", "--output"), kind=FILE)
    ] = "artifacts/eval"

    @property
    def judging(self) -> dict[str, Scalar]:
        """The settings of the task."""
        return {**self.settings, "data": str(self.data)}


@dataclass(frozen=True, kw_only=True)
class LocalizeRequest(FeedFields, RunningFields, TaskFields, StoreFields):
    """Find the layers that cost a low-precision model its accuracy, and the fewest to keep."""

    reference: Annotated[File, Argument("The model in full precision, as ONNX.", "REFERENCE")]
    candidate: Annotated[
        File, Argument("The same in low precision, or an engine of it.", "CANDIDATE")
    ]
    data: Annotated[
        File | None,
        Option("Data with answers: judge by the metric of --task.", metavar="PATH"),
    ] = None
    random: Annotated[int, Option("So many seeded random inputs, without data.", least=1)] = 64
    limit: Annotated[int | None, Option("Only the first so many inputs.", least=1)] = 256
    repair: Annotated[
        bool, Option("Keep the fewest layers in full precision that meet --where.")
    ] = False
    where: Annotated[
        str | None,
        Option(
            "What a repair has to meet: 'top1>=baseline-0.5', 'sqnr>=30dB' (default: 0.5 % of "
            "the metric, or the usual SQNR of the type).",
            metavar="CONDITION",
        ),
    ] = None
    max_time: Annotated[
        Duration, Option("Search no longer than this; long networks by bisection.", kind=TIME)
    ] = "5min"
    speed: Annotated[bool, Option("Measure the repaired model against both others.")] = True
    output: Annotated[
        File, Option("Folder of the tables and the repaired model.", ("-o", "--output"), kind=FILE)
    ] = "artifacts/localize"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data and not self.task:
            raise UsageError("--data is judged by a task", fix="--task classification")
        if self.data and (self.inputs or self.images):
            raise UsageError(
                "--data excludes --inputs and --images", fix="leave --inputs and --images out"
            )
        if self.where and not self.repair:
            raise UsageError("--where says what a repair has to meet", fix="--repair")
        if seconds(self.max_time) <= 0:
            raise UsageError("a search of 0 s finds nothing", fix="--max-time 5min")

    @property
    def _for_task(self) -> File | None:
        return self.data or self.images
