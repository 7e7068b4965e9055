"""Files as trtexec writes them, of a small network of our own: an FP16 engine and an INT8 one."""

import json
from pathlib import Path

from layer_sets import FP16, INT8

import samples


def write_engine(folder: Path, name: str) -> Path:
    """Write ``NAME.profile.json`` and ``NAME.graph.json``; gives the profile."""
    layers = {"fp16": FP16, "int8": INT8}[name]
    times = [(str(layer["Name"]), us * 0.1) for layer, us in layers]
    path = folder / f"{name}.profile.json"
    path.write_text(samples.profile_text(times, count=100))
    document = {"Layers": [layer for layer, _ in layers], "Bindings": ["input", "output"]}
    (folder / f"{name}.graph.json").write_text(json.dumps(document))
    return path
