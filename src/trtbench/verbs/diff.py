"""Compare two engines layer by layer: what got slower, what was fused.

A and B are runs, or files of trtexec (several joined by commas). Layers meet by the ONNX nodes
they came from, then by name, then by their place in the graph. A profile brings along the layer
information beside it. --why ranks the causes why B is not faster than A by what they explain of
the time that is missing.

Examples:
  trtbench diff tag:fp16 tag:int8
  trtbench diff fp16.profile.json int8.profile.json --all
  trtbench diff old/ new/ --csv
  trtbench diff tag:fp16 tag:int8 --why
  trtbench diff fp16.profile.json int8.profile.json --why --gpu 'NVIDIA H200'
  >>> trtbench.diff("tag:fp16", "tag:int8")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trtbench.requests.fields import FILE, Argument, File, option
from trtbench.requests.groups import StoreFields
from trtbench.verbs._layers import EngineSourceFields, LayersView
from trtbench.verbs._screen import draw, print_json, say, write
from trtbench.verbs._verb import Caller, Verb, python_function

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.layers.diff import Why
    from trtbench.workflows.engines import EngineSource


@dataclass(frozen=True)
class DiffRequest(EngineSourceFields, StoreFields):
    """Align the layers of two engines: runs, or files of trtexec."""

    a: Annotated[File, Argument("A run, a folder, or files of trtexec, joined by commas.", "A")]
    b: Annotated[File, Argument("The other one.", "B")]


@dataclass(frozen=True, kw_only=True)
class DiffView(LayersView):
    """What is shown of two engines."""

    why: bool = option(False, "Rank the causes why B is not faster than A.")
    output: File | None = option(
        None, "Write all rows to FILE.csv, .json or .parquet.", ("-o", "--output"), kind=FILE
    )


def run(request: DiffRequest, caller: Caller) -> tuple[EngineSource, EngineSource]:
    from trtbench.workflows.engines import two_engines

    store, _ = caller.opened(request)
    return two_engines(request.a, request.b, store=store, onnx=request.onnx, gpu=request.gpu)


def show(engines: tuple[EngineSource, EngineSource], request: DiffRequest, view: DiffView) -> None:
    from trtbench.layers.diff import rows_from_diff
    from trtbench.workflows import engines as layers

    labels = layers.labels_of(request.a, request.b)
    if view.why:
        found = layers.why_of(*engines)
        causes = layers.why_document(*engines, found, show_all=view.show_all, labels=labels)
        print_json(causes.data) if view.as_json else draw(causes)
        return
    diff = layers.diff_of(*engines)
    rows = rows_from_diff(diff)
    if view.output:
        say(f"written: {layers.write_rows(rows, Path(view.output))}")
    document = layers.diff_document(*engines, diff, top=view.most, labels=labels)
    if view.as_json:
        print_json(document.data)
    elif view.as_csv:
        write(layers.csv_of(rows))
    else:
        draw(document)
    if view.draw:
        say(f"drawn: {layers.draw_diff(diff, *engines, Path(view.draw), labels=labels)}")


def frame(request: DiffRequest, caller: Caller) -> DataFrame:
    from trtbench.layers.diff import rows_from_diff
    from trtbench.workflows.engines import diff_of, frame_of

    return frame_of(rows_from_diff(diff_of(*run(request, caller))))


def causes(request: DiffRequest, caller: Caller) -> Why:
    from trtbench.workflows.engines import why_of

    return why_of(*run(request, caller))


verb = Verb(DiffRequest, run, show, DiffView)
diff = python_function(DiffRequest, frame)
why = python_function(DiffRequest, causes)
