"""Requests of the verbs that convert models and check their accuracy: export to localize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from trtbench.core.errors import UsageError, near_miss
from trtbench.requests import fields
from trtbench.requests.fields import (
    FILE,
    MODEL,
    Argument,
    DeviceFields,
    Duration,
    ExecutorFields,
    File,
    Fraction,
    Option,
    OptionFields,
    PrecisionFields,
    PythonFields,
    ShapeFields,
    SideFields,
    StoreFields,
    TimeoutFields,
    WaitFields,
    fields_of,
    option,
    output_path,
    read_scalar,
)


class ConversionTimeoutFields(TimeoutFields, group=fields.MEASURING):
    """After how long a build or conversion is stopped; settings for launches do not apply."""

    timeout: Duration | None = option(None, "Stop after this time, e.g. 30min.")


class RecipeFields(PrecisionFields, ShapeFields, fields.DataFields, group=fields.BUILDING):
    """Build options: shapes, settings and INT8 calibration of an engine, and the builder."""

    runtime: str | None = option(
        None,
        "Builder (default: trtexec, or the Python API of TensorRT or TensorRT-RTX if only that "
        "is installed).",
        ("-r", "--runtime"),
        kind=fields.BUILDER,
    )
    shapes_min: fields.Shapes | Sequence[fields.Shapes] = option(
        (),
        "Minimum shape of one input; repeat for more inputs, or the same one for more profiles.",
        ("--shape-min",),
        kind=fields.PROFILES,
        trtexec="--minShapes",
    )
    shapes_opt: fields.Shapes | Sequence[fields.Shapes] = option(
        (), "Shape to optimise for, repeatable as above.", ("--shape-opt",), kind=fields.PROFILES,
        trtexec="--optShapes",
    )  # fmt: skip
    shapes_max: fields.Shapes | Sequence[fields.Shapes] = option(
        (), "Maximum shape, repeatable as above.", ("--shape-max",), kind=fields.PROFILES,
        trtexec="--maxShapes",
    )  # fmt: skip
    input_shapes: Sequence[str] = option(
        (),
        "Shape of the input, -1 for a batch of 1 to 256 (best at 128); or NAME:-1x3x224x224.",
        ("--input-shape",),
        metavar="-1 3 224 224",
    )
    workspace: fields.Size | None = option(
        None, "Limit of scratch memory, e.g. 4GiB.", axis=True, trtexec="--workspace --memPoolSize"
    )
    optimization_level: int | None = option(
        None, "0 (quick) to 5.", least=0, most=5, axis=True, trtexec="--builderOptimizationLevel"
    )
    timing_cache: File | None = option(
        None,
        "Timings of kernels to reuse and add to (default: beside the engine).",
        metavar="FILE",
        travels="cache",
        trtexec="--timingCacheFile",
    )
    no_timing_cache: bool = option(False, "Time every kernel again, and write no cache.")
    target: fields.Words = option(
        (), "GPUs to build for (TensorRT-RTX; default: all).", metavar="sm_86,sm_89"
    )
    version_compatible: bool = option(
        False, "Allow later TensorRT versions.", axis=True, trtexec="--versionCompatible"
    )
    hardware_compatible: bool = option(
        False, "Allow other GPUs (Ampere and later).", axis=True,
        trtexec="--hardwareCompatibilityLevel",
    )  # fmt: skip
    strip_weights: bool = option(
        False, "Leave weights out of the engine.", axis=True,
        trtexec="--stripWeights --stripAllWeights --weightless",
    )  # fmt: skip
    refit: bool = option(False, "Allow replacing the weights later.", axis=True, trtexec="--refit")
    plugins: Sequence[File] = option(
        (), "Plugin library.", ("--plugin",), metavar="FILE", travels="file",
        trtexec="--plugins --staticPlugins --dynamicPlugins",
    )  # fmt: skip
    dla_core: int | None = option(
        None, "Build for this deep learning accelerator.", metavar="N", axis=True,
        trtexec="--useDLACore --allowGPUFallback",
    )  # fmt: skip
    verbose: bool = option(False, "Write the builder's verbose log.", trtexec="--verbose")
    data: File | None = option(
        None, "INT8: folder of images, .npz, .npy, data.yaml, or random.", metavar="DATA",
        travels="calibration", former=("--calibration", "--inputs", "--images"),
    )  # fmt: skip
    calibration_method: Literal["entropy2", "minmax"] | None = option(
        None, "How INT8 scales are computed (default entropy2)."
    )
    calibration_cache: File | None = option(
        None, "Scales for INT8 (TensorRT 5 to 10).", metavar="FILE", travels="file",
        trtexec="--calib",
    )  # fmt: skip
    options: fields.Pairs = option(
        {}, "An option of the builder itself; repeat for several.", ("--opt",),
        trtexec="--stronglyTyped=typing=strong --sparsity=sparsity=enable "
        "--avgTiming=avg_timing=8 --tempdir=tempdir=DIR",
    )  # fmt: skip
    extra_args: tuple[str, ...] = fields.argument(
        (), "Passed on to builders that are programs: trtexec.", "EXTRA", rest=True, travels="as-is"
    )


class BuildRequest(
    RecipeFields, PythonFields, ConversionTimeoutFields, WaitFields, ExecutorFields, kw_only=False
):
    """Build an engine from an ONNX file in a fresh process."""

    model: Annotated[
        File, Argument("An ONNX file.", "MODEL", kind=FILE, travels="model", trtexec="--onnx")
    ]
    _: KW_ONLY
    output: File | None = output_path(
        None, "The engine to write.", trtexec="--saveEngine --skipInference --buildOnly"
    )
    device: str | None = option(
        None, "The GPU to build on: cuda:0, cuda:1, ...", metavar="NAME", group=fields.BUILDING
    )


def build_settings(pairs: fields.Pairs) -> dict[str, Any]:
    """Return the fields of a build from pairs such as ``workspace=4GiB``."""
    known = {each.name: each for each in fields_of(RecipeFields) if isinstance(each.about, Option)}
    found: dict[str, Any] = {}
    for key, value in pairs.items():
        name = key.replace("-", "_")
        text, field = str(value), known.get(name) or fields.former_names(RecipeFields).get(name)
        if field is None or field.name in ("settings", "options"):
            near = near_miss(key.replace("-", "_"), known, least=0.5)
            fix = f"--build {near}={text}" if near else "trtbench build --help lists them"
            raise UsageError(f"a build has no setting {key}", fix=fix)
        kind = field.about.kind
        if kind is not None and kind.read is not None:
            found[field.name] = kind.read((text,))
        else:
            found[field.name] = (text,) if field.item is not None else read_scalar(field, text)
    return found


class ExportRequest(fields.SourceFields, PythonFields, ConversionTimeoutFields, kw_only=False):
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch."""

    source: Annotated[
        File,
        Argument(
            "torchvision:NAME, timm:NAME, ultralytics:NAME, torch.hub:REPO/NAME, or a file.",
            "SOURCE",
        ),
    ]
    _: KW_ONLY
    output: File | None = output_path(None, "The ONNX file (default: NAME.onnx).")
    input_shapes: Sequence[str] = option(
        (),
        "-1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64; -1 is dynamic. Repeatable.",
        ("--input-shape",),
        metavar="[NAME:]DIMS[:TYPE]",
    )
    opset: int | None = option(None, "ONNX opset (default: the exporter's).", least=9)
    target: str | None = option(
        None, "tensorrt-8.6, tensorrt-10, tensorrt-11 or tensorrt-rtx.", ("--for",), metavar="NAME"
    )
    exporter: Literal["dynamo", "legacy"] | None = option(None, "Default: as the opset needs.")
    half: bool = option(False, "Export in FP16.")
    seed: int = option(0, "Seed of random weights and inputs.")


class QuantizeRequest(
    fields.ValueFields, PythonFields, ConversionTimeoutFields, ExecutorFields, kw_only=False
):
    """Cast or quantize an ONNX file, and compare the result with it on other inputs."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE, travels="model")]
    _: KW_ONLY
    precision: Annotated[
        Literal["fp16", "bf16", "int8", "fp8"],
        Option("fp16 and bf16 are casts; int8 and fp8 are quantized with Q/DQ nodes."),
    ]
    output: File | None = output_path(None, "Default: MODEL.PRECISION.onnx.")
    keep_io: bool = option(False, "Leave inputs and outputs in FP32 (casts).")
    data: File | None = option(
        None, "Calibrate on (casts: compare on) a folder of images, .npz, .npy, data.yaml, random.",
        metavar="DATA", travels="calibration", former=("--calibration", "--images"),
    )  # fmt: skip
    random: int | None = option(
        None, "Calibrate on N random items (256).", metavar="[N]", least=1, bare="256"
    )
    held_out: File | None = option(
        None, "Compare on this data instead of a fifth of --data.", metavar="DATA",
        travels="calibration", former=("--inputs",),
    )  # fmt: skip
    shapes: fields.Shapes = option({}, "Shape of random data for dynamic inputs.", ("--shape",))
    method: Literal["minmax", "entropy", "percentile"] = option("entropy", "Calibration method.")
    percentile: float = option(99.99, "For --method percentile.", least=50, most=100)
    items: int = option(256, "Maximum number of calibration items.", least=1)
    batch: int | None = option(None, "Items per batch (default 8).", least=1)
    seed: int = option(0, "Seed of the order and of random data.")
    per_channel: bool = option(True, "Scales of weights.", ("--per-channel/--per-tensor",))
    exclude: Sequence[str] = option(
        (), "Do not quantize this node; * and ? match several. Repeatable.", metavar="NODE"
    )
    keep: Sequence[str] = option((), "For casts: keep this node in FP32.", metavar="NODE")
    operators: Sequence[str] = option((), "Quantize only these.", ("--op",), metavar="KIND")
    via: Literal["onnxruntime", "modelopt"] | None = option(
        None, "Quantizer (default: onnxruntime for int8, modelopt for fp8)."
    )
    rest: Literal["fp32", "fp16"] = option("fp32", "Type of unquantized nodes (modelopt).")


IMAGES_TASK = "classification"


def bounds_from_range(value: Range) -> tuple[float, float]:
    """Read ``0:1`` or a pair of numbers; returns the lower and the upper bound."""
    text = value if isinstance(value, str) else f"{value[0]}:{value[1]}"
    low, _, high = text.partition(":")
    try:
        found = float(low), float(high)
    except ValueError:
        raise UsageError(f"--range {text} is not valid", fix="--range 0:1") from None
    if not -math.inf < found[0] < found[1] < math.inf:
        raise UsageError(f"--range {text} is empty or infinite", fix="--range 0:1")
    return found


RANGE = fields.Kind(
    metavar="LOW:HIGH",
    python='two numbers, or text such as "0:1"',
    check=bounds_from_range,  # type: ignore[arg-type]
)
Range = Annotated[str | tuple[float, float], RANGE]


class RunningFields(SideFields, ShapeFields, DeviceFields, OptionFields, TimeoutFields, WaitFields):
    """How models are run to get their outputs."""


class FeedFields(fields.ValueFields, group=MODEL):
    """The inputs of all sides: data, or else random items."""

    random: int = option(1000, "Number of random inputs.", least=1)
    distribution: Literal["uniform", "normal"] = option("uniform", "Of random inputs.")
    range: Range | None = option(None, "Range of random inputs (0:1; integers: 0:999).")
    seed: int = option(0, "Seed of random inputs.", least=0)
    limit: int | None = option(None, "Only the first N inputs.", least=1)


class CheckRequest(FeedFields, RunningFields, ExecutorFields, StoreFields, kw_only=False):
    """Run every side on the same inputs and compare each candidate with the reference."""

    reference: Annotated[File, Argument("The model to compare with.", "REFERENCE", travels="model")]
    candidates: Sequence[File] = fields.argument(
        (), "Models that are compared with it.", "[CANDIDATES]...", needed=False, travels="model"
    )
    _: KW_ONLY
    rtol: float = option(1e-3, "Relative tolerance; |reference| scales it.", least=0)
    atol: float = option(1e-8, "Absolute tolerance.", least=0)
    classes: bool | None = option(None, "Treat outputs as class scores (default: by their shape).")
    floor: Literal["auto", "on", "off"] = option("auto", "Run the reference twice, against itself.")
    expect: Sequence[str] = option(
        (), "Status 3 if not met: 'max_abs<=0.1'.", metavar="CONDITION", stays="checked here"
    )
    output: File | None = output_path(None, "Folder of tables and worst inputs; else the store.")


class EvalRequest(
    fields.DataFields, RunningFields, PrecisionFields, ExecutorFields, StoreFields, kw_only=False
):
    """Evaluate models on labelled data, each through its own runtime."""

    models: Annotated[Sequence[File], Argument("Files to evaluate.", "MODELS...", travels="model")]
    _: KW_ONLY
    names: Literal["file", "vanilla"] = option(
        "file", "Label models by file name, or as Vanilla and TRT fp16, like ArtTRT."
    )
    output: File | None = output_path(None, "Folder of tables and pictures; else the store.")
    data: Annotated[
        File,
        Option(
            "Labelled: folder of images, .npz, data.yaml.", metavar="DATA", travels="data",
            former=("--inputs", "--images"),
        ),
    ]  # fmt: skip
    limit: int | None = option(None, "Only the first N items.", least=1)
    warmup: Fraction = option("10%", "Share of batches at the start to leave out of the times.")


class LocalizeRequest(
    FeedFields, ShapeFields, TimeoutFields, WaitFields, StoreFields, kw_only=False
):
    """Find the layers that cost a low-precision model its accuracy, and the fewest to keep."""

    reference: Annotated[File, Argument("The model in full precision, as ONNX.", "REFERENCE")]
    candidate: Annotated[File, Argument("The same in low precision, as ONNX.", "CANDIDATE")]
    _: KW_ONLY
    random: int = option(64, "Number of random inputs if there is no data.", least=1)
    limit: int | None = option(256, "At most N inputs (images: a random choice).", least=1)
    repair: bool = option(False, "Keep the fewest layers in full precision that meet --where.")
    where: str | None = option(
        None,
        "What a repair must meet: 'top1>=baseline-0.5', 'sqnr>=30dB' (default: 0.5 % of "
        "the metric, or the usual SQNR of the type).",
        metavar="CONDITION",
    )
    max_time: Duration = option("3min", "Time limit; large networks are ranked on fewer items.")
    output: File | None = output_path(None, "Folder of tables and repaired model; else the store.")

    def validate(self) -> None:
        if self.where and not self.repair:
            raise UsageError("--where needs --repair", fix="--repair")
        if fields.seconds(self.max_time) <= 0:
            raise UsageError("--max-time must be longer than 0 s", fix="--max-time 5min")
