"""The table of an engine's layers: names, groups, types, and the graph they form."""

import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

import numpy as np

from trtbench.core.errors import UsageError, refuse_unknown
from trtbench.core.run import Run, gpu_of, precision_of
from trtbench.core.spec import Value
from trtbench.core.units import shortened

Role = Literal["compute", "reformat", "cast", "quantize", "copy", "constant", "nothing"]
"""``reformat`` changes the layout of a tensor, ``cast`` its floating-point type, ``quantize`` to or
from INT8, FP8, INT4 or FP4; DLA has copies; ``nothing`` runs no kernel (NoOp, shape calls)."""

CONVERSIONS: tuple[Role, ...] = ("reformat", "cast", "quantize", "copy")
"""Roles that compute nothing: they only change the layout or type of tensors."""

BUSY = 0.97  # share of the time; from here on the GPU computes all the time and waits for nothing
QUANTIZED = ("int8", "fp8", "int4", "fp4", "uint8")  # types that need a quantized network

Basis = Literal["tactic", "weights", "inputs", "outputs"]  # source of a type, most reliable first

Bound = Literal["compute", "memory"]


class Layer(Value, frozen=True, kw_only=True):
    """One layer; unknown fields are ``None`` or empty."""

    index: int
    name: str
    kind: str | None = None  # the inspector's type: ``Convolution``, ``gemm``
    role: Role = "compute"
    precision: str | None = None  # that it computes in; the output may have another
    precision_basis: Basis | None = None
    precision_in: str | None = None
    precision_out: str | None = None
    shape_in: str | None = None
    shape_out: str | None = None
    time_s: float | None = None  # average per inference; ``None`` where the layer was not timed
    median_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None
    share: float | None = None
    tactic: str | None = None
    stream: int | None = None
    weights: int | None = None
    weight_bytes: int | None = None
    kernel: str | None = None  # of a convolution or pooling: ``3x3``, as its stride
    stride: str | None = None
    groups: int | None = None
    m: int | None = None  # sizes of a product or convolution: M by K times K by N
    n: int | None = None
    k: int | None = None
    format_in: str | None = None  # layout, as in options of trtexec: ``chw32``, ``hwc8``
    format_out: str | None = None
    origin: str | None = None  # why there is a reformat: REFORMAT, QDQ, CAST
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()  # ``Conv``, ``MatMul``: from the model or from names
    asked: str | None = None  # type that the model requests by Q/DQ or typed nodes
    flops: int | None = None
    traffic_bytes: int | None = None  # estimate: every tensor is moved once
    dram_bytes: float | None = None  # measured by hardware counters, as is the next
    sm_active: float | None = None
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    energy_j: float | None = None  # estimate: its share of the time, of the energy above idle
    roofline: float | None = None  # achieved share of the GPU's roofline, 0 to 1
    bound: Bound | None = None
    region: str | None = None  # Myelin's region, where the layer is one kernel of it
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The median time of the layer, else the average; 0 if it was not timed."""
        return (self.time_s if self.median_s is None else self.median_s) or 0.0

    @property
    def converts(self) -> bool:
        return self.role in CONVERSIONS

    @property
    def word(self) -> str:
        """The kind in one spelling: ``matrixmultiply``."""
        return word_of_kind(self.kind)


def word_of_kind(kind: str | None) -> str:
    """Return ``matrixmultiply`` for ``MatrixMultiply`` and for RTX's ``MATRIX_MULTIPLY``."""
    return (kind or "").lower().replace("_", "")


class LayerTable(Value, frozen=True, kw_only=True):
    """The layers of one engine in the order of execution."""

    layers: tuple[Layer, ...]
    count: int | None = None  # number of inferences that the times are averaged over
    timed: bool = False
    detailed: bool = False
    gpu: str | None = None
    lacks: str = ""  # what is unknown without detailed layer information, and how to get it
    notes: tuple[str, ...] = ()

    @property
    def total_s(self) -> float | None:
        """Sum of all layer times; ``None`` if nothing was timed."""
        return total_s(self.layers) if self.timed else None

    @property
    def statistic(self) -> str:
        """What the times of layers are: ``median``, or ``average`` where no median is known."""
        return "median" if any(x.median_s is not None for x in self.layers) else "average"


def total_s(layers: Iterable[Layer]) -> float:
    """Return the sum of the layer times; layers that were not timed count as 0."""
    return math.fsum(layer.seconds for layer in layers)


_REFORMAT = re.compile(r"Reformatting CopyNode for (Input|Output) Tensor (\d+) to (.+)", re.DOTALL)
_DLA = re.compile(r"^\{(?P<nodes>[^{}]*)\}$", re.DOTALL)
_WRAPPED = re.compile(r"^(?:PWN|PointWise|fusedPointwise)\((?P<inner>.*)\)$", re.DOTALL)
_TORCH = re.compile(r"^\[[A-Z_0-9]+\]-\[(?P<op>[^\]]*)\]-\[(?P<node>[^\]]*)\]")
_CONSTANT = re.compile(r"(?:^|\.)(?:weight|bias|running_mean|running_var)$|^onnx::|_clone_\d+$")
_TENSOR_CORES = re.compile(r"mma|tensor|h884|1688|16816|16832|8816", re.IGNORECASE)
_NOT_A_NODE = re.compile(r"^\(Unnamed Layer\*|^ONNXTRT_|^__my")


def target_of_reformat(name: str) -> tuple[str, str] | None:
    """Return the layer a reformat serves and its tensor (``input 0``); ``None`` if no reformat."""
    match = _REFORMAT.match(name)
    return (match[3], f"{match[1].lower()} {match[2]}") if match else None


def myelin_ends(name: str) -> tuple[str, str] | None:
    """Return the first and the last node of a ``ForeignNode`` (Myelin region) by its name."""
    first, _, rest = name.partition("{ForeignNode[")[2].partition("...")
    last, closed, _ = rest.rpartition("]}")
    return (first.strip(), last.strip()) if closed else None


def hides_nodes(layer: Layer) -> bool:
    """Whether a layer is a Myelin region of which only the first and last node are known."""
    return myelin_ends(layer.name) is not None and len(layer.nodes) <= 2


def nodes_from_name(name: str) -> tuple[str, ...]:
    """List the ONNX nodes in a layer's name, in order, without weights and generated layers."""
    if _REFORMAT.match(name):
        return ()
    dla = _DLA.match(name)
    parts: Iterable[str] = myelin_ends(name) or (dla["nodes"].split(",") if dla else _parts(name))
    nodes = dict.fromkeys(part.strip() for part in parts)
    return tuple(x for x in nodes if x and not _CONSTANT.search(x) and not _NOT_A_NODE.match(x))


def nodes_between(first: str, last: str, order: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes of ``order`` from ``first`` to ``last``; empty if either is missing."""
    places = {node: place for place, node in reversed(list(enumerate(order)))}
    if first not in places or last not in places:
        return ()
    begin, end = sorted((places[first], places[last]))
    return tuple(order[begin : end + 1])


def layer_labels(names: Sequence[str], *, length: int = 40) -> list[str]:
    """Shorten names of layers so that operators stay; labels that are equal are numbered."""
    found, seen = [], Counter[str]()
    for name in names:
        label = _label(name, length)
        seen[label] += 1
        end = f" ({seen[label]})"
        found.append(label if seen[label] == 1 else _label(name, length - len(end)) + end)
    return found


def _label(name: str, length: int) -> str:
    name = " ".join(name[:10_000].split())
    if len(name) <= length:
        return name
    if target := target_of_reformat(name):
        return f"reformat: {_label(target[0], length - 10)}"
    if both := myelin_ends(name):
        return "Myelin " + "...".join(_label(each, (length - 10) // 2) for each in both)
    parts = name.split(" + ")
    nodes = [x for x in parts if not _CONSTANT.search(x) and "QuantizeLinear" not in x] or parts
    ends = [each.split("/")[-1] for each in nodes]
    while len(" + ".join(ends)) > length - 2 and len(ends) > 1:  # operators in the middle go first
        del ends[len(ends) // 2]
    shown, folders = " + ".join(ends), nodes[0].split("/")[:-1]
    if len(shown) > length - 2:
        return shortened(shown, length=length)
    best = f"{'' if folders else name[: length - 1 - len(shown)]}…{shown}"
    for count in range(len(folders)):  # as many of the last folders as fit, and the first
        for start in ([], folders[: 2 if name.startswith("/") else 1]):
            label = "/".join((*start, "…", *folders[len(folders) - count :], shown))
            best = label if len(label) <= length else best
    return best


def block_of(name: str, *, depth: int = 1) -> str:
    """Return the block of a node: ``/layer3/layer3.1/conv1/Conv`` at depth 1 is in ``/layer3``."""
    slash = name.startswith("/")
    parts = [part for part in name.split("/") if part]
    if len(parts) == 1:
        parts = [part for part in name.lstrip("/").split(".") if part]
        return ".".join(parts[:depth]) if len(parts) > 1 else name
    return ("/" if slash else "") + "/".join(parts[: max(1, min(depth, len(parts) - 1))])


def _parts(name: str, left: int = 9) -> list[str]:
    parts: list[str] = []
    for part in map(str.strip, re.split(r" \+ | \|\| ", name.strip())):
        wrapped, torch = _WRAPPED.match(part), _TORCH.match(part)
        # In ``PWN(a, b)`` names are separated by commas instead of plus signs.
        inner = [torch["node"] or torch["op"]] if torch else [part]
        if wrapped and left:
            inner = _parts(wrapped["inner"].replace(", ", " + "), left - 1)
        parts += [re.sub(r"_myl\d+_\d+$", "", each) for each in inner]
    return parts


GROUP_KEYS = ("kind", "operator", "precision", "role", "node", "block", "region", "stream", "bound")
"""Fields that layers can be grouped by; ``block`` takes a depth (``block:2``)."""

UNKNOWN = "unknown"

_PATTERN = re.compile(r"[*?\[]")


class Group(Value, frozen=True, kw_only=True):
    """Layers with the same kind, precision, block or other key."""

    name: str
    layers: float  # a layer of several nodes is divided evenly among them
    seconds: float | None
    share: float | None = None
    flops: int | None = None
    traffic_bytes: int | None = None
    precisions: str | None = None


def groups_of(
    table: LayerTable, by: str, *, among: Sequence[Layer] | None = None
) -> tuple[Group, ...]:
    """Group layers, by default all; a layer of several nodes is divided evenly among them."""
    key, _, depth = by.partition(":")
    if key == "block" and depth and not depth.isdecimal():
        raise UsageError(f"the depth in {by!r} is not a number", fix="write it like block:2")
    patterns = [each.strip() for each in by.split(",") if each.strip()]
    if by not in GROUP_KEYS and key != "block" and not _PATTERN.search(by) and "/" not in by:
        refuse_unknown(by, GROUP_KEYS, f"layers cannot be grouped by {by!r}", flag="--by")

    def names_of(layer: Layer) -> Sequence[str]:
        other = f"({layer.role})" if layer.role != "compute" else None
        if key == "block":  # of most of its nodes; a reformat belongs to the layer it serves
            names = layer.nodes or (target_of_reformat(layer.name) or (layer.name,))[:1]
            blocks = Counter(block_of(x.split(" + ")[0], depth=int(depth or 1)) for x in names)
            return [blocks.most_common(1)[0][0]]
        if by == "node":
            return layer.nodes or [other or layer.name]
        if by == "operator":
            # Q/DQ of weights were folded when the engine was built, and take no time.
            main = [each for each in layer.operators if "QuantizeLinear" not in each]
            return main or layer.operators or [other or layer.kind or UNKNOWN]
        if by not in GROUP_KEYS:
            return [next((each for each in patterns if matches(layer, each)), "the rest")]
        value = getattr(layer, by)
        if value is None:
            return [other or UNKNOWN] if by == "precision" else [UNKNOWN]
        return [str(value)]

    members: dict[str, list[tuple[Layer, float]]] = {}
    for layer in table.layers if among is None else among:
        names = names_of(layer)
        for name in names:
            members.setdefault(name, []).append((layer, 1 / len(names)))
    groups, total = [], table.total_s
    for name, found in members.items():
        seconds = math.fsum(layer.seconds * part for layer, part in found)
        counted = Counter(layer.precision for layer, _ in found if layer.precision)
        flops, traffic = (
            [(value, part) for layer, part in found if (value := getattr(layer, field)) is not None]
            for field in ("flops", "traffic_bytes")
        )
        group = Group(
            name=name, layers=round(math.fsum(part for _, part in found), 6),
            seconds=None if total is None else seconds, share=seconds / total if total else None,
            flops=round(sum(value * part for value, part in flops)) if flops else None,
            traffic_bytes=round(sum(value * part for value, part in traffic)) if traffic else None,
            precisions=", ".join(each for each, _ in counted.most_common()) or None,
        )  # fmt: skip
        groups.append(group)
    groups.sort(key=lambda group: (-(group.seconds or 0.0), -group.layers, group.name))
    return tuple(groups)


def matches(layer: Layer, pattern: str) -> bool:
    """Whether a layer's name or one of its nodes matches; without ``*`` a part is enough."""
    whole = pattern if _PATTERN.search(pattern) else f"*{pattern}*"
    return any(fnmatchcase(name, whole) for name in (layer.name, *layer.nodes))


NAMED_KEYS = ("name", "operator", "region")  # known from the names of layers, too
NUMBERS = ("groups", "m", "n", "k")
KEYS = (*NAMED_KEYS, "role", "kind", "precision", "asked", "bound", "kernel", "stride", *NUMBERS,
        "format_in", "format_out", "origin")  # fmt: skip
"""Fields that conditions on layers are about."""
_CONDITION = re.compile(r"\s*(\w+)\s*(!=|>=|<=|=|>|<)\s*([^=<>]+?)\s*")
_RELATIONS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}


def conditions_from_text(text: str) -> list[tuple[str, str, str]] | None:
    """Read ``kind=Convolution,groups>1``; ``None`` if it is a pattern of names."""
    found = [_CONDITION.fullmatch(part) for part in text.split(",")]
    if not all(found):
        return None
    conditions = [(match[1], match[2], match[3]) for match in found if match]
    for key, relation, wanted in conditions:
        refuse_unknown(key, KEYS, f"layers have no {key!r}")
        if relation in _RELATIONS and not (key in NUMBERS and wanted.isdecimal()):
            problem = f"{key} {relation} {wanted} compares text"
            raise UsageError(problem, fix=f"only {', '.join(NUMBERS)} are numbers; use = or !=")
    return conditions


def meets(layer: Layer, key: str, relation: str, wanted: str) -> bool:
    """Whether a field of a layer has a value, in any case; ``*`` and ``?`` stand for others."""
    if key == "name":
        return matches(layer, wanted) == (relation != "!=")
    value = layer.operators if key == "operator" else (getattr(layer, key),)
    if compare := _RELATIONS.get(relation):
        return any(compare(each, int(wanted)) for each in value if isinstance(each, int))
    texts = (str(each).lower() for each in value if each is not None)
    return any(fnmatchcase(text, wanted.lower()) for text in texts) == (relation == "=")


Edge = tuple[int, int, str]  # index of the layer that writes, of the one that reads, the tensor


def edges_of(table: LayerTable) -> list[Edge]:
    """List the edges between layers, one per tensor.

    A tensor that is written several times (Myelin reuses names) is read from its latest writer.
    """
    writers: dict[str, int] = {}
    found: dict[Edge, None] = {}
    for layer in table.layers:
        for name in layer.reads:
            if name in writers and writers[name] != layer.index:
                found[writers[name], layer.index, name] = None
        for name in layer.writes:
            writers[name] = layer.index
    return list(found)


def sources_of(table: LayerTable, kept: set[int]) -> dict[int, list[int]]:
    """Return the layers that each of the kept layers reads from; edges bypass the others."""
    sources: dict[int, list[int]] = {layer.index: [] for layer in table.layers}
    for begin, end, _ in edges_of(table):
        sources[end].append(begin)
    for index, begins in sources.items():  # in the order of execution, so sources come first
        every = (each for x in begins for each in ([x] if x in kept else sources[x]))
        sources[index] = list(dict.fromkeys(every))
    return {index: begins for index, begins in sources.items() if index in kept}


RANKS = {
    "fp64": 0, "fp32": 1, "tf32": 2, "bf16": 3, "fp16": 3, "int8": 4, "uint8": 4, "fp8": 4,
    "int4": 5, "fp4": 5,
}  # fmt: skip
"""Types by width: a higher rank is narrower, and usually faster."""

WEIGHTED = ("convolution", "convactpool", "deconvolution", "gemm", "fusion", "matrixmultiply",
            "fullyconnected", "einsum")  # fmt: skip
"""Kinds of layers that a narrower type is requested for; the others use their neighbours'."""


class PrecisionSummary(Value, frozen=True, kw_only=True):
    """The types an engine computes in, compared with the types requested."""

    types: tuple[Group, ...]
    conversions: tuple[Group, ...]  # by role: layers that only convert tensors
    uncounted: float = 0.0  # share of the time in layers that compute unknown FLOPs
    unknown: int = 0  # the number of these layers


def summarize_precision(table: LayerTable) -> PrecisionSummary:
    computing = [layer for layer in table.layers if layer.role == "compute"]
    known, uncounted = {x.precision for x in computing}, [x for x in computing if x.flops is None]
    return PrecisionSummary(
        types=tuple(each for each in groups_of(table, "precision") if each.name in known),
        conversions=tuple(each for each in groups_of(table, "role") if each.name in CONVERSIONS),
        uncounted=math.fsum(layer.share or 0.0 for layer in uncounted),
        unknown=len(uncounted),
    )


Doubts = Iterator[tuple[str, str]]


class Suspect(Value, frozen=True, kw_only=True):
    """A layer worth a look: its cost, what is suspicious about it, and what to try."""

    index: int
    name: str
    seconds: float | None
    what: str
    remedy: str


def lint(table: LayerTable, *, asked: str | None = None) -> tuple[Suspect, ...]:
    """Return the suspicious layers, the slowest first; ``asked``: the types the build allowed."""
    sources = sources_of(table, {layer.index for layer in table.layers})
    readers = Counter(begin for begins in sources.values() for begin in begins)
    computed, found = [each.precision or "" for each in table.layers], []
    hint = (narrowest(asked), "the build's flags request")
    if hint[0] is None:
        hint = (narrowest(" ".join(computed)), "other layers compute in")
    timed = [layer for layer in table.layers if layer.seconds or not table.timed]
    for layer in sorted(timed, key=lambda each: -each.seconds):
        before = [table.layers[begin] for begin in sources[layer.index]]
        alone = len(before) == 1 and readers[before[0].index] == 1
        seconds = layer.seconds if layer.time_s is not None else None
        found += [
            Suspect(index=layer.index, name=layer.name, seconds=seconds, what=what, remedy=remedy)
            for what, remedy in _doubts(layer, before if alone else [], hint, "tf32" in computed)
        ]
    return tuple(found)


def _doubts(layer: Layer, before: list[Layer], hint: tuple[str | None, str], tf32: bool) -> Doubts:
    """Yield what is suspicious about a layer, and what to try; ``before``: what it alone reads."""
    got, kind, (allowed, why) = layer.precision, layer.word, hint
    if layer.role == "quantize":
        yield "Q/DQ that was not fused", "put it next to a convolution or product, or remove it"
    elif layer.converts:
        again = " of what was converted" if any(x.converts for x in before) else ""
        yield f"{layer.role}{again}", "use one type and layout for neighbouring layers"
    if layer.role != "compute" or got is None:
        return
    by_model, narrow = is_wider(got, layer.asked), RANKS.get(got, 0) > RANKS["fp32"]
    if by_model or (is_weighted(layer) and is_wider(got, allowed)):
        wanted = (layer.asked if by_model else allowed) or ""
        source = "the model's Q/DQ or types request" if by_model else why
        what = f"computes in {got.upper()}; {source} {wanted.upper()}"
        yield what, "quantize or cast this node, or let the builder time more kernels"
    if is_weighted(layer):
        if got in QUANTIZED and layer.precision_out in ("fp32", "fp16", "bf16"):
            what = f"computes in {got.upper()}, but writes {layer.precision_out.upper()}"
            yield what, "quantize what reads it, too"
        known = (narrow or tf32) and layer.precision_basis == "tactic"
        if known and not _TENSOR_CORES.search(layer.tactic or ""):
            yield "its kernel uses no Tensor Cores", "pad channels, or use another batch or group"
        step = 16 if got in QUANTIZED else 8
        place = 1 if "conv" in kind else -1
        dims = [shape.split("x") for shape in (layer.shape_in, layer.shape_out) if shape]
        sizes = [int(x[place]) for x in dims if narrow and len(x) > 1 and x[place].isdecimal()]
        if odd := [str(size) for size in sizes if size > 4 and size % step]:
            yield f"{' and '.join(odd)} channels: no multiple of {step}", "pad the channels"
    elif any(map(is_weighted, before)) and kind.startswith(("pointwise", "elementwise")):
        yield "not fused with the layer before it", "build with --optimization-level 5"


def narrowest(words: str | None) -> str | None:
    """Return the narrowest type in a text such as ``fp16+int8`` or ``FP32, INT8``."""
    found = [name for name in RANKS if name in (words or "").lower()]
    return max(found, key=lambda name: RANKS[name], default=None)


def main_types(table: LayerTable) -> str | None:
    """Name the types that take at least a tenth of an engine's time, the most time first."""
    types = (each for each in groups_of(table, "precision") if each.name in RANKS)
    return ", ".join(each.name for each in types if (each.share or 0.0) >= 0.1) or None


def is_wider(got: str | None, asked: str | None) -> bool:
    """Whether one type is wider than another; false if either is unknown."""
    return got in RANKS and asked in RANKS and RANKS[got] < RANKS[asked]


def is_weighted(layer: Layer) -> bool:
    """Whether a layer has weights or is a matrix product, so that a narrower type speeds it up."""
    return layer.role == "compute" and (layer.word in WEIGHTED or bool(layer.weights))


class EngineFacts(Value, frozen=True, kw_only=True):
    """Median times of one inference, and the conditions of the measurement."""

    host_s: float | None = None
    latency_s: float | None = None
    gpu_s: float | None = None
    enqueue_s: float | None = None
    queries_per_s: float | None = None
    h2d_s: float | None = None
    d2h_s: float | None = None
    jitter: float | None = None  # standard deviation over mean of GPU time
    tail: float | None = None  # p99 over mean of GPU time, in these samples or as printed
    energy_j: float | None = None  # per inference, above the idle power
    kernel_busy_s: float | None = None  # time in which a kernel ran, if CUPTI timed the layers
    counters: str | None = None  # why CUPTI could not read hardware counters
    sm_clock_hz: float | None = None  # mean while measuring, else the locked clock
    gpu: str | None = None
    sm_count: int | None = None
    batch: int | None = None
    asked: str | None = None
    cuda_graph: bool | None = None
    graph_failed: bool = False  # a CUDA graph could not be captured
    tensorrt: str | None = None
    built: bool = True  # by TensorRT; others have no settings of a builder

    @property
    def busy(self) -> float | None:
        """Share of the time in which the GPU computes: queries per second times GPU time."""
        if self.queries_per_s is None or self.gpu_s is None:
            return None
        return min(1.0, self.queries_per_s * self.gpu_s)

    @property
    def waits_for_launches(self) -> bool | None:
        """Whether the GPU waits for the host to launch; ``None`` if that cannot be told."""
        if not self.enqueue_s or not self.gpu_s:
            return None
        share = self.enqueue_s / self.gpu_s
        if share < 0.5 or (self.busy or 0.0) >= BUSY:  # launched in time, or never idle
            return False
        return True if share >= 0.8 else None  # from which on trtexec warns, too


def facts_from_run(run: Run) -> EngineFacts:
    """Return medians and conditions of a run; without samples, medians that were reported."""
    from statistics import fmean  # slow to import, and no worker needs it

    from trtbench.analysis.summary import reported_rate, reported_statistics

    record, gpu = run.record, gpu_of(run.record)
    names = ("cuda_graph", "cuda_graph_fell_back", "precision")
    graph, failed, stated = map(record.conditions.get, names)
    columns = run.times.durations()
    spread = columns.get("gpu", columns.get(run.times.headline))
    clocks = [sample.sm_clock_hz for sample in run.telemetry if sample.sm_clock_hz]
    locked = gpu.sm_clock_hz if gpu and gpu.clocks_locked else None
    printed = reported_statistics(record, "gpu")
    p99, mean, std = printed.get("p99"), printed.get("mean", 0.0), None
    if spread is not None and len(spread) > 1:
        p99, mean, std = map(float, (np.percentile(spread, 99), spread.mean(), spread.std()))
    used = record.facts.get("energy_above_idle_j")
    walls = [launch.wall_s or 0.0 for launch in record.launches]
    rate = len(run.times) / sum(walls) if walls and all(walls) and len(run.times) else None
    medians: dict[str, float | None] = {"queries_per_s": reported_rate(record) or rate}
    for name in ("host", "latency", "gpu", "enqueue", "h2d", "d2h"):
        column, said = columns.get(name, ()), reported_statistics(record, name).get("median")
        medians[f"{name}_s"] = float(np.median(column)) if len(column) else said
    busy, unread = record.facts.get("kernel_busy_s"), record.facts.get("counters")
    return EngineFacts(
        kernel_busy_s=busy if isinstance(busy, float) else None,
        counters=unread if isinstance(unread, str) else None,
        jitter=std / mean if mean and std is not None else None,
        tail=p99 / mean if p99 is not None and mean else None,
        energy_j=used if isinstance(used, float) and used > 0 else None,
        sm_clock_hz=fmean(clocks) if clocks else locked,
        gpu=gpu.name if gpu else None,
        sm_count=gpu.sm_count if gpu else None,
        batch=record.batch,
        asked=precision_of(record) if stated is None or stated.source != "implied" else None,
        cuda_graph=graph.value if graph and isinstance(graph.value, bool) else None,
        graph_failed=failed is not None and failed.value is True,
        tensorrt=record.environment.versions.get("tensorrt"),
        built=record.provenance != "measured" or record.spec.model.format == "engine",
    ).having(**medians)


BOX_W, BOX_H = 200.0, 34.0
GAP_X, GAP_Y = 18.0, 22.0
COLUMN_GAP = 90.0
NOT_DRAWN = ("constant", "nothing")  # roles without a kernel; edges bypass them


class Placement(Value, frozen=True, kw_only=True):
    """Positions of all drawn layers, and the edges between them."""

    corners: dict[int, tuple[float, float]]  # x and y of the upper left corner, by layer
    edges: tuple[tuple[int, int], ...]
    width: float
    height: float


def place_layers(table: LayerTable) -> Placement:
    """Lay out a drawing of every layer that runs a kernel.

    The rank of a layer is its longest path from an input; within a rank, layers are sorted by the
    mean position of their neighbours (Sugiyama's method). Long chains are wrapped into columns.
    The time is linear in layers and edges.
    """
    every = [layer.index for layer in table.layers]
    shown = [layer.index for layer in table.layers if layer.role not in NOT_DRAWN] or every
    above = sources_of(table, set(shown))
    # Without tensors, layers are drawn as one chain in the order of execution.
    if not any(above.values()):
        above |= {end: [begin] for begin, end in pairwise(shown)}
    edges = [(begin, end) for end, begins in above.items() for begin in begins]
    below: dict[int, list[int]] = {index: [] for index in shown}
    for begin, end in edges:
        below[begin].append(end)
    ranks: dict[int, int] = {}
    rows: list[list[int]] = []
    for index in shown:  # the order of execution is topological
        ranks[index] = max((ranks[each] + 1 for each in above[index]), default=0)
        rows += [[] for _ in range(ranks[index] + 1 - len(rows))]
        rows[ranks[index]].append(index)
    # Sort each rank by the mean position of its neighbours above, then below, a few times.
    at = {index: float(place) for row in rows for place, index in enumerate(row)}
    for sweep in range(4):
        steps = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            if len(row) > 1:
                near = {index: [at[each] for each in steps[index] or [index]] for index in row}
                row.sort(key=lambda index: sum(near[index]) / len(near[index]))
                at.update((index, number - (len(row) - 1) / 2) for number, index in enumerate(row))
    # Wrap ranks into columns, each as wide as its widest rank, and centre ranks in them.
    step_x, step_y = BOX_W + GAP_X, BOX_H + GAP_Y
    widest = max((len(row) for row in rows), default=1)
    typical = len(shown) / max(1, len(rows))  # the drawing is about 1.7 times as wide as high
    column_w = step_x * max(1.0, min(widest, 2 * typical)) + COLUMN_GAP
    high = max(8, math.ceil(math.sqrt(len(rows) * column_w / (1.7 * step_y))))
    corners: dict[int, tuple[float, float]] = {}
    left = 0.0
    for first in range(0, len(rows), high):
        column = rows[first : first + high]
        width = max(len(row) for row in column) * step_x - GAP_X
        for number, row in enumerate(column):
            start = left + (width - (len(row) * step_x - GAP_X)) / 2
            places = ((start + step * step_x, number * step_y) for step in range(len(row)))
            corners.update(zip(row, places, strict=True))
        left += width + COLUMN_GAP
    height = min(high, max(1, len(rows))) * step_y - GAP_Y
    width = max(BOX_W, left - COLUMN_GAP)
    return Placement(corners=corners, edges=tuple(edges), width=width, height=height)
