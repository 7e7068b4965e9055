"""Requests of the verbs that look at outputs: check, eval and localize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from trtbench.core.errors import UsageError
from trtbench.core.words import Scalar
from trtbench.requests.fields import (
    FILE,
    PART,
    TIME,
    WRITTEN_HERE,
    Argument,
    Duration,
    File,
    Fraction,
    Kind,
    Option,
    VerbRequest,
    argument,
    option,
    seconds,
)
from trtbench.requests.groups import (
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

IMAGES_TASK = "classification"

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

    random: int = option(1000, "N random inputs, from a seed.", least=1)
    distribution: Literal["uniform", "normal"] = option("uniform", "Of random inputs.")
    range: Range | None = option(
        None, "Where random inputs lie (0:1; whole numbers: 0:999).", kind=RANGE
    )
    seed: int = option(0, "Of random inputs.", least=0)
    inputs: File | None = option(None, "Inputs from .npz or .npy.", metavar="FILE", travels="file")
    images: File | None = option(
        None, "Images, with the preprocessing of --task.", metavar="FOLDER", travels="data"
    )
    task: str | None = option(
        None, "Whose preprocessing images get (default: classification).", metavar="NAME"
    )
    limit: int | None = option(None, "Only the first N inputs.", least=1)

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

    rtol: float = option(1e-3, "Relative tolerance; |reference| scales it.", least=0)
    atol: float = option(1e-8, "Absolute tolerance.", least=0)
    classes: bool | None = option(
        None, "Whether outputs are scores of classes (default: by their shape)."
    )
    floor: Literal["auto", "on", "off"] = option("auto", "Run the reference twice, against itself.")
    expect: Sequence[str] = option(
        (),
        "Exit with status 3 unless this holds, e.g. 'max_abs<=0.1'.",
        metavar="CONDITION",
        stays="held against what came back",
    )


@dataclass(frozen=True)
class CheckRequest(
    FeedFields, ToleranceFields, RunningFields, TaskFields, ExecutorFields, StoreFields
):
    """Run every side on the same inputs and compare each candidate with the reference."""

    reference: Annotated[
        File, Argument("The model that counts as right.", "REFERENCE", travels="model")
    ]
    candidates: Sequence[File] = argument(
        (), "Models that are compared with it.", "[CANDIDATES]...", needed=False, travels="model"
    )
    _: KW_ONLY
    output: File = option(
        "artifacts/check",
        "Folder of tables, pictures and worst inputs.",
        ("-o", "--output"),
        kind=FILE,
        stays=WRITTEN_HERE,
    )

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
    data: Annotated[
        File,
        Option("Images, an .npz with labels, or a data.yaml.", metavar="PATH", travels="data"),
    ]
    limit: int | None = option(None, "Only the first N items.", least=1)
    warmup: Fraction = option("10%", "Batches at the start whose times do not count.", kind=PART)


@dataclass(frozen=True)
class EvalRequest(
    DataFields, RunningFields, PrecisionFields, TaskFields, ExecutorFields, StoreFields
):
    """Evaluate models on data with known answers, each through its own runtime."""

    models: Annotated[Sequence[File], Argument("Files to evaluate.", "MODELS...", travels="model")]
    _: KW_ONLY
    names: Literal["file", "vanilla"] = option(
        "file", "Call models by their files, or Vanilla and TRT fp16, as ArtTRT does."
    )
    output: File = option(
        "artifacts/eval",
        "Folder of tables and pictures.",
        ("-o", "--output"),
        kind=FILE,
        stays=WRITTEN_HERE,
    )

    @property
    def judging(self) -> dict[str, Scalar]:
        """The settings of the task."""
        return {**self.settings, "data": str(self.data)}


@dataclass(frozen=True)
class LocalizeRequest(FeedFields, ShapeFields, PatienceFields, TaskFields, StoreFields):
    """Find the layers that cost a low-precision model its accuracy, and the fewest to keep."""

    reference: Annotated[File, Argument("The model in full precision, as ONNX.", "REFERENCE")]
    candidate: Annotated[File, Argument("The same in low precision, as ONNX.", "CANDIDATE")]
    _: KW_ONLY
    data: File | None = option(
        None, "Data with answers: judge by the metric of --task.", metavar="PATH"
    )
    random: int = option(64, "N random inputs, from a seed, without data.", least=1)
    limit: int | None = option(256, "Only the first N inputs.", least=1)
    repair: bool = option(False, "Keep the fewest layers in full precision that meet --where.")
    where: str | None = option(
        None,
        "What a repair has to meet: 'top1>=baseline-0.5', 'sqnr>=30dB' (default: 0.5 % of "
        "the metric, or the usual SQNR of the type).",
        metavar="CONDITION",
    )
    max_time: Duration = option(
        "5min", "Search no longer than this; long networks by bisection.", kind=TIME
    )
    output: File = option(
        "artifacts/localize",
        "Folder of the tables and the repaired model.",
        ("-o", "--output"),
        kind=FILE,
    )

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
