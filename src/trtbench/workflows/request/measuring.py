"""What is asked of the verbs that measure one model: bench and profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from trtbench.workflows.request.fields import WRITTEN_HERE, Argument, VerbRequest, argument, option
from trtbench.workflows.request.groups import (
    ClockFields,
    DeviceFields,
    ExecutorFields,
    InputFields,
    LengthFields,
    MemoryFields,
    OptionFields,
    PatienceFields,
    PrecisionFields,
    PythonFields,
    QueryFields,
    ShapeFields,
    StoreFields,
    TagFields,
    TaskFields,
)
from trtbench.workflows.request.kinds import FILE, SHAPES, TIME, Duration, File, Shapes


@dataclass(frozen=True, kw_only=True)
class RuntimeFields(VerbRequest):
    """What executes the model."""

    runtime: str | None = option(
        None, "What executes the model.", ("-r", "--runtime"), metavar="NAME", setting=True
    )


@dataclass(frozen=True, kw_only=True)
class LaunchFields(VerbRequest):
    """How often it is measured."""

    launches: int | None = option(
        None,
        "Fresh processes to measure in (default 1).",
        metavar="N",
        least=1,
        axis=True,
        setting=True,
    )


@dataclass(frozen=True, kw_only=True)
class WatchFields(ClockFields):
    """What is done to the GPU, and seen of it, meanwhile."""

    telemetry: Duration | None = option(
        None,
        "Look at the GPU this often (100ms), in a pass of its own after the measurement.",
        kind=TIME,
        metavar="[TIME]",
        axis=True,
        bare="100ms",
        bare_unless=r"[-+]?[\d.]+\s*[a-zµ]*|[a-z]+",
    )


@dataclass(frozen=True, kw_only=True)
class LayerTimeFields(VerbRequest):
    """Whether single layers are timed."""

    profile: bool | None = option(
        None, "Time single layers too (default: as the runtime does; trtexec: yes)."
    )
    separate_profile_run: bool = option(True, "Time layers in a pass of their own.")


@dataclass(frozen=True, kw_only=True)
class SwitchFields(VerbRequest):
    """Whether changes of shape are timed."""

    switch_shapes: Shapes = option(
        {},
        "Time changes to this shape and back too, in a pass of its own after the measurement; "
        "repeat for several inputs.",
        ("--switch-shape",),
        kind=SHAPES,
    )
    switch_profile: int | None = option(
        None, "The same with this optimization profile of the engine.", metavar="N", least=0
    )


@dataclass(frozen=True, kw_only=True)
class PreparationFields(TaskFields):
    """How an image becomes an input."""

    task: str | None = option(
        None,
        "Prepares the image that --inputs names (classification, depth, ...); adds its flags "
        "(see --task NAME --help).",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class RunFolderFields(VerbRequest):
    """Where the run is written."""

    output: File | None = option(
        None,
        "Folder for this run.",
        ("-o", "--output"),
        kind=FILE,
        stays=WRITTEN_HERE,
    )


@dataclass(frozen=True, kw_only=True)
class RunFields(
    RuntimeFields, ShapeFields, LengthFields, LaunchFields, InputFields, PreparationFields,
    DeviceFields, QueryFields,
    WatchFields, PrecisionFields, LayerTimeFields, SwitchFields, OptionFields, PythonFields,
    MemoryFields, PatienceFields, RunFolderFields,
):  # fmt: skip
    """All that makes a run, but for its model."""

    extra_args: tuple[str, ...] = argument(
        (),
        "Passed on to runtimes that are programs (trtexec).",
        "EXTRA",
        rest=True,
        travels="as-is",
    )


@dataclass(frozen=True, kw_only=True)
class BenchRequest(RunFields, TagFields, ExecutorFields, StoreFields):
    """Measure a model in fresh processes and keep the run."""

    model: Annotated[
        File, Argument("A file, or a model of a library by name.", "MODEL", travels="model")
    ]
    slo: str | None = option(
        None,
        "Search the highest rate that keeps this bound (--protocol server), e.g. 'p99<10ms'; "
        "--rate is then the highest to try.",
        metavar="RULE",
    )
    keep_model: bool = option(
        False, "Keep the model's bytes in the store: gate --baseline measures both in turn."
    )


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(RunFields, TagFields, ExecutorFields, StoreFields):
    """Time the layers of a model, or show those of a stored run."""

    model: Annotated[
        File, Argument("A file, or the name of a stored run.", "MODEL", travels="model")
    ]
