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

from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trtbench.core.errors import UsageError, refuse_unknown
from trtbench.requests import fields
from trtbench.requests.fields import FILE, Argument, File, option
from trtbench.verbs._screen import draw, print_json, say, write
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.layers.diff import EngineDiff, Lineup, Row, Why
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
    more: Sequence[File] = fields.argument((), "Further engines.", "[MORE]...", needed=False)
    _: KW_ONLY
    by: str | None = option(
        None, "Times of groups in each engine: kind, operator, precision, block.", metavar="KEY"
    )


class DiffView(LayersView):
    """What is shown of the engines."""

    why: bool = option(False, "Rank the causes why B is not faster than A.")
    draw: File | None = option(
        None, "Draw a bar per engine, stacked by kind or --by, as FILE.png.", kind=FILE
    )
    output: File | None = fields.output_path(None, "Write all rows to FILE.csv or .json.")


def run(request: DiffRequest, caller: Caller) -> list[EngineSource]:
    from trtbench.workflows.engines import engine_from_arguments

    store, _ = caller.store_and_settings(request)

    def read(side: str) -> EngineSource:
        words = [side] if Path(side).exists() else [part for part in side.split(",") if part]
        return engine_from_arguments(words, store=store, onnx=request.onnx, gpu=request.gpu)

    return [read(str(side)) for side in (request.a, request.b, *request.more)]


def show(engines: list[EngineSource], request: DiffRequest, view: DiffView) -> None:
    from trtbench.host.files import write_output
    from trtbench.layers.diff import Lineup
    from trtbench.report.renderers.png import png_bytes
    from trtbench.report.sections import layers as sections
    from trtbench.workflows import engines as layers

    words = (request.a, request.b, *request.more)
    labels = layers.engine_labels(*words)
    if view.draw:
        refuse_unknown(Path(view.draw).suffix.lower(), (".png",), f"{view.draw} is no PNG file")
        by = request.by or "kind"
        figure = sections.lineup_figure(layers.line_up(engines, by), labels, by=by)
        say(f"wrote {write_output(Path(view.draw), png_bytes(figure), named=True)}")
    if view.why:
        why = _causes(engines, request)
        notes = layers.diff_notes(engines, why.diff.notes, labels)
        causes = sections.document_from_why(why, labels, show_all=view.show_all, notes=notes)
        print_json(causes.data) if view.as_json else draw(causes)
        return
    found, rows = _compared(engines, request)
    if view.output:
        text = layers.rows_text(rows, ending=Path(view.output).suffix)
        say(f"wrote {write_output(Path(view.output), text, named=True)}")
    notes = layers.diff_notes(engines, found.notes, found.names)
    if isinstance(found, Lineup):
        document = sections.document_from_lineup(found, labels, top=view.most, notes=notes)
    else:
        document = sections.document_from_diff(found, labels, top=view.most, notes=notes)
    if view.as_json:
        print_json(document.data)
    elif view.as_csv:
        write(layers.rows_text(rows))
    else:
        draw(document)


def _compared(
    engines: Sequence[EngineSource], request: DiffRequest
) -> tuple[EngineDiff | Lineup, list[Row]]:
    """Return the changes between two engines, or the times of layers or groups in each."""
    from trtbench.layers.diff import difference, rows_from_diff, rows_from_lineup
    from trtbench.workflows.engines import line_up

    if len(engines) > 2 or request.by is not None:
        lined = line_up(engines, request.by)
        return lined, rows_from_lineup(lined)
    a, b = engines
    found = difference(a.table, b.table, a.facts, b.facts)
    return found, rows_from_diff(found)


def frame(request: DiffRequest, caller: Caller) -> DataFrame:
    from trtbench.core.plugins import optional_library

    _, rows = _compared(run(request, caller), request)
    return optional_library("pandas").DataFrame(rows)


def causes(request: DiffRequest, caller: Caller) -> Why:
    return _causes(run(request, caller), request)


def _causes(engines: Sequence[EngineSource], request: DiffRequest) -> Why:
    from trtbench.workflows.engines import find_causes

    if request.more or request.by is not None:
        raise UsageError("causes are found for two engines, layer by layer", fix="give A and B")
    a, b = engines
    return find_causes(a, b, (request.a, request.b))


verb = Verb(DiffRequest, run, show, DiffView)
diff = python_function(DiffRequest, frame)
why = python_function(DiffRequest, causes)
