"""Requests of the verbs that make models: export, quantize and build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from trtbench.core.errors import UsageError, near_miss
from trtbench.requests.fields import (
    FILE,
    LIST,
    PAIRS,
    PROFILES,
    SHAPES,
    SIZE,
    TIME,
    WRITTEN_HERE,
    Argument,
    Duration,
    File,
    Option,
    Pairs,
    RequestField,
    Shapes,
    Size,
    VerbRequest,
    Words,
    argument,
    fields_of,
    option,
)
from trtbench.requests.groups import (
    ExecutorFields,
    PrecisionFields,
    PythonFields,
    ShapeFields,
    SourceFields,
    TaskFields,
    TimeoutFields,
    WaitFields,
)


@dataclass(frozen=True, kw_only=True)
class MakingTimeFields(TimeoutFields):
    """How long making may take: hours, so no setting for launches counts."""

    timeout: Duration | None = option(None, "Give up after this long, e.g. 30min.", kind=TIME)


@dataclass(frozen=True, kw_only=True)
class MakingFields(PythonFields, MakingTimeFields):
    """How a conversion is carried out."""


@dataclass(frozen=True, kw_only=True)
class ImageTaskFields(TaskFields):
    """How images to calibrate with are prepared."""

    task: str | None = option(
        None,
        "Prepares images for calibration as it does for judging (classification, detection, "
        "depth, pose); adds its flags (see --task NAME --help).",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class EngineFields(VerbRequest):
    """Which shapes an engine is built for, what it is like, and where its INT8 scales come from."""

    shapes_min: Shapes | Sequence[Shapes] = option(
        (),
        "Least shape of one input; repeat for several inputs, or the same one for more profiles.",
        ("--shape-min",),
        kind=PROFILES,
    )
    shapes_opt: Shapes | Sequence[Shapes] = option(
        (), "Shape to optimise for, likewise.", ("--shape-opt",), kind=PROFILES
    )
    shapes_max: Shapes | Sequence[Shapes] = option(
        (), "Largest shape, likewise.", ("--shape-max",), kind=PROFILES
    )
    input_shapes: Sequence[str] = option(
        (),
        "Shape of the input, -1 for a batch of 1 to 256 (best at 128); or NAME:-1x3x224x224.",
        ("--input-shape",),
        metavar="-1 3 224 224",
    )
    workspace: Size | None = option(
        None, "Limit of scratch memory, e.g. 4GiB.", kind=SIZE, axis=True
    )
    optimization_level: int | None = option(None, "0 (quick) to 5.", least=0, most=5, axis=True)
    timing_cache: File | None = option(
        None,
        "Timings of kernels to reuse and add to (default: beside the engine).",
        metavar="FILE",
        travels="cache",
    )
    no_timing_cache: bool = option(False, "Time every kernel anew and keep nothing.")
    target: Words = option(
        (), "GPUs to build for (TensorRT-RTX; default: all).", kind=LIST, metavar="sm_86,sm_89"
    )
    version_compatible: bool = option(False, "Let later TensorRT versions load it.", axis=True)
    hardware_compatible: bool = option(False, "Let other GPUs (Ampere+) run it.", axis=True)
    strip_weights: bool = option(False, "Leave weights out of the engine.", axis=True)
    refit: bool = option(False, "Let weights be replaced later.", axis=True)
    plugins: Sequence[File] = option(
        (), "Plugin library.", ("--plugin",), metavar="FILE", travels="file"
    )
    dla_core: int | None = option(None, "Build for this deep learning accelerator.", axis=True)
    verbose: bool = option(False, "Everything the builder has to say in the log.")
    calibration: File | None = option(
        None,
        "Data for INT8: an .npz of arrays by input, a folder of images, or random.",
        metavar="DATA",
        travels="calibration",
    )
    calibration_method: Literal["entropy2", "minmax"] | None = option(
        None, "How scales are found (default entropy2)."
    )
    calibration_cache: File | None = option(
        None, "Scales for INT8 (TensorRT 5 to 10).", metavar="FILE", travels="file"
    )


@dataclass(frozen=True, kw_only=True)
class BuilderOptionFields(VerbRequest):
    """What only one builder knows."""

    options: Pairs = option(
        {}, "An option of the builder itself; repeat for several.", ("--opt",), kind=PAIRS
    )


@dataclass(frozen=True, kw_only=True)
class RecipeFields(
    PrecisionFields, ShapeFields, EngineFields, ImageTaskFields, BuilderOptionFields,
):  # fmt: skip
    """Build options."""

    runtime: str | None = option(
        None,
        "What builds (default: trtexec, or TensorRT's or TensorRT-RTX's Python API where "
        "only that is).",
        ("-r", "--runtime"),
        metavar="NAME",
    )
    extra_args: tuple[str, ...] = argument(
        (),
        "Passed on to builders that are programs (trtexec).",
        "EXTRA",
        rest=True,
        travels="as-is",
    )


@dataclass(frozen=True)
class BuildRequest(RecipeFields, MakingFields, WaitFields, ExecutorFields):
    """Build an engine from an ONNX file in a fresh process."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE, travels="model")]
    _: KW_ONLY
    output: File | None = option(
        None, "The engine to write.", ("-o", "--output"), kind=FILE, stays=WRITTEN_HERE
    )


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


def _setting(field: RequestField, text: str) -> object:
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


@dataclass(frozen=True)
class ExportRequest(SourceFields, MakingFields):
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch."""

    source: Annotated[
        File,
        Argument(
            "torchvision:NAME, timm:NAME, ultralytics:NAME, torch.hub:REPO/NAME, or a file.",
            "SOURCE",
        ),
    ]
    _: KW_ONLY
    output: File | None = option(
        None, "The ONNX file (default: NAME.onnx).", ("-o", "--output"), kind=FILE
    )
    input_shapes: Sequence[str] = option(
        (),
        "-1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64; -1 may change. Repeatable.",
        ("--input-shape",),
        metavar="[NAME:]DIMS[:TYPE]",
    )
    opset: int | None = option(None, "ONNX opset (default: the exporter's).", least=9)
    target: str | None = option(
        None, "tensorrt-8.6, tensorrt-10, tensorrt-11 or tensorrt-rtx.", ("--for",), metavar="NAME"
    )
    exporter: Literal["dynamo", "legacy"] | None = option(None, "By default, what the opset needs.")
    half: bool = option(False, "Export in FP16.")
    seed: int = option(0, "Of weights and inputs.")


@dataclass(frozen=True, kw_only=True)
class ScaleFields(VerbRequest):
    """How scales are found, and for what."""

    calibration: File | None = option(
        None,
        "A folder of images, an .npz or .npy, or random.",
        metavar="DATA",
        travels="calibration",
    )
    method: Literal["minmax", "entropy", "percentile"] = option("entropy", "How scales are found.")
    percentile: float = option(99.99, "For --method percentile.")
    items: int = option(256, "Items at most.", least=1)
    batch: int | None = option(None, "Items per batch (default 8).", least=1)
    seed: int = option(0, "Of order and random data.")
    per_channel: bool = option(True, "Scales of weights.", ("--per-channel/--per-tensor",))
    exclude: Sequence[str] = option(
        (),
        "Leave a node alone; a pattern with * and ? names several. Repeat for more.",
        metavar="NODE",
    )
    keep: Sequence[str] = option((), "The same, for casts: stays FP32.", metavar="NODE")
    operators: Sequence[str] = option((), "Quantize only these.", ("--op",), metavar="KIND")
    via: Literal["onnxruntime", "modelopt"] | None = option(
        None, "What quantizes (default: onnxruntime for int8, modelopt for fp8)."
    )
    rest: Literal["fp32", "fp16"] = option("fp32", "Type of what is not quantized (modelopt).")


@dataclass(frozen=True)
class QuantizeRequest(ScaleFields, ImageTaskFields, MakingFields, ExecutorFields):
    """Cast or quantize an ONNX file, and compare the result with it on other inputs."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE, travels="model")]
    _: KW_ONLY
    precision: Annotated[
        Literal["fp16", "bf16", "int8", "fp8"],
        Option("fp16 and bf16 are casts; int8 and fp8 are quantized with Q/DQ nodes."),
    ]
    output: File | None = option(
        None, "Default: MODEL.PRECISION.onnx.", ("-o", "--output"), kind=FILE, stays=WRITTEN_HERE
    )
    keep_io: bool = option(False, "Leave inputs and outputs in FP32 (casts).")
    inputs: File | None = option(
        None, "Take the difference on these (.npz, .npy).", metavar="FILE", travels="file"
    )
    shapes: Shapes = option(
        {}, "Shape of random data where the model leaves it open.", ("--shape",), kind=SHAPES
    )
