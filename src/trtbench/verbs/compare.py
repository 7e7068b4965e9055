"""Compare models, engines or stored runs: which is faster, and how sure is that.

Files are measured afresh, both sides in turn, in several fresh launches; stored runs are
compared as they are. -r and --python are given once for all sides or once per side, in order;
without a candidate, the sides are one model.

With --builds N, ONNX files are built so many times, because a builder times kernels while it
chooses them, and each build is a draw. One model alone: bytes, layers, kernels and
latency are each the same or different, and the spread between builds says how many builds a
claim needs. One model with two runtimes, or two interpreters that have two versions of TensorRT:
speed is judged over builds (trtbench check compares outputs). Two models: networks are judged by
pairs of builds.

With --why two runs of one model are explained: each condition in which they differ is listed with
what the facts allow to say.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trtbench.core.errors import UsageError
from trtbench.requests.fields import option
from trtbench.requests.measure import CompareRequest
from trtbench.requests.stored import ExplainRequest
from trtbench.verbs._screen import draw, print_json, say, show_value
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function, refuse_unwritable

if TYPE_CHECKING:
    from trtbench.analysis.builds import Lottery, NetworksCompared
    from trtbench.analysis.stored_comparison import Ladder
    from trtbench.core.results import Compared, Comparison

    Pairs: TypeAlias = Sequence[Compared | NetworksCompared]


@dataclass(frozen=True, kw_only=True)
class WhyRequest(CompareRequest):
    """A comparison, or the reasons of a difference."""

    why: bool = option(False, "Explain the difference between two runs of one model.")


@dataclass(frozen=True, kw_only=True)
class CompareView(JsonView):
    """What the table is called."""

    output_name: str | None = option(
        None, "Name of the table (default: <base>_vs_<cand>.csv).", metavar="NAME"
    )


def run(request: WhyRequest, caller: Caller) -> Pairs | Lottery | Ladder:
    if not request.why:
        return compared(request, caller)
    if len(request.candidates) != 1:
        raise UsageError(
            "--why explains the difference between two runs",
            fix="trtbench compare last tag:NAME --why",
        )
    sides = {"run": request.baseline, "against": request.candidates[0]}
    return explained(ExplainRequest(**sides, store=request.store), caller)


def compared(request: CompareRequest, caller: Caller) -> Pairs | Lottery:
    from trtbench.compare.compare import compare

    config = caller.settings(request.store)
    if caller.on_terminal or request.builds is not None:
        refuse_unwritable(Path(request.output_dir), flag="--output-dir")
    store = caller.store(config, at_once=request.builds is not None)  # else after workers
    with caller.executing(request, config, "compare") as execution:
        if request.builds is None:
            return compare(request, store=store, config=config, execution=execution)
        from trtbench.workflows.builds import Builds

        return Builds(request=request, store=store, config=config, execution=execution).compare()


def explained(request: ExplainRequest, caller: Caller) -> Ladder:
    from trtbench.analysis.stored_comparison import ladder_from_runs
    from trtbench.workflows.engines import named_run

    store, _ = caller.opened(request)
    return ladder_from_runs(*(named_run(str(e), store) for e in (request.run, request.against)))


def show(found: Pairs | Lottery | Ladder, request: WhyRequest, view: CompareView) -> None:
    from trtbench.analysis.builds import Lottery, NetworksCompared
    from trtbench.analysis.stored_comparison import Ladder
    from trtbench.compare.compare import csv_name, write_comparison
    from trtbench.report.sections import verdicts

    if isinstance(found, Lottery):
        show_value(found, verdicts.document_from_lottery, as_json=view.as_json)
        return
    if isinstance(found, Ladder):
        from trtbench.workflows.engines import labels_of

        labels = labels_of(str(request.baseline), str(request.candidates[0]))
        document = verdicts.document_from_ladder(found, labels)
        print_json(document.data) if view.as_json else draw(document)
        return
    networks = [each for each in found if isinstance(each, NetworksCompared)]
    pairs = [each for each in found if not isinstance(each, NetworksCompared)]
    if view.as_json:
        printed: list[dict[str, object]] = [
            {
                "comparison": each.comparison,
                "mode": each.mode,
                "interference": each.interference,
                "builds": None,
            }
            for each in found
        ]
        for each, printing in zip(networks, printed, strict=False):
            printing["builds"] = (each.baseline, each.candidate)
        print_json(printed[0] if len(printed) == 1 else printed)
    elif networks:
        draw(verdicts.document_from_networks(networks))
    else:
        draw(verdicts.document_from_comparisons(pairs))
    if view.output_name and len(pairs) > 1:
        raise UsageError(
            "--output-name names one table, and there are several candidates",
            fix="leave --output-name out: each table is named after its candidate",
        )
    taken: set[str] = set()
    for pair in pairs:
        models = (run.record.spec.model.name for run in (pair.baseline, pair.candidate))
        name = view.output_name or csv_name(*models)
        if name in taken:  # one model on several devices
            name = f"{name.removesuffix('.csv')}_{pair.candidate.id}.csv"
        taken.add(name)
        path = write_comparison(pair, Path(request.output_dir) / name)
        say(f"table {path}, runs {pair.baseline.id} and {pair.candidate.id}")


def first_comparison(request: CompareRequest, caller: Caller) -> Comparison:
    if request.builds is not None and len(request.models) == 1:
        raise UsageError(
            "several builds of one model are no comparison of two",
            fix=f"trtbench.compare_builds({str(request.baseline)!r}, builds={request.builds})",
        )
    found = compared(request, caller)
    assert isinstance(found, Sequence)
    return found[0].comparison


def builds_of_one(request: CompareRequest, caller: Caller) -> Lottery | NetworksCompared:
    from trtbench.analysis.builds import Lottery, NetworksCompared

    if request.candidates or request.builds is None:
        raise UsageError("compare_builds compares builds of one model", fix="builds=5")
    found = compared(request, caller)
    one = found if isinstance(found, Lottery) else found[0]
    assert isinstance(one, Lottery | NetworksCompared)
    return one


BUILDS = """Build one model several times, and compare the engines.

With two runtimes, or two interpreters that have two versions of TensorRT, both build it.

Examples:
  >>> trtbench.compare_builds("model.onnx", builds=5, precision="fp16").spread.between
  >>> trtbench.compare_builds("model.onnx", builds=3, python=["trt86/bin/python", "python3"])
"""

verb = Verb(WhyRequest, run, show, CompareView)
compare = python_function(CompareRequest, first_comparison)
compare_builds = python_function(CompareRequest, builds_of_one, doc=BUILDS)
explain = python_function(ExplainRequest, explained)
