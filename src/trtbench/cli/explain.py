"""``trtbench explain``: why two numbers of one model differ."""

from __future__ import annotations

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.workflows.request.explaining import ExplainRequest


@click.command("explain", short_help="Why two numbers of one model differ, one step at a time.")
@flags(ExplainRequest)
@json_option
def command(request: ExplainRequest, as_json: bool) -> None:
    """Explain why RUN and OTHER differ: runs, or files of trtexec (joined by commas).

    From what both state, each difference is listed with what the facts allow to say. With
    --measure, RUN's model is measured again and one condition after another is changed to OTHER's.

    \b
    Examples:
      trtbench explain last --against tag:trtexec
      trtbench explain serve-run --against trtexec.log,times.json
      trtbench explain last --against tag:graph --measure
    """
    from trtbench.cli._screen import Talk, show
    from trtbench.cli._settings import open_store_of
    from trtbench.report.documents.ladder import document_from_ladder
    from trtbench.workflows.explain.engines import labels_of
    from trtbench.workflows.explain.ladder import explain_measured, explain_stated, named_run
    from trtbench.workflows.request.conduct import Conduct

    store, config = open_store_of(request)
    run, against = str(request.run), str(request.against)
    a, b = named_run(run, store), named_run(against, store)
    if request.measure:
        with Talk("explain") as talk:
            conduct = Conduct(
                python=config.python_for(a.record.spec.runtime),
                command=f"trtbench explain {run} --against {against} --measure",
                listen=talk,
            )
            found = explain_measured(a, b, store=store, conduct=conduct, launches=request.launches)
        hint = None
    else:
        found = explain_stated(a, b)
        hint = f"to measure every step: trtbench explain {run} --against {against} --measure"
    labels = labels_of(run, against)
    document = document_from_ladder(found.ladder, labels, measured=found.measured, hint=hint)
    show(document, as_json=as_json)
