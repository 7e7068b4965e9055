"""Small engines of our own making: layers as an inspector writes them, with times beside them."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import samples
from trtbench.core.samples import EngineGraph, LayerProfile, LayerTime
from trtbench.layers.diff import align
from trtbench.layers.join import join_layers
from trtbench.layers.table import Layer, LayerTable
from trtbench.trtexec.exports import graph_from_json

WORDS = {
    "fp32": "Row major linear FP32", "fp16": "Row major linear FP16 format",
    "int8": "Thirty-two wide channel vectorized row major Int8 format", "half": "Half",
}  # fmt: skip
TACTICS = {
    "int8": "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_tile",
    "int8 to fp16": "sm80_xmma_fprop_implicit_gemm_interleaved_i8f16_i8i32_f32_nchw_vect_c_32kcrs",
    "fp16": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x32",
    "tf32": "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x16",
}


def tensor(name: str, dtype: str, dims: Sequence[int] = (1, 64, 56, 56)) -> dict[str, Any]:
    return {"Name": name, "Dimensions": list(dims), "Format/Datatype": WORDS[dtype]}


def conv(
    name: str,
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    tactic: str | None = None,
    nodes: Sequence[str] = (),
    also: Sequence[tuple[str, str]] = (),
    dims: Sequence[int] = (1, 64, 56, 56),
) -> dict[str, Any]:
    """A 3x3 convolution with 64 channels; ``also`` are further inputs, as a residual is."""
    return {
        "Name": name,
        "LayerType": "CaskConvolution",
        "Inputs": [tensor(*source), *(tensor(*each) for each in also)],
        "Outputs": [tensor(*target, dims)],
        "ParameterType": "Convolution",
        "Kernel": [3, 3],
        "OutMaps": dims[1],
        "Groups": 1,
        "Weights": {"Type": "Int8" if source[1] == "int8" else "Half", "Count": 64 * dims[1] * 9},
        "TacticName": TACTICS.get(tactic or source[1], tactic),
        "StreamId": 0,
        "Metadata": "\x1e".join(f"[ONNX Layer: {node}]" for node in nodes),
    }


def other(
    name: str,
    kind: str,
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    nodes: Sequence[str] = (),
    stream: int = 0,
    origin: str | None = None,
) -> dict[str, Any]:
    """Any layer without weights: a pooling, a reformat, a Myelin kernel."""
    layer = {
        "Name": name,
        "LayerType": kind,
        "Inputs": [tensor(*source)],
        "Outputs": [tensor(*target)],
        "TacticValue": "0x0000000000000000",
        "StreamId": stream,
        "Metadata": "\x1f".join(f"[ONNX Layer: {node}]" for node in nodes),
    }
    return {**layer, "ParameterType": "Reformat", "Origin": origin} if origin else layer


def graph(layers: Sequence[dict[str, Any] | str]) -> EngineGraph:
    document = json.dumps({"Layers": list(layers), "Bindings": ["input", "output"]})
    return graph_from_json(document, where="graph.json")


def profile(names: Sequence[str], times_us: Sequence[float], *, count: int = 100) -> LayerProfile:
    times = zip(names, (us * 1e-6 for us in times_us), strict=True)
    layers = (LayerTime(name=n, total_s=s * count, average_s=s, median_s=s) for n, s in times)
    return LayerProfile(count=count, layers=tuple(layers))


def table(layers: Sequence[dict[str, Any]], times_us: Sequence[float]) -> LayerTable:
    """Join layers and the microseconds they take."""
    return join_layers(profile([each["Name"] for each in layers], times_us), graph(layers))


REFORMAT, MIXED = "Reformatting CopyNode for Input Tensor 0 to", "int8 to fp16"
FP16 = [
    (conv("/a/Conv", ("input", "fp16"), ("a", "fp16"), nodes=["/a/Conv"]), 10.0),
    (conv("/b/Conv", ("a", "fp16"), ("b", "fp16"), nodes=["/b/Conv"]), 20.0),
    (other("/act/Gelu", "PointWiseV2", ("b", "fp16"), ("act", "fp16"), nodes=["/act/Gelu"]), 4.0),
    (conv("/c/Conv", ("act", "fp16"), ("output", "fp16"), nodes=["/c/Conv"]), 20.0),
]
INT8 = [
    (other(f"{REFORMAT} /a/Conv", "Reformat", ("input", "fp32"), ("q", "int8"), origin="QDQ"), 6.0),
    (conv("/a/Conv", ("q", "int8"), ("a", "int8"), nodes=["/a/Conv"]), 5.0),
    (conv("/b/Conv", ("a", "int8"), ("b", "fp16"), tactic=MIXED, nodes=["/b/Conv"]), 10.0),
    (other("/act/Gelu", "PointWiseV2", ("b", "fp16"), ("act", "fp16"), nodes=["/act/Gelu"]), 5.0),
    (other(f"{REFORMAT} /c/Conv", "Reformat", ("act", "fp16"), ("cq", "int8"), origin="QDQ"), 7.0),
    (conv("/c/Conv", ("cq", "int8"), ("output", "fp16"), tactic=MIXED, nodes=["/c/Conv"]), 10.0),
]


def fp16_chain() -> LayerTable:
    """Three convolutions and a Gelu, all in FP16: 10 + 20 + 4 + 20 µs."""
    return table(*zip(*FP16, strict=True))


def int8_chain() -> LayerTable:
    """The same network in INT8, but for the Gelu, with conversions at every border: 43 µs."""
    return table(*zip(*INT8, strict=True))


Op = tuple[str, list[int], int]  # name, the operations it reads, channels
Holds = Callable[[Layer], Sequence[object]]  # what a layer computes, the main part first


def share_right(a: LayerTable, b: LayerTable, of_a: Holds, of_b: Holds) -> float:
    """Return the share of layers of A that are aligned with the layer that does their work."""
    everywhere = {held for layer in b.layers for held in of_b(layer)}
    found = [
        of_a(a.layers[index])[0] in {held for each in others for held in of_b(b.layers[each])}
        for own, others, _ in align(a, b)
        for index in own
        if everywhere & set(of_a(a.layers[index])[:1])
    ]
    assert len(found) >= 20
    return sum(found) / len(found)


def bottlenecks(blocks: int) -> list[Op]:
    """Three stages of three convolutions each, added to what came before."""
    ops: list[Op] = [("/stem/Conv", [-1], 32)]
    last = 0
    for block in range(blocks):
        stage, shortcut, begin = 3 * block // blocks, last, last
        at, wide = f"/layer{stage}/block{block}", 64 * 2**stage
        for step, channels in enumerate((wide, wide, 4 * wide)):
            ops.append((f"{at}/conv{step}/Conv", [begin], channels))
            begin = len(ops) - 1
            if step < 2:
                ops.append((f"{at}/act{step}/Gelu", [begin], channels))
                begin = len(ops) - 1
        if block in (0, blocks // 3, 2 * blocks // 3):
            ops.append((f"{at}/down/Conv", [last], 4 * wide))
            shortcut = len(ops) - 1
        ops.append((f"{at}/Add", [begin, shortcut], 4 * wide))
        last = len(ops) - 1
    return ops


def transformer(blocks: int) -> list[Op]:
    """Blocks of attention with Q, K and V of one shape, and of two products."""
    ops: list[Op] = [("/embed/Conv", [-1], 192)]

    def add(name: str, *reads: int, channels: int = 192) -> int:
        ops.append((name, list(reads), channels))
        return len(ops) - 1

    last = 0
    for at in (f"/block{block}" for block in range(blocks)):
        norm = add(f"{at}/norm1/LayerNorm", last)
        q, k, v = (add(f"{at}/{name}/Conv", norm) for name in "qkv")
        scores = add(f"{at}/Softmax", add(f"{at}/qk/MatMul", q, k, channels=197), channels=197)
        last = add(f"{at}/Add", last, add(f"{at}/proj/Conv", add(f"{at}/av/MatMul", scores, v)))
        wide = add(f"{at}/fc1/Conv", add(f"{at}/norm2/LayerNorm", last), channels=768)
        last = add(
            f"{at}/mlp/Add", last, add(f"{at}/fc2/Conv", add(f"{at}/Gelu", wide, channels=768))
        )
    return ops


def made_engine(ops: Sequence[Op], draw: random.Random, naming: str) -> tuple[LayerTable, Holds]:
    """Fuse, order and name operations by chance; also tell what each layer holds."""
    host: dict[int, int] = {}  # the operation whose layer an operation is in
    numbers, number = [], 9
    products = {op for op, (name, *_) in enumerate(ops) if name.endswith(("Conv", "MatMul"))}
    for op, (name, reads, _) in enumerate(ops):
        alone = (x for x in reads if op not in products and sum(x in y[1] for y in ops) == 1)
        into = [x for x in alone if host[x] in products]
        host[op] = host[draw.choice(into)] if into and draw.random() < 0.7 else op
        number += draw.choice((1, 1, 4))
        numbers.append(f"{name.split('/')[-1]}_{number}")
    waiting = {x: [op for op in host if host[op] == x] for x in host.values()}
    layers: list[dict[str, Any]] = []
    holds: dict[str, list[int]] = {}
    while waiting:
        needs = {x: {host.get(y) for m in waiting[x] for y in ops[m][1]} - {x} for x in waiting}
        now = draw.choice([x for x in waiting if not needs[x] & waiting.keys()][:2])
        own = waiting.pop(now)
        known = {"same": [ops[m][0] for m in own], "number": [numbers[m] for m in own]}
        other_tool = [f"m/{naming.removeprefix('plain')}{ops[m][0][1:]}" for m in own]
        name = " + ".join(known.get(naming, other_tool))
        read = dict.fromkeys(host.get(y, -1) for m in own for y in ops[m][1])
        source, *also = ((f"t{x}", "fp16") for x in read if x != now)
        side = 56 // (1 + now * 3 // len(ops))
        dims, target = (1, ops[now][2], side, side), (f"t{now}", "fp16")
        if draw.random() < 0.2:
            reformat = f"Reformatting CopyNode for Input Tensor 0 to {name}"
            layers.append(other(reformat, "Reformat", source, (f"r{now}", "fp16")))
            source = (f"r{now}", "fp16")
        layer = conv(name, source, target, also=also, dims=dims)
        kind = "MatrixMultiply" if now in products else "PointWise"
        pointwise = {"LayerType": kind, "ParameterType": kind, "Weights": {}}
        layers.append(layer if "Conv" in ops[now][0] else layer | pointwise)
        holds[name] = own
    return join_layers(None, graph(layers)), lambda layer: holds.get(layer.name, [])


def write_engine(folder: Path, name: str) -> Path:
    """Write ``NAME.profile.json`` and ``NAME.graph.json``; gives the profile."""
    layers = {"fp16": FP16, "int8": INT8}[name]
    times = [(str(layer["Name"]), us * 0.1) for layer, us in layers]
    path = folder / f"{name}.profile.json"
    path.write_text(samples.profile_text(times, count=100))
    document = {"Layers": [layer for layer, _ in layers], "Bindings": ["input", "output"]}
    (folder / f"{name}.graph.json").write_text(json.dumps(document))
    return path
