"""``trtbench layers``: where the time of an engine goes."""

from __future__ import annotations

from typing import Any

import click

from trtbench.cli._layers import (
    draw_option,
    engine_options,
    expect_options,
    hold,
    present,
    top_of,
    top_options,
    write_options,
)
from trtbench.cli._options import json_option, store_option


@click.command("layers", short_help="Where the time goes: the layers of a run or of files.")
@click.argument("source", nargs=-1, required=True)
@click.option("--by", metavar="KEY", help="Group by kind, precision, role, node, block or '/a/*'.")
@click.option("--filter", "pattern", metavar="PATTERN", help="Only layers or nodes that fit.")
@click.option(
    "--sort",
    type=click.Choice(["time", "order", "roofline"]),
    default="time",
    show_default=True,
    help="Slowest first, as they run, or farthest from the roofline first.",
)
@top_options
@engine_options
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
@store_option
@json_option
def command(source: tuple[str, ...], **flags: Any) -> None:
    """Show the layers of SOURCE: a run, or files of trtexec (profile, layer information, ONNX).

    \b
    Examples:
      trtbench layers last
      trtbench layers profile.json graph.json model.onnx --by precision
      trtbench layers net.profile.json --by '/layer3/*,/layer4/*' --gpu 'NVIDIA H200'
      trtbench layers last --expect 'share(precision=int8)>=80%' --junit layers.xml
      trtbench layers last --all -o layers.parquet
      trtbench layers last --draw engine.svg --colour precision
    """
    from trtbench.analysis.layers.expect import judge_all
    from trtbench.workflows.explain.layers import layer_rows, layers_document
    from trtbench.workflows.explain.source import engine_from_words
    from trtbench.workflows.request.config import load_config, open_store

    store = open_store(load_config(store=flags["store"]))
    engine = engine_from_words(source, store=store, onnx=flags["onnx"], gpu=flags["gpu"])
    results = judge_all(flags["expectations"], engine.table, engine.facts)
    chosen = {"by": flags["by"], "pattern": flags["pattern"], "sort": flags["sort"]}
    document = layers_document(engine, **chosen, top=top_of(flags))
    present(document, layer_rows(engine, **chosen), flags)
    if flags["draw"]:
        from trtbench.cli._screen import say
        from trtbench.workflows.explain.drawing import draw_engine

        say(f"drawn: {draw_engine(engine, flags['draw'], colour=flags['colour'])}")
    hold(results, flags, suite=f"trtbench layers {engine.label}")
