"""Results of verbs: comparisons, conversions, checks, localizations, engines."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trtbench.core.run import Fact, Finding, Gpu, Interval, Run, Scalar, notebook_page
from trtbench.core.safety import clean_line
from trtbench.core.spec import BuildSpec, ModelRef, Precision, RunSpec, TensorSpec, Value
from trtbench.core.units import text_from_fraction

if TYPE_CHECKING:
    pass

WIDTH = 78
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = WIDTH
_SHORT.maxlevel = 2


class ShortView:
    """Shows a value by its fields, a line for each, cut to the width of a terminal."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = getattr(self, "__struct_fields__", None) or vars(self)
        known = {name: _SHORT.repr(getattr(self, name)) for name in names}
        rows = [f"  {k}={v}" for k, v in known.items() if v not in ("None", "()", "[]", "{}")]
        return "\n".join([f"{type(self).__name__}(", *(row[:WIDTH] for row in rows), ")"])


VerdictKind = Literal["same", "faster", "slower", "unclear", "incomparable"]

Design = Literal["duet", "bursts", "launches", "apart", "builds"]
"""How two sides were measured.

duet      alternated iteration by iteration within a launch
bursts    two processes at once: bursts in turn for GPU time, series of queries in turn for the rest
launches  fresh processes of the two in turn (ABBA)
apart     each on its own, at another time
builds    several engines of each, built afresh; the build is the unit
"""


class Verdict(Value, frozen=True, kw_only=True):
    """What can be said about one metric of a candidate against a baseline."""

    metric: str
    kind: VerdictKind
    ratio: float | None
    """Candidate over baseline, of times or, for throughput, of rates."""
    interval: Interval | None
    reason: str
    launches: int
    launches_needed: int | None = None
    """In all, before the verdict could become clear; ``None`` when more would not help."""
    p: float | None = None
    design: Design = "duet"
    across_devices: str | None = None
    """The two devices, where a ratio is between them: it says nothing about a change."""
    clock_ratio: float | None = None
    """SM clock of the candidate over the baseline's while they were measured, of GPU time."""

    @property
    def change(self) -> str:
        """The ratio in words: ``+3.1 %``; nothing without one."""
        return "" if self.ratio is None else text_from_fraction(self.ratio - 1, signed=True)

    @property
    def range(self) -> str:
        """The interval of the change in words; nothing without one."""
        if (held := self.interval) is None:
            return ""
        low, high = (text_from_fraction(each - 1, signed=True) for each in (held.low, held.high))
        return f"{100 * held.level:g} %: {low} to {high}"


class Comparison(Value, frozen=True, kw_only=True):
    """A candidate against a baseline: a verdict per metric and what they rest on."""

    baseline: str
    candidate: str
    design: Design
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    detectable: float | None = None
    """Smallest effect found in 80 % of comparisons like this one."""
    effects: tuple[float, ...] = ()
    """Per launch, median ln(candidate / baseline) of the first metric."""
    alone: Verdict | None = None
    """Of the first metric by the times alone, where sides that took turns also ran alone."""

    def verdict(self, metric: str) -> Verdict:
        """The verdict on one metric; ``KeyError`` for one that was not judged."""
        for each in self.verdicts:
            if each.metric == metric:
                return each
        raise KeyError(metric)

    def __repr__(self) -> str:
        """One line: which runs, and the verdict on each metric."""
        verdicts = ", ".join(f"{each.metric} {each.kind} {each.change}" for each in self.verdicts)
        line = f"<Comparison of {self.candidate} with {self.baseline}: {verdicts or 'no verdict'}>"
        return clean_line(line)

    def _repr_html_(self) -> str:
        rows = [(each.metric, each.kind, each.change, each.range) for each in self.verdicts]
        title = f"{self.candidate} against {self.baseline}"
        head = ("Metric", "Verdict", "Change", "Interval")
        return notebook_page(title, [head, *rows], self.findings)


class GateRule(Value, frozen=True, kw_only=True):
    """One condition a candidate must meet."""

    text: str
    metric: str
    statistic: str = "median"
    relation: Literal["<", "<=", ">", ">=", "slowdown", "expect"]
    """``expect`` is for expressions over layers, which stand in ``text``."""
    limit: float
    """Seconds, per second or a fraction, as the metric has it."""


class GateResult(Value, frozen=True, kw_only=True):
    """Whether one rule holds."""

    rule: GateRule
    outcome: Literal["pass", "fail", "unclear"]
    message: str
    value: float | None = None
    interval: Interval | None = None
    launches_needed: int | None = None


Exporter = Literal["dynamo", "legacy"]
Quantizer = Literal["cast", "onnxruntime", "modelopt"]
CalibrationMethod = Literal["minmax", "entropy", "percentile"]


class InputShape(Value, frozen=True, kw_only=True):
    """One input to export with."""

    name: str | None
    shape: tuple[int, ...]
    dtype: str | None = None


class ExportSpec(Value, frozen=True, kw_only=True):
    """One ONNX file to be made from a PyTorch model."""

    source: str
    output: str
    weights: str = "default"
    inputs: tuple[InputShape, ...] = ()
    opset: int | None = None
    exporter: Exporter = "dynamo"
    half: bool = False
    trust: bool = False
    factory: str | None = None
    folder: str | None = None
    """Where to look for the user's own modules, after everything that is installed."""
    seed: int = 0


class ExportOutcome(Value, frozen=True, kw_only=True):
    """What an export leaves beside the model: ``outcome.json``."""

    exporter: Exporter
    kind: str
    versions: dict[str, str]
    source_sha256: str | None = None
    parameters: int | None = None
    notes: tuple[str, ...] = ()


class CalibrationRef(Value, frozen=True, kw_only=True):
    """The data a quantization was calibrated with."""

    source: str
    kind: Literal["images", "arrays", "random"]
    items: int
    batch: int
    sha256: str
    """Of the arrays as they were fed: names, types, shapes and values."""
    seed: int = 0
    preprocessing: dict[str, Scalar] = {}
    file: str | None = None

    @property
    def batches(self) -> int:
        return -(-self.items // self.batch)


class QuantSpec(Value, frozen=True, kw_only=True):
    """One ONNX file to be made from another one with other types."""

    model: ModelRef
    output: str
    precision: Precision
    via: Quantizer = "cast"
    keep_io: bool = False
    keep: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    calibration: CalibrationRef | None = None
    method: CalibrationMethod = "entropy"
    percentile: float = 99.99
    per_channel: bool = True
    rest: Literal["fp32", "fp16"] = "fp32"


class QuantOutcome(Value, frozen=True, kw_only=True):
    """What a cast or a quantization leaves beside the model: ``outcome.json``."""

    versions: dict[str, str]
    changed: dict[str, int] = {}
    kept: dict[str, str] = {}
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
    """How far one output tensor is from its reference; what is undefined is ``None``."""

    name: str
    elements: int
    nonfinite: int
    close: float | None
    """Share of elements with \\|t - r\\| <= atol + rtol \\|r\\|; the reference scales."""
    rtol: float
    atol: float
    max_abs: float | None
    max_at: tuple[int, ...] | None
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
    """The result of running a model: ``outcome.json``."""

    diffs: tuple[TensorDiff, ...] = ()
    problem: str | None = None
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
    command: str | None = None
    recipe: tuple[str, ...] = ()
    """Flags of ``trtbench quantize`` that make it again, but for the nodes it left alone."""
    notes: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return self.file


Distribution = Literal["uniform", "normal"]

LoadedItem = Any
"""An item between a source's ``load`` and ``prepare``: the source alone knows its type."""


class Feed(Value, frozen=True, kw_only=True):
    """Where the items of a pass come from; every side of a comparison gets the same."""

    kind: Literal["random", "arrays", "task"]
    count: int | None = None
    seed: int = 0
    distribution: Distribution = "uniform"
    """Of random floating-point values: uniform from 0 to 1, or normal with deviation 1."""
    ranges: dict[str, tuple[float, float]] = {}
    """By input, the empty name for all others: where uniform values lie; normal ones are around
    the middle, with a sixth of the range as deviation."""
    limits: dict[str, int] = {}
    """By input: numbers that random integers stay below, as a side reports that looks rows up."""
    names: tuple[str, ...] = ()
    task: str | None = None
    settings: dict[str, Scalar] = {}
    open_batch: int | None = None
    """Batch for models that leave theirs open, where none was asked for."""


class Unreadable(Value, frozen=True, kw_only=True):
    """An item that could not be read, and was left out of a pass."""

    place: int
    name: str
    reason: str


class InferOutcome(Value, frozen=True, kw_only=True):
    """What a pass over all items left beside its chunks of outputs: ``outcome.json``."""

    items: int
    unreadable: tuple[Unreadable, ...] = ()
    batch: int
    load_s: float
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    inputs_sha256: str
    """Of all items as they were before they took the type of the input, in order."""
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    versions: dict[str, str] = {}
    python: str | None = None
    notes: tuple[str, ...] = ()


Numbers = dict[str, float | None]
"""By name, as conditions know them; of equal outputs ``rel_l2`` is 0 and ``sqnr_db`` ``None``."""


class LocalizeSpec(Value, frozen=True, kw_only=True):
    """Two ONNX files, the data they are judged on, and what a repair has to meet."""

    reference: str
    candidate: str
    run: RunSpec
    """The reference as it is fed: shapes, batch, where arrays come from."""
    feed: Feed
    """Items of a task with answers are judged by its metrics, others by the outputs."""
    repair: str | None = None
    """Where the repaired file goes, in the folder of the job; ``None`` looks for no repair."""
    where: str | None = None
    """What a repaired model has to meet; ``None`` is what usual models meet."""
    max_time_s: float = 300.0
    memory_bytes: int = 2**28
    """Of intermediate tensors and prepared items to hold at a time."""


class TypeRange(Value, frozen=True, kw_only=True):
    """What a low type made of one tensor."""

    tensor: str
    what: str
    """``input``, ``weights`` or ``output`` of the node."""
    node: str
    type: str
    limit: float
    """The largest magnitude the type holds there: 65504, or scale times 127."""
    largest: float
    beyond: float
    """Share of values beyond the limit: infinite in FP16, clipped in INT8 and FP8."""
    zeroed: float = 0.0
    """Share of values other than zero that became zero."""


class NodeGroup(Value, frozen=True, kw_only=True):
    """Nodes that are restored together, and what that gains."""

    node: str
    op: str
    nodes: tuple[str, ...]
    named: tuple[str, ...]
    """Those to name to a quantizer; the others follow them."""
    position: int
    type: str
    rel_l2: float | None = None
    """At the boundary behind it: norm of the difference over norm of the reference."""
    added: float | None = None
    """Its own part of that: sqrt(own² - before²)."""
    nonfinite: int = 0
    first_nonfinite: bool = False
    ranges: tuple[TypeRange, ...] = ()
    restored: Numbers = {}
    """Numbers of the model with this group alone restored; empty where time was short."""
    gain: float | None = None
    sqnr_gain_db: float | None = None


class Localized(Value, frozen=True, kw_only=True):
    """What a search for the cause found: ``outcome.json``."""

    metric: str
    """What groups are ranked by: ``top1``, or ``sqnr_db`` of the outputs."""
    groups: tuple[NodeGroup, ...]
    reference: Numbers
    candidate: Numbers
    all_restored: Numbers
    """With every group restored that could be matched."""
    items: int
    where: str | None = None
    repaired: Numbers = {}
    kept: tuple[str, ...] = ()
    met: bool | None = None
    minimal: bool = False
    """No single one of the kept groups can be left out."""
    trials: int = 0
    one_by_one: bool = True
    """Each group was restored by itself; else the ones that mattered were found by bisection."""
    seconds: float = 0.0
    in_time: bool = True
    stand_in: bool = False
    """Whether FP16 or BF16 was computed in FP32 and rounded, in place of the file itself."""
    unmatched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Localization(ShortView, Value, frozen=True, kw_only=True):
    """What was found, the repaired model, and how to make it again."""

    reference: str
    candidate: str
    inputs: str
    found: Localized
    repaired: str | None = None
    commands: dict[str, str] = {}
    files: tuple[str, ...] = ()


SCHEMA = 1


class Artefact(ShortView, Value, frozen=True, kw_only=True):
    """One engine, where it came from and how it was made."""

    schema: int = SCHEMA
    path: str
    filename: str
    size_bytes: int
    sha256: str
    created: str
    spec: BuildSpec
    tensorrt: str | None = None
    plan: str | None = None
    """Version in the header of the engine itself."""
    command: str | None = None
    build_s: float | None = None
    wall_s: float | None = None
    gpus: tuple[Gpu, ...] = ()
    host: str | None = None
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def file_name(self) -> str:
        return self.filename


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison with the runs it rests on."""

    baseline: Run
    candidate: Run
    comparison: Comparison
    mode: str = "stored runs"
    interference: tuple[float, float] | None = None
    """How much slower each side was in turns than alone."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Gate(ShortView):
    """A candidate with the outcome of every rule."""

    name: str
    results: tuple[GateResult, ...]
    open: bool
    candidate: Run | None
    compared: Compared | None = None
    seconds: float = 0.0
    closed_by: tuple[str, ...] = ()
    """The rules that closed it, each with the flag that helps."""


class Failed(Value, frozen=True, kw_only=True):
    """A model that could not be run, while others could."""

    model: str
    reason: str
    facts: dict[str, str] = {}
