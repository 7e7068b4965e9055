"""``trtbench inspect``: what a file holds, and whether it would load here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import json_option, shapes_from_flags, store_option
from trtbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trtbench.analysis.inspection import Inspection, Table
    from trtbench.domain.result import Scalar
    from trtbench.domain.spec import TensorSpec


@click.command("inspect", short_help="Show what a model, an engine, a file or a run holds.")
@click.argument("file")
@click.option("--layers", is_flag=True, help="Show every node or layer.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every node or layer as CSV.")
@click.option("--batch", type=click.IntRange(min=1), help="Open leading dimensions, for estimates.")
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:1x3x224x224",
    help="Shape of one input, for estimates; repeat for several.",
)  # fmt: skip
@click.option(
    "--onnx", type=click.Path(path_type=Path, exists=True),
    help="The ONNX file an engine was built from, to compare parameters with.",
)  # fmt: skip
@store_option
@json_option
def command(**flags: Any) -> None:
    """Show what FILE holds: an ONNX file, an engine of any TensorRT, a JSON file of trtexec, a
    calibration cache, a run directory, or a run by its id.

    Operations count a multiply-add as two. Traffic is what nodes read and write when nothing is
    fused; fused traffic is weights, inputs and outputs alone.

    \b
    Examples:
      trtbench inspect model.onnx --batch 8
      trtbench inspect model.engine
      trtbench inspect graph.json --onnx model.onnx --layers
      trtbench inspect model.onnx --csv > nodes.csv
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.look.inspect import inspect
    from trtbench.workflows.request.config import open_store

    if flags["as_csv"] and flags["as_json"]:
        raise UsageError("--csv and --json cannot be had at once")
    config = load_config(store=flags["store"])
    # A file needs no store, which may be somebody else's or read-only.
    store = None if Path(flags["file"]).exists() else open_store(config)
    found = inspect(
        flags["file"],
        store=store,
        shapes=shapes_from_flags(flags["shapes"]),
        batch=flags["batch"],
        onnx=flags["onnx"],
    )
    if flags["as_json"]:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value(found).decode(), nl=False)
    elif flags["as_csv"]:
        click.echo(_csv(found.layers or found.summary), nl=False)
    else:
        _show(found, layers=flags["layers"])


def _csv(table: Table | None) -> str:
    """Plain numbers: seconds and bytes, as the names of the columns say."""
    from trtbench.report.csv_lines import csv_from_lines

    if table is None:
        raise UsageError("there is no table in this file", fix="--json shows what there is")
    return csv_from_lines(table.columns, table.rows)


def _show(found: Inspection, *, layers: bool) -> None:
    from trtbench.cli._screen import result_console

    console = result_console()
    known = {name: value for name, value in found.facts.items() if value is not None}
    width = max((len(_title(name)) for name in ("kind", *known)), default=4)
    console.print(f"{'kind':<{width}}  {found.kind}", markup=False)
    for name, value in known.items():
        console.print(f"{_title(name):<{width}}  {_cell(name, value)}", markup=False)
    for title, tensors in (("input", found.inputs), ("output", found.outputs)):
        for text in _tensors(tensors):
            console.print(f"{title:<{width}}  {text}", markup=False)
    for table in (found.summary, found.layers if layers else None):
        if table is not None and table.rows:
            console.print()
            console.print(_rich_table(table))
    for note in found.notes:
        console.print(note, style="yellow", markup=False)


def _tensors(tensors: Sequence[TensorSpec]) -> list[str]:
    shapes = (", ".join("?" if d is None else str(d) for d in each.shape) for each in tensors)
    return [
        f"{each.name}  {each.dtype}  [{shape}]" for each, shape in zip(tensors, shapes, strict=True)
    ]


def _rich_table(table: Table) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(table.columns):
        left = any(isinstance(row[index], str) for row in table.rows)
        shown.add_column(_title(name), justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        # Plain text: layer names hold brackets, which rich would read as markup.
        shown.add_row(*(Text(_cell(n, c)) for n, c in zip(table.columns, row, strict=True)))
    return shown


def _title(name: str) -> str:
    if name.endswith("_per_s"):
        return name.removesuffix("_per_s").replace("_", " ") + "/s"
    for ending in ("_bytes", "_s"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _cell(name: str, value: Scalar) -> str:
    """Write a value in the unit that its name tells."""
    from trtbench.units import text_from_bytes, text_from_fraction, text_from_seconds

    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    if name.endswith("_bytes"):
        return text_from_bytes(value)
    if name.endswith("_per_s"):
        return f"{value:,.1f}".replace(",", " ")
    if name.endswith("_s"):
        return text_from_seconds(value)
    if name.endswith("share"):
        return text_from_fraction(value, digits=1)
    if name == "flops":
        return _scaled(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}".replace(",", " ")


def _scaled(value: float) -> str:
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:g}"
