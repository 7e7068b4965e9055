"""``trtbench layers``: where the time of an engine goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._layers import (
    draw_option,
    expect_options,
    hold,
    present,
    top_options,
    write_options,
)
from trtbench.cli._options import json_option
from trtbench.workflows.request.explaining import LayersRequest

if TYPE_CHECKING:
    from trtbench.report.drawing.engine import Colour


@click.command("layers", short_help="Where the time goes: the layers of a run or of files.")
@flags(LayersRequest)
@top_options
@expect_options
@write_options
@draw_option
@click.option(
    "--colour",
    type=click.Choice(["time", "precision", "roofline"]),
    default="time",
    show_default=True,
    help="What colours say in the drawing.",
)
@json_option
def command(
    request: LayersRequest, top: int, show_all: bool, expectations: tuple[str, ...],
    junit: Path | None, as_csv: bool, output: Path | None, draw: Path | None, colour: Colour,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the layers of SOURCE: a run, or files of trtexec (profile, layer information, ONNX).

    \b
    Examples:
      trtbench layers last
      trtbench layers profile.json graph.json model.onnx --by precision
      trtbench layers net.profile.json --by '/layer3/*,/layer4/*' \\
          --gpu 'NVIDIA H200'
      trtbench layers last --expect 'share(precision=int8)>=80%' \\
          --junit layers.xml
      trtbench layers last --all -o layers.parquet
      trtbench layers last --draw engine.svg --colour precision
    """
    from trtbench.analysis.layers.expect import judge_all
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.explain.layers import layer_rows, layers_document
    from trtbench.workflows.explain.source import engine_from_words

    store, _ = open_store_of(request)
    engine = engine_from_words(request.source, store=store, onnx=request.onnx, gpu=request.gpu)
    results = judge_all(expectations, engine.table, engine.facts)
    by, pattern, sort = request.by, request.filter, request.sort or "time"
    most = None if show_all else top
    document = layers_document(engine, by=by, pattern=pattern, sort=sort, top=most)
    rows = layer_rows(engine, by=by, pattern=pattern, sort=sort)
    present(document, rows, output=output, as_csv=as_csv, as_json=as_json)
    if draw:
        from trtbench.cli._screen import say
        from trtbench.workflows.explain.drawing import draw_engine

        say(f"drawn: {draw_engine(engine, draw, colour=colour)}")
    err = as_json or as_csv
    hold(results, junit=junit, suite=f"trtbench layers {engine.label}", err=err)
