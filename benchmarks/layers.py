"""How long 3 000 layers take to be joined, aligned with another engine, explained and drawn.

python benchmarks/layers.py                 a network of 3 000 layers, twice, in one process
python benchmarks/layers.py --layers 1000   another size
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

LAYERS = 3000
LIMIT_S = 3.0
LIMIT_MB = 300

T = TypeVar("T")


def engine(layers: int, *, seed: int, precision: str) -> tuple[bytes, bytes]:
    """Make a profile and layer information: blocks with residuals, Q/DQ where it is INT8."""
    draw = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    tensor, before, number = "input", "input", 0
    while len(found) < layers:
        block = f"/block{number // 4}/layer{number}"
        if precision == "int8" and number % 3 == 0:
            found.append(_layer(f"Reformatting CopyNode for Input Tensor 0 to {block}/Conv",
                                "Reformat", [tensor], f"q{number}", "Int8", []))  # fmt: skip
            tensor = f"q{number}"
        nodes = [f"{block}/Conv", f"{block}/Relu"]
        name = " + ".join(nodes)
        found.append(
            _layer(name, "CaskConvolution", [tensor, before], f"t{number}", precision, nodes)
        )
        if number % 3 == 2:
            before = f"t{number}"
        tensor = f"t{number}"
        number += 1
    rows = [
        f'{{ "name" : "{each["Name"]}", "timeMs" : {100 * ms:g}, "averageMs" : {ms:g}, '
        f'"medianMs" : {ms:g}, "percentage" : 0.1 }}'
        for each, ms in zip(found, draw.gamma(2, 0.01, len(found)), strict=True)
    ]
    profile = '[\n  { "count" : 100 }\n, ' + "\n, ".join(rows) + "\n]\n"
    graph = json.dumps({"Layers": found, "Bindings": ["input"]})
    return profile.encode(), graph.encode()


def _layer(
    name: str, kind: str, sources: list[str], target: str, precision: str, nodes: list[str]
) -> dict[str, Any]:
    words = {"fp16": "Half", "int8": "Int8"}.get(precision, precision)
    tactic = {
        "int8": "sm80_xmma_fprop_i8i8_i8i32_f32_nchw",
        "fp16": "sm80_xmma_f16f16_f16f16_f16_x",
    }
    return {
        "Name": name,
        "LayerType": kind,
        "Inputs": [_tensor(each, words) for each in dict.fromkeys(sources)],
        "Outputs": [_tensor(target, words)],
        "TacticName": tactic.get(precision, "0x01"),
        "StreamId": 0,
        "Metadata": "\x1e".join(f"[ONNX Layer: {each}]" for each in nodes),
    }


def _tensor(name: str, words: str) -> dict[str, Any]:
    return {"Name": name, "Dimensions": [1, 64, 56, 56], "Format/Datatype": words}


def timed(name: str, work: Callable[[], T]) -> tuple[T, float]:
    """Time one step by the processor's clock: others on the machine do not count."""
    begin, wall = time.process_time(), time.perf_counter()
    found = work()
    seconds = time.process_time() - begin
    print(f"{name:<32} {seconds:8.3f} s   ({time.perf_counter() - wall:.3f} s on the wall)")
    return found, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=LAYERS)
    count = parser.parse_args().layers
    files = [engine(count, seed=seed, precision=each) for seed, each in ((1, "fp16"), (2, "int8"))]
    from trtbench.layers.cost import peak_of, with_rates
    from trtbench.layers.diff import difference, why
    from trtbench.layers.join import join_layers
    from trtbench.report.engine_svg import svg_from_engine
    from trtbench.trtexec.exports import graph_from_json, profiles_from_json

    def joined() -> list[Any]:
        return [
            with_rates(
                join_layers(
                    profiles_from_json(profile, where="profile")[0],
                    graph_from_json(graph, where="graph"),
                ),
                peak_of("NVIDIA H200"),
            )
            for profile, graph in files
        ]

    (a, b), first = timed("read and join both", joined)
    _, second = timed("align", lambda: difference(a, b))
    _, third = timed("say why", lambda: why(a, b))
    svg, fourth = timed("draw one", lambda: svg_from_engine(b, title="engine"))
    total = first + second + third + fourth
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'all together':<32} {total:8.3f} s   (at most {LIMIT_S:g} s wanted)")
    print(f"{'peak memory':<32} {peak_mb:8.0f} MB  (at most {LIMIT_MB} MB wanted)")
    print(f"{'drawing':<32} {len(svg) / 1e6:8.2f} MB")
    if count == LAYERS and (total > LIMIT_S or peak_mb > LIMIT_MB):
        raise SystemExit("over the limit")


if __name__ == "__main__":
    main()
