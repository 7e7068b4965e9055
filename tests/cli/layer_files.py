"""Files as trtexec writes them, of a small network of our own: an FP16 engine and an INT8 one."""

import json
from pathlib import Path

from layer_sets import conv, other

import samples

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


def write_engine(folder: Path, name: str) -> Path:
    """Write ``NAME.profile.json`` and ``NAME.graph.json``; gives the profile."""
    layers = {"fp16": FP16, "int8": INT8}[name]
    times = [(str(layer["Name"]), us * 0.1) for layer, us in layers]
    path = folder / f"{name}.profile.json"
    path.write_text(samples.profile_text(times, count=100))
    document = {"Layers": [layer for layer, _ in layers], "Bindings": ["input", "output"]}
    (folder / f"{name}.graph.json").write_text(json.dumps(document))
    return path
