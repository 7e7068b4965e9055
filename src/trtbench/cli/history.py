"""``trtbench history``: how measurements went over time, and where they changed."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.units import counted
from trtbench.workflows.request.keeping import HistoryRequest
from trtbench.workflows.request.kinds import words_from_text


@click.command("history", short_help="Series of runs over time, and where they changed.")
@flags(HistoryRequest)
@json_option
def command(request: HistoryRequest, as_json: bool) -> None:
    """Show series of runs over time: same model, runtime, precision, shape and machine.

    A change of level is marked with what changed around it (library versions, driver, the
    model's bytes). It needs 2 % or more, p below 0.001 and five runs on each side, and is
    confirmed when two further runs agree.

    \b
    Examples:
      trtbench history resnet18 --since 30d
      trtbench history --changes -o artifacts/history
      trtbench history model.onnx --reference reference.onnx
      trtbench gate model.onnx --baseline best --max-slowdown 3%
    """

    from trtbench.cli._screen import print_json, say, show
    from trtbench.cli._settings import open_store_of
    from trtbench.report.documents.history import document_from_series
    from trtbench.workflows.stored.history import read_history, write_history

    store, _ = open_store_of(request)
    found = read_history(request, store=store)
    if as_json:
        from trtbench.cli._outputs import HistoryOutput

        print_json(HistoryOutput(series=found.series, left_out=found.left_out))
    elif found.series:
        show(document_from_series(found.series).having(title="").with_figures(()))
    for why, count in found.left_out.items():
        say(f"{counted(count, 'run')} left out: {why}")
    if not found.series:
        what = "that changed" if request.changes else f"of {request.least} or more runs alike"
        say(f"no series {what}; all runs: trtbench runs")
    elif request.output is not None:
        formats = words_from_text(request.format)
        paths = write_history(found, Path(request.output), formats=formats)
        say(f"written: {', '.join(map(str, paths))}")
