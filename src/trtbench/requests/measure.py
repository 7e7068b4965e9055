"""Requests of the verbs that measure: bench, compare, gate and sweep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from trtbench.core.errors import UsageError
from trtbench.core.words import Mode, Scalar
from trtbench.requests import fields
from trtbench.requests.fields import Argument, Duration, File, Kind, argument, option


class RunFields(
    fields.ShapeFields, fields.LengthFields, fields.DeviceFields, fields.QueryFields,
    fields.PrecisionFields, fields.BuildFields, fields.OptionFields, fields.PythonFields,
    fields.MemoryFields, fields.TimeoutFields, fields.WaitFields, group=fields.MEASURING,
):  # fmt: skip
    """Run options."""

    runtime: str | None = option(
        None, f"Runtime that executes it ({fields.DEFAULTS}).", ("-r", "--runtime"),
        kind=fields.RUNTIME, setting=True,
    )  # fmt: skip
    launches: int | None = option(
        None, "Fresh processes to start (default 1).", metavar="N", least=1, axis=True, setting=True
    )
    output: File | None = fields.output_path(
        None, "Folder of this run; else the store.", trtexec="--exportTimes"
    )
    separate_profile_run: bool = option(True, "Time layers in a separate pass.")
    telemetry: Duration | None = option(
        None, "Sample the GPU at this interval (100ms), in a separate pass after the measurement.",
        metavar="[TIME]", axis=True, bare="100ms", group=fields.GPU,
    )  # fmt: skip
    extra_args: tuple[str, ...] = argument(
        (), "Passed on to runtimes that are programs: trtexec.", "EXTRA", rest=True, travels="as-is"
    )


class BenchRequest(
    RunFields,
    fields.TagFields,
    fields.ExecutorFields,
    fields.StoreFields,
    group=fields.MEASURING,
    kw_only=False,
):
    """Measure a model in fresh processes and keep the run."""

    model: Annotated[
        File,
        Argument(
            "A file, or the name of a library's model.",
            "MODEL",
            travels="model",
            trtexec="--onnx --loadEngine",
        ),
    ]
    _: KW_ONLY
    profile: bool | None = option(
        None, "Also time layers (default: depends on the runtime; trtexec: yes).",
        trtexec="--dumpProfile --exportProfile --dumpLayerInfo --exportLayerInfo "
        "--separateProfileRun",
    )  # fmt: skip
    slo: str | None = option(
        None,
        "Find the highest rate of the protocol server that meets this rule, e.g. 'p99<10ms'; "
        "--rate is then the highest rate to try.",
        metavar="RULE",
    )
    time_limit: Duration | None = option(
        None, "With --slo: search this long, loading included (default 30s)."
    )
    keep_model: bool = option(
        False,
        "Keep a copy of the model in the store: gate --baseline can then measure both in turn.",
        group=fields.OUTPUT,
    )
    top: int | None = option(
        None, "Also time layers, and draw the N slowest as per_layer_time.png.", metavar="N",
        least=1, group=fields.OUTPUT,
    )  # fmt: skip

    def validate(self) -> None:
        if self.slo is None and self.time_limit is not None:
            raise UsageError("--time-limit needs --slo", fix="--slo 'p99<10ms' --time-limit ...")


LAUNCHES = 10  # fresh launches of both sides: they find 2 % in 95 % of cases on a noisy machine

MOST_LAUNCHES = 80


class TurnFields(fields.VerbRequest, group=fields.MEASURING):
    """How often sides take turns, and what counts as the same."""

    launches: int | None = option(
        None,
        "Fresh launches of both sides (default 10; for slow models 4; in a gate without a "
        "baseline 5).",
        metavar="N",
        least=1,
    )
    max_launches: int | None = option(
        None, "At most N launches while unclear (default 80, 90 s; on a GPU 25 s).", metavar="N"
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
    margin: fields.Fraction = option("2%", "Two sides are the same if the interval is within this.")
    accept: Collection[str] = option(
        (), "Compare despite this difference (tf32, batch, protocol, ...).", metavar="KEY"
    )

    def validate(self) -> None:
        if self.accept:
            from trtbench.analysis.comparability import refuse_unknown_keys

            refuse_unknown_keys(self.accept)

    @property
    def most_launches(self) -> int:
        return max(self.launches or LAUNCHES, self.max_launches or MOST_LAUNCHES)

    @property
    def margin_part(self) -> float:
        return fields.fraction(self.margin)


class PairFields(
    fields.SideFields, fields.ShapeFields, TurnFields, fields.LengthFields,
    fields.ThreadFields, fields.OptionFields, fields.QueryFields, fields.PrecisionFields,
    fields.BuildFields, fields.TimeoutFields, fields.WaitFields, fields.TagFields,
    group=fields.MODEL,
):  # fmt: skip
    """Options of two sides that are measured in turn, common or per side."""

    device: fields.PerSide | None = option(
        None, "cpu, cuda:0 ...: once, or once per side.", metavar="NAME", per_side=True,
        setting=True,
    )  # fmt: skip
    args: fields.PerSide | None = option(
        None,
        "Arguments for a runtime that is a program (trtexec), in quotes: once for all sides, "
        "or once per side ('' is none).",
        metavar="TEXT",
        per_side=True,
    )


class CompareRequest(PairFields, fields.ExecutorFields, fields.StoreFields, kw_only=False):
    """Compare every candidate with the baseline: models, engines, checkpoints or stored runs."""

    baseline: Annotated[File, Argument("A model or a stored run.", "BASELINE", travels="model")]
    candidates: Sequence[File] = argument(
        (), "Models or stored runs.", "[CANDIDATES]...", needed=False, travels="model"
    )
    _: KW_ONLY
    builds: int | None = option(
        None, "Build both ONNX files N times, and compare over builds.", metavar="N", least=2
    )
    output: File | None = fields.output_path(
        None, "Folder of the table and of --builds; else the store."
    )

    @property
    def models(self) -> list[str]:
        """The models of all sides; without candidates, BASELINE once per -r, --python, ..."""
        names = [str(each) for each in (self.baseline, *self.candidates)]
        given = (self.runtime, self.python, self.device, self.args)
        counts = [len(each) for each in given if each and not isinstance(each, str | Path)]
        return names if len(names) > 1 else names * max([1, *counts])

    def validate(self) -> None:
        if self.builds is not None and self.lock_clocks is not None:
            raise UsageError(
                "--builds and --lock-clocks cannot be combined",
                fix="leave out --lock-clocks, or --builds",
            )
        if self.builds is not None and self.executor is not None:
            raise UsageError(
                "--builds works on this machine only",
                fix="leave out --executor, or run the command on the other machine",
            )


OnUnclear = Literal["fail", "pass", "retry"]


class GateRequest(PairFields, fields.ExecutorFields, fields.StoreFields, kw_only=False):
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
    max_slowdown: fields.Fraction | None = option(None, "Maximum slowdown against BASELINE.")
    metrics: Sequence[str] = option(
        (), "Rule such as 'p99<5ms', quoted for the shell.", ("--metric",), metavar="RULE"
    )
    rules: Sequence[File] = option(
        (),
        "TOML file of rules; MODEL.gate.toml next to the model is always read.",
        kind=fields.FILE,
        stays="checked here",
    )
    on_unclear: OnUnclear = option("fail", "If a rule stays unclear; retry measures once more.")
    time_limit: Duration = option("60s", "Measure at most this long while unclear.")
    keep_model: bool | None = option(
        None,
        "Keep CANDIDATE's bytes in the store, to measure it in turn with the next candidate "
        "(default: with --baseline, up to 512 MiB).",
    )

    def validate(self) -> None:
        if self.against is not None and self.baseline is not None:
            raise UsageError(
                "--against and --baseline both name the baseline", fix="give one of them"
            )


Values = Annotated[str | int | Sequence[Scalar], fields.LIST]  # of an axis


def axes_from_flags(flags: Sequence[str]) -> dict[str, Sequence[Scalar]]:
    """Read axes such as ``threads=1,2``."""
    axes: dict[str, Sequence[Scalar]] = {}
    for text in flags:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text} is not valid", fix="write it like threads=1,2,4")
        axes[name.strip().replace("-", "_")] = scalars(values)
    return axes


def excluded_from_flags(flags: Sequence[str]) -> list[dict[str, Scalar]]:
    """Read exclusions such as ``runtime=torch,precision=int8``."""
    found = []
    for text in flags:
        pairs = dict(part.partition("=")[::2] for part in fields.words_from_text(text))
        if not all(pairs.values()):
            raise UsageError(f"--exclude {text} is not valid", fix="runtime=torch,precision=int8")
        found.append({name: scalar(value) for name, value in pairs.items()})
    return found


def scalars(values: Values) -> list[Scalar]:
    """Return the values of an axis, numbers as numbers; empty if it was not given."""
    if values is None:
        return []
    if isinstance(values, str):
        return [scalar(part) for part in fields.words_from_text(values)]
    return list(values) if isinstance(values, Sequence) else [values]


def scalar(text: str) -> Scalar:
    """Read a number, a boolean or else a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


AXES = Kind(metavar="NAME=LIST", python="lists of values by name", read=axes_from_flags)
OPEN_SHAPES = Kind(
    metavar="NAME:1x3xHxW",
    python="dimensions by input name; a text is the name of an axis",
    read=partial(fields.shapes_from_flags, dim=r"[1-9]\d*|[A-Za-z_]\w*"),  # such as x:1x3x64xM
)
EXCLUDED = Kind(
    metavar="NAME=VALUE,...", python="mappings of names to values", read=excluded_from_flags
)
Axes = Annotated[Mapping[str, Sequence[Scalar]], AXES]
Excluded = Annotated[Sequence[Mapping[str, Scalar]], EXCLUDED]
OpenShapes = Annotated[Mapping[str, Sequence[int | str]], OPEN_SHAPES]


class AxisFields(fields.VerbRequest):
    """The axes of a sweep."""

    preset: str | None = option(
        None,
        "Start from a toolkit's matrix: classification, depth, pose, stgcn or trtexec.",
        metavar="NAME",
    )
    precision: Values = option((), "fp32,fp16,int8; as-is keeps the file's precision.")
    batch: Values = option((), "Batch sizes: 1,32,64.")
    runtime: Values = option((), "Runtimes: onnxruntime,tensorrt.", ("-r", "--runtime"))
    engine: Values = option((), "static: one per batch; dynamic: one for all.")
    axis: Axes = option(
        {},
        "An axis: a flag of bench, opt.KEY, build.KEY, shape.DIMENSION or input.NAME; repeatable.",
    )
    exclude: Excluded = option((), "Leave out the cases that have all these values.")
    rounds: int | None = option(None, "How often to measure every case, in turn (default 1).")
    seed: int | None = option(None, "Seed of the order within rounds (default 0).")
    launches: Values = option((), "Fresh processes of each measurement.")
    duration: Values = option((), "Minimum measured time.")


class AccuracyFields(fields.ValueFields, group=fields.MODEL):
    """Data for accuracy, for inputs and for INT8 calibration."""

    data: File | None = option(
        None, "Evaluate on this, as eval --data; also for INT8.", metavar="PATH", travels="data"
    )
    inputs: File | None = option(
        None, "Measure on arrays, or an image the task prepares.", metavar="FILE", travels="file"
    )
    calibration: File | None = option(
        None, "Other data for INT8: images, .npz or random.", metavar="DATA", travels="calibration"
    )
    shapes: OpenShapes = option(
        {},
        "Shape of an input with more dynamic dimensions; a letter is an axis: x:1x3x64x25xM.",
        ("--shape",),
    )
    input_shape: Sequence[str] = option(
        (), "For PyTorch: -1x3x224x224; a letter is an axis: x:-1x3x64x25xM.", metavar="SHAPE"
    )


class ResultFields(fields.TimeoutFields, group=fields.OUTPUT):
    """Where the results are written, and how a sweep is resumed."""

    resume: File | None = option(
        None, "Continue the sweep in this folder.", kind=fields.FILE, metavar="DIR",
        stays=fields.WRITTEN_HERE,
    )  # fmt: skip
    retry_failed: bool = option(False, "With --resume: retry what failed.")
    output: File | None = fields.output_path(None, "Folder of the sweep; else in the store.")
    names: Literal["case", "vanilla"] | None = option(
        None, "Label rows by runtime and precision, or as Vanilla and TRT fp16, like ArtTRT."
    )
    timeout: Duration | None = option(
        None, "Stop a launch or a step after this time.", group=fields.MEASURING
    )


class SweepRequest(
    AxisFields, AccuracyFields, fields.SourceFields, ResultFields,
    fields.MemoryFields, fields.TagFields, fields.ExecutorFields, fields.StoreFields, kw_only=False
):  # fmt: skip
    """Measure every case of a matrix: models, or a TOML or YAML file that describes everything."""

    models: Sequence[File | Mapping[str, object]] = argument(
        (), "Models, or a file with a matrix.", "[MODELS]...", needed=False, travels="model"
    )
