"""Specs and results of verbs: comparisons, conversions, checks, localizations, engines."""

import reprlib
from dataclasses import dataclass
from typing import Any, Literal

from trtbench.core.metrics import metric
from trtbench.core.run import Fact, Finding, Gpu, Interval, Run, Scalar, notebook_page
from trtbench.core.safety import clean_line
from trtbench.core.spec import BuildSpec, ModelRef, Precision, RunSpec, TensorSpec, Value
from trtbench.core.units import text_from_fraction

WIDTH = 78
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = WIDTH
_SHORT.maxlevel = 2


class ShortView:
    """A repr with a line for each field, cut to the width of a terminal."""

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
apart     each on its own, at different times
builds    several fresh builds of each; the statistics are over builds
"""


class Verdict(Value, frozen=True, kw_only=True):
    """The result of comparing one metric of a candidate with a baseline."""

    metric: str
    kind: VerdictKind
    ratio: float | None = None  # candidate over baseline, of times or, for throughput, of rates
    interval: Interval | None = None
    reason: str
    launches: int = 0
    launches_needed: int | None = None  # in total; `None` when more would not help
    p: float | None = None
    design: Design = "duet"
    across_devices: str | None = None  # the two devices, if they differ
    clock_ratio: float | None = None  # SM clock, candidate over baseline, for GPU time

    @property
    def change(self) -> str:
        """The ratio as a change: ``+3.1 %``; empty without one."""
        return "" if self.ratio is None else text_from_fraction(self.ratio - 1, signed=True)

    @property
    def range(self) -> str:
        """The interval of the change as text; empty without one."""
        if (found := self.interval) is None:
            return ""
        low, high = (text_from_fraction(each - 1, signed=True) for each in (found.low, found.high))
        return f"{found.words}: {low} to {high}"


class Comparison(Value, frozen=True, kw_only=True):
    """A candidate compared with a baseline: a verdict per metric, with its evidence."""

    baseline: str
    candidate: str
    design: Design
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    detectable: float | None = None  # smallest effect found in 80 % of comparisons like this one
    effects: tuple[float, ...] = ()  # median ln(candidate / baseline) per launch, first metric
    alone: Verdict | None = None  # first metric, by times without interleaving

    def verdict(self, metric: str) -> Verdict:
        """Return the verdict on one metric; ``KeyError`` if it was not compared."""
        return {each.metric: each for each in reversed(self.verdicts)}[metric]

    def __repr__(self) -> str:
        """One line: which runs, and the verdict on each metric."""
        found = ", ".join(f"{each.metric} {each.kind} {each.change}" for each in self.verdicts)
        names = f"{self.candidate} with {self.baseline}"
        return clean_line(f"<Comparison of {names}: {found or 'no verdict'}>")

    def _repr_html_(self) -> str:
        rows = [("Metric", "Verdict", "Change", "Interval")]
        rows += [(each.metric, each.kind, each.change, each.range) for each in self.verdicts]
        return notebook_page(f"{self.candidate} against {self.baseline}", rows, self.findings)


class GateRule(Value, frozen=True, kw_only=True):
    text: str
    metric: str
    statistic: str = "median"
    relation: Literal["<", "<=", ">", ">=", "slowdown", "expect"]
    limit: float  # seconds, per second or a fraction, as the metric has it


class GateResult(Value, frozen=True, kw_only=True):
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
    name: str | None
    shape: tuple[int, ...]
    dtype: str | None = None


class ExportSpec(Value, frozen=True, kw_only=True):
    source: str
    output: str
    weights: str = "default"
    inputs: tuple[InputShape, ...] = ()
    opset: int | None = None
    exporter: Exporter = "dynamo"
    half: bool = False
    trust: bool = False
    factory: str | None = None
    folder: str | None = None  # searched for the user's modules, after installed packages
    seed: int = 0


class ExportOutcome(Value, frozen=True, kw_only=True):
    """What an export writes besides the model: ``outcome.json``."""

    exporter: Exporter
    kind: str
    versions: dict[str, str]
    source_sha256: str | None = None
    parameters: int | None = None
    notes: tuple[str, ...] = ()


class CalibrationRef(Value, frozen=True, kw_only=True):
    source: str
    kind: Literal["images", "arrays", "random"]
    items: int
    batch: int
    sha256: str  # of the arrays as they were fed: names, types, shapes and values
    seed: int = 0
    preprocessing: dict[str, Scalar] = {}
    file: str | None = None

    @property
    def batches(self) -> int:
        return -(-self.items // self.batch)


class QuantSpec(Value, frozen=True, kw_only=True):
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
    """What a cast or a quantization writes besides the model: ``outcome.json``."""

    versions: dict[str, str]
    changed: dict[str, int] = {}
    kept: dict[str, str] = {}
    facts: dict[str, Scalar] = {}
    notes: tuple[str, ...] = ()
    stand_in: str | None = None  # an equivalent file for runtimes that cannot run the model


class VerifySpec(Value, frozen=True, kw_only=True):
    model: str
    reference: str  # another `.onnx`, or the `.npz` of the outputs it should have
    inputs: str  # an `.npz` with arrays by input name, of any number of items
    rtol: float
    atol: float


class TensorDiff(Value, frozen=True, kw_only=True):
    """The difference of one output tensor from its reference; undefined values are ``None``."""

    name: str
    elements: int
    nonfinite: int
    close: float | None  # share of elements with |t - r| <= atol + rtol |r|
    rtol: float
    atol: float
    max_abs: float | None
    max_at: tuple[int, ...] | None
    mean_abs: float | None
    rel_l2: float | None  # norm of the difference over the norm of the reference
    sqnr_db: float | None  # -20 log10 of `rel_l2`; `None` when there is no difference at all
    cosine: float | None
    bias: float | None  # mean difference over the root mean square of the reference
    note: str | None = None


class VerifyOutcome(Value, frozen=True, kw_only=True):
    diffs: tuple[TensorDiff, ...] = ()
    problem: str | None = None
    versions: dict[str, str] = {}


class Sidecar(ShortView, Value, frozen=True, kw_only=True):
    """The record next to a converted model: how it was made, and its difference from the source."""

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
    compared_on: str | None = None  # random inputs are no evidence of accuracy
    unverified: str | None = None
    command: str | None = None
    recipe: tuple[str, ...] = ()  # flags of `trtbench quantize` that reproduce it
    notes: tuple[str, ...] = ()


LoadedItem = Any  # what `load` of a source passes to its `prepare`: only the source knows the type


class Feed(Value, frozen=True, kw_only=True):
    """Where the inputs of a pass come from; every side of a comparison gets the same."""

    kind: Literal["random", "arrays", "task"]
    count: int | None = None
    seed: int = 0
    distribution: Literal["uniform", "normal"] = "uniform"  # 0 to 1, or standard normal
    bounds: tuple[float, float] | None = None  # of random values
    limits: dict[str, int] = {}  # by input: upper bounds of random integers
    names: tuple[str, ...] = ()
    task: str | None = None
    settings: dict[str, Scalar] = {}
    open_batch: int | None = None  # for models with a dynamic batch, if none was requested


class Unreadable(Value, frozen=True, kw_only=True):
    place: int
    name: str
    reason: str


class InferOutcome(Value, frozen=True, kw_only=True):
    """What a pass over all items writes besides its outputs: ``outcome.json``."""

    items: int
    unreadable: tuple[Unreadable, ...] = ()
    batch: int
    load_s: float
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    inputs_sha256: str  # of all items in order, before conversion to the type of the input
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    versions: dict[str, str] = {}
    python: str | None = None
    notes: tuple[str, ...] = ()


Numbers = dict[str, float | None]  # by name; `sqnr_db` is `None` for equal outputs


class LocalizeSpec(Value, frozen=True, kw_only=True):
    """Two ONNX files, the data to compare them on, and the condition for a repair."""

    reference: str
    candidate: str
    run: RunSpec  # how the reference is run: shapes, batch, source of arrays
    feed: Feed  # labelled items of a task are scored by its metrics, others by the outputs
    repair: str | None = None  # path of the repaired file; `None`: no repair
    where: str | None = None  # condition for the repaired model; `None`: the default one
    max_time_s: float = 180.0
    memory_bytes: int = 2**28  # of intermediate tensors and prepared items to hold at a time


class NodeGroup(Value, frozen=True, kw_only=True):
    """Nodes that are restored to full precision together, and the gain in accuracy."""

    node: str
    op: str
    nodes: tuple[str, ...]
    named: tuple[str, ...]  # those to exclude by name in a quantizer; the others follow
    position: int
    type: str
    rel_l2: float | None = None  # at its outputs: norm of the difference over norm of the reference
    added: float | None = None  # the part this group adds: sqrt(outputs² - inputs²)
    nonfinite: int = 0
    first_nonfinite: bool = False
    largest: float = 0.0  # the largest finite magnitude of its outputs, in the reference
    restored: Numbers = {}  # with this group alone restored; empty where time was short
    gain: float | None = None
    sqnr_gain_db: float | None = None


class Localized(Value, frozen=True, kw_only=True):
    """The result of a search for the layers that lose accuracy: ``outcome.json``."""

    metric: str  # what groups are ranked by: `top1`, or `sqnr_db` of the outputs
    held_out: int = 0  # items that the search did not see; models are compared on them
    groups: tuple[NodeGroup, ...]
    reference: Numbers
    candidate: Numbers
    all_restored: Numbers  # with every group restored that could be matched
    items: int
    where: str | None = None
    repaired: Numbers = {}  # without a repair: with the first group restored
    kept: tuple[str, ...] = ()
    met: bool | None = None
    overfit: bool = False  # a repair met the condition on searched items, not on held-out ones
    minimal: bool = False  # no single one of the kept groups can be left out
    trials: int = 0
    one_by_one: bool = True  # every group was restored by itself
    seconds: float = 0.0
    in_time: bool = True
    interrupted: bool = False  # by Ctrl-C: the best answer until then
    misfit: str | None = None  # how the range of a quantized input differs from the items
    nothing_left: bool = False  # only a model without any low type meets the condition
    stand_in: bool = False  # FP16 or BF16 was emulated: computed in FP32 and rounded
    unmatched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gains(self) -> bool:
        """Whether accuracy is regained: 0.05 dB by the first group, or beyond both intervals."""
        ends = [self.candidate, self.repaired][:: -1 if metric(self.metric).less_is_better else 1]
        high, low = ends[0].get(f"{self.metric}_high"), ends[1].get(f"{self.metric}_low")
        if high is not None and low is not None:
            return low > high
        gain = self.groups[0].gain
        least = 0.05 if self.metric == "sqnr_db" else 1e-9
        return bool(self.groups[0].restored) if gain is None else gain >= least


class Localization(ShortView, Value, frozen=True, kw_only=True):
    reference: str
    candidate: str
    inputs: str
    found: Localized
    repaired: str | None = None
    commands: dict[str, str] = {}
    files: tuple[str, ...] = ()


class Artefact(ShortView, Value, frozen=True, kw_only=True):
    """The record of one engine: its source and how it was built."""

    schema: int = 1
    path: str
    filename: str
    size_bytes: int
    sha256: str
    created: str
    spec: BuildSpec
    tensorrt: str | None = None
    plan: str | None = None  # version in the header of the engine itself
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


@dataclass(frozen=True, kw_only=True)
class Compared:
    baseline: Run
    candidate: Run
    comparison: Comparison
    mode: str = "stored runs"
    interference: tuple[float, float] | None = None  # slowdown of each side by interleaving


@dataclass(frozen=True, kw_only=True, repr=False)
class Gate(ShortView):
    name: str
    results: tuple[GateResult, ...]
    open: bool
    candidate: Run | None
    compared: Compared | None = None
    seconds: float = 0.0
    closed_by: tuple[str, ...] = ()  # the rules that failed, each with a flag that may help


class Failed(Value, frozen=True, kw_only=True):
    model: str
    reason: str
    facts: dict[str, str] = {}
