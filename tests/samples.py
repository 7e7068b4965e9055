"""Small files of our own in the layout of every version of trtexec, and damaged ones."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

STAMPED = {
    "7.0": ("In", "Compute", "Out"),
    "7.1": ("Enq", "In", "Compute", "Out"),
    "8.0": ("Enq", "H2d", "Compute", "D2h"),
    "8.4": ("Enq", "H2d", "Compute", "D2h"),
    "8.5": ("Enq", "H2d", "Compute", "D2h"),
}
DURATIONS = {
    "7.0": ("inMs", "computeMs", "outMs", "latencyMs", "endToEndMs"),
    "7.1": ("inMs", "computeMs", "outMs", "latencyMs", "endToEndMs"),
    "8.0": ("h2dMs", "computeMs", "d2hMs", "latencyMs", "endToEndMs"),
    "8.4": ("h2dMs", "computeMs", "d2hMs", "latencyMs"),
    "8.5": ("h2dMs", "computeMs", "d2hMs", "latencyMs"),
}
ENQUEUE_MS = 0.25
STEP_MS = 10.0


def times_rows(
    variant: str, *, rows: int = 40, first_ms: float = 2.0, transfers: bool = True
) -> list[dict[str, float]]:
    """Make rows ten milliseconds apart whose compute time grows by 1 µs from row to row."""
    return [
        _row(variant, at_ms=first_ms + index * STEP_MS, gpu_ms=2 + index / 1000, moved=transfers)
        for index in range(rows)
    ]


def _row(variant: str, *, at_ms: float, gpu_ms: float, moved: bool) -> dict[str, float]:
    h2d, d2h = (0.5, 0.125) if moved else (0.0, 0.0)
    ends = [at_ms, at_ms + h2d, at_ms + h2d + gpu_ms, at_ms + h2d + gpu_ms + d2h]
    spans = {
        "Enq": (at_ms - 1, at_ms - 1 + ENQUEUE_MS),
        "H2d": (ends[0], ends[1]),
        "Compute": (ends[1], ends[2]),
        "D2h": (ends[2], ends[3]),
    }
    spans |= {"In": spans["H2d"], "Out": spans["D2h"]}
    if variant == "7.1":  # trtexec wrote each pair under the name of the other
        spans["Enq"], spans["In"] = spans["In"], spans["Enq"]
    row = {}
    for phase in STAMPED[variant]:
        row[f"start{phase}Ms"], row[f"end{phase}Ms"] = spans[phase]
    values = (h2d, gpu_ms, d2h, h2d + gpu_ms + d2h, ends[3] - ends[0])
    return row | dict(zip(DURATIONS[variant], values, strict=False))


def times_text(rows: list[dict[str, float]]) -> str:
    """Write rows as trtexec does, with six significant digits."""
    lines = [
        "{ " + ", ".join(f'"{key}" : {value:.6g}' for key, value in row.items()) + " }"
        for row in rows
    ]
    return "[\n  " + "\n, ".join(lines) + "\n]\n"


def times_file(variant: str, **options: object) -> bytes:
    if variant == "8.5":
        options = {"first_ms": 200.5, **options}
    return times_text(times_rows(variant, **options)).encode()  # type: ignore[arg-type]


def profile_text(layers: list[tuple[str, float]], *, count: int = 100, medians: bool = True) -> str:
    """Write a profile as trtexec does: names as they are, nan for the share of nothing."""
    total = sum(time_ms for _, time_ms in layers)
    lines = [f'{{ "count" : {count} }}']
    for name, time_ms in layers:
        median = f' "medianMs" : {time_ms / count:.6g},' if medians else ""
        share = f"{time_ms / total * 100:.6g}" if total else "-nan"
        lines.append(
            f'{{ "name" : "{name}", "timeMs" : {time_ms:.6g}, '
            f'"averageMs" : {time_ms / count:.6g},{median} "percentage" : {share} }}'
        )
    return "[\n  " + "\n, ".join(lines) + "\n]\n"


LAYERS = [
    ("conv1 + relu1", 42.5),
    ("{ForeignNode[a.weight...(Unnamed Layer* 7) [Shuffle]]}", 7.5),
    ("PWN(sigmoid, mul) || conv2", 0.0),
    ("conv1 + relu1", 50.0),
]


def tensor(name: str, wording: str = "Row major linear FP16 format") -> dict[str, object]:
    return {
        "Name": name,
        "Location": "Device",
        "Dimensions": [1, 3, 8, 8],
        "Format/Datatype": wording,
    }


def graph(version: str) -> dict[str, object]:
    """Make layer information as the inspector of a version words it."""
    if version == "names":
        return {"Layers": ["conv1", "relu1"], "Bindings": ["x", "y"]}
    conv: dict[str, object] = {
        "Name": "conv1 + relu1",
        "LayerType": "CaskConvolution",
        "Inputs": [tensor("x")],
        "Outputs": [tensor("t", "Channel major FP16 format where channel % 8 == 0")],
        "ParameterType": "Convolution",
        "Weights": {"Type": "Half", "Count": 216},
        "Bias": {"Type": "Half", "Count": 8},
        "TacticName": "sm80_something",
        "TacticValue": "0x01",
    }
    if version == "8.4":
        return {"Layers": [conv], "Bindings": ["x", "y"]}
    conv |= {"StreamId": 0, "Metadata": "[ONNX Layer: /conv1]\x1e[ONNX Layer: /relu1]"}
    if version == "8.6":
        return {"Layers": [conv], "Bindings": ["x", "y"]}
    myelin: dict[str, object] = {
        "Name": "__myl_Fc_0",
        "LayerType": "gemm",
        "Inputs": [{"Name": "t", "Dimensions": [1, 8], "Format/Datatype": "Half"}],
        "Outputs": [{"Name": "y", "Dimensions": [1, 2], "Format/Datatype": "Float"}],
        "TacticName": "gemm_kernel",
        "StreamId": 1,
        "Metadata": "[ONNX Layer: /fc]\x1f[ONNX Layer: /add]\x1f[ONNX Layer: /fc]",
    }
    if version == "10":
        return {"Layers": [conv, myelin], "Bindings": ["x", "y"]}
    split = {"Name": "x", "Dimensions": [1, 3, 8, 8], "Format": "Linear", "DataType": "BFloat16"}
    return {
        "Layers": [{**conv, "Inputs": [split]}, myelin],
        "I/O Tensors": [
            {"Name": "x", "IOMode": "INPUT", "DataType": "BFloat16", "Dimensions": [1, 3, 8, 8]},
            {"Name": "y", "IOMode": "OUTPUT", "DataType": "Float", "Dimensions": [1, 2]},
        ],
        "ProfilingVerbosity": "DETAILED",
    }


CALIBRATION = (
    "TRT-8601-EntropyCalibration2\n"
    "images:0: 3c010a14\nblock::conv [0]: 3f800000\nblock::conv [0]: 40000000\n"
    "sample: 0\nwild: 7f800000\nlost: 7fc00000\n"
)


def plan_head(flavour: bytes = b"ftrt", version: bytes = b"\x0a\x03\x00\x1a") -> bytes:
    head = bytearray(64)
    head[:4] = flavour
    head[24:28] = version
    if flavour == b"vtrt":
        struct.pack_into("<Q", head, 16, 123456)
        struct.pack_into("<I", head, 32, 0x7E)
        struct.pack_into("<Q", head, 56, 1000)
    return bytes(head)


def every_file() -> dict[str, bytes]:
    """Write one small file of each kind and schema, by a name that tells which."""
    files = {f"times {variant}": times_file(variant, rows=4) for variant in STAMPED}
    files |= {
        "times twice": times_file("8.5", rows=3) * 2,
        "times toolkit": json.dumps({"times": times_rows("8.5", rows=3)}).encode(),
        "profile 7": profile_text(LAYERS, medians=False).encode(),
        "profile 8.4": profile_text(LAYERS).encode(),
        "profile series": json.dumps({"a": [1.0, 2.0], "b": [0.5, 0.5]}).encode(),
        "calibration": CALIBRATION.encode(),
        "plan": plan_head(),
        "plan rtx": plan_head(b"vtrt"),
    }
    for version in ("names", "8.4", "8.6", "10", "11"):
        files[f"layers {version}"] = json.dumps(graph(version), indent=1).encode()
    return files


def readers() -> dict[str, Callable[[bytes], object]]:
    """Find the reader of each kind, by the first word of the names above."""
    from trtbench.trtexec import exports, times, version

    return {
        "times": lambda data: times.times_from_arrays(times.read_times(data, where="f")),
        "profile": lambda data: exports.profiles_from_json(data, where="f"),
        "layers": lambda data: exports.graph_from_json(data, where="f"),
        "calibration": lambda data: exports.calibration_from_text(data, where="f"),
        "plan": lambda data: version.plan_from_bytes(data, where="f"),
    }


def artefact_files(folder: Path, kind: str) -> Iterator[Path]:
    """Find the real files that their content says are of a kind."""
    from trtbench.trtexec.sniff import HEAD_BYTES, kind_of

    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if kind_of(file.read(HEAD_BYTES), name=path.name) == kind:
                    yield path
