"""Find the layers that cost a low-precision model its accuracy.

REFERENCE and CANDIDATE are the same network; CANDIDATE is an ONNX file in INT8, FP8, FP16 or BF16.
Groups of nodes are restored to the reference's precision and ranked by the accuracy this gains:
by the metric of --task if --data is given, else by the outputs. --repair keeps as few groups in
the reference's precision as --where allows; exit status 3 if no repair meets --where.

Examples:
  trtbench localize model.onnx model.int8.onnx
  trtbench localize model.onnx model.fp16.onnx --repair
  trtbench localize model.onnx model.int8.onnx --task classification \\
      --data val --repair --where 'top1>=baseline-0.5'
  trtbench localize model.onnx model.int8.onnx --data data.npz \\
      --repair --where 'sqnr>=30dB' --max-time 10min
  >>> found = trtbench.localize("model.onnx", "model.int8.onnx", repair=True, where="sqnr>=30dB")
  >>> found.found.groups[0].node, found.repaired
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import BrokenRuleError
from trtbench.requests.models import LocalizeRequest
from trtbench.verbs._screen import say, show_value
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function, refuse_unwritable

if TYPE_CHECKING:
    from trtbench.core.results import Localization


def run(request: LocalizeRequest, caller: Caller) -> Localization:
    from trtbench.accuracy.localize import run_localize
    from trtbench.store.store import output_folder

    store, config = caller.store_and_settings(request)
    request = request.having(output=output_folder(store, request.output, "localize"))
    refuse_unwritable(Path(str(request.output)))
    with caller.executing(request, config, "localize") as execution:
        return run_localize(request, store=store, config=config, execution=execution)


def show(result: Localization, request: LocalizeRequest, view: JsonView) -> None:
    from trtbench.report.sections.accuracy import document_from_localized

    show_value(result, document_from_localized, as_json=view.as_json)
    made = (result.repaired,) if result.repaired else ()
    if wrote := (*made, *result.files):
        say(f"wrote {', '.join(wrote)}")
    if result.found.met is False:
        message = "no repair meets the condition"
        raise BrokenRuleError(message, facts={"condition": result.found.where})


verb = Verb(LocalizeRequest, run, show, JsonView, task="all")
localize = python_function(LocalizeRequest, run)
