"""``trtbench inspect``: what a file holds, and whether it would load here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.errors import UsageError
from trtbench.workflows.request.keeping import InspectRequest

if TYPE_CHECKING:
    from trtbench.analysis.inspection import InspectionTable


@click.command("inspect", short_help="Show what a model, an engine, a file or a run holds.")
@flags(InspectRequest)
@click.option("--layers", "--all", "layers", is_flag=True, help="Show every node or layer.")
@click.option("--top", type=click.IntRange(min=1), help="Show the first so many of them.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every node or layer as CSV.")
@json_option
def command(
    request: InspectRequest, layers: bool, top: int | None, as_csv: bool, as_json: bool
) -> None:
    """Show what FILE holds: an ONNX file, an engine of any TensorRT, a JSON file of trtexec, a
    calibration cache, a run directory, or a run by its id.

    Operations count a multiply-add as two. Traffic is what nodes read and write when nothing is
    fused; fused traffic is weights, inputs and outputs alone.

    \b
    Examples:
      trtbench inspect model.onnx --batch 8
      trtbench inspect model.engine
      trtbench inspect model.engine --load
      trtbench inspect graph.json --onnx model.onnx --layers
      trtbench inspect graph.json --top 10
      trtbench inspect model.onnx --csv > nodes.csv
    """
    from trtbench.cli._settings import load_config, open_store
    from trtbench.workflows.look.inspect import inspect

    if as_csv and as_json:
        raise UsageError("--csv and --json cannot be had at once", fix="leave one of them out")
    config = load_config(store=request.store)
    # A file needs no store, which may be somebody else's or read-only.
    store = None if Path(request.file).exists() else open_store(config)
    found = inspect(
        request.file,
        store=store,
        shapes={name: tuple(dims) for name, dims in request.shapes.items()},
        batch=request.batch,
        onnx=Path(request.onnx) if request.onnx else None,
        load=config if request.load else None,
    )
    if as_json:
        from trtbench.cli._screen import print_json

        print_json(found)
    elif as_csv:
        click.echo(_csv(found.layers or found.summary), nl=False)
    else:
        from trtbench.analysis.inspection import first_layers
        from trtbench.cli._screen import show
        from trtbench.report.documents.inspection import document_from_inspection

        shown = first_layers(found, top)
        show(document_from_inspection(shown, layers=layers or top is not None))


def _csv(table: InspectionTable | None) -> str:
    """Write plain numbers: seconds and bytes, as the names of the columns say."""
    from trtbench.report.csv_lines import csv_from_lines

    if table is None:
        raise UsageError("there is no table in this file", fix="--json shows what there is")
    return csv_from_lines(table.columns, table.rows)
