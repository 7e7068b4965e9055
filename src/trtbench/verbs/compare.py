"""Compare models, engines or stored runs: which is faster, with what confidence.

Files are measured now, both sides in turn, in several fresh launches; stored runs are compared as
they are. -r and --python are given once for all sides or once per side, in order; without a
candidate, all sides use the same model. The first line is the answer; -v shows how it was measured.
Sides with other inputs or conditions cannot be compared: exit status 3.

With --builds N, ONNX files are built N times: a builder chooses kernels by timing them, so builds
of one model differ. One model alone: reports whether bytes, layers, kernels and latency differ
between builds, and how many builds a comparison needs. One model with two runtimes, or with two
interpreters that have different versions of TensorRT: compares their speed over several builds
(trtbench check compares outputs). Two models: compares the networks by pairs of builds.

With --why, explains why two runs of one model differ: lists every condition that is different and
what is known about its effect.

Examples:
  trtbench compare model.onnx model.int8.onnx --batch 8
  trtbench compare model.onnx -r onnxruntime -r torch
  trtbench compare model.onnx --python ~/ort-1.20/bin/python \\
      --python ~/ort-1.27/bin/python
  trtbench compare tag:release last
  trtbench compare model.onnx model.onnx
  trtbench compare old.onnx new.onnx --builds 3
  trtbench compare model.onnx --builds 5 --build precision=fp16
  trtbench compare model.onnx --builds 3 --python ~/trt86/bin/python \\
      --python ~/trt10/bin/python
  trtbench compare last tag:trtexec --why
  trtbench compare serve-run trtexec.log,times.json --why
  >>> trtbench.compare("model.onnx", "model.int8.onnx", batch=8).verdicts[0].kind
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trtbench.core.errors import EXIT_BROKEN, UsageError
from trtbench.requests.fields import option
from trtbench.requests.measure import CompareRequest
from trtbench.requests.stored import ExplainRequest
from trtbench.verbs import _verb
from trtbench.verbs._screen import draw, print_json, say, show_value

if TYPE_CHECKING:
    from trtbench.analysis.builds import Lottery, NetworksCompared
    from trtbench.analysis.stored_comparison import Ladder
    from trtbench.core.results import Compared, Comparison

    Pairs: TypeAlias = Sequence[Compared | NetworksCompared]


class WhyRequest(CompareRequest):
    """Compare models, or explain the difference between two runs."""

    why: bool = option(False, "Explain the difference between two runs of one model.")


class CompareView(_verb.JsonView):
    """How the result is printed, and the name of the table."""

    output_name: str | None = option(
        None, "Name of the table (default: <base>_vs_<cand>.csv).", metavar="NAME"
    )
    verbose: bool = option(False, "Also show how the sides were measured.", ("-v", "--verbose"))
    explain: bool = option(False, "Explain every finding: its meaning, evidence and remedy.")


def run(request: WhyRequest, caller: _verb.Caller) -> Pairs | Lottery | Ladder:
    if not request.why:
        return compare_all(request, caller)
    if len(request.candidates) != 1:
        message = "--why explains the difference between two runs"
        raise UsageError(message, fix="trtbench compare last tag:NAME --why")
    sides = {"run": request.baseline, "against": request.candidates[0]}
    return explain_difference(ExplainRequest(**sides, store=request.store), caller)


def compare_all(request: CompareRequest, caller: _verb.Caller) -> Pairs | Lottery:
    from trtbench.compare.compare import compare

    config = caller.settings(request.store)
    store = caller.store(config, at_once=request.builds is not None)  # else after workers
    if request.output is not None:
        _verb.refuse_unwritable(Path(request.output))
    elif request.builds is not None:
        request = request.having(output=_verb.output_of(request, None, "compare"))
    with caller.executing(request, config, "compare") as execution:
        if request.builds is None:
            return compare(request, store=store, config=config, execution=execution)
        from trtbench.workflows.builds import Builds

        return Builds(request=request, store=store, config=config, execution=execution).compare()


def explain_difference(request: ExplainRequest, caller: _verb.Caller) -> Ladder:
    from trtbench.analysis.stored_comparison import ladder_from_runs
    from trtbench.workflows.engines import load_run

    store, _ = caller.store_and_settings(request)
    return ladder_from_runs(*(load_run(str(e), store) for e in (request.run, request.against)))


def show(found: Pairs | Lottery | Ladder, request: WhyRequest, view: CompareView) -> int | None:
    from trtbench.analysis.builds import Lottery, NetworksCompared
    from trtbench.analysis.stored_comparison import Ladder
    from trtbench.compare.compare import csv_name, write_comparison
    from trtbench.report.sections import verdicts

    if isinstance(found, Lottery):
        show_value(found, verdicts.document_from_lottery, as_json=view.as_json)
        return None
    if isinstance(found, Ladder):
        from trtbench.workflows.engines import engine_labels

        labels = engine_labels(str(request.baseline), str(request.candidates[0]))
        document = verdicts.document_from_ladder(found, labels)
        print_json(document.data) if view.as_json else draw(document)
        return None
    networks = [each for each in found if isinstance(each, NetworksCompared)]
    pairs = [each for each in found if not isinstance(each, NetworksCompared)]
    if view.as_json:
        printed = [
            {
                "comparison": each.comparison,
                "mode": each.mode,
                "interference": getattr(each, "interference", None),
                "builds": (each.baseline, each.candidate) if each in networks else None,
            }
            for each in found
        ]
        print_json(printed[0] if len(printed) == 1 else printed)
    elif networks:
        draw(verdicts.document_from_networks(networks))
    else:
        draw(verdicts.document_from_comparisons(pairs, verbose=view.verbose, explain=view.explain))
    if view.output_name and len(pairs) > 1:
        fix = "leave --output-name out: each table is named after its candidate"
        raise UsageError("--output-name names one table, and there are several candidates", fix=fix)
    taken = set[str]()
    folder = _verb.output_of(request, request.output, "compare") if pairs else Path()
    for pair in pairs:
        models = (run.record.spec.model.name for run in (pair.baseline, pair.candidate))
        name = view.output_name or csv_name(*models)
        if name in taken:  # one model on several devices
            name = f"{name.removesuffix('.csv')}_{pair.candidate.id}.csv"
        taken.add(name)
        path = write_comparison(pair, folder / name)
        say(f"table {path}, runs {pair.baseline.id} and {pair.candidate.id}")
    heads = [each.comparison.verdicts[0].kind for each in found]
    return EXIT_BROKEN if "incomparable" in heads else None


def first_comparison(request: CompareRequest, caller: _verb.Caller) -> Comparison:
    if request.builds is not None and len(request.models) == 1:
        raise UsageError(
            "compare needs two models; compare_builds compares several builds of one",
            fix=f"trtbench.compare_builds({str(request.baseline)!r}, builds={request.builds})",
        )
    found = compare_all(request, caller)
    assert isinstance(found, Sequence)
    return found[0].comparison


def compare_builds_of_one(
    request: CompareRequest, caller: _verb.Caller
) -> Lottery | NetworksCompared:
    from trtbench.analysis.builds import Lottery, NetworksCompared

    if request.candidates or request.builds is None:
        raise UsageError("compare_builds compares builds of one model", fix="builds=5")
    found = compare_all(request, caller)
    one = found if isinstance(found, Lottery) else found[0]
    assert isinstance(one, Lottery | NetworksCompared)
    return one


BUILDS = """Build one model several times, and compare the engines.

With two runtimes, or two interpreters with different versions of TensorRT, each builds it.

Examples:
  >>> trtbench.compare_builds("model.onnx", builds=5, precision="fp16").spread.between
  >>> trtbench.compare_builds("model.onnx", builds=3, python=["trt86/bin/python", "python3"])
"""

verb = _verb.Verb(WhyRequest, run, show, CompareView, task="images")
compare = _verb.python_function(CompareRequest, first_comparison)
compare_builds = _verb.python_function(CompareRequest, compare_builds_of_one, doc=BUILDS)
explain = _verb.python_function(ExplainRequest, explain_difference)
