"""``trtbench diff``: two engines, layer beside layer."""

from __future__ import annotations

from typing import Any

import click

from trtbench.cli._layers import (
    draw_option,
    engine_options,
    present,
    top_of,
    top_options,
    write_options,
)
from trtbench.cli._options import json_option, store_option


@click.command("diff", short_help="Two engines layer by layer: what got slower, what was fused.")
@click.argument("a")
@click.argument("b")
@top_options
@engine_options
@write_options
@draw_option
@store_option
@json_option
def command(a: str, b: str, **flags: Any) -> None:
    """Align the layers of A and B: runs, or files of trtexec (several joined by commas).

    Layers meet by the ONNX nodes they came from, then by name, then by their place in the graph.
    A profile brings along the layer information beside it.

    \b
    Examples:
      trtbench diff tag:fp16 tag:int8
      trtbench diff fp16.profile.json int8.profile.json --all
      trtbench diff old/profile.json,old/graph.json new/profile.json,new/graph.json --csv
    """
    from trtbench.analysis.layers.columns import rows_from_diff
    from trtbench.workflows.explain.engines import diff_document, diff_of, labels_of, two_engines
    from trtbench.workflows.request.config import load_config, open_store

    store = open_store(load_config(store=flags["store"]))
    engines = two_engines(a, b, store=store, onnx=flags["onnx"], gpu=flags["gpu"])
    diff = diff_of(*engines)
    labels = labels_of(a, b)
    document = diff_document(*engines, diff, top=top_of(flags), labels=labels)
    present(document, rows_from_diff(diff), flags)
    if flags["draw"]:
        from trtbench.cli._screen import say
        from trtbench.workflows.explain.drawing import draw_diff

        say(f"drawn: {draw_diff(diff, *engines, flags['draw'], labels=labels)}")
