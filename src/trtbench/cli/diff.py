"""``trtbench diff``: two engines, layer beside layer."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import flags
from trtbench.cli._layers import draw_option, present, top_options, write_options
from trtbench.cli._options import json_option
from trtbench.workflows.request.explaining import DiffRequest


@click.command("diff", short_help="Two engines layer by layer: what got slower, what was fused.")
@flags(DiffRequest)
@top_options
@write_options
@draw_option
@json_option
def command(
    request: DiffRequest, top: int, show_all: bool, as_csv: bool, output: Path | None,
    draw: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Align the layers of A and B: runs, or files of trtexec (several joined by commas).

    Layers meet by the ONNX nodes they came from, then by name, then by their place in the graph.
    A profile brings along the layer information beside it.

    \b
    Examples:
      trtbench diff tag:fp16 tag:int8
      trtbench diff fp16.profile.json int8.profile.json --all
      trtbench diff old/ new/ --csv
    """
    from trtbench.analysis.layers.columns import rows_from_diff
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.explain.engines import diff_document, diff_of, labels_of, two_engines

    store, _ = open_store_of(request)
    a, b = request.a, request.b
    engines = two_engines(a, b, store=store, onnx=request.onnx, gpu=request.gpu)
    diff, labels = diff_of(*engines), labels_of(a, b)
    document = diff_document(*engines, diff, top=None if show_all else top, labels=labels)
    present(document, rows_from_diff(diff), output=output, as_csv=as_csv, as_json=as_json)
    if draw:
        from trtbench.cli._screen import say
        from trtbench.workflows.explain.drawing import draw_diff

        say(f"drawn: {draw_diff(diff, *engines, draw, labels=labels)}")
