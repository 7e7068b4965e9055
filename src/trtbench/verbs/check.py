"""Run models on the same inputs and compare their outputs.

Every CANDIDATE is compared with REFERENCE: models, engines and checkpoints, each through its own
runtime and interpreter: -r and --python are given once for all sides or once per side, in order,
the reference first. An element is close when |candidate - reference| <= atol + rtol * |reference|.

PASS if all outputs have the same names and shapes, are finite, and have the SQNR that is usual for
the lower precision of the two sides (80 dB for FP32, 50 for TF32, 40 for FP16, 35 for BF16, 20 for
INT8 and FP8, on random inputs 15) or only close elements. Otherwise FAIL, with exit status 3.
--expect replaces these rules.

Examples:
  trtbench check model.onnx model.engine --random 5000
  trtbench check model.onnx model.fp16.engine model.int8.engine \\
      --data photos --batch 8
  trtbench check a.engine b.engine --python ~/trt10/bin/python \\
      --python ~/trt11/bin/python
  trtbench check model.onnx model.engine --expect 'max_abs<=0.1' \\
      --expect 'argmax_match>=99%'
  >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
  >>> checked.passed, checked.candidates[0].reasons
  >>> checked.candidates[0].checks[0].sqnr_db
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.core.errors import EXIT_BROKEN, BrokenRuleError
from trtbench.requests.models import CheckRequest
from trtbench.verbs._screen import draw, print_json
from trtbench.verbs._verb import BriefView, Caller, Verb, python_function, refuse_unwritable

if TYPE_CHECKING:
    from trtbench.analysis.check import Checked


def run(request: CheckRequest, caller: Caller) -> Checked:
    from trtbench.accuracy.check import attach_checks, run_check, write_files
    from trtbench.analysis.check import rule_from_text
    from trtbench.report.sections.accuracy import document_from_check
    from trtbench.store.store import output_folder

    for text in request.expect:  # invalid rules are refused before anything runs
        rule_from_text(text)
    store, config = caller.store_and_settings(request)
    request = request.having(output=(output := output_folder(store, request.output, "check")))
    refuse_unwritable(output)
    with caller.executing(request, config, "check") as execution:
        checked = run_check(request, store=store, config=config, execution=execution)
        with caller.writing_result():
            paths = write_files(output / "check", checked, document_from_check(checked))
            caller.closing.append(f"wrote {', '.join(map(str, paths))}")
        with caller.writing_result():
            joined = attach_checks(checked, store)
            if joined:
                more = " ..." if len(joined) > 5 else ""
                caller.closing.append(f"added to the runs {', '.join(joined[:5])}{more}")
    return checked


def check_or_raise(request: CheckRequest, caller: Caller) -> Checked:
    checked = run(request, caller)
    broken = {
        f"{candidate.side.model.name} {number}": reason
        for candidate in checked.candidates
        for number, reason in enumerate(candidate.reasons, start=1)
    }
    if request.expect and broken:  # the default rules are reported in the result
        raise BrokenRuleError("expectation failed", facts=broken)
    return checked


def show(checked: Checked, request: CheckRequest, view: BriefView) -> int | None:
    from trtbench.measure.bench import raise_if_failed

    if view.as_json:
        print_json({"check": checked})
    else:
        from trtbench.report.sections.accuracy import document_from_check

        draw(document_from_check(checked, brief=not view.verbose))
    if not all(each.passed for each in checked.candidates):
        return EXIT_BROKEN
    raise_if_failed(checked.failed, what="not all candidates could be checked")
    return None


verb = Verb(CheckRequest, run, show, BriefView, task="images")
check = python_function(CheckRequest, check_or_raise)
