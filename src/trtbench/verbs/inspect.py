"""Show what a model, an engine or a file of trtexec contains.

FILE is an ONNX file, an engine of any TensorRT version, layer information or a log of trtexec, or
a calibration cache. A multiply-add counts as two operations. Traffic is what
nodes read and write if nothing is fused; fused traffic is only weights, inputs and outputs.

Examples:
  trtbench inspect model.onnx --batch 8
  trtbench inspect model.engine
  trtbench inspect model.engine.build.log
  trtbench inspect graph.json --layers
  trtbench inspect graph.json --top 10
  trtbench inspect model.onnx --csv > nodes.csv
  >>> trtbench.inspect("model.onnx", batch=8).facts["flops"]
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated

from trtbench.core.errors import UsageError
from trtbench.requests.fields import Argument, File, Shapes, VerbRequest, option
from trtbench.verbs._screen import draw, print_json, write
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.analysis.inspection import Inspection

SHOWN_LAYERS = 10


class InspectRequest(VerbRequest, kw_only=False):
    """Show what a model, an engine or a file of trtexec contains."""

    file: Annotated[File, Argument("A model, an engine, or a file of trtexec.", "FILE")]
    _: KW_ONLY
    batch: int | None = option(None, "Batch of dynamic inputs, for estimates.", least=1)
    shapes: Shapes = option(
        {}, "Shape of one input, for estimates; repeat for several.", ("--shape",)
    )


class InspectView(JsonView):
    """How much is shown."""

    layers: bool = option(False, "Show every node or layer.", ("--layers", "--all"))
    top: int | None = option(None, "Show the first N of them.", metavar="N", least=1)
    as_csv: bool = option(False, "Print every node or layer as CSV.", ("--csv",))

    def validate(self) -> None:
        if self.as_csv and self.as_json:
            raise UsageError("--csv and --json cannot be combined", fix="leave one of them out")


def run(request: InspectRequest, caller: Caller) -> Inspection:
    from trtbench.workflows.inspect import inspect

    shapes = {name: tuple(dims) for name, dims in request.shapes.items()}
    return inspect(request.file, shapes=shapes, batch=request.batch)


def show(found: Inspection, request: InspectRequest, view: InspectView) -> None:
    if view.as_json:
        print_json(found)
        return
    if view.as_csv:
        from trtbench.report.renderers.csv import csv_from_lines

        table = found.layers or found.summary
        if table is None:
            raise UsageError("there is no table in this file", fix="--json shows what there is")
        write(csv_from_lines(table.columns, table.rows))
        return
    from trtbench.report.listings import document_from_inspection

    tuned = SHOWN_LAYERS if "tactics_tried" in found.facts else 0  # the layers of a build
    unasked = None if view.layers else tuned
    draw(document_from_inspection(found, most=view.top or unasked))


verb = Verb(InspectRequest, run, show, InspectView)
inspect = python_function(InspectRequest, run)
