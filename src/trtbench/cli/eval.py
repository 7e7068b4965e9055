"""``trtbench eval``: how right models are at their task, and how fast on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._commands import TaskCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.workflows.request.judging import EvalRequest

if TYPE_CHECKING:
    from trtbench.report.document import Document
    from trtbench.workflows.check.evaluate import Evaluation

SHOWN_ROWS = 10


@click.command("eval", short_help="Accuracy on data with known answers.", cls=TaskCommand)
@flags(EvalRequest)
@json_option
def command(request: EvalRequest, as_json: bool) -> None:
    """Evaluate MODELS on data with known answers, each through its own runtime.

    Scores are kept beside all stored runs of the same bytes, and reports show them there. Latency
    is taken in the same pass: what it says is said about this pass; bench measures it alone.

    \b
    Examples:
      trtbench eval model.onnx model.engine --task classification --data val \\
          --batch 8
      trtbench eval yolo.onnx yolo.engine --task detection --data data.yaml
      trtbench eval depth.engine --task depth --data images --gt depths \\
          --align least-squares
      trtbench eval yolov8n-pose.onnx --task pose --data images \\
          --annotations people.json
      trtbench eval stgcn.onnx --task classification --data skeletons.npz
    """
    from trtbench.cli._screen import say, show_value
    from trtbench.cli._settings import conducting, open_store_of
    from trtbench.workflows.check.evaluate import run_evaluation
    from trtbench.workflows.check.evaluate_files import join, write_evaluation
    from trtbench.workflows.measure.failure import refuse_failed

    (store, config), output = open_store_of(request), Path(request.output)
    refuse_unwritable(output)
    with conducting(request, config, "eval") as conduct:
        evaluation = run_evaluation(request, store=store, config=config, conduct=conduct)
    evaluation = join(evaluation, store, runs=request.join)
    paths = write_evaluation(evaluation, output)
    show_value(evaluation, _document, as_json=as_json)
    say(f"written {', '.join(str(path) for path in paths)}")
    for label, ids in evaluation.joined.items():
        say(f"{label}: joined to {', '.join(ids[:5])}{' ...' if len(ids) > 5 else ''}")
    refuse_failed(evaluation.failed, what="not all models could be evaluated")


def _document(evaluation: Evaluation) -> Document:
    from trtbench.report.documents.evaluation import document_from_evaluation

    return document_from_evaluation(evaluation, rows=SHOWN_ROWS).with_figures(())
