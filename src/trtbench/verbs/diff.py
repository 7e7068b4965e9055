"""Compare two engines layer by layer: what got slower, what was fused.

A and B are runs, or files of trtexec (several joined by commas). Layers are matched by the ONNX
nodes they came from, by kind and shape, and by their position in the graph. For a profile, the
layer information in the same folder is read too. Times are medians; which engine is faster is
judged by GPU time where both have it. --why ranks the causes why B is not faster than A, or not
faster still, by the share of the missing time that they explain.

Examples:
  trtbench diff tag:fp16 tag:int8
  trtbench diff fp16.profile.json int8.profile.json --all
  trtbench diff old/ new/ --csv
  trtbench diff tag:fp16 tag:int8 --why
  trtbench diff fp16.profile.json int8.profile.json --why --gpu 'NVIDIA H200'
  >>> trtbench.diff("tag:fp16", "tag:int8")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trtbench.requests import fields
from trtbench.requests.fields import FILE, Argument, File, option
from trtbench.verbs._screen import draw, print_json, say, write
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.layers.diff import Why
    from trtbench.workflows.engines import EngineSource


class EngineSourceFields(fields.VerbRequest):
    """Further facts about an engine."""

    onnx: File | None = option(
        None,
        "Its ONNX file, for FLOPs and requested types.",
        kind=FILE,
        stays="read locally",
    )
    gpu: str | None = option(None, "Use the roofline of this GPU: 'NVIDIA H200'.", metavar="NAME")


class LayersView(JsonView):
    """Which layers are shown, and in which form."""

    top: int = option(20, "Number of layers to show.", least=1)
    show_all: bool = option(False, "Show all layers.", ("--all",))
    as_csv: bool = option(False, "Print all rows as CSV.", ("--csv",))

    @property
    def most(self) -> int | None:
        return None if self.show_all else self.top


class DiffRequest(EngineSourceFields, fields.StoreFields, kw_only=False):
    """Compare the layers of two engines: runs, or files of trtexec."""

    a: Annotated[File, Argument("A run, a folder, or files of trtexec, joined by commas.", "A")]
    b: Annotated[File, Argument("The same, for the other engine.", "B")]


class DiffView(LayersView):
    """What is shown of two engines."""

    why: bool = option(False, "Rank the causes why B is not faster than A.")
    output: File | None = fields.output_path(None, "Write all rows to FILE.csv or .json.")


def run(request: DiffRequest, caller: Caller) -> tuple[EngineSource, EngineSource]:
    from trtbench.workflows.engines import engine_from_arguments

    store, _ = caller.store_and_settings(request)

    def read(side: str) -> EngineSource:
        words = [side] if Path(side).exists() else [part for part in side.split(",") if part]
        return engine_from_arguments(words, store=store, onnx=request.onnx, gpu=request.gpu)

    return read(str(request.a)), read(str(request.b))


def show(engines: tuple[EngineSource, EngineSource], request: DiffRequest, view: DiffView) -> None:
    from trtbench.host.files import write_output
    from trtbench.layers.diff import difference, rows_from_diff
    from trtbench.report.sections.layers import document_from_diff, document_from_why
    from trtbench.workflows import engines as layers

    labels = layers.engine_labels(request.a, request.b)
    if view.why:
        found = layers.find_causes(*engines, (request.a, request.b))
        notes = layers.diff_notes(*engines, found.diff, labels)
        causes = document_from_why(found, labels, show_all=view.show_all, notes=notes)
        print_json(causes.data) if view.as_json else draw(causes)
        return
    a, b = engines
    diff = difference(a.table, b.table, a.facts, b.facts)
    rows = rows_from_diff(diff)
    if view.output:
        text = layers.rows_text(rows, ending=Path(view.output).suffix)
        say(f"wrote {write_output(Path(view.output), text, named=True)}")
    notes = layers.diff_notes(a, b, diff, ("A", "B"))
    document = document_from_diff(diff, labels, top=view.most, notes=notes)
    if view.as_json:
        print_json(document.data)
    elif view.as_csv:
        write(layers.rows_text(rows))
    else:
        draw(document)


def frame(request: DiffRequest, caller: Caller) -> DataFrame:
    from trtbench.core.plugins import optional_library
    from trtbench.layers.diff import difference, rows_from_diff

    a, b = run(request, caller)
    return optional_library("pandas").DataFrame(rows_from_diff(difference(a.table, b.table)))


def causes(request: DiffRequest, caller: Caller) -> Why:
    from trtbench.workflows.engines import find_causes

    return find_causes(*run(request, caller), (request.a, request.b))


verb = Verb(DiffRequest, run, show, DiffView)
diff = python_function(DiffRequest, frame)
why = python_function(DiffRequest, causes)
