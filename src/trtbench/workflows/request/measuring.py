"""What is asked of the verbs that measure one model: bench and profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from trtbench.workflows.request.fields import Argument, Option, VerbRequest
from trtbench.workflows.request.groups import (
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

    runtime: Annotated[
        str | None,
        Option("What executes the model.", ("-r", "--runtime"), metavar="NAME", setting=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LaunchFields(VerbRequest):
    """How often it is measured."""

    launches: Annotated[
        int | None,
        Option(
            "Fresh processes to measure in (default 1).",
            metavar="N", least=1, axis=True, setting=True,
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WatchFields(VerbRequest):
    """What is done to the GPU, and seen of it, meanwhile."""

    telemetry: Annotated[
        Duration | None,
        Option(
            "Look at the GPU this often (100ms), in a pass of its own after the measurement.",
            kind=TIME, metavar="[TIME]", axis=True,
            bare="100ms", bare_unless=r"[-+]?[\d.]+\s*[a-zµ]*|[a-z]+",
        ),
    ] = None  # fmt: skip
    lock_clocks: Annotated[
        str | None,
        Option(
            "Lock the GPU's clock while measuring (needs root), and free it afterwards.",
            metavar="[base|max|MHZ]", axis=True, bare="base", bare_unless=r"[^./:]*",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LayerTimeFields(VerbRequest):
    """Whether single layers are timed."""

    profile: Annotated[
        bool | None,
        Option("Time single layers too (default: as the runtime does; trtexec: yes)."),
    ] = None
    separate_profile_run: Annotated[bool, Option("Time layers in a pass of their own.")] = True


@dataclass(frozen=True, kw_only=True)
class SwitchFields(VerbRequest):
    """Whether changes of shape are timed."""

    switch_shapes: Annotated[
        Shapes,
        Option(
            "Time changes to this shape and back too, in a pass of its own after the measurement; "
            "repeat for several inputs.",
            ("--switch-shape",), kind=SHAPES,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    switch_profile: Annotated[
        int | None,
        Option("The same with this optimization profile of the engine.", metavar="N", least=0),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PreparationFields(TaskFields):
    """How an image becomes an input."""

    task: Annotated[
        str | None,
        Option(
            "Prepares the image that --inputs names (classification, depth, ...); adds its flags "
            "(see --task NAME --help).",
            metavar="NAME",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunFolderFields(VerbRequest):
    """Where the run is written."""

    output: Annotated[
        File | None, Option("Folder for this run.", ("-o", "--output"), kind=FILE)
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunFields(
    RuntimeFields, ShapeFields, LengthFields, LaunchFields, InputFields, PreparationFields,
    DeviceFields, QueryFields,
    WatchFields, PrecisionFields, LayerTimeFields, SwitchFields, OptionFields, PythonFields,
    MemoryFields, PatienceFields, RunFolderFields,
):  # fmt: skip
    """All that makes a run, but for its model."""

    extra_args: Annotated[
        tuple[str, ...],
        Argument("Passed on to runtimes that are programs (trtexec).", "EXTRA", rest=True),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class BenchRequest(RunFields, TagFields, ExecutorFields, StoreFields):
    """Measure a model in fresh processes and keep the run."""

    model: Annotated[File, Argument("A file, or a model of a library by name.", "MODEL")]
    slo: Annotated[
        str | None,
        Option(
            "Search the highest rate that keeps this bound (--protocol server), e.g. 'p99<10ms'; "
            "--rate is then the highest to try.",
            metavar="RULE",
        ),
    ] = None
    keep_model: Annotated[
        bool,
        Option("Keep the model's bytes in the store: gate --baseline measures both in turn."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(RunFields, TagFields, ExecutorFields, StoreFields):
    """Time the layers of a model, or show those of a stored run."""

    model: Annotated[File, Argument("A file, or the name of a stored run.", "MODEL")]
