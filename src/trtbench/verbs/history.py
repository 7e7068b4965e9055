"""Show series of runs over time, and where they changed.

A series has the same model, runtime, precision, shape and machine. A change of level is marked
with what changed around it (library versions, driver, the model's bytes). It needs 2 % or more,
p below 0.001 and five runs on each side, and is confirmed when two further runs agree.

Examples:
  trtbench history resnet18 --since 30d
  trtbench history --changes -o artifacts/history
  trtbench gate model.onnx --baseline best --max-slowdown 3%
  >>> trtbench.history("resnet18", since="30d").series
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.units import counted
from trtbench.requests.fields import words_from_text
from trtbench.requests.stored import HistoryRequest
from trtbench.verbs._screen import draw, print_json, say
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.workflows.runs import History


def run(request: HistoryRequest, caller: Caller) -> History:
    from trtbench.report.compose import write_document
    from trtbench.report.sections.history import document_from_series
    from trtbench.workflows.runs import read_history

    store, _ = caller.store_and_settings(request)
    found = read_history(request, store=store)
    if request.output is not None and found.series:
        folder, formats = Path(request.output), words_from_text(request.format)
        paths = write_document(document_from_series(found.series), folder, formats=formats)
        caller.say(f"wrote {', '.join(map(str, paths))}")
    return found


def show(found: History, request: HistoryRequest, view: JsonView) -> None:
    from trtbench.report.sections.history import document_from_series

    if view.as_json:
        print_json({"series": found.series, "left_out": found.left_out})
    elif found.series:
        draw(document_from_series(found.series).having(title="").with_figures(()))
    for why, count in found.left_out.items():
        say(f"{counted(count, 'run')} left out: {why}")
    if not found.series:
        what = "that changed" if request.changes else f"of {request.least} or more comparable runs"
        say(f"no series {what}; all runs: trtbench runs")


verb = Verb(HistoryRequest, run, show, JsonView)
history = python_function(HistoryRequest, run)
