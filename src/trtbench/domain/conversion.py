"""Conversions: what exporting, casting and quantizing are asked for, and what they leave behind."""

from __future__ import annotations

from typing import Literal

from trtbench.domain.result import Scalar
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import ModelRef, Precision, TensorSpec, Value

Exporter = Literal["dynamo", "legacy"]
Quantizer = Literal["cast", "onnxruntime", "modelopt"]
CalibrationMethod = Literal["minmax", "entropy", "percentile"]


class InputShape(Value, frozen=True, kw_only=True):
    """One input to export with."""

    name: str | None
    """``None`` lets the exporter name it."""
    shape: tuple[int, ...]
    """-1 is a dimension that may change."""
    dtype: str | None = None
    """numpy's name; ``None`` is the model's own floating-point type."""


class ExportSpec(Value, frozen=True, kw_only=True):
    """One ONNX file to be made from a PyTorch model."""

    source: str
    """``torchvision:resnet18``, ``timm:...``, ``ultralytics:...`` or the path of a checkpoint."""
    output: str
    """A file in the folder of the job."""
    weights: str = "default"
    """``default``, ``none`` (random values), or the path of a state dict."""
    inputs: tuple[InputShape, ...] = ()
    opset: int | None = None
    exporter: Exporter = "dynamo"
    half: bool = False
    trust: bool = False
    """Whether a pickle, which can run any code, may be loaded."""
    factory: str | None = None
    """``package.module:function`` that makes the module a state dict belongs to."""
    folder: str | None = None
    """Where to look for the user's own modules, after everything that is installed."""
    seed: int = 0


class ExportOutcome(Value, frozen=True, kw_only=True):
    """What an export leaves beside the model: ``outcome.json``."""

    exporter: Exporter
    kind: str
    """What the source was: ``torchvision``, ``state dict``, ``TorchScript``, ..."""
    versions: dict[str, str]
    source_sha256: str | None = None
    parameters: int | None = None
    notes: tuple[str, ...] = ()


class CalibrationRef(Value, frozen=True, kw_only=True):
    """The data a quantization was calibrated with."""

    source: str
    """``random``, or where the data came from."""
    kind: Literal["images", "arrays", "random"]
    items: int
    batch: int
    sha256: str
    """Of the arrays as they were fed: names, types, shapes and values."""
    seed: int = 0
    preprocessing: dict[str, Scalar] = {}
    file: str | None = None
    """The arrays, batch by batch, in the folder of the job."""

    @property
    def batches(self) -> int:
        return -(-self.items // self.batch)


class QuantSpec(Value, frozen=True, kw_only=True):
    """One ONNX file to be made from another one with other types."""

    model: ModelRef
    output: str
    """A file in the folder of the job."""
    precision: Precision
    via: Quantizer = "cast"
    keep_io: bool = False
    keep: tuple[str, ...] = ()
    """Nodes that stay as they are."""
    operators: tuple[str, ...] = ()
    """Kinds of nodes to quantize; empty leaves it to the quantizer's own choice."""
    calibration: CalibrationRef | None = None
    method: CalibrationMethod = "entropy"
    percentile: float = 99.99
    per_channel: bool = True
    rest: Literal["fp32", "fp16"] = "fp32"
    """Type of what is not quantized (ModelOpt)."""


class QuantOutcome(Value, frozen=True, kw_only=True):
    """What a cast or a quantization leaves beside the model: ``outcome.json``."""

    versions: dict[str, str]
    changed: dict[str, int] = {}
    """Nodes that were cast or quantized, by kind."""
    kept: dict[str, str] = {}
    """Nodes that were left alone, and why."""
    facts: dict[str, Scalar] = {}
    notes: tuple[str, ...] = ()
    stand_in: str | None = None
    """A file in the folder of the job that computes as the result would, for runtimes that
    cannot run the result itself."""


class VerifySpec(Value, frozen=True, kw_only=True):
    """A model to be run on ONNX Runtime and compared with a reference."""

    model: str
    reference: str
    """Another ``.onnx``, or the ``.npz`` of the outputs it should have."""
    inputs: str
    """An ``.npz`` with arrays by input name, of any number of items when the batch is open."""
    rtol: float
    atol: float


class TensorDiff(Value, frozen=True, kw_only=True):
    """How far one output tensor is from its reference; what cannot be told is ``None``."""

    name: str
    elements: int
    nonfinite: int
    """Values that are not finite where the reference is."""
    close: float | None
    """Share of elements with \\|t - r\\| <= atol + rtol \\|r\\|; the reference scales."""
    rtol: float
    atol: float
    max_abs: float | None
    max_at: tuple[int, ...] | None
    p99_abs: float | None
    mean_abs: float | None
    rel_l2: float | None
    """Norm of the difference over the norm of the reference."""
    sqnr_db: float | None
    """-20 log10 of ``rel_l2``; ``None`` when there is no difference at all."""
    cosine: float | None
    bias: float | None
    """Mean difference over the root mean square of the reference."""
    note: str | None = None


class VerifyOutcome(Value, frozen=True, kw_only=True):
    """What running a model told: ``outcome.json``."""

    diffs: tuple[TensorDiff, ...] = ()
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    problem: str | None = None
    """Why it could not be run; the model itself is well-formed."""
    versions: dict[str, str] = {}


class Sidecar(ShortView, Value, frozen=True, kw_only=True):
    """What is kept beside a converted model: how it was made, and how far it is from its source."""

    made_by: str
    step: Literal["export", "cast", "quantize"]
    file: str
    sha256: str
    created: str
    source: str
    source_sha256: str | None
    precision: str | None = None
    method: str | None = None
    exporter: str | None = None
    opset: int | None = None
    calibration: CalibrationRef | None = None
    kept: dict[str, str] = {}
    changed: dict[str, int] = {}
    facts: dict[str, Scalar] = {}
    seconds: float | None = None
    versions: dict[str, str] = {}
    difference: tuple[TensorDiff, ...] = ()
    compared_on: str | None = None
    """What the difference was taken on; random inputs are no evidence of accuracy."""
    unverified: str | None = None
    """Why there is no difference."""
    command: str | None = None
    recipe: tuple[str, ...] = ()
    """Flags of ``trtbench quantize`` that make it again, but for the nodes it left alone."""
    notes: tuple[str, ...] = ()
