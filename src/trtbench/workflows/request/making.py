"""What is asked of the verbs that make models: export, quantize and build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from trtbench.errors import UsageError, near_miss
from trtbench.workflows.request.fields import (
    Argument,
    Option,
    RequestField,
    VerbRequest,
    fields_of,
)
from trtbench.workflows.request.groups import (
    ExecutorFields,
    PrecisionFields,
    PythonFields,
    ShapeFields,
    SourceFields,
    TaskFields,
    TimeoutFields,
    WaitFields,
)
from trtbench.workflows.request.kinds import (
    FILE,
    LIST,
    PAIRS,
    PROFILES,
    SHAPES,
    SIZE,
    TIME,
    Duration,
    File,
    Pairs,
    Shapes,
    Size,
    Words,
)


@dataclass(frozen=True, kw_only=True)
class MakingTimeFields(TimeoutFields):
    """How long making may take: hours, so no setting for launches counts."""

    timeout: Annotated[
        Duration | None, Option("Give up after this long, e.g. 30min.", kind=TIME)
    ] = None


@dataclass(frozen=True, kw_only=True)
class MakingFields(PythonFields, MakingTimeFields):
    """How a conversion is carried out."""


@dataclass(frozen=True, kw_only=True)
class ProfileShapeFields(VerbRequest):
    """Which shapes an engine is built for."""

    shapes_min: Annotated[
        Shapes | Sequence[Shapes],
        Option(
            "Least shape of one input; repeat for several inputs, or the same one for more "
            "profiles.",
            ("--shape-min",), kind=PROFILES,
        ),
    ] = ()  # fmt: skip
    shapes_opt: Annotated[
        Shapes | Sequence[Shapes],
        Option("Shape to optimise for, likewise.", ("--shape-opt",), kind=PROFILES),
    ] = ()
    shapes_max: Annotated[
        Shapes | Sequence[Shapes],
        Option("Largest shape, likewise.", ("--shape-max",), kind=PROFILES),
    ] = ()
    input_shapes: Annotated[
        Sequence[str],
        Option(
            "Shape of the input, -1 for a batch of 1 to 256 (best at 128); or "
            "NAME:-1x3x224x224.",
            ("--input-shape",), metavar="-1 3 224 224",
        ),
    ] = ()  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ImageTaskFields(TaskFields):
    """How images to calibrate with are prepared."""

    task: Annotated[
        str | None,
        Option(
            "Prepares images for calibration as it does for judging (classification, detection, "
            "depth, pose); adds its flags (see --task NAME --help).",
            metavar="NAME",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CalibrationFields(VerbRequest):
    """Where the scales of INT8 come from."""

    calibration: Annotated[
        File | None,
        Option(
            "Data for INT8: an .npz of arrays by input, a folder of images, or random.",
            metavar="DATA",
        ),
    ] = None
    calibration_method: Annotated[
        Literal["entropy2", "minmax"] | None, Option("How scales are found (default entropy2).")
    ] = None
    calibration_cache: Annotated[
        File | None, Option("Scales for INT8 (TensorRT 5 to 10).", metavar="FILE")
    ] = None


@dataclass(frozen=True, kw_only=True)
class EngineFields(VerbRequest):
    """What an engine is like."""

    workspace: Annotated[
        Size | None, Option("Limit of scratch memory, e.g. 4GiB.", kind=SIZE, axis=True)
    ] = None
    optimization_level: Annotated[
        int | None, Option("0 (quick) to 5.", least=0, most=5, axis=True)
    ] = None
    timing_cache: Annotated[
        File | None,
        Option(
            "Timings of kernels to reuse and add to (default: beside the engine).", metavar="FILE"
        ),
    ] = None
    no_timing_cache: Annotated[bool, Option("Time every kernel anew and keep nothing.")] = False
    target: Annotated[
        Words,
        Option(
            "GPUs to build for (TensorRT-RTX; default: all).", kind=LIST, metavar="sm_86,sm_89"
        ),
    ] = ()  # fmt: skip
    version_compatible: Annotated[
        bool, Option("Let later TensorRT versions load it.", axis=True)
    ] = False
    hardware_compatible: Annotated[bool, Option("Let other GPUs (Ampere+) run it.", axis=True)] = (
        False
    )
    strip_weights: Annotated[bool, Option("Leave weights out of the engine.", axis=True)] = False
    refit: Annotated[bool, Option("Let weights be replaced later.", axis=True)] = False
    plugins: Annotated[
        Sequence[File], Option("Plugin library.", ("--plugin",), metavar="FILE")
    ] = ()
    dla_core: Annotated[
        int | None, Option("Build for this deep learning accelerator.", axis=True)
    ] = None
    verbose: Annotated[bool, Option("Everything the builder has to say in the log.")] = False


@dataclass(frozen=True, kw_only=True)
class BuilderOptionFields(VerbRequest):
    """What only one builder knows."""

    options: Annotated[
        Pairs,
        Option(
            "An option of the builder itself; repeat for several.", ("--opt",), kind=PAIRS
        ),
    ] = field(default_factory=dict)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RecipeFields(
    PrecisionFields, ShapeFields, ProfileShapeFields, EngineFields, CalibrationFields,
    ImageTaskFields, BuilderOptionFields,
):  # fmt: skip
    """All that makes an engine, but for its model, its name and the interpreter."""

    runtime: Annotated[
        str | None,
        Option(
            "What builds (default: trtexec, or TensorRT's or TensorRT-RTX's Python API where "
            "only that is).",
            ("-r", "--runtime"), metavar="NAME",
        ),
    ] = None  # fmt: skip
    extra_args: Annotated[
        tuple[str, ...],
        Argument("Passed on to builders that are programs (trtexec).", "EXTRA", rest=True),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class BuildRequest(RecipeFields, MakingFields, WaitFields, ExecutorFields):
    """Build an engine from an ONNX file in a fresh process."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE)]
    output: Annotated[
        File | None, Option("The engine to write.", ("-o", "--output"), kind=FILE)
    ] = None
    times: Annotated[
        int,
        Option(
            "Build so many engines and say in what they differ (see trtbench lottery).",
            metavar="N", least=1, python=False,
        ),
    ] = 1  # fmt: skip


SWITCHES = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def build_settings(pairs: Pairs) -> dict[str, Any]:
    """Read ``workspace=4GiB`` and the like as fields of a build; unknown ones are refused."""
    known = {each.name: each for each in fields_of(RecipeFields) if isinstance(each.about, Option)}
    found: dict[str, Any] = {}
    for key, text in pairs.items():
        field = known.get(key.replace("-", "_"))
        if field is None or field.name in ("settings", "options"):
            near = near_miss(key, known)
            fix = f"{near}={text}" if near else "trtbench build --help lists them"
            raise UsageError(f"a build has no setting {key}", fix=fix)
        found[field.name] = _setting(field, str(text))
    return found


def _setting(field: RequestField, text: str) -> Any:
    about = field.about
    if about.kind is not None and about.kind.read is not None:
        return about.kind.read((text,))
    if field.type is bool:
        if text.lower() not in SWITCHES:
            raise UsageError(f"{field.name}={text} is neither on nor off", fix=f"{field.name}=on")
        return SWITCHES[text.lower()]
    if field.type is int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(
                f"{field.name}={text} is no whole number", fix=f"{field.name}=1"
            ) from None
    return (text,) if field.item is not None else text


@dataclass(frozen=True, kw_only=True)
class ExportRequest(SourceFields, MakingFields):
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch."""

    source: Annotated[
        File,
        Argument(
            "torchvision:NAME, timm:NAME, ultralytics:NAME, torch.hub:REPO/NAME, or a file.",
            "SOURCE",
        ),
    ]
    output: Annotated[
        File | None,
        Option("The ONNX file (default: NAME.onnx).", ("-o", "--output"), kind=FILE),
    ] = None
    input_shapes: Annotated[
        Sequence[str],
        Option(
            "-1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64; -1 may change. Repeatable.",
            ("--input-shape",), metavar="[NAME:]DIMS[:TYPE]",
        ),
    ] = ()  # fmt: skip
    opset: Annotated[int | None, Option("ONNX opset (default: the exporter's).", least=9)] = None
    target: Annotated[
        str | None,
        Option(
            "tensorrt-8.6, tensorrt-10, tensorrt-11 or tensorrt-rtx.", ("--for",), metavar="NAME"
        ),
    ] = None  # fmt: skip
    exporter: Annotated[
        Literal["dynamo", "legacy"] | None, Option("By default, what the opset needs.")
    ] = None
    half: Annotated[bool, Option("Export in FP16.")] = False
    seed: Annotated[int, Option("Of weights and inputs.")] = 0


@dataclass(frozen=True, kw_only=True)
class ScaleFields(VerbRequest):
    """How scales are found, and for what."""

    calibration: Annotated[
        File | None, Option("A folder of images, an .npz or .npy, or random.", metavar="DATA")
    ] = None
    method: Annotated[
        Literal["minmax", "entropy", "percentile"], Option("How scales are found.")
    ] = "entropy"
    percentile: Annotated[float, Option("Of the method of that name.")] = 99.99
    items: Annotated[int, Option("Items at most.", least=1)] = 256
    batch: Annotated[int | None, Option("Items per batch (default 8).", least=1)] = None
    seed: Annotated[int, Option("Of order and random data.")] = 0
    per_channel: Annotated[bool, Option("Scales of weights.", ("--per-channel/--per-tensor",))] = (
        True
    )
    exclude: Annotated[
        Sequence[str],
        Option(
            "Leave a node alone; a pattern with * and ? names several. Repeat for more.",
            metavar="NODE",
        ),
    ] = ()
    keep: Annotated[Sequence[str], Option("The same, for casts: stays FP32.", metavar="NODE")] = ()
    operators: Annotated[
        Sequence[str], Option("Quantize only these.", ("--op",), metavar="KIND")
    ] = ()
    via: Annotated[
        Literal["onnxruntime", "modelopt"] | None,
        Option("What quantizes (default: onnxruntime for int8, modelopt for fp8)."),
    ] = None
    rest: Annotated[
        Literal["fp32", "fp16"], Option("Type of what is not quantized (modelopt).")
    ] = "fp32"


@dataclass(frozen=True, kw_only=True)
class QuantizeRequest(ScaleFields, ImageTaskFields, MakingFields):
    """Cast or quantize an ONNX file, and compare the result with it on other inputs."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE)]
    precision: Annotated[
        Literal["fp16", "bf16", "int8", "fp8"],
        Option("fp16 and bf16 are casts; int8 and fp8 are quantized with Q/DQ nodes."),
    ]
    output: Annotated[
        File | None, Option("Default: MODEL.PRECISION.onnx.", ("-o", "--output"), kind=FILE)
    ] = None
    keep_io: Annotated[bool, Option("Leave inputs and outputs in FP32 (casts).")] = False
    inputs: Annotated[
        File | None, Option("Take the difference on these (.npz, .npy).", metavar="FILE")
    ] = None
    shapes: Annotated[
        Shapes,
        Option(
            "Shape of random data where the model leaves it open.", ("--shape",), kind=SHAPES
        ),
    ] = field(default_factory=dict)  # fmt: skip
