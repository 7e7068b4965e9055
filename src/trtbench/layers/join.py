"""Profile, layer information and ONNX nodes of one engine, joined into one table.

Layers that share a name are matched in order. A profile and layer information of different engines
are not joined: the table then holds the times alone, with a note.
"""

import math
import re
from collections import Counter
from functools import lru_cache

from trtbench.core.run import name_from_types, types_of
from trtbench.core.samples import EngineGraph, LayerInfo, LayerProfile, LayerTime, TensorInfo
from trtbench.core.units import text_from_seconds, text_from_shape
from trtbench.layers import table as tables
from trtbench.layers.cost import WEIGHT_TYPES, NodeCosts, attributes_of, flops_of, traffic_of

_OPERANDS = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "tf32": "tf32", "f64": "fp64",
    "i8": "int8", "u8": "uint8", "int8": "int8", "i4": "int4",
    "e4m3": "fp8", "e5m2": "fp8", "e2m1": "fp4",
}  # fmt: skip
_TYPE = "bf16|tf32|f16|f32|f64|int8|i8|u8|i4|e4m3|e5m2|e2m1"
_XMMA = re.compile(rf"_({_TYPE})({_TYPE}|i32)_({_TYPE})(f16|f32|i32|bf16)?(?=_)")
"""``_<input><output>_<operand><accumulator>_``; without an accumulator the operand is the input."""
_DENSE = re.compile(rf"_({_TYPE})({_TYPE})(?=_)")
_WORDS = (
    (re.compile(r"imma|icudnn|int8x4|_i8816|_i16832|i\d+cudnn|int8_"), "int8"),
    (re.compile(r"e4m3|fp8|qgmma"), "fp8"),
    (re.compile(r"e2m1|nvfp4|fp4"), "fp4"),
    (re.compile(r"tf32|s1688tf32"), "tf32"),
    (re.compile(r"bf16|bfloat16"), "bf16"),
    (re.compile(r"hmma|h884|h1688|h16816|f16f16|fp16|half|FP16"), "fp16"),
    (re.compile(r"scudnn|sgemm|ffma|fp32|FP32"), "fp32"),
)  # parts of kernel names of cuDNN, cuBLAS, CUTLASS and pooling; the first that matches decides
_NUMBER = re.compile(r"^(?:0x[0-9a-fA-F]+|-?\d+)$")

_ROLES: dict[str, tables.Role] = {
    "constant": "constant", "noop": "nothing", "shape_call": "nothing", "shape": "nothing",
    "memcpy": "copy",
}  # fmt: skip
_REFORMATTER = re.compile(r" (?:in|out)put reformatter \d+$")  # until TensorRT 8.2
_REGION = re.compile(r"_(myl\d+)_\d+$")
_OPERATOR = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9]*?)(?:_\d+)?$")
_NVM = re.compile(r"(?:^| )(?:to|from) nvm$")
_HIDES = re.compile(r"ForeignNode|myelin$|plugin", re.IGNORECASE)
"""Opaque layers: they contain several others, or are plug-ins."""
_COMPUTED = re.compile(r"fp|bf|int8|tf")
_GENERATED = re.compile(r"^(?:__myl_|_gemm_|__mye)")
_NAMED_KIND = re.compile(r" \((\w+)\)$|^(?:aten|prim|onnx)::(?!\w+_\d+$)(\w+)$")
"""Names of nodes, modules and operators in profiles of ONNX Runtime and PyTorch."""
_FUSED = re.compile(r"^(?:fused |(?:Fused|QLinear|Nhwc)+)|_nchwc$|_nhwc$|_quant$|_token_\d+$")


def _name_and_kind(name: str) -> tuple[str, str] | None:
    """Split a profiler's name that includes the kind of the layer: ``/conv1/Conv (Conv)``."""
    named = _NAMED_KIND.search(name)
    return (name[: named.start()].rstrip(), named[1] or named[2]) if named else None


def _role(name: str, info: LayerInfo | None) -> tables.Role:
    """Return the role of a layer; the name alone identifies reformats and DLA copies."""
    if _NVM.search(name):
        return "copy"
    kind = (info.type or "").lower() if info else ""
    if kind in _ROLES:
        return _ROLES[kind]
    named = tables.target_of_reformat(name) or _REFORMATTER.search(name)
    parts = tables.nodes_from_name(name)
    if info is None and parts and all("QuantizeLinear" in each for each in parts):
        return "quantize"
    changes = kind in ("reformat", "myelinreformat", "cast", "quantize", "dequantize")
    if not changes and (kind or not named):
        return "compute"
    taken, given = _edge_types(info)
    if taken and given and taken != given:
        return "quantize" if taken in tables.QUANTIZED or given in tables.QUANTIZED else "cast"
    origin = str(info.extra.get("Origin", "")) if info else ""
    return "quantize" if origin == "QDQ" else "cast" if origin == "CAST" else "reformat"


def _edge_types(info: LayerInfo | None) -> tuple[str | None, str | None]:
    """Return the types of the first input and the first output that have one."""
    taken, given = (
        next((each.dtype for each in tensors if each.dtype), None)
        for tensors in ((info.inputs, info.outputs) if info else ((), ()))
    )
    return taken, given


def _computing_type(
    info: LayerInfo | None, role: tables.Role
) -> tuple[str | None, tables.Basis | None]:
    """Return the type a layer computes in, and what that is derived from."""
    if info is None or role != "compute":
        return None, None
    if (found := type_from_tactic(info.tactic)) is not None:
        return found, "tactic"
    for key, value in info.extra.items():  # weights; biases are wider on purpose
        if key.lower().endswith("weights") and isinstance(value, dict) and value.get("Count"):
            if (found := WEIGHT_TYPES.get(str(value.get("Type", "")).lower())) is not None:
                return found, "weights"
            break
    edges: dict[tables.Basis, tuple[TensorInfo, ...]]
    edges = {"inputs": info.inputs, "outputs": info.outputs}
    for basis, tensors in edges.items():  # the largest tensor; indices do not count
        usable = [x for x in tensors if x.dtype and x.dtype not in ("int32", "int64", "bool")]
        if usable:
            largest = max(usable, key=lambda x: math.prod(max(dim, 1) for dim in x.dimensions))
            return largest.dtype, basis
    return None, None


def count_layer_types(graph: EngineGraph, *, seen_inside: bool = False) -> Counter[str]:
    """Count layers by the type they compute in; ``seen_inside`` leaves out opaque layers."""
    found: Counter[str] = Counter()
    for layer in graph.layers:
        precision, basis = _computing_type(layer, _role(layer.name, layer))
        edges = seen_inside and basis in ("inputs", "outputs")
        hidden = edges and _HIDES.search(layer.type or layer.name)
        if precision and _COMPUTED.match(precision) and not hidden:
            found[precision] += 1
    return found


def computing_types(graph: EngineGraph | None) -> frozenset[str]:
    """Return the types that layers compute in; empty if unknown."""
    return frozenset(count_layer_types(graph, seen_inside=True) if graph is not None else ())


def contradicting_types(label: str | None, ran: frozenset[str]) -> str | None:
    """Name the types that ran if the precision ``label`` is not among them, else ``None``."""
    wanted, full = types_of(label), {"fp32", "tf32"}
    if not wanted or "best" in wanted:
        return None
    agreed = (wanted | full if wanted & full else wanted) & ran
    return name_from_types(ran) if ran and not agreed else None


@lru_cache(maxsize=4096)
def type_from_tactic(tactic: str | None) -> str | None:
    """Return the operand type that a kernel's name shows; ``None`` if it shows none."""
    if not tactic or _NUMBER.match(tactic) or _GENERATED.match(tactic):
        return None
    if match := _XMMA.search(tactic):
        return _OPERANDS[match[3] if match[4] else match[1]]
    if match := _DENSE.search(tactic):
        return _OPERANDS[match[1]]
    return next((name for pattern, name in _WORDS if pattern.search(tactic)), None)


DETAILED = "--profilingVerbosity=detailed"


def join_layers(
    profile: LayerProfile | None,
    graph: EngineGraph | None = None,
    *,
    costs: NodeCosts | None = None,
) -> tables.LayerTable:
    """Join layer times, the inspector's layer information and the cost of ONNX nodes."""
    times = profile.layers if profile is not None else ()
    notes: list[str] = []
    if graph is not None and times:
        shared = Counter(info.name for info in graph.layers) & Counter(each.name for each in times)
        if shared.total() < 0.9 * len(times):
            notes.append(
                "profile and layer information are of different engines and were not joined: "
                f"only {shared.total()} of {len(times)} timed layers are among the "
                f"{len(graph.layers)} layers of the engine"
            )
            graph = None
    infos = graph.layers if graph else ()
    # Times and layers are matched by name; a layer that was not timed keeps its position.
    waiting: dict[str, list[LayerInfo]] = {}
    for info in reversed(infos):
        waiting.setdefault(info.name, []).append(info)
    met: list[tuple[LayerTime | None, LayerInfo | None]] = []
    for time in times:
        same = waiting.get(time.name)
        met.append((time, same.pop() if same else None))
    taken = {id(info): time for time, info in met if info is not None}
    if infos and not len(taken) == len(infos) == len(met):
        rest = [(time, info) for time, info in met if info is None]
        met = [*((taken.get(id(info)), info) for info in infos), *rest]
    total = math.fsum(each.typical_s for each in times)
    layers = [_layer(k, time, info, total, costs) for k, (time, info) in enumerate(met)]
    own = 2 * sum(_name_and_kind(each.name) is not None for each in layers) > len(layers)
    missing = sum(1 for layer in layers if layer.time_s is None)
    lacks, unknown = "", "kinds, types and shapes are unknown"
    if graph is None and own:  # a profile of ONNX Runtime or PyTorch, which write no other file
        notes.append("no layer information: types and shapes are unknown")
    elif graph is None:
        lacks = f"no layer information: {unknown} (trtexec --exportLayerInfo=graph.json {DETAILED})"
    elif not graph.detailed:
        lacks = f"built with layer names only: {unknown} (build with {DETAILED})"
    notes += [lacks] if lacks else []
    if not times:
        notes.append("no profile: nothing was timed")
    elif graph is not None and missing:
        notes.append(f"{missing} layers of the engine are not in the profile")
    repeated = sum(n for n in Counter(layer.name for layer in layers).values() if n > 1)
    if repeated:
        notes.append(f"{repeated} layers share their name with another; they are listed separately")
    nodes = {node for each in layers for node in each.nodes}
    if costs is not None and layers and not nodes & costs.nodes.keys():
        note = "no layer came from a node of this ONNX model: the model is another network"
        if own:
            note = "layer names do not match the ONNX model: operations are not counted"
        notes.append(note)
    return tables.LayerTable(
        layers=tuple(layers),
        count=profile.count if profile else None,
        timed=bool(times),
        detailed=graph is not None and graph.detailed,
        lacks=lacks,
        notes=tuple(dict.fromkeys(notes)),
    )


def without_overhead(table: tables.LayerTable, whole_s: float, what: str) -> tables.LayerTable:
    """Scale layers whose sum is above the time of an inference to it, with a note."""
    total_s = table.total_s or 0.0
    if total_s <= 1.03 * whole_s:  # they add up
        return table
    factor = whole_s / total_s
    layers = (
        x.having(time_s=(x.time_s or 0.0) * factor, median_s=x.seconds * factor)
        for x in table.layers
    )
    sums = f"{text_from_seconds(total_s)} in sum, {what} {text_from_seconds(whole_s)}"
    note = f"times of layers are scaled by {factor:.2f}: the profiler makes them longer ({sums})"
    return table.having(layers=tuple(layers), notes=(*table.notes, note))


def _layer(
    index: int,
    time: LayerTime | None,
    info: LayerInfo | None,
    total: float,
    costs: NodeCosts | None,
) -> tables.Layer:
    name = next((each.name for each in (info, time) if each), "")
    role, named, region = _role(name, info), _name_and_kind(name), _REGION.search(name)
    precision, basis = _computing_type(info, role)
    taken, given = _edge_types(info)
    # The ONNX nodes: from the inspector, else from the layer's name and the model.
    nodes, ends = info.origin if info else (), tables.myelin_ends(name)
    if not nodes and ends is not None and costs is not None:
        nodes = tables.nodes_between(*ends, [*costs.nodes])
    if not nodes and info is None and costs is not None and named is not None:
        nodes = costs.nodes_computing(*(_FUSED.sub("", each) for each in named))
    elif not nodes:
        nodes = tables.nodes_from_name(name)
    types, kinds = (costs.types, costs.nodes) if costs else ({}, {})
    asked = next((types[node] for node in nodes if node in types), None)
    if costs is None or role != "compute":
        # By the name alone: ``w + QuantizeLinear_7 + Conv_9`` has quantized weights.
        parts, known = name.split(" + "), tables.nodes_from_name(name)
        quantizes = any("QuantizeLinear" in part for part in parts)
        works = any("QuantizeLinear" not in part and part in known for part in parts)
        asked = "int8" if quantizes and works else None
    kind: object = named[1] if named else None
    if info is not None:
        kind = info.extra.get("ParameterType") or info.type
    operators = tuple(kinds[node].op for node in nodes if node in kinds)
    if not operators:  # from the names: ``/layer1/conv1/Conv``, ``Add_12``
        operators = tuple(match[1] for node in nodes if (match := _OPERATOR.search(node)))
        operators = (_FUSED.sub("", named[1]),) if named else operators
    own = ("median_s", "min_s", "max_s", "dram_bytes", "sm_active")
    timed = {"time_s": time.average_s, **{x: getattr(time, x) for x in own}} if time else {}
    shapes = []  # of the first input and the first output that have one
    for tensors in (info.inputs, info.outputs) if info else ((), ()):
        dims = next((each.dimensions for each in tensors if each.dimensions), ())
        shapes.append(text_from_shape([None if dim < 0 else dim for dim in dims]) if dims else None)
    return tables.Layer(
        index=index,
        name=name,
        kind=str(kind) if kind else None,
        role=role,
        precision=precision,
        precision_basis=basis,
        precision_in=taken,
        precision_out=given,
        shape_in=shapes[0],
        shape_out=shapes[1],
        share=time.typical_s / total if time and total > 0 else None,
        tactic=info.tactic if info else None,
        stream=info.stream if info else None,
        weights=info.weights_count if info else None,
        nodes=nodes,
        operators=operators,
        asked=asked,
        flops=flops_of(info, nodes, role, costs),
        traffic_bytes=traffic_of(info, nodes, role, costs),
        region=region[1] if region else None,
        reads=tuple(each.name for each in info.inputs) if info else (),
        writes=tuple(each.name for each in info.outputs) if info else (),
        **attributes_of(info, nodes, costs),
        **timed,
    )
