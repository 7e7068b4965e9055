"""The times of the stand-in: drawn by seed, in single precision, exported with six digits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from standin_options import Options

KEYS = (
    "startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs",
    "startD2hMs", "endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs",
)  # fmt: skip
COMPUTE_MS = 0.25
GRAPH_SAVES_MS = 0.02
LAYERS = (
    ("/conv1/Conv + /relu/Relu", "Convolution", 0.42),
    ("{ForeignNode[/attn/MatMul.../attn/Softmax]}", "Myelin", 0.33),
    ("Reformatting CopyNode for Output Tensor 0 to /fc/Gemm", "Reformat", 0.0),
    ("PWN(/act/Sigmoid, /act/Mul)", "PointWiseV2", 0.05),
    ("/fc/Gemm", "MatrixMultiply", 0.20),
)


class Times:
    """One run: stamps in milliseconds as single precision keeps them."""

    def __init__(self, options: Options, *, seed: int, graph: bool, speed: float = 1.0) -> None:
        self.warmup_ms = options.number("--warmUp", 200)
        least = int(options.number("--iterations", 10))
        span_ms = options.number("--duration", 3) * 1e3
        mean = speed * (COMPUTE_MS - (GRAPH_SAVES_MS if graph else 0))
        count = int((self.warmup_ms + max(span_ms, least * mean * 1.5)) / mean * 1.5) + least + 20
        draw = np.random.default_rng(seed)
        compute = mean * draw.lognormal(0, 0.01, count)
        begin = 3.0 + np.concatenate([[0], np.cumsum(compute + 0.004)[:-1]])
        moved = options.transfers
        h2d = (0.02 * draw.lognormal(0, 0.05, count)) if moved else np.zeros(count)
        d2h = (0.006 * draw.lognormal(0, 0.05, count)) if moved else np.zeros(count)
        enqueue = (0.005 if graph else 0.12) * draw.lognormal(0, 0.1, count)
        ends = begin + compute
        stamps = (
            (begin - 0.3, begin - 0.3 + enqueue),
            (begin - h2d - (0.001 if moved else 0), begin - (0.001 if moved else 0)),
            (begin, ends),
            (ends + (0.001 if moved else 0), ends + (0.001 if moved else 0) + d2h),
        )
        single = [each.astype(np.float32) for pair in stamps for each in pair]
        first = int(np.argmax(begin >= self.warmup_ms))
        late = np.nonzero(begin >= self.warmup_ms + span_ms)[0]
        last = max(first + least, int(late[0]) if len(late) else count)
        self.warmup_rows = first
        self.printed = self._printed([column[first:last] for column in single])

    @staticmethod
    def _printed(stamps: list[Any]) -> dict[str, list[str]]:
        h2d, compute, d2h = (stamps[i + 1] - stamps[i] for i in (2, 4, 6))
        columns = [*stamps, h2d, compute, d2h, h2d + compute + d2h]
        return {
            key: [f"{value:.6g}" for value in column.tolist()]
            for key, column in zip(KEYS, columns, strict=True)
        }

    @property
    def columns(self) -> dict[str, Any]:
        """What a reader of the exported file gets."""
        return {key: np.array(texts, dtype=np.float64) for key, texts in self.printed.items()}

    def json(self) -> str:
        """Write the export in trtexec's own layout."""
        rows = zip(*self.printed.values(), strict=True)
        lines = [
            "{ "
            + ", ".join(f'"{key}" : {text}' for key, text in zip(KEYS, row, strict=True))
            + " }"
            for row in rows
        ]
        return "[\n  " + "\n, ".join(lines) + "\n]\n"


def profile(*, count: int) -> list[dict[str, Any]]:
    """Find the layers of one profiling pass, in milliseconds."""
    total = COMPUTE_MS * 1.2 * count
    return [
        {
            "name": name,
            "timeMs": total * share,
            "averageMs": total * share / count,
            "medianMs": total * share / count * 0.99,
            "percentage": share * 100,
        }
        for name, _, share in LAYERS
    ]


def profile_json(layers: list[dict[str, Any]], *, count: int) -> str:
    records = [f'{{ "count" : {count} }}']
    for layer in layers:
        name = layer["name"]
        numbers = ", ".join(f'"{key}" : {layer[key]:.6g}' for key in list(layer)[1:])
        records.append(f'{{ "name" : "{name}", {numbers} }}')
    return "[\n  " + "\n, ".join(records) + "\n]\n"


def layer_info(*, major: int, detailed: bool, shape: list[int], kernel: float = 0.001) -> str:
    """Write what the inspector of one version says of the engine."""
    if not detailed:
        layers: list[Any] = [name for name, _, _ in LAYERS]
    else:
        layers = [
            _layer(name, kind, major=major, shape=shape, kernel=kernel) for name, kind, _ in LAYERS
        ]
    document: dict[str, Any] = {"Layers": layers}
    document["I/O Tensors" if major >= 11 else "Bindings"] = ["input", "output"]
    return json.dumps(document, indent=1)


def _layer(name: str, kind: str, *, major: int, shape: list[int], kernel: float) -> dict[str, Any]:
    flattened = kind == "Myelin" and major >= 10
    tensor: dict[str, Any] = {"Name": f"{name}_output", "Dimensions": shape}
    if flattened:
        return {
            "Name": name,
            "LayerType": "kgen",
            "Outputs": [{**tensor, "Format/Datatype": "Half"}],
        }
    tensor |= {"Location": "Device", "Format/Datatype": "Row major linear FP32"}
    return {
        "Name": name,
        "LayerType": kind,
        "Inputs": [],
        "Outputs": [tensor],
        "ParameterType": kind,
        "TacticValue": f"0x{round(1000 * kernel) if kind == 'Convolution' else 1:016x}",
        "StreamId": 0,
        "Metadata": f"[ONNX Layer: {name.split(' ')[0]}]",
    }


def write(path: str, text: str, *, truncated: bool) -> None:
    if path:
        Path(path).write_text(text[: len(text) * 2 // 3] if truncated else text, "utf-8")
