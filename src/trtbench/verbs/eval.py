"""Evaluate models on labelled data.

Each MODEL runs through its own runtime. Scores are added to all stored runs of the same model
file, and reports show them. Latency is measured in the same pass and is valid for this pass only;
bench measures it alone. In Python the flags of the task are ``settings``, with underscores.

Examples:
  trtbench eval model.onnx model.engine --task classification --data val \\
      --batch 8
  trtbench eval yolo.onnx yolo.engine --task detection --data data.yaml
  trtbench eval depth.engine --task depth --data images --gt depths \\
      --align least-squares
  trtbench eval yolov8n-pose.onnx --task pose --data images \\
      --annotations people.json
  trtbench eval stgcn.onnx --task classification --data skeletons.npz
  >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
  >>> found.models[0].score("top1").value
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.requests.models import EvalRequest
from trtbench.verbs._screen import say, show_value
from trtbench.verbs._verb import BriefView, Caller, Verb, python_function, refuse_unwritable

if TYPE_CHECKING:
    from trtbench.analysis.pass_times import Evaluation
    from trtbench.report.document import Document


def run(request: EvalRequest, caller: Caller) -> Evaluation:
    from trtbench.accuracy.evaluate import attach_scores, run_evaluation, write_evaluation
    from trtbench.store.store import output_folder

    store, config = caller.store_and_settings(request)
    request = request.having(output=(output := output_folder(store, request.output, "eval")))
    refuse_unwritable(output)
    with caller.executing(request, config, "eval") as execution:
        evaluation = run_evaluation(request, store=store, config=config, execution=execution)
    with caller.writing_result():
        evaluation = attach_scores(evaluation, store)
    with caller.writing_result():
        paths = write_evaluation(evaluation, output)
        caller.closing.append(f"wrote {', '.join(map(str, paths))}")
    return evaluation


def show(evaluation: Evaluation, request: EvalRequest, view: BriefView) -> None:
    from trtbench.measure.bench import raise_if_failed
    from trtbench.report.sections.accuracy import document_from_evaluation

    def document(evaluation: Evaluation) -> Document:
        brief = not view.verbose
        return document_from_evaluation(evaluation, rows=10, brief=brief).with_figures(())

    show_value(evaluation, document, as_json=view.as_json)
    for label, ids in evaluation.joined.items():
        say(f"{label}: scores added to {', '.join(ids[:5])}{' ...' if len(ids) > 5 else ''}")
    raise_if_failed(evaluation.failed, what="not all models could be evaluated")


verb = Verb(EvalRequest, run, show, BriefView, task="all")
evaluate = python_function(EvalRequest, run)
