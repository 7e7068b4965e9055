"""Draw engines: places by Graphviz where it is installed, by our own layout otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

from trtbench.analysis.layers.difference import EngineDiff
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.placement import Placement, dot_from_layers, placement_from_plain
from trtbench.errors import UsageError
from trtbench.host.files import write_output
from trtbench.host.process import run_process
from trtbench.host.unfinished import temporary_folder
from trtbench.report.drawing.engine import Colour, svg_from_engine
from trtbench.report.drawing.engines import svg_from_diff
from trtbench.workflows.explain.source import EngineSource

DOT_S = 20.0
MOST_FOR_DOT = 600
"""Layers up to which Graphviz places them: beyond, its picture is a ribbon metres long."""


def draw_engine(engine: EngineSource, path: Path, *, colour: Colour = "time") -> Path:
    """Write an engine as SVG."""
    placement = placed_by_dot(engine.table)
    svg = svg_from_engine(engine.table, title=engine.label, colour=colour, placement=placement)
    return _written(svg, path)


def draw_diff(
    diff: EngineDiff, a: EngineSource, b: EngineSource, path: Path, *, labels: tuple[str, str]
) -> Path:
    """Write two engines as one SVG."""
    return _written(svg_from_diff(diff, a.table, b.table, labels=labels), path)


def placed_by_dot(table: LayerTable) -> Placement | None:
    """Let Graphviz place the layers; ``None`` where it is not there or does not manage."""
    binary = shutil.which("dot")
    if binary is None or len(table.layers) > MOST_FOR_DOT:
        return None
    with temporary_folder() as folder:
        source, log, plain = (folder / name for name in ("in.dot", "log.txt", "out.txt"))
        source.write_text(dot_from_layers(table), encoding="utf-8")
        try:
            command = [binary, "-Tplain", str(source), "-o", str(plain)]
            end = run_process(command, log=log, timeout_s=DOT_S)
            text = plain.read_text("utf-8", "replace") if end.status == 0 else ""
        except OSError:
            return None
    return placement_from_plain(text, table)


def _written(svg: str, path: Path) -> Path:
    if path.suffix.lower() != ".svg":
        raise UsageError(f"{path.name} is no name for a drawing", fix=f"{path.stem}.svg")
    return write_output(path, svg)
