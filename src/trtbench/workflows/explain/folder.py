"""The files of one engine in a folder that is no run, as trt-engine-explorer's users keep them."""

from __future__ import annotations

from pathlib import Path

from trtbench.errors import InputError, UsageError
from trtbench.workflows.importing.find import FoundFile, found_from_path, plain

USED = ("profile", "layers", "log", "times", "metadata", "device", "toolkit-layers")
"""Kinds of files that tell something of layers or of the whole around them."""
_TIMED = ("profile", "toolkit-layers")
MOST_NAMED = 4


def files_of_engine(folder: Path) -> list[FoundFile]:
    """Find the layer times, the layer information and what bears their name, of one engine."""
    found = list(_readable(folder))
    timed = [each for each in found if each.kind in _TIMED]
    graphs = [each for each in found if each.kind == "layers"]
    leading = timed or graphs
    if not leading:
        raise InputError(
            f"{plain(folder)} holds neither a run nor layer times nor layer information",
            fix="trtexec --exportProfile=profile.json --exportLayerInfo=graph.json "
            "--profilingVerbosity=detailed",
        )
    keys = list(dict.fromkeys(each.key for each in leading))
    if len(keys) > 1:
        names = [plain(each.path.name) for each in leading]
        raise UsageError(
            f"{plain(folder)} holds the layers of {len(keys)} engines",
            facts={"files": ", ".join(names[:MOST_NAMED]) + (", …" if names[MOST_NAMED:] else "")},
            fix=f"name one of them: {plain(leading[0].path)}",
        )
    alone = graphs if timed and len(graphs) == 1 else []
    return [each for each in found if each.key == keys[0] or each in alone]


def _readable(folder: Path) -> list[FoundFile]:
    found = []
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        try:
            each = found_from_path(path, named=False)
        except InputError:
            continue
        if each.kind in (*USED, "onnx"):
            found.append(each)
    return found
